# SPDX-License-Identifier: Apache-2.0
"""Random cases of the instructions that Vector executes, some of them on GpSimd and Scalar, too."""
import numpy as np

import model
from formats import FLOATS, FORMATS, INTEGERS

ARITHMETIC = tuple(model.ALU)
BITS = ("and", "or", "xor", "shl", "shr_logical", "shr_arith")
MAGNITUDES = ("max", "min", "abs_max", "abs_min")


def _space(c, allowed=True):
    return "psum" if allowed and c.chance(0.2) else "sbuf"


def _signed_zero(*ops):
    """Which of two zeros is the larger one is nowhere said."""
    return not any(op in MAGNITUDES or op == "relu" for op in ops)


def _quotient_by_zero(ops, op, reverse, value):
    """Where the sign of an infinity is that of a zero of which nobody says the sign."""
    return (value == 0) & (op == "div" and reverse and not _signed_zero(*ops))


def _integer_sources(c, parts, n, op):
    """Codes of two int32 operands whose result is an int32, beyond what fp32 holds exactly."""
    r = c.numbers
    size = 1 << 15 if op == "mul" else 1 << 30
    a, b = (r.randint(-size, size, (parts, n)) for _ in range(2))
    return a, b


def tensor_tensor(c):
    parts, n = c.parts(), c.count()
    engine = c.one("DVE", "DVE", "Pool")
    if c.chance(0.2):
        return _tensor_tensor_bits(c, engine, parts, n)
    op = c.choose.choice(ARITHMETIC)
    psum = engine == "DVE"
    if engine == "Pool" and c.chance(0.4):
        # 32-bit integers are exact on GpSimd: on all others they go through fp32.
        op = c.one("add", "sub", "mul", "max", "min", "mod")
        x, y = _integer_sources(c, parts, n, op)
        f = FORMATS["i32"]
        a, b = (c.tile(parts, n, "i32", f.codes_of(v)) for v in (x, y))
        dst = c.output(parts, n, "i32")
        c.run(engine, f"tensor_tensor {dst} = {a}, {b}, op={op}")
        x, y = f.integers(c.raw(a)), f.integers(c.raw(b))
        with np.errstate(divide="ignore"):
            return c.expect_codes(dst, f.codes_of(model.ALU[op](x, y)))
    types = [c.any_type() for _ in range(3)]
    if engine == "Pool":
        types = [t if t not in ("i32", "u32") else "f32" for t in types]
    a = c.source(parts, n, types[0], space=_space(c, psum))
    b = c.source(parts, n, types[1])
    dst = a if c.chance(0.1) and all(step for _, step in a.dims) else \
        c.output(parts, n, types[2], space=_space(c, psum))
    c.run(engine, f"tensor_tensor {dst} = {a}, {b}, op={op}")
    c.expect(dst, model.alu(op, c.floats(a), c.floats(b)), _signed_zero(op))


def _tensor_tensor_bits(c, engine, parts, n):
    op, size = c.choose.choice(BITS), c.one(1, 2, 4)
    a_type, b_type, d_type = (c.one(*(i for i in INTEGERS if FORMATS[i].size == size)) for _ in range(3))
    a = c.source(parts, n, a_type)
    b = c.source(parts, n, b_type)
    if op.startswith("sh"):  # Counts at or beyond the width have no public meaning
        c.fill(b, c.numbers.randint(0, 8 * size, (parts, b.count)))
    dst = c.output(parts, n, d_type)
    c.run(engine, f"tensor_tensor {dst} = {a}, {b}, op={op}")
    c.expect_codes(dst, model.bits(op, c.raw(a), c.raw(b), 8 * size))


def tensor_scalar(c):
    parts, n = c.parts(), c.count()
    engine = c.one("DVE", "DVE", "Pool", *(["Activation"] if c.generation >= 3 else []))
    if c.chance(0.2) and engine != "Activation":
        return _tensor_scalar_bits(c, engine, parts, n)
    if engine == "Activation" and (c.generation == 3 or c.chance(0.3)):
        return _tensor_scalar_on_scalar(c, parts, n)
    psum = engine != "Pool"
    types = [t if t not in ("i32", "u32") else "bf16" for t in (c.any_type(), c.any_type())]
    a = c.source(parts, n, types[0], space=_space(c, psum))
    dst = c.output(parts, n, types[1], space=_space(c, psum))
    ops = [c.choose.choice(ARITHMETIC + tuple(model.UNARY))]
    if c.chance(0.6):
        ops.append(c.choose.choice(ARITHMETIC + tuple(model.UNARY)))
        if engine == "Activation" and ops[0] == "mul" and ops[1] in ("add", "sub"):
            ops[1] = "max"  # Such a pair may be rounded once: _tensor_scalar_on_scalar has it
    keys, value = [], c.floats(a)
    undefined = np.zeros((parts, n), bool)
    for i, op in enumerate(ops):
        keys.append(f"op{i}={op}")
        if op in model.UNARY:
            if op == "relu":  # Nothing public says what it makes of NaN
                undefined |= np.isnan(value)
            value = model.unary(op, value)
            continue
        text, number = c.scalar(parts)
        keys.append(f"s{i}={text}")
        reverse = c.chance(0.4)
        if reverse:
            keys.append(f"rev{i}")
        undefined |= _quotient_by_zero(ops[:i], op, reverse, value)
        value = model.alu(op, value, number, reverse)
    c.run(engine, f"tensor_scalar {dst} = {a}, {', '.join(keys)}")
    c.expect(dst, value, _signed_zero(*ops), undefined)


def _tensor_scalar_on_scalar(c, parts, n):
    """Generation 3 and later: mul, add, or mul and then add."""
    a = c.source(parts, n, c.float_type(), "finite")
    dst = c.output(parts, n, c.float_type())
    ops = c.one(("mul",), ("add",), ("mul", "add"))
    keys, value = [], c.floats(a)
    for i, op in enumerate(ops):
        # A factor that is a power of 2: nothing public says whether the product is rounded by itself.
        if op == "mul" and len(ops) == 2:
            number = np.float32(c.one(0.5, 1, 2, -4))
            text = f"{number} f32"
        else:
            text, number = c.scalar(parts, "tame")
        keys.append(f"op{i}={op}, s{i}={text}")
        value = model.alu(op, value, number)
    c.run("Activation", f"tensor_scalar {dst} = {a}, {', '.join(keys)}")
    c.expect(dst, value)


def _tensor_scalar_bits(c, engine, parts, n):
    size = c.one(1, 2, 4)
    names = [i for i in INTEGERS if FORMATS[i].size == size]
    a, d_type = c.source(parts, n, c.choose.choice(names)), c.choose.choice(names)
    dst = c.output(parts, n, d_type)
    keys, value = [], c.raw(a)
    for i in range(c.one(1, 2)):
        op = c.choose.choice(BITS + ("not",))
        keys.append(f"op{i}={op}")
        if op == "not":
            value = model.bits(op, value, 0, 8 * size)
            continue
        shift = op.startswith("sh")
        number = c.numbers.randint(0, 8 * size if shift else 1 << (8 * size), (parts, 1), dtype=np.int64)
        if c.chance(0.5):
            pointed = c.tile(parts, [1], names[-1], number)
            keys.append(f"s{i}={pointed.pointer()}")
        else:
            number = number[:1]
            keys.append(f"s{i}=0x{int(number[0, 0]):X} {names[-1]}")
        value = model.bits(op, value, number, 8 * size)
    c.run(engine, f"tensor_scalar {dst} = {a}, {', '.join(keys)}")
    c.expect_codes(dst, value)


def scalar_tensor_tensor(c):
    parts, n = c.parts(), c.count()
    types = [t if t not in ("i32", "u32") else "f16" for t in (c.any_type() for _ in range(3))]
    a = c.source(parts, n, types[0], space=_space(c))
    b = c.source(parts, n, types[1])
    dst = c.output(parts, n, types[2])
    ops = c.choose.choice(ARITHMETIC), c.choose.choice(ARITHMETIC)
    text, number = c.scalar(parts)
    reverses = c.chance(0.4), c.chance(0.4)
    c.run("DVE", f"scalar_tensor_tensor {dst} = {a}, {b}, op0={ops[0]}, s0={text}{', rev0' * reverses[0]}, "
                 f"op1={ops[1]}{', rev1' * reverses[1]}")
    value = model.alu(ops[0], c.floats(a), number, reverses[0])
    undefined = _quotient_by_zero(ops[:1], ops[1], reverses[1], value)
    c.expect(dst, model.alu(ops[1], value, c.floats(b), reverses[1]), _signed_zero(*ops), undefined)


def tensor_scalar_reduce(c):
    parts, n = c.parts(), c.count()
    # fp32 in between: nothing public says whether the accumulator sees rounded numbers.
    whole, reduce = c.chance(0.5), c.one("add", "max", "min")
    rounds = c.one(1, 2)
    start, terms = None, []
    for i in range(rounds):
        a = c.source(parts, n, c.float_type(), "whole" if whole else "tame", space=_space(c))
        dst = c.output(parts, n, "f32", start=start)
        start = dst.start
        op = c.one("add", "sub", "max", "min") if whole else c.one("add", "sub", "mul")
        text, number = c.scalar(parts, "whole" if whole else "tame")
        command, loaded = "reduce" if i else "reset_reduce", ""
        if i == 0 and c.chance(0.4):
            more, first = c.scalar(parts, "whole" if whole else "tame")
            command, loaded = "load_reduce", f"s1={more}, "
            terms.append(np.broadcast_to(first, (parts, 1)))
        c.run("DVE", f"tensor_scalar_reduce {dst} = {a}, op0={op}, s0={text}, {loaded}reduce={reduce}, {command}")
        value = model.alu(op, c.floats(a), number)
        terms.append(value)
        c.expect(dst, value, zero_sign=_signed_zero(op))
    _read_accumulator(c, "DVE", parts, start, reduce, np.concatenate(terms, axis=1), whole, "f32")


def _read_accumulator(c, engine, parts, start, reduce, terms, exact, dtype, more=0.0):
    """Reads what the accumulators of these partitions have reduced."""
    dst = c.output(parts, [1], dtype, start=start)
    negate = engine == "DVE" and c.chance(0.3)
    c.run(engine, f"read_acc {dst}{', negate' * negate}")
    value, bound = model.reduced(reduce, terms)
    value = -value if negate else value
    if exact:
        c.expect(dst, value[:, None], zero_sign=False)
    else:
        c.expect_near(dst, value[:, None], (bound + more + np.zeros(parts))[:, None], "the bound of a sum in any order")


def tensor_scalar_cumulative(c):
    parts = c.parts()
    op1 = c.one("add", "sub", "mul", "max", "min")
    initial = model.IDENTITY.get(op1)
    start = None
    for i in range(c.one(1, 2)):
        a = c.source(parts, c.count(), c.float_type(), "tame" if op1 == "mul" else "number", space=_space(c))
        dst = c.output(parts, a.count, c.float_type(), start=start)
        start = dst.start
        op0 = c.one("add", "sub", "mul", "max")
        text, number = c.scalar(parts, "tame")
        keys = f"op0={op0}, s0={text}"
        reverse = op0 == "sub" and c.chance(0.5)
        if reverse:
            keys += ", rev0"
        keys += f", op1={op1}"
        if i:
            command = "reduce"
        elif initial is None or c.chance(0.5):
            text, initial = c.scalar(parts, "tame")
            keys += f", s1={text}"
            command = "load_reduce"
        else:
            command = "reset_reduce"
        c.run("DVE", f"tensor_scalar_cumulative {dst} = {a}, {keys}, {command}")
        running = model.cumulated(op1, model.alu(op0, c.floats(a), number, reverse), initial)
        c.expect(dst, running, _signed_zero(op0, op1))
        initial = running[:, -1:]


def tensor_reduce(c):
    parts = c.parts()
    kept, cut = c.one([], [3], [5], [2, 4]), c.one([2], [7], [32], [3, 5], [2, 17])
    sizes = kept + cut
    count = int(np.prod(kept, dtype=int))
    engine = "Pool" if c.generation >= 3 and c.chance(0.2) else "DVE"
    if c.chance(0.2):
        op, size = c.one("and", "or", "xor"), c.one(1, 2, 4)
        names = [i for i in INTEGERS if FORMATS[i].size == size]
        a = c.source(parts, sizes, c.choose.choice(names))
        dst = c.output(parts, count, c.choose.choice(names))
        c.run(engine, f"tensor_reduce {dst} = {a}, reduce={op}, axes={len(cut)}")
        x = c.raw(a).reshape(parts, count, -1)
        return c.expect_codes(dst, {"and": np.bitwise_and, "or": np.bitwise_or,
                                    "xor": np.bitwise_xor}[op].reduce(x, axis=2))
    op = c.one("add", "add", "sub", "mul", "max", "min", "logical_and", "logical_or", "logical_xor")
    exact = op in ("max", "min") or op.startswith("logical")
    whole = not exact and op != "mul" and c.chance(0.5)
    # Small integers have the same sum in any order.
    a = c.source(parts, sizes, c.float_type(), "wild" if exact else "whole" if whole else "tame",
                 space=_space(c, engine == "DVE"))
    dst = c.output(parts, count, c.float_type(), space=_space(c, engine == "DVE"))
    negate = c.chance(0.3)
    c.run(engine, f"tensor_reduce {dst} = {a}, reduce={op}, axes={len(cut)}{', negate' * negate}")
    value, bound = model.reduced(op, c.floats(a).reshape(parts, count, -1))
    value = -value if negate else value
    if exact or whole:
        c.expect(dst, value, zero_sign=False)
    else:
        c.expect_near(dst, value, bound, "the bound of a reduction in any order")


def tensor_tensor_scan(c):
    parts, n = c.parts(), c.count()
    op0 = c.one("mul", "add", "max", "min", "sub")
    op1 = c.one("add", "sub", "max", "min", "mul")
    kind = c.one("tame", "number")
    a = c.source(parts, n, c.float_type(), kind, space=_space(c))
    b = c.source(parts, n, c.float_type(), kind)
    dst = c.output(parts, n, c.float_type())
    text, initial = c.scalar(parts, "tame")
    c.run("DVE", f"tensor_tensor_scan {dst} = {a}, {b}, op0={op0}, s0={text}, op1={op1}")
    c.expect(dst, model.scanned(op0, op1, c.floats(a), c.floats(b), initial), _signed_zero(op0, op1))


def _near_ties(c, dtype, shape):
    """fp32 numbers at, and beside, the middle of two neighbours of a type."""
    f = FORMATS[dtype]
    r = c.numbers
    if f.floating:
        low = f.widen(r.randint(0, f.largest_code, shape).astype(f.code)).astype(np.float64)
        high = f.widen(f.narrow(low) + f.code.type(1)).astype(np.float64)
    else:
        low = np.clip(r.randint(-70000, 70000, shape), f.lowest - 3, f.highest + 3).astype(np.float64)
        high = low + 1
    middle = ((low + high) / 2).astype(np.float32)
    steps = r.randint(-1, 2, shape)
    middle = np.where(steps < 0, np.nextafter(middle, np.float32(-np.inf)),
                      np.where(steps > 0, np.nextafter(middle, np.float32(np.inf)), middle))
    return (middle * np.where(r.randint(0, 2, shape), 1, -1)).astype(np.float32)


def tensor_copy(c):
    parts, n = c.parts(), c.count()
    engine = c.one("DVE", "Pool", *(["Activation"] if c.generation >= 3 else []))
    psum = engine != "Pool"
    to = c.any_type()
    if c.chance(0.3):  # Raw bits, whatever they mean
        a = c.source(parts, n, to, space=_space(c, psum))
        dst = c.output(parts, n, to, space=_space(c, psum))
        c.run(engine, f"tensor_copy {dst} = {a}")
        return c.expect_codes(dst, c.raw(a))
    if c.chance(0.5):
        a = c.tile(parts, n, "f32", space=_space(c, psum))
        c.fill(a, FORMATS["f32"].narrow(_near_ties(c, to, (parts, a.count))))
    else:
        a = c.source(parts, n, c.any_type(), space=_space(c, psum))
    if {a.dtype, to} == {"i32", "u32"}:
        # Exact on GpSimd, through fp32 on the others: numbers that both give.
        c.fill(a, c.numbers.randint(0, 1 << 24, (parts, a.count)))
    dst = c.output(parts, n, to, space=_space(c, psum))
    c.run(engine, f"tensor_copy {dst} = {a}")
    if a.dtype == to:
        return c.expect_codes(dst, c.raw(a))
    c.expect(dst, c.floats(a))


def copy_predicated(c):
    parts, n = c.parts(), c.count()
    dtype = c.any_type()
    mask = c.source(parts, n, c.one("u8", "u16", "u32"))
    c.fill(mask, np.where(c.numbers.randint(0, 2, (parts, n)), c.raw(mask), 0))
    dst = c.output(parts, n, dtype)
    scalar = c.chance(0.3)
    a = c.source(parts, [1] if scalar else n, dtype, space="sbuf" if scalar else _space(c))
    invert = c.chance(0.4)
    source = f"{dst}, {mask}, s0={a.pointer()}" if scalar else f"{dst} = {a}, {mask}"
    c.run("DVE", f"copy_predicated {source}{', invert' * invert}")
    chosen = (c.raw(mask) != 0) ^ invert
    c.expect_codes(dst, np.where(chosen, c.raw(a), c.raw(dst)))


def select_reduce(c):
    parts, n = c.parts(), c.count()
    mask = c.source(parts, n, c.one("i8", "u8", "i16", "u16"))
    c.fill(mask, np.where(c.numbers.randint(0, 2, (parts, n)), c.raw(mask), 0))
    reduce = c.chance(0.5)
    dtype = c.one(*FLOATS, "i8", "u8", "i16", "u16")
    a = c.source(parts, n, dtype, "number", space=_space(c))
    dst = c.output(parts, n, "f32" if reduce else dtype if c.chance(0.3) else c.float_type())
    text, other = c.scalar(parts, "number")
    invert = c.chance(0.4)
    c.run("DVE", f"select_reduce {dst} = {a}, {mask}, s0={text}{', invert' * invert}"
                 f"{', reduce=max, reset_reduce' * reduce}")
    value = np.where((c.raw(mask) != 0) ^ invert, c.floats(a), other)
    c.expect(dst, value)
    if reduce:
        _read_accumulator(c, "DVE", parts, dst.start, "max", value, True, "f32")


def range_select(c):
    parts, n = c.parts(), c.count()
    reduce = c.chance(0.5)
    a = c.source(parts, n, c.float_type(), "number", space=_space(c))
    dst = c.output(parts, n, "f32" if reduce else c.one("f32", "bf16", "f16", "f8e4", "f8e5"))
    start = c.choose.randint(-20, 1 << 20)
    ops = [c.one("eq", "lt", "le", "gt", "ge") for _ in range(2)]
    keys, chosen = [], True
    place = np.float32(start) + np.arange(n, dtype=np.float32)[None, :]
    for i, op in enumerate(ops):
        bound = c.tile(parts, [1], "f32")
        c.fill(bound, FORMATS["f32"].narrow((start + c.numbers.randint(-2, n + 2, (parts, 1))).astype(np.float32)))
        keys.append(f"op{i}={op}, s{i}={bound.pointer()}")
        chosen = chosen & (model.alu(op, place, c.floats(bound)) != 0)
    c.run("DVE", f"range_select {dst} = {a}, start={start}, {', '.join(keys)}{', reduce=max, reset_reduce' * reduce}")
    value = np.where(chosen, c.floats(a), model.LOWEST)
    c.expect(dst, value)
    if reduce:
        _read_accumulator(c, "DVE", parts, dst.start, "max", value, True, "f32")


def reciprocal(c):
    parts, n = c.parts(), c.count()
    a = c.source(parts, n, c.float_type(), "tame", space=_space(c))
    dst = c.output(parts, n, c.one("f32", "bf16", "f16"))
    c.run("DVE", f"reciprocal {dst} = {a}")
    with np.errstate(divide="ignore"):
        value = 1 / c.floats(a).astype(np.float64)
    value = np.where(np.abs(value) > 1e38, np.copysign(np.inf, value), value)
    bound = np.where(np.isinf(value), 0, 2 * model.UNIT * np.abs(value))
    c.expect_near(dst, value, bound, "half a unit of fp32 (driver/emulator/numerics/README.md)")


def bn_stats(c):
    parts, n = c.parts(), c.choose.randint(2, 200)
    a = c.source(parts, n, c.one("f32", "bf16", "f16"), "tame", space=_space(c))
    dst = c.output(parts, 6, "f32")
    c.run("DVE", f"bn_stats {dst} = {a}")
    value, bound = model.statistics(c.floats(a))
    c.expect_near(dst, value, bound, "the bound of its sums in any order")


def bn_aggr(c):
    parts, k = c.parts(), c.choose.randint(1, 12)
    r = c.numbers
    triples = np.stack([r.randint(1, 300, (parts, k)), r.standard_normal((parts, k)),
                        r.uniform(0, 90, (parts, k))], axis=2).astype(np.float32)
    a = c.tile(parts, [3 * k], "f32")
    c.fill(a, FORMATS["f32"].narrow(triples.reshape(parts, -1)))
    dst = c.output(parts, 2, "f32")
    c.run("DVE", f"bn_aggr {dst} = {a}")
    value, bound = model.aggregated(c.floats(a))
    c.expect_near(dst, value, bound, "the bound of its sums in any order")


def max8(c):
    parts, n = c.parts(), c.choose.randint(8, 160)
    a = c.source(parts, n, c.float_type(), "number", space=_space(c))
    dst = c.output(parts, 8, c.one("f32", a.dtype))
    c.run("DVE", f"max8 {dst} = {a}")
    c.expect(dst, model.eight_largest(c.floats(a)), zero_sign=False)


def _sought(c, parts, n, missing):
    """A row and 8 values, most of them from it, some of them equal."""
    a = c.source(parts, n, c.one("f32", "bf16", "f16"), "number" if c.chance(0.5) else "whole")
    values = c.floats(a)
    places = np.array([c.choose.sample(range(n), 8) for _ in range(parts)])
    wanted = np.take_along_axis(values, places, axis=1)
    if missing:
        wanted = np.where(c.numbers.randint(0, 5, wanted.shape) == 0, np.float32(1234567.0), wanted)
    return a, wanted


def find_index8(c):
    parts, n = c.parts(), c.choose.randint(8, 120)
    a, wanted = _sought(c, parts, n, True)
    b = c.tile(parts, 8, "f32", FORMATS["f32"].narrow(wanted))
    dst = c.output(parts, 8, c.one("u16", "u32"))
    c.run("DVE", f"find_index8 {dst} = {a}, {b}")
    found = model.first_indices(c.floats(a), c.floats(b), range(8))
    c.expect_codes(dst, FORMATS[dst.dtype].codes_of(found))


def match_replace8(c):
    parts, n = c.parts(), c.choose.randint(8, 120)
    indices = c.chance(0.5)
    # Only for values that are missing does nothing public say which index is written.
    a, wanted = _sought(c, parts, n, not indices)
    values = c.tile(parts, [8], "f32", FORMATS["f32"].narrow(wanted), dense=True)
    dst = c.output(parts, n, a.dtype)
    new = np.float32(c.one(-9999.0, 5000.0, -np.inf))
    code = int(FORMATS["f32"].narrow(new))
    where = c.output(parts, [8], c.one("u16", "u32"), dense=True) if indices else None
    c.run("DVE", f"match_replace8 {dst} = {a}, s0={values.pointer()}"
                 f"{', s1=' + where.pointer() if where else ''}, value=0x{code:X}")
    x = c.floats(a)
    found = model.first_indices(x, c.floats(values), range(7, -1, -1))
    out = c.raw(a).copy()
    for p in range(parts):
        out[p, found[p][found[p] >= 0]] = FORMATS[a.dtype].narrow(new)
    c.expect_codes(dst, out)
    if where:
        c.expect_codes(where, FORMATS[where.dtype].codes_of(found))


def stream_shuffle(c):
    parts = c.one(32, 64, 96, 128)
    n, dtype = c.count(), c.any_type()
    a = c.source(parts, n, dtype, space=_space(c))
    dst = c.output(parts, n, dtype)
    mask = [c.one(255, c.choose.randrange(32), c.choose.randrange(32), c.choose.randrange(32)) for _ in range(32)]
    c.run("DVE", f"stream_shuffle {dst} = {a}, mask={'/'.join(map(str, mask))}")
    out, source = c.raw(dst), c.raw(a)
    for p in range(parts):
        if mask[p % 32] != 255:
            out[p] = source[p // 32 * 32 + mask[p % 32]]
    c.expect_codes(dst, out)


def transpose32(c):
    dtype = c.any_type()
    if c.chance(0.5):
        parts, n = c.one(32, 64, 96, 128), c.one(32, 64, 96)
        a = c.source(parts, n, dtype)
        dst = c.output(parts, n, dtype)
        value = model.blocks_transposed(c.raw(a))
    else:
        parts, n = c.choose.randint(1, 31), c.choose.randint(1, 31)
        a = c.source(parts, n, dtype, space=_space(c))
        dst = c.output(n, parts, dtype)
        value = c.raw(a).T
    c.run("DVE", f"transpose32 {dst} = {a}")
    c.expect_codes(dst, value)


def memset(c):
    parts, n, dtype = c.parts(), c.count(), c.any_type()
    engine = c.one("DVE", "Pool")
    dst = c.output(parts, n, dtype, space=_space(c, engine == "DVE"))
    code = c.codes(dtype, (1, 1))
    c.run(engine, f"memset {dst}, value=0x{int(code[0, 0]):X}")
    c.expect_codes(dst, code)


def dropout(c):
    parts, n, dtype = c.parts(), c.count(), c.any_type()
    a = c.source(parts, n, dtype)
    dst = c.output(parts, n, dtype)
    share = c.one(0, 1, 0.5, 0.25)
    keep = c.chance(0.3)
    c.run("DVE", f"dropout {dst} = {a}, s0={share}{', invert' * keep}")
    always = {0: keep, 1: not keep}.get(share)  # Dropped or kept for sure
    if always is None:
        c.expect_one_of(dst, c.raw(a), np.zeros_like(c.raw(a)))
    else:
        c.expect_codes(dst, np.zeros_like(c.raw(a)) if always else c.raw(a))


def rng(c):
    """XORWOW: on GpSimd from generation 3, on Vector from 4, which has four states a partition."""
    engine = c.one("Pool", *(["DVE"] if c.generation >= 4 else []))
    lanes = 4 if engine == "DVE" else 1
    parts, n = c.parts(), lanes * c.choose.randint(1, 12)
    states = c.source(parts, [6 * lanes], "u32")
    dst = c.output(parts, n, c.one("u8", "u16", "u32", "i32"), start=states.start)
    left = c.output(parts, [6 * lanes], "u32", start=states.start)
    c.run(engine, f"rand_set_state {states}")
    c.run(engine, f"rng {dst}")
    c.run(engine, f"rand_get_state {left}")
    words, after = model.xorwow(c.raw(states).reshape(parts * lanes, 6), n // lanes)
    words = words.reshape(parts, lanes, -1).transpose(0, 2, 1).reshape(parts, n)
    c.expect_codes(dst, FORMATS[dst.dtype].codes_of(words))
    c.expect_codes(left, after.reshape(parts, -1))


def quantize_mx(c):
    parts, n = c.one(32, 64, 96, 128), 4 * c.choose.randint(1, 12)
    kind, largest = c.one(("f8e5x4", 15), ("f8e4fnx4", 8))
    quarter = c.one(0, 1, 2, 3)
    a = c.source(parts, [n], c.one("bf16", "f16"), "tame")
    factors = np.exp2(c.numbers.randint(-8, 8, (parts // 8, 1, n // 4, 1)).astype(np.float32))
    scaled = c.floats(a).reshape(parts // 8, 8, n // 4, 4) * factors * c.numbers.randint(0, 2, factors.shape)
    c.fill(a, FORMATS[a.dtype].narrow(scaled.reshape(parts, n)))
    f = FORMATS[kind[:-2]]
    dst = c.output(parts, [n], kind[:-2], dense=True)
    rows = parts if parts > 32 else parts // 8
    # Quarters lie below each other in one tile of scales.
    scales = c.output(rows, [n // 4], "u8", start=0)
    packed = f"sbuf[{dst.start}:{parts}, {dst.place()}] {kind} [{n // 4}]"
    c.run("DVE", f"quantize_mx {packed} = {a}, {scales}, quarter={quarter}")
    bytes_of = model.block_scales(c.floats(a), largest)
    size = np.exp2(bytes_of.astype(np.float64) - 127).repeat(8, axis=0).repeat(4, axis=1)
    c.expect(dst, c.floats(a).astype(np.float64) / size)
    whole = c.tile_of_rows(scales, model.scale_rows(parts, quarter))
    for row, line in zip(whole, bytes_of):
        c.expect_codes(row, line[None, :])
    assert f.size == 1


def exponential(c):
    parts, n = c.parts(), c.count()
    a = c.source(parts, n, c.float_type(), "tame", space=_space(c))
    dst = c.output(parts, n, "f32")
    text, number = c.scalar(parts, "tame")
    reduce, terms = c.one("", "", "reset_reduce", "load_reduce"), []
    keys = f", reduce=add, {reduce}" if reduce else ""
    if reduce == "load_reduce":
        more, first = c.scalar(parts, "tame")
        keys = f", s1={more}{keys}"
        terms = [np.broadcast_to(first, (parts, 1))]
    c.run("DVE", f"exponential {dst} = {a}, s0={text}{keys}")
    value = np.exp(model.alu("sub", c.floats(a), number).astype(np.float64))
    c.expect_near(dst, value, 4 * model.UNIT * value, "2 units of fp32 (exp: 1.0, driver/emulator/numerics/README.md)")
    if reduce:
        more = 4 * model.UNIT * value.sum(axis=1)
        terms = np.concatenate([*terms, value], axis=1)
        _read_accumulator(c, "DVE", parts, dst.start, "add", terms, False, "f32", more)


CASES = {2: [tensor_tensor, tensor_scalar, scalar_tensor_tensor, tensor_scalar_reduce, tensor_scalar_cumulative,
             tensor_reduce, tensor_tensor_scan, tensor_copy, copy_predicated, reciprocal, bn_stats, bn_aggr, max8,
             find_index8, match_replace8, stream_shuffle, transpose32, memset, dropout],
         3: [select_reduce, range_select, rng], 4: [quantize_mx, exponential]}
