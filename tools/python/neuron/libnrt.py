# SPDX-License-Identifier: Apache-2.0
"""libnrt.so.1 by ctypes: the functions that Python code of this project calls, and their errors.

One process initialises the runtime once. Callers hold its handles as ctypes.c_void_p.
"""
import ctypes
import os
from pathlib import Path

SUCCESS = 0
ENGINES = ("PE", "Activation", "Pool", "DVE", "SP")
INPUT, OUTPUT = 0, 1
_NAME = 256
# nrt_dtype_t; NumPy has no bfloat16 and no 8-bit floats.
DTYPES = {1: "uint64", 2: "int8", 3: "uint8", 4: "int16", 5: "uint16", 6: "bfloat16", 7: "float16",
          8: "int32", 9: "uint32", 10: "float32", 11: "float32", 12: "int64", 13: "float8_e3m4",
          14: "float8_e4m3", 15: "float8_e5m2"}


class NeuronError(RuntimeError):
    """The runtime, the compiler or the device refused something; the text says what and why."""


class _EngineReport(ctypes.Structure):
    _fields_ = [("busy_ps", ctypes.c_uint64), ("instructions", ctypes.c_uint64)]


class _Report(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint64), ("exec_id", ctypes.c_uint64),
                ("device_ps", ctypes.c_uint64), ("host_ns", ctypes.c_uint64),
                ("engines", _EngineReport * len(ENGINES))]


class _TensorInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * _NAME), ("usage", ctypes.c_int), ("size", ctypes.c_size_t),
                ("dtype", ctypes.c_int), ("shape", ctypes.POINTER(ctypes.c_uint32)),
                ("ndim", ctypes.c_uint32)]


class _TensorInfos(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint64)]


class Report:
    """Modelled time of one execution, in picoseconds."""

    def __init__(self, raw):
        self.device_ps = raw.device_ps
        self.host_ns = raw.host_ns
        self.busy_ps = {name: raw.engines[i].busy_ps for i, name in enumerate(ENGINES)}
        self.instructions = {name: raw.engines[i].instructions for i, name in enumerate(ENGINES)}


class TensorInfo:
    """An input or output of a model: name, bytes, type as NumPy names it, shape."""

    def __init__(self, raw):
        self.name = raw.name.decode()
        self.usage = raw.usage
        self.size = raw.size
        self.dtype = DTYPES.get(raw.dtype, "uint8")
        self.shape = [raw.shape[i] for i in range(raw.ndim)]


def root():
    """The folder with bin/ and lib/: of the installation, or of the build tree."""
    for variable in ("NEURON_ROOT", "NEURON_NKI_ROOT"):
        if os.environ.get(variable):
            return Path(os.environ[variable])
    here = Path(__file__).resolve()
    # share/neuron/python/neuron of an installation; tools/python/neuron of a tree.
    for candidate in (here.parents[4] if len(here.parents) > 4 else here, here.parents[3] / "build"):
        if (candidate / "bin" / "neuron-compile").exists():
            return candidate
    raise NeuronError("neuron-compile is not found beside this package; NEURON_ROOT names the "
                      "folder that has bin/neuron-compile and lib/libnrt.so.1, such as the build "
                      "folder")


_POINTER, _SIZE, _INT, _TEXT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p
_ARGUMENTS = {
    "nrt_init": [_INT, _TEXT, _TEXT],
    "nrt_load": [_TEXT, _SIZE, _INT, _INT, _POINTER],
    "nrt_load_collectives": [_TEXT, _SIZE, _INT, _INT, ctypes.c_uint32, ctypes.c_uint32, _POINTER],
    "nrt_unload": [_POINTER],
    "nrt_execute": [_POINTER] * 3,
    "nrt_allocate_tensor_set": [_POINTER],
    "nrt_destroy_tensor_set": [_POINTER],
    "nrt_add_tensor_to_tensor_set": [_POINTER, _TEXT, _POINTER],
    "nrt_tensor_allocate": [_INT, _INT, _SIZE, _TEXT, _POINTER],
    "nrt_tensor_allocate_slice": [_POINTER, _SIZE, _SIZE, _TEXT, _POINTER],
    "nrt_tensor_free": [_POINTER],
    "nrt_tensor_write": [_POINTER, _POINTER, _SIZE, _SIZE],
    "nrt_tensor_read": [_POINTER, _POINTER, _SIZE, _SIZE],
    "nrt_get_model_tensor_info": [_POINTER, _POINTER],
    "nrt_free_model_tensor_info": [_POINTER],
    "nrt_get_visible_vnc_count": [_POINTER],
    "nrt_open_get_execution_report": [_POINTER, _POINTER],
    "nrt_open_get_instance_type": [_TEXT, _SIZE],
    "nrt_profile_start": [_POINTER, _TEXT],
    "nrt_profile_stop": [_TEXT],
}


class Library:
    """The loaded library. `error` is the class of what it raises."""

    def __init__(self, folder, error=NeuronError):
        self.error = error
        path = Path(folder) / "lib" / "libnrt.so.1"
        if not path.exists():
            path = "libnrt.so.1"  # Where the system keeps libraries
        try:
            self.library = ctypes.CDLL(str(path))
        except OSError as problem:
            raise error(f"{path} cannot be loaded: {problem}") from problem
        lib = self.library
        lib.nrt_open_last_error.restype = ctypes.c_char_p
        lib.nrt_tensor_get_va.restype = ctypes.c_void_p
        lib.nrt_tensor_get_va.argtypes = [_POINTER]
        for name, arguments in _ARGUMENTS.items():
            getattr(lib, name).argtypes = arguments

    def check(self, status, what):
        if status == SUCCESS:
            return
        raise self.error(f"{what}: {self.last_error() or f'status {status}'}")

    def last_error(self):
        return (self.library.nrt_open_last_error() or b"").decode("utf-8", "replace")

    def open(self):
        self.check(self.library.nrt_init(1, b"", b""), "the devices cannot be used")

    def close(self):
        self.library.nrt_close()

    def core_count(self):
        count = ctypes.c_uint32()
        status = self.library.nrt_get_visible_vnc_count(ctypes.byref(count))
        return count.value if status == SUCCESS else 0

    def instance_type(self):
        text = ctypes.create_string_buffer(64)
        self.library.nrt_open_get_instance_type(text, len(text))
        return text.value.decode()

    def tensor_infos(self, model):
        """Inputs and outputs of a loaded model, in its order."""
        array = ctypes.c_void_p()
        self.check(self.library.nrt_get_model_tensor_info(model, ctypes.byref(array)),
                   "the tensors of the model")
        count = _TensorInfos.from_address(array.value).count
        first = array.value + ctypes.sizeof(_TensorInfos)
        size = ctypes.sizeof(_TensorInfo)
        infos = [TensorInfo(_TensorInfo.from_address(first + i * size)) for i in range(count)]
        self.library.nrt_free_model_tensor_info(array)
        return infos

    def report(self, model):
        """Of the last execution of the model."""
        raw = _Report()
        raw.size = ctypes.sizeof(raw)
        self.check(self.library.nrt_open_get_execution_report(model, ctypes.byref(raw)),
                   "the report of an execution")
        return Report(raw)
