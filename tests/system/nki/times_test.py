# SPDX-License-Identifier: Apache-2.0
"""How the modelled time of each call grows with its elements, beside the cycles that NKI's documents give.

Their formulas are of N, the elements of a partition: a call of 512 more elements takes 512 more times the
factor, in cycles of the engine's clock on trn2. What a call costs besides cancels out.
"""
import inspect
import unittest

import numpy as np
from common import DeviceTest, nisa, nki, nl, output

F, B, I, U = nl.float32, nl.bfloat16, nl.int32, nl.uint32
GHZ = {"Vector": 0.96, "Scalar": 1.2, "GpSimd": 1.2, "Tensor": 2.4}
LESS, MORE = 512, 1024


def new(columns, dtype=F, rows=128, **more):
    return nl.ndarray((rows, columns), dtype, **more)


def filled(columns, dtype=F, value=1.0, rows=128):
    tile = new(columns, dtype, rows)
    nisa.memset(tile, value)
    return tile


CALLS = []


def takes(engine, cycles):
    """For a function of N whose marked line is the call: where it runs, and its cycles for each element."""
    def register(body):
        CALLS.append((body, engine, cycles))
        return body
    return register


@takes("Vector", 2)
def tensor_tensor(n):
    a, b, to = filled(n), filled(n), new(n)
    nisa.tensor_tensor(to, a, b, nl.add)  # timed
    return to


@takes("Vector", 1 / 2)  # N, twice as fast in trn2's mode for 16-bit types
def tensor_tensor_of_halves(n):
    a, b, to = filled(n, B), filled(n, B), new(n, B)
    nisa.tensor_tensor(to, a, b, nl.add)  # timed
    return to


@takes("Vector", 1)
def tensor_scalar(n):
    a, to = filled(n), new(n)
    nisa.tensor_scalar(to, a, nl.multiply, 2.0, op1=nl.add, operand1=1.0)  # timed
    return to


@takes("Vector", 1 / 4)  # trn2's mode for contiguous 16-bit types
def tensor_scalar_of_halves(n):
    a, to = filled(n, B), new(n, B)
    nisa.tensor_scalar(to, a, nl.multiply, 2.0)  # timed
    return to


@takes("Vector", 2)
def scalar_tensor_tensor(n):
    a, b, to = filled(n), filled(n), new(n)
    nisa.scalar_tensor_tensor(to, a, nl.multiply, 2.0, nl.add, b)  # timed
    return to


@takes("Vector", 1)
def tensor_scalar_reduce(n):
    a, to, total = filled(n), new(n), new(1)
    nisa.tensor_scalar_reduce(to, a, nl.multiply, 2.0, nl.add, total)  # timed
    return to


@takes("Vector", 1)
def tensor_scalar_cumulative(n):
    a, to = filled(n), new(n)
    nisa.tensor_scalar_cumulative(to, a, nl.multiply, nl.add, 2.0)  # timed
    return to


@takes("Vector", 1)
def tensor_reduce(n):
    a, to = filled(n), new(1)
    nisa.tensor_reduce(to, nl.add, a, axis=1)  # timed
    return to


@takes("Vector", 2)
def tensor_tensor_scan(n):
    a, b, to = filled(n), filled(n), new(n)
    nisa.tensor_tensor_scan(to, a, b, 0.0, nl.multiply, nl.add)  # timed
    return to


@takes("Vector", 1)
def tensor_copy(n):
    a, to = filled(n), new(n)
    nisa.tensor_copy(to, a, engine=nisa.engine.vector)  # timed
    return to


@takes("Vector", 1 / 4)
def tensor_copy_of_halves(n):
    a, to = filled(n, B), new(n, B)
    nisa.tensor_copy(to, a, engine=nisa.engine.vector)  # timed
    return to


@takes("Scalar", 1)
def tensor_copy_by_scalar(n):
    a, to = filled(n), new(n)
    nisa.tensor_copy(to, a, engine=nisa.engine.scalar)  # timed
    return to


@takes("Vector", 2)
def tensor_copy_predicated(n):
    a, to, where = filled(n), filled(n), filled(n, U, 1)
    nisa.tensor_copy_predicated(to, a, where)  # timed
    return to


@takes("Vector", 1)
def range_select(n):
    a, to, low, high, most = filled(n), new(n), filled(1, F, 3.0), filled(1, F, 9.0), new(1)
    nisa.range_select(to, a, nl.greater_equal, nl.less, low, high, reduce_res=most)  # timed
    return to


@takes("Vector", 8)
def reciprocal(n):
    a, to = filled(n), new(n)
    nisa.reciprocal(to, a)  # timed
    return to


@takes("Vector", 1)
def max8(n):
    a, to = filled(n), new(8)
    nisa.max8(to, a)  # timed
    return to


@takes("Vector", 1)
def nc_find_index8(n):
    a, eight, to = filled(n), filled(8), new(8, U)
    nisa.nc_find_index8(to, a, eight)  # timed
    return to


@takes("Vector", 1)
def nc_match_replace8(n):
    a, eight, to = filled(n), filled(8), new(n)
    nisa.nc_match_replace8(to, a, eight, -1.0)  # timed
    return to


@takes("Vector", 1)
def nc_stream_shuffle(n):
    a, to = filled(n), new(n)
    nisa.nc_stream_shuffle(to, a, list(range(32)))  # timed
    return to


@takes("Vector", 1)
def dropout(n):
    a, to = filled(n), new(n)
    nisa.dropout(to, a, 0.5)  # timed
    return to


@takes("Vector", 1)
def memset(n):
    to = new(n)
    nisa.memset(to, 2.0, engine=nisa.engine.vector)  # timed
    return to


@takes("Scalar", 1)
def activation(n):
    a, to = filled(n), new(n)
    nisa.activation(to, nl.exp, a, scale=0.5)  # timed
    return to


@takes("Scalar", 1)
def activation_reduce(n):
    a, to, total = filled(n), new(n), new(1)
    nisa.activation_reduce(to, nl.exp, a, nl.add, total)  # timed
    return to


@takes("GpSimd", 1)
def iota(n):
    to = new(n, I)
    nisa.iota(to, [[1, n]], 0, 1)  # timed
    return to


@takes("GpSimd", 1)
def affine_select(n):
    a, to = filled(n), new(n)
    nisa.affine_select(to, [[1, n]], 1, a, 0.0, cmp_op=nl.greater)  # timed
    return to


@takes("Tensor", 1 / 2)  # Of half of N: a bank of PSUM has 512 columns
def nc_matmul(n):
    a, b = filled(128, B), filled(n // 2, B)
    to = new(n // 2, F, buffer=nl.psum)
    nisa.nc_matmul(to, a, b)  # timed
    return to


@takes("Tensor", 4 / 2)  # Of half of N, in four passes
def nc_matmul_of_floats(n):
    a, b = filled(128), filled(n // 2)
    to = new(n // 2, F, buffer=nl.psum)
    nisa.nc_matmul(to, a, b)  # timed
    return to


@takes("Vector", 1 / 2)  # Of half of N: at most 512
def bn_stats(n):
    a, to = filled(n // 2), new(6)
    nisa.bn_stats(to, a)  # timed
    return to


@takes("Vector", 13 / 6)  # 13 for each of the N / 6 triples
def bn_aggr(n):
    count = n // 2 // 3
    a, to = filled(3 * count), new(2)
    nisa.bn_aggr(to, a)  # timed
    return to


class Times(DeviceTest):
    def microseconds(self, body, engine, n):
        def kernel(x):
            y, tile = output(x.shape), body(n)
            nl.store(y, nl.copy(tile[0:1, 0:1], dtype=F))
            return y

        lines, first = inspect.getsourcelines(body)
        line = next(first + at for at, text in enumerate(lines) if "# timed" in text)
        costs = [cost for cost in nki.jit(kernel).profile(np.zeros((1, 1), np.float32)).lines if cost.line == line]
        self.assertIn(engine, {cost.engine for cost in costs})
        return sum(cost.microseconds for cost in costs if cost.engine == engine)

    def test_each_call_takes_the_documented_cycles_for_each_element(self):
        for body, engine, cycles in CALLS:
            with self.subTest(body.__name__):
                growth = self.microseconds(body, engine, MORE) - self.microseconds(body, engine, LESS)
                wanted = (MORE - LESS) * cycles / GHZ[engine] * 1e-3
                self.assertAlmostEqual(growth, wanted, delta=0.02 * wanted)


if __name__ == "__main__":
    unittest.main()
