# SPDX-License-Identifier: Apache-2.0
"""The functions of nki.language that return new tiles, made of instructions of nki.isa."""
import functools
import math
import sys

import numpy as np

from . import isa
from .dtypes import FLOATS, INTEGERS, SIZES, dtype_of
from .errors import refuse
from .isa.types import fits_an_operand
from .recorder import current
from .tensor import HBM, SBUF, NkiTensor

_COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
                "logical_and", "logical_or", "logical_xor"}
_OF_BITS = {"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"}


def is_tensor(value):
    return isinstance(value, NkiTensor)


def new(shape, dtype, space=SBUF, name=None):
    return current().tensor(shape, dtype, space, name)


def on_chip(tensor, what):
    if not is_tensor(tensor):
        refuse(f"{what} is {type(tensor).__name__}; expected a tile")
    if not tensor.on_chip:
        refuse(f"{what} is in HBM: {tensor!r}; engines read tiles, load it first with nl.load or "
               "nisa.dma_copy")
    return tensor


def type_of(value):
    """The name of the type of a tile or a number. A number of Python has the widest of its kind, one of
    NumPy its own."""
    # (float16, 1.2) -> float32: "NKI Type Promotion" in nki.api.shared of the SDK's documentation up to
    # 2.26. What came later for NKI 0.6 names no other rule.
    if is_tensor(value):
        return str(value.dtype)
    if isinstance(value, (bool, np.bool_)):
        return "uint8"
    if isinstance(value, np.generic) and value.dtype.name in SIZES:
        return value.dtype.name
    return "int32" if hasattr(value, "__index__") else "float32"


def common_type(a, b):
    """What NKI makes of two types: a float of an integer and a float, else the narrowest that holds both."""
    if a == b:
        return a
    floats = [t for t in (a, b) if t in FLOATS]
    if len(floats) == 1:
        return floats[0]
    if floats:
        if SIZES[a] != SIZES[b]:
            return max(floats, key=SIZES.get)
        return {4: "float32", 2: "float32", 1: "bfloat16"}[SIZES[a]]
    least, most = (f(INTEGERS[a][n], INTEGERS[b][n]) for n, f in enumerate((min, max)))
    fitting = [t for t, (low, high) in INTEGERS.items() if low <= least and most <= high and t != "bool"]
    return min(fitting, key=SIZES.get, default="float32")  # The engines have no integers of 64 bits


def promoted(*values):
    return dtype_of(functools.reduce(common_type, map(type_of, values)))


def broadcast_to(tensor, shape):
    """The tensor with dimensions of size 1 repeated; the partition of a tile is not repeated."""
    shape = tuple(int(s) for s in shape)
    view = tensor
    while view.ndim < len(shape):
        view = view.expand_dim(1 if view.on_chip else 0)
    for dim, size in enumerate(shape):
        if view.shape[dim] == size:
            continue
        if view.shape[dim] != 1:
            refuse(f"{tensor!r} cannot be broadcast to {list(shape)}")
        if dim == 0 and view.on_chip:
            return _partition_broadcast(tensor, shape)
        view = view.broadcast(dim, size)
    return view


def _partition_broadcast(tensor, shape):
    """Every partition gets what the only one has: a transfer that reads it again and again."""
    rows = new((shape[0],) + tuple(tensor.shape[1:]), tensor.dtype)
    if tensor.dtype.itemsize <= 4 and tensor.storage.space == SBUF:
        recorder = current()
        source = recorder.plain_operand(tensor, "the source")
        source["pattern"] = [[0, shape[0]]] + source["pattern"]
        target = recorder.operand(rows, "the destination", write=True)
        recorder.emit("dma_copy", dst=target, src=source)
        return broadcast_to(rows, shape)
    return refuse(f"the partition of {tensor!r} cannot be broadcast")


def together(x, y):
    """Both tiles with the shape that holds both."""
    ndim = max(x.ndim, y.ndim)
    shape = []
    for d in range(ndim):
        a = _size(x, d, ndim)
        b = _size(y, d, ndim)
        if a != b and 1 not in (a, b):
            refuse(f"{x!r} and {y!r} have no common shape")
        shape.append(max(a, b))
    return broadcast_to(x, shape), broadcast_to(y, shape)


def _size(tensor, d, ndim):
    if d == 0:
        return tensor.shape[0]
    back = ndim - d
    return tensor.shape[-back] if back < tensor.ndim else 1


def binary(op, x, y, dtype=None):
    if not is_tensor(x) and not is_tensor(y):
        refuse(f"{op} of two numbers; expected a tile")
    if dtype is not None:
        kind = dtype_of(dtype)
    elif op in _COMPARISONS:
        kind = dtype_of("uint8")
    elif op in _OF_BITS:
        kind = promoted(*(v for v in (x, y) if is_tensor(v)))  # A number has no width of its own
    else:
        kind = promoted(x, y)
    if is_tensor(x) and is_tensor(y):
        a, b = together(on_chip(x, "x"), on_chip(y, "y"))
        out = new(a.shape, kind)
        if str(b.dtype) == "float32" and _one_column(y) and a.ndim == 2:
            isa.tensor_scalar(out, a, op, y)
        else:
            isa.tensor_tensor(out, a, b, op)
        return out
    tile, number, reverse = (x, y, False) if is_tensor(x) else (y, x, True)
    out = new(on_chip(tile, "the operand").shape, kind)
    if reverse and op == "divide":
        isa.reciprocal(out, tile)
        if number != 1:
            isa.tensor_scalar(out, out, "multiply", number)
        return out
    commutes = op in ("add", "multiply", "maximum", "minimum", "equal", "not_equal",
                      "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or",
                      "bitwise_xor")
    isa.tensor_scalar(out, tile, op, number, reverse0=reverse and not commutes)
    return out


def _one_column(tensor):
    return tensor.ndim == 2 and tensor.shape[1] == 1


def unary(op, x, dtype=None, bias=None, scale=1.0):
    on_chip(x, "x")
    out = new(x.shape, dtype or x.dtype)
    isa.activation(out, op, x, bias=bias, scale=scale)
    return out


def with_scalar(op, x, number, dtype=None):
    on_chip(x, "x")
    out = new(x.shape, dtype or x.dtype)
    isa.tensor_scalar(out, x, op, number)
    return out


def arithmetic(x, op, other, reverse, into):
    """x op other, as operators of Python; `into` writes the result to x."""
    if not is_tensor(other) and not isinstance(other, (int, float, np.number)):
        return NotImplemented
    if not into:
        return binary(op, other, x) if reverse else binary(op, x, other)
    if is_tensor(other):
        if op == "add" and accumulated(x, other):
            return x
        a, b = together(x, other)
        if _one_column(other) and str(other.dtype) == "float32" and x.shape != other.shape:
            isa.tensor_scalar(x, x, op, other)
        else:
            isa.tensor_tensor(x, a, b, op)
    else:
        isa.tensor_scalar(x, x, op, other)
    return x


def accumulated(x, product):
    """psum += product: the product goes to x itself, if it is the last thing that was computed."""
    record = last_result(product)
    if record is None or record["op"] != "nc_matmul" or x.storage.space != "psum":
        return False
    redirect(record, product, x)
    record.pop("accumulate", None)
    return True


def redirect(record, value, target):
    """The instruction that wrote `value` writes `target` instead; the tile of `value` goes. Who names it
    later nevertheless gets it back, by Recorder.restore()."""
    recorder, storage = current(), value.storage
    recorder.declare_before(target.storage, record)
    storage.moved = record, dict(record)
    record["dst"] = recorder.operand(target, "the target", write=True)
    recorder.remove(storage.record)
    storage.identity = None


def last_result(value):
    """The record that has just written all of a tile which nothing else has used; else None."""
    # Behind it, tiles that only the expression held may have ended, and its target may have been made.
    record = next((r for r in reversed(current().records) if r["op"] not in ("free", "tile")), None)
    written = record.get("dst") if record else None
    if not isinstance(written, dict) or not is_tensor(value):
        return None
    whole = value.storage.written == value.size == math.prod(value.storage.shape)
    return record if whole and written.get("tile") == value.storage.identity else None


def copied(x, dtype=None):
    on_chip(x, "x")
    out = new(x.shape, dtype or x.dtype)
    isa.tensor_copy(out, x)
    return out


def reduced(op, x, axis, dtype=None, keepdims=False, negate=False):
    on_chip(x, "x")
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = sorted(a % x.ndim for a in axes)
    if 0 in axes:
        return _over_partitions(op, x, axes, dtype)
    shape = [1 if d in axes else s for d, s in enumerate(x.shape)]
    out = new(shape, dtype or x.dtype)
    isa.tensor_reduce(out, op, x, axis=axes, negate=negate)
    if keepdims:
        return out
    kept = [s for d, s in enumerate(x.shape) if d not in axes]
    return out.reshape(kept if len(kept) > 1 else kept + [1])


def _over_partitions(op, x, axes, dtype):
    if axes != [0]:
        refuse("a reduction over partitions and free dimensions at once; use two")
    out = new((1,) + tuple(x.shape[1:]), dtype or x.dtype)
    isa.tensor_partition_reduce(out, op, x)
    return out


class _Probe:
    """Finds how many references a value has that only an expression holds, in assign()."""

    def __setitem__(self, key, value):
        _count(self, value)


def _count(target, value):
    _references.append(sys.getrefcount(value))


_references = []
_Probe()[0] = object()


def assign(target, value):
    """target[...] = value. A result that nothing else holds is computed into the target at once."""
    if hasattr(value, "assign_to"):
        value.assign_to(target)
        return
    if is_tensor(value) and sys.getrefcount(value) <= _references[0] and _redirected(target, value):
        return
    if not is_tensor(value):
        if not target.on_chip:
            refuse("a number cannot be assigned to a tensor in HBM; store a tile of it")
        isa.memset(target, value)
    elif target.on_chip and value.on_chip:
        if target.storage is value.storage and target.offset == value.offset and (
                target.shape, target.strides) == (value.shape, value.strides):
            return
        isa.tensor_copy(target, broadcast_to(value, target.shape))
    else:
        isa.dma_copy(target, value)


_KEEP_TYPE = {"nc_stream_shuffle", "local_gather", "nc_n_gather", "tensor_copy_predicated",
              "nc_transpose", "dropout"}


_ONCE = {"rng", "rand2", "dropout"}


def _redirected(target, value):
    record = last_result(value)
    if record is None or record["op"].startswith("dma") or not target.on_chip or (
            target.storage is value.storage or value.size != target.size or value.shape[0] != target.shape[0]):
        return False
    if target.storage.space != value.storage.space and (
            record["op"] in ("nc_matmul", "nc_transpose") or target.storage.space == "psum"):
        return False
    if record["op"] in _ONCE or record.get("reduce_cmd") == "reduce":
        return False  # Done twice by Recorder.restore(), it would give something else
    if record["op"] in _KEEP_TYPE and target.dtype != value.dtype:
        return False
    if not fits_an_operand(target):
        return False  # A copy is divided among several instructions
    redirect(record, value, target)
    if record["op"] in ("nc_matmul", "nc_matmul_mx"):
        record["accumulate"] = False  # An assignment replaces what was there
    return True


def load(src, dtype=None):
    """A new tile with the contents of a tensor in HBM; its first dimension is the partition."""
    if not is_tensor(src) or src.on_chip:
        refuse(f"nl.load reads a tensor in HBM, found {src!r}")
    shape = src.shape if src.ndim > 1 else (src.shape[0], 1)
    if src.dynamic is None and shape[0] > 128:
        refuse(f"nl.load of {src!r}: its first dimension becomes the partition, at most 128")
    out = new(shape, dtype or src.dtype)
    isa.dma_copy(out, src)
    return out


def store(dst, value):
    if not is_tensor(dst) or dst.on_chip:
        refuse(f"nl.store writes a tensor in HBM, found {dst!r}")
    if not is_tensor(value):
        tile = new(dst.shape if dst.ndim > 1 else (dst.shape[0], 1), dst.dtype)
        isa.memset(tile, value)
        value = tile
    if value.storage.space == "psum":
        value = copied(value, dst.dtype)
    isa.dma_copy(dst, value)


def filled(shape, value, dtype, space):
    if space == HBM:
        out = current().tensor(shape, dtype, HBM)
        rows = out.reshape((out.size // out.shape[-1], out.shape[-1]))
        tile = new((min(128, rows.shape[0]), rows.shape[1]), dtype)
        isa.memset(tile, value)
        for row in range(0, rows.shape[0], 128):
            count = min(128, rows.shape[0] - row)
            isa.dma_copy(rows[row:row + count], tile[0:count])
        return out
    out = current().tensor(shape, dtype, space)
    isa.memset(out, value)
    return out


def matmul(x, y, transpose_x=False):
    """x @ y in PSUM; one product, x [M, K] or with transpose_x [K, M]."""
    x, y = (copied(t) if t.storage.space == "psum" else t for t in (x, y))
    if not transpose_x:
        turned = new((x.shape[1], x.shape[0]), x.dtype, "psum")
        isa.nc_transpose(turned, x)
        x = copied(turned)
    out = new((x.shape[1], y.shape[1]), "float32", "psum")
    isa.nc_matmul(out, x, y)
    return out


def softmax(x, axis=-1, dtype=None):
    peak = reduced("maximum", x, axis, "float32", keepdims=True, negate=True)
    if peak.size != peak.shape[0]:
        refuse("softmax over a part of the free dimensions; slice the tile")
    peak = peak.reshape((peak.shape[0], 1))
    out = new(x.shape, "float32")
    total = new((x.shape[0], 1), "float32")
    isa.activation_reduce(out, "exp", x, "add", total, bias=peak)
    isa.reciprocal(total, total)
    result = new(x.shape, dtype or x.dtype)
    isa.tensor_scalar(result, out, "multiply", total)
    return result


def mean(x, axis, dtype=None, keepdims=False):
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    count = math.prod(x.shape[a] for a in axes)
    total = reduced("add", x, axis, "float32", keepdims)
    return with_scalar("multiply", total, 1.0 / count, dtype or x.dtype)


def var(x, axis, dtype=None, keepdims=False):
    middle = mean(x, axis, "float32", True)
    a, b = together(x, middle)
    centred = new(x.shape, "float32")
    isa.tensor_tensor(centred, a, b, "subtract")
    isa.tensor_tensor(centred, centred, centred, "multiply")
    return mean(centred, axis, dtype or x.dtype, keepdims)


def rms_norm(x, w, axis, n, epsilon=1e-6, dtype=None):
    axes = sorted(a % x.ndim for a in ((axis,) if isinstance(axis, int) else axis))
    if axes != list(range(1, x.ndim)):
        refuse(f"rms_norm over axes {axis} of {x!r}: expected all free dimensions; slice or reshape the tile")
    square = new(x.shape, "float32")
    total = new((x.shape[0], 1), "float32")
    isa.activation_reduce(square, "square", x, "add", total)
    isa.tensor_scalar(total, total, "multiply", 1.0 / n, op1="add", operand1=epsilon)
    isa.activation(total, "rsqrt", total)
    out = new(x.shape, dtype or x.dtype)
    isa.tensor_scalar(out, x, "multiply", total)
    if w is not None:
        a, b = together(out, w)
        isa.tensor_tensor(out, a, b, "multiply")
    return out


def where(condition, x, y, dtype=None):
    on_chip(condition, "condition")
    kind = dtype or promoted(x, y)
    out = new(condition.shape, kind)
    if is_tensor(y):
        isa.tensor_copy(out, broadcast_to(y, condition.shape))
    else:
        isa.memset(out, y)
    mask = condition
    if str(condition.dtype) not in ("uint8", "uint16", "uint32"):
        mask = with_scalar("not_equal", condition, 0, "uint8")
    if is_tensor(x):
        chosen = broadcast_to(x, condition.shape)
        if str(chosen.dtype) != str(out.dtype):
            chosen = copied(chosen, out.dtype)
        isa.tensor_copy_predicated(out, chosen, mask)
    else:
        isa.tensor_copy_predicated(out, x, mask)
    return out
