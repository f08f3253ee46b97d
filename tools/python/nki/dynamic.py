# SPDX-License-Identifier: Apache-2.0
"""Transfers whose address a value of the device moves (scalar_offset, select by a tile).

The chip's generated transfers take a row number for each partition. So each partition's number is
computed from the one value: broadcast over the partitions, then scaled and added on GpSimd.
"""
import itertools
import math

from .errors import refuse
from .isa.control import VirtualRegister
from .recorder import current, wrote
from .tensor import NkiTensor

_MOST_PIECES = 256


def _value_tile(scalar, parts):
    """The value in each of `parts` partitions, as int32 in SBUF."""
    from . import elementwise, isa
    if isinstance(scalar, VirtualRegister):
        scalar = scalar.tile
    if scalar.size != 1 or scalar.dtype.itemsize != 4:
        refuse(f"the offset is {scalar!r}; expected one 32-bit integer")
    spread = elementwise.new((parts, 1), "int32")
    recorder = current()
    source = recorder.plain_operand(scalar, "scalar_offset")
    source["dtype"] = "int32"
    source["pattern"] = [[0, parts]] + source["pattern"]
    if scalar.storage.space == "psum":
        refuse("the offset is in PSUM; copy it to SBUF")
    recorder.emit("dma_copy", dst=recorder.operand(spread, "offsets", write=True), src=source)
    return spread, isa


def _piece(tile, begin, run):
    """`run` elements of each partition of a tile, from the one that is `begin` in the order of its rows."""
    outer = [(n, s) for n, s in zip(tile.shape[1:], tile.strides[1:]) if n != 1]
    inner, left = [], run
    while left > 1:
        n, s = outer.pop()
        if left % n == 0:
            inner.insert(0, (n, s))
            left //= n
        elif n % left == 0:
            inner.insert(0, (left, s))
            outer.append((n // left, left * s))
            left = 1
        else:
            refuse(f"{tile!r} takes runs of {run} elements by an index of the device, and its rows of {n} "
                   f"are apart; give a tile whose rows are parts of {run} or the other way round")
    offset, number = tile.offset, begin // run
    for n, s in reversed(outer):
        offset, number = offset + number % n * s, number // n
    inner = inner or [(1, 1)]
    return tile._view((tile.shape[0], *(n for n, _ in inner)), (tile.strides[0], *(s for _, s in inner)), offset)


def pieces(table, tile, inner):
    """What moves of each row, `inner` with (size, step) of its dimensions, in runs of neighbouring
    elements: for each run its part of the table and of the tile."""
    run, strided = 1, []
    for n, s in reversed([(n, s) for n, s in inner if n != 1]):
        if s == run and not strided:
            run *= n
        else:
            strided.insert(0, (n, s))
    count = math.prod(n for n, _ in strided)
    if count > _MOST_PIECES:
        refuse(f"{table!r} with an index of the device is {count} transfers of {run} neighbouring "
               f"elements; at most {_MOST_PIECES}")
    columns = tile.size // tile.shape[0]
    if count > 1 and count * run != columns:
        refuse(f"{table!r} moves {count * run} elements of each row, and a partition of {tile!r} has {columns}")
    for number, starts in enumerate(itertools.product(*(range(n) for n, _ in strided))):
        begin = table.offset + sum(i * s for i, (_, s) in zip(starts, strided))
        yield (NkiTensor(table.storage, (run,), (1,), begin, table.dtype),
               _piece(tile, number * run, run) if count > 1 else tile)


def transfer(table, tile, kind, skip, accumulate, priority=None):
    how, scalar, step = table.dynamic
    known = scalar
    if isinstance(scalar, VirtualRegister):
        known = scalar.value if scalar.tile is None else scalar.tile
    if hasattr(known, "__index__"):
        plain = NkiTensor(table.storage, table.shape, table.strides, table.offset + known * step,
                          table.dtype)
        from . import isa
        target, source = (tile, plain) if kind == "dma_gather" else (plain, tile)
        return isa.dma_copy(target, source, priority=priority,
                            dst_rmw_op="add" if accumulate else None)
    if not tile.on_chip or table.on_chip:
        refuse("a transfer with an offset of the device goes between HBM and SBUF")
    parts, columns = tile.shape[0], tile.size // tile.shape[0]
    shape = [(n, s) for n, s in zip(table.shape, table.strides) if n != 1]
    # The stream of the table, cut at the partitions of the tile.
    outer, inner = [], list(shape)
    while inner and math.prod(n for n, _ in inner) > columns:
        outer.append(inner.pop(0))
    if math.prod(n for n, _ in inner) != columns or len(outer) > 1:
        refuse(f"{table!r} with an offset of the device has no single step from partition to "
               "partition")
    pitch = outer[0][1] if outer else 0
    # Rows as far apart as everything that is added allows.
    unit = math.gcd(step, pitch) or step
    index, isa = _value_tile(scalar, parts)
    if step != unit or pitch:
        numbers = current().tensor((parts, 1), "int32", "sbuf", "rows")
        isa.iota(numbers, [[0, 1]], 0, pitch // unit)
        scaled = current().tensor((parts, 1), "int32", "sbuf", "factor")
        isa.iota(scaled, [[0, 1]], step // unit, 0)
        isa.tensor_tensor(index, index, scaled, "multiply", engine=isa.engine.gpsimd)
        isa.tensor_tensor(index, index, numbers, "add", engine=isa.engine.gpsimd)
    recorder = current()
    if kind == "dma_scatter":
        wrote(table)
    record = None
    for plain, part in pieces(table, tile, inner):
        fields = {"dst" if kind == "dma_gather" else "src":
                  recorder.operand(part, "the tile", write=kind == "dma_gather"),
                  "src" if kind == "dma_gather" else "dst": recorder.plain_operand(plain, "the table")}
        record = recorder.emit(kind, index=recorder.operand(index, "offsets"), row_elements=unit,
                               skip=skip or None, accumulate=accumulate or None, priority=priority,
                               **fields)
    return isa.NkiInstruction(record)
