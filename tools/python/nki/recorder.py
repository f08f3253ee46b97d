# SPDX-License-Identifier: Apache-2.0
"""The trace of one kernel while its Python runs, and the file that it becomes.

tools/compiler/nki/TRACE.md describes the file. One recorder is current in a thread while a kernel
is traced; nki.language and nki.isa write to it.
"""
import contextlib
import json
import math
import os
import threading

import numpy as np

from .dtypes import GENERATION_4, array_dtype, dtype_of, native
from .errors import NkiError, assigned_name, caller, place, refuse, shown
from .tensor import HBM, PSUM, SBUF, NkiTensor, Storage, row_major

_current = threading.local()

GENERATIONS = {"trn1": 2, "inf2": 2, "trn2": 3, "trn3": 4}
SBUF_BYTES = {2: 192 << 10, 3: 224 << 10, 4: 256 << 10}
PSUM_BYTES, PSUM_BANK_BYTES, PARTITIONS = 16 << 10, 2 << 10, 128


def current():
    """The recorder of the kernel that is being traced."""
    recorder = getattr(_current, "recorder", None)
    if recorder is None:
        raise NkiError(f"{place()}: this call belongs into a kernel: a function under @nki.jit")
    return recorder


def tracing():
    return getattr(_current, "recorder", None) is not None


def wrote(tensor):
    """Notes on its storage that a view is written."""
    storage = tensor.storage
    storage.written += tensor.size
    storage.narrowest = min(storage.narrowest, tensor.itemsize)


class Recorder:
    """Collects records; see the module's text."""

    def __init__(self, kernel, target, grid=(), program=(), rank=0, ranks=1):
        self.kernel = kernel
        self.rank, self.ranks = rank, ranks
        self.target = target
        self.generation = GENERATIONS[target]
        self.grid = grid
        self.program = program
        self.records = []
        self.files = {}
        self.storages = 0
        self.names = set()
        self.prints = []
        self.files_read = {}  # Of constants: path and state
        self.constants = {}
        self.spaces, self.sizes = {}, {}
        self.segments = []  # (program's number, phase, first record), in order
        self.shared, self.shared_next = [], {}
        self.pair = None
        self.exchanges = []  # sendrecv of both programs: that of the earlier one, that of the later
        self.twice = []  # What both programs of a pair wrote of a loop, and one core does once
        self.in_time = None  # Of two programs with a core each: all records in the order of their Python
        self.open_loops, self.while_words = [], {}
        self.both_cores = False
        self.notes = []
        self.ended = False
        self.no_reorder = False  # The kernel forbids that calls wait for room

    def files_changed(self):
        """Whether a file of constants is another one than when the kernel was traced."""
        return any(_state(path) != state for path, state in self.files_read.items())

    def __enter__(self):
        self.outer = getattr(_current, "recorder", None)
        _current.recorder = self
        return self

    def __exit__(self, *unused):
        _current.recorder = self.outer
        self.ended = True

    def begin(self, program, number, phase):
        """The records that follow are those of this program of the grid. Programs do not order what
        they do in one phase."""
        self.program, self.number = program, number
        self.segments.append((number, phase, len(self.records)))

    @contextlib.contextmanager
    def in_this_thread(self):
        _current.recorder = self
        try:
            yield
        finally:
            _current.recorder = None

    def shared_tensor(self, shape, dtype, name, position):
        """A tensor in shared HBM: the programs of a grid make it together, in the same order."""
        number = self.shared_next.get(self.number, 0)
        self.shared_next[self.number] = number + 1
        if number < len(self.shared):
            storage = self.shared[number]
            if storage.shape != tuple(shape) or storage.dtype != dtype:
                refuse(f"the programs of a grid make the same tensors in nl.shared_hbm, in the same "
                       f"order; the first one made {storage.dtype}{list(storage.shape)} here, this "
                       f"one {dtype}{list(shape)}")
        else:
            storage = Storage(self, HBM, tuple(shape), dtype, str(name), position)
            self.shared.append(storage)
        return NkiTensor(storage, storage.shape, row_major(storage.shape), 0, storage.dtype)

    # Memory.
    def at(self, position):
        file, line = position
        return [self.files.setdefault(file, len(self.files)), line]

    def unique(self, name):
        base, number = name or "tensor", 1
        name = base
        while name in self.names:
            number += 1
            name = f"{base}.{number}"
        self.names.add(name)
        return name

    def declare(self, storage):
        identity = self.storages
        self.storages += 1
        record = {"op": "tile" if storage.on_chip else "hbm", "id": identity,
                  "at": self.at(storage.position)}
        if storage.on_chip:
            record.update(space=storage.space, name=storage.name, parts=storage.shape[0],
                          columns=storage.columns, dtype=str(storage.dtype))
        else:
            storage.name = self.unique(storage.name)
            record.update(name=storage.name, kind="temporary", dtype=str(storage.dtype),
                          shape=list(storage.shape))
        storage.record = record
        self.spaces[identity] = storage.space
        self.sizes[identity] = math.prod(storage.shape) * storage.dtype.itemsize
        self.records.append(record)
        return identity

    def remove(self, record):
        """Takes a record out, which is one of the last."""
        at = next(n for n in range(len(self.records) - 1, -1, -1) if self.records[n] is record)
        del self.records[at]
        self._shift_segments(at, -1)

    def declare_before(self, storage, record):
        """Makes a tile in front of a record, which is one of the last, if it was made behind it."""
        for at in range(len(self.records) - 1, -1, -1):
            if self.records[at] is record:
                return
            if self.records[at] is storage.record:
                self.remove(storage.record)
                before = next(n for n in range(at - 1, -1, -1) if self.records[n] is record)
                self.records.insert(before, storage.record)
                self._shift_segments(before, 1)
                return

    def _shift_segments(self, at, count):
        self.segments = [(number, phase, first + count if first > at else first)
                         for number, phase, first in self.segments]

    def restore(self, storage):
        """A result that went into another tile is named by itself: the instruction is done twice."""
        record, before = storage.moved
        at = next(n for n, r in enumerate(self.records) if r is record)
        self.records[at:at] = [storage.record, before]
        self._shift_segments(at, 2)
        storage.identity, storage.moved = storage.record["id"], None

    def free(self, storage):
        if not self.ended:
            self.records.append({"op": "free", "id": storage.identity})

    def end_tiles_with_last_use(self):
        """Makes each tile before the first record that names it and frees it behind the last one, not
        where Python makes and drops it."""
        first, last, made = {}, {}, {}
        for number, record in enumerate(self.records):
            if record["op"] == "tile":
                made[record["id"]] = record
            for value in record.values():
                for operand in value if isinstance(value, list) else [value]:
                    if isinstance(operand, dict) and "tile" in operand:
                        first.setdefault(operand["tile"], number)
                        last[operand["tile"]] = number
        begun, freed = {}, {}
        for identity, number in last.items():
            begun.setdefault(first[identity], []).append(made[identity])
            freed.setdefault(number, []).append({"op": "free", "id": identity})
        records = []
        for number, record in enumerate(self.records):
            records += begun.get(number, [])
            if record["op"] not in ("free", "tile"):
                records.append(record)
            records += freed.get(number, [])
        self.records = records

    def tensor(self, shape, dtype, space, name=None, address=None, position=None, shared=False):
        """A new tensor; `space` is SBUF, PSUM or HBM."""
        position = position or caller()
        shape = tuple(int(s) for s in shape) or (1,)
        dtype = dtype_of(dtype)
        if any(s < 1 for s in shape):
            refuse(f"a tensor of shape {list(shape)}: every dimension must have an element")
        if dtype in GENERATION_4 and self.generation < 4:
            refuse(f"{dtype} is of generation 4 (trn3), and the target is {self.target}")
        if space != HBM:
            if len(shape) == 1:
                shape = (shape[0], 1)
            if shape[0] > PARTITIONS:
                refuse(f"a tile of shape {list(shape)} in {space.upper()} has {shape[0]} "
                       f"partitions; the first dimension is at most {PARTITIONS}")
        name = name or assigned_name(position, "tile" if space != HBM else "tensor")
        if shared and space == HBM and self.segments:
            return self.shared_tensor(shape, dtype, name, position)
        storage = Storage(self, space, shape, dtype, str(name), position)
        if address is not None:
            storage.record["address"] = [int(address[0]), int(address[1])]
        return NkiTensor(storage, shape, row_major(shape), 0, dtype)

    def constant(self, values):
        """A tensor in HBM whose values are a part of the trace; the same values are kept once."""
        if isinstance(values, (str, os.PathLike)):
            path = os.path.abspath(values)
            self.files_read[path] = _state(path)
            values = np.load(path)
        given = native(np.asanyarray(values))
        dtype = array_dtype(given)
        array = np.ascontiguousarray(given)  # Which is no nki.Encoded any more
        key = (str(dtype), array.shape, array.tobytes())
        known = self.constants.get(key)
        if known is None:
            known = self.tensor(array.shape or (1,), dtype, HBM)
            known.storage.constant = array
            known.storage.record.update(kind="constant", data=array.tobytes().hex())
            self.constants[key] = known
        return known

    def print_later(self, prefix, tensor):
        """Keeps the present values for the caller, who prints them after the execution."""
        from . import isa
        copy = self.tensor(tensor.shape, tensor.dtype, HBM, "printed")
        if tensor.storage.space == PSUM:
            staged = self.tensor(tensor.shape, tensor.dtype, SBUF)
            isa.tensor_copy(staged, tensor)
            tensor = staged
        isa.dma_copy(copy, tensor)
        self.prints.append((str(prefix), copy.storage))

    # Operands.
    def operand(self, tensor, what, write=False):
        if not isinstance(tensor, NkiTensor):
            refuse(f"{what} is {type(tensor).__name__}; expected a tensor of the kernel")
        if tensor.storage.recorder is not self:
            refuse(f"{what} is a tensor of another kernel")
        if tensor.dynamic is not None:
            refuse(f"{what} is reached by an index that the device computes; only transfers do that")
        if write:
            wrote(tensor)
        return self.plain_operand(tensor, what)

    def plain_operand(self, tensor, what):
        if tensor.offsets is not None:
            base, index = tensor.offsets
            return {**self.plain_operand(base, what), "elements": tensor.shape[1],
                    "index": self.operand(index, "the index of " + what)}
        if tensor.beyond is not None:
            whole, index = tensor.beyond
            dim = next(d for d, i in enumerate(index) if i.min() < 0 or i.max() >= whole.shape[d])
            refuse(f"{what}: index {int(index[dim].min())} to {int(index[dim].max())} leaves "
                   f"dimension {dim} of {whole!r}; a mask leaves elements out")
        if not tensor.size:
            refuse(f"{what}: {tensor!r} has no element; skip the call where nothing is to do")
        storage, size = tensor.storage, tensor.dtype.itemsize
        if storage.identity is None:
            self.restore(storage)
        pattern = [[step, count] for step, count in zip(tensor.strides, tensor.shape)]
        if not storage.on_chip:
            return {"hbm": storage.identity, "dtype": str(tensor.dtype),
                    "offset": tensor.offset * size, "pattern": pattern}
        row = storage.columns * storage.dtype.itemsize // size
        start, column = divmod(tensor.offset, row)
        step, parts = pattern[0] if pattern else [row, 1]
        if parts > 1 and step != row:
            refuse(f"{what}: the partitions of {tensor!r} are not neighbours (a step of {step} "
                   f"elements, {row} to the next partition)")
        return {"tile": storage.identity, "dtype": str(tensor.dtype), "start": start,
                "parts": parts, "offset": column * size, "pattern": pattern[1:]}

    def scalar(self, value, what):
        if isinstance(value, NkiTensor):
            return self.operand(value, what)
        return number(value, what)

    def emit(self, op, engine=None, **fields):
        record = {"op": op, "at": self.at(caller())}
        if engine is not None:
            record["engine"] = engine
        for key, value in fields.items():
            if value is not None:
                record[key] = value
        self.records.append(record)
        return record

    def text(self):
        """The trace file."""
        files = [shown(file) for file in self.files]
        header = {"op": "nki_trace", "version": 1, "kernel": self.kernel, "target": self.target,
                  "files": files}
        if not self.no_reorder:
            header["order"] = "free"
        dumps = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
        return "\n".join([dumps(header)] + [dumps(record) for record in self.records]) + "\n"


def _state(path):
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def number(value, what="a number"):
    """A number as JSON has it."""
    try:
        value = float(value)
    except (TypeError, ValueError):
        refuse(f"{what} is {value!r}; expected a number or a tile")
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if math.isnan(value):
        return "nan"
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def space_of(buffer):
    """SBUF, PSUM or HBM, from any way to write a memory region."""
    name = str(getattr(buffer, "value", buffer)).rsplit(".", 1)[-1]
    if name in ("sbuf", "psum"):
        return SBUF if name == "sbuf" else PSUM
    if name in ("hbm", "private_hbm", "shared_hbm"):
        return HBM
    refuse(f"buffer = {buffer!r}; expected nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm")
