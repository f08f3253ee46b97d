# SPDX-License-Identifier: Apache-2.0
"""nki.isa: one function for each instruction of a NeuronCore.

Names and arguments are those of NKI 0.6. Each call is recorded in the trace of the kernel; what the
chip cannot do is refused, with the line of the call, here or when the trace is lowered.
"""
from ..errors import NkiValidationError
from ..errors import unknown_name as _unknown_name
from .control import *
from .memory import *
from .search import *
from .tensor import *
from .types import *
from .later import *
from .vector import *

__getattr__ = _unknown_name(__name__, "nki.language")

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown
