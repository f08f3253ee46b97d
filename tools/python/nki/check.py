# SPDX-License-Identifier: Apache-2.0
"""Kernel.check(): every value that an instruction of the device wrote, against float64.

The kernel is traced again with a transfer behind each instruction, which brings what it wrote into
one more output. Each instruction is then computed anew from what the device had as its operands, so
a difference is that instruction's own.
"""
import inspect
import math

import numpy as np

from . import dtypes
from .errors import NkiError, shown
from .indirection import whole
from .interpreter import Interpreter, Memory, NotInterpreted, written_scales

# Units in the last place of a type, with room for approximations of functions (2^-20 in float32).
_RELATIVE = {"float32": 2.0**-18, "tfloat32": 2.0**-9, "bfloat16": 2.0**-7, "float16": 2.0**-10,
             "float8_e4m3": 2.0**-3, "float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2}
_RESULTS = ("dst", "reduce_res", "val_dst", "idx_dst", "dst_idx")
_SKIPPED = {"tile", "free", "hbm", "core", "core_barrier"}


class Difference(NkiError):
    """An instruction of the device gave another value than float64, beyond the type's bound."""


class CheckReport:
    """What was compared: instructions, values, and the largest error in units of its bound."""

    def __init__(self):
        self.instructions = self.values = 0
        self.not_interpreted = {}
        self.worst, self.worst_place = 0.0, ""

    def __repr__(self):
        text = (f"{self.instructions} instructions and {self.values} values agree with float64; "
                f"the largest difference is {self.worst:.2f} of its bound")
        if self.worst_place:
            text += f" ({self.worst_place})"
        for name, count in self.not_interpreted.items():
            text += f"; {count} x {name} were not compared"
        return text


def _written(record):
    """(name, operand) of all that a record writes, in the order of the interpreter's results."""
    for key in _RESULTS:
        if isinstance(record.get(key), dict):
            yield key, whole(record[key])
    if record["op"] == "quantize_mx":
        for number, operand in enumerate(written_scales(record)):
            yield ("dst_scale", number), operand


def _observe(observed):
    """Adds a transfer of each result to the trace; fills `observed` with (record, operand, offset)."""
    def change(recorder):
        loop = next((r for r in recorder.records if r["op"] == "while"), None)
        if loop is not None:
            files, (file, line) = list(recorder.files), loop["at"]
            raise NkiError(f"{shown(files[file])}:{line}: how often this loop runs, the device decides; "
                           "check() follows a kernel whose rounds are known only")
        records, total = [], 0
        identity = recorder.storages
        copies = identity + 1
        output = {"op": "hbm", "id": identity, "at": [0, 0], "name": "observed values",
                  "kind": "output", "dtype": "uint8", "shape": [0]}
        records.append(output)
        for record in recorder.records:
            records.append(record)
            if record["op"] in _SKIPPED:
                continue
            for key, operand in _written(record):
                size = dtypes.SIZES[operand["dtype"]]
                count = math.prod(c for _, c in operand["pattern"]) * operand.get("parts", 1)
                source = operand
                psum = "tile" in operand and recorder.spaces.get(operand["tile"]) == "psum"
                if record["op"] == "dma_scatter":
                    size, count = 1, recorder.sizes[operand["hbm"]]
                    source = {"hbm": operand["hbm"], "dtype": "uint8", "offset": 0,
                              "pattern": [[1, count]]}
                if psum:
                    columns = count // operand["parts"]
                    staged = {"tile": copies, "dtype": operand["dtype"], "start": 0, "offset": 0,
                              "parts": operand["parts"], "pattern": [[1, columns]]}
                    records.append({"op": "tile", "id": copies, "at": record["at"], "space": "sbuf",
                                    "name": "observed", "parts": operand["parts"],
                                    "columns": columns, "dtype": operand["dtype"]})
                    records.append({"op": "tensor_copy", "at": record["at"], "dst": staged,
                                    "src": operand})
                    source = staged
                target = {"hbm": identity, "dtype": source["dtype"], "offset": total,
                          "pattern": [[1, count]]}
                records.append({"op": "dma_copy", "at": record["at"], "dst": target, "src": source})
                if psum:
                    records.append({"op": "free", "id": copies})
                    copies += 1
                observed.append((record, key, total, count * size))
                total += -(-count * size // 4) * 4
        output["shape"] = [max(total, 4)]
        recorder.original = recorder.records
        recorder.records = records
        recorder.observed_name = output["name"]
    return change


class _Observed:
    """Stands for the output of observed values where the runtime wants a storage."""

    def __init__(self, name, size):
        self.name, self.shape, self.dtype = name, (size,), dtypes.TYPES["uint8"]
        self.argument, self.written = None, 1


def check(kernel, arguments, named):
    from .kernel import Specialisation, is_array, mapped
    bound = inspect.signature(kernel.function).bind(*arguments, **named)
    bound.apply_defaults()
    arrays = []
    mapped(list(bound.arguments.items()),
           lambda v: arrays.append(np.array(v)) if is_array(v) else v)
    originals = [a.copy() for a in arrays]
    observed = []
    specialisation = Specialisation(kernel, kernel.chosen_target(), bound,
                                    _observe(observed))
    recorder = specialisation.traced
    size = next(r for r in recorder.records if r.get("name") == recorder.observed_name)["shape"][0]
    output = _Observed(recorder.observed_name, size)
    specialisation.outputs.append(output)
    specialisation.run(arrays)
    return _compare(recorder, specialisation, originals,
                    np.asarray(specialisation.executable.output(output)), observed)


def _compare(recorder, specialisation, arrays, values, observed):
    memory, report = Memory(), CheckReport()
    interpreter = Interpreter(memory)
    files = list(recorder.files)
    device = {}
    for record, key, offset, size in observed:
        device[id(record), key] = values[offset:offset + size]
    by_identity = {s.identity: a for s, a in zip(specialisation.inputs, arrays)}
    first_of = {id(second): first for first, second in recorder.exchanges}
    sent = {}
    # Two programs on two cores in the order in which one has what it needs of the other.
    for record in recorder.in_time or recorder.original:
        op = record["op"]
        if op == "sendrecv":
            sent[id(record)] = record, memory.bits(record["src"])
            first = first_of.get(id(record))
            for mine, theirs in ((record, first), (first, record)) if first is not None else ():
                file, line = mine["at"]
                _received(memory, mine, sent[id(theirs)], device, report, f"{files[file]}:{line}: {op}")
        elif op in ("tile", "hbm"):
            memory.declare(record)
            if record["id"] in by_identity:
                array = np.ascontiguousarray(dtypes.native(by_identity[record["id"]]))
                memory.bytes[record["id"]][0] = array.reshape(-1).view(np.uint8)
        elif op not in _SKIPPED:
            file, line = record["at"]
            place = f"{files[file]}:{line}: {op}"
            _one(interpreter, record, device, report, place)
    return report


def _one(interpreter, record, device, report, place):
    memory = interpreter.memory
    try:
        results = interpreter.results(record)
    except NotInterpreted as error:
        report.not_interpreted[str(error)] = report.not_interpreted.get(str(error), 0) + 1
        results = []
    report.instructions += bool(results)
    for (operand, expected, magnitude, is_bits), (key, _) in zip(results, _written(record)):
        view = memory.view(operand)
        kind = view.dtype
        got = np.frombuffer(device[id(record), key].tobytes(), kind)[:view.size]
        report.values += view.size
        if is_bits:
            wanted = np.ascontiguousarray(expected).reshape(-1).astype(kind, copy=False)
            wrong = (got.view(np.uint8).reshape(view.size, -1)
                     != wanted.view(np.uint8).reshape(view.size, -1)).any(1)
            if wrong.any():
                _differs(place, operand, got, wanted, int(np.argmax(wrong)), "the same bits")
            continue
        floats = _floats(got, operand["dtype"])
        shape = (view.shape[0], view.size // view.shape[0]) if "tile" in operand else (view.size,)
        _near(place, operand, floats, _spread(expected, shape), _spread(magnitude, shape), report)
    # What the device has is what the next instruction reads.
    for key, operand in _written(record):
        if (id(record), key) in device:
            if record["op"] == "dma_scatter":
                memory.bytes[operand["hbm"]][0] = device[id(record), key]
                continue
            view = memory.view(operand)
            view[...] = np.frombuffer(device[id(record), key].tobytes(),
                                      view.dtype)[:view.size].reshape(view.shape)


def _received(memory, record, sent, device, report, place):
    """dst of a sendrecv must have the bits of the other program's src; or their values in its type."""
    operand, (other, bits) = record["dst"], sent
    view = memory.view(operand)
    got = np.frombuffer(device[id(record), "dst"].tobytes(), view.dtype)[:view.size]
    if operand["dtype"] == other["src"]["dtype"]:
        report.instructions += 1
        report.values += view.size
        wrong = got != bits.reshape(-1)
        if wrong.any():
            _differs(place, operand, got, bits.reshape(-1), int(np.argmax(wrong)), "what the other sent")
    else:
        name = f"sendrecv of {other['src']['dtype']} to {operand['dtype']}"
        report.not_interpreted[name] = report.not_interpreted.get(name, 0) + 1
    view[...] = got.reshape(view.shape)


def _spread(values, shape):
    """The values one behind the other, repeated where there are fewer than elements."""
    values = np.asarray(values, np.float64)
    if values.size == math.prod(shape):
        return values.reshape(-1)
    return np.broadcast_to(values, shape).reshape(-1)


def _floats(bits, dtype):
    if dtype in ("bfloat16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn"):
        return dtypes.to_float32(dtypes.Encoded(bits, dtype)).astype(np.float64)
    return bits.astype(np.float64)


def _near(place, operand, got, wanted, magnitude, report):
    dtype = operand["dtype"]
    if dtype in _RELATIVE:
        limit = {"float16": 65504.0, "float8_e4m3": 240.0, "float8_e4m3fn": 448.0,
                 "float8_e5m2": 57344.0}.get(dtype, 3.4e38)
        bound = _RELATIVE[dtype] * np.abs(wanted) + 2.0**-18 * magnitude + {
            "float8_e4m3": 2.0**-9, "float8_e4m3fn": 2.0**-9, "float8_e5m2": 2.0**-16, "float16": 2.0**-24}.get(dtype, 1e-37)
    else:
        least, most = dtypes.INTEGERS[dtype]
        wanted = np.clip(np.nan_to_num(wanted), least, most)
        limit, bound = np.inf, 0.5 + 2.0**-18 * np.abs(wanted)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - wanted)
        same = (got == wanted) | (np.isnan(got) & np.isnan(wanted)) | (
            (np.abs(wanted) > limit * (1 - 2.0**-9)) & (np.abs(got) >= limit * 0.99)
            & (np.sign(got) == np.sign(wanted)))
        wrong = ~same & ~(error <= bound)
    if wrong.any():
        at = int(np.argmax(wrong))
        _differs(place, operand, got, wanted, at, f"a difference of at most {bound[at]:.3g}")
    with np.errstate(invalid="ignore"):
        share = np.where(same, 0, error / bound)
    worst = float(np.max(share, initial=0))
    if worst > report.worst:
        report.worst, report.worst_place = worst, place


def _differs(place, operand, got, wanted, at, allowed):
    columns = math.prod(c for _, c in operand["pattern"])
    where = (f"partition {operand.get('start', 0) + at // columns}, element {at % columns}"
             if "tile" in operand else f"element {at}")
    raise Difference(f"{place}: the device wrote {got[at]} as {where} of {operand['dtype']}, float64 "
                     f"gives {wanted[at]}; expected {allowed}")
