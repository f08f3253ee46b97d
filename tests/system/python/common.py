# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package neuron share: the package of the tree and a scratch folder."""
import os
import sys
import tempfile
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("NEURON_BUILD_DIR", TREE / "build"))
os.environ["NEURON_ROOT"] = str(BUILD)
os.environ.setdefault("NEURON_EMULATOR", "trn1.2xlarge")
sys.path.insert(0, str(TREE / "tools" / "python"))

import numpy as np  # noqa: E402  the path comes first

import neuron  # noqa: E402


class PackageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="neuron-python.")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.random = np.random.default_rng(7)

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def normal(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def near(self, got, wanted, bound):
        self.assertEqual(got.shape, np.shape(wanted))
        self.assertLessEqual(np.max(np.abs(got - np.asarray(wanted, np.float64))), bound)
