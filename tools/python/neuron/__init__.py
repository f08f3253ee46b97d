# SPDX-License-Identifier: Apache-2.0
"""Models on NeuronCores from Python: compile, load, call with NumPy arrays, profile.

    import neuron
    model = neuron.load("model.onnx")
    y = model(x)
    print(model.report.device_ps)
"""
import sys

try:
    import numpy as _numpy
except ModuleNotFoundError:
    raise ImportError(f"the package neuron needs NumPy, which {sys.executable} lacks; install it (Debian: apt-get install "
                      "python3-numpy, for /usr/bin/python3), or take a Python that has it") from None

from .compiler import CompileError, compile
from .device import close
from .libnrt import NeuronError, Report, TensorInfo
from .model import Model, load

__all__ = ["CompileError", "Model", "NeuronError", "Report", "TensorInfo", "close", "compile",
           "load"]
