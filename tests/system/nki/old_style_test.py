# SPDX-License-Identifier: Apache-2.0
"""Kernels in the old style (neuronxcc.nki): returned tiles, blocks, index arrays and masks; on trn1."""
import json
import sys
import unittest

from common import TREE, DeviceTest, normal

sys.path.insert(0, str(TREE / "tools" / "python" / "old"))

import numpy as np  # noqa: E402

import neuronxcc.nki as old  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402
from nki import NkiError  # noqa: E402


class OldStyle(DeviceTest):
    def test_operators_and_returned_tiles_normalise_rows(self):
        @old.jit
        def kernel(x, gain):
            y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            tile = nl.load(x)
            scale = nl.rsqrt(nl.mean(nl.square(tile), axis=1) + 1e-6)
            out = tile * scale
            nl.store(y, out * nl.load(gain).broadcast_to((128, 64)))
            return y

        x, gain = normal(128, 64), normal(1, 64)
        golden = x / np.sqrt((x.astype(np.float64)**2).mean(1, keepdims=True) + 1e-6) * gain
        self.near(kernel(x, gain), golden, 1e-3)

    def test_blocks_in_psum_are_added_over_a_loop(self):
        @old.jit
        def kernel(a, b):
            y = nl.ndarray((256, 512), a.dtype, buffer=nl.shared_hbm)
            # 16 blocks are twice as much as PSUM holds.
            sums = nl.zeros((16, nl.par_dim(128), 512), nl.float32, buffer=nl.psum)
            for m in nl.affine_range(2):
                for k in nl.affine_range(3):
                    left = nl.load(a[k * 128:(k + 1) * 128, m * 128:(m + 1) * 128])
                    right = nl.load(b[k * 128:(k + 1) * 128, :])
                    sums[m] += nisa.nc_matmul(left, right)
                tile = nl.ndarray((nl.par_dim(128), 512), a.dtype, buffer=nl.sbuf)
                tile[...] = nisa.tensor_copy(sums[m])
                nl.store(y[m * 128:(m + 1) * 128, :], tile)
            return y

        a, b = normal(384, 256), normal(384, 512)
        self.near(kernel(a, b), a.astype(np.float64).T @ b, 1e-3)

    def test_a_value_of_each_round_is_combined_over_the_rounds(self):
        @old.jit
        def kernel(a, b):
            y = nl.ndarray((128, 512), a.dtype, buffer=nl.shared_hbm)
            total = nl.zeros((nl.par_dim(128), 512), nl.float32, buffer=nl.sbuf)
            for block in nl.affine_range(3):
                sums = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
                for k in nl.affine_range(2):
                    rows = slice((2 * block + k) * 128, (2 * block + k + 1) * 128)
                    sums += nisa.nc_matmul(nl.load(a[rows, :]), nl.load(b[rows, :]))
                total[...] = nl.loop_reduce(sums, op=np.add, loop_indices=[block])
            nl.store(y, total)
            return y

        a, b = normal(768, 128), normal(768, 512)
        self.near(kernel(a, b), a.astype(np.float64).T @ b, 1e-3)

    def test_index_arrays_become_patterns_and_masks_cut_them(self):
        @old.jit
        def kernel(x):
            rows, columns = x.shape
            y = nl.ndarray((rows, columns // 2), x.dtype, buffer=nl.shared_hbm)
            p, f = nl.mgrid[0:128, 0:columns // 2]
            for block in nl.affine_range((rows + 127) // 128):
                row = block * 128 + p
                tile = nl.load(x[row, 2 * f + 1], mask=(row < rows))
                nl.store(y[row, f], tile, mask=(row < rows))
            return y

        x = normal(200, 64)
        self.near(kernel(x), x[:, 1::2], 0)

    def test_windows_overlap_in_a_tile(self):
        @old.jit
        def kernel(x):
            y = nl.ndarray((128, 30), x.dtype, buffer=nl.shared_hbm)
            tile = nl.load(x)
            p, w, k = nl.mgrid[0:128, 0:30, 0:3]
            nl.store(y, nl.max(tile[p, w + k], axis=[2]))
            return y

        x = normal(128, 32)
        golden = np.lib.stride_tricks.sliding_window_view(x, 3, axis=1).max(2)
        self.near(kernel(x), golden, 0)

    def test_a_result_goes_to_elements_that_one_instruction_does_not_reach(self):
        @old.jit
        def kernel(x):
            y = nl.ndarray((32, 6, 6, 6), x.dtype, buffer=nl.shared_hbm)
            tile, out = nl.load(x), nl.ndarray((nl.par_dim(32), 6, 6, 6), x.dtype, buffer=nl.sbuf)
            p, a, b, c, i, j, k = nl.mgrid[0:32, 0:2, 0:2, 0:2, 0:3, 0:3, 0:3]
            first, second = tile[p, i + a, j + b, k + c], tile[p, i + 1 - a, j + 1 - b, k + 1 - c]
            out[p, 2 * i + a, 2 * j + b, 2 * k + c] = 0.75 * first + 0.25 * second
            nl.store(y, out)
            return y

        x = normal(32, 4, 4, 4)
        d = np.arange(6)
        near, far = d // 2 + d % 2, d // 2 + 1 - d % 2
        golden = 0.75 * x[:, near][:, :, near][:, :, :, near] + 0.25 * x[:, far][:, :, far][:, :, :, far]
        self.near(kernel(x), golden, 1e-5)

    def test_a_causal_mask_and_numbers_come_from_ranges(self):
        @old.jit
        def kernel(x):
            y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            z = nl.ndarray(x.shape, nl.int32, buffer=nl.shared_hbm)
            p, f = nl.arange(64)[:, None], nl.arange(64)[None, :]
            nl.store(y, nisa.affine_select(pred=(p >= f), on_true_tile=nl.load(x),
                                           on_false_value=-5.0))
            nl.store(z, nisa.iota(p * 64 + 2 * f, dtype=nl.int32))
            return y, z

        x = normal(64, 64)
        y, z = kernel(x)
        self.near(y, np.where(np.tril(np.ones((64, 64))), x, -5), 0)
        np.testing.assert_array_equal(z, np.arange(64)[:, None] * 64 + 2 * np.arange(64))

    def test_a_grid_runs_its_programs_one_after_the_other(self):
        @old.jit
        def kernel(x):
            y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            p = nl.program_id(0) * 128 + nl.arange(128)[:, None]
            f = nl.program_id(1) * 32 + nl.arange(32)[None, :]
            nl.store(y[p, f], nl.load(x[p, f]) * 2)
            return y

        x = normal(256, 96)
        self.near(kernel[2, 3](x), x * 2, 0)

    def test_what_no_pattern_reaches_is_refused_with_its_line(self):
        @old.jit
        def uneven(x):
            tile = nl.load(x)
            p = nl.arange(128)[:, None]
            nl.store(x, tile[p, (nl.arange(64)[None, :]**2) % 64])

        @old.jit
        def outside(x):
            p, f = nl.mgrid[0:128, 0:64]
            nl.load(x[p + 64, f])

        @old.jit
        def no_box(x):
            p, f = nl.mgrid[0:128, 0:64]
            nl.load(x[p, f], mask=(p > 3))

        for kernel, words in ((uneven, "not evenly spaced"), (outside, "index 64 to 191 leaves"),
                              (no_box, "no box from 0")):
            self.refused(kernel, (normal(128, 64),), "old_style_test.py:", words, kind=NkiError)

    def test_blocks_lie_where_the_kernel_places_them(self):
        ncc = old.compiler

        @old.jit
        def kernel(x):
            y = nl.ndarray((6, 32, 64), nl.float32, buffer=nl.shared_hbm)
            # Blocks 0, 2, 4 and 1, 3, 5 share a place, each in use until the next one comes.
            tiles = nl.ndarray((6, nl.par_dim(32), 64), nl.float32,
                               buffer=ncc.sbuf.mod_alloc(base_addr=4096, num_free_tiles=(2,)))
            sums = nl.ndarray((6, nl.par_dim(64), 64), nl.float32,
                              buffer=ncc.psum.alloc(lambda index, parts, size: (3 + index[0] % 2, 0, 0)))
            ones = nl.ndarray((32, 64), nl.float32, buffer=ncc.sbuf.alloc(lambda index, parts, size: (64, 1024)))
            ones[...] = 1.0
            low = nl.zeros((2, nl.par_dim(32), 64), nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(2,)))
            for i in range(6):
                tiles[i] = nl.load(x[i])
                sums[i] = nisa.nc_matmul(nl.copy(tiles[i]), nl.copy(tiles[i]))
                low[i % 2] = nisa.tensor_tensor(sums[i][0:32, :], low[i % 2], nl.add)
                nl.store(y[i], low[i % 2])
            return y

        x = normal(6, 32, 64)
        products = np.einsum("bij,bik->bjk", x.astype(np.float64), x)[:, 0:32]
        wanted = np.stack([products[i % 2:i + 1:2].sum(0) for i in range(6)])
        self.near(kernel(x), wanted, 1e-3)
        tiles = [json.loads(line) for line in kernel.trace(x).splitlines() if '"address"' in line]
        places = {(t["name"], t["space"], *t["address"]) for t in tiles}
        self.assertEqual(places, {("tiles", "sbuf", 0, 4096), ("tiles", "sbuf", 0, 4096 + 256), ("sums", "psum", 0, 3 * 2048),
                                  ("sums", "psum", 0, 4 * 2048), ("ones", "sbuf", 64, 1024), ("low", "sbuf", 0, 0),
                                  ("low", "sbuf", 0, 256)})

    def test_a_tensor_without_blocks_lies_at_the_base_whatever_numbers_of_tiles_it_has(self):
        ncc = old.compiler

        @old.jit
        def kernel(x):
            y = nl.ndarray((64, 64), nl.float32, buffer=nl.shared_hbm)
            tile = nl.ndarray((nl.par_dim(32), 2, 32), nl.float32,
                              buffer=ncc.sbuf.mod_alloc(base_addr=512, num_par_tiles=(4,), num_free_tiles=(2,)))
            sums = nl.ndarray((64, 64), nl.float32, buffer=ncc.psum.mod_alloc(base_bank=5, num_bank_tiles=(3, 2)))
            out = nl.ndarray((64, 64), nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=8192))
            tile[...] = nl.load(x).reshape((32, 2, 32))
            flat = tile.reshape((32, 64))
            sums[...] = nisa.nc_matmul(flat, flat)
            out[...] = nisa.tensor_copy(sums)
            nl.store(y, out)
            return y

        x = normal(32, 64)
        self.near(kernel(x), x.astype(np.float64).T @ x, 1e-3)
        tiles = [json.loads(line) for line in kernel.trace(x).splitlines() if '"address"' in line]
        self.assertEqual({(t["name"], *t["address"]) for t in tiles},
                         {("tile", 0, 512), ("sums", 0, 5 * 2048), ("out", 0, 8192)})

    def test_a_product_that_is_assigned_to_a_block_needs_no_place_of_its_own(self):
        @old.jit
        def kernel(a, b):
            y = nl.ndarray((8, 128, 512), a.dtype, buffer=nl.shared_hbm)
            left, right = nl.load(a), nl.load(b)
            # All eight blocks are in use at once, and fill PSUM.
            products = nl.ndarray((8, nl.par_dim(128), 512), nl.float32, buffer=nl.psum)
            for i in nl.affine_range(8):
                products[i, :, :] = nisa.nc_matmul(left[:, nl.ds(i * 128, 128)], right)
            for i in nl.affine_range(8):
                nl.store(y[i], nisa.tensor_copy(products[i]))
            return y

        a, b = normal(128, 1024), normal(128, 512)
        golden = np.stack([a[:, i * 128:(i + 1) * 128].astype(np.float64).T @ b for i in range(8)])
        self.near(kernel(a, b), golden, 1e-3)
        copies = [line for line in kernel.trace(a, b).splitlines() if '"tensor_copy"' in line]
        self.assertEqual(len(copies), 8)

    def _all_products_first(self, rows):
        """Sums of products of blocks. All products are named before any of them is read; PSUM has room for
        eight."""
        @old.jit
        def kernel(a, b):
            y = nl.ndarray((rows, 128, 512), a.dtype, buffer=nl.shared_hbm)
            left, right = nl.load(a), nl.load(b)
            products = nl.ndarray((rows, 3, nl.par_dim(128), 512), nl.float32, buffer=nl.psum)
            for i in nl.affine_range(rows):
                for j in nl.affine_range(3):
                    products[i, j] = nisa.nc_matmul(left[:, nl.ds(i * 128, 128)], right[:, nl.ds(j * 512, 512)])
            largest = nl.ndarray((nl.par_dim(128), rows, 3), nl.float32, buffer=nl.sbuf)
            for i in nl.affine_range(rows):
                for j in nl.affine_range(3):
                    largest[:, i, nl.ds(j, 1)] = nisa.tensor_reduce(nl.max, products[i, j], axis=1)
            for i in nl.affine_range(rows):
                row = nisa.tensor_reduce(nl.max, largest[:, i, :], axis=1)
                total = nl.zeros((128, 512), nl.float32, buffer=nl.sbuf)
                for j in nl.affine_range(3):
                    total += nisa.tensor_scalar(products[i, j], nl.subtract, row)
                nl.store(y[i], total)
            return y

        a, b = normal(128, rows * 128), normal(128, 3 * 512)
        products = np.einsum("kim,kjn->ijmn", a.reshape(128, rows, 128).astype(np.float64), b.reshape(128, 3, 512))
        return kernel, a, b, (products - products.max((1, 3), keepdims=True)).sum(1)

    def test_blocks_that_find_no_room_wait_until_others_are_read(self):
        kernel, a, b, golden = self._all_products_first(6)
        self.near(kernel(a, b), golden, 1e-3)

    def test_no_reorder_refuses_blocks_that_find_no_room(self):
        kernel, a, b, _ = self._all_products_first(6)

        @old.jit
        def strict(a, b):
            with nl.no_reorder():
                return kernel(a, b)

        self.refused(strict, (a, b), "PSUM has no room for tile \"products\"")

    def test_a_product_that_is_assigned_replaces_the_one_before(self):
        @old.jit
        def kernel(a, b):
            y = nl.ndarray((2, 128, 128), a.dtype, buffer=nl.shared_hbm)
            left, right = nl.load(a), nl.load(b)
            product = nl.ndarray((1, nl.par_dim(128), 128), nl.float32, buffer=nl.psum)
            product[0] = nisa.nc_matmul(left, left)
            product[0] += nisa.nc_matmul(left, right)
            nl.store(y[0], nisa.tensor_copy(product[0]))
            product[0] = nisa.nc_matmul(right, right)
            product[0] += nisa.nc_matmul(right, left)
            nl.store(y[1], nisa.tensor_copy(product[0]))
            return y

        a, b = normal(128, 128), normal(128, 128)
        both = a.astype(np.float64) + b
        self.near(kernel(a, b), np.stack([a.T @ both, b.T @ both]), 1e-3)

    def test_a_constant_of_a_type_that_numpy_lacks_keeps_its_values(self):
        @old.jit
        def kernel(x):
            y = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
            identity = nl.load(nl.shared_constant(2.5 * np.identity(64), dtype=nl.bfloat16))
            nl.store(y, nl.copy(identity, dtype=nl.float32) + nl.load(x))
            return y

        x = normal(64, 64)
        self.near(kernel(x), 2.5 * np.identity(64) + x, 1e-6)

    def test_benchmark_tells_the_modelled_time_of_a_kernel(self):
        @old.jit
        def kernel(x):
            y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nl.store(y, nl.load(x))
            return y

        timed = old.benchmark(warmup=2, iters=5)(kernel)
        with self.assertRaisesRegex(NkiError, "kernel was not called yet"):
            timed.benchmark_result.nc_latency.get_latency_percentile(50)
        self.near(timed(old.language.static_cast(np.ones((32, 64)), nl.float32)), np.ones((32, 64)), 0)
        latency = timed.benchmark_result.nc_latency
        self.assertGreater(latency.get_latency_percentile(50), 1)
        self.assertEqual(latency.get_latency_percentile(99), timed.last.report.device_ps * 1e-6)

    def test_places_that_cannot_be_are_refused(self):
        ncc = old.compiler
        for region, block, words in (
                (ncc.psum.alloc(lambda index, parts, size: (8, 0, 0)), (32, 64), ("bank 8", "8 banks of 2048 bytes")),
                (ncc.psum.alloc(lambda index, parts, size: 0), (32, 64), ("expected bank, partition and byte",)),
                (ncc.psum.mod_alloc(base_bank=0, base_addr=2000), (32, 64), ("from byte 2000",)),
                (ncc.sbuf.alloc(lambda index, parts, size: 0.5), (32, 64), ("expected a partition and a byte",)),
                (ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(2, 2)), (32, 64), ("2 numbers of tiles", "1 dimensions")),
                (ncc.sbuf.mod_alloc(base_addr=1 << 20), (32, 64), ("SBUF",))):
            @old.jit
            def kernel(x):
                y = nl.ndarray((32, 64), nl.float32, buffer=nl.shared_hbm)
                tiles = nl.ndarray((2, nl.par_dim(block[0]), block[1]), nl.float32, buffer=region)
                tiles[1] = nl.load(x)
                nl.store(y, nl.copy(tiles[1]))
                return y

            with self.assertRaises(NkiError) as caught:
                kernel(normal(32, 64))
            for word in ("old_style_test.py", *words):
                self.assertIn(word, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
