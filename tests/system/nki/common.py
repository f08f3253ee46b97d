# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package nki share: the package of the tree, no cache, arrays, bounds."""
import os
import sys
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("NEURON_BUILD_DIR", TREE / "build"))
os.environ["NEURON_NKI_ROOT"] = str(BUILD)
os.environ["NEURON_NKI_CACHE"] = ""
sys.path.insert(0, str(TREE / "tools" / "python"))

import numpy as np  # noqa: E402  the path comes first

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

random = np.random.default_rng(7)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def line_of(function, text):
    """The number of the first line of a kernel that contains a text."""
    import inspect
    lines, first = inspect.getsourcelines(function.function)
    return first + next(i for i, line in enumerate(lines) if text in line)


class DeviceTest(unittest.TestCase):
    def near(self, got, wanted, bound):
        got = nki.to_float32(got).astype(np.float64)
        wanted = np.asarray(wanted, np.float64)
        self.assertEqual(got.shape, wanted.shape)
        worst = np.max(np.abs(got - wanted))
        self.assertLessEqual(worst, bound)

    def refused(self, kernel, arguments, *words, kind=nki.NkiError):
        """The kernel must fail with a sentence that has all of these words."""
        with self.assertRaises(kind) as caught:
            kernel(*arguments)
        for word in words:
            self.assertIn(str(word), str(caught.exception))


def output(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype, buffer=nl.shared_hbm)
