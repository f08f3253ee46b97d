# SPDX-License-Identifier: Apache-2.0
"""Each call that public kernels make: its values beside NumPy's, and one use that is refused.

A case is a class: run() is the body of a kernel from its arrays to the tiles that it returns, want()
the same in NumPy with float64, wrong() a body that must fail with a sentence that has `words` and the
line of the call. COVERED names the calls; the last test compares them with the cases.
"""
import inspect
import math
import unittest

import numpy as np
from common import DeviceTest, nisa, nki, nl, output

random = np.random.default_rng(29)
F, I, U = nl.float32, nl.int32, nl.uint32
X = random.standard_normal((64, 48)).astype(np.float32)
Y = random.standard_normal((64, 48)).astype(np.float32)
COLUMN = random.standard_normal((64, 1)).astype(np.float32)
SQUARE = random.standard_normal((64, 64)).astype(np.float32)
COUNT = np.arange(64, dtype=np.int32).reshape(64, 1)


def new(shape=(64, 48), dtype=F, **more):
    return nl.ndarray(shape, dtype, **more)


def d(x):
    return np.asarray(x, np.float64)


class Case:
    arrays, bound, words, grid, calls = (X, Y), 1e-5, (), 1, None
    outside = False  # wrong() is called where there is no kernel


class Ndarray(Case):
    words = ("partitions",)

    def run(x, y):
        fixed = new(address=(0, 4096))
        nisa.dma_copy(fixed, x)
        return [fixed]

    def want(x, y):
        return [x]

    def wrong(x, y):
        nl.ndarray((129, 4), F)


class DmaCopy(Case):
    words = ("elements",)

    def run(x, y):
        through, tile = nl.ndarray((64, 48), nl.bfloat16, buffer=nl.private_hbm), new()
        nisa.dma_copy(through, x)
        nisa.dma_copy(tile, through)
        nisa.dma_copy(tile[0:32, 0:8], y[32:64, 40:48])
        return [tile]

    def want(x, y):
        wanted = nki.to_float32(nki.encode(x, "bfloat16")).copy()
        wanted[:32, :8] = y[32:, 40:]
        return [wanted]

    def wrong(x, y):
        nisa.dma_copy(new(), x[:, 0:7])


class TensorCopy(Case):
    words = ("engine",)

    def run(x, y):
        out, other = new(dtype=nl.bfloat16), new()
        nisa.tensor_copy(out, nl.load(x), engine=nisa.engine.vector)
        nisa.tensor_copy(other, out, engine=nisa.engine.scalar)
        return [other]

    def want(x, y):
        return [nki.to_float32(nki.encode(x, "bfloat16"))]

    def wrong(x, y):
        nisa.tensor_copy(new(), nl.load(x), engine=nisa.engine.tensor)


class Ds(Case):
    words = ("leave dimension 1",)

    def run(x, y):
        tile = nl.load(x)
        nisa.memset(tile[nl.ds(32, 32), nl.ds(8, 4)], 2.0)
        return [tile]

    def want(x, y):
        wanted = x.copy()
        wanted[32:, 8:12] = 2
        return [wanted]

    def wrong(x, y):
        nl.load(x)[:, nl.ds(44, 8)]


class TensorTensor(Case):
    words = ("PSUM",)

    def run(x, y):
        out = new()
        nisa.tensor_tensor(out, nl.load(x), nl.load(y), nl.subtract)
        return [out]

    def want(x, y):
        return [d(x) - y]

    def wrong(x, y):
        a, b = new(buffer=nl.psum), new(buffer=nl.psum)
        nisa.memset(a, 0)
        nisa.memset(b, 0)
        nisa.tensor_tensor(new(), a, b, nl.add)


class TensorScalar(Case):
    arrays, words = (X, COLUMN), ("op0",)

    def run(x, c):
        out = new()
        nisa.tensor_scalar(out, nl.load(x), nl.subtract, nl.load(c), reverse0=True, op1=nl.maximum,
                           operand1=0.25)
        return [out]

    def want(x, c):
        return [np.maximum(d(c) - x, 0.25)]

    def wrong(x, c):
        nisa.tensor_scalar(new(), nl.load(x), "tangent", 1.0)


class Memset(Case):
    words = ("2.5",)

    def run(x, y):
        out, whole = new(), new(dtype=nl.uint16)
        nisa.memset(out, -0.1)
        nisa.memset(whole, 65535)
        beyond = []
        for dtype, value in ((nl.uint8, 300), (nl.int8, -200.0), (nl.uint32, -1), (nl.int32, 2**40)):
            beyond.append(new(dtype=dtype))
            nisa.memset(beyond[-1], value)
        return [out, whole] + beyond

    def want(x, y):
        nearest = [np.full((64, 48), v) for v in (65535, 255, -128, 0, 2**31 - 1)]
        return [np.full((64, 48), np.float32(-0.1))] + nearest

    def wrong(x, y):
        nisa.memset(new(dtype=I), 2.5)


class Ranges(Case):
    calls, words = ("affine_range", "static_range", "sequential_range"), ("bound of the loop",)

    def run(x, y):
        total = new((64, 8))
        nisa.memset(total, 0)
        tile = nl.load(x)
        for outer in (nl.affine_range(2), nl.static_range(2), nl.sequential_range(0, 4, 2)):
            for i in outer:
                nisa.tensor_tensor(total, total, tile[:, 8 * i:8 * i + 8], nl.add)
        return [total]

    def want(x, y):
        x = d(x)
        return [3 * x[:, 0:8] + 2 * x[:, 8:16] + x[:, 16:24]]

    def wrong(x, y):
        nl.affine_range(2.5)


class NcMatmul(Case):
    bound, words = 1e-4, ("PSUM",)

    def run(x, y):
        product = new((48, 48), buffer=nl.psum)
        for _ in range(2):
            nisa.nc_matmul(product, nl.load(x), nl.load(y))
        return [product]

    def want(x, y):
        return [2 * d(x).T @ y]

    def wrong(x, y):
        nisa.nc_matmul(new((48, 48)), nl.load(x), nl.load(y))


class NcTranspose(Case):
    words = ("32 x 32",)

    def run(x, y):
        turned, small = new((48, 64), buffer=nl.psum), new((32, 32))
        nisa.nc_transpose(turned, nl.load(x))
        nisa.nc_transpose(small, nl.load(x)[0:32, 8:40], engine=nisa.engine.vector)
        return [turned, small]

    def want(x, y):
        return [x.T, x[:32, 8:40].T]

    def wrong(x, y):
        nisa.nc_transpose(new((48, 64)), nl.load(x), engine=nisa.engine.vector)


class Activation(Case):
    arrays, words, bound = (X, COLUMN), ("tan",), 1e-4

    def run(x, c):
        out, total = new(), new((64, 1))
        nisa.activation(out, nl.exp, nl.load(x), bias=nl.load(c), scale=0.5, reduce_op=nl.add,
                        reduce_res=total, reduce_cmd=nisa.reduce_cmd.reset_reduce)
        return [out, total]

    def want(x, c):
        wanted = np.exp(0.5 * d(x) + c)
        return [wanted, wanted.sum(1, keepdims=True)]

    def wrong(x, c):
        nisa.activation(new(), "tan", nl.load(x))


class LoadStore(Case):
    calls, words = ("load", "store"), ("HBM",)

    def run(x, y):
        held = nl.ndarray((64, 48), F, buffer=nl.private_hbm)
        nl.store(held, nl.load(x))
        return [nl.load(held, dtype=nl.float16)]

    def want(x, y):
        return [x.astype(np.float16)]

    def wrong(x, y):
        nl.load(nl.load(x))


class TensorReduce(Case):
    words = ("axes",)

    def run(x, y):
        out = new((64, 6))
        nisa.tensor_reduce(out, nl.maximum, nl.load(x).reshape((64, 6, 8)), axis=2, negate=True)
        return [out]

    def want(x, y):
        return [-x.reshape(64, 6, 8).max(2)]

    def wrong(x, y):
        nisa.tensor_reduce(new((1, 48)), nl.add, nl.load(x), axis=0)


class NcStreamShuffle(Case):
    words = ("shuffle_mask",)
    mask = [31 - i if i % 3 else 255 for i in range(32)]

    def run(x, y):
        out = nl.load(y)
        nisa.nc_stream_shuffle(out, nl.load(x), NcStreamShuffle.mask)
        return [out]

    def want(x, y):
        wanted = y.copy()
        for p in range(64):
            row = NcStreamShuffle.mask[p % 32]
            if row != 255:
                wanted[p] = x[p // 32 * 32 + row]
        return [wanted]

    def wrong(x, y):
        nisa.nc_stream_shuffle(nl.load(y), nl.load(x), [40] * 32)


class DmaTranspose(Case):
    words = ("axes",)

    def run(x, y):
        out, boxes = new((48, 64)), new((4, 3, 64))
        nisa.dma_transpose(out, x)
        nisa.dma_transpose(boxes, y.reshape((64, 12, 4))[:, 0:3], axes=(2, 1, 0))
        return [out, boxes.reshape((4, 192))]

    def want(x, y):
        return [x.T, y.reshape(64, 12, 4)[:, :3].transpose(2, 1, 0).reshape(4, 192)]

    def wrong(x, y):
        nisa.dma_transpose(new((48, 64)), x, axes=(0, 1))


class SendRecv(Case):
    grid, calls, words = 2, ("sendrecv", "core_barrier", "program_id", "num_programs"), ("elements",)

    def run(x, y):
        mine, theirs = new((1, 48)), new((1, 48))
        assert nl.num_programs() == 2
        nisa.memset(mine, 5.0 + nl.program_id(0))
        nisa.core_barrier(mine, (0, 1))
        other = 1 - nl.program_id(0)
        nisa.sendrecv(mine, theirs, other, other, 0)
        return [theirs]

    def want(x, y):
        return [np.repeat([[6.0], [5.0]], 48, 1)]

    def wrong(x, y):
        nisa.sendrecv(new((1, 48)), new((1, 40)), 0, 0, 0)


class Iota(Case):
    words = ("step", "65535")

    def run(x, y):
        out = new(dtype=I)
        nisa.iota(out, [[100, 6], [-1, 8]], offset=7, channel_multiplier=1000)
        return [out]

    def want(x, y):
        row = 7 + (100 * np.arange(6)[:, None] - np.arange(8)).reshape(1, 48)
        return [row + 1000 * np.arange(64)[:, None]]

    def wrong(x, y):
        nisa.iota(new(dtype=I), [[1, 70000]])


class Reciprocal(Case):
    words = ("dst",)

    def run(x, y):
        out = new()
        nisa.reciprocal(out, nl.load(x))
        return [out]

    def want(x, y):
        return [1 / d(x)]

    def wrong(x, y):
        nisa.reciprocal(None, nl.load(x))


class ScalarTensorTensor(Case):
    words = ("operand1",)

    def run(x, y):
        out = new()
        nisa.scalar_tensor_tensor(out, nl.load(x), nl.multiply, 2.0, nl.subtract, nl.load(y),
                                  reverse1=True)
        return [out]

    def want(x, y):
        return [d(y) - 2 * d(x)]

    def wrong(x, y):
        nisa.scalar_tensor_tensor(new(), nl.load(x), nl.multiply, 2.0, nl.add, 3.0)


class GetNcVersion(Case):
    words, outside = ("@nki.jit",), True

    def run(x, y):
        out = new((1, 1))
        nisa.memset(out, float(nisa.get_nc_version() >= nisa.nc_version.gen3))
        return [out]

    def want(x, y):
        return [[[1.0]]]

    def wrong(x, y):
        nisa.get_nc_version()


class TensorTensorScan(Case):
    words = ("initial",)
    bound = 1e-4

    def run(x, y):
        out, half = new(), nl.load(x)
        nisa.activation(half, nl.tanh, half)
        nisa.tensor_tensor_scan(out, half, nl.load(y), 1.5, nl.multiply, nl.add)
        return [out]

    def want(x, y):
        state, out = np.full(64, 1.5), np.empty((64, 48))
        for i in range(48):
            state = np.tanh(d(x[:, i])) * state + y[:, i]
            out[:, i] = state
        return [out]

    def wrong(x, y):
        nisa.tensor_tensor_scan(new(), nl.load(x), nl.load(y), "none", nl.multiply, nl.add)


class BlockScaled(Case):
    calls, words = ("nc_matmul_mx", "quantize_mx"), ("generation 4",)
    run = want = None

    def wrong(x, y):
        nisa.quantize_mx(new(), nl.load(x), new())


class ActivationReduce(Case):
    words = ("add only",)
    bound = 1e-4

    def run(x, y):
        out, total = new(), new((64, 1))
        nisa.activation_reduce(out, nl.square, nl.load(x), nl.add, total)
        return [out, total]

    def want(x, y):
        return [d(x)**2, (d(x)**2).sum(1, keepdims=True)]

    def wrong(x, y):
        nisa.activation_reduce(new(), nl.square, nl.load(x), nl.maximum, new((64, 1)))


class TensorScalarReduce(Case):
    words = ("reverse0",)
    bound = 1e-4

    def run(x, y):
        out, total = new(), new((64, 1))
        nisa.tensor_scalar_reduce(out, nl.load(x), nl.multiply, 3.0, nl.add, total,
                                  reduce_res_negate=True)
        return [out, total]

    def want(x, y):
        return [3 * d(x), -3 * d(x).sum(1, keepdims=True)]

    def wrong(x, y):
        nisa.tensor_scalar_reduce(new(), nl.load(x), nl.subtract, 3.0, nl.add, new((64, 1)),
                                  reverse0=True)


class DmaCompute(Case):
    words = ("scales",)

    def run(x, y):
        out, low = nl.ndarray((64, 48), F, buffer=nl.private_hbm), new()
        nisa.dma_compute(out, [x, y, x], nl.add)
        nisa.dma_compute(low, [x, y], nl.minimum)
        return [nl.load(out), low]

    def want(x, y):
        return [2 * d(x) + y, np.minimum(x, y)]

    def wrong(x, y):
        nisa.dma_compute(new(), [x, y], nl.maximum, scales=[1.0, 2.0])


class Max8(Case):
    calls, words = ("max8", "nc_find_index8"), ("8",)

    def run(x, y):
        eight, places = new((64, 8)), new((64, 8), U)
        nisa.max8(eight, nl.load(x))
        nisa.nc_find_index8(places, nl.load(x), eight)
        return [eight, places]

    def want(x, y):
        order = np.argsort(-x, 1, kind="stable")[:, :8]
        return [np.take_along_axis(x, order, 1), order]

    def wrong(x, y):
        nisa.max8(new((64, 7)), nl.load(x))


class NcMatchReplace8(Case):
    words = ("8 neighbouring",)

    def run(x, y):
        eight, out, places = new((64, 8)), new(), new((64, 8), U)
        nisa.max8(eight, nl.load(x))
        nisa.nc_match_replace8(out, nl.load(x), eight, -100.0, dst_idx=places)
        return [out, places]

    def want(x, y):
        order, out = np.argsort(-x, 1, kind="stable")[:, :8], x.copy()
        np.put_along_axis(out, order, -100, 1)
        return [out, order]

    def wrong(x, y):
        nisa.nc_match_replace8(new(), nl.load(x), nl.load(y)[:, 0:16:2], 0.0)


class AffineSelect(Case):
    words = ("cmp_op",)

    def run(x, y):
        out = new()
        nisa.affine_select(out, [[-1, 48]], 1, nl.load(x), -3.0, cmp_op=nl.greater_equal, offset=2)
        return [out]

    def want(x, y):
        return [np.where(np.arange(64)[:, None] - np.arange(48) + 2 >= 0, x, -3)]

    def wrong(x, y):
        nisa.affine_select(new(), [[-1, 48]], 1, nl.load(x), 0.0, cmp_op="near")


class RangeSelect(Case):
    arrays, words = (X, 4 + 30 * np.abs(COLUMN)), ("maximum only",)

    def run(x, c):
        low, out, most = new((64, 1)), new(), new((64, 1))
        nisa.memset(low, 3.0)
        nisa.range_select(out, nl.load(x), nl.greater_equal, nl.less, low, nl.load(c),
                          reduce_res=most, range_start=2, reduce_op=nl.maximum)
        return [out, most]

    def want(x, c):
        at = 2 + np.arange(48)
        out = np.where((at >= 3) & (at < c), x, np.finfo(np.float32).min)
        return [out, out.max(1, keepdims=True)]

    def wrong(x, c):
        nisa.range_select(new(), nl.load(x), nl.greater, nl.less, nl.load(c), nl.load(c),
                          reduce_op=nl.add)


class SelectReduce(Case):
    words = ("predicate",)

    def run(x, y):
        mask, out, most = new(dtype=nl.uint8), new(), new((64, 1))
        nisa.tensor_scalar(mask, nl.load(y), nl.greater, 0.0)
        nisa.select_reduce(out, mask, nl.load(x), -9.0, reduce_res=most,
                           reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.select_reduce(out, mask, nl.load(x), -9.0, reverse_pred=True)
        return [out, most]

    def want(x, y):
        return [np.where(y > 0, -9, x), np.where(y > 0, x, -9).max(1, keepdims=True)]

    def wrong(x, y):
        nisa.select_reduce(new(), nl.load(y), nl.load(x), -9.0)


class Registers(Case):
    calls = ("register_load", "register_alloc", "register_move", "register_store", "dynamic_range")
    arrays, words = (X, np.full((1, 1), 3, np.int32)), ("int32",)

    def run(x, n):
        register, out = nisa.register_alloc(nl.load(n)), nl.load(x)
        number = new((1, 1), I)
        for i in nl.dynamic_range(register):
            nisa.tensor_scalar(out, out, nl.add, 2.0)
            nisa.register_store(number, i)
        return [out, number]

    def want(x, n):
        return [d(x) + 6, [[2]]]

    def wrong(x, n):
        nisa.register_load(nisa.register_alloc(), nl.load(x)[0:1, 0:1])


class Collectives(Case):
    """With one rank; collectives_test has several."""

    calls, words = ("all_gather", "all_reduce", "rank_id"), ("1 rank",)

    def run(x, y):
        group, tile, both = nki.collectives.ReplicaGroup([[0]]), new(), new()
        nki.collectives.all_reduce([nl.load(x)], [tile], group, nl.add)
        nki.collectives.all_gather([tile], [both], group, 1)
        assert int(nki.collectives.rank_id()) == 0
        return [both]

    def want(x, y):
        return [x]

    def wrong(x, y):
        nki.collectives.all_reduce([x], [y], nki.collectives.ReplicaGroup([[0, 1]]), nl.add)


class TensorScalarCumulative(Case):
    words = ("op1",)
    bound = 1e-4

    def run(x, y):
        out = new()
        nisa.tensor_scalar_cumulative(out, nl.load(x), nl.multiply, nl.add, 2.0, 1.0,
                                      reduce_cmd=nisa.reduce_cmd.load_reduce)
        return [out]

    def want(x, y):
        return [1 + np.cumsum(2 * d(x), 1)]

    def wrong(x, y):
        nisa.tensor_scalar_cumulative(new(), nl.load(x), nl.multiply, "last", 2.0)


class TensorCopyPredicated(Case):
    words = ("predicate",)

    def run(x, y):
        mask, out = new(dtype=nl.uint8), nl.load(y)
        nisa.tensor_scalar(mask, nl.load(x), nl.less, 0.0)
        nisa.tensor_copy_predicated(out, nl.load(x), mask)
        return [out]

    def want(x, y):
        return [np.where(x < 0, x, y)]

    def wrong(x, y):
        nisa.tensor_copy_predicated(nl.load(y), nl.load(x), 1)


class TensorPartitionReduce(Case):
    words = ("op",)
    bound = 1e-4

    def run(x, y):
        out = new((1, 48))
        nisa.tensor_partition_reduce(out, nl.add, nl.load(x))
        return [out]

    def want(x, y):
        return [d(x).sum(0, keepdims=True)]

    def wrong(x, y):
        nisa.tensor_partition_reduce(new((1, 48)), nl.power, nl.load(x))


class BnStats(Case):
    calls, words = ("bn_stats", "bn_aggr"), ("512",)

    def run(x, y):
        parts, out = new((64, 12)), new((64, 2))
        nisa.bn_stats(parts[:, 0:6], nl.load(x)[:, 0:30])
        nisa.bn_stats(parts[:, 6:12], nl.load(x)[:, 30:48])
        nisa.bn_aggr(out, parts)
        return [out]

    def want(x, y):
        return [np.stack([d(x).mean(1), d(x).var(1)], 1)]

    def wrong(x, y):
        nisa.bn_stats(new((64, 6)), nl.zeros((64, 600), F))


class LocalGather(Case):
    words = ("num_elem_per_idx",)
    index = random.integers(0, 12, (64, 3)).astype(np.uint16) * 4
    arrays = (X, index)

    def run(x, i):
        out = new((64, 192))
        nisa.local_gather(out, nl.load(x), nl.load(i), num_elem_per_idx=4)
        return [out]

    def want(x, i):
        out = np.empty((64, 192))
        for core in range(4):
            rows = slice(16 * core, 16 * core + 16)
            flat = i[rows].T.reshape(-1).astype(int)  # Partitions first
            out[rows] = x[rows][:, (flat[:, None] + np.arange(4)).reshape(-1)]
        return [out]

    def wrong(x, i):
        nisa.local_gather(new((64, 144)), nl.load(x), nl.load(i), num_elem_per_idx=3)


class NcNGather(Case):
    words = ("indices",)
    arrays = (X, random.integers(0, 48, (64, 48)).astype(np.uint32))

    def run(x, i):
        out = new()
        nisa.nc_n_gather(out, nl.load(x), nl.load(i))
        return [out]

    def want(x, i):
        return [np.take_along_axis(x, i.astype(int), 1)]

    def wrong(x, i):
        nisa.nc_n_gather(new(), nl.load(x), 5)


class Dropout(Case):
    words = ("prob",)

    def run(x, y):
        all_of_it, none = new(), new()
        nisa.dropout(all_of_it, nl.load(x), 0.0)
        nisa.dropout(none, nl.load(x), 1.0)
        return [all_of_it, none]

    def want(x, y):
        return [x, 0 * x]

    def wrong(x, y):
        nisa.dropout(new(), nl.load(x), "half")


class NonzeroWithCount(Case):
    words = ("one element more",)

    def run(x, y):
        mask, out = new(), new((64, 49), I)
        nisa.memset(out, 0)
        nisa.tensor_scalar(mask, nl.load(x), nl.greater, 0.0)
        nisa.nonzero_with_count(out, mask, index_offset=10)
        return [out]

    def want(x, y):
        out = np.zeros((64, 49))
        for p in range(0, 64, 16):
            places = np.flatnonzero(x[p] > 0)
            out[p] = [*(places + 10), *[-1] * (48 - len(places)), len(places)]
        return [out]

    def wrong(x, y):
        nisa.nonzero_with_count(new((64, 48), I), nl.load(x))


class RandomState(Case):
    """Marsaglia's xorwow, written from its description: d counts, x to v shift."""

    calls, words = ("rand_set_state", "rand_get_state", "rng"), ("6 words",)
    arrays = (random.integers(0, 2**32, (64, 6), dtype=np.uint32), X)

    def run(s, x):
        out, after = new((64, 5), U), new((64, 6), U)
        nisa.rand_set_state(nl.load(s))
        nisa.rng(out, engine=nisa.engine.gpsimd)
        nisa.rand_get_state(after)
        return [out, after]

    def want(s, x):
        state, out = [s[:, i].astype(np.uint64) for i in range(6)], []
        low = np.uint64(2**32 - 1)
        for _ in range(5):
            t = state[0] ^ state[0] >> np.uint64(2)
            v = state[4]
            new_v = (v ^ v << np.uint64(4) ^ t ^ t << np.uint64(1)) & low
            state = [*state[1:5], new_v, (state[5] + np.uint64(362437)) & low]
            out.append((new_v + state[5]) & low)
        return [np.stack(out, 1), np.stack(state, 1)]

    def wrong(s, x):
        nisa.rand_set_state(nl.load(s)[:, 0:5])


class NewerOnes(Case):
    calls, words = ("rand2", "exponential", "activate2"), ("generation 4",)
    run = want = None

    def wrong(x, y):
        nisa.exponential(new(), nl.load(x))


class Views(Case):
    """The methods of tensors, most of them by the elements that they leave where they are."""

    calls = ("reshape", "ap", "slice", "select", "reshape_dim", "permute", "expand_dim", "view",
             "broadcast", "squeeze_dim", "flatten_dims")
    words = ("3072 elements",)

    def run(x, y):
        tile, out = nl.load(x), []

        def keep(view):
            copy = new((64, math.prod(view.shape[1:])), view.dtype)
            nisa.tensor_copy(copy.reshape(view.shape), view)
            out.append(copy)

        keep(tile.reshape((64, 6, 8)).permute((0, 2, 1)))
        keep(tile.ap([[48, 64], [4, 12], [1, 2]], offset=1))
        keep(tile.slice(1, 5, 20, 3))
        keep(tile.reshape_dim(1, (4, 12)).select(1, 2))
        keep(tile.expand_dim(1).broadcast(1, 3))
        keep(tile.reshape((64, 1, 48)).squeeze_dim(1))
        keep(tile.reshape((64, 3, 16)).flatten_dims(1, 2))
        keep(tile.view(nl.uint16))
        return out

    def want(x, y):
        return [x.reshape(64, 6, 8).transpose(0, 2, 1).reshape(64, 48),
                np.stack([x[:, 1::4], x[:, 2::4]], 2).reshape(64, 24), x[:, 5:20:3], x[:, 24:36],
                np.tile(x, 3), x, x, x.view(np.uint16)]

    def wrong(x, y):
        nl.load(x).reshape((64, 47))


class DoubleRow(Case):
    """Both rows of each partition are more of the depth; dst is as wide as one of them."""

    words = ("double_row",)
    arrays = tuple(nki.encode(random.integers(-8, 9, (64, 2, n)).astype(np.float32), "float8_e4m3")
                   for n in (32, 80))
    calls = ("perf_mode",)

    def run(a, b):
        product, mode = new((32, 80), buffer=nl.psum), nisa.matmul_perf_mode.double_row
        nisa.nc_matmul(product, nl.load(a), nl.load(b), perf_mode=mode)
        return [product]

    def want(a, b):
        a, b = d(nki.to_float32(a)), d(nki.to_float32(b))
        return [np.einsum("kjm,kjn->mn", a, b)]

    def wrong(a, b):
        half = nl.load(a, dtype=nl.bfloat16)
        nisa.nc_matmul(new((32, 32), buffer=nl.psum), half, half, perf_mode="double_row")


COVERED = {
    "ndarray", "dma_copy", "tensor_copy", "ds", "tensor_tensor", "tensor_scalar", "memset",
    "affine_range", "static_range", "sequential_range", "nc_matmul", "nc_transpose", "activation",
    "load", "store", "tensor_reduce", "nc_stream_shuffle", "dma_transpose", "sendrecv", "iota",
    "reciprocal", "core_barrier", "program_id", "num_programs", "scalar_tensor_tensor",
    "get_nc_version", "tensor_tensor_scan", "nc_matmul_mx", "quantize_mx", "activation_reduce",
    "tensor_scalar_reduce", "dma_compute", "max8", "nc_find_index8", "nc_match_replace8",
    "affine_select", "range_select", "select_reduce", "register_load", "register_alloc",
    "register_move", "register_store", "dynamic_range", "all_gather", "all_reduce",
    "rank_id", "tensor_scalar_cumulative", "tensor_copy_predicated", "tensor_partition_reduce", "bn_stats",
    "bn_aggr", "local_gather", "nc_n_gather", "dropout", "nonzero_with_count", "rand_set_state",
    "rand_get_state", "rng", "rand2", "exponential", "activate2", "reshape", "ap", "slice", "select",
    "reshape_dim", "permute", "expand_dim", "view", "broadcast", "squeeze_dim", "flatten_dims",
    "perf_mode"}


def snake(name):
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


def calls_of(case):
    return case.calls or (snake(case.__name__),)


def kernel_of(body, grid):
    """Returns what the body's tiles hold, one result below the other for the programs of a grid."""
    def kernel(a, b):
        results = []
        for tile in body(a, b) or ():
            rows = tile.shape[0]
            y = output((grid * rows, *tile.shape[1:]), tile.dtype)
            first = nl.program_id(0) * rows
            nl.store(y[first:first + rows], tile)
            results.append(y)
        return results

    made = nki.jit(kernel)
    made.__name__ = body.__qualname__.replace(".", "_")
    return made if grid == 1 else made[grid]


def line_of_last(body):
    """The line on which the last call of a body begins."""
    lines, first = inspect.getsourcelines(body)
    calls = [n for n, line in enumerate(lines) if line.startswith("        ") and not
             line.startswith("         ") and line.strip()]
    return first + calls[-1]


CASES = Case.__subclasses__()


class Calls(DeviceTest):
    def test_each_call_has_the_values_of_numpy(self):
        for case in CASES:
            if case.run is None:
                continue
            with self.subTest(case.__name__):
                got = kernel_of(case.run, case.grid)(*case.arrays)
                wanted = case.want(*case.arrays)
                self.assertEqual(len(got), len(wanted))
                for one, other in zip(got, wanted):
                    if np.asarray(one).dtype.kind in "iu":
                        np.testing.assert_array_equal(one, other)
                    else:
                        self.near(one, other, case.bound * max(1.0, np.abs(d(other)).max()))

    def test_each_call_has_a_use_that_is_refused_with_its_line(self):
        for case in CASES:
            with self.subTest(case.__name__):
                place = f"calls_test.py:{line_of_last(case.wrong)}"
                wrong = case.wrong if case.outside else kernel_of(case.wrong, case.grid)
                self.refused(wrong, case.arrays, place, *case.words)

    def test_no_call_is_left_out(self):
        tested = [name for case in CASES for name in calls_of(case)]
        self.assertEqual(sorted(tested), sorted(COVERED))


if __name__ == "__main__":
    unittest.main()
