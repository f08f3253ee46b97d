# SPDX-License-Identifier: Apache-2.0
"""Views of tensors: they name what NumPy's views name, also behind an index of the device, and results
that move into other tiles keep their values."""
import itertools
import unittest

import numpy as np
from common import DeviceTest, nisa, nki, nl, normal, output
from nki.recorder import Recorder


def elements(view):
    """The numbers of the elements that a view names."""
    whole = np.arange(4096)
    return np.lib.stride_tricks.as_strided(whole[view.offset:], view.shape, [8 * s for s in view.strides])


class Views(unittest.TestCase):
    def setUp(self):
        recorder = Recorder("k", "trn2")
        self.enterContext(recorder)
        self.tensor = recorder.tensor((4, 6, 8), "float32", "hbm", "x")
        self.array = np.arange(4 * 6 * 8).reshape(4, 6, 8)

    def same(self, view, array):
        self.assertEqual(tuple(view.shape), array.shape)
        np.testing.assert_array_equal(elements(view), array)

    def test_reshapes_are_numpys_or_are_refused(self):
        shapes = [s for n in range(1, 5) for s in itertools.product((1, 2, 3, 4, 6, 8, 12, 24, 48), repeat=n)]
        views = [(self.tensor, self.array), (self.tensor[:, 1:3], self.array[:, 1:3]),
                 (self.tensor[::2, :, 2:6], self.array[::2, :, 2:6]),
                 (self.tensor.permute((0, 2, 1)), self.array.transpose(0, 2, 1)),
                 (self.tensor[1:2].broadcast(0, 3), np.broadcast_to(self.array[1:2], (3, 6, 8)))]
        made = 0
        for (view, array), shape in itertools.product(views, shapes):
            if np.prod(shape) != array.size:
                continue
            try:
                reshaped = view.reshape(shape)
            except nki.NkiError:
                # NumPy needs a copy, too.
                self.assertFalse(np.shares_memory(array.reshape(shape), self.array), (array.strides, shape))
                continue
            self.same(reshaped, array.reshape(shape))
            made += 1
        self.assertGreater(made, 100)

    def test_dimensions_are_counted_from_both_ends(self):
        self.same(self.tensor.flatten_dims(1, -1), self.array.reshape(4, 48))
        self.same(self.tensor.flatten_dims(-3, -2), self.array.reshape(24, 8))
        self.same(self.tensor.select(-1, -2), self.array[:, :, -2])
        self.same(self.tensor.reshape_dim(-1, (2, -1)), self.array.reshape(4, 6, 2, 4))
        self.same(self.tensor.expand_dim(-1), self.array[..., None])
        for first, last in ((2, 1), (0, 3), (-4, 1)):
            with self.assertRaisesRegex(nki.NkiError, "flatten_dims"):
                self.tensor.flatten_dims(first, last)

    def test_known_numbers_of_any_kind_are_static_indices(self):
        for two in (2, np.int64(2), nisa.register_alloc(2)):
            for view, array in ((self.tensor[:, nl.ds(two, two)], self.array[:, 2:4]),
                                (self.tensor.select(1, two), self.array[:, 2])):
                self.same(view, array)
                self.assertIsNone(view.dynamic)
        for view in (lambda: self.tensor[nl.ds(nisa.register_alloc(3), 2)],
                     lambda: self.tensor.select(0, nisa.register_alloc(4))):
            with self.assertRaisesRegex(nki.NkiError, "dimension 0"):
                view()


def gathered(view_of):
    """A kernel that gathers what `view_of` makes of a table and a tile of row numbers."""
    @nki.jit
    def kernel(table, index):
        rows = nl.load(index)
        source = view_of(table, rows)
        tile = nl.ndarray(source.shape, source.dtype)
        nisa.dma_copy(tile, source)
        y = output(tile.shape, tile.dtype)
        nl.store(y, tile)
        return y
    return kernel


class IndicesOfTheDevice(DeviceTest):
    def setUp(self):
        self.table = np.arange(64 * 16, dtype=np.uint32).reshape(64, 16)
        self.index = np.random.default_rng(5).permutation(32).astype(np.int32).reshape(32, 1)
        self.wanted = self.table[self.index[:, 0]]

    def test_another_type_keeps_the_rows(self):
        rows = gathered(lambda t, i: t.vector_select(0, i).view(nl.uint16))(self.table, self.index)
        np.testing.assert_array_equal(rows, self.wanted.view(np.uint16))
        rows = gathered(lambda t, i: t.ap([[32, 32], [1, 32]], vector_offset=i, dtype=nl.uint16))(
            self.table, self.index)
        np.testing.assert_array_equal(rows, self.wanted.view(np.uint16))

    def test_columns_of_rows_are_chosen_behind_the_index(self):
        rows = gathered(lambda t, i: t.vector_select(0, i)[:, 4:8])(self.table, self.index)
        np.testing.assert_array_equal(rows, self.wanted[:, 4:8])

    def test_parts_of_rows_that_are_apart_are_gathered_and_scattered(self):
        cut = gathered(lambda t, i: t.reshape((64, 2, 8)).vector_select(0, i)[:, :, 2:5])
        np.testing.assert_array_equal(cut(self.table, self.index),
                                      self.wanted.reshape(32, 2, 8)[:, :, 2:5])

        @nki.jit
        def scattered(x, index):
            y = output((64, 2, 8), nl.uint32)
            whole = nl.full((64, 16), 7, nl.uint32)
            nl.store(y.reshape((64, 16)), whole)
            nisa.dma_copy(y.vector_select(0, nl.load(index))[:, :, 2:5], nl.load(x))
            return y

        x = np.random.default_rng(2).integers(0, 99, (32, 6)).astype(np.uint32)
        golden = np.full((64, 2, 8), 7, np.uint32)
        golden[self.index[:, 0], :, 2:5] = x.reshape(32, 2, 3)
        np.testing.assert_array_equal(scattered(x, self.index), golden)
        self.refused(gathered(lambda t, i: t.vector_select(0, i)[:, ::2].broadcast_to((32, 8))[:, 0:8:1]
                              .reshape((32, 8, 1)).broadcast(2, 40)), (self.table, self.index),
                     "views_test.py:", "320 transfers of 1 neighbouring elements; at most 256")

    def test_the_indexed_dimension_stays_the_first_and_the_only_one(self):
        square = np.zeros((64, 32), np.uint32)
        self.refused(gathered(lambda t, i: t.vector_select(0, i).permute((1, 0))), (square, self.index),
                     "views_test.py:", "stays the first")
        self.refused(gathered(lambda t, i: t.vector_select(0, i).vector_select(0, i)), (square, self.index),
                     "reached by an index of the device already")
        self.refused(gathered(lambda t, i: t.vector_select(0, i).ap([[1, 32], [1, 1]], vector_offset=i)),
                     (square, self.index), "reached by an index of the device already")

    def test_sums_by_a_known_offset_are_sums(self):
        @nki.jit
        def kernel(x):
            y = output((96, 8))
            tile = nl.load(x)
            for row in (0, 32, 64):
                nl.store(y[row:row + 32], tile)
            register = nisa.register_alloc(32)
            nisa.dma_copy(y.ap([[8, 32], [1, 8]], scalar_offset=register), tile, dst_rmw_op=nl.add)
            return y

        x = normal(32, 8)
        self.near(kernel(x), np.concatenate([x, 2 * x, x]), 1e-6)

    def test_sums_by_index_take_the_place_of_one_of_their_sources(self):
        @nki.jit
        def kernel(table, index, x, own):
            rows, tile, other = nl.load(index), nl.load(x), nl.load(x)
            source = table.ap([[16, 32], [1, 16]], vector_offset=rows)
            nisa.dma_compute(tile, [source, tile if own else other], nl.add)
            y = output(tile.shape)
            nl.store(y, tile)
            return y

        table, x = normal(64, 16), normal(32, 16)
        self.near(kernel(table, self.index, x, True), x + table[self.index[:, 0]], 1e-6)
        self.refused(kernel, (table, self.index, x, False), "views_test.py:", "one of them the destination")

    def test_a_number_is_shifted_by_a_tile(self):
        @nki.jit
        def kernel(x):
            y = output(x.shape, x.dtype)
            nl.store(y, nl.left_shift(1, nl.load(x)))
            return y

        counts = np.arange(64, dtype=np.uint32).reshape(8, 8) % 32
        np.testing.assert_array_equal(kernel(counts), np.uint32(1) << counts)


class ReturnedViews(DeviceTest):
    def returned(self, x, view):
        @nki.jit
        def kernel(x):
            y = output(x.shape, nki.kernel.dtypes.array_dtype(x))
            nl.store(y, nl.load(x))
            return view(y)

        return kernel(x)

    def test_another_width_is_numpys_view_of_the_bytes(self):
        wide = normal(128, 64)
        for view, like in ((lambda y: y.view(nl.bfloat16), lambda a: a), (lambda y: y[8:16].view(nl.bfloat16), lambda a: a[8:16]),
                           (lambda y: y.view(nl.bfloat16)[::2, 3:20], lambda a: a[::2, 3:20]),
                           (lambda y: y.view(nl.bfloat16).permute((1, 0)), lambda a: a.T)):
            got = self.returned(wide, view)
            self.assertEqual(str(nki.kernel.dtypes.array_dtype(got)), "bfloat16")
            np.testing.assert_array_equal(np.asarray(got).view(np.uint16), like(wide.view(np.uint16)))
        narrow = nki.encode(wide, "bfloat16")
        for view, like in ((lambda y: y.view(nl.float32), lambda a: a), (lambda y: y[8:16, 2:10].view(nl.float32),
                                                                         lambda a: a[8:16, 1:5])):
            got = self.returned(narrow, view)
            self.assertEqual(got.dtype, np.float32)
            # As numbers of bits: that of a NaN differs from itself.
            np.testing.assert_array_equal(got.view(np.uint32), like(np.asarray(narrow).view(np.uint32)))

    def test_another_type_of_the_same_width_is_the_views_type(self):
        x = normal(16, 8)
        got = self.returned(x, lambda y: y.view(nl.int32))
        self.assertEqual(got.dtype, np.int32)
        np.testing.assert_array_equal(got, x.view(np.int32))


class ResultsThatMove(DeviceTest):
    def test_a_product_that_was_added_can_be_read_afterwards(self):
        @nki.jit
        def kernel(a, b):
            y, sums = output((32, 64)), nl.ndarray((32, 64), nl.float32, buffer=nl.psum)
            left, right = nl.load(a), nl.load(b)
            for _ in range(2):
                product = nl.matmul(left, right, transpose_x=True)
                sums += product
            nisa.memset(right, 0)
            total = nl.copy(sums)
            total += product
            nl.store(y, total)
            return y

        a, b = normal(64, 32), normal(64, 64)
        self.near(kernel(a, b), 3 * (a.astype(np.float64).T @ b), 1e-3)

    def test_a_result_that_a_second_view_holds_stays(self):
        @nki.jit
        def kernel(x):
            y = output(x.shape)
            tile, held = nl.ndarray(x.shape, nl.float32), nl.exp(nl.load(x))
            tile[...] = held.reshape(x.shape)
            nisa.tensor_scalar(tile, tile, nl.multiply, 10.0)
            nisa.tensor_tensor(tile, tile, held, nl.add)
            nl.store(y, tile)
            return y

        x = normal(16, 8)
        self.near(kernel(x), 11 * np.exp(x.astype(np.float64)), 1e-3)

    def test_types_and_axes_that_a_function_names_are_its(self):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            results = [nl.transpose(tile, dtype=nl.bfloat16), nl.broadcast_to(tile, x.shape, dtype=nl.bfloat16),
                       nl.dropout(tile, 0.0, dtype=nl.bfloat16)]
            outputs = []
            for result in results:
                y = output(result.shape, result.dtype)
                nl.store(y, result)
                outputs.append(y)
            return outputs

        x = normal(32, 32)
        for got in kernel(x):
            self.assertEqual(str(nki.kernel.dtypes.array_dtype(got)), "bfloat16")

        @nki.jit
        def partial(x):
            y, tile = output(x.shape), nl.load(x)
            nl.store(y, nl.rms_norm(tile, None, 2, x.shape[2]))
            return y

        self.refused(partial, (normal(8, 4, 4),), "views_test.py:", "rms_norm over axes 2")


if __name__ == "__main__":
    unittest.main()
