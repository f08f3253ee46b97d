# SPDX-License-Identifier: Apache-2.0
"""neuronxcc.nki.language: the old style, where functions return tiles and indices are arrays."""
import numpy as _np

import nki.language as _nl
from nki import elementwise as _elementwise
from nki.errors import refuse as _refuse
from nki.language import *
from nki.language import (NKIObject, bfloat16, bool_, dynamic_range, float16, float32, float8_e4m3,
                          float8_e5m2, hbm, int8, int16, int32, private_hbm, psum, sbuf, shared_hbm,
                          tile_size, uint8, uint16, uint32)
from nki.recorder import current as _current
from nki.recorder import space_of as _space_of

from ..tiles import Blocked as _Blocked
from ..tiles import ParDim as _ParDim
from ..tiles import SeparateBlocks as _SeparateBlocks
from ..tiles import masked as _masked
from ..tiles import placed as _placed
from ..tiles import plain as _plain

fp32 = float32


def par_dim(size):
    """Marks the partition dimension of a shape."""
    return _ParDim(size)


def affine_range(*bounds, **unused):
    """Python's range; hints to the compiler are accepted."""
    return range(*(int(b) for b in bounds))


sequential_range = static_range = affine_range


def arange(*bounds):
    """Numbers for indices, as numpy.arange."""
    return _np.arange(*bounds)


class _Grid:
    def __getitem__(self, key):
        return _np.mgrid[key]


mgrid = _Grid()


def ndarray(shape, dtype, buffer=sbuf, name="", **unused):
    """A new tensor; dimensions before par_dim are blocks of the tile."""
    shape = tuple(shape)
    blocks = next((i for i, s in enumerate(shape) if isinstance(s, _ParDim)), 0)
    if blocks and (_space_of(buffer) == "psum" or hasattr(buffer, "place")):
        return _SeparateBlocks([int(s) for s in shape], blocks, dtype, buffer, name)
    if _space_of(buffer) == "hbm" or blocks == 0:
        sizes = tuple(int(s) for s in shape)
        return _nl.ndarray(sizes, dtype, buffer, name, _placed(buffer, (), sizes, dtype))
    physical = (shape[blocks],) + shape[:blocks] + shape[blocks + 1:]
    return _Blocked(_nl.ndarray(tuple(int(s) for s in physical), dtype, buffer, name), blocks)


def full(shape, fill_value, dtype, buffer=sbuf, name="", **unused):
    from nki import isa
    if _space_of(buffer) == "hbm":
        return _nl.full(shape, fill_value, dtype, buffer, name)
    tensor = ndarray(shape, dtype, buffer, name)
    # The first product overwrites a location of PSUM, which is what adding it to zero gives.
    if _space_of(buffer) != "psum":
        for tile in tensor.all_tiles() if isinstance(tensor, _SeparateBlocks) else [_plain(tensor)]:
            isa.memset(tile, fill_value)
    elif fill_value != 0:
        _refuse("a tensor in PSUM begins with zeros, or with what a product gives")
    return tensor


def zeros(shape, dtype, buffer=sbuf, name="", **unused):
    return full(shape, 0, dtype, buffer, name)


def ones(shape, dtype, buffer=sbuf, name="", **unused):
    return full(shape, 1, dtype, buffer, name)


def zeros_like(x, dtype=None, buffer=None, name="", **unused):
    return zeros(x.shape, dtype or x.dtype, buffer or sbuf)


def load(src, mask=None, dtype=None, **unused):
    """A new tile with the contents of a tensor in HBM; elements that the mask leaves out are 0."""
    from nki import isa
    src = _plain(src)
    if mask is None:
        return _elementwise.load(src, dtype)
    shape = src.shape if src.ndim > 1 else (src.shape[0], 1)
    tile = _elementwise.new(shape, dtype or src.dtype)
    part = _masked(src, mask)
    if part is None or part.size != tile.size:
        isa.memset(tile, 0)
    if part is not None:
        isa.dma_copy(_masked(tile, mask), part)
    return tile


def store(dst, value, mask=None, **unused):
    """Writes a tile to a tensor in HBM."""
    value = _plain(value)
    part = _masked(dst, mask)
    if part is not None:
        _elementwise.store(part, _masked(value, mask))


class _LoopReduced:
    """What nl.loop_reduce gives: the value of one round, and whether it is the first one."""

    def __init__(self, tile, op, first):
        self.tile, self.op, self.first = tile, op, first

    def assign_to(self, target):
        from nki import isa
        if self.first:
            isa.tensor_copy(target, self.tile)
        else:
            isa.tensor_tensor(target, target, self.tile, self.op)


def loop_reduce(value, op, loop_indices, dtype=None, **unused):
    """The value combined over the rounds of loops. It can be assigned to a part of a tile, which holds
    the result behind the last round; a round is the first one if its indices are all 0."""
    if any(not hasattr(i, "__index__") for i in loop_indices):
        _refuse(f"loop_indices = {loop_indices!r}; expected the indices of loops around this line")
    return _LoopReduced(_plain(value), op, all(int(i) == 0 for i in loop_indices))


def load_transpose2d(src, mask=None, dtype=None):
    return _nl.load_transpose2d(src, dtype)


def shared_constant(constant, dtype=None, **unused):
    """A tensor in HBM with these values, as elements of `dtype`."""
    from nki.dtypes import encode
    return _nl.shared_constant(constant if dtype is None else encode(constant, dtype))


def static_cast(value, dtype):
    """An array of the host with the values of another one, as elements of `dtype`."""
    from nki.dtypes import encode
    return encode(value, dtype)


def copy(src, mask=None, dtype=None):
    return _elementwise.copied(_plain(src), dtype)


def transpose(x, dtype=None, mask=None):
    return _nl.transpose(x, dtype)


def matmul(x, y, transpose_x=False, mask=None):
    return _elementwise.matmul(_plain(x), _plain(y), transpose_x)


def _old(function):
    """A function of the new style that also takes tensors with blocks. What a mask leaves out has no
    defined value, so all is computed."""
    def call(*positional, mask=None, dtype=None, **named):
        return function(*[_plain(v) for v in positional], dtype=dtype,
                        **{k: _plain(v) for k, v in named.items()})

    call.__name__ = function.__name__
    call.__doc__ = function.__doc__
    return call


for _name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "equal",
              "not_equal", "less", "less_equal", "greater", "greater_equal", "bitwise_and",
              "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "logical_and", "logical_or",
              "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "relu", "gelu", "silu", "softplus",
              "erf", "sin", "cos", "arctan", "sign", "abs", "square", "reciprocal", "negative", "sum",
              "prod", "max", "min", "mean", "var", "softmax", "where", "gelu_apprx_tanh",
              "logical_not", "invert"):
    globals()[_name] = _old(getattr(_nl, _name))


class nc(int):
    """A number of cores, in a grid."""


def spmd_dim(*sizes):
    """A dimension of a grid that is spread over cores."""
    total = 1
    for size in sizes:
        total *= int(size)
    return total


__all__ = [name for name in globals() if not name.startswith("_")]
