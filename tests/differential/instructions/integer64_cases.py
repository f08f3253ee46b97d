# SPDX-License-Identifier: Apache-2.0
"""Random cases of 64-bit integers on GpSimd, from generation 3 on.

The model is Python's own integers, without a width, of which the lower 64 bits are kept. What they do on the chip is
published nowhere beyond that it has them: `include/hw/isa.h` says what is ours.
"""
import numpy as np

import model
from formats import FORMATS, INTEGERS
from pool_cases import affine_pattern

TYPES = ("i64", "u64")
BITS = ("and", "or", "xor", "shl", "shr_logical", "shr_arith")
ARITHMETIC = ("add", "sub", "mul", "max", "min", "abs_max", "abs_min", *model.COMPARISONS)


def _numbers(c, shape):
    """Codes: ends of both ranges, numbers around zero, and of every length."""
    r = c.numbers
    edges = np.array([0, 1, 2, (1 << 64) - 1, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 32) - 1, 1 << 32, 1 << 31],
                     np.uint64)
    words = r.randint(0, 1 << 32, (*shape, 2), dtype=np.int64).astype(np.uint64)
    wide = (words[..., 0] << np.uint64(32) | words[..., 1]) >> r.randint(0, 64, shape).astype(np.uint64)
    near = r.randint(-100, 101, shape).astype(np.int64).view(np.uint64)
    pick = r.randint(0, 3, shape)
    return np.where(pick == 0, wide, np.where(pick == 1, near, r.choice(edges, shape)))


def _source(c, parts, sizes, dtype, **more):
    tile = c.tile(parts, sizes, dtype, **more)
    c.fill(tile, _numbers(c, (parts, tile.count)))
    return tile


def _exact(c, tile):
    """The numbers of a tile, as Python's integers."""
    return c.raw(tile).view(FORMATS[tile.dtype].number).astype(object)


def _kept(values):
    """The lower 64 bits of integers, as codes."""
    return np.asarray(np.asarray(values, object) & ((1 << 64) - 1), object).astype(np.uint64)


def _combined(op, dtype, a, b):
    """Exact numbers; bit operations work on what 64 bits hold of them."""
    if op not in BITS:
        return model.ALU[op](a, b) * 1
    a, b = a & ((1 << 64) - 1), b & ((1 << 64) - 1)
    if op in ("and", "or", "xor"):
        return {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op](a, b)
    if op == "shr_arith":
        a = np.where(a >> 63 == 1, a - (1 << 64), a)
    return a << b if op == "shl" else a >> b


def _counts(c, tile):
    """Shift counts below the width, which are what public documents know."""
    c.fill(tile, c.numbers.randint(0, 64, (tile.parts, tile.count)))


def tensor_tensor_int64(c):
    parts, n, dtype = c.parts(), c.count(), c.one(*TYPES)
    op = c.choose.choice(ARITHMETIC + BITS)
    bits = op in BITS
    types = [c.one(*TYPES) if bits else dtype for _ in range(3)]
    a, b = (_source(c, parts, n, t) for t in types[:2])
    if op.startswith("sh"):
        _counts(c, b)
    dst = a if c.chance(0.1) and types[0] == types[2] and all(step for _, step in a.dims) else \
        c.output(parts, n, types[2])
    c.run("Pool", f"tensor_tensor {dst} = {a}, {b}, op={op}")
    c.expect_codes(dst, _kept(_combined(op, dtype, _exact(c, a), _exact(c, b))))


def _scalar(c, parts, shift=False, immediates=("i32", "u32", "i16", "u8"), tiles=TYPES + tuple(INTEGERS)):
    """An integer for each partition, as text and as exact numbers: an immediate of 32 bits, or a tile."""
    if c.chance(0.5):
        dtype = c.choose.choice(immediates)
        f = FORMATS[dtype]
        code = f.codes_of(np.array([[c.choose.randint(0, 63 if shift else (1 << 8 * f.size) - 1)]]))
        return f"0x{int(code[0, 0]):X} {dtype}", f.integers(code).astype(object)
    dtype = c.choose.choice(tiles)
    tile = _source(c, parts, [1], dtype) if dtype in TYPES else c.source(parts, [1], dtype)
    if shift:
        _counts(c, tile)
    return tile.pointer(), _exact(c, tile)


def tensor_scalar_int64(c):
    parts, n, dtype = c.parts(), c.count(), c.one(*TYPES)
    bits = c.chance(0.4)
    a = _source(c, parts, n, dtype)
    dst = c.output(parts, n, dtype)
    keys, value = [], _exact(c, a)
    for i in range(c.one(1, 2)):
        op = c.choose.choice(BITS if bits else ARITHMETIC)
        shift = op.startswith("sh")
        text, number = _scalar(c, parts, shift)
        reverse = not shift and c.chance(0.4)
        keys += [f"op{i}={op}", f"s{i}={text}"] + ([f"rev{i}"] if reverse else [])
        if not bits:
            # A scalar of another type counts by the 64 bits that it is extended to.
            number = _kept(number).view(FORMATS[dtype].number).astype(object)
        number = np.broadcast_to(number, value.shape)
        value = _combined(op, dtype, number, value) if reverse else _combined(op, dtype, value, number)
        value = _kept(value).view(FORMATS[dtype].number).astype(object)
    c.run("Pool", f"tensor_scalar {dst} = {a}, {', '.join(keys)}")
    c.expect_codes(dst, _kept(value))


def tensor_reduce_int64(c):
    parts, dtype = c.parts(), c.one(*TYPES)
    kept, n = c.choose.randint(1, 6), c.choose.randint(1, 30)
    op = c.one("add", "sub", "mul", "max", "min", "and", "or", "xor")
    negate = op not in BITS and c.chance(0.2)
    a = _source(c, parts, [kept, n], dtype)
    dst = c.output(parts, [kept], dtype)
    c.run("Pool", f"tensor_reduce {dst} = {a}, reduce={op}, axes=1{', negate' if negate else ''}")
    x = _exact(c, a).reshape(parts, kept, n)
    total = x[..., 0]
    for e in range(1, n):
        total = _combined(op, dtype, total, x[..., e])
    c.expect_codes(dst, _kept(-total if negate else total))


def tensor_copy_int64(c):
    parts, n, dtype = c.parts(), c.count(), c.one(*TYPES)
    other = c.one(*TYPES, *INTEGERS) if c.chance(0.6) else c.float_type()
    into = c.chance(0.5)
    types = (other, dtype) if into else (dtype, other)
    a = _source(c, parts, n, types[0]) if types[0] in TYPES else c.source(parts, n, types[0])
    dst = c.output(parts, n, types[1])
    c.run("Pool", f"tensor_copy {dst} = {a}")
    f, to = FORMATS[types[0]], FORMATS[types[1]]
    if to.floating:  # Of NumPy: one rounding to fp32
        return c.expect(dst, c.raw(a).view(f.number).astype(np.float32))
    if f.floating:
        rounded = np.nan_to_num(np.rint(c.floats(a).astype(np.float64)), nan=0.0, posinf=2.0 ** 80, neginf=-2.0 ** 80)
        exact = np.frompyfunc(int, 1, 1)(rounded)
    else:
        exact = _exact(c, a)
    clamped = np.minimum(np.maximum(exact, to.lowest), to.highest)
    c.expect_codes(dst, (_kept(clamped) & np.uint64((1 << 8 * to.size) - 1)).astype(to.code))


def memset_int64(c):
    dst = c.output(c.parts(), c.count(), c.one(*TYPES))
    value = c.one(0, 1, 0xFFFFFFFF, 0x80000000, c.choose.randint(0, (1 << 32) - 1))
    c.run("Pool", f"memset {dst}, value=0x{value:X}")
    negative = dst.dtype == "i64" and value >> 31
    c.expect_codes(dst, _kept([[value - (1 << 32) if negative else value]]))


def iota_int64(c):
    parts, n, dtype = c.parts(), c.count(), c.one(*TYPES)
    text, pattern = affine_pattern(c, n, 1 << 31)
    channel = c.choose.randint(-(1 << 31), (1 << 31) - 1)
    offset, numbers = _scalar(c, parts, immediates=("i32", "u32"), tiles=("i32", "u32", *TYPES))
    dst = c.output(parts, n, dtype)
    c.run("Pool", f"iota {dst}, {text}, offset={offset}, channel={channel}")
    value = np.zeros((1,), object)
    for size, step in pattern:
        value = (value[:, None] + step * np.arange(size).astype(object)[None, :]).reshape(-1)
    c.expect_codes(dst, _kept(numbers + channel * np.arange(parts).astype(object)[:, None] + value[None, :]))


def affine_select_int64(c):
    parts, n, dtype = c.parts(), c.count(), c.one(*TYPES)
    text, pattern = affine_pattern(c, n, 9)
    channel, offset = c.choose.randint(-3, 3), c.choose.randint(-30, 30)
    op = c.choose.choice(model.COMPARISONS)
    a = _source(c, parts, n, dtype)
    dst = c.output(parts, n, dtype)
    other, number = _scalar(c, parts)
    c.run("Pool", f"affine_select {dst} = {a}, {text}, op={op}, s0={other}, offset=0x{offset & 0xFFFFFFFF:X} i32, "
                  f"channel={channel}")
    chosen = model.ALU[op](model.affine(parts, pattern, offset, channel), 0)
    c.expect_codes(dst, np.where(chosen, c.raw(a), _kept(number)))


def partition_reduce_int64(c):
    parts, n, dtype = c.parts(), c.count(), c.one(*TYPES)
    op = c.one("add", "max", "and", "or")
    a = _source(c, parts, n, dtype)
    dst = c.output(1, n, dtype)
    c.run("Pool", f"partition_reduce {dst} = {a}, op={op}")
    x = _exact(c, a)
    total = x[0]
    for p in range(1, parts):
        total = _combined(op, dtype, total, x[p])
    c.expect_codes(dst, _kept(total)[None, :])


def gathers_int64(c):
    dtype = c.one(*TYPES)
    if c.chance(0.5):
        parts, n = c.parts(), c.count()
        a = _source(c, parts, c.count(), dtype)
        index = c.tile(parts, n, "u32", c.numbers.randint(0, a.count, (parts, n)))
        dst = c.output(parts, n, dtype)
        c.run("Pool", f"n_gather {dst} = {a}, {index}")
        return c.expect_codes(dst, np.take_along_axis(c.raw(a), c.raw(index).astype(np.int64), axis=1))
    parts, elements, rows = 16 * c.one(1, 2, 4), c.one(1, 2, 4), c.choose.randint(1, 12)
    count = c.choose.randint(1, 16)
    a = _source(c, parts, rows * elements, dtype)
    index = c.tile(parts, [1], "u16", c.numbers.randint(0, rows, (parts, 1)) * elements)
    dst = c.output(parts, count * elements, dtype)
    c.run("Pool", f"local_gather {dst} = {a}, {index}, elements={elements}, count={count}")
    c.expect_codes(dst, model.gathered_locally(c.raw(a), c.raw(index), elements, count))


CASES = {2: [], 3: [tensor_tensor_int64, tensor_scalar_int64, tensor_reduce_int64, tensor_copy_int64, memset_int64,
                    iota_int64, affine_select_int64, partition_reduce_int64, gathers_int64], 4: []}
