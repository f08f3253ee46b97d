# SPDX-License-Identifier: Apache-2.0
"""Executes NEFFs through libnrt.so.1, by ctypes. Arrays go to and from the device without a copy
in Python.

The device is an emulated one unless NEURON_EMULATOR says otherwise: a name of an instance type, or
unix:PATH of a daemon; empty, the host's /dev/neuron*. One process uses one device type.
"""
import atexit
import ctypes
import importlib.util
import os
import re
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from . import compiler, dtypes
from .errors import DeviceError


def _shared():
    """neuron/libnrt.py beside this package, even where another package is called neuron."""
    path = Path(__file__).resolve().parents[1] / "neuron" / "libnrt.py"
    spec = importlib.util.spec_from_file_location("nki._libnrt", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_libnrt = _shared()
_EMULATED = {"trn1": "trn1.2xlarge", "inf2": "inf2.xlarge", "trn2": "trn2.3xlarge",
             "trn3": "trn3pd98.3xlarge"}
_LARGE = {"trn1": "trn1.32xlarge", "inf2": "inf2.48xlarge", "trn2": "trn2.48xlarge",
          "trn3": "trn3s.48xlarge"}
_RANKS_OF_ONE_DEVICE = {"trn1": 2, "inf2": 2, "trn2": 4, "trn3": 4}  # Its virtual cores
ENGINES = _libnrt.ENGINES
Report = _libnrt.Report
_SUCCESS = _libnrt.SUCCESS


class _Session(_libnrt.Library):
    """libnrt, initialised once in this process."""

    def __init__(self, target, ranks):
        self.target = target
        fits = ranks <= _RANKS_OF_ONE_DEVICE[target]
        ours = "NEURON_EMULATOR" not in os.environ
        os.environ.setdefault("NEURON_EMULATOR", (_EMULATED if fits else _LARGE)[target])
        if os.environ["NEURON_EMULATOR"] == "":
            del os.environ["NEURON_EMULATOR"]
        os.environ.setdefault("NEURON_RT_LOG_LEVEL_NRT", "QUIET")
        if "NEURON_RT_VISIBLE_CORES" not in os.environ:
            # All of the device: a later kernel may have more ranks.
            os.environ.setdefault("NEURON_RT_NUM_CORES",
                                  str(max(ranks, _RANKS_OF_ONE_DEVICE[target])))
        # Virtual cores that this process has.
        self.cores = int(os.environ.get("NEURON_RT_NUM_CORES", ranks))
        super().__init__(compiler.root(), DeviceError)
        try:
            self.open()
        except DeviceError as error:
            emulator = os.environ.get("NEURON_EMULATOR")
            if ours or emulator is None:
                raise
            # What was asked for was chosen for the target, which the user may not have chosen.
            raise DeviceError(f"{error}; the kernel is for {target}, and NEURON_EMULATOR={emulator} "
                              "says which device there is: unset it, or give another target") from None
        atexit.register(self.close)


def located(sentence, tiles):
    """The runtime's sentence, with the line of Python in front and the tile of the place behind."""
    where = re.search(r"\(([^()\s]+:\d+)[,)]", sentence)
    rule = re.search(r"with ([A-Z_]{3,})", sentence)
    text = ""
    if where:
        text = where.group(1) + ": " + (rule.group(1) + ": " if rule else "")
    byte = re.search(r"partition (\d+) byte (0x[0-9a-f]+) of (SBUF|PSUM)", sentence)
    names = []
    if byte:
        partition, offset = int(byte.group(1)), int(byte.group(2), 16)
        for name, file, line, psum, start, parts, base, size in tiles:
            if psum == (byte.group(3) == "PSUM") and start <= partition < start + parts and (
                    base <= offset < base + size):
                names.append(f"\"{name}\" ({file}:{line})")
    names = list(dict.fromkeys(names))[:3]
    if names:
        text += f"in tile {' or '.join(names)}: "
    return text + sentence


_session = None
_one_at_a_time = threading.Lock()


def together(calls):
    """Calls each of them in a thread of its own; their results, or the first error."""
    with ThreadPoolExecutor(max_workers=len(calls)) as threads:
        futures = [threads.submit(call) for call in calls]
    return [future.result() for future in futures]


def session(target, ranks=1):
    global _session
    with _one_at_a_time:
        if _session is None:
            _session = _Session(target, ranks)
    if ranks > _session.cores:
        raise DeviceError(f"the kernel has {ranks} ranks, and this process took {_session.cores} of the "
                          "device's virtual cores when it first executed; set NEURON_RT_NUM_CORES before")
    if _session.target != target:
        raise DeviceError(f"this process executes on {_session.target} already, and the kernel is for "
                          f"{target}; use another process")
    return _session


def _release(lib, model, sets, tensors):
    for one in sets:
        if one:
            lib.nrt_destroy_tensor_set(ctypes.byref(one))
    for tensor, _ in tensors.values():
        lib.nrt_tensor_free(ctypes.byref(tensor))
    if model:
        lib.nrt_unload(model)


class Executable:
    """A loaded NEFF with tensors for its inputs and outputs."""

    def __init__(self, compiled, target, inputs, outputs, cores=1, place=(0, 1)):
        self.cores = cores
        self.rank, ranks = place
        self.session = session(target, ranks)
        self.tiles = compiled.report.get("tiles", [])
        self.inputs, self.outputs = inputs, outputs
        lib, check = self.session.library, self.session.check
        self.model = ctypes.c_void_p()
        self.input_set, self.output_set = ctypes.c_void_p(), ctypes.c_void_p()
        self.tensors = {}
        # The device's memory goes with the kernel; at the end of the process, with the session.
        weakref.finalize(self, _release, lib, self.model, (self.input_set, self.output_set),
                         self.tensors).atexit = False
        neff, model = (compiled.neff, len(compiled.neff)), ctypes.byref(self.model)
        check(lib.nrt_load(*neff, 0, 1, model) if ranks == 1 else
              lib.nrt_load_collectives(*neff, self.rank, 1, self.rank, ranks, model),
              "loading the kernel")
        check(lib.nrt_allocate_tensor_set(ctypes.byref(self.input_set)), "a set of tensors")
        check(lib.nrt_allocate_tensor_set(ctypes.byref(self.output_set)), "a set of tensors")
        for storage in inputs:
            self._add(self.input_set, storage.name, storage)
        for storage in outputs:
            changed = storage.argument is not None
            if changed and not storage.written:
                continue
            name = storage.name + ".after" if changed else storage.name
            self._add(self.output_set, name, storage)
            self._poison(name, storage)

    def _add(self, tensors, name, storage):
        lib, check = self.session.library, self.session.check
        size = int(np.prod(storage.shape)) * storage.dtype.itemsize
        tensor = ctypes.c_void_p()
        check(lib.nrt_tensor_allocate(0, self.rank, size, name.encode(), ctypes.byref(tensor)),
              f"memory for {name}")
        self.tensors[name] = (tensor, size)
        for suffix in ("", "@1")[:self.cores]:
            check(lib.nrt_add_tensor_to_tensor_set(tensors, (name + suffix).encode(), tensor), name)

    def _filling(self, name, storage, other=False):
        """What the kernel does not write is NaN, or 4 in integers, as in NKI's simulator; the other one has no bit
        in common with it."""
        _, size = self.tensors[name]
        kind = str(storage.dtype)
        if kind in ("float32", "tfloat32", "float16"):
            value = np.full(1, np.nan, "float16" if kind == "float16" else "float32")
        elif kind == "bfloat16":
            value = np.full(1, 0x7FC0, np.uint16)
        elif kind == "float8_e8m0fnu":
            value = np.full(1, 0xFF, np.uint8)
        elif kind.startswith("float8"):
            value = np.full(1, 0x7F, np.uint8)
        else:
            value = np.full(1, 4, dtypes.storage_type(kind))
        value = value.view(np.uint8)
        return np.tile(~value if other else value, size // value.itemsize // value.size)

    def _poison(self, name, storage, other=False):
        tensor, size = self.tensors[name]
        self._write(tensor, self._filling(name, storage, other), size, name)

    def never_written(self):
        """Of each new output that was executed once, which bytes kept two different fillings; only where bytes that are
        written together kept the first does the device execute again."""
        outputs = [storage for storage in self.outputs if storage.argument is None]
        kept = {storage: self._keeps(storage) for storage in outputs}
        suspected = [storage for storage in outputs if kept[storage].any()]
        for storage in suspected:
            self._poison(storage.name, storage, True)
        if suspected:
            self.repeat()
        for storage in suspected:
            kept[storage] &= self._keeps(storage, True)
            self._poison(storage.name, storage)  # As a later call expects it
        return kept

    def _keeps(self, storage, other=False):
        filling = self._filling(storage.name, storage, other)
        found = np.empty_like(filling)
        self._read(storage, found.ctypes.data_as(ctypes.c_void_p))
        # The bytes of the narrowest element that a view of it wrote are written together or not at all.
        unit = min(storage.dtype.itemsize, storage.narrowest)
        return (found == filling).reshape(-1, unit).all(axis=-1).repeat(unit)

    def _write(self, tensor, array, size, name):
        if array.nbytes != size:
            raise DeviceError(f"writing {name}: the array has {array.nbytes} bytes, the tensor {size}")
        pointer = array.ctypes.data_as(ctypes.c_void_p)
        self.session.check(self.session.library.nrt_tensor_write(tensor, pointer, 0, size),
                           f"writing {name}")

    def execute(self, arrays):
        for storage, array in zip(self.inputs, arrays):
            tensor, size = self.tensors[storage.name]
            self._write(tensor, np.ascontiguousarray(dtypes.native(array)), size, storage.name)
        return self.repeat()

    def repeat(self):
        """Executes with the inputs that the device has."""
        lib = self.session.library
        status = lib.nrt_execute(self.model, self.input_set, self.output_set)
        if status != _SUCCESS:
            raise DeviceError(located(self.session.last_error(), self.tiles))
        return self.session.report(self.model)

    def _read(self, storage, pointer):
        changed = storage.argument is not None and storage.written
        name = storage.name + ".after" if changed else storage.name
        tensor, size = self.tensors[name]
        self.session.check(self.session.library.nrt_tensor_read(tensor, pointer, 0, size),
                           f"reading {name}")

    def output(self, storage):
        """A new array with the values of an output."""
        kind = dtypes.storage_type(storage.dtype)
        bits = np.empty(storage.shape, kind)
        self._read(storage, bits.ctypes.data_as(ctypes.c_void_p))
        return dtypes.from_bytes(bits, storage.dtype, storage.shape)

    def read_into(self, storage, array):
        if array.flags.c_contiguous and array.dtype.isnative:
            self._read(storage, array.ctypes.data_as(ctypes.c_void_p))
        else:
            array[...] = self.output(storage)


def load(compiled, target, inputs, outputs, cores=1, place=(0, 1)):
    return Executable(compiled, target, inputs, outputs, cores, place)
