# SPDX-License-Identifier: Apache-2.0
"""nki.language: tensors, their memory, loops, and functions that return new tiles.

Names and arguments are those of NKI 0.6. Loops are Python's: a kernel runs once while it is traced.
"""
from .. import elementwise as _elementwise
from ..dtypes import TYPES as _TYPES
from ..dtypes import dtype_of as _dtype_of
from ..errors import refuse as _refuse
from ..errors import unknown_name as _unknown_name
from ..recorder import current as _current
from ..recorder import space_of as _space_of
from ..recorder import tracing as _tracing
from ..tensor import HBM as _HBM
from ..tensor import DynamicSlice, MemoryRegion, NkiTensor
from .constants import NKIObject, tile_size
from .loops import *

__getattr__ = _unknown_name(__name__, "nki.isa", ("arange", "loop_reduce", "mgrid", "nc", "par_dim", "spmd_dim",
                                                  "static_cast"))

bool_ = _TYPES["bool"]
int8, int16, int32 = _TYPES["int8"], _TYPES["int16"], _TYPES["int32"]
uint8, uint16, uint32 = _TYPES["uint8"], _TYPES["uint16"], _TYPES["uint32"]
float16, float32, bfloat16 = _TYPES["float16"], _TYPES["float32"], _TYPES["bfloat16"]
tfloat32 = _TYPES["tfloat32"]
float8_e4m3, float8_e5m2 = _TYPES["float8_e4m3"], _TYPES["float8_e5m2"]
float8_e4m3fn, float8_e8m0fnu = _TYPES["float8_e4m3fn"], _TYPES["float8_e8m0fnu"]
float8_e5m2_x4, float8_e4m3fn_x4 = _TYPES["float8_e5m2_x4"], _TYPES["float8_e4m3fn_x4"]
float4_e2m1fn_x4 = _TYPES["float4_e2m1fn_x4"]

sbuf, psum = MemoryRegion("sbuf"), MemoryRegion("psum")
hbm, private_hbm, shared_hbm = (MemoryRegion("hbm"), MemoryRegion("private_hbm"),
                                MemoryRegion("shared_hbm"))
ds = DynamicSlice


def is_hbm(buffer):
    return _space_of(buffer) == _HBM


def is_sbuf(buffer):
    return _space_of(buffer) == "sbuf"


def is_psum(buffer):
    return _space_of(buffer) == "psum"


def is_on_chip(buffer):
    return _space_of(buffer) != _HBM


# Tensors.
def ndarray(shape, dtype, buffer=sbuf, name="", address=None):
    """A new tensor, not initialised. On the chip its first dimension is the partition.

    address: (partition, byte) of a tile that the kernel places itself.
    """
    return _current().tensor(shape, dtype, _space_of(buffer), name or None, address,
                             shared=str(getattr(buffer, "value", buffer)) == "shared_hbm")


def zeros(shape, dtype, buffer=sbuf, name=""):
    return _elementwise.filled(shape, 0, dtype, _space_of(buffer))


def ones(shape, dtype, buffer=sbuf, name=""):
    return _elementwise.filled(shape, 1, dtype, _space_of(buffer))


def full(shape, fill_value, dtype, buffer=sbuf, name=""):
    return _elementwise.filled(shape, fill_value, dtype, _space_of(buffer))


def zeros_like(x, dtype=None, buffer=None, name=""):
    return zeros(x.shape, dtype or x.dtype, buffer or x.buffer)


def empty_like(x, dtype=None, buffer=None, name=""):
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer)


def shared_constant(constant):
    """A tensor in HBM with these values, which are a part of the NEFF."""
    return _current().constant(constant)


def shared_identity_matrix(n, dtype=uint8, dst=None):
    """The identity of [n, n] in SBUF."""
    import numpy
    from .. import isa
    out = dst if dst is not None else ndarray((n, n), dtype)
    kind = "float32" if str(_dtype_of(dtype)) in ("bfloat16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn") else dtype
    isa.dma_copy(out, shared_constant(numpy.eye(n, dtype=str(_dtype_of(kind)))))
    return out


def load(src, dtype=None):
    """A new tile in SBUF with the contents of a tensor in HBM."""
    return _elementwise.load(src, dtype)


def store(dst, value):
    """Writes a tile to a tensor in HBM."""
    _elementwise.store(dst, value)


def load_transpose2d(src, dtype=None):
    """A new tile with the transpose of a matrix in HBM."""
    from .. import isa
    out = ndarray((src.shape[1], src.shape[0]), src.dtype)
    isa.dma_transpose(out, src)
    return _typed(out, dtype)


def copy(x, dtype=None):
    return _elementwise.copied(x, dtype)


def broadcast_to(x, shape, dtype=None):
    return _typed(_elementwise.broadcast_to(x, shape), dtype)


def _typed(x, dtype):
    """The tile, or a copy of another type."""
    return x if dtype is None or _dtype_of(dtype) == x.dtype else _elementwise.copied(x, dtype)


def expand_dims(x, axis):
    return x.expand_dim(axis)


def transpose(x, dtype=None):
    from .. import isa
    out = ndarray((x.shape[1], x.shape[0]), x.dtype, psum)
    isa.nc_transpose(out, x)
    return _typed(out, dtype)


def matmul(x, y, transpose_x=False):
    return _elementwise.matmul(x, y, transpose_x)


def program_id(axis=0):
    """The number of this program along an axis of the grid, kernel[n]; 0 without a grid."""
    program = _current().program
    if not program:
        return 0
    return program[axis]


def num_programs(axes=0):
    grid = _current().grid
    if not grid:
        return 1
    return grid[axes] if isinstance(axes, int) else tuple(grid[a] for a in axes)


def program_ndim():
    return len(_current().grid)


def device_print(print_prefix, tensor):
    """Prints the tensor's values when the kernel has been executed."""
    _current().print_later(print_prefix, tensor)


def random_seed(seed):
    from .. import isa
    tile = full((1, 1), seed, uint32)
    isa.set_rng_seed(tile)


def rand(shape, dtype, buffer=sbuf, name=""):
    """Uniform numbers in [0, 1): 24 random bits, scaled."""
    from .. import isa
    bits = ndarray(shape, uint32)
    isa.rng(bits)
    isa.tensor_scalar(bits, bits, "right_shift", 8)
    out = ndarray(shape, dtype, buffer)
    isa.tensor_scalar(out, bits, "multiply", 2.0**-24)
    return out


def dropout(x, rate, dtype=None):
    from .. import isa
    out = ndarray(x.shape, x.dtype)
    isa.dropout(out, x, rate)
    return _typed(out, dtype)


# Functions of two operands: tiles of one shape, [P, 1] against [P, F], or a tile and a number. They
# also name operations of nki.isa.
def _binary(name):
    def operation(x, y, dtype=None):
        return _elementwise.binary(name, x, y, dtype)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"x {name} y, element by element; also an operation of nki.isa."
    return operation


for _name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "abs_max", "abs_min",
              "power", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
              "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift",
              "logical_and", "logical_or", "logical_xor", "mod"):
    globals()[_name] = _binary(_name)


# Functions of one operand, on the Scalar engine.
def _unary(name):
    def operation(x, dtype=None, bias=None, scale=1.0):
        return _elementwise.unary(name, x, dtype, bias, scale)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"{name}(x * scale + bias), element by element; also a function of nki.isa."
    return operation


for _name in ("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "relu", "gelu", "gelu_dx",
              "gelu_apprx_tanh", "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx", "silu", "silu_dx",
              "softplus", "mish", "erf", "erf_dx", "sin", "arctan", "sign", "abs", "square",
              "prelu"):
    globals()[_name] = _unary(_name)


def _named(name):
    def operation(*unused, **also_unused):
        _refuse(f"nl.{name} names an operation of nki.isa; it is no function")

    operation.__name__ = operation.__qualname__ = name
    return operation


bypass, average = _named("bypass"), _named("average")


def reciprocal(x, dtype=None):
    from .. import isa
    out = ndarray(x.shape, dtype or x.dtype)
    isa.reciprocal(out, x)
    return out


def negative(x, dtype=None):
    return _elementwise.with_scalar("multiply", x, -1.0, dtype)


def cos(x, dtype=None):
    """sin(x + pi/2): x must be in [-3 pi/2, pi/2]."""
    return _elementwise.unary("sin", x, dtype, bias=1.5707963267948966)


def invert(x, dtype=None):
    return _elementwise.with_scalar("bitwise_xor", x, -1, dtype)


def logical_not(x, dtype=None):
    return _elementwise.with_scalar("equal", x, 0, dtype or uint8)


def sum(x, axis, dtype=None, keepdims=False):
    return _elementwise.reduced("add", x, axis, dtype, keepdims)


def prod(x, axis, dtype=None, keepdims=False):
    return _elementwise.reduced("multiply", x, axis, dtype, keepdims)


def max(x, axis, dtype=None, keepdims=False):
    return _elementwise.reduced("maximum", x, axis, dtype, keepdims)


def min(x, axis, dtype=None, keepdims=False):
    return _elementwise.reduced("minimum", x, axis, dtype, keepdims)


def mean(x, axis, dtype=None, keepdims=False):
    return _elementwise.mean(x, axis, dtype, keepdims)


def var(x, axis, dtype=None, keepdims=False):
    return _elementwise.var(x, axis, dtype, keepdims)


def softmax(x, axis=-1, dtype=None):
    return _elementwise.softmax(x, axis, dtype)


def rms_norm(x, w, axis, n, epsilon=1e-6, dtype=None, compute_dtype=None):
    return _elementwise.rms_norm(x, w, axis, n, epsilon, dtype)


def where(condition, x, y, dtype=None):
    return _elementwise.where(condition, x, y, dtype)


class no_reorder:
    """The kernel's calls keep their order, even where another one would find room for its tiles."""

    def __init__(self):
        if _tracing():
            _current().no_reorder = True

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        return None
