# SPDX-License-Identifier: Apache-2.0
"""Indirect views of trn3 (.indirect): gathers and scatters along the free dimensions, against NumPy.

The reference builds the index from the offsets by the documents' rule, and gathers and scatters with
NumPy's own indices.
"""
import unittest

import numpy as np
from common import DeviceTest, nisa, nki, nl, normal, output

drawn = np.random.default_rng(23)


def index_of(offsets, group, parts, kind=np.uint16):
    """The index tile [parts, K] that holds offsets [groups, n]: number i in row i % group, column i // group."""
    groups, n = offsets.shape
    index = np.zeros((parts, -(-n // group)), kind)
    for g in range(groups):
        for i in range(n):
            index[g * group + i % group, i // group] = offsets[g, i]
    return index


def each(offsets, group, parts):
    """Offsets of each partition, [parts, n]."""
    return np.repeat(offsets, group, axis=0)[:parts]


def some(groups, n, most, different=False):
    if different:
        return np.stack([drawn.permutation(most)[:n] for _ in range(groups)])
    return drawn.integers(0, most, (groups, n))


def loaded(x, dtype=None):
    tile = nl.ndarray(x.shape, dtype or x.dtype)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def stored(tile):
    y = output(tile.shape, tile.dtype)
    nisa.dma_copy(dst=y, src=tile)
    return y


@nki.jit
def gather(x, index, n, engine=nisa.engine.unknown):
    tile, offsets = loaded(x), loaded(index)
    result = nl.ndarray((x.shape[0], n), x.dtype)
    nisa.tensor_copy(result, tile.indirect(offsets, n), engine=engine)
    return stored(result)


@nki.jit
def scatter(x, old, index):
    tile, whole, offsets = loaded(x), loaded(old), loaded(index)
    nisa.tensor_copy(whole.indirect(offsets, x.shape[1]), tile)
    return stored(whole)


@nki.jit
def move(x, old, index, places, n):
    """Both at once, with an activation between."""
    tile, whole, offsets, to = loaded(x), loaded(old), loaded(index), loaded(places)
    nisa.activation(whole.indirect(to, n), nl.tanh, tile.indirect(offsets, n), scale=0.5)
    return stored(whole)


@nki.jit
def add(x, y, index):
    n = y.shape[1]
    tile, other, offsets = loaded(x), loaded(y), loaded(index)
    result = nl.ndarray((x.shape[0], n), nl.float32)
    nisa.tensor_tensor(result, tile.indirect(offsets, n), other, nl.add)
    return stored(result)


@nki.jit
def sums(x, index, n):
    tile, offsets = loaded(x), loaded(index)
    total = nl.ndarray((x.shape[0], 1), nl.float32)
    nisa.tensor_reduce(total, nl.add, tile.indirect(offsets, n), axis=1)
    scaled = nl.ndarray((x.shape[0], n), nl.float32)
    nisa.tensor_scalar(scaled, tile.indirect(offsets, n), nl.multiply, 3.0, op1=nl.add, operand1=total)
    return stored(scaled)


@nki.jit
def product(w, x, w_index, x_index, m, n):
    weights, moving = loaded(w), loaded(x)
    w_offsets, x_offsets = loaded(w_index), loaded(x_index)
    result = nl.ndarray((m, n), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(result, weights.indirect(w_offsets, m), moving.indirect(x_offsets, n))
    tile = nl.ndarray((m, n), nl.float32)
    nisa.tensor_copy(tile, result)
    return stored(tile)


@nki.jit
def scattered_product(w, x, index, columns):
    weights, moving, offsets = loaded(w), loaded(x), loaded(index)
    m, n = w.shape[1], x.shape[1]
    result = nl.ndarray((m, columns), nl.float32, buffer=nl.psum)
    zeros = nl.ndarray((w.shape[0], columns), w.dtype)
    nisa.memset(zeros, 0.0)
    nisa.nc_matmul(result, weights, zeros)
    nisa.nc_matmul(result.indirect(offsets, n), weights, moving, accumulate=True)
    tile = nl.ndarray((m, columns), nl.float32)
    nisa.tensor_copy(tile, result)
    return stored(tile)


@nki.jit
def scaled_product(w, w_scale, x, x_scale, index, n):
    """The moving matrix and its scales by one index, or as they are if that is None."""
    weights, moving, of_weights, of_moving = loaded(w), loaded(x), loaded(w_scale), loaded(x_scale)
    if index is not None:
        offsets = loaded(index)
        moving, of_moving = moving.indirect(offsets, n), of_moving.indirect(offsets, n)
    result = nl.ndarray((w.shape[1], n), nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(result, weights, moving, of_weights, of_moving)
    tile = nl.ndarray(result.shape, nl.float32)
    nisa.tensor_copy(tile, result)
    return stored(tile)


@nki.jit
def chosen(x, old, mask, index, n):
    tile, whole, predicate, offsets = loaded(x), loaded(old), loaded(mask), loaded(index)
    nisa.tensor_copy_predicated(whole, tile, predicate.indirect(offsets, n))
    return stored(whole)


class Indirection(DeviceTest):
    def test_tensor_copy_gathers_what_numpy_gathers(self):
        x, n = normal(128, 96), 50
        offsets = some(8, n, 96)
        wanted = np.take_along_axis(x, each(offsets, 16, 128), 1)
        for kind in (np.uint16, np.int32, np.uint32):
            index = index_of(offsets, 16, 128, kind)
            for engine in (nisa.engine.vector, nisa.engine.scalar, nisa.engine.unknown):
                np.testing.assert_array_equal(gather.on("trn3")(x, index, n, engine), wanted)

    def test_tensor_copy_scatters_what_numpy_scatters(self):
        x, old, n = normal(64, 40), normal(64, 70), 40
        offsets = some(4, n, 70)
        wanted = old.copy()
        for i in range(n):
            wanted[np.arange(64), each(offsets, 16, 64)[:, i]] = x[:, i]
        np.testing.assert_array_equal(
            scatter.on("trn3")(x, old, index_of(offsets, 16, 64)), wanted)

    def test_an_activation_gathers_and_scatters_at_once(self):
        x, old, n = normal(128, 80), normal(128, 90), 33
        offsets, places = some(8, n, 80), some(8, n, 90, different=True)
        wanted = old.copy()
        taken = np.take_along_axis(x, each(offsets, 16, 128), 1)
        np.put_along_axis(wanted, each(places, 16, 128), np.tanh(taken * 0.5), 1)
        self.near(move.on("trn3")(x, old, index_of(offsets, 16, 128), index_of(places, 16, 128), n), wanted,
                  1e-5)

    def test_vector_instructions_take_gathered_sources(self):
        x, n = normal(128, 64), 20
        offsets = some(8, n, 64)
        taken = np.take_along_axis(x, each(offsets, 16, 128), 1).astype(np.float64)
        index, y = index_of(offsets, 16, 128), normal(128, n)
        self.near(add.on("trn3")(x, y, index), taken + y, 1e-6)
        self.near(sums.on("trn3")(x, index, n), 3 * taken + taken.sum(1, keepdims=True), 1e-4)

    def test_a_predicate_may_be_gathered(self):
        x, old, n = normal(128, 24), normal(128, 24), 24
        mask = drawn.integers(0, 2, (128, 40)).astype(np.uint8)
        offsets = some(8, n, 40)
        taken = np.take_along_axis(mask, each(offsets, 16, 128), 1)
        np.testing.assert_array_equal(
            chosen.on("trn3")(x, old, mask, index_of(offsets, 16, 128), n), np.where(taken != 0, x, old))

    def test_the_tensor_engine_multiplies_gathered_columns(self):
        w, x, m, n = normal(128, 200), normal(128, 300), 64, 100
        w16, x16 = w.astype(np.float16), x.astype(np.float16)
        of_w, of_x = some(4, m, 200), some(4, n, 300)
        left = np.take_along_axis(w16, each(of_w, 32, 128), 1).astype(np.float64)
        right = np.take_along_axis(x16, each(of_x, 32, 128), 1).astype(np.float64)
        found = product.on("trn3")(w16, x16, index_of(of_w, 32, 128), index_of(of_x, 32, 128), m, n)
        self.near(found, left.T @ right, 1e-3)

    def test_a_matrix_of_mx_and_its_scales_share_an_index(self):
        kind, n = "float8_e4m3fn_x4", 60
        for parts, rows in ((128, 128), (32, 4)):
            w, x = (drawn.integers(0x10, 0x60, (parts, c, 4), np.uint8).view(np.uint32)[..., 0]
                    for c in (32, 100))
            w_scale, x_scale = (drawn.integers(120, 132, (rows, c), np.uint8) for c in (32, 100))
            offsets = some(parts // 32, n, 100)
            taken = np.take_along_axis(x, each(offsets, 32, parts), 1)
            taken_scale = np.take_along_axis(x_scale, each(offsets, 32, rows), 1)
            w = nki.Encoded(w, kind)
            wanted = scaled_product.on("trn3")(w, w_scale, nki.Encoded(taken, kind), taken_scale, None, n)
            found = scaled_product.on("trn3")(w, w_scale, nki.Encoded(x, kind), x_scale,
                                              index_of(offsets, 32, parts), n)
            np.testing.assert_array_equal(found, wanted)

    def test_a_scattered_product_adds_all_that_goes_to_one_place(self):
        w, x = normal(64, 32).astype(np.float16), normal(64, 48).astype(np.float16)
        offsets = some(1, 48, 20)
        each_product = w.astype(np.float64).T @ x.astype(np.float64)
        wanted = np.zeros((32, 20))
        for i in range(48):
            wanted[:, offsets[0, i]] += each_product[:, i]
        self.near(scattered_product.on("trn3")(w, x, index_of(offsets, 32, 32), 20), wanted, 1e-3)

    def test_the_default_number_of_elements_is_the_size_of_the_index(self):
        @nki.jit
        def kernel(x, index):
            tile, offsets = loaded(x), loaded(index)
            result = nl.ndarray((16, 48), x.dtype)
            nisa.tensor_copy(result, tile.indirect(offsets))
            return stored(result)

        x, offsets = normal(16, 30), some(1, 48, 30)
        np.testing.assert_array_equal(kernel.on("trn3")(x, index_of(offsets, 16, 16)),
                                      np.take_along_axis(x, each(offsets, 16, 16), 1))
        self.refused(kernel.on("trn3"), (normal(128, 30), np.zeros((128, 1), np.uint16)),
                     "index of 1 columns holds 16 offsets", "128")

    def test_check_follows_gathers_and_scatters(self):
        x, old, n = normal(128, 80), normal(128, 90), 33
        index, places = index_of(some(8, n, 80), 16, 128), index_of(some(8, n, 90), 16, 128)
        report = move.on("trn3").check(x, old, index, places, n)
        self.assertFalse(report.not_interpreted)
        report = gather.on("trn3").check(x, index, n)
        self.assertFalse(report.not_interpreted)

    def test_an_offset_out_of_the_partition_ends_the_execution(self):
        index = np.zeros((128, 4), np.int32)
        index[5, 2] = -1
        self.refused(gather.on("trn3"), (normal(128, 32), index, 64), "4294967295", "INDEX_OOB",
                     kind=Exception)

    def test_refusals_name_what_is_wrong_with_a_view(self):
        def refused(body, *words):
            @nki.jit
            def kernel(x, index):
                tile, offsets = loaded(x), loaded(index)
                result = nl.ndarray((128, 16), nl.float32)
                body(tile, offsets, result)
                return stored(result)

            self.refused(kernel.on("trn3"), (normal(128, 32), np.zeros((128, 1), np.uint16)), *words)

        copy = nisa.tensor_copy
        refused(lambda t, i, r: copy(r, t.indirect(i, 17 * 16 * 128)), "num_elem", "1 to 128")
        refused(lambda t, i, r: copy(r, t.indirect(t, 16)), "float32", "uint16, int32 or uint32")
        refused(lambda t, i, r: copy(r, t.indirect(i[0:64, :], 16)), "64 partitions", "128")
        refused(lambda t, i, r: copy(r, t[:, 0:32:2].indirect(i, 16)), "do not follow each other")
        refused(lambda t, i, r: copy(r, t.indirect(i, 16)[:, 0:4]), "is an operand as it stands")
        refused(lambda t, i, r: copy(r, t.indirect(i, 16).indirect(i, 4)), "by an index already")
        refused(lambda t, i, r: copy(r, t.indirect(i, 16), engine=nisa.engine.gpsimd),
                "cannot be indirect on this engine")
        refused(lambda t, i, r: nisa.reciprocal(r, t.indirect(i, 16)), "nisa.reciprocal takes none")
        refused(lambda t, i, r: nisa.tensor_tensor(r, r, t.indirect(i, 16), nl.add),
                "data2 of nisa.tensor_tensor cannot be an indirect view")
        refused(lambda t, i, r: nisa.dma_copy(r, t.indirect(i, 16)), "nisa.dma_copy takes none")
        refused(lambda t, i, r: nisa.activation(r, nl.exp, t[:, 0:16], bias=t.indirect(i, 1)),
                "bias of nisa.activation cannot be an indirect view")


if __name__ == "__main__":
    unittest.main()
