# SPDX-License-Identifier: Apache-2.0
"""NKI kernels without a chip: values, limits and modelled time of NeuronCore programs in Python.

    import nki, nki.language as nl, nki.isa as nisa

    @nki.jit
    def double(x):
        y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        nl.store(y, tile)
        return y

    double(numpy.ones((128, 512), numpy.float32))

An independent work; names and arguments follow the public NKI documentation.
"""
import sys

try:
    import numpy as _numpy
except ModuleNotFoundError:
    _LACK = (f"the package nki needs NumPy, which {sys.executable} lacks; install it (Debian: apt-get install python3-numpy, for "
             "/usr/bin/python3), or take a Python that has it")
    # Of the program neuron-nki, whose users did not write an import.
    if sys.argv[:1] == ["-m"]:
        sys.exit(f"neuron-nki: {_LACK}; NEURON_NKI_PYTHON names one")
    raise ImportError(_LACK) from None

from . import collectives, isa, language, typing
from .dtypes import Encoded, encode, to_float32
from .errors import DeviceError, NkiError, NkiValidationError
from .dtypes import DType as dtype
from .kernel import Kernel, jit, simulate

__all__ = ["jit", "simulate", "Kernel", "Encoded", "encode", "to_float32", "NkiError",
           "NkiValidationError", "DeviceError", "isa", "language", "collectives", "typing"]
