# SPDX-License-Identifier: Apache-2.0
"""The two programs of kernel[2] where a virtual core has one physical core, as on trn1: the values are those
of two cores, the time is the sum."""
import os
import unittest

os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = "trn1"

import numpy as np  # noqa: E402  the target comes first
from common import DeviceTest, nisa, nki, nl, normal, output  # noqa: E402
from nki.isa.control import register_alloc  # noqa: E402


class Turns(DeviceTest):
    def operations(self, kernel, *arguments):
        specialisation, _ = kernel.specialise(arguments, {})
        self.assertIn("the 2 programs of the grid take turns on one core: the time is their sum, because a "
                      "virtual core of trn1 has one physical core", specialisation.traced.notes)
        return {r["op"] for r in specialisation.traced.records}

    def test_tiles_and_tensors_are_exchanged_by_copies(self):
        @nki.jit
        def kernel(x):
            me = nl.program_id(0)
            mine, theirs = slice(128 * me, 128 * me + 128), slice(128 * (1 - me), 128 * (1 - me) + 128)
            y, board = output(x.shape), nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
            tile, got = nl.load(x[mine]), nl.ndarray((128, 6, 4), nl.float32)
            nisa.sendrecv(tile.reshape((128, 4, 6)), got.permute((0, 2, 1)), 1 - me, 1 - me, 0)
            nl.store(board[mine], got.reshape((128, 24)))
            nisa.core_barrier(board, (0, 1))
            nl.store(y[mine], nl.load(board[theirs]))
            return y

        x = normal(256, 24)
        self.assertFalse({"sendrecv", "core_barrier", "core"} & self.operations(kernel[2], x))
        # What came from the other program goes back to it, with rows and columns changed.
        self.near(kernel[2](x), x.reshape(256, 4, 6).transpose(0, 2, 1).reshape(256, 24), 0)

    def test_a_loop_of_both_programs_happens_once(self):
        @nki.jit
        def kernel(x, count):
            me = nl.program_id(0)
            y, mine = output((2, 64)), nl.load(x[me:me + 1])
            theirs = nl.ndarray((1, 64), nl.float32)
            for _ in nl.dynamic_range(register_alloc(count)):
                nisa.sendrecv(mine, theirs, 1 - me, 1 - me, 0)
                nisa.tensor_tensor(mine, mine, theirs, nl.add)
                nisa.core_barrier(mine, (0, 1))
            nisa.dma_copy(y[me:me + 1], mine)
            return y

        x, count = normal(2, 64), np.full((1, 1), 3, np.int32)
        self.assertIn("while", self.operations(kernel[2], x, count))
        wanted = x.astype(np.float64)
        for _ in range(3):
            wanted = wanted + wanted[::-1]
        self.near(kernel[2](x, count), wanted, 1e-5)


if __name__ == "__main__":
    unittest.main()
