# SPDX-License-Identifier: Apache-2.0
"""Random cases of the Tensor engine. Sums over K may be made in any order, so either they are of small integers,
which are exact in every order, or they have the bound of such a sum."""
import numpy as np

import model
from formats import E2M1, FORMATS

WHY = "the bound of a sum of products in any order"


def _types(c):
    names = ["bf16", "f16", "f8e4", "f8e5", "f8e3"]
    if c.chance(0.3):
        return c.one("f32", "tf32"), c.one("f32", "tf32")
    pair = c.choose.choice(names), c.choose.choice(names)
    if c.generation >= 4 and c.chance(0.3):  # f8e4fn never meets the older f8e4
        pair = "f8e4fn", c.one("f8e4fn", "bf16", "f8e5")
    return pair


def _kind(whole):
    return "whole" if whole else "tame"


def _normal(c, tile):
    """Without subnormals, whose meaning to this engine is nowhere said."""
    x = c.floats(tile)
    c.fill(tile, np.where(np.abs(x) < 2.0 ** -6, 0, c.raw(tile)))


def _place(c, k, m):
    """Rows and columns of the array for a matrix, and where they begin."""
    small = [32] if c.generation >= 3 else []
    rows = c.choose.choice([r for r in small + [64, 128] if r >= k])
    columns = c.choose.choice([s for s in small + [64, 128] if s >= m])
    row, column = c.choose.randrange(0, 128, rows), c.choose.randrange(0, 128, columns)
    text = f", at={row}x{column}, tile={rows}x{columns}"
    return (text if (rows, columns) != (128, 128) else ""), row, column


def _check(c, dst, value, size, terms, whole, accumulated=1):
    if whole and dst.dtype == "f32":
        return c.expect(dst, value, zero_sign=False)
    bound = 1.01 * (terms + 2) * model.UNIT * size
    if dst.dtype == "bf16":  # Each instruction but the last has rounded its sum
        bound = bound + (accumulated - 1) * 2.0 ** -8 * size
    c.expect_near(dst, value, bound, WHY)


def matmul(c):
    k, m, n = c.choose.randint(1, 128), c.choose.randint(1, 128), c.choose.randint(1, 128)
    if c.chance(0.5):
        k, m = c.one(32, 64, 17), c.one(32, 64, 5)
    place, row, column = _place(c, k, m)
    whole = c.chance(0.5)
    rounds = c.one(1, 1, 2, 3)
    dst = c.output(m, n, "bf16" if c.generation >= 4 and c.chance(0.3) else "f32", space="psum", start=column)
    value = size = 0
    for i in range(rounds):
        types = _types(c)
        stationary = c.source(k, m, types[0], _kind(whole), start=row)
        moving = c.source(k, n, types[1], _kind(whole), start=row)
        _normal(c, stationary)
        _normal(c, moving)
        c.run("PE", f"ldweights {stationary}{place}")
        c.run("PE", f"matmul {dst} = {moving}, {'acc' if i else 'new'}, swap{place}")
        v, s = model.product(c.floats(stationary), c.floats(moving))
        value, size = value + v, size + s
    _check(c, dst, value, size, k * rounds, whole, rounds)


def double_row(c):
    """Two rows of f8 at a time, from generation 3 on."""
    k, m, n = c.parts(), c.choose.randint(1, 128), c.choose.randint(1, 96)
    whole = c.chance(0.5)
    names = c.one(("f8e4", "f8e5"), ("f8e5", "f8e4"), ("f8e4", "f8e4"))
    stationary = c.source(k, [2, m], names[0], _kind(whole))
    moving = c.source(k, [2, n], names[1], _kind(whole))
    dst = c.output(m, n, "f32", space="psum")
    c.run("PE", f"ldweights {stationary}, mode=1")
    c.run("PE", f"matmul {dst} = {moving}, new, swap, mode=1")
    s, v = c.floats(stationary).reshape(k, 2, m), c.floats(moving).reshape(k, 2, n)
    value, size = model.product(np.concatenate([s[:, 0], s[:, 1]]), np.concatenate([v[:, 0], v[:, 1]]))
    _check(c, dst, value, size, 2 * k, whole)


def transpose(c):
    parts, n = c.choose.randint(1, 128), c.choose.randint(1, 128)
    # Before generation 3 it is a product with an identity: NaN, infinity and the sign of zero do not survive.
    kinds = ["f32", "bf16", "f16"] + (["i32", "u16", "f8e4", "f8e5"] if c.generation >= 3 else [])
    dtype = c.choose.choice(kinds)
    a = c.source(parts, n, dtype, "wild" if c.generation >= 3 else "tame")
    f8 = dtype.startswith("f8")
    dst = c.output(n, parts, "u16" if f8 else dtype, space="psum")
    c.run("PE", f"transpose {dst} = {a}")
    c.expect_codes(dst, c.raw(a).T, zero_sign=c.generation >= 3)


def matmul_sparse(c):
    """S of D by the positions that `include/hw/isa.h` defines, from generation 3 on."""
    mode = c.choose.randrange(7)
    rows, slots = [(4, 4), (4, 3), (4, 2), (2, 4), (2, 2), (1, 4), (1, 2)][mode]
    k = c.parts(rows)
    m, n = 4 * c.choose.randint(1, 32), c.choose.randint(1, 64)
    whole = c.chance(0.5)
    types = c.one(("bf16", "f16"), ("f16", "bf16"), ("f8e4", "f8e5"), ("tf32", "tf32"))
    stationary = c.source(k, m, types[0], _kind(whole))
    moving = c.source(k, [slots, n], types[1], _kind(whole))
    for tile in (stationary, moving):
        _normal(c, tile)
    positions = np.stack([np.stack([c.numbers.permutation(rows * slots)[:rows] for _ in range(m)], axis=1)
                          for _ in range(k // rows)]).reshape(k, m)
    words = (positions.reshape(k, m // 4, 4) << (4 * np.arange(4))).sum(axis=2)
    tags = c.tile(k, [m // 4], "u16", words, written=True)
    dst = c.output(m, n, "f32", space="psum")
    c.run("PE", f"ldweights_sparse {stationary}, {tags}, mode={mode}")
    c.run("PE", f"matmul_sparse {dst} = {moving}, new, swap, mode={mode}")
    weights, v = c.floats(stationary), c.floats(moving).reshape(k, slots, n)
    dense_s, dense_m = np.zeros((k * slots, m)), np.zeros((k * slots, n))
    for p in range(k):
        first = p // rows * rows  # Partition of the group's first row
        for d in range(slots):
            dense_m[p * slots + d] = v[p, d]
        at = (first * slots) + positions[p]
        dense_s[at, np.arange(m)] = weights[p]
    value, size = model.product(dense_s, dense_m)
    _check(c, dst, value, size, k * slots, whole)


MX = {"f8e5x4": ("f8e5", 1), "f8e4fnx4": ("f8e4fn", 1), "f4x4": (None, 2)}


def _mx(c, parts, n, quarter, whole):
    """A matrix of codes with block scales: operands as text, and the numbers of 4 rows a partition."""
    kind = c.choose.choice(list(MX))
    name, packed = MX[kind]
    if name:
        codes = c.codes(name, (parts, 4 * n), _kind(whole))
        values = FORMATS[name].widen(codes)
        tile = c.tile(parts, [4 * n], name, codes, dense=True)
    else:
        codes = c.numbers.randint(0, 16, (parts, 4 * n))
        values = E2M1[codes]
        # The first of two codes in the low bits of a byte.
        tile = c.tile(parts, [2 * n], "u8", codes[:, 0::2] | codes[:, 1::2] << 4, dense=True)
    rows = parts if parts > 32 else parts // 8
    scales = c.output(rows, [n], "u8", start=0)
    bytes_of = c.numbers.randint(125, 130, (parts // 8, n)) if not whole else \
        c.numbers.randint(127, 130, (parts // 8, n))
    for row, line in zip(c.tile_of_rows(scales, model.scale_rows(parts, quarter)), bytes_of):
        c.fill(row, line[None, :])
    factor = np.exp2(bytes_of.astype(np.float64) - 127).repeat(8, axis=0)
    values = values.astype(np.float64).reshape(parts, n, 4) * factor[:, :, None]
    text = f"sbuf[{tile.start}:{parts}, {tile.place()}] {kind} [{n}], {scales}"
    return text, values.transpose(0, 2, 1).reshape(4 * parts, n)


def matmul_mx(c):
    """Codes of 8 and 4 bits with a scale for 8 partitions x 4, generation 4."""
    k, m, n = c.one(32, 64, 96, 128), 2 * c.choose.randint(1, 64), c.choose.randint(1, 64)
    whole, quarters = c.chance(0.5), (c.choose.randrange(4), c.choose.randrange(4))
    stationary, s = _mx(c, k, m, quarters[0], whole)
    moving, v = _mx(c, k, n, quarters[1], whole)
    dst = c.output(m, n, "f32", space="psum")
    c.run("PE", f"ldweights_mx {stationary}, quarter={quarters[0]}")
    c.run("PE", f"matmul_mx {dst} = {moving}, new, swap, quarter={quarters[1]}")
    value, size = model.product(s, v)
    _check(c, dst, value, size, 4 * k, False)


CASES = {2: [matmul, matmul, transpose], 3: [double_row, matmul_sparse], 4: [matmul_mx]}
