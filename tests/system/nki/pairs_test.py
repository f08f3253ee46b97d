# SPDX-License-Identifier: Apache-2.0
"""The two programs of kernel[2], each on a physical core of its own: what they exchange, in what time,
and what is said where one does not wait for the other. For trn2, or the target of the environment."""
import json
import os
import unittest
import unittest.mock

import numpy as np
from common import DeviceTest, line_of, nisa, nki, nl, normal, output

from nki import compiler, runtime

# A second program that never comes is found by the clock of the host.
os.environ.setdefault("NEURON_RT_EXEC_TIMEOUT", "3")


def halves():
    """This program's number, its rows of 256, and those of the other one."""
    me = nl.program_id(0)
    return me, slice(128 * me, 128 * me + 128), slice(128 * (1 - me), 128 * (1 - me) + 128)


def records_of(kernel, *arguments):
    return [json.loads(line) for line in kernel.trace(*arguments).splitlines()]


def by_core(records):
    at = next(n for n, r in enumerate(records) if r["op"] == "core")
    return records[:at], records[at + 1:]


def run_trace(kernel, records, *arrays):
    """Executes other records in place of a kernel's own; what the runtime says comes as an error."""
    specialisation, given = kernel.specialise(arrays, {})
    text = "\n".join(json.dumps(record) for record in records) + "\n"
    executable = runtime.load(compiler.lower(text, specialisation.target), specialisation.target,
                              specialisation.inputs, specialisation.outputs, 2)
    executable.execute(given)
    return [executable.output(storage) for storage in specialisation.outputs]


@nki.jit
def handed_over(x):
    """y = what the other program had; through HBM that no caller sees."""
    _, mine, theirs = halves()
    y = output(x.shape)
    between = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
    nl.store(between[mine], nl.load(x[mine]))  # handed out
    nisa.core_barrier(between, (0, 1))
    nl.store(y[mine], nl.load(between[theirs]))  # taken
    return y


@nki.jit
def swapped(x):
    me, mine, _ = halves()
    y, tile = output(x.shape), nl.load(x[mine])
    got = nl.ndarray(tile.shape, x.dtype)
    nisa.sendrecv(tile, got, 1 - me, 1 - me, 0)
    nisa.tensor_scalar(got, got, nl.multiply, 2.0 + me)
    nl.store(y[mine], got)
    return y


class Pairs(DeviceTest):
    def both(self, kernel, *arguments):
        """The records of each core; fails if the programs are not on two."""
        first, second = by_core(records_of(kernel, *arguments))
        return [r["op"] for r in first], [r["op"] for r in second]

    def test_a_barrier_hands_a_tensor_over_that_no_caller_sees(self):
        x = normal(256, 64)
        first, second = self.both(handed_over[2], x)
        self.assertEqual((first.count("core_barrier"), second.count("core_barrier")), (1, 1))
        shared = [r for r in records_of(handed_over[2], x) if r["op"] == "hbm" and r["kind"] == "temporary"]
        self.assertEqual([r["shared"] for r in shared], [True])
        for _ in range(20):
            self.near(handed_over[2](x), np.concatenate([x[128:], x[:128]]), 0)

    def test_sendrecv_swaps_tiles_of_every_width(self):
        x = normal(256, 48)
        wanted = np.concatenate([2 * x[128:], 3 * x[:128]])
        first, second = self.both(swapped[2], x)
        self.assertEqual((first.count("sendrecv"), second.count("sendrecv")), (1, 1))
        self.assertEqual(first.count("dma_copy"), 2)  # A load and a store
        self.near(swapped[2](x), wanted, 0)
        for dtype in (np.float16, np.int32, np.uint8):
            values = np.arange(256 * 24).reshape(256, 24) % 50
            got = swapped[2](values.astype(dtype))
            self.near(got, np.concatenate([2 * values[128:], 3 * values[:128]]), 0)

    def test_tiles_that_begin_anywhere_and_have_other_patterns_are_exchanged(self):
        @nki.jit
        def kernel(x):
            me = nl.program_id(0)
            y, tile = output((2, 40, 6, 8), nl.bfloat16), nl.load(x[me])
            got = nl.zeros((128, 8, 6), nl.bfloat16)
            # 40 partitions from 7 on go to those from 50 on, and are cast; rows lie otherwise.
            nisa.sendrecv(tile[7:47].reshape((40, 6, 8)), got[50:90].permute((0, 2, 1)), 1 - me, 1 - me, 0)
            nisa.dma_copy(y[me], got[50:90].permute((0, 2, 1)))
            return y

        x = np.arange(2 * 128 * 48, dtype=np.float32).reshape(2, 128, 48) % 128
        self.near(kernel[2](x), x[::-1, 7:47].reshape(2, 40, 6, 8), 0)

    def test_many_meetings_of_both_kinds_stay_in_order(self):
        @nki.jit
        def kernel(x):
            me, mine, theirs = halves()
            y, board = output(x.shape), nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
            tile = nl.load(x[mine])
            for step in range(6):
                got = nl.ndarray(tile.shape, nl.float32)
                nisa.sendrecv(tile, got, 1 - me, 1 - me, step % 2)
                nisa.tensor_scalar(got, got, nl.add, 1.0 + step + 10 * me)
                nl.store(board[mine], got)
                nisa.core_barrier(board, (0, 1), engine=nisa.engine.vector if step % 2 else nisa.engine.unknown)
                tile = nl.load(board[theirs])
                nisa.core_barrier(board, (0, 1))
            nl.store(y[mine], tile)
            return y

        x = normal(256, 16)
        wanted = [x[:128].astype(np.float64), x[128:].astype(np.float64)]
        for step in range(6):
            wanted = [wanted[1] + 1 + step, wanted[0] + 11 + step][::-1]
        self.near(kernel[2](x), np.concatenate(wanted), 1e-4)
        self.both(kernel[2], x)

    def test_random_programs_do_what_numpy_does(self):
        for case in range(6):
            choose = np.random.default_rng(case)
            steps = [(choose.choice(["exchange", "post", "add"]), *(int(n) for n in choose.integers(0, 3, 3)))
                     for _ in range(12)]

            @nki.jit
            def kernel(x, steps=tuple(steps)):
                me = nl.program_id(0)
                y, board = output(x.shape), nl.ndarray((2, 3, 64, 20), nl.float32, buffer=nl.shared_hbm)
                tiles = [nl.load(x[me, i]) for i in range(3)]
                for what, a, b, slot in steps:
                    if what == "exchange":
                        nisa.sendrecv(tiles[a], tiles[b], 1 - me, 1 - me, slot)
                    elif what == "add":
                        nisa.scalar_tensor_tensor(tiles[a], tiles[a], nl.multiply, 0.5, nl.add, tiles[b])
                    else:
                        nl.store(board[me, slot], tiles[a])
                        nisa.core_barrier(board, (0, 1))
                        nisa.dma_copy(tiles[b], board[1 - me, slot])
                        nisa.core_barrier(board, (0, 1))
                for i in range(3):
                    nl.store(y[me, i], tiles[i])
                return y

            x = normal(2, 3, 64, 20)
            wanted = x.astype(np.float64)
            for what, a, b, _ in steps:
                if what == "add":
                    wanted[:, a] = wanted[:, a] * 0.5 + wanted[:, b]
                else:
                    wanted[:, b] = wanted[::-1, a].copy()
            with self.subTest(steps=steps):
                self.near(kernel[2](x), wanted, 1e-4)

    def test_an_argument_that_both_programs_change_is_changed_once(self):
        @nki.jit
        def kernel(x):
            _, mine, theirs = halves()
            tile = nl.load(x[theirs])
            nisa.core_barrier(x, (0, 1))
            nisa.tensor_scalar(tile, tile, nl.multiply, 3.0)
            nl.store(x[mine], tile)
            return x

        x = normal(256, 16)
        before = x.copy()
        self.both(kernel[2], x)
        got = kernel[2](x)
        wanted = 3 * np.concatenate([before[128:], before[:128]])
        self.near(got, wanted, 0)
        self.near(x, wanted, 0)

    def test_a_temporary_that_both_programs_read_and_one_writes_needs_no_caller(self):
        @nki.jit
        def kernel(x):
            me, mine, _ = halves()
            y = output(x.shape)
            whole = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
            if me == 0:
                nisa.dma_copy(whole, x)
            nisa.core_barrier(whole, (0, 1))
            nl.store(y[mine], nl.load(whole[mine]))
            return y

        x = normal(256, 8)
        self.near(kernel[2](x), x, 0)

    def test_rows_that_the_device_chooses_are_found_behind_a_barrier(self):
        @nki.jit
        def kernel(x, index):
            _, mine, _ = halves()
            y, board = output(x.shape), nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
            nl.store(board[mine], nl.load(x[mine]))
            nisa.core_barrier(board, (0, 1))
            rows, got = nl.load(index[mine]), nl.ndarray((128, x.shape[1]), nl.float32)
            nisa.dma_copy(got, board.ap([[x.shape[1], 128], [1, x.shape[1]]], vector_offset=rows))
            nl.store(y[mine], got)
            return y

        x, index = normal(256, 32), np.random.default_rng(3).permutation(256).astype(np.int32).reshape(256, 1)
        self.both(kernel[2], x, index)
        self.near(kernel[2](x, index), x[index[:, 0]], 0)

    def test_both_programs_compare_with_float64(self):
        x = normal(256, 16)
        self.assertGreaterEqual(handed_over[2].check(x).instructions, 8)
        report = swapped[2].check(x)
        # Load, exchange, product and store of each.
        self.assertEqual((report.instructions, report.not_interpreted), (8, {}))

    def test_two_halves_take_less_than_two_thirds_of_the_time_of_one_core(self):
        @nki.jit
        def kernel(x):
            me, programs = nl.program_id(0), nl.num_programs(0)
            y = output((128, x.shape[1]))
            total = nl.zeros((128, x.shape[1]), nl.float32)
            for i in range(x.shape[0] // 128 // programs):
                tile = nl.load(x[128 * (i * programs + me):128 * (i * programs + me) + 128])
                nisa.reciprocal(tile, tile)
                nisa.tensor_tensor(total, total, tile, nl.add)
            if programs == 2:
                theirs = nl.ndarray(total.shape, nl.float32)
                nisa.sendrecv(total, theirs, 1 - me, 1 - me, 0)
                nisa.tensor_tensor(total, total, theirs, nl.add)
                nisa.core_barrier(y, (0, 1))
            if me == 0:
                nl.store(y, total)
            return y

        x = np.abs(normal(1536, 512)) + 0.5
        times = {}
        for programs in (1, 2):
            profile = kernel[programs].profile(x)
            times[programs] = profile.microseconds
            self.assertEqual(profile.notes, [])
            self.near(kernel[programs](x), (1 / x.astype(np.float64)).reshape(12, 128, 512).sum(0), 1e-4)
        self.assertLess(times[2], 0.65 * times[1])

    def test_larger_grids_and_virtual_cores_of_one_say_what_turns_cost(self):
        @nki.jit
        def kernel(x):
            rows = x.shape[0] // nl.num_programs(0)
            mine = nl.ds(nl.program_id(0) * rows, rows)
            y = output(x.shape)
            nl.store(y[mine], nl.load(x[mine]))
            return y

        x = normal(256, 8)
        notes = "\n".join(kernel[4].profile(x).notes)
        self.assertIn("the 4 programs of the grid take turns on one core: the time is their sum", notes)
        self.assertEqual(kernel[2].profile(x).notes, [])
        with unittest.mock.patch.dict(os.environ, NEURON_LOGICAL_NC_CONFIG="1"):
            specialisation, _ = swapped[2].specialise((normal(256, 8),), {})
        self.assertIn("with NEURON_LOGICAL_NC_CONFIG=1", "\n".join(specialisation.traced.notes))
        specialisation, _ = swapped[2].on("trn1").specialise((normal(256, 8),), {})
        self.assertIn("a virtual core of trn1 has one physical core", "\n".join(specialisation.traced.notes))
        operations = [r["op"] for r in specialisation.traced.records]
        self.assertEqual([operations.count(op) for op in ("sendrecv", "core", "dma_copy")], [0, 0, 7])
        compiler.lower(specialisation.traced.text(), "trn1")

    def test_a_race_across_the_cores_is_trapped_and_names_both_lines(self):
        kernel, x = handed_over[2], normal(256, 64)
        for missing in ("core_barrier", None):
            left = [r for r in records_of(kernel, x) if r["op"] != missing]
            if missing is None:
                self.near(run_trace(kernel, left, x)[0], np.concatenate([x[128:], x[:128]]), 0)
                continue
            with self.assertRaises(nki.DeviceError) as caught:
                run_trace(kernel, left, x)
            for words in ("RACE", f"pairs_test.py:{line_of(kernel, '# handed out')}",
                          f"pairs_test.py:{line_of(kernel, '# taken')}", "expected an order between the two cores"):
                self.assertIn(words, str(caught.exception))

    def test_what_an_index_reaches_without_a_barrier_is_a_race_that_the_device_finds(self):
        @nki.jit
        def kernel(x, index):
            me, mine, _ = halves()
            y, board = output(x.shape), nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
            nl.store(board[mine], nl.load(x[mine]))  # written
            rows, got = nl.load(index[mine]), nl.ndarray((128, x.shape[1]), nl.float32)
            nisa.dma_copy(got, board.ap([[x.shape[1], 128], [1, x.shape[1]]], vector_offset=rows))  # gathered
            nl.store(y[mine], got)
            return y

        x, index = normal(256, 8), np.arange(255, -1, -1, dtype=np.int32).reshape(256, 1)
        with self.assertWarns(nki.grids.RaceWarning), self.assertRaises(nki.DeviceError) as caught:
            kernel[2](x, index)
        for words in ("RACE", f":{line_of(kernel, '# written')}", f":{line_of(kernel, '# gathered')}"):
            self.assertIn(words, str(caught.exception))

    def test_a_tensor_that_the_other_writes_needs_a_barrier_before_it_is_read(self):
        @nki.jit
        def kernel(x):
            _, mine, theirs = halves()
            y, board = output(x.shape), nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
            nl.store(board[mine], nl.load(x[mine]))  # written
            nl.store(y[mine], nl.load(board[theirs]))  # read
            return y

        with self.assertRaises(nki.NkiError) as caught:
            kernel[2](normal(256, 8))
        for words in ("RACE", "program 0", "program 1", f":{line_of(kernel, '# written')}",
                      f":{line_of(kernel, '# read')}"):
            self.assertIn(words, str(caught.exception))

    def test_a_barrier_that_one_program_reaches_names_both(self):
        @nki.jit
        def kernel(x):
            me, mine, _ = halves()
            y = output(x.shape)
            nl.store(y[mine], nl.load(x[mine]))  # the last of the other
            if me == 0:
                nisa.core_barrier(y, (0, 1))  # one-sided
            return y

        self.refused(kernel[2], (normal(256, 8),), f"pairs_test.py:{line_of(kernel, '# one-sided')}", "program 0",
                     "core_barrier", "program 1", "has ended",
                     f"pairs_test.py:{line_of(kernel, '# the last of the other')}")

    def test_a_core_that_waits_for_ever_is_named_by_its_line(self):
        kernel, x = handed_over[2], normal(256, 64)
        first, second = by_core(records_of(kernel, x))
        ends = next(n for n, r in enumerate(second) if r["op"] == "core_barrier")
        left = first + [{"op": "core", "number": 1}] + second[:ends]
        with self.assertRaises(nki.DeviceError) as caught:
            run_trace(kernel, left, x)
        for words in ("barrier", f"pairs_test.py:{line_of(kernel, 'core_barrier')}",
                      "the other core of the pair has not come"):
            self.assertIn(words, str(caught.exception))
        self.near(kernel(x), np.concatenate([x[128:], x[:128]]), 0)

    def test_programs_that_come_to_different_calls_are_named_with_both_lines(self):
        @nki.jit
        def kernel(x):
            me, mine, _ = halves()
            y, tile = output(x.shape), nl.load(x[mine])
            if me == 0:
                nisa.core_barrier(y, (0, 1))  # here
            else:
                nisa.sendrecv(tile, tile, 0, 0, 0)  # there
            return y

        self.refused(kernel[2], (normal(256, 8),), f":{line_of(kernel, '# here')}", f":{line_of(kernel, '# there')}",
                     "program 1 is at sendrecv here, and program 0 at core_barrier")

        @nki.jit
        def engines(x):
            me, mine, _ = halves()
            nisa.core_barrier(x, (0, 1), engine=nisa.engine.scalar if me else nisa.engine.vector)
            return x

        self.refused(engines[2], (normal(256, 8),), "scalar", "vector", "both wait on the same one")

    def test_tiles_of_different_shapes_and_places_off_sbuf_are_not_exchanged(self):
        @nki.jit
        def shapes(x):
            me, _, _ = halves()
            tile = nl.load(x[0:128, 0:8 + 8 * me])
            nisa.sendrecv(tile, tile, 1 - me, 1 - me, 0)
            return x

        self.refused(shapes[2], (normal(256, 16),), "[128, 16] of float32 here", "[128, 8] of float32",
                     "tiles of one shape and type")

        @nki.jit
        def places(x):
            me, _, _ = halves()
            nisa.sendrecv(x[0:128], nl.load(x[0:128]), 1 - me, 1 - me, 0)
            return x

        self.refused(places[2], (normal(256, 16),), "sendrecv moves tiles of SBUF")


if __name__ == "__main__":
    unittest.main()
