# SPDX-License-Identifier: Apache-2.0
"""Kernels that compute element by element or along a row, against NumPy."""
import math
import unittest

import numpy as np
from common import DeviceTest, nisa, nki, nl, normal, output

ROWS, COLUMNS = 128, 96


def of_one_tile(body, result_shape=None, dtype=nl.float32):
    """A kernel that loads its arguments, and stores the tile that body(result, tiles) fills."""
    @nki.jit
    def kernel(*arrays):
        tiles = [nl.load(a) for a in arrays]
        result = nl.ndarray(result_shape or arrays[0].shape, dtype)
        body(result, *tiles)
        y = output(result.shape, dtype)
        nisa.dma_copy(y, result)
        return y
    return kernel


class Elementwise(DeviceTest):
    def setUp(self):
        self.a, self.b = normal(ROWS, COLUMNS), normal(ROWS, COLUMNS)
        self.column = normal(ROWS, 1)

    def test_tensor_tensor_computes_each_operation(self):
        goldens = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply,
                   "maximum": np.maximum, "minimum": np.minimum, "greater": np.greater,
                   "less_equal": np.less_equal, "logical_and": np.logical_and}
        for name, golden in goldens.items():
            with self.subTest(name):
                kernel = of_one_tile(lambda y, a, b: nisa.tensor_tensor(y, a, b, getattr(nl, name)))
                self.near(kernel(self.a, self.b), golden(self.a, self.b), 1e-6)

    def test_a_tile_is_divided_by_a_tile(self):
        kernel = of_one_tile(lambda y, a, b: nisa.tensor_tensor(y, a, b, nl.divide))
        b = np.sign(self.b) * (np.abs(self.b) + 0.5)
        self.near(kernel(self.a, b.astype(np.float32)), self.a / b, 1e-5)

    def test_tensor_scalar_chains_two_operations(self):
        kernel = of_one_tile(lambda y, a, c: nisa.tensor_scalar(
            y, a, nl.subtract, c, op1=nl.multiply, operand1=3.0))
        self.near(kernel(self.a, self.column), (self.a - self.column) * 3, 1e-5)

    def test_a_reversed_scalar_is_the_left_operand(self):
        kernel = of_one_tile(lambda y, a: nisa.tensor_scalar(y, a, nl.subtract, 2.0, reverse0=True))
        self.near(kernel(self.a), 2 - self.a, 1e-6)

    def test_scalar_tensor_tensor_uses_both(self):
        kernel = of_one_tile(lambda y, a, b, c: nisa.scalar_tensor_tensor(
            y, a, nl.multiply, c, nl.add, b))
        self.near(kernel(self.a, self.b, self.column), self.a * self.column + self.b, 1e-5)

    def test_bits_are_combined_and_shifted(self):
        integers = np.random.default_rng(1).integers(0, 2**31, (ROWS, COLUMNS)).astype(np.uint32)
        kernel = of_one_tile(lambda y, a: nisa.tensor_scalar(y, a, nl.right_shift, 7), dtype=nl.uint32)
        np.testing.assert_array_equal(kernel(integers), integers >> 7)
        kernel = of_one_tile(lambda y, a, b: nisa.tensor_tensor(y, a, b, nl.bitwise_xor),
                             dtype=nl.uint32)
        np.testing.assert_array_equal(kernel(integers, integers >> 3), integers ^ (integers >> 3))

    def test_integers_of_32_bits_are_added_exactly(self):
        big = np.full((ROWS, COLUMNS), 2**24 + 1, np.int32)
        kernel = of_one_tile(lambda y, a, b: nisa.tensor_tensor(y, a, b, nl.add), dtype=nl.int32)
        np.testing.assert_array_equal(kernel(big, np.full_like(big, 2)), big + 2)

    def test_a_cast_to_integers_rounds_to_the_nearest_even_one_and_saturates(self):
        values = np.tile(np.array([0.5, 1.5, -2.5, 300.0, -300.0, 2.4], np.float32), (ROWS, 1))
        kernel = of_one_tile(lambda y, a: nisa.tensor_copy(y, a), dtype=nl.int8)
        np.testing.assert_array_equal(kernel(values)[0], [0, 2, -2, 127, -128, 2])

    def test_activations_are_the_named_functions(self):
        erf = np.vectorize(math.erf)
        goldens = {"exp": np.exp, "tanh": np.tanh, "relu": lambda x: np.maximum(x, 0),
                   "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
                   "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
                   "silu": lambda x: x / (1 + np.exp(-x)), "square": np.square}
        for name, golden in goldens.items():
            with self.subTest(name):
                kernel = of_one_tile(lambda y, a: nisa.activation(y, getattr(nl, name), a))
                self.near(kernel(self.a), golden(self.a.astype(np.float64)), 2e-4)

    def test_an_activation_scales_and_adds_first_and_sums_its_results(self):
        @nki.jit
        def kernel(x, bias):
            tile, b = nl.load(x), nl.load(bias)
            y, total = nl.ndarray(x.shape, nl.float32), nl.ndarray((ROWS, 1), nl.float32)
            nisa.activation_reduce(y, nl.exp, tile, nl.add, total, bias=b, scale=0.5)
            values, sums = output(x.shape), output((ROWS, 1))
            nl.store(values, y)
            nl.store(sums, total)
            return values, sums

        values, sums = kernel(self.a, self.column)
        golden = np.exp(self.a.astype(np.float64) * 0.5 + self.column)
        self.near(values, golden, 1e-3)
        self.near(sums, golden.sum(1, keepdims=True), 1e-2)

    def test_a_reduction_takes_any_free_dimensions(self):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            most, total = nl.ndarray((ROWS, 6), nl.float32), nl.ndarray((ROWS, 4), nl.float32)
            nisa.tensor_reduce(most, nl.maximum, tile, axis=1)
            nisa.tensor_reduce(total, nl.add, tile, axis=2, negate=True)
            a, b = output((ROWS, 6)), output((ROWS, 4))
            nl.store(a, most)
            nl.store(b, total)
            return a, b

        x = normal(ROWS, 4, 6)
        most, total = kernel(x)
        self.near(most, x.max(1), 0)
        self.near(total, -x.sum(2), 1e-5)

    def test_a_scan_carries_its_state_along_the_row(self):
        kernel = of_one_tile(lambda y, a, b: nisa.tensor_tensor_scan(
            y, a, b, 0.0, nl.multiply, nl.add))
        state, golden = np.zeros(ROWS), []
        for i in range(COLUMNS):
            state = self.a[:, i].astype(np.float64) * 0.5 * state + self.b[:, i]
            golden.append(state)
        self.near(kernel(self.a * 0.5, self.b), np.stack(golden, 1), 1e-3)

    def test_statistics_of_halves_are_merged(self):
        def body(y, a):
            stats = nl.ndarray((ROWS, 2, 6), nl.float32)
            for half in range(2):
                nisa.bn_stats(stats[:, half], a[:, half * 48:half * 48 + 48])
            nisa.bn_aggr(y, stats.reshape((ROWS, 12)))
        kernel = of_one_tile(body, (ROWS, 2))
        self.near(kernel(self.a), np.stack([self.a.mean(1), self.a.var(1)], 1), 1e-5)

    def test_a_predicate_chooses_elements(self):
        def body(y, a, b):
            nisa.tensor_copy(y, b)
            mask = nl.ndarray(a.shape, nl.uint8)
            nisa.tensor_scalar(mask, a, nl.greater, 0.0)
            nisa.tensor_copy_predicated(y, a, mask)
        self.near(of_one_tile(body)(self.a, self.b), np.where(self.a > 0, self.a, self.b), 0)

    def test_range_select_keeps_what_lies_between_bounds(self):
        @nki.jit
        def kernel(x, low, high):
            tile, a, b = nl.load(x), nl.load(low), nl.load(high)
            y, most = nl.ndarray(x.shape, nl.float32), nl.ndarray((ROWS, 1), nl.float32)
            nisa.range_select(y, tile, nl.greater_equal, nl.less, a, b, reduce_res=most,
                              range_start=5)
            values, mosts = output(x.shape), output((ROWS, 1))
            nl.store(values, y)
            nl.store(mosts, most)
            return values, mosts

        low = np.full((ROWS, 1), 10, np.float32)
        high = np.arange(20, 20 + ROWS, dtype=np.float32).reshape(ROWS, 1)
        values, mosts = kernel(self.a, low, high)
        position = 5 + np.arange(COLUMNS)[None]
        golden = np.where((position >= low) & (position < high), self.a, np.float32(-3.4028235e38))
        self.near(values, golden, 0)
        self.near(mosts, golden.max(1, keepdims=True), 0)

    def test_bfloat16_keeps_eight_bits_of_precision(self):
        x = nki.encode(self.a, "bfloat16")
        kernel = of_one_tile(lambda y, a: nisa.tensor_scalar(y, a, nl.multiply, 3.0),
                             dtype=nl.bfloat16)
        wanted = nki.to_float32(x).astype(np.float64) * 3
        self.near(kernel(x), wanted, 2**-8 * np.abs(wanted).max())

    def test_types_that_numpy_lacks_round_as_ml_dtypes_does(self):
        # Values and bits from the layouts: bfloat16 has 7 mantissa bits, e4m3 3, e5m2 2.
        self.assertEqual(np.asarray(nki.encode([1.00390625, 1.01171875], "bfloat16")).tolist(),
                         [0x3F80, 0x3F82])
        self.assertEqual(np.asarray(nki.encode([240.0, 1.0, 2**-9, 1000.0], "float8_e4m3")).tolist(),
                         [0x77, 0x38, 0x01, 0x78])
        self.assertEqual(np.asarray(nki.encode([57344.0, 1.0], "float8_e5m2")).tolist(),
                         [0x7B, 0x3C])

    def test_a_result_has_the_type_that_holds_both_operands(self):
        a, b = np.full((ROWS, 4), 3, np.int32), np.full((ROWS, 4), 0.5, np.float16)

        @nki.jit
        def kernel(integers, halves):
            i, h = nl.load(integers), nl.load(halves)
            small = nl.ndarray(i.shape, nl.int8)
            nisa.tensor_copy(small, i)
            bits = i.view(nl.uint32)
            found = [i * 1.5, i + h, i + 1, small + 2, small + np.int8(2), h * 2.0, h * np.float16(2), -i,
                     nl.bitwise_and(bits, 1), 1.0 / i, nl.maximum(i, 3.5), nl.add(small, 1, dtype=nl.bfloat16)]
            results = []
            for tile in found:
                results.append(output(tile.shape, tile.dtype))
                nl.store(results[-1], tile)
            return tuple(results)

        wanted = [("float32", 4.5), ("float16", 3.5), ("int32", 4), ("int32", 5), ("int8", 5),
                  ("float32", 1), ("float16", 1), ("int32", -3), ("uint32", 1), ("float32", 1 / 3),
                  ("float32", 3.5), ("bfloat16", 4)]
        for got, (dtype, value) in zip(kernel(a, b), wanted, strict=True):
            self.assertEqual(nki.dtypes.array_dtype(got), dtype)
            self.near(got, np.full((ROWS, 4), value), 1e-6)

    def test_types_of_two_tiles_widen_as_nki_says(self):
        for a, b, wanted in (("uint16", "tfloat32", "tfloat32"), ("float16", "bfloat16", "float32"),
                             ("float8_e4m3", "bfloat16", "bfloat16"), ("float8_e4m3", "float8_e5m2", "bfloat16"),
                             ("float32", "tfloat32", "float32"), ("uint8", "uint16", "uint16"),
                             ("uint16", "int32", "int32"), ("int8", "uint8", "int16"),
                             ("int8", "uint16", "int32"), ("int32", "uint32", "float32")):
            for first, second in ((a, b), (b, a)):
                self.assertEqual(nki.elementwise.common_type(first, second), wanted)


if __name__ == "__main__":
    unittest.main()
