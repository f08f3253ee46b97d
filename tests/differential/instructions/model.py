# SPDX-License-Identifier: Apache-2.0
"""What instructions compute, in NumPy: written from public sources alone, not from the emulator's code.

Sources: the public reference of NKI's instructions and its release notes ("engines convert to fp32, compute in
fp32, convert on write"), the page on data types, IEEE 754, OCP's MX specification, Marsaglia's XORWOW; for
encodings and what has no public form, `include/hw/isa.h`. Arrays are [partitions, elements]; floats are float32,
and NumPy's float32 arithmetic is IEEE's, rounded to nearest even.
"""
import numpy as np

UNIT = 2.0 ** -24  # Half a unit in the last place of fp32
LOWEST = np.float32(-3.4028235e38)  # What range_select writes where it does not select


def f32(values):
    return np.asarray(values, np.float32)


def _truth(x):
    return x != 0


def _greatest(a, b):
    return np.maximum(a, b)


def _least(a, b):
    return np.minimum(a, b)


# Operations of two numbers. NaN goes through maximum and minimum as through NumPy's; mod has the sign of the divisor, as
# nki.language.mod says, which is NumPy's.
ALU = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "mod": np.mod,
    "average": lambda a, b: (a + b) / 2,
    "max": _greatest,
    "min": _least,
    "abs_max": lambda a, b: _greatest(np.abs(a), np.abs(b)),
    "abs_min": lambda a, b: _least(np.abs(a), np.abs(b)),
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "logical_and": lambda a, b: _truth(a) & _truth(b),
    "logical_or": lambda a, b: _truth(a) | _truth(b),
    "logical_xor": lambda a, b: _truth(a) ^ _truth(b),
}
COMPARISONS = ("eq", "ne", "gt", "ge", "lt", "le")
UNARY = {
    "abs": np.abs,
    "square": lambda x: x * x,
    "relu": lambda x: np.where(x > 0, x, f32(0)),
}
IDENTITY = {"add": 0.0, "mul": 1.0, "max": -np.inf, "min": np.inf}


def alu(op, a, b, reverse=False):
    with np.errstate(all="ignore"):
        a, b = f32(a), f32(b)
        return f32(ALU[op](b, a) if reverse else ALU[op](a, b))


def unary(op, x):
    with np.errstate(all="ignore"):
        return f32(UNARY[op](f32(x)))


def shifted_right(codes, count, arithmetic, width):
    """Codes of `width` bits, shifted by less than that."""
    wide = codes.astype(np.int64)
    if arithmetic:
        wide = np.where(wide >> (width - 1) & 1, wide - (1 << width), wide)
    return wide >> count


def bits(op, a, b, width):
    """An operation on codes, whatever they mean."""
    a, b = np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64)
    result = {
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "not": lambda: ~a,
        "shl": lambda: a << b,
        "shr_logical": lambda: shifted_right(a, b, False, width),
        "shr_arith": lambda: shifted_right(a, b, True, width),
    }[op]()
    return result & ((1 << width) - 1)


def sum_bound(terms, axis=-1):
    """How far a sum of fp32 numbers or products may be from the exact one, in whatever order they are added:
    n units times the sum of magnitudes (Higham, Accuracy and Stability of Numerical Algorithms, 4.2)."""
    terms = np.abs(np.asarray(terms, np.float64))
    return 1.01 * (terms.shape[axis] + 1) * UNIT * terms.sum(axis=axis)


def reduced(op, x, axis=-1):
    """The exact reduction in float64, and how far fp32 may be from it."""
    x = np.moveaxis(np.asarray(x, np.float64), axis, -1)
    with np.errstate(all="ignore"):
        if op == "add":
            return x.sum(axis=-1), sum_bound(x)
        if op == "sub":
            return x[..., 0] - x[..., 1:].sum(axis=-1), sum_bound(x)
        if op == "mul":
            product = x.prod(axis=-1)
            return product, 1.01 * x.shape[-1] * UNIT * np.abs(product)
        if op in ("max", "min"):
            return (np.max if op == "max" else np.min)(x, axis=-1), 0.0
        truth = x != 0
        return {"logical_and": truth.all(axis=-1), "logical_or": truth.any(axis=-1),
                "logical_xor": truth.sum(axis=-1) % 2}[op].astype(np.float64), 0.0


def scanned(op0, op1, a, b, initial):
    """s = op1(op0(a[i], s), b[i]), strictly in sequence; the state is fp32."""
    state = np.broadcast_to(f32(initial), (a.shape[0], 1))[:, 0]
    out = np.empty_like(a)
    for i in range(a.shape[1]):
        state = alu(op1, alu(op0, a[:, i], state), b[:, i])
        out[:, i] = state
    return out


def cumulated(op1, x, initial):
    """reg = op1(x[i], reg)."""
    state = np.broadcast_to(f32(initial), (x.shape[0], 1))[:, 0]
    out = np.empty_like(x)
    for i in range(x.shape[1]):
        state = alu(op1, x[:, i], state)
        out[:, i] = state
    return out


def statistics(x):
    """bn_stats: count, mean, variance times count of the even elements, then of the odd ones; and their bounds.
    The bound of the squares holds for one pass and for two."""
    values, bounds = [], []
    for part in (x[:, 0::2], x[:, 1::2]):
        part = np.asarray(part, np.float64)
        n = part.shape[1]
        mean = part.mean(axis=1)
        squares = ((part - mean[:, None]) ** 2).sum(axis=1)
        values += [np.full(len(x), float(n)), mean, squares]
        bounds += [np.zeros(len(x)), (n + 2) * UNIT * np.abs(part).mean(axis=1),
                   2 * (n + 6) * UNIT * (part ** 2).sum(axis=1)]
    return np.stack(values, axis=1), np.stack(bounds, axis=1)


def aggregated(triples):
    """bn_aggr: mean and variance of all from triples of count, mean, variance times count."""
    t = np.asarray(triples, np.float64).reshape(len(triples), -1, 3)
    count, mean, squares = t[..., 0], t[..., 1], t[..., 2]
    total = count.sum(axis=1)
    whole = (count * mean).sum(axis=1) / total
    spread = squares + count * (mean - whole[:, None]) ** 2
    n = t.shape[1]
    size = (count * np.abs(mean)).sum(axis=1) / total
    bounds = [(2 * n + 6) * UNIT * size,
              (2 * n + 12) * UNIT * ((squares + count * mean ** 2).sum(axis=1) / total) * 4]
    return np.stack([whole, spread.sum(axis=1) / total], axis=1), np.stack(bounds, axis=1)


def eight_largest(x):
    return -np.sort(-x, axis=1)[:, :8]


def first_indices(x, values, order):
    """For each of 8 values where it stands first; equal values take later places, in the order given. -1: nowhere."""
    found = np.full((len(x), 8), -1)
    for p in range(len(x)):
        taken = set()
        for i in order:
            places = [int(k) for k in np.flatnonzero(x[p] == values[p, i]) if int(k) not in taken]
            if places:
                found[p, i] = places[0]
                taken.add(places[0])
    return found


def blocks_transposed(codes):
    """32 x 32 blocks, each in its place."""
    parts, n = codes.shape
    blocks = codes.reshape(parts // 32, 32, n // 32, 32)
    return blocks.transpose(0, 3, 2, 1).reshape(parts, n)


def affine(parts, pattern, offset, channel):
    """offset + partition * channel + the pattern's sum of step * index, 32 bits, wrapped; innermost index last."""
    value = np.zeros((1,), np.int64)
    for size, step in pattern:
        value = (value[:, None] + step * np.arange(size)[None, :]).reshape(-1)
    value = offset + channel * np.arange(parts)[:, None] + value[None, :]
    return value.astype(np.int32)


def nonzero(x, offset, padding):
    """Places of what is not 0, then padding; last how many."""
    out = np.full(len(x) + 1, padding, np.int64)
    places = np.flatnonzero(x != 0)
    out[:len(places)] = places + offset
    out[-1] = len(places)
    return out


def gathered_locally(codes, index, elements, count):
    """For each 16 partitions: index i is at partition i % 16, column i / 16, and counts elements."""
    parts = []
    for group in range(0, len(codes), 16):
        places = index[group:group + 16].T.reshape(-1)[:count].astype(np.int64)
        places = (places[:, None] + np.arange(elements)[None, :]).reshape(-1)
        parts.append(codes[group:group + 16][:, places])
    return np.concatenate(parts)


def segment_bounds(ids):
    """Start and end (not in it) of the run that each element is in; 0 is padding: n and -1."""
    n = len(ids)
    start, end = np.full(n, n), np.full(n, -1)
    first = 0
    for i in range(n):
        if ids[i] != ids[first]:
            first = i
        if ids[i] == 0:
            continue
        stop = i
        while stop < n and ids[stop] == ids[i]:
            stop += 1
        start[i], end[i] = first, stop
    return start, end


def product(stationary, moving):
    """The sum over partitions of stationary[k, m] * moving[k, n], and the magnitudes that it has."""
    s, m = np.asarray(stationary, np.float64), np.asarray(moving, np.float64)
    return s.T @ m, np.abs(s).T @ np.abs(m)


def block_scales(x, largest_exponent):
    """Scale bytes of blocks of 8 partitions x 4 elements: 2^(floor(log2 of the largest) - (Emax - 1))."""
    parts, n = x.shape
    blocks = np.abs(x).reshape(parts // 8, 8, n // 4, 4).max(axis=(1, 3)).astype(np.float64)
    exponent = np.frexp(blocks)[1] - 1
    scale = np.where(blocks > 0, exponent - (largest_exponent - 1) + 127, 0)
    return np.clip(scale, 0, 254).astype(np.int64)


def scale_rows(parts, quarter):
    """The row of the scale tile for each 8 data partitions."""
    first = np.arange(0, parts, 8)
    return 32 * (first // 32) + (first % 32) // 8 + 4 * quarter


def xorwow(states, count):
    """Words of Marsaglia's generator for states [lanes, 6] = x, y, z, w, v, d, and the states that are left."""
    x, y, z, w, v, d = (states[:, i].astype(np.uint32) for i in range(6))
    words = np.empty((len(states), count), np.uint32)
    for i in range(count):
        t = x ^ (x >> np.uint32(2))
        x, y, z, w = y, z, w, v
        v = (v ^ (v << np.uint32(4))) ^ (t ^ (t << np.uint32(1)))
        d = d + np.uint32(362437)
        words[:, i] = d + v
    return words, np.stack([x, y, z, w, v, d], axis=1)
