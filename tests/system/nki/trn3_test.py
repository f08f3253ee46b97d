# SPDX-License-Identifier: Apache-2.0
"""Kernels for trn3: its SBUF, its clock, and the instructions that only it has.

The references take codes and scales apart by the documents' rules, bit by bit, and share nothing with
the package.
"""
import unittest

import numpy as np
from common import DeviceTest, line_of, nisa, nki, nl, normal, output


def fp8(code, exponent_bits, mantissa_bits, finite):
    """The value of one code of 8 bits."""
    sign = -1.0 if code & 0x80 else 1.0
    exponent, mantissa = code >> mantissa_bits & (1 << exponent_bits) - 1, code & (1 << mantissa_bits) - 1
    bias, top = (1 << exponent_bits - 1) - 1, (1 << exponent_bits) - 1
    if exponent == top and (mantissa == (1 << mantissa_bits) - 1 if finite else True):
        return float("nan") if finite or mantissa else sign * float("inf")
    if exponent == 0:
        return sign * mantissa * 2.0**(1 - bias - mantissa_bits)
    return sign * (1 + mantissa / 2**mantissa_bits) * 2.0**(exponent - bias)


E4M3FN = np.array([fp8(c, 4, 3, True) for c in range(256)])
E5M2 = np.array([fp8(c, 5, 2, False) for c in range(256)])
E2M1 = np.array([s * v for s in (1, -1) for v in (0, 0.5, 1, 1.5, 2, 3, 4, 6)])


def decoded(x4, table, scales):
    """[P, F] of x4 and [P / 8, F] of scales as numbers, [P, F, 4]."""
    x4 = np.asarray(x4).view(np.ndarray)
    bits = 8 if len(table) == 256 else 4
    codes = np.stack([x4 >> bits * j & 2**bits - 1 for j in range(4)], axis=-1)
    return table[codes] * 2.0**(np.repeat(scales.astype(np.int64), 8, axis=0) - 127)[..., None]


def rows_of(scales, parts):
    """The rows of a tile of scales on the chip, one for 8 partitions of data."""
    return scales[[32 * (i // 4) + i % 4 for i in range(parts // 8)]]


def finite_codes(table, *shape):
    """Random x4 elements of finite codes."""
    finite = np.flatnonzero(np.isfinite(table))
    drawn = np.random.default_rng(11).choice(finite, (*shape, 4)).astype(np.uint32)
    bits = 8 if len(table) == 256 else 4
    packed = sum(drawn[..., j] << bits * j for j in range(4))
    return packed.astype(np.uint32 if bits == 8 else np.uint16)


def shaped(x, dtype=None):
    tile = nl.ndarray(x.shape, dtype or x.dtype)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def stored(tile):
    y = output(tile.shape, tile.dtype)
    nisa.dma_copy(dst=y, src=tile)
    return y


@nki.jit
def exponentials(x):
    y = output(x.shape, x.dtype)
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(tile, nl.exp, tile)
    nisa.dma_copy(dst=y, src=tile)
    return y


@nki.jit
def vector_exponentials(x):
    tile = shaped(x)
    most, total = nl.ndarray((128, 1), nl.float32), nl.ndarray((128, 1), nl.float32)
    nisa.tensor_reduce(most, nl.maximum, tile, axis=1)
    nisa.exponential(tile, tile, max_value=most, reduce_res=total,
                     reduce_cmd=nisa.reduce_cmd.reset_reduce)
    return stored(tile), stored(total)


@nki.jit
def quantized(x, kind, columns):
    rows = x.shape[0]
    tile = shaped(x)
    codes = nl.ndarray((rows, columns // 4), kind)
    scales = nl.ndarray((rows, columns // 4), nl.uint8)
    nisa.memset(scales, 255)
    nisa.quantize_mx(dst=codes, src=tile, dst_scale=scales[0:rows // 8] if rows == 32 else scales)
    return stored(codes), stored(scales)


@nki.jit
def product(a, a_scale, b, b_scale, kind):
    left, right = shaped(a), shaped(b)
    scale_of_left, scale_of_right = shaped(a_scale), shaped(b_scale)
    both = nl.ndarray((a.shape[1], b.shape[1]), kind, buffer=nl.psum)
    # 32 partitions need a quarter of the array's rows only.
    part = {"tile_position": (96, 0), "tile_size": (32, 128)} if a.shape[0] == 32 else {}
    nisa.nc_matmul_mx(both, left, right, scale_of_left, scale_of_right, **part)
    nisa.nc_matmul_mx(both, left, right, scale_of_left, scale_of_right, **part)
    sums = nl.ndarray(both.shape, nl.float32)
    nisa.tensor_copy(sums, both)
    return stored(sums)


@nki.jit
def product_of_quantized(x, w):
    """Both matrices' scales share one tile, in its first and its third quarter."""
    scales = nl.ndarray((32, 64), nl.uint8)
    sides = []
    for matrix, first in ((x, 0), (w, 8)):
        codes = nl.ndarray((32, 64), nl.float8_e4m3fn_x4)
        nisa.quantize_mx(codes, shaped(matrix), scales[first:first + 4])
        sides.append((codes, scales[first:first + 4]))
    (left, left_scale), (right, right_scale) = sides
    sums = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(sums, left, right, left_scale, right_scale)
    kept = nl.ndarray((64, 64), nl.float32)
    nisa.tensor_copy(kept, sums)
    return stored(kept)


@nki.jit
def activated(x, scale, op0, op1, reverse0, reverse1, reduce_op):
    tile, total = shaped(x), nl.ndarray((128, 1), nl.float32)
    nisa.activate2(tile, nl.tanh, tile, shaped(scale), 0.75, op0, op1, reverse0=reverse0,
                   reverse1=reverse1, reduce_op=reduce_op, reduce_res=total,
                   reduce_cmd=nisa.reduce_cmd.reset_reduce)
    return stored(tile), stored(total)


@nki.jit
def uniform(low, high):
    tile = nl.ndarray((128, 512), nl.float32)
    nisa.rand2(tile, shaped(low), shaped(high))
    return stored(tile)


@nki.jit
def small_beside_large(large, small, priority):
    """A small tile is loaded while large ones are, and added up first."""
    tiles = []
    for i in range(8):
        tile = nl.ndarray((128, 2048), nl.float32)
        nisa.dma_copy(tile, large[i], priority=priority)
        tiles.append(tile)
    first = nl.ndarray((128, 64), nl.float32)
    nisa.dma_copy(first, small, engine=nisa.engine.scalar)
    total = nl.ndarray((128, 1), nl.float32)
    nisa.tensor_reduce(total, nl.add, first, axis=1)
    for _ in range(200):  # Until here only the small tile is needed
        nisa.tensor_scalar(total, total, nl.add, 1.0)
    kept = stored(total)
    for i, tile in enumerate(tiles[1:]):
        nisa.tensor_tensor(tiles[0], tiles[0], tile, nl.add)
    return kept, stored(tiles[0])


class Trn3(DeviceTest):
    def test_a_transfer_of_a_lower_class_is_served_before_bulk_ones(self):
        large, small = normal(8, 128, 2048), normal(128, 64)
        kernel = small_beside_large.on("trn3")
        wanted = small.astype(np.float64).sum(axis=1) + 200
        for priority in (None, 3):
            kept, sums = kernel(large, small, priority)
            self.near(kept[:, 0], wanted, 1e-2)
            self.near(sums, large.astype(np.float64).sum(axis=0), 1e-4)
        in_turn = kernel.profile(large, small, None)
        first = kernel.profile(large, small, 3)
        # What needs the small tile goes on while the large ones arrive.
        self.assertLess(first.microseconds, in_turn.microseconds - 1)
        self.assertEqual(first.microseconds, kernel.profile(large, small, 3).microseconds)
        self.assertFalse([note for note in first.notes if "priority" in note])

    def test_a_tile_of_240_kib_in_each_partition_fits_trn3_and_not_trn2(self):
        x = normal(128, 60 * 1024)
        self.refused(exponentials.on("trn2"), (x,), "SBUF")
        found = exponentials.on("trn3")(x)
        np.testing.assert_allclose(found, np.exp(x.astype(np.float64)), rtol=2e-6)

    def test_the_vector_engine_computes_a_softmax_s_exponentials_and_their_sum(self):
        x = normal(128, 384) * 3
        found, total = vector_exponentials.on("trn3")(x)
        x = x.astype(np.float64)
        wanted = np.exp(x - x.max(axis=1, keepdims=True))
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-30)
        np.testing.assert_allclose(total[:, 0], wanted.sum(axis=1), rtol=2e-5)

    def test_block_scales_of_quantisation_are_twice_those_of_ocp_and_codes_the_nearest(self):
        for rows in (32, 128):
            for kind, table, emax in (("float8_e4m3fn_x4", E4M3FN, 8), ("float8_e5m2_x4", E5M2, 15)):
                with self.subTest(rows=rows, kind=kind):
                    x = nki.encode(normal(rows, 64) * 2.0**np.arange(-8, 8).repeat(4), "bfloat16")
                    codes, scales = quantized.on("trn3")(x, kind, 64)
                    values = nki.to_float32(x).astype(np.float64).reshape(rows // 8, 8, 16, 4)
                    largest = np.abs(values).max(axis=(1, 3))
                    wanted = np.floor(np.log2(largest)).astype(int) - (emax - 1) + 127
                    scales = scales[:rows // 8] if rows == 32 else rows_of(scales, rows)
                    np.testing.assert_array_equal(scales, wanted)
                    found = decoded(codes, table, scales)
                    finite = np.unique(table[np.isfinite(table)])
                    exact = values.reshape(rows, 16, 4) / 2.0**(wanted.repeat(8, 0) - 127)[..., None]
                    nearest = np.abs(finite - exact[..., None]).min(axis=-1)
                    off = np.abs(found / 2.0**(wanted.repeat(8, 0) - 127)[..., None] - exact)
                    np.testing.assert_array_equal(off, nearest)

    def test_products_of_block_scaled_matrices_of_each_type_accumulate(self):
        kinds = {"float8_e4m3fn_x4": E4M3FN, "float8_e5m2_x4": E5M2, "float4_e2m1fn_x4": E2M1}
        random = np.random.default_rng(5)
        for left, right in (("float8_e4m3fn_x4", "float8_e4m3fn_x4"),
                            ("float8_e5m2_x4", "float4_e2m1fn_x4")):
            for to, rtol in ((nl.float32, 2e-6), (nl.bfloat16, 2.0**-7)):
                with self.subTest(left=left, right=right, to=to):
                    a, b = finite_codes(kinds[left], 128, 64), finite_codes(kinds[right], 128, 96)
                    sa, sb = (random.integers(120, 134, (128, n)).astype(np.uint8) for n in (64, 96))
                    found = product.on("trn3")(nki.Encoded(a, left), sa, nki.Encoded(b, right), sb, to)
                    da = decoded(a, kinds[left], rows_of(sa, 128))
                    db = decoded(b, kinds[right], rows_of(sb, 128))
                    wanted = 2 * np.einsum("pmj,pnj->mn", da, db)
                    size = 2 * np.einsum("pmj,pnj->mn", abs(da), abs(db))
                    self.assertLessEqual(np.max(np.abs(found - wanted) / size), rtol)

    def test_scales_of_two_matrices_in_quarters_of_one_tile(self):
        x, w = (nki.encode(normal(32, 256), "bfloat16") for _ in range(2))
        found = product_of_quantized.on("trn3")(x, w)
        a, b = (nki.to_float32(m).astype(np.float64).reshape(32, 64, 4) for m in (x, w))
        wanted = np.einsum("pmj,pnj->mn", a, b)
        size = np.einsum("pmj,pnj->mn", abs(a), abs(b))
        # Two roundings to three bits behind the first one.
        self.assertLess(np.max(np.abs(found - wanted) / size), 2 * 2.0**-4)
        self.assertGreater(np.max(np.abs(found - wanted)), 0)

    def test_activate2_does_two_steps_a_function_and_a_reduction(self):
        x, scale = normal(128, 96), np.abs(normal(128, 1)) + 0.5
        d, s = x.astype(np.float64), scale.astype(np.float64)
        cases = ((nl.multiply, nl.add, False, False, d * s + 0.75),
                 (nl.multiply, nl.subtract, False, True, 0.75 - d * s),
                 (nl.multiply, None, False, False, d * s), (nl.add, None, False, False, d + s),
                 (nl.subtract, None, True, False, s - d), (None, None, False, False, d))
        for op0, op1, reverse0, reverse1, steps in cases:
            for reduce_op, fold in ((nl.add, np.sum), (nl.maximum, np.max), (nl.minimum, np.min)):
                with self.subTest(steps=steps[0, 0], fold=fold.__name__):
                    found, total = activated.on("trn3")(x, scale, op0, op1, reverse0, reverse1, reduce_op)
                    wanted = np.tanh(steps)
                    self.near(found, wanted, 1e-5)
                    self.near(total[:, 0], fold(wanted, axis=1), 1e-3)

    def test_random_numbers_lie_in_bounds_of_their_partition_and_fill_them(self):
        low = np.linspace(-4, 4, 128, dtype=np.float32).reshape(128, 1)
        found = uniform.on("trn3")(low, low + 2).astype(np.float64) - low
        self.assertTrue((found >= 0).all() and (found <= 2 + 1e-6).all())
        # 65536 draws: the mean and the variance of a uniform distribution, to five deviations.
        self.assertAlmostEqual(found.mean(), 1, delta=5 * (4 / 12 / found.size)**0.5)
        self.assertAlmostEqual(found.var(), 4 / 12, delta=0.01)
        self.assertGreater(len(np.unique(found)), 60000)

    def test_check_follows_the_instructions_of_generation_4(self):
        x, w = (nki.encode(normal(32, 256), "bfloat16") for _ in range(2))
        report = product_of_quantized.on("trn3").check(x, w)
        self.assertEqual(report.not_interpreted, {})
        self.assertGreater(report.values, 3 * 32 * 64)
        self.assertEqual(vector_exponentials.on("trn3").check(normal(128, 64)).not_interpreted, {})
        scale = np.ones((128, 1), np.float32)
        self.assertEqual(activated.on("trn3").check(normal(128, 64), scale, nl.multiply, nl.add, False,
                                                    False, nl.add).not_interpreted, {})

    def test_check_compares_the_scales_of_quantize_mx_too(self):
        from nki.interpreter import Interpreter
        original = Interpreter.quantize_mx

        def off_by_one(interpreter, record):
            codes, *scales = original(interpreter, record)
            return [codes] + [(operand, bits + (number == len(scales) - 1), *rest)
                              for number, (operand, bits, *rest) in enumerate(scales)]

        for rows in (32, 128):
            x = nki.encode(normal(rows, 64), "bfloat16")
            arguments = (x, "float8_e4m3fn_x4", 64)
            self.assertEqual(quantized.on("trn3").check(*arguments).not_interpreted, {})
            Interpreter.quantize_mx = off_by_one
            try:
                with self.assertRaisesRegex(nki.NkiError, r"quantize_mx: .* partition (0|96), element 0 of uint8"):
                    quantized.on("trn3").check(*arguments)
            finally:
                Interpreter.quantize_mx = original

    def test_other_targets_refuse_them_with_the_line(self):
        x = nki.encode(normal(32, 64), "bfloat16")
        self.refused(quantized.on("trn2"), (x, "float8_e4m3fn_x4", 64), "generation 4", "trn2",
                     f"trn3_test.py:{line_of(quantized, 'codes =')}")
        self.refused(uniform.on("trn2"), (normal(128, 1), normal(128, 1)), "rand2", "generation 4",
                     f"trn3_test.py:{line_of(uniform, 'rand2')}")

    def test_scales_that_begin_between_the_quarters_are_refused(self):
        @nki.jit
        def kernel(x):
            codes, scales = nl.ndarray((32, 16), nl.float8_e4m3fn_x4), nl.ndarray((32, 16), nl.uint8)
            nisa.quantize_mx(codes, shaped(x), scales[2:6])
            return stored(codes)

        self.refused(kernel.on("trn3"), (nki.encode(normal(32, 64), "bfloat16"),),
                     f"trn3_test.py:{line_of(kernel, 'scales[2:6]')}", "quantize_mx", "dst_scale",
                     "partition 2", "0, 4, 8 or 12")


if __name__ == "__main__":
    unittest.main()
