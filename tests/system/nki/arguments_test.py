# SPDX-License-Identifier: Apache-2.0
"""Documented arguments of calls beside their common forms: the values beside NumPy's, and what is refused."""
import unittest

import numpy as np
from common import DeviceTest, nisa, nki, nl, normal, output

ROWS, COLUMNS = 64, 48
random = np.random.default_rng(41)


def stored(tile):
    y = output(tile.shape, tile.dtype)
    nisa.dma_copy(dst=y, src=tile)
    return y


def kernel_of(body, dtype=nl.float32, shape=None):
    """A kernel that loads its arrays and stores the tile that body(result, tiles) fills."""
    @nki.jit
    def kernel(*arrays):
        tiles = [nl.load(a) for a in arrays]
        result = nl.ndarray(shape or arrays[0].shape, dtype)
        body(result, *tiles)
        return stored(result)
    return kernel


def arithmetic_on_scalar():
    """What the Scalar engine has from trn3 on."""
    scalar = nisa.engine.scalar
    return (lambda y, a, c: nisa.tensor_scalar(y, a, nl.subtract, c, reverse0=True, op1=nl.maximum, operand1=0.25,
                                               engine=scalar),
            lambda y, a, c: nisa.tensor_scalar(y, a, nl.greater, c, engine=scalar),
            lambda y, a, c: nisa.tensor_scalar(y, a, nl.mod, c, engine=scalar))


class Arithmetic(DeviceTest):
    def setUp(self):
        self.a, self.b = normal(ROWS, COLUMNS) * 9, normal(ROWS, COLUMNS)
        self.b = (np.sign(self.b) * (np.abs(self.b) + 0.25)).astype(np.float32)
        self.column = (np.abs(normal(ROWS, 1)) + 0.5).astype(np.float32)

    def test_mod_has_the_sign_of_the_divisor(self):
        for engine in (nisa.engine.unknown, nisa.engine.vector, nisa.engine.gpsimd):
            kernel = kernel_of(lambda y, a, b, e=engine: nisa.tensor_tensor(y, a, b, nl.mod, engine=e))
            np.testing.assert_array_equal(kernel(self.a, self.b), np.mod(self.a, self.b))
        kernel = kernel_of(lambda y, a, c: nisa.tensor_scalar(y, a, nl.mod, c, op1=nl.mod, operand1=-0.75))
        np.testing.assert_array_equal(kernel(self.a, self.column),
                                      np.mod(np.mod(self.a, self.column), np.float32(-0.75)))
        kernel = kernel_of(lambda y, a: nisa.tensor_scalar(y, a, nl.mod, 7.0, reverse0=True))
        np.testing.assert_array_equal(kernel(self.b), np.mod(np.float32(7), self.b))

    def test_mod_of_integers_is_exact(self):
        x = random.integers(-2**31, 2**31, (ROWS, COLUMNS)).astype(np.int32)
        y = random.integers(-2**20, 2**20, (ROWS, COLUMNS)).astype(np.int32) * 2 + 1
        kernel = kernel_of(lambda r, a, b: nisa.tensor_tensor(r, a, b, nl.mod), nl.int32)
        np.testing.assert_array_equal(kernel(x, y), np.mod(x, y))

    def test_the_language_s_mod_is_the_instruction_s(self):
        @nki.jit
        def kernel(a, b):
            return stored(nl.mod(nl.load(a), nl.load(b))), stored(nl.mod(nl.load(a), 2.5))

        both, number = kernel(self.a, self.b)
        np.testing.assert_array_equal(both, np.mod(self.a, self.b))
        np.testing.assert_array_equal(number, np.mod(self.a, np.float32(2.5)))

    def test_a_scalar_is_divided_by_a_tile_with_one_rounding(self):
        kernel = kernel_of(lambda y, b: nisa.tensor_scalar(y, b, nl.divide, 3.0, reverse0=True))
        np.testing.assert_array_equal(kernel(self.b), np.float32(3) / self.b)
        kernel = kernel_of(lambda y, b, c: nisa.tensor_scalar(y, b, nl.divide, c, reverse0=True))
        np.testing.assert_array_equal(kernel(self.b, self.column), self.column / self.b)

    def test_gpsimd_divides_where_it_is_named(self):
        kernel = kernel_of(lambda y, a, b: nisa.tensor_tensor(y, a, b, nl.divide, engine=nisa.engine.gpsimd))
        np.testing.assert_array_equal(kernel(self.a, self.b), self.a / self.b)
        engines = {line.engine for line in kernel.profile(self.a, self.b).lines}
        self.assertTrue("GpSimd" in engines and "Vector" not in engines, engines)

    def test_average_is_an_operation_of_tiles_and_scalars(self):
        kernel = kernel_of(lambda y, a, b: nisa.tensor_tensor(y, a, b, nl.average))
        np.testing.assert_array_equal(kernel(self.a, self.b), (self.a + self.b) / 2)
        kernel = kernel_of(lambda y, a, c: nisa.tensor_scalar(y, a, nl.average, c))
        np.testing.assert_array_equal(kernel(self.a, self.column), (self.a + self.column) / 2)

    def test_check_knows_them(self):
        @nki.jit
        def kernel(a, b, c):
            a, b, c = nl.load(a), nl.load(b), nl.load(c)
            nisa.tensor_tensor(a, a, b, nl.average)
            nisa.tensor_scalar(b, b, nl.divide, c, reverse0=True)
            nisa.tensor_tensor(a, a, b, nl.mod)
            return stored(a)

        report = kernel.check(self.a, self.b, self.column)
        self.assertEqual(report.not_interpreted, {})


class Bits(DeviceTest):
    def setUp(self):
        self.x = random.integers(0, 2**32, (ROWS, COLUMNS)).astype(np.uint32)
        self.count = random.integers(0, 32, (ROWS, COLUMNS)).astype(np.uint32)
        self.column = random.integers(0, 2**32, (ROWS, 1)).astype(np.uint32)

    def test_two_operations_in_one_call(self):
        cases = (
            (lambda y, x, c: nisa.tensor_scalar(y, x, nl.right_shift, 8, op1=nl.bitwise_and, operand1=0xFF),
             self.x >> 8 & 0xFF),
            (lambda y, x, c: nisa.tensor_scalar(y, x, nl.bitwise_xor, c, op1=nl.left_shift, operand1=3),
             ((self.x ^ self.column).astype(np.uint64) << 3).astype(np.uint32)),
            (lambda y, x, c: nisa.tensor_scalar(y, x, nl.bitwise_or, 0x80000001, op1=nl.bitwise_xor, operand1=c),
             (self.x | np.uint32(0x80000001)) ^ self.column),
            (lambda y, x, c: nisa.tensor_scalar(y, x, nl.invert, None, op1=nl.right_shift, operand1=28),
             ~self.x >> 28))
        for body, wanted in cases:
            kernel = kernel_of(body, nl.uint32)
            np.testing.assert_array_equal(kernel(self.x, self.column), wanted)
            self.assertEqual(kernel.check(self.x, self.column).not_interpreted, {})

    def test_a_number_is_shifted_by_a_tile(self):
        kernel = kernel_of(lambda y, n: nisa.tensor_scalar(y, n, nl.left_shift, 5, reverse0=True,
                                                           op1=nl.bitwise_or, operand1=1), nl.uint32)
        np.testing.assert_array_equal(kernel(self.count), (np.uint64(5) << self.count.astype(np.uint64)).astype(
            np.uint32) | 1)

    def test_bits_and_arithmetic_do_not_mix(self):
        kernel = kernel_of(lambda y, x: nisa.tensor_scalar(y, x, nl.bitwise_and, 7, op1=nl.add, operand1=1.0),
                           nl.uint32)
        self.refused(kernel, (self.x,), "both operations", "arithmetic")


class Reductions(DeviceTest):
    def setUp(self):
        self.x, self.first = normal(ROWS, COLUMNS), normal(ROWS, 1)

    def loaded(self, reduce_op, command="load_reduce", **more):
        @nki.jit
        def kernel(x, first):
            tile, total = nl.load(x), nl.ndarray((ROWS, 1), nl.float32)
            init = more.get("init", first)
            init = nl.load(first) if init is first else init
            nisa.tensor_scalar_reduce(tile, tile, nl.multiply, 2.0, reduce_op, total, reduce_cmd=command,
                                      reduce_init=init)
            return stored(tile), stored(total)
        return kernel

    def test_tensor_scalar_reduce_begins_with_a_column_or_a_number(self):
        twice = 2 * self.x.astype(np.float64)
        for op, fold in ((nl.add, np.sum), (nl.maximum, np.max), (nl.minimum, np.min)):
            for init, start in ((None, self.first), (-3.5, np.full((ROWS, 1), -3.5))):
                kernel = self.loaded(op) if init is None else self.loaded(op, init=init)
                values, total = kernel(self.x, self.first)
                self.near(values, twice, 1e-6)
                self.near(total, fold(np.concatenate([start, twice], 1), axis=1, keepdims=True), 1e-4)
                self.assertEqual(kernel.check(self.x, self.first).not_interpreted, {})

    def test_reduce_init_and_load_reduce_go_together(self):
        self.refused(self.loaded(nl.add, "reset_reduce", init=1.0), (self.x, self.first), "reduce_init",
                     "load_reduce")
        self.refused(self.loaded(nl.add, init=None), (self.x, self.first), "no reduce_init", "load_reduce")

    def test_what_has_no_initial_value_refuses_load_reduce(self):
        @nki.jit
        def kernel(x, c):
            tile, c = nl.load(x), nl.load(c)
            nisa.range_select(tile, tile, nl.greater, nl.less, c, c, reduce_cmd=nisa.reduce_cmd.load_reduce)
            return stored(tile)

        self.refused(kernel, (self.x, self.first), "range_select", "initial value")


class Transfers(DeviceTest):
    def test_each_source_has_its_scale(self):
        x, y, z = (normal(ROWS, COLUMNS) for _ in range(3))

        @nki.jit
        def kernel(x, y, z):
            total, one = nl.ndarray(x.shape, nl.float32), nl.ndarray(x.shape, nl.bfloat16)
            nisa.dma_compute(total, [x, y, z], nl.add, scales=[0.5, 1.0, -3.0])
            nisa.dma_compute(one, [x], nl.add, scales=[0.25])
            return stored(total), stored(one)

        total, one = kernel(x, y, z)
        f = np.float32
        np.testing.assert_array_equal(total, x * f(0.5) + y + z * f(-3))
        np.testing.assert_array_equal(nki.to_float32(one), nki.to_float32(nki.encode(x / 4, "bfloat16")))
        self.assertEqual(kernel.check(x, y, z).not_interpreted, {})

    def test_scales_belong_to_sums_of_as_many_sources(self):
        def made(op, scales):
            @nki.jit
            def kernel(x):
                tile = nl.ndarray(x.shape, nl.float32)
                nisa.dma_compute(tile, [x, x], op, scales=scales)
                return stored(tile)
            return kernel

        x = normal(ROWS, COLUMNS)
        self.refused(made(nl.maximum, [1.0, 2.0]), (x,), "scales", "maximum")
        self.refused(made(nl.add, [2.0]), (x,), "1 scales for 2 sources")
        self.near(made(nl.add, [1.0, 1.0])(x), 2 * x, 1e-6)


class OneByte:
    """Transposes of types of one byte by the Tensor engine of `target`."""

    def test_the_tensor_engine_transposes_types_of_one_byte(self):
        codes = random.integers(0, 256, (96, 40)).astype(np.uint8)

        def made(kind, shape, place=lambda psum: psum, engine=nisa.engine.unknown):
            @nki.jit
            def kernel(x):
                tile, turned = nl.load(x), nl.ndarray(shape, kind, buffer=nl.psum)
                nisa.nc_transpose(place(turned), tile, engine=engine)
                kept = nl.ndarray((40, 96), tile.dtype)
                # The lower bytes of slots of 16 bits, or neighbours.
                found = turned if shape[1] == 96 and turned.dtype == tile.dtype else (
                    turned.view(tile.dtype) if turned.dtype != tile.dtype else turned)[:, 0:192:2]
                nisa.tensor_copy(kept, found)
                return stored(kept)
            return kernel.on(self.target)

        for engine in (nisa.engine.unknown, nisa.engine.tensor):
            for kind in ("float8_e4m3", "float8_e5m2"):
                for kernel in (made(kind, (40, 96), engine=engine), made(nl.uint16, (40, 96), engine=engine),
                               made(kind, (40, 192), lambda psum: psum[:, 0:192:2], engine)):
                    found = np.asarray(kernel(nki.Encoded(codes, kind))).view(np.uint8)
                    np.testing.assert_array_equal(found, codes.T)
            np.testing.assert_array_equal(made(nl.uint8, (40, 96), engine=engine)(codes), codes.T)


class Engines(OneByte, DeviceTest):
    target = "trn2"

    def test_the_scalar_engine_of_trn2_has_scale_and_bias(self):
        x, column = normal(ROWS, COLUMNS), normal(ROWS, 1)
        linear = kernel_of(lambda y, a, c: nisa.tensor_scalar(y, a, nl.multiply, c, op1=nl.add, operand1=1.0,
                                                              engine=nisa.engine.scalar))
        self.near(linear(x, column), x.astype(np.float64) * column + 1, 1e-5)
        for body in arithmetic_on_scalar():
            self.refused(kernel_of(body), (x, column), "engine = scalar", "generation 3", "vector")

    def test_double_row_has_its_first_name_too(self):
        codes = [nki.encode(random.integers(-8, 9, (64, 2, n)).astype(np.float32), "float8_e4m3") for n in (32, 80)]

        @nki.jit
        def kernel(a, b):
            product, kept = nl.ndarray((32, 80), nl.float32, buffer=nl.psum), nl.ndarray((32, 80), nl.float32)
            nisa.nc_matmul(product, nl.load(a), nl.load(b), perf_mode="double_row_gen3")
            nisa.tensor_copy(kept, product)
            return stored(kept)

        a, b = (nki.to_float32(c).astype(np.float64) for c in codes)
        np.testing.assert_array_equal(kernel(*codes), np.einsum("kjm,kjn->mn", a, b))


if __name__ == "__main__":
    unittest.main()
