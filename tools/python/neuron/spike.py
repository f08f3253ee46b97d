# SPDX-License-Identifier: Apache-2.0
"""The names of NKIPy's binding `_spike`, over libnrt by ctypes, so that NKIPy runs unchanged.

NKIPy's package `spike` imports its binding as `spike._spike`. A link gives it this one:
    ln -s /usr/share/neuron/python/neuron/_spike.py FOLDER_OF_SPIKE/_spike.py
"""
import ctypes
import os
import weakref

from . import device
from .libnrt import INPUT, SUCCESS


class SpikeRuntimeError(RuntimeError):
    """Something of this binding went wrong."""


class SpikeError(SpikeRuntimeError):
    """A call was wrong: a closed runtime, a tensor that was freed, bytes that do not fit."""


class NrtError(SpikeRuntimeError):
    """libnrt refused a call; the text is its own sentence."""


def _check(lib, status, what):
    if status != SUCCESS:
        raise NrtError(f"{what}: {lib.last_error() or f'status {status}'}")


class TensorMetadata:
    def __init__(self, info):
        self.size, self.dtype, self.shape = info.size, info.dtype, list(info.shape)

    def __repr__(self):
        return f"TensorMetadata(size={self.size}, dtype={self.dtype!r}, shape={self.shape})"


class ModelTensorInfo:
    def __init__(self, infos):
        self.inputs = {i.name: TensorMetadata(i) for i in infos if i.usage == INPUT}
        self.outputs = {i.name: TensorMetadata(i) for i in infos if i.usage != INPUT}

    def __repr__(self):
        return f"ModelTensorInfo(inputs={self.inputs}, outputs={self.outputs})"


class _Handle:
    """Something of the runtime that is freed with its object, or with the runtime."""

    def _own(self, spike, free):
        self._spike = spike  # Keeps the runtime open
        self._handle = ctypes.c_void_p()
        spike._handles.add(self)
        self._free_with = free

    def _live(self, what):
        if not self._handle or not self._spike._alive():
            raise SpikeError(f"{what} was freed, or the runtime is closed")
        return self._handle

    def _release(self):
        if self._handle and self._spike._alive():
            self._free_with(self._spike._lib.library, self._handle)
        self._handle = ctypes.c_void_p()

    def __del__(self):
        if getattr(self, "_handle", None):
            self._release()


class NrtTensor(_Handle):
    def __init__(self, spike, size, core_id, name):
        self._own(spike, lambda lib, handle: lib.nrt_tensor_free(ctypes.byref(handle)))
        self.size, self.core_id, self.name = size, core_id, name

    @property
    def va(self):
        return self._spike._lib.library.nrt_tensor_get_va(self._live(self.name))


class NrtModel(_Handle):
    def __init__(self, spike, neff_path, core_id, rank_id, world_size, is_collective):
        self._own(spike, lambda lib, handle: lib.nrt_unload(handle))
        self.neff_path, self.core_id, self.rank_id = neff_path, core_id, rank_id
        self.world_size, self.is_collective = world_size, is_collective

    def __repr__(self):
        return (f"NrtModel(neff_path={self.neff_path!r}, core_id={self.core_id}, "
                f"is_collective={self.is_collective})")


class Spike:
    _open = 0  # Objects that hold the runtime

    def __init__(self, verbose_level=0):
        self._closed = True
        self._handles = weakref.WeakSet()
        if verbose_level > 0:
            os.environ.setdefault("NEURON_RT_LOG_LEVEL_NRT", "INFO")
        try:
            self._lib = device.runtime()
        except RuntimeError as error:
            raise NrtError(str(error)) from error
        self._closed = False
        self._session = device.session()
        Spike._open += 1

    def _alive(self):
        """Whether the runtime still is the one that gave this object its handles."""
        return not self._closed and self._session == device.session()

    @staticmethod
    def get_visible_neuron_core_count():
        return device.library().core_count()

    def close(self):
        if self._closed:
            return 0
        for handle in list(self._handles):
            if isinstance(handle, NrtModel):
                handle._release()
        for handle in list(self._handles):
            handle._release()
        ended = not self._alive()
        self._closed = True
        Spike._open -= 1
        if Spike._open == 0 and not ended:
            device.close()
        return 0

    def __del__(self):
        self.close()

    def _need(self):
        if not self._alive():
            raise SpikeError("the runtime is closed")
        return self._lib

    def load_model(self, neff_file, core_id=0, cc_enabled=False, rank_id=0, world_size=1):
        lib = self._need()
        try:
            with open(neff_file, "rb") as file:
                data = file.read()
        except OSError as error:
            raise SpikeError(f"{neff_file} cannot be read: {error.strerror}") from error
        model = NrtModel(self, os.fspath(neff_file), core_id, rank_id, world_size, cc_enabled)
        handle = ctypes.c_void_p()
        if cc_enabled:
            status = lib.library.nrt_load_collectives(data, len(data), core_id, 1, rank_id,
                                                      world_size, ctypes.byref(handle))
        else:
            status = lib.library.nrt_load(data, len(data), core_id, 1, ctypes.byref(handle))
        _check(lib, status, f"loading {neff_file}")
        model._handle = handle
        return model

    def unload_model(self, model):
        model._live("the model")
        model._release()

    def get_tensor_info(self, model):
        return ModelTensorInfo(self._need().tensor_infos(model._live("the model")))

    def _set(self, tensors):
        lib = self._need()
        result = ctypes.c_void_p()
        _check(lib, lib.library.nrt_allocate_tensor_set(ctypes.byref(result)), "a set of tensors")
        try:
            for name, tensor in tensors.items():
                handle = tensor._live(f"tensor {name}")
                _check(lib, lib.library.nrt_add_tensor_to_tensor_set(result, name.encode(), handle),
                       name)
        except BaseException:
            lib.library.nrt_destroy_tensor_set(ctypes.byref(result))
            raise
        return result

    def execute(self, model, inputs, outputs, ntff_name=None, save_trace=False):
        lib = self._need()
        handle = model._live("the model")
        sets = []
        path = (ntff_name or "profile.ntff").encode()
        try:
            for tensors in (inputs, outputs):
                sets.append(self._set(tensors))
            if save_trace:
                _check(lib, lib.library.nrt_profile_start(handle, path), "starting the profile")
            status = lib.library.nrt_execute(handle, *sets)
            sentence = lib.last_error() if status != SUCCESS else ""
            if save_trace:
                stopped = lib.library.nrt_profile_stop(path)
                if status == SUCCESS:
                    _check(lib, stopped, f"writing {ntff_name}")
            if status != SUCCESS:
                raise NrtError(f"executing {model.neff_path}: {sentence or f'status {status}'}")
        finally:
            for tensors in sets:
                lib.library.nrt_destroy_tensor_set(ctypes.byref(tensors))

    def allocate_tensor(self, size, core_id=0, name=None):
        lib = self._need()
        tensor = NrtTensor(self, size, core_id, name or "tensor")
        _check(lib, lib.library.nrt_tensor_allocate(0, core_id, size, tensor.name.encode(),
                                                    ctypes.byref(tensor._handle)),
               f"memory for {tensor.name}")
        return tensor

    def slice_from_tensor(self, source, offset=0, size=0, name=None):
        lib = self._need()
        size = size or source.size - offset
        tensor = NrtTensor(self, size, source.core_id, name or f"{source.name}_slice")
        _check(lib, lib.library.nrt_tensor_allocate_slice(
            source._live(source.name), offset, size, tensor.name.encode(),
            ctypes.byref(tensor._handle)), f"a slice of {source.name}")
        return tensor

    def free_tensor(self, tensor):
        tensor._live(tensor.name)
        tensor._release()

    def tensor_write(self, tensor, data, offset=0):
        self.tensor_write_from_pybuffer(tensor, data, offset)

    def tensor_read(self, tensor, offset=0, size=0):
        data = bytearray(size or tensor.size - offset)
        self.tensor_read_to_pybuffer(tensor, data, offset, len(data))
        return bytes(data)

    def tensor_write_from_pybuffer(self, tensor, buffer, offset=0):
        lib, view = self._need(), _bytes_of(buffer)
        data = view if view.readonly else (ctypes.c_char * len(view)).from_buffer(view)
        data = bytes(data) if view.readonly else data
        _check(lib, lib.library.nrt_tensor_write(
            tensor._live(tensor.name), ctypes.cast(data, ctypes.c_void_p), offset, len(view)),
            f"writing {tensor.name}")

    def tensor_read_to_pybuffer(self, tensor, buffer, offset=0, size=0):
        lib, view = self._need(), _bytes_of(buffer)
        if view.readonly:
            raise SpikeError(f"reading {tensor.name}: the buffer cannot be written")
        size = size or tensor.size - offset
        if size > len(view):
            raise SpikeError(f"reading {tensor.name}: {size} bytes do not fit into a buffer of "
                             f"{len(view)}")
        data = (ctypes.c_char * len(view)).from_buffer(view)
        _check(lib, lib.library.nrt_tensor_read(
            tensor._live(tensor.name), ctypes.cast(data, ctypes.c_void_p), offset, size),
            f"reading {tensor.name}")


def _bytes_of(buffer):
    """A flat view of the bytes of a buffer; types without a buffer of their own are viewed."""
    try:
        view = memoryview(buffer)
    except (TypeError, ValueError, BufferError):
        view = memoryview(buffer.view("u1"))
    if not view.c_contiguous:
        raise SpikeError("the buffer is not contiguous")
    return view.cast("B") if view.nbytes else memoryview(b"")


class SystemTraceSession:
    """Events of the runtime's trace, of one core or of all that are visible."""

    def __init__(self, core_id=None):
        self._lib = device.runtime()
        self._core, self._stopped = core_id, True
        lib = self._lib.library
        config = ctypes.c_void_p()
        _check(self._lib, lib.nrt_sys_trace_config_allocate(ctypes.byref(config)), "the trace")
        lib.nrt_sys_trace_config_set_defaults(config)
        if core_id is not None:
            for core in range(self._lib.core_count()):
                lib.nrt_sys_trace_config_set_capture_enabled_for_nc(
                    config, ctypes.c_uint32(core), ctypes.c_bool(core == core_id))
        status = lib.nrt_sys_trace_start(config)
        lib.nrt_sys_trace_config_free(config)
        _check(self._lib, status, "starting the trace")
        self._stopped = False

    def stop(self):
        if not self._stopped:
            self._stopped = True
            _check(self._lib, self._lib.library.nrt_sys_trace_stop(), "stopping the trace")

    def fetch_events_json(self):
        lib = self._lib.library
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        _check(self._lib, lib.nrt_sys_trace_fetch_events(ctypes.byref(text), ctypes.byref(size),
                                                         None), "the events of the trace")
        events = ctypes.string_at(text, size.value).decode() if text else ""
        if text:
            lib.nrt_sys_trace_buffer_free(text)
        return events

    def drain_events(self):
        self.fetch_events_json()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
