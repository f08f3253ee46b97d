# SPDX-License-Identifier: Apache-2.0
"""Random cases of the instructions that GpSimd alone executes."""
import numpy as np

import model
from formats import FORMATS, INTEGERS


def affine_pattern(c, n, largest=9):
    """Sizes and steps that give n numbers, outermost first, as text and as a list."""
    sizes = c.shape_of(n)
    steps = [c.choose.randint(-largest, min(largest, (1 << 31) - 1)) for _ in sizes]
    pattern = list(zip(sizes, steps))
    # p0 is innermost.
    text = ", ".join(f"p{d}={size}:{step}" for d, (size, step) in enumerate(reversed(pattern)))
    return text, pattern


def iota(c):
    parts, n = c.parts(), c.count()
    text, pattern = affine_pattern(c, n)
    dtype = c.one("i32", "i32", "f32", "u32", "i16", "bf16", "u8")
    channel = c.choose.randint(-3, 3)
    offset = c.choose.randint(-50, 50)
    if dtype == "i32" and c.chance(0.5):
        offset, channel = c.choose.randint(-(1 << 31), (1 << 31) - 1), c.choose.randint(-(1 << 20), 1 << 20)
    value = model.affine(parts, pattern, offset, channel)
    f = FORMATS[dtype]
    if not f.floating and dtype != "i32" and (value.min() < f.lowest or value.max() > f.highest):
        # Only for int32 does the reference say what wraps.
        pattern = [(size, 0) for size, _ in pattern]
        text = ", ".join(f"p{d}={size}:0" for d, (size, _) in enumerate(reversed(pattern)))
        channel, offset = c.choose.randint(0, 1), c.choose.randint(0, 90)
        value = model.affine(parts, pattern, offset, channel)
    dst = c.output(parts, n, dtype)
    c.run("Pool", f"iota {dst}, {text}, offset=0x{offset & 0xFFFFFFFF:X} i32, channel={channel}")
    if f.floating:
        return c.expect(dst, value.astype(np.float32))
    c.expect_codes(dst, f.codes_of(value))


def affine_select(c):
    parts, n = c.parts(), c.count()
    text, pattern = affine_pattern(c, n)
    channel, offset = c.choose.randint(-3, 3), c.choose.randint(-30, 30)
    op = c.choose.choice(model.COMPARISONS)
    dtype = c.float_type()
    a = c.source(parts, n, dtype)
    dst = c.output(parts, n, dtype if c.chance(0.5) else c.float_type())
    other, number = c.scalar(parts, "number")
    c.run("Pool", f"affine_select {dst} = {a}, {text}, op={op}, s0={other}, offset=0x{offset & 0xFFFFFFFF:X} i32, "
                  f"channel={channel}")
    chosen = model.ALU[op](model.affine(parts, pattern, offset, channel), 0)
    c.expect(dst, np.where(chosen, c.floats(a), number))


def partition_reduce(c):
    parts, n = c.parts(), c.count()
    op = c.one("add", "average", "max", "and", "or")
    if op in ("and", "or"):
        a = c.source(parts, n, c.choose.choice(INTEGERS))
        dst = c.output(1, n, a.dtype)
        c.run("Pool", f"partition_reduce {dst} = {a}, op={op}")
        x = c.raw(a)
        return c.expect_codes(dst, (np.bitwise_and if op == "and" else np.bitwise_or).reduce(x, axis=0)[None, :])
    a = c.source(parts, n, c.float_type(), "number" if op == "max" else "tame")
    dst = c.output(1, n, c.one("f32", "bf16"))
    c.run("Pool", f"partition_reduce {dst} = {a}, op={op}")
    value, bound = model.reduced("max" if op == "max" else "add", c.floats(a), axis=0)
    if op == "max":
        return c.expect(dst, value[None, :], zero_sign=False)
    if op == "average":
        value, bound = value / parts, bound / parts + 2 * model.UNIT * np.abs(value / parts)
    c.expect_near(dst, value[None, :], bound[None, :], "the bound of a sum in any order")


def local_gather(c):
    groups = c.one(1, 2, 3, 4, 8)
    parts, elements = 16 * groups, c.one(1, 2, 4, 8)
    rows, columns = c.choose.randint(1, 12), c.choose.randint(1, 3)
    count = c.choose.randint(1, 16 * columns)
    dtype = c.any_type()
    a = c.source(parts, rows * elements, dtype)
    # Indices count elements: whole runs of `elements`.
    index = c.tile(parts, [columns], "u16", c.numbers.randint(0, rows, (parts, columns)) * elements)
    dst = c.output(parts, count * elements, dtype)
    c.run("Pool", f"local_gather {dst} = {a}, {index}, elements={elements}, count={count}")
    c.expect_codes(dst, model.gathered_locally(c.raw(a), c.raw(index), elements, count))


def n_gather(c):
    parts, n, dtype = c.parts(), c.count(), c.any_type()
    a = c.source(parts, c.count(), dtype)
    index = c.tile(parts, n, "u32", c.numbers.randint(0, a.count, (parts, n)))
    dst = c.output(parts, n, dtype)
    c.run("Pool", f"n_gather {dst} = {a}, {index}")
    c.expect_codes(dst, np.take_along_axis(c.raw(a), c.raw(index).astype(np.int64), axis=1))


def sequence_bounds(c):
    n = c.choose.randint(1, 60)
    ids, k = [], 1
    while len(ids) < n - c.one(0, 0, 3):
        ids += [k] * c.choose.randint(1, 9)
        k += 1
    ids = (ids + [0] * n)[:n]
    dtype = c.one("f32", "i32")
    f = FORMATS[dtype]
    a = c.tile(1, n, dtype, f.narrow(np.array([ids], np.float32)))
    dst = c.output(1, [2, n], c.one("f32", "i32"))
    c.run("Pool", f"sequence_bounds {dst} = {a}")
    start, end = model.segment_bounds(c.floats(a)[0])
    c.expect(dst, np.concatenate([start, end]).astype(np.float32)[None, :])


def nonzero_with_count(c):
    parts, n = c.parts(), c.count()
    dtype = c.one("f32", "i32")
    a = c.source(parts, n, dtype, "whole")
    c.fill(a, np.where(c.numbers.randint(0, 2, (parts, n)), c.raw(a), 0))
    dst = c.output(parts, n + 1, "i32")
    offset, padding = c.choose.randint(-9, 99), c.one(0, -1, 77)
    c.run("Pool", f"nonzero_with_count {dst} = {a}, offset=0x{offset & 0xFFFFFFFF:X} i32, padding={padding}")
    out = FORMATS["i32"].integers(c.raw(dst))
    for p in range(0, parts, 16):  # The other partitions stay
        out[p] = model.nonzero(c.floats(a)[p], offset, padding)
    c.expect_codes(dst, FORMATS["i32"].codes_of(out))


def topk(c):
    groups, columns = c.one(1, 2, 4), c.choose.randint(1, 20)
    parts, n = 16 * groups, 16 * columns - c.one(0, 0, 1, 5)
    count = 16 * c.choose.randint(1, columns) if n == 16 * columns else 16 * max(0, columns - 1)
    if count == 0:
        n, count = 16, 16
        columns = 1
    # All different: which of two equal ones is the larger one is nowhere said.
    values = np.stack([c.numbers.permutation(2 * 16 * columns)[:16 * columns] for _ in range(groups)])
    f = FORMATS["bf16"]
    codes = f.narrow((values % 128 + 128) * np.exp2(values // 128 * 9.0) * np.where(values % 2, 1, -1))
    a = c.tile(parts, [columns], "bf16", written=True)
    c.fill(a, codes.reshape(groups, columns, 16).transpose(0, 2, 1).reshape(parts, columns))
    dst = c.output(parts, [count // 16], "bf16")
    places = c.output(parts, [count // 16], c.one("u16", "u32"))
    c.run("Pool", f"topk {dst} = {a}, {places}, count={count}, n={n}")
    x = f.widen(c.raw(a)).reshape(groups, 16, columns).transpose(0, 2, 1).reshape(groups, -1)[:, :n]
    order = np.argsort(x, axis=1, kind="stable")[:, n - count:]

    def laid_out(rows):
        return rows.reshape(groups, -1, 16).transpose(0, 2, 1).reshape(parts, -1)

    c.expect(dst, laid_out(np.take_along_axis(x, order, axis=1)))
    c.expect_codes(places, laid_out(order))


CASES = {2: [iota, affine_select, partition_reduce, local_gather, n_gather, sequence_bounds, topk],
         3: [nonzero_with_count], 4: []}
