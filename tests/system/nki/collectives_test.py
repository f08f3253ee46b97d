# SPDX-License-Identifier: Apache-2.0
"""Ranks of one process: each a program on a virtual core of its own, with the collectives of ccom."""
import unittest

import numpy as np
from common import DeviceTest, line_of, nisa, nki, nl, normal, output

from nki import collectives as cc

RANKS = 4
ALL = cc.ReplicaGroup([list(range(RANKS))])


def tile_like(x, rows=1, columns=1):
    return nl.ndarray((x.shape[0] * rows, x.shape[1] * columns), x.dtype)


class Collectives(DeviceTest):
    def ranks(self, kernel, inputs, wanted, bound=1e-5):
        for got, golden in zip(kernel.ranks([(x,) for x in inputs]), wanted, strict=True):
            self.near(got, golden, bound)

    def test_ranks_are_reduced_in_hbm_and_in_sbuf(self):
        inputs = [normal(48, 40) for _ in range(RANKS)]
        for op, fold in ((nl.add, np.sum), (nl.maximum, np.max), (nl.minimum, np.min)):
            @nki.jit
            def in_sbuf(x, op=op):
                y, mine, all_of_them = output(x.shape), nl.load(x), tile_like(x)
                cc.all_reduce([mine], [all_of_them], ALL, op)
                nl.store(y, all_of_them)
                return y

            @nki.jit
            def in_hbm(x, op=op):
                y = output(x.shape)
                cc.all_reduce([x], [y], ALL, op)
                return y

            wanted = fold(np.stack(inputs).astype(np.float64), axis=0)
            for kernel in (in_sbuf, in_hbm):
                with self.subTest(op=op.__name__, kernel=kernel.__name__):
                    self.ranks(kernel, inputs, [wanted] * RANKS)

    def test_ranks_are_gathered_along_rows_and_columns(self):
        @nki.jit
        def rows(x):
            y = output((RANKS * x.shape[0], x.shape[1]))
            cc.all_gather([x], [y], ALL, 0)
            return y

        @nki.jit
        def columns(x):
            y, wide = output((x.shape[0], RANKS * x.shape[1])), tile_like(x, columns=RANKS)
            cc.all_gather([nl.load(x)], [wide], ALL, 1)
            nl.store(y, wide)
            return y

        inputs = [normal(16, 24) for _ in range(RANKS)]
        self.ranks(rows, inputs, [np.concatenate(inputs)] * RANKS, 0)
        self.ranks(columns, inputs, [np.concatenate(inputs, 1)] * RANKS, 0)

    def test_parts_are_scattered_and_exchanged(self):
        @nki.jit
        def scatter(x):
            y = output((x.shape[0] // RANKS, x.shape[1]))
            cc.reduce_scatter([x], [y], ALL, 0, nl.add)
            return y

        @nki.jit
        def exchange(x):
            y = output(x.shape)
            cc.all_to_all([x], [y], ALL)
            return y

        inputs = [normal(32, 12) for _ in range(RANKS)]
        total = np.sum(np.stack(inputs).astype(np.float64), 0)
        self.ranks(scatter, inputs, np.split(total, RANKS))
        parts = [np.split(x, RANKS) for x in inputs]
        self.ranks(exchange, inputs, [np.concatenate([p[r] for p in parts]) for r in range(RANKS)], 0)

    def test_groups_of_ranks_work_by_themselves(self):
        pairs = cc.ReplicaGroup.from_partition_op(RANKS, cc.rg_partition_op.mod, 2)
        self.assertEqual(pairs.groups, [[0, 2], [1, 3]])

        @nki.jit
        def kernel(x):
            y = output(x.shape)
            cc.all_reduce([x], [y], pairs, nl.add)
            return y

        inputs = [normal(8, 8) for _ in range(RANKS)]
        even, odd = inputs[0] + inputs[2], inputs[1] + inputs[3]
        self.ranks(kernel, inputs, [even, odd, even, odd])

    def test_tiles_go_around_a_ring(self):
        @nki.jit
        def kernel(x):
            """What each rank had, at its place, after as many permutes as there are other ranks."""
            y, here, there = output((RANKS, *x.shape)), nl.load(x), tile_like(x)
            for step in range(RANKS):
                rank = int(cc.collective_permute_implicit_current_processing_rank_id(step, 0, ALL))
                nl.store(y[rank], here)
                cc.collective_permute_implicit([[here]], [[there]], ALL, [0])
                here, there = there, here
            return y

        inputs = [normal(24, 10) for _ in range(RANKS)]
        self.ranks(kernel, inputs, [np.stack(inputs)] * RANKS, 0)

    def test_pairs_send_and_what_no_pair_names_stays(self):
        @nki.jit
        def kernel(x):
            y, got = output(x.shape), tile_like(x)
            nisa.memset(got, float(int(cc.rank_id())))
            cc.collective_permute([nl.load(x)], [got], [(0, 3), (1, 0)])
            nl.store(y, got)
            return y

        inputs = [normal(8, 6) for _ in range(RANKS)]
        self.ranks(kernel, inputs, [inputs[1], np.full((8, 6), 1), np.full((8, 6), 2), inputs[0]], 0)

    def test_computation_goes_on_around_a_reduction(self):
        @nki.jit
        def kernel(x):
            y, tile, total = output(x.shape), nl.load(x), tile_like(x)
            for _ in range(3):
                nisa.activation(tile, nl.tanh, tile)
                cc.all_reduce([tile], [total], ALL, nl.add)
                nisa.tensor_tensor(tile, tile, total, nl.subtract)
            nl.store(y, tile)
            return y

        inputs = [normal(64, 30) for _ in range(RANKS)]
        values = np.stack(inputs).astype(np.float64)
        for _ in range(3):
            values = np.tanh(values)
            values = values - values.sum(0)
        self.ranks(kernel, inputs, list(values), 1e-4)
        # Three reductions among four ranks take longer than the transfers beside them.
        self.assertGreater(kernel.last.report.device_ps, 15e6)


class Refusals(DeviceTest):
    def refused_at(self, kernel, calls, text, *words):
        with self.assertRaises(nki.NkiError) as caught:
            kernel.ranks(calls)
        for word in (f"collectives_test.py:{line_of(kernel, text)}", *words):
            self.assertIn(word, str(caught.exception))

    def test_groups_that_are_not_the_ranks(self):
        @nki.jit
        def kernel(x):
            y = output(x.shape)
            cc.all_reduce([x], [y], cc.ReplicaGroup([[0, 1, 2]]), nl.add)
            return y

        self.refused_at(kernel, [(normal(8, 8),)] * 2, "all_reduce", "2 ranks")

    def test_shapes_that_do_not_fit(self):
        @nki.jit
        def kernel(x):
            y = output(x.shape)
            cc.all_gather([x], [y], cc.ReplicaGroup([[0, 1]]), 0)
            return y

        self.refused_at(kernel, [(normal(8, 8),)] * 2, "all_gather", "128 elements")

    def test_an_operation_that_ranks_are_not_combined_with(self):
        @nki.jit
        def kernel(x):
            y = output(x.shape)
            cc.all_reduce([x], [y], cc.ReplicaGroup([[0, 1]]), nl.multiply)
            return y

        self.refused_at(kernel, [(normal(8, 8),)] * 2, "all_reduce", "add, maximum or minimum")


if __name__ == "__main__":
    unittest.main()
