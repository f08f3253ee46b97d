# SPDX-License-Identifier: Apache-2.0
"""Random cases of transfers between places in SBUF: DMA copies, casts, sums, minima, maxima, transposes."""
import numpy as np

import model
from formats import FLOATS, FORMATS, INTEGERS

ROW = 262144  # Bytes from one partition to the next in the address map


def _side(tile):
    """A tile as a side of a transfer: the address of its first element, sizes and steps in bytes."""
    size = FORMATS[tile.dtype].size
    dims = [f"{tile.parts}:{ROW}"]
    dims += [f"{n}:{step * size}" for n, step in tile.dims]
    return f"sbuf + {tile.start * ROW} + {tile.place()} {tile.dtype} [{', '.join(dims)}, {size}]"


def _tile(c, make, parts, n, dtype, *more):
    # Up to two free dimensions: a side has four, of which one are the partitions and one the bytes.
    while True:
        tile = make(parts, c.one([n], [n // 2, 2] if n % 2 == 0 else [n]), dtype, *more)
        if all(step > 0 or n == 1 for n, step in tile.dims):
            return tile


def dma_copy(c):
    parts, n, dtype = c.parts(), c.count(), c.any_type()
    a = _tile(c, c.source, parts, n, dtype)
    dst = _tile(c, c.output, parts, n, dtype)
    c.run("DMA", f"{_side(a)} -> {_side(dst)}")
    c.expect_codes(dst, c.raw(a))


def dma_cast(c):
    parts, n = c.parts(), c.count()
    # f8e4fn is not among the types that the reference lists for descriptors.
    a, dst = (_tile(c, make, parts, n, c.one(*FLOATS, *FLOATS, *INTEGERS)) for make in (c.source, c.output))
    if {a.dtype, dst.dtype} <= {"i32", "u32"}:
        c.fill(a, c.numbers.randint(0, 1 << 24, (parts, n)))
    c.run("DMA", f"{_side(a)} -> {_side(dst)}, op=cast")
    if a.dtype == dst.dtype:
        return c.expect_codes(dst, c.raw(a))
    c.expect(dst, c.floats(a))


def dma_compute(c):
    parts, n, op = c.parts(), c.count(), c.one("add", "min", "max", "fma")
    kind = "number" if op in ("min", "max") else "whole"  # Whole numbers have one sum in any order
    dtype = c.choose.choice(FLOATS)
    sources = [_tile(c, c.source, parts, n, dtype, kind) for _ in range(c.one(2, 2, 3, 4))]
    dst = _tile(c, c.output, parts, n, c.one("f32", "bf16", dtype))
    scales = [c.one(0.5, 1, 2, -4) if op == "fma" else 1 for _ in sources]
    sides = [_side(t) + (f" * {s}" if op == "fma" else "") for t, s in zip(sources, scales)]
    # The reference lists a constant of min and max: it is one more number.
    constant = np.float32(c.one(0.5, -1.5, 3.0, 1e38 if op == "min" else -1e38))
    key = "" if kind == "whole" else f", constant={constant}"
    c.run("DMA", f"{', '.join(sides)} -> {_side(dst)}, op={op}{key}")
    values = [c.floats(t) * np.float32(s) for t, s in zip(sources, scales)]
    total = values[0]
    for value in values[1:]:
        total = model.alu("add" if op == "fma" else op, total, value)
    if kind == "number":
        total = model.alu(op, total, constant)
    c.expect(dst, total, zero_sign=False)


def dma_transpose(c):
    rows, columns = c.choose.randint(1, 128), c.choose.randint(1, 128)
    dtype = c.one("bf16", "f32", "i16", "u32")
    size = FORMATS[dtype].size
    a = c.source(rows, [columns], dtype, dense=True)
    dst = c.output(columns, [rows], dtype, dense=True)
    sides = [f"sbuf + {t.start * ROW} + {t.place()} [{t.parts}:{ROW}, {t.count * size}]" for t in (a, dst)]
    c.run("DMA", f"{sides[0]} -> {sides[1]}, op=transpose, shape=[1, {rows}, {columns}, 1], element={size}")
    c.expect_codes(dst, c.raw(a).T)


CASES = {2: [dma_copy, dma_cast, dma_compute, dma_transpose], 3: [], 4: []}
