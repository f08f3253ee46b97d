# SPDX-License-Identifier: Apache-2.0
"""Random kernels: strict mode finds nothing, and each instruction agrees with float64.

NEURON_TEST_NKI_KERNELS is how many, from NEURON_TEST_NKI_SEED on; a failure names its seed.
"""
import os
import random as numbers
import unittest

import numpy as np
from common import DeviceTest, nisa, nki, nl, output

COUNT = int(os.environ.get("NEURON_TEST_NKI_KERNELS", "12"))
FIRST = int(os.environ.get("NEURON_TEST_NKI_SEED", "0"))
TYPES = (nl.float32, nl.bfloat16, nl.float16)
OPERATIONS = (nl.add, nl.subtract, nl.multiply, nl.maximum, nl.minimum)


class Maker:
    """Chooses instructions and operands; all tiles hold numbers of moderate size."""

    def __init__(self, seed):
        self.choose = numbers.Random(seed)
        self.parts = self.choose.choice((7, 32, 48, 64, 100, 128))
        self.columns = self.choose.choice((8, 24, 60, 96))

    def new(self, space=nl.sbuf, columns=None, dtype=None):
        dtype = dtype or (nl.float32 if space == nl.psum else self.choose.choice(TYPES))
        return nl.ndarray((self.parts, columns or self.columns), dtype, buffer=space)

    def view(self, tile):
        """A window of a tile, perhaps with a step or its columns in another order."""
        kind = self.choose.randrange(4)
        half = self.columns // 2
        if kind == 0:
            return tile[:, 0:half]
        if kind == 1:
            return tile[:, self.columns - half:self.columns]
        if kind == 2:
            return tile[:, 0:2 * half:2]
        return tile.reshape((self.parts, 2, half)).permute((0, 2, 1))[:, :, self.choose.randrange(2)]

    def kernel(self, x):
        tiles = [nl.load(x)]
        for _ in range(self.choose.randint(6, 16)):
            a, b = self.choose.choice(tiles), self.choose.choice(tiles)
            target = self.new()
            getattr(self, self.choose.choice(self.STEPS))(target, a, b)
            # Values stay near one, so that chains of products do not leave the types.
            nisa.activation(target, nl.tanh, target)
            tiles.append(target)
            if len(tiles) > 4:
                tiles.pop(self.choose.randrange(4))
        y = output((self.parts, self.columns))
        last = self.new(dtype=nl.float32)
        nisa.tensor_copy(last, tiles[-1])
        nl.store(y, last)
        return y

    STEPS = ("pairs", "scalars", "windows", "rows", "fused", "turned", "scanned", "chosen",
             "ranged", "selected")

    def pairs(self, to, a, b):
        nisa.tensor_tensor(to, a, b, self.choose.choice(OPERATIONS))

    def scalars(self, to, a, b):
        nisa.tensor_scalar(to, a, self.choose.choice(OPERATIONS), self.choose.uniform(-2, 2),
                           reverse0=self.choose.random() < 0.5, op1=self.choose.choice(OPERATIONS),
                           operand1=self.choose.uniform(-2, 2))

    def windows(self, to, a, b):
        nisa.tensor_copy(to, b)
        nisa.tensor_tensor(self.view(to), self.view(a), self.view(b), self.choose.choice(OPERATIONS))

    def rows(self, to, a, b):
        total = self.new(columns=1, dtype=nl.float32)
        nisa.tensor_reduce(total, self.choose.choice((nl.add, nl.maximum)), a, axis=1,
                           negate=self.choose.random() < 0.5)
        nisa.tensor_scalar(to, b, nl.add, total)

    def fused(self, to, a, b):
        total = self.new(columns=1, dtype=nl.float32)
        nisa.activation_reduce(to, self.choose.choice((nl.exp, nl.sigmoid, nl.square)), a, nl.add,
                               total, scale=self.choose.uniform(-1, 1))
        nisa.scalar_tensor_tensor(to, b, nl.multiply, 0.5, nl.subtract, to)

    def turned(self, to, a, b):
        turned = nl.ndarray((self.columns, self.parts), a.dtype, buffer=nl.psum)
        nisa.nc_transpose(turned, a)
        staged = nl.ndarray((self.columns, self.parts), a.dtype)
        nisa.tensor_copy(staged, turned)
        other = nl.ndarray((self.columns, self.columns), a.dtype)
        nisa.memset(other, 0.125)
        product = self.new(nl.psum)
        nisa.nc_matmul(product, staged, other)
        nisa.nc_matmul(product, staged, other)
        nisa.tensor_copy(to, product)

    def scanned(self, to, a, b):
        nisa.tensor_tensor_scan(to, a, b, self.choose.uniform(-1, 1), nl.multiply, nl.add)

    def chosen(self, to, a, b):
        mask, numbers_of = self.new(dtype=nl.uint8), self.new(dtype=nl.float32)
        nisa.tensor_scalar(mask, a, nl.greater, 0.0)
        nisa.iota(numbers_of, [[1, self.columns]], channel_multiplier=-1)
        nisa.tensor_scalar(to, numbers_of, nl.multiply, 0.01)
        same = self.new(dtype=to.dtype)
        nisa.tensor_copy(same, b)
        nisa.tensor_copy_predicated(to, same, mask)

    def bound(self, value):
        column = self.new(columns=1, dtype=nl.float32)
        nisa.memset(column, value)
        return column

    def ranged(self, to, a, b):
        most = self.new(columns=1, dtype=nl.float32)
        start = self.choose.randrange(-5, 5)
        nisa.range_select(to, a, nl.greater_equal, nl.less, self.bound(float(self.choose.randrange(9))),
                          self.bound(float(self.choose.randrange(2, 60))), range_start=start,
                          reduce_res=most)
        nisa.tensor_scalar(to, b, nl.maximum, most)

    def selected(self, to, a, b):
        mask, most = self.new(dtype=nl.uint8), self.new(columns=1, dtype=nl.float32)
        nisa.tensor_scalar(mask, a, nl.less, self.choose.uniform(-0.5, 0.5))
        nisa.select_reduce(to, mask, b, self.choose.uniform(-1, 1), most,
                           nisa.reduce_cmd.reset_reduce, reverse_pred=self.choose.random() < 0.5)
        nisa.tensor_scalar(to, to, nl.subtract, most)


class Random(DeviceTest):
    def test_random_kernels_agree_with_float64_and_strict_mode_is_quiet(self):
        for seed in range(FIRST, FIRST + COUNT):
            with self.subTest(seed=seed):
                maker = Maker(seed)
                x = np.random.default_rng(seed).standard_normal((maker.parts, maker.columns))
                kernel = nki.jit(lambda x, seed=seed: Maker(seed).kernel(x))
                kernel.__name__ = f"random_{seed}"
                report = kernel.check(x.astype(np.float32))
                self.assertGreater(report.instructions, 12)
                self.assertFalse(report.not_interpreted)


if __name__ == "__main__":
    unittest.main()
