# SPDX-License-Identifier: Apache-2.0
"""What each record of a trace means, in NumPy with float64: the reference of Kernel.check().

Memory is bytes, as on the chip, so a tile that is read as another type means what it means there.
Each operation returns the values that it gives and the magnitude that its rounding errors have.
"""
import math

import numpy as np

from . import dtypes
from .indirection import has_indirection, on_plain_tiles, scattered, whole

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x):
    return 1 / (1 + np.exp(-np.clip(x, -700, 700)))


def _gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


FUNCTIONS = {
    "copy": lambda x: x, "square": np.square, "sigmoid": _sigmoid,
    "relu": lambda x: np.maximum(x, 0), "gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "gelu_dx": lambda x: (0.5 * (1 + _erf(x / math.sqrt(2)))
                          + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)),
    "gelu_apprx_tanh": _gelu_tanh, "gelu_apprx_sigmoid": lambda x: x * _sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": lambda x: (_sigmoid(1.702 * x) + 1.702 * x * _sigmoid(1.702 * x)
                                        * (1 - _sigmoid(1.702 * x))),
    "silu": lambda x: x * _sigmoid(x),
    "silu_dx": lambda x: _sigmoid(x) * (1 + x * (1 - _sigmoid(x))),
    "tanh": np.tanh, "softplus": _softplus, "mish": lambda x: x * np.tanh(_softplus(x)),
    "erf": _erf, "erf_dx": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x), "exp": np.exp,
    "sign": np.sign, "abs": np.abs, "log": np.log, "sin": np.sin, "arctan": np.arctan,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x,
}
ALU = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "mod": np.mod, "average": lambda a, b: (a + b) / 2,
    "maximum": np.maximum, "minimum": np.minimum,
    "abs_max": lambda a, b: np.maximum(np.abs(a), np.abs(b)),
    "abs_min": lambda a, b: np.minimum(np.abs(a), np.abs(b)), "power": np.power,
    "equal": np.equal, "not_equal": np.not_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "less": np.less, "less_equal": np.less_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "bypass": lambda a, b: a, "abs": lambda a, b: np.abs(a), "square": lambda a, b: a * a,
    "relu": lambda a, b: np.maximum(a, 0), "rsqrt": lambda a, b: 1 / np.sqrt(a),
    "reciprocal": lambda a, b: 1 / a,
}
BITS = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
        "bitwise_xor": np.bitwise_xor, "invert": lambda a, b: ~a,
        "left_shift": np.left_shift, "right_shift": np.right_shift}


class NotInterpreted(Exception):
    """The reference does not know what this record means (random numbers)."""


class Memory:
    """Bytes of every tile and tensor."""

    def __init__(self):
        self.bytes = {}
        self.written = {}

    def declare(self, record):
        size = dtypes.SIZES[record["dtype"]]
        if record["op"] == "tile":
            self.bytes[record["id"]] = np.zeros((record["parts"], record["columns"] * size), np.uint8)
            self.written[record["id"]] = np.zeros(record["parts"] * record["columns"] * size // 2 + 1,
                                                  bool) if record["space"] == "psum" else None
            return
        count = math.prod(record["shape"]) * size
        data = np.zeros((1, count), np.uint8)
        if record.get("data"):
            data[0] = np.frombuffer(bytes.fromhex(record["data"]), np.uint8)
        self.bytes[record["id"]] = data

    def view(self, operand):
        """The operand as an array of its stored type, [partitions, ...pattern] or [...pattern]."""
        kind = dtypes.storage_type(operand["dtype"])
        on_chip = "tile" in operand
        raw = self.bytes[operand["tile" if on_chip else "hbm"]]
        row = raw.shape[1]
        offset = operand.get("offset", 0)
        shape = [count for _, count in operand["pattern"]]
        strides = [step * kind.itemsize for step, _ in operand["pattern"]]
        if on_chip:
            offset += operand.get("start", 0) * row
            shape = [operand["parts"]] + shape
            strides = [row] + strides
        return np.ndarray(shape, kind, raw, offset, strides)

    def read(self, operand):
        """Values as float64, [partitions, elements], or [elements] of a tensor in HBM."""
        view = self.view(operand)
        name = operand["dtype"]
        values = dtypes.to_float32(dtypes.Encoded(np.array(view), name)) if name in (
            "bfloat16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn") else view
        values = np.asarray(values, np.float64)
        return values.reshape(values.shape[0], -1) if "tile" in operand else values.reshape(-1)

    def bits(self, operand):
        view = np.array(self.view(operand))
        return view.reshape(view.shape[0], -1)

    def scalar(self, value):
        if isinstance(value, dict):
            return self.read(value)[:, :1]
        return float(np.float32(value))  # As an instruction holds it


def _alu(op, a, b, reverse=False):
    if op not in ALU:
        raise NotInterpreted(op)
    return np.asarray(ALU[op](b, a) if reverse else ALU[op](a, b), np.float64)


def _index(record, shape):
    """offset + partition * multiplier + steps * indices, [partitions, elements]."""
    parts = shape[0]
    flat = record["index"]
    value = np.zeros((1,), np.int64)
    for step, count in zip(flat[0::2], flat[1::2]):
        value = (value[..., None] + step * np.arange(count, dtype=np.int64))
    value = value.reshape(1, -1) + record.get("offset", 0)
    return value + record.get("channel_multiplier", 0) * np.arange(parts)[:, None]


def written_scales(record):
    """The parts of dst_scale that a quantize_mx writes: a row for eight partitions of the data, four at the
    begin of each quadrant."""
    scale, parts = record["dst_scale"], record["dst"]["parts"]
    for first in range(0, parts, 32):
        yield {**scale, "start": scale.get("start", 0) + first, "parts": min(4, (parts - first) // 8)}


class Interpreter:
    """One execution of a trace; results of the device replace its own after each comparison."""

    def __init__(self, memory):
        self.memory = memory
        self.accumulators = {"activation": None, "vector": None}

    def results(self, record):
        """[(operand, float64 values or bits, magnitude, is_bits)] of one record."""
        op = record["op"]
        method = getattr(self, op, None)
        if method is None:
            raise NotInterpreted(op)
        if has_indirection(record):
            return self._indirect_results(record)
        with np.errstate(all="ignore"):
            found = method(record)
        return found if isinstance(found, list) else [found]

    def _indirect_results(self, record):
        scatters = "index" in record.get("dst", {})
        if scatters and (record["op"] == "tensor_copy_predicated" or record.get("accumulate")):
            raise NotInterpreted("a scatter onto what is there")
        plain, offsets = on_plain_tiles(self.memory, record)
        found = self.results(plain)
        if scatters:
            found[0] = scattered(self.memory, whole(record["dst"]), offsets, *found[0][1:])
        return found

    def _read(self, record, key):
        return self.memory.read(record[key])

    def _plain(self, record, values, magnitude=None, key="dst"):
        return (record[key], values, np.abs(values) if magnitude is None else magnitude, False)

    def memset(self, r):
        view = self.memory.view(r["dst"])
        return self._plain(r, np.full((view.shape[0], view.size // view.shape[0]), float(r["value"])))

    def tensor_copy(self, r):
        if r["dst"]["dtype"] == r["src"]["dtype"]:
            return (r["dst"], self.memory.bits(r["src"]), None, True)
        return self._plain(r, self._read(r, "src"))

    def dma_copy(self, r):
        if r["dst"]["dtype"] == r["src"]["dtype"]:
            return (r["dst"], np.array(self.memory.view(r["src"])), None, True)
        return self._plain(r, self._read(r, "src"))

    def dma_transpose(self, r):
        view = self.memory.view(r["src"])
        return (r["dst"], np.array(np.swapaxes(view, 0, -1)), None, True)

    def dma_compute(self, r):
        parts = [self.memory.read(s).reshape(-1) for s in r["srcs"]]
        fold = ALU[r.get("alu", "add")]
        parts = [np.float64(np.float32(s)) * p for s, p in zip(r.get("scales", [1] * len(parts)), parts)]
        total = parts[0]
        for part in parts[1:]:
            total = fold(total, part)
        return self._plain(r, total, sum(np.abs(p) for p in parts))

    def _rows(self, r, table):
        index = self.memory.read(r["index"])[:, 0].astype(np.int64)
        raw = self.memory.bytes[r[table]["hbm"]][0]
        size = dtypes.SIZES[r[table]["dtype"]]
        count = math.prod(c for _, c in r[table]["pattern"])
        return [(r[table].get("offset", 0) + i * r["row_elements"] * size, count * size)
                for i in index], raw

    def dma_gather(self, r):
        places, raw = self._rows(r, "src")
        kind = dtypes.storage_type(r["src"]["dtype"])
        before = self.memory.bits(r["dst"])
        if r.get("accumulate") or r["dst"]["dtype"] != r["src"]["dtype"]:
            raise NotInterpreted("a gather that adds or casts")
        rows = [np.frombuffer(raw[p:p + n].tobytes(), kind) if p + n <= raw.size else before[i]
                for i, (p, n) in enumerate(places)]
        return (r["dst"], np.stack(rows), None, True)

    def dma_scatter(self, r):
        places, raw = self._rows(r, "dst")
        data = self.memory.bits(r["src"])
        if r.get("accumulate") or r["dst"]["dtype"] != r["src"]["dtype"]:
            raise NotInterpreted("a scatter that adds or casts")
        changed = raw.copy()
        for (p, n), row in zip(places, data):
            if p + n <= raw.size:
                changed[p:p + n] = np.frombuffer(row.tobytes(), np.uint8)
        whole = {"hbm": r["dst"]["hbm"], "dtype": "uint8", "offset": 0, "pattern": [[1, raw.size]]}
        return (whole, changed, None, True)

    def tensor_tensor(self, r):
        if r["alu"] in BITS:
            return (r["dst"], BITS[r["alu"]](self.memory.bits(r["data1"]),
                                             self.memory.bits(r["data2"])), None, True)
        a, b = self._read(r, "data1"), self._read(r, "data2")
        return self._plain(r, _alu(r["alu"], a, b), np.abs(a) + np.abs(b)
                           if r["alu"] in ("add", "subtract") else None)

    def tensor_scalar(self, r):
        if r["alu0"] in BITS:
            a = self.memory.bits(r["data"])
            for n in "01":
                if "alu" + n not in r or r["alu" + n] == "bypass":
                    continue
                operand = r.get("operand" + n, 0)
                b = self.memory.bits(operand)[:, :1] if isinstance(operand, dict) else np.array(
                    int(operand) & (1 << 8 * a.itemsize) - 1).astype(a.dtype)
                a = BITS[r["alu" + n]](b, a) if r.get("reverse" + n) else BITS[r["alu" + n]](a, b)
            return (r["dst"], a, None, True)
        value = self._read(r, "data")
        magnitude = np.abs(value)
        for n in "01":
            if "alu" + n in r:
                operand = self.memory.scalar(r.get("operand" + n, 0))
                value = _alu(r["alu" + n], value, operand, r.get("reverse" + n, False))
                # What cancels leaves the error of its terms.
                magnitude = (magnitude * np.abs(operand) if r["alu" + n] == "multiply" else
                             magnitude + np.abs(operand)) + np.abs(value)
        return self._plain(r, value, magnitude)

    def scalar_tensor_tensor(self, r):
        value = _alu(r["alu0"], self._read(r, "data"), self.memory.scalar(r["operand0"]),
                     r.get("reverse0", False))
        other = self._read(r, "operand1")
        result = _alu(r["alu1"], value, other, r.get("reverse1", False))
        terms = np.abs(self._read(r, "data")) + np.abs(self.memory.scalar(r["operand0"]))
        terms = terms * np.abs(other) if r["alu1"] == "multiply" else terms
        return self._plain(r, result, terms + np.abs(value) + np.abs(other) + np.abs(result))

    def _accumulate(self, which, command, values, op="add", initial=None):
        fold = {"add": np.sum, "maximum": np.max, "minimum": np.min,
                "multiply": np.prod}.get(op)
        if fold is None:
            raise NotInterpreted(f"a reduction with {op}")
        total = fold(values, axis=1, keepdims=True)
        before = self.accumulators[which]
        if command in ("reset_reduce",):
            self.accumulators[which] = total
        elif command == "reset":
            self.accumulators[which] = np.zeros_like(total)
        elif command == "reduce":
            self.accumulators[which] = total if before is None else ALU[op](before, total)
        elif command == "load_reduce":
            self.accumulators[which] = ALU[op](initial, total)
        return self.accumulators[which]

    def activation(self, r):
        value = self._read(r, "data") * self.memory.scalar(r.get("scale", 1))
        if "bias" in r:
            value = value + self.memory.scalar(r["bias"])
        if r["function"] == "prelu":
            raise NotInterpreted("prelu")
        result = FUNCTIONS[r["function"]](value)
        # An error of one unit in the argument is one of f'(x) x in the result.
        magnitude = np.abs(result) * (1 + np.abs(value) if r["function"] == "exp" else 1) + (
            np.abs(value) if r["function"] not in ("exp", "tanh", "sigmoid", "erf") else 1e-2)
        found = [self._plain(r, result, magnitude)]
        total = self._accumulate("activation", r.get("reduce_cmd", "idle"), result)
        if "reduce_res" in r and total is not None:
            found.append((r["reduce_res"], total, np.sum(magnitude, axis=1, keepdims=True), False))
        return found

    def tensor_scalar_reduce(self, r):
        value = _alu(r["alu0"], self._read(r, "data"), self.memory.scalar(r["operand0"]))
        found = [self._plain(r, value)]
        initial = self.memory.scalar(r["reduce_init"]) if "reduce_init" in r else None
        total = self._accumulate("vector", r.get("reduce_cmd", "reset_reduce"), value,
                                 r["reduce_op"], initial)
        if "reduce_res" in r:
            total = -total if r.get("negate") else total
            found.append((r["reduce_res"], total, np.sum(np.abs(value), 1, keepdims=True), False))
        return found

    def tensor_scalar_cumulative(self, r):
        if r.get("reduce_cmd") == "reduce":
            raise NotInterpreted("a continued cumulative operation")
        value = _alu(r["alu0"], self._read(r, "src"), self.memory.scalar(r["imm0"]))
        start = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -np.inf,
                 "minimum": np.inf}[r["alu1"]]
        if "imm1" in r:
            start = self.memory.scalar(r["imm1"])
        state = np.broadcast_to(start, (value.shape[0], 1)).copy()
        out = np.empty_like(value)
        for i in range(value.shape[1]):
            state = _alu(r["alu1"], value[:, i:i + 1], state)
            out[:, i:i + 1] = state
        return self._plain(r, out, np.cumsum(np.abs(value), 1) + np.abs(out))

    def tensor_reduce(self, r):
        view = self.memory.read(r["data"])
        counts = [c for _, c in r["data"]["pattern"]]
        inner = math.prod(counts[len(counts) - r["axes"]:])
        if r["alu"] in BITS:
            raise NotInterpreted("a reduction of bits")
        grouped = view.reshape(view.shape[0], -1, inner)
        fold = {"add": np.sum, "maximum": np.max, "minimum": np.min, "multiply": np.prod,
                "abs_max": lambda v, axis: np.max(np.abs(v), axis=axis)}.get(r["alu"])
        if fold is None:
            raise NotInterpreted(r["alu"])
        value = fold(grouped, axis=2)
        return self._plain(r, -value if r.get("negate") else value,
                           np.sum(np.abs(grouped), axis=2) if r["alu"] == "add" else None)

    def tensor_tensor_scan(self, r):
        a, b = self._read(r, "data0"), self._read(r, "data1")
        state = np.broadcast_to(self.memory.scalar(r["initial"]), (a.shape[0], 1))
        out, magnitude = np.empty_like(a), np.empty_like(a)
        size = np.abs(state)
        for i in range(a.shape[1]):
            state = _alu(r["alu0"], a[:, i:i + 1], state, r.get("reverse0", False))
            state = _alu(r["alu1"], state, b[:, i:i + 1], r.get("reverse1", False))
            size = np.abs(a[:, i:i + 1]) * size + np.abs(b[:, i:i + 1]) + np.abs(state)
            out[:, i:i + 1], magnitude[:, i:i + 1] = state, size
        return self._plain(r, out, magnitude)

    def reciprocal(self, r):
        return self._plain(r, 1 / self._read(r, "data"))

    def tensor_copy_predicated(self, r):
        mask = (self._read(r, "predicate") != 0) != r.get("reverse_pred", False)
        source = self.memory.scalar(r["src"]) if not isinstance(r["src"], dict) else (
            self.memory.read(r["src"]))
        return self._plain(r, np.where(mask, source, self._read(r, "dst")))

    def _with_maximum(self, r, value, absent):
        found = [self._plain(r, value)]
        total = self._accumulate("vector", r.get("reduce_cmd", absent), value, "maximum")
        if "reduce_res" in r and total is not None:
            found.append((r["reduce_res"], total, np.abs(value).max(1, keepdims=True), False))
        return found

    def select_reduce(self, r):
        mask = (self._read(r, "predicate") != 0) != r.get("reverse_pred", False)
        value = np.where(mask, self._read(r, "on_true"), self.memory.scalar(r["on_false"]))
        return self._with_maximum(r, value, "idle")

    def range_select(self, r):
        value = self._read(r, "on_true")
        position = r["range_start"] + np.arange(value.shape[1])[None]
        mask = (_alu(r["comp_op0"], position, self.memory.scalar(r["bound0"]))
                * _alu(r["comp_op1"], position, self.memory.scalar(r["bound1"]))) != 0
        value = np.where(mask, value, float(np.finfo(np.float32).min))
        return self._with_maximum(r, value, "reset_reduce")

    def nonzero_with_count(self, r):
        data, out = self._read(r, "src"), self._read(r, "dst").copy()
        for p in range(0, data.shape[0], 16):
            places = np.flatnonzero(data[p])
            out[p] = r["padding_val"]
            out[p, :len(places)] = places + r["index_offset"]
            out[p, -1] = len(places)
        return self._plain(r, out)

    def bn_stats(self, r):
        data = self._read(r, "data")
        columns = []
        for part in (data[:, 0::2], data[:, 1::2]):
            n = part.shape[1]
            mean = part.mean(1) if n else np.zeros(data.shape[0])
            columns += [np.full(data.shape[0], float(n)), mean,
                        part.var(1) * n if n else np.zeros(data.shape[0])]
        return self._plain(r, np.stack(columns, 1),
                           np.sum(data * data, 1, keepdims=True) + np.ones((1, 6)))

    def bn_aggr(self, r):
        data = self._read(r, "data").reshape(self._read(r, "data").shape[0], -1, 3)
        count, mean, spread = data[..., 0], data[..., 1], data[..., 2]
        total = count.sum(1)
        middle = (count * mean).sum(1) / total
        variance = (spread + count * (mean - middle[:, None])**2).sum(1) / total
        return self._plain(r, np.stack([middle, variance], 1),
                           np.stack([np.abs(mean).max(1), variance + middle**2], 1))

    def iota(self, r):
        view = self.memory.view(r["dst"])
        return self._plain(r, _index(r, view.shape).astype(np.int32).astype(np.float64))

    def affine_select(self, r):
        value = self._read(r, "on_true")
        chosen = _alu(r["compare"], _index(r, value.shape).astype(np.float64), 0.0) != 0
        return self._plain(r, np.where(chosen, value, self.memory.scalar(r["on_false"])))

    def tensor_partition_reduce(self, r):
        data = self._read(r, "data")
        fold = {"add": np.sum, "maximum": np.max, "average": np.mean}.get(r["alu"])
        if fold is None:
            raise NotInterpreted(r["alu"])
        return self._plain(r, fold(data, axis=0)[None], np.sum(np.abs(data), 0)[None])

    def nc_n_gather(self, r):
        index = self._read(r, "indices").astype(np.int64)
        return self._plain(r, np.take_along_axis(self._read(r, "data"), index, 1))

    def local_gather(self, r):
        data, index = self._read(r, "src_buffer"), self._read(r, "index").astype(np.int64)
        per = r.get("num_elem_per_idx", 1)
        valid = r.get("num_valid_indices", index.shape[1] * 16)
        out = []
        for group in range(0, data.shape[0], 16):
            flat = index[group:group + 16].T.reshape(-1)[:valid]
            columns = (flat[:, None] + np.arange(per)[None]).reshape(-1)
            out.append(data[group:group + 16][:, columns])
        return self._plain(r, np.concatenate(out))

    def max8(self, r):
        return self._plain(r, -np.sort(-self._read(r, "src"), axis=1)[:, :8])

    def nc_find_index8(self, r):
        data, wanted = self._read(r, "data"), self._read(r, "vals")
        none = 2**(8 * dtypes.SIZES[r["dst"]["dtype"]]) - 1
        out = np.full(wanted.shape, none, np.float64)
        for p in range(data.shape[0]):
            used = set()
            for i, value in enumerate(wanted[p]):
                for at in np.flatnonzero(data[p] == value):
                    if at not in used:
                        used.add(at)
                        out[p, i] = at
                        break
        return self._plain(r, out)

    def nc_match_replace8(self, r):
        data, wanted = self._read(r, "data").copy(), self._read(r, "vals")
        where = np.full(wanted.shape, 2.0**32 - 1)
        for p in range(data.shape[0]):
            for i in range(7, -1, -1):
                hits = np.flatnonzero(data[p] == wanted[p, i])
                if len(hits):
                    data[p, hits[0]] = self.memory.scalar(r["imm"])
                    where[p, i] = hits[0]
        found = [self._plain(r, data)]
        if "dst_idx" in r:
            found.append((r["dst_idx"], where, where, False))
        return found

    def nc_stream_shuffle(self, r):
        data, out = self.memory.bits(r["src"]), self.memory.bits(r["dst"])
        for p in range(out.shape[0]):
            row = r["mask"][p % 32]
            if row != 255 and p // 32 * 32 + row < data.shape[0]:
                out[p] = data[p // 32 * 32 + row]
        return (r["dst"], out, None, True)

    def nc_transpose(self, r):
        return (r["dst"], self.memory.bits(r["data"]).T, None, True)

    def nc_matmul(self, r):
        left, right = self._read(r, "stationary"), self._read(r, "moving")
        if r.get("is_transpose"):
            return (r["dst"], self.memory.bits(r["stationary"]).T, None, True)
        if r.get("perf_mode") == "double_row":  # Both rows are more of the depth
            left, right = (np.concatenate(np.split(m, 2, axis=1)) for m in (left, right))
        value, magnitude = left.T @ right, np.abs(left).T @ np.abs(right)
        before = self._read(r, "dst")
        adds = self._adds(r)
        value = value.reshape(before.shape) + np.where(adds, before, 0)
        return self._plain(r, value, magnitude.reshape(before.shape) + np.where(adds, np.abs(before), 0))

    def _scales(self, operand, parts):
        """Bytes of the scales of each data partition, [parts, elements], as a view to read or change."""
        view = self.memory.view(operand)
        if view.ndim != 2:
            raise NotInterpreted("scales in more than two dimensions")
        return view, [p // 32 * 32 + p % 32 // 8 for p in range(parts)]

    def _scaled(self, elements, scales):
        """A block-scaled matrix as float64, [partitions, elements, 4]."""
        codes = dtypes.to_float32(dtypes.Encoded(self.memory.bits(elements), elements["dtype"]))
        codes = codes.astype(np.float64).reshape(codes.shape[0], -1, 4)
        view, rows = self._scales(scales, codes.shape[0])
        bits = view[rows].astype(int)
        return codes * np.where(bits == 255, np.nan, np.ldexp(1.0, bits - 127))[..., None]

    def nc_matmul_mx(self, r):
        left, right = (self._scaled(r[k], r[k + "_scale"]) for k in ("stationary", "moving"))
        value, magnitude = (np.einsum("pmj,pnj->mn", a, b) for a, b in (
            (left, right), (np.abs(left), np.abs(right))))
        before = self._read(r, "dst")
        adds = self._adds(r)
        value = value.reshape(before.shape) + np.where(adds, before, 0)
        return self._plain(r, value, magnitude.reshape(before.shape) + np.where(adds, np.abs(before), 0))

    def quantize_mx(self, r):
        data = self._read(r, "src")
        parts, kind = data.shape[0], dtypes.CODES[r["dst"]["dtype"]]
        blocks = data.reshape(parts // 8, 8, -1, 4)
        largest = np.max(np.abs(np.nan_to_num(blocks, nan=0.0, posinf=np.inf, neginf=np.inf)), axis=(1, 3))
        if not np.isfinite(largest).all():
            raise NotInterpreted("quantize_mx of infinities")
        emax = 8 if kind == "float8_e4m3fn" else 15
        exponent = np.frexp(largest)[1] - 1 - emax + 1
        scale = np.where(largest == 0, 0, np.clip(exponent + 127, 0, 254))
        scaled = blocks / np.ldexp(1.0, scale - 127)[:, None, :, None]
        codes = np.asarray(dtypes.encode(scaled.reshape(parts, -1), kind)).view(np.uint8)
        self._scales(r["dst_scale"], parts)  # Refuses shapes that are not compared
        found = [(r["dst"], np.ascontiguousarray(codes).view(np.uint32), None, True)]
        for number, operand in enumerate(written_scales(r)):
            found.append((operand, scale[4 * number:4 * number + operand["parts"]], None, True))
        return found

    def exponential(self, r):
        data, most = self._read(r, "src"), self.memory.scalar(r.get("max_value", 0))
        result = np.exp(data - most)
        magnitude = result * (1 + np.abs(data) + np.abs(most))
        found = [self._plain(r, result, magnitude)]
        initial = self.memory.scalar(r["reduce_init"]) if "reduce_init" in r else None
        total = self._accumulate("vector", r.get("reduce_cmd", "idle"), result, initial=initial)
        if "reduce_res" in r and total is not None:
            found.append((r["reduce_res"], total, np.sum(magnitude, axis=1, keepdims=True), False))
        return found

    def activate2(self, r):
        if r["function"] == "prelu" or r.get("reduce_op") in ("abs_max", "abs_min"):
            raise NotInterpreted("activate2 of prelu, or with abs_max or abs_min")
        value = self._read(r, "data")
        terms = np.abs(value)
        for n in "01":
            if r["alu" + n] != "bypass":
                operand = self.memory.scalar(r["operand" + n])
                value = _alu(r["alu" + n], value, operand, r.get("reverse" + n, False))
                terms = terms * np.abs(operand) if r["alu" + n] == "multiply" else terms + np.abs(operand)
        result = FUNCTIONS[r["function"]](value)
        magnitude = np.abs(result) * (1 + terms if r["function"] == "exp" else 1) + terms
        found = [self._plain(r, result, magnitude)]
        total = self._accumulate("activation", r.get("reduce_cmd", "idle"), result, r.get("reduce_op", "add"))
        if "reduce_res" in r and total is not None:
            found.append((r["reduce_res"], total, np.sum(magnitude, axis=1, keepdims=True), False))
        return found

    def _adds(self, r):
        """Which elements of the destination a product adds to."""
        if "accumulate" in r:
            return r["accumulate"]
        tile = r["dst"]["tile"]
        marks = self.memory.written.setdefault(("product", tile), np.zeros(
            self.memory.bytes[tile].shape, bool))
        place = dict(r["dst"])
        view = np.ndarray(
            [place["parts"]] + [c for _, c in place["pattern"]], bool, marks,
            place.get("start", 0) * marks.shape[1] + place.get("offset", 0),
            [marks.shape[1]] + [dtypes.SIZES[place["dtype"]] * s for s, _ in place["pattern"]])
        adds = view.reshape(view.shape[0], -1).copy()
        view[...] = True
        return adds

    def rng(self, r):
        raise NotInterpreted("rng")

    rand2 = dropout = topk = sequence_bounds = rng

    def set_rng_seed(self, r):
        return []
