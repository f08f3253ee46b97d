# SPDX-License-Identifier: Apache-2.0
"""Random cases of the Scalar engine: dst = function(data * scale + bias), and sums of what it wrote."""
import math

import numpy as np

import model
from formats import FORMATS

# Functions that fp32 gives exactly.
EXACT = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "relu": lambda x: np.where(x > 0, x, np.float32(0)),
    "abs": np.abs,
    "sign": np.sign,
}
_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


# Others in float64, the arguments they are tried on, and how many units of the last place of fp32 they may be away:
# the table in driver/emulator/numerics/README.md, and half a unit more for the way to fp32.
NEAR = {
    "exp": (np.exp, -80, 80, 1.5),
    "log": (np.log, 1e-6, 1e6, 1.5),
    "sigmoid": (_sigmoid, -60, 60, 2.7),
    "tanh": (np.tanh, -12, 12, 2.7),
    "softplus": (lambda x: np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0), -60, 60, 2.4),
    "erf": (_erf, -5, 5, 1.8),
    "silu": (lambda x: x * _sigmoid(x), -60, 60, 3.4),
    "gelu": (lambda x: x * (1 + _erf(x / np.sqrt(2))) / 2, -3, 30, 5),
    "arctan": (np.arctan, -np.pi / 2, np.pi / 2, 1.8),
    "sin": (np.sin, -np.pi / 2, np.pi / 2, 2.3),
    "sqrt": (np.sqrt, 1e-6, 1e6, 1),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-6, 1e6, 2),
    "reciprocal": (lambda x: 1 / x, 1e-3, 1e6, 1),
}


def _unit(values):
    """A unit in the last place of fp32 of each value."""
    size = np.maximum(np.abs(values), 2.0 ** -126)
    return np.exp2(np.floor(np.log2(size)) - 23)


def activate(c):
    parts, n = c.parts(), c.count()
    psum = "psum" if c.chance(0.2) else "sbuf"
    if c.chance(0.6):
        return _exact(c, parts, n, psum)
    name = c.choose.choice(list(NEAR))
    function, low, high, units = NEAR[name]
    a = c.tile(parts, n, c.one("f32", "f32", "bf16"), space=psum)
    spread = np.exp(c.numbers.uniform(np.log(low), np.log(high), (parts, a.count))) if low > 0 else \
        c.numbers.uniform(low, high, (parts, a.count))
    c.fill(a, FORMATS[a.dtype].narrow(np.clip(spread.astype(np.float32), np.float32(low), np.float32(high))))
    scale = c.one(None, 1.0, 0.5) if name not in ("arctan", "sin") else None
    dst = c.output(parts, n, c.one("f32", "f32", "bf16", "f16"))
    c.run("Activation", f"activate {dst} = {name} {a}{'' if scale is None else f', scale={scale}'}")
    with np.errstate(over="ignore"):
        value = function(c.floats(a).astype(np.float64) * (scale or 1.0))
    c.expect_near(dst, value, units * _unit(value),
                  f"{units - 0.5:g} units of fp32 (driver/emulator/numerics/README.md)")


def _exact(c, parts, n, space):
    name = c.choose.choice(list(EXACT))
    # Nothing public says what relu and sign make of NaN.
    kind = "number" if name in ("relu", "sign") else "wild"
    reduce = c.chance(0.4)
    if reduce:
        kind = "whole"
    steps, start = [], None
    for i in range(c.one(1, 2) if reduce else 1):
        a = c.source(parts, n, c.float_type(), kind, space=space)
        value, keys = c.floats(a), ""
        # A product and a sum at once only where the product is exact: it may be rounded by itself, or not.
        form = c.one("", "scale", "bias", "both")
        if form in ("scale", "both"):
            if form == "both" or reduce:
                number = np.float32(c.one(0.5, 2, -4, 1))
                keys += f", scale={number}"
            else:
                text, number = c.scalar(parts, "tame")
                keys += f", scale={text}"
            value = model.alu("mul", value, number)
        if form in ("bias", "both"):
            text, number = c.scalar(parts, "whole" if reduce else "tame", pointer=True if c.generation == 2 else None)
            keys += f", bias={text}"
            value = model.alu("add", value, number)
        # fp32 where it is summed: nothing public says whether the sum sees rounded numbers.
        dst = c.output(parts, n, "f32" if reduce else c.float_type(), start=start)
        start = dst.start
        if reduce:
            keys += f", reduce=add, {'reduce' if i else 'reset_reduce'}"
        c.run("Activation", f"activate {dst} = {name} {a}{keys}")
        with np.errstate(all="ignore"):
            value = EXACT[name](value)
        steps.append(value)
        c.expect(dst, value, zero_sign=name not in ("relu", "sign", "abs"))
    if reduce:
        _read(c, parts, start, "add", np.concatenate(steps, axis=1))


def _read(c, parts, start, reduce, terms):
    dst = c.output(parts, [1], "f32", start=start)
    c.run("Activation", f"read_acc {dst}")
    value = model.reduced(reduce, terms)[0]
    c.expect(dst, value[:, None], zero_sign=False)


def activate2(c):
    """Generation 4: two steps in front of the function, each may be reversed, and other reductions."""
    parts, n = c.parts(), c.count()
    name = c.choose.choice(list(EXACT))
    reduce = c.one("", "add", "max", "min", "abs_max", "abs_min")
    kind = "whole" if reduce == "add" else "number" if name in ("relu", "sign") or reduce else "wild"
    a = c.source(parts, n, c.float_type(), kind, space="psum" if c.chance(0.2) else "sbuf")
    steps = c.one("none", "mul", "add", "sub", "mul_add", "mul_sub")
    value, keys = c.floats(a), f", steps={steps}"
    for i, op in enumerate([] if steps == "none" else steps.split("_")):
        if op == "mul" and ("_" in steps or reduce == "add"):
            number = np.float32(c.one(0.5, 2, -4))
            keys += f", s{i}={number}"
        else:
            text, number = c.scalar(parts, "whole" if reduce == "add" else "tame")
            keys += f", s{i}={text}"
        reverse = c.chance(0.4)
        keys += f", rev{i}" * reverse
        value = model.alu(op, value, number, reverse)
    if reduce:
        keys += f", reduce={reduce}, reset_reduce"
    dst = c.output(parts, n, "f32" if reduce else c.float_type())
    c.run("Activation", f"activate2 {dst} = {name} {a}{keys}")
    with np.errstate(all="ignore"):
        value = EXACT[name](value)
    c.expect(dst, value, zero_sign=name not in ("relu", "sign", "abs"))
    if reduce:
        terms = np.abs(value) if reduce.startswith("abs_") else value
        _read(c, parts, dst.start, reduce.removeprefix("abs_"), terms)


CASES = {2: [activate, activate], 3: [], 4: [activate2]}
