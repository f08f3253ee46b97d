# SPDX-License-Identifier: Apache-2.0
"""Enumerations of nki.isa, and what its functions share."""
from enum import Enum

from ..dtypes import SIZES
from ..errors import refuse
from ..recorder import current

__all__ = ["engine", "reduce_cmd", "dge_mode", "oob_mode", "matmul_perf_mode", "nc_version",
           "dma_engine", "NkiInstruction", "get_nc_version", "get_nc_sub_version"]


class engine(Enum):
    tensor = 1
    vector = 5
    scalar = 2
    gpsimd = 3
    dma = 4
    sync = 6
    unknown = 0


class reduce_cmd(Enum):
    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(Enum):
    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(Enum):
    error = 0
    skip = 1


class matmul_perf_mode(Enum):
    none = "none"
    double_row = "double_row"


class nc_version(Enum):
    gen2 = 2
    gen3 = 3
    gen4 = 4

    def __lt__(self, other):
        return self.value < other.value

    def __le__(self, other):
        return self.value <= other.value

    def __gt__(self, other):
        return self.value > other.value

    def __ge__(self, other):
        return self.value >= other.value


class dma_engine(Enum):
    dma = 1
    gpsimd_dma = 2


class NkiInstruction:
    """What a call of nki.isa returns: a handle of the recorded instruction."""

    __slots__ = ("record",)

    def __init__(self, record=None):
        self.record = record

    def depends_on(self, *producers):
        """The order of the kernel and of memory contains this one already; nothing is added."""
        return self


def get_nc_version():
    """The generation of the target: nc_version.gen2 (trn1, inf2), gen3 (trn2) or gen4
    (trn3)."""
    return nc_version(current().generation)


def get_nc_sub_version():
    """The silicon revision; this chip model has one."""
    return 0


OPERATIONS = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide",
    "true_divide": "divide", "maximum": "maximum", "minimum": "minimum", "max": "maximum",
    "min": "minimum", "sum": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum",
    "abs_max": "abs_max", "abs_min": "abs_min", "power": "power", "mod": "mod", "equal": "equal",
    "not_equal": "not_equal", "greater": "greater", "greater_equal": "greater_equal",
    "less": "less", "less_equal": "less_equal", "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor", "invert": "invert",
    "bitwise_not": "invert", "left_shift": "left_shift", "right_shift": "right_shift",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
    "abs": "abs", "absolute": "abs", "square": "square", "relu": "relu", "rsqrt": "rsqrt",
    "reciprocal": "reciprocal", "bypass": "bypass", "average": "average",
}
FUNCTIONS = {
    "copy": "copy", "square": "square", "sigmoid": "sigmoid", "relu": "relu", "prelu": "prelu",
    "gelu": "gelu", "gelu_dx": "gelu_dx", "gelu_apprx_tanh": "gelu_apprx_tanh",
    "gelu_apprx_sigmoid": "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx": "gelu_apprx_sigmoid_dx",
    "silu": "silu", "silu_dx": "silu_dx", "tanh": "tanh", "softplus": "softplus", "mish": "mish",
    "erf": "erf", "erf_dx": "erf_dx", "exp": "exp", "sign": "sign", "abs": "abs",
    "absolute": "abs", "log": "log", "sin": "sin", "arctan": "arctan", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "reciprocal": "reciprocal",
}


def _named(op, table, what):
    name = op if isinstance(op, str) else getattr(op, "__name__", None)
    if name not in table:
        refuse(f"{what} = {name or op!r} is not known here; expected one of "
               f"{', '.join(sorted(set(table.values())))}")
    return table[name]


def alu(op, what="op"):
    return _named(op, OPERATIONS, what)


def function(op, what="op"):
    return _named(op, FUNCTIONS, what)


def engine_name(value):
    """For the trace; None where NKI leaves the engine open."""
    name = getattr(value, "name", value)
    return None if name in (None, "unknown", "dma") else name


def command_name(value):
    return getattr(value, "name", value)


def array_tile(position, size):
    """Fields of a product that takes a part of the array; none if it takes the whole."""
    if not position and not size:
        return {}
    if not position or not size:
        refuse("tile_position and tile_size are given together, or neither of them")
    place, shape = ([int(n) for n in pair] for pair in (position, size))
    if len(place) != 2 or len(shape) != 2 or min(place) < 0 or min(shape) < 0:
        refuse(f"tile_position = {tuple(position)}, tile_size = {tuple(size)}; expected (row, column) and "
               "(rows, columns)")
    return {} if shape == [128, 128] and place == [0, 0] else {"tile_position": place, "tile_size": shape}


_MOST_DIMENSIONS = 4  # Of an instruction's operand, behind the partitions
_ELEMENTWISE = {"tensor_copy", "tensor_tensor", "tensor_scalar", "scalar_tensor_tensor", "activation",
                "memset", "reciprocal", "tensor_copy_predicated"}


def _dimensions(pattern):
    """How many are left once those that follow each other in memory are one."""
    count, following = 0, None
    for step, size in reversed(pattern):
        if size == 1:
            continue
        count += step != following
        following = step * size
    return count


def fits_an_operand(tensor):
    """Whether one instruction reaches all of a view on the chip."""
    return _dimensions(list(zip(tensor.strides, tensor.shape))[1:]) <= _MOST_DIMENSIONS


def record(op, **fields):
    tiles = {key: value for key, value in fields.items()
             if isinstance(value, dict) and "tile" in value
             and sum(size > 1 for _, size in value["pattern"])}
    if op in _ELEMENTWISE and "reduce_res" not in fields and any(
            _dimensions(t["pattern"]) > _MOST_DIMENSIONS for t in tiles.values()):
        return _in_parts(op, fields, tiles)
    return NkiInstruction(current().emit(op, **fields))


def _in_parts(op, fields, tiles):
    """One instruction for each index of the outermost dimension, which all operands share."""
    counts = {tuple(size for _, size in t["pattern"]) for t in tiles.values()}
    shape = next(iter(counts))
    if len(counts) != 1:
        return NkiInstruction(current().emit(op, **fields))  # The lowering says why it does not fit
    dim = next(d for d, size in enumerate(shape) if size > 1)
    last = None
    for index in range(shape[dim]):
        part = dict(fields)
        for key, tile in tiles.items():
            step = tile["pattern"][dim][0]
            part[key] = {**tile, "offset": tile["offset"] + index * step * SIZES[tile["dtype"]],
                         "pattern": tile["pattern"][:dim] + tile["pattern"][dim + 1:]}
        last = record(op, **part)
    return last


def dst(tensor, what="dst"):
    return current().operand(tensor, what, write=True)


def src(tensor, what):
    return current().operand(tensor, what)


def scalar(value, what):
    return current().scalar(value, what)
