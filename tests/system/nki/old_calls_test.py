# SPDX-License-Identifier: Apache-2.0
"""Each call of neuronxcc.nki.isa, which returns its tile: its values beside NumPy's, and one use that is
refused.

A case is a call, the same in NumPy with float64, a call that must fail, and words of its sentence.
"""
import sys
import unittest

from common import TREE, DeviceTest

sys.path.insert(0, str(TREE / "tools" / "python" / "old"))

import numpy as np  # noqa: E402

import neuronxcc.nki as old  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402
import nki.isa  # noqa: E402

random = np.random.default_rng(31)
# Distinct numbers, so that places of the greatest are known.
X = random.permutation(64 * 48).reshape(64, 48).astype(np.float32) / 997 - 1.5
Y = random.standard_normal((64, 48)).astype(np.float32)
A, B = X.astype(np.float64), Y.astype(np.float64)
TOP = -np.sort(-A, axis=1)[:, :8]


def scanned(initial):
    state, out = np.full(64, float(initial)), np.empty_like(A)
    for i in range(48):
        state = A[:, i] * state + B[:, i]
        out[:, i] = state
    return out


def even_and_odd():
    parts = [np.stack([np.full(64, 24.0), half.mean(1), half.var(1) * 24], 1) for half in (A[:, ::2], A[:, 1::2])]
    return np.concatenate(parts, 1)


def without_greatest():
    out = A.copy()
    np.put_along_axis(out, np.argsort(-A, axis=1)[:, :8], -9.0, 1)
    return out


CASES = {
    "tensor_tensor": (
        lambda x, y: nisa.tensor_tensor(x, y, np.subtract), A - B,
        lambda x, y: nisa.tensor_tensor(x, y[:, 0:7], np.subtract), "cannot be broadcast"),
    "tensor_scalar": (
        lambda x, y: nisa.tensor_scalar(x, np.multiply, 2.0, op1=np.add, operand1=y[:, 0:1]), A * 2 + B[:, :1],
        lambda x, y: nisa.tensor_scalar(x, np.multiply, 2.0, op1=np.bitwise_and, operand1=3),
        "both operations must be bit operations"),
    "scalar_tensor_tensor": (
        lambda x, y: nisa.scalar_tensor_tensor(data=x, op0=np.subtract, operand0=0.5, op1=np.multiply, operand1=y),
        (A - 0.5) * B,
        lambda x, y: nisa.scalar_tensor_tensor(data=x, op0=np.subtract, operand0=0.5, op1=np.multiply,
                                               operand1=y[:, 0:7]), "elements"),
    "tensor_scalar_reduce": (
        lambda x, y: nisa.tensor_scalar_reduce(data=x, op0=np.multiply, operand0=3.0, reduce_op=np.add,
                                               reduce_res=nl.ndarray((64, 1), np.float32, buffer=nl.sbuf)), A * 3,
        lambda x, y: nisa.tensor_scalar_reduce(data=x, op0=np.multiply, operand0=3.0, reduce_op=np.add,
                                               reduce_res=nl.ndarray((64, 2), np.float32, buffer=nl.sbuf)),
        "one element per partition"),
    "tensor_reduce": (
        lambda x, y: nisa.tensor_reduce(np.max, x, axis=1), A.max(1, keepdims=True),
        lambda x, y: nisa.tensor_reduce(np.max, x, axis=0), "over axes 0"),
    "tensor_tensor_scan": (
        lambda x, y: nisa.tensor_tensor_scan(x, y, initial=0.25, op0=np.multiply, op1=np.add), scanned(0.25),
        lambda x, y: nisa.tensor_tensor_scan(x, y[:, 0:7], initial=0.25, op0=np.multiply, op1=np.add), "elements"),
    "tensor_copy": (
        lambda x, y: nisa.tensor_copy(x), A,
        lambda x, y: nisa.tensor_copy(x, engine=nisa.tensor_engine), "engine"),
    "activation": (
        lambda x, y: nisa.activation(op=np.exp, data=x, scale=0.5), np.exp(A / 2),
        lambda x, y: nisa.activation(op=np.exp, data=x, scale=0.5, bias=y), "scalar operand has 48 columns"),
    "activation_reduce": (
        lambda x, y: nisa.activation_reduce(op=np.square, data=x, reduce_op=np.add,
                                            reduce_res=nl.ndarray((64, 1), np.float32, buffer=nl.sbuf)), A * A,
        lambda x, y: nisa.activation_reduce(op=np.square, data=x, reduce_op=np.max,
                                            reduce_res=nl.ndarray((64, 1), np.float32, buffer=nl.sbuf)),
        "reduces with add only"),
    "reciprocal": (
        lambda x, y: nisa.reciprocal(x), 1 / A,
        lambda x, y: nisa.reciprocal(1.0), "float"),
    "dropout": (
        lambda x, y: nisa.dropout(x, 0.0), A,
        lambda x, y: nisa.dropout(1.0, 0.0), "float"),
    "nc_matmul": (
        lambda x, y: nisa.nc_matmul(x, y), A.T @ B,
        lambda x, y: nisa.nc_matmul(x, y[0:32, :]), "[32, 48] (moving)"),
    "nc_transpose": (
        lambda x, y: nisa.nc_transpose(x), A.T,
        lambda x, y: nisa.nc_transpose(x, engine=nisa.scalar_engine), "engine"),
    "bn_stats": (
        lambda x, y: nisa.bn_stats(x), even_and_odd(),
        lambda x, y: nisa.bn_stats(nl.ndarray((64, 513), np.float32, buffer=nl.sbuf)), "512"),
    "bn_aggr": (
        lambda x, y: nisa.bn_aggr(nisa.bn_stats(x)), np.stack([A.mean(1), A.var(1)], 1),
        lambda x, y: nisa.bn_aggr(x[:, 0:7]), "3"),
    "max8": (
        lambda x, y: nisa.max8(src=x), TOP,
        lambda x, y: nisa.max8(src=x[:, 0:7]), "8"),
    "nc_find_index8": (
        lambda x, y: nl.copy(nisa.nc_find_index8(data=x, vals=nisa.max8(src=x)), dtype=np.float32),
        np.argsort(-A, axis=1)[:, :8],
        lambda x, y: nisa.nc_find_index8(data=x, vals=y[:, 0:7]), "8"),
    "nc_match_replace8": (
        lambda x, y: nisa.nc_match_replace8(data=x, vals=nisa.max8(src=x), imm=-9.0), without_greatest(),
        lambda x, y: nisa.nc_match_replace8(data=x, vals=y[:, 0:7], imm=-9.0), "8"),
    "tensor_partition_reduce": (
        lambda x, y: nisa.tensor_partition_reduce(np.add, x), A.sum(0, keepdims=True),
        lambda x, y: nisa.tensor_partition_reduce(np.multiply, x), "op"),
    "memset": (
        lambda x, y: nisa.memset((64, 48), value=2.5, dtype=np.float32), np.full((64, 48), 2.5),
        lambda x, y: nisa.memset((129, 48), value=2.5, dtype=np.float32), "partitions"),
    "iota": (
        lambda x, y: nl.copy(nisa.iota(nl.arange(64)[:, None] * 3 + nl.arange(48)[None, :], dtype=np.int32),
                             dtype=np.float32),
        np.arange(64)[:, None] * 3 + np.arange(48)[None, :],
        lambda x, y: nisa.iota(nl.arange(64)[:, None] * nl.arange(48)[None, :], dtype=np.int32), "evenly"),
    "affine_select": (
        lambda x, y: nisa.affine_select(pred=nl.arange(64)[:, None] >= nl.arange(48)[None, :], on_true_tile=x,
                                        on_false_value=-7.0),
        np.where(np.arange(64)[:, None] >= np.arange(48)[None, :], A, -7.0),
        lambda x, y: nisa.affine_select(pred=nl.arange(48)[None, :] % 2 == 0, on_true_tile=x, on_false_value=-7.0),
        "diagonal"),
    "dma_copy": (None, None, lambda x, y: nisa.dma_copy(dst=x, src=y[:, 0:7]), "elements"),
}


def kernel_of(call):
    def kernel(x, y):
        tile = call(nl.load(x), nl.load(y))
        out = nl.ndarray(tile.shape, np.float32, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out
    return old.jit(kernel)


class OldCalls(DeviceTest):
    def test_each_call_returns_the_values_of_numpy(self):
        for name, (call, wanted, _, _) in CASES.items():
            if call is None:
                continue
            with self.subTest(name):
                got = kernel_of(call)(X, Y)
                self.assertEqual(got.shape, wanted.shape)
                self.near(got, wanted, 2e-5 * max(1.0, np.abs(wanted).max()))

    def test_a_copy_by_dma_fills_a_part_of_a_tile(self):
        @old.jit
        def kernel(x, y):
            tile = nl.load(x)
            nisa.dma_copy(dst=tile[0:32, 0:8], src=y[32:64, 40:48])
            out = nl.ndarray(x.shape, np.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=tile)
            return out

        wanted = A.copy()
        wanted[:32, :8] = B[32:, 40:]
        self.near(kernel(X, Y), wanted, 0)

    def test_each_call_has_a_use_that_is_refused_with_its_line(self):
        for name, (_, _, wrong, word) in CASES.items():
            with self.subTest(name):
                self.refused(kernel_of(wrong), (X, Y), f"old_calls_test.py:{wrong.__code__.co_firstlineno}", word)

    def test_no_call_is_left_out(self):
        # The others are those of nki.isa themselves, which calls_test has.
        own = {name for name in nisa.__all__ if callable(getattr(nisa, name)) and
               getattr(nisa, name) is not getattr(nki.isa, name, None)}
        self.assertEqual(own, set(CASES))


if __name__ == "__main__":
    unittest.main()
