# SPDX-License-Identifier: Apache-2.0
"""neuronxcc.nki.isa: the instructions, as functions that return tiles.

With dst they are those of the new style. Masks are boxes: the tile's elements before a limit in each
dimension.
"""
import inspect
import math

import numpy as np

import nki.isa as _isa
from nki.elementwise import broadcast_to as _broadcast
from nki.elementwise import is_tensor as _is_tensor
from nki.errors import refuse as _refuse
from nki.isa import *
from nki.isa import gpsimd_engine, scalar_engine, tensor_engine, unknown_engine, vector_engine
from nki.recorder import current as _current

from ..tiles import masked as _masked
from ..tiles import plain as _plain


def _new(shape, dtype, space="sbuf"):
    return _current().tensor(shape, dtype, space)


def _spread(tiles):
    """Tiles with the shape that holds all of them; a column stays one where a row is meant."""
    shape = [max(sizes) for sizes in zip(*(t.shape for t in tiles))]
    return [_broadcast(t, shape) for t in tiles]


def _returning(function, make):
    """The function with dst left out: `make` gives the result's shape, type and memory."""
    signature = inspect.signature(function)
    old = [p for p in signature.parameters if p != "dst"]

    def call(*positional, dtype=None, mask=None, **named):
        named = {k: _plain(v) for k, v in named.items()}
        positional = [_plain(v) for v in positional]
        if "dst" in named:
            return function(*positional, **named)
        values = dict(zip(old, positional), **named)
        views = {k: _masked(v, mask) if k in _TILES else v for k, v in values.items()}
        if any(v is None and values[k] is not None for k, v in views.items()):
            return make(values, dtype)  # The mask leaves nothing
        result = make(values, dtype)
        target = _masked(result, mask)
        function(dst=target, **_with_shapes(function, views))
        return result

    call.__name__ = function.__name__
    call.__doc__ = function.__doc__
    return call


_TILES = {"data", "data1", "data2", "data0", "src", "on_true_tile", "predicate", "operand1"}


def _with_shapes(function, values):
    if function is _isa.tensor_tensor:
        a, b = _spread([values["data1"], values["data2"]])
        return {**values, "data1": a, "data2": b}
    return values


def _tile(values, key):
    tile = values.get(key)
    if not _is_tensor(tile):
        _refuse(f"{key} is {type(tile).__name__}; expected a tile")
    return tile


def _like(key, space="sbuf"):
    def make(values, dtype):
        source = _tile(values, key)
        return _new(source.shape, dtype or source.dtype, space)
    return make


def _pair(first, second):
    def make(values, dtype):
        a, b = _tile(values, first), _tile(values, second)
        shape = [max(x, y) for x, y in zip(a.shape, b.shape)]
        return _new(shape, dtype or a.dtype)
    return make


def _reduced(values, dtype):
    data = _tile(values, "data")
    axes = values["axis"]
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    axes = {a % data.ndim for a in axes}
    if values.get("keepdims"):
        shape = [1 if d in axes else s for d, s in enumerate(data.shape)]
    else:
        shape = [s for d, s in enumerate(data.shape) if d not in axes]
        shape = shape if len(shape) > 1 else shape + [1]
    return _new(shape, dtype or data.dtype)


def _product(values, dtype):
    columns = [tile.size // tile.shape[0] for tile in (_tile(values, "stationary"), _tile(values, "moving"))]
    return _new(columns, "float32", "psum")


def _turned(values, dtype):
    data = _tile(values, "data")
    columns = math.prod(data.shape[1:])
    small = data.shape[0] <= 32 and columns <= 32 and getattr(
        values.get("engine"), "name", "") == "vector"
    return _new((columns, data.shape[0]), dtype or data.dtype, "sbuf" if small else "psum")


tensor_tensor = _returning(_isa.tensor_tensor, _pair("data1", "data2"))
tensor_scalar = _returning(_isa.tensor_scalar, _like("data"))
scalar_tensor_tensor = _returning(_isa.scalar_tensor_tensor, _like("data"))
tensor_scalar_reduce = _returning(_isa.tensor_scalar_reduce, _like("data"))
tensor_reduce = _returning(_isa.tensor_reduce, _reduced)
tensor_tensor_scan = _returning(_isa.tensor_tensor_scan, _like("data0"))
tensor_copy = _returning(_isa.tensor_copy, _like("src"))
activation = _returning(_isa.activation, _like("data"))
activation_reduce = _returning(_isa.activation_reduce, _like("data"))
reciprocal = _returning(_isa.reciprocal, _like("data"))
dropout = _returning(_isa.dropout, _like("data"))
nc_matmul = _returning(_isa.nc_matmul, _product)
nc_transpose = _returning(_isa.nc_transpose, _turned)
bn_stats = _returning(_isa.bn_stats, lambda v, t: _new((_tile(v, "data").shape[0], 6), t or "float32"))
bn_aggr = _returning(_isa.bn_aggr, lambda v, t: _new((_tile(v, "data").shape[0], 2), t or "float32"))
max8 = _returning(_isa.max8, lambda v, t: _new((_tile(v, "src").shape[0], 8), t or v["src"].dtype))
nc_find_index8 = _returning(_isa.nc_find_index8, lambda v, t: _new(
    (_tile(v, "data").shape[0], 8), t or "uint32"))
nc_match_replace8 = _returning(_isa.nc_match_replace8, _like("data"))
tensor_partition_reduce = _returning(
    _isa.tensor_partition_reduce, lambda v, t: _new((1,) + tuple(_tile(v, "data").shape[1:]),
                                                    t or v["data"].dtype))


def memset(shape=None, value=0, dtype="float32", mask=None, engine=unknown_engine, dst=None):
    """A new tile of one value; with dst, fills that."""
    if dst is not None:
        return _isa.memset(_plain(dst), value, engine)
    result = _new(shape, dtype)
    _isa.memset(result, value, engine)
    return result


def iota(expr, dtype="int32", mask=None):
    """A new tile of an expression of nl.arange: evenly spaced numbers."""
    numbers = np.asarray(expr)
    if numbers.ndim < 2:
        numbers = numbers.reshape(1, -1)
    steps = [int(np.take(numbers, 1, d).reshape(-1)[0] - numbers.reshape(-1)[0])
             if numbers.shape[d] > 1 else 0 for d in range(numbers.ndim)]
    even = sum((s * np.arange(n).reshape([-1 if d == e else 1 for e in range(numbers.ndim)])
                for d, (s, n) in enumerate(zip(steps, numbers.shape))), numbers.reshape(-1)[0])
    if not np.array_equal(np.broadcast_to(even, numbers.shape), numbers):
        _refuse("the numbers of iota are not evenly spaced")
    result = _new(numbers.shape, dtype)
    _isa.iota(result, list(zip(steps[1:], numbers.shape[1:])), int(numbers.reshape(-1)[0]), steps[0])
    return result


def affine_select(pred, on_true_tile, on_false_value, mask=None, dtype=None):
    """on_true_tile where pred, a comparison of nl.arange with nl.arange or a number, holds."""
    chosen = np.broadcast_to(np.asarray(pred), on_true_tile.shape)
    rows = chosen.reshape(chosen.shape[0], -1)
    result = _new(on_true_tile.shape, dtype or on_true_tile.dtype)
    step, offset, sign = _line_of(rows)
    _isa.affine_select(result, [[step, rows.shape[1]]], sign, _plain(on_true_tile), on_false_value,
                       cmp_op="greater_equal", offset=offset)
    return result


def _line_of(rows):
    """(step, offset, multiplier) with rows[p, i] == (offset + p * multiplier + i * step >= 0)."""
    counts = rows.sum(1)
    parts, columns = rows.shape
    for multiplier in (1, -1):
        for step in (-1, 1):
            p = np.arange(parts)[:, None] * multiplier
            i = np.arange(columns)[None] * step
            value = p + i
            kept = value[rows]
            offset = -int(kept.min()) if kept.size else -int(value.max()) - 1
            if np.array_equal(value + offset >= 0, rows):
                return step, offset, multiplier
    return _refuse(f"the predicate of affine_select, true for {int(counts.sum())} elements, is no "
                   "diagonal line")


def dma_copy(dst, src, mask=None, **named):
    """dst = src."""
    return _isa.dma_copy(_masked(_plain(dst), mask), _masked(_plain(src), mask), **named)


__all__ = [name for name in globals() if not name.startswith("_")]
