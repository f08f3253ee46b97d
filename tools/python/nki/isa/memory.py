# SPDX-License-Identifier: Apache-2.0
"""Transfers by DMA."""
import math

from ..errors import refuse
from ..recorder import current, number, wrote
from ..tensor import NkiTensor
from .types import alu, dge_mode, dst as to, engine, engine_name, oob_mode, record, src as source

__all__ = ["dma_copy", "dma_transpose", "dma_compute"]


def _indexed(tensor):
    return isinstance(tensor, NkiTensor) and tensor.dynamic is not None


def _by_index(table, tile, kind, skip, accumulate=False, priority=None):
    how, index, step = table.dynamic
    if not tile.size or not table.size:
        refuse(f"a transfer by an index between {table!r} and {tile!r} moves no element")
    if how != "vector":
        return _by_scalar(table, tile, kind, skip, accumulate, priority)
    if not tile.on_chip:
        refuse("a transfer by an index of each partition goes between HBM and SBUF")
    if isinstance(index, NkiTensor) and index.dtype.itemsize != 4:
        refuse(f"vector_offset is {index!r}; expected 32-bit integers")
    from .. import dynamic
    recorder = current()
    if kind == "dma_scatter":
        wrote(table)
    last = None
    for plain, part in dynamic.pieces(table, tile, list(zip(table.shape, table.strides))[1:]):
        last = record(kind, **{"dst" if kind == "dma_gather" else "src":
                               (to if kind == "dma_gather" else source)(part, "the tile")},
                      **{"src" if kind == "dma_gather" else "dst":
                         recorder.plain_operand(plain, "the table")},
                      index=source(index, "vector_offset"), row_elements=int(step), skip=skip or None,
                      accumulate=accumulate or None, priority=priority)
    return last


def _by_scalar(table, tile, kind, skip, accumulate, priority):
    """One offset for all partitions: each partition gets its own row number, computed on GpSimd."""
    from .. import dynamic
    return dynamic.transfer(table, tile, kind, skip, accumulate, priority)


def _class_of(priority, mode):
    """The class of service of a transfer, None for 0, which is served first. Classes before generation 4,
    and who makes the descriptors, change no time here: the kernel's author is told once."""
    if priority is not None and priority not in range(4):
        refuse(f"the priority of a transfer is {priority!r}; it is 0 (served first) to 3")
    notes = current().notes
    told = []
    if priority is not None and current().generation < 4:
        told.append("the priority of a transfer changes nothing before generation 4 (trn3): rings are "
                    "served in turn")
        priority = None
    if getattr(mode, "name", "unknown") not in ("unknown", "none"):
        told.append("dge_mode changes nothing: descriptors of indexed transfers are made by GpSimd, "
                    "others lie ready in memory")
    notes.extend(note for note in told if note not in notes)
    return int(priority) if priority else None


def dma_copy(dst, src, priority=None, oob_mode=oob_mode.error, dge_mode=dge_mode.unknown,
             engine=engine.unknown, name=None, dst_rmw_op=None):
    """dst = src between HBM and SBUF, cast if the types differ; gathers and scatters by index."""
    priority = _class_of(priority, dge_mode)
    skip = getattr(oob_mode, "name", str(oob_mode)) == "skip"
    if dst_rmw_op is not None and alu(dst_rmw_op) != "add":
        refuse("dst_rmw_op is add or nothing")
    if dst_rmw_op is not None and not _indexed(dst):
        return record("dma_compute", dst=to(dst), srcs=[source(dst, "dst"), source(src, "src")],
                      alu="add", priority=priority)
    if _indexed(src) and _indexed(dst):
        refuse("source and destination are both reached by an index; use two transfers")
    if _indexed(src):
        return _by_index(src, dst, "dma_gather", skip, priority=priority)
    if _indexed(dst):
        return _by_index(dst, src, "dma_scatter", skip, dst_rmw_op is not None, priority)
    if dst.size != src.size:
        refuse(f"dma_copy of {src!r} to {dst!r}: {src.size} elements to {dst.size}")
    return record("dma_copy", dst=to(dst), src=source(src, "src"), engine=engine_name(engine),
                  priority=priority)


def dma_transpose(dst, src, axes=None, priority=None, dge_mode=dge_mode.unknown,
                  oob_mode=oob_mode.error, name=None):
    """dst = src with its first and last dimension exchanged, types of 2 or 4 bytes."""
    priority = _class_of(priority, dge_mode)
    known = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
    if axes is not None and tuple(axes) != known.get(src.ndim):
        refuse(f"axes = {tuple(axes)} of {src!r}; expected {known.get(src.ndim)}")
    if _indexed(dst):
        refuse("dma_transpose writes where its destination is; an index can choose rows of the source")
    if _indexed(src):
        skip = getattr(oob_mode, "name", str(oob_mode)) == "skip"
        return _transpose_by_index(dst, src, skip, priority)
    return record("dma_transpose", dst=to(dst), src=source(src, "src"), priority=priority)


def _transpose_by_index(dst, src, skip, priority):
    """dst[D, N] = rows of src, transposed; index tile [P, C] names rows C behind C: row c P + p is
    index[p, c]. Composed: rows are gathered, then turned by the Tensor engine."""
    from .tensor import nc_transpose
    from .vector import tensor_copy
    recorder = current()
    how, index, step = src.dynamic
    depth = src.size // src.shape[0]
    if how != "vector" or not dst.on_chip or index.ndim != 2:
        refuse("dma_transpose by index takes rows that a tile [P, C] names, from HBM to SBUF")
    parts, columns = index.shape
    if dst.ndim != 2 or tuple(dst.shape) != (depth, parts * columns) or depth > 128:
        refuse(f"dma_transpose by index of {src!r} to {dst!r}; expected a destination of "
               f"[{depth}, {parts * columns}], with at most 128 partitions")
    if src.dtype != dst.dtype or src.dtype.itemsize not in (2, 4) or skip:
        refuse("dma_transpose by index keeps a type of 2 or 4 bytes, and skips no rows")
    recorder.notes.append("dma_transpose by index is composed of a gather and products: its time is theirs")
    last = None
    for column in range(columns):
        rows = recorder.tensor((parts, depth), src.dtype, "sbuf", "gathered rows")
        one = NkiTensor(src.storage, (parts, depth), (0, 1), src.offset, src.dtype,
                        ("vector", index[:, column:column + 1], step))
        dma_copy(rows, one, priority=priority)
        turned = recorder.tensor((depth, parts), src.dtype, "psum", "turned rows")
        nc_transpose(turned, rows)
        last = tensor_copy(dst[:, column * parts:(column + 1) * parts], turned)
    return last


def _same(a, b):
    """Whether both name the same elements in the same order."""
    if not isinstance(a, NkiTensor) or not isinstance(b, NkiTensor):
        return a is b
    if (a.dynamic is None) != (b.dynamic is None):
        return False
    if a.dynamic is not None and (a.dynamic[::2] != b.dynamic[::2] or not _same(a.dynamic[1], b.dynamic[1])):
        return False
    return (a.storage is b.storage and a.offset == b.offset and a.shape == b.shape
            and a.strides == b.strides and a.dtype == b.dtype)


def dma_compute(dst, srcs, reduce_op, scales=None, unique_indices=True, oob_mode=oob_mode.error,
                name=None):
    """dst = the sum of up to 16 sources of one shape, each times its scale; or their maximum or minimum."""
    skip = getattr(oob_mode, "name", str(oob_mode)) == "skip"
    scales = None if scales is None or all(s == 1 for s in scales) else [number(s, "a scale") for s in scales]
    if scales is not None and (len(scales) != len(srcs) or alu(reduce_op) != "add"):
        refuse(f"dma_compute with {len(scales)} scales for {len(srcs)} sources and {alu(reduce_op)}; expected "
               "add, and a scale for each source")
    moved = [s for s in srcs if _indexed(s)]
    if _indexed(dst) or moved:
        others = [s for s in srcs if not _indexed(s)]
        kept = moved if _indexed(dst) else others  # The source that the sum takes the place of
        if scales is not None:
            refuse("dma_compute by index has no scales other than 1")
        if alu(reduce_op) != "add" or len(moved) != 1 or len(others) != 1 or not _same(kept[0], dst):
            refuse("dma_compute by index adds rows to what they meet: two sources, one of them the "
                   "destination")
        if _indexed(dst):
            return _by_index(dst, others[0], "dma_scatter", skip, True)
        return _by_index(moved[0], dst, "dma_gather", skip, True)
    if any(math.prod(s.shape) != dst.size for s in srcs):
        refuse("the sources of dma_compute have as many elements as the destination")
    return record("dma_compute", dst=to(dst), srcs=[source(s, "a source") for s in srcs],
                  alu=alu(reduce_op), scales=scales)
