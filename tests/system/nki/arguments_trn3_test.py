# SPDX-License-Identifier: Apache-2.0
"""Documented arguments that only trn3 has; a process has one target."""
import unittest

import numpy as np
from arguments_test import COLUMNS, ROWS, OneByte, arithmetic_on_scalar, kernel_of, random, stored
from common import DeviceTest, line_of, nisa, nki, nl, normal


class Engines(OneByte, DeviceTest):
    target = "trn3"

    def test_the_scalar_engine_has_all_arithmetic(self):
        a, column = normal(ROWS, COLUMNS) * 9, (np.abs(normal(ROWS, 1)) + 0.5).astype(np.float32)
        goldens = (np.maximum(column - a, np.float32(0.25)), (a > column).astype(np.float32), np.mod(a, column))
        for body, golden in zip(arithmetic_on_scalar(), goldens):
            kernel = kernel_of(body).on("trn3")
            np.testing.assert_array_equal(kernel(a, column), golden)
            self.assertIn("Scalar", {line.engine for line in kernel.profile(a, column).lines})

    def test_vector_of_trn3_has_random_states_of_24_words(self):
        states = random.integers(1, 2**32, (ROWS, 24)).astype(np.uint32)

        def made(engine):
            @nki.jit
            def kernel(s):
                after, bits = nl.ndarray((ROWS, 24), nl.uint32), nl.ndarray((ROWS, 8), nl.uint32)
                nisa.rand_set_state(nl.load(s), engine=engine)
                nisa.rng(bits, engine=nisa.engine.vector)
                nisa.rand_get_state(after, engine=engine)
                return stored(bits), stored(after)
            return kernel

        wanted, left = np.empty((ROWS, 8), np.uint32), states.reshape(ROWS, 4, 6).copy()
        with np.errstate(over="ignore"):
            for e in range(8):
                s = left[:, e % 4]
                t = s[:, 0] ^ s[:, 0] >> np.uint32(2)
                s[:, :4] = s[:, 1:5].copy()
                s[:, 4] = s[:, 4] ^ s[:, 4] << np.uint32(4) ^ t ^ t << np.uint32(1)
                s[:, 5] += np.uint32(362437)
                wanted[:, e] = s[:, 5] + s[:, 4]
        for engine in (nisa.engine.unknown, nisa.engine.vector):
            bits, after = made(engine).on("trn3")(states)
            np.testing.assert_array_equal(bits, wanted)
            np.testing.assert_array_equal(after, left.reshape(ROWS, 24))
        self.refused(made(nisa.engine.vector).on("trn2"), (states,), "engine = vector", "generation 3", "gpsimd")


class Reductions(DeviceTest):
    def setUp(self):
        self.x, self.first = normal(ROWS, COLUMNS), normal(ROWS, 1)

    def test_exponential_begins_its_sum_with_a_column_or_a_number(self):
        def made(init):
            @nki.jit
            def kernel(x, first):
                tile, total = nl.load(x), nl.ndarray((ROWS, 1), nl.float32)
                nisa.exponential(tile, tile, max_value=1.0, reduce_res=total,
                                 reduce_cmd=nisa.reduce_cmd.load_reduce,
                                 reduce_init=nl.load(first) if init is None else init)
                return stored(tile), stored(total)
            return kernel.on("trn3")

        wanted = np.exp(self.x.astype(np.float64) - 1)
        for init, start in ((None, self.first), (2.5, 2.5), (0.0, 0.0)):
            values, total = made(init)(self.x, self.first)
            self.near(values, wanted, 1e-5)
            self.near(total, wanted.sum(1, keepdims=True) + start, 1e-4)
            self.assertEqual(made(init).check(self.x, self.first).not_interpreted, {})

    def test_exponential_does_not_drop_reduce_init(self):
        @nki.jit
        def kernel(x):
            tile, total = nl.load(x), nl.ndarray((ROWS, 1), nl.float32)
            nisa.exponential(tile, tile, reduce_res=total, reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_init=1.0)
            return stored(total)

        self.refused(kernel.on("trn3"), (self.x,), f"arguments_trn3_test.py:{line_of(kernel, 'nisa.exponential')}",
                     "reduce_init", "load_reduce")


if __name__ == "__main__":
    unittest.main()
