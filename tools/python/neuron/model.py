# SPDX-License-Identifier: Apache-2.0
"""A loaded model: NumPy arrays in, NumPy arrays out."""
import ctypes
import math
import os
import tempfile
from pathlib import Path

import numpy as np

from . import compiler, device
from .libnrt import INPUT, NeuronError

_DEVICE = 0  # NRT_TENSOR_PLACEMENT_DEVICE
# NumPy has no such types: their bits, unless ml_dtypes is there.
_BITS = {"bfloat16": np.uint16, "float8_e3m4": np.uint8, "float8_e4m3": np.uint8,
         "float8_e5m2": np.uint8}


def numpy_type(name):
    """NumPy's type for elements of a model; the bits of those that it lacks."""
    if name in _BITS:
        try:
            import ml_dtypes
            return np.dtype(getattr(ml_dtypes, name))
        except (ImportError, AttributeError):
            return np.dtype(_BITS[name])
    return np.dtype(name)


class _Tensor:
    def __init__(self, lib, info, core):
        self.info, self.lib = info, lib
        self.dtype = numpy_type(info.dtype)
        # The library copies as many bytes as the NEFF says, whatever an array has.
        bytes_of_shape = math.prod(info.shape) * self.dtype.itemsize
        if bytes_of_shape != info.size:
            raise NeuronError(f"tensor {info.name!r} has {info.size} bytes in the NEFF, and {list(info.shape)} "
                              f"of {info.dtype} are {bytes_of_shape}: this package has no form for its "
                              "type, or the file is damaged; use libnrt or neuron-run")
        self.handle = ctypes.c_void_p()
        lib.check(lib.library.nrt_tensor_allocate(_DEVICE, core, info.size, info.name.encode(),
                                                  ctypes.byref(self.handle)),
                  f"memory for {info.name}")

    def write(self, value):
        array = np.asarray(value)
        wanted = tuple(self.info.shape)
        if array.shape != wanted:
            raise ValueError(f"{self.info.name}: found shape {array.shape}, expected {wanted}")
        if array.dtype != self.dtype:
            # Of equal size and kind: bits of a type that NumPy lacks, or truth values as bytes.
            same = array.dtype.itemsize == self.dtype.itemsize and array.dtype.kind in "Vb"
            if not same and not np.can_cast(array.dtype, self.dtype, "same_kind"):
                raise TypeError(f"{self.info.name}: found {array.dtype}, expected {self.dtype}")
            array = array.view(self.dtype) if same else self._exact(array)
        array = np.ascontiguousarray(array)
        self.lib.check(self.lib.library.nrt_tensor_write(
            self.handle, array.ctypes.data_as(ctypes.c_void_p), 0, self.info.size),
            f"writing {self.info.name}")

    def _exact(self, array):
        """Whole numbers keep their values; real ones are rounded."""
        cast = array.astype(self.dtype)
        if array.dtype.kind in "iu" and not np.array_equal(cast, array):
            raise TypeError(f"{self.info.name}: {array.dtype} has values that {self.dtype} cannot "
                            "hold")
        return cast

    def read(self):
        array = np.empty(self.info.shape, self.dtype)
        self.lib.check(self.lib.library.nrt_tensor_read(
            self.handle, array.ctypes.data_as(ctypes.c_void_p), 0, self.info.size),
            f"reading {self.info.name}")
        return array

    def free(self):
        self.lib.library.nrt_tensor_free(ctypes.byref(self.handle))


class Model:
    """A NEFF on one core, with memory for its inputs and outputs.

    Call it with arrays in the order of `inputs`, or by their names; it returns the only output, or
    a dictionary of outputs by name. `report` is of the last execution. Not thread-safe. close()
    frees it; so does a with statement.

    `aliases` maps outputs to inputs that are the same memory: such an output replaces the input,
    which keeps its value from call to call, and need not be given again ("donated" buffers). The
    program must have been compiled so: by `donated` of compile(), or the aliases of an HLO module.
    """

    def __init__(self, neff, core=0, aliases=None):
        self._lib = device.runtime()
        self._session = device.session()
        self._model = ctypes.c_void_p()
        self._sets = [ctypes.c_void_p(), ctypes.c_void_p()]
        self._tensors = {}
        self.report = None
        data = bytes(neff) if isinstance(neff, (bytes, bytearray)) else Path(neff).read_bytes()
        self.name = "a model" if isinstance(neff, (bytes, bytearray)) else os.fspath(neff)
        lib, check = self._lib.library, self._lib.check
        check(lib.nrt_load(data, len(data), core, 1, ctypes.byref(self._model)),
              f"loading {self.name}")
        try:
            infos = self._lib.tensor_infos(self._model)
            self.inputs = {i.name: i for i in infos if i.usage == INPUT}
            self.outputs = {i.name: i for i in infos if i.usage != INPUT}
            self._take_aliases(aliases or {})
            self._bind(core)
        except BaseException:
            self.close()
            raise

    def _take_aliases(self, aliases):
        self._aliases = dict(aliases)
        for output, source in aliases.items():
            if list(aliases.values()).count(source) > 1:
                raise NeuronError(f"input {source!r} is to be the memory of several outputs: one "
                                  "would overwrite the other; give it to one of them")
            pair = self.outputs.get(output), self.inputs.get(source)
            if None in pair or (pair[0].size, pair[0].dtype) != (pair[1].size, pair[1].dtype):
                raise NeuronError(f"output {output!r} cannot be in the memory of input {source!r}: "
                                  "both must exist, with equal types and sizes")
        self._given = set()

    def _bind(self, core):
        lib, check = self._lib.library, self._lib.check
        for infos, tensors in ((self.inputs, self._sets[0]), (self.outputs, self._sets[1])):
            check(lib.nrt_allocate_tensor_set(ctypes.byref(tensors)), "a set of tensors")
            for name, info in infos.items():
                key = (info.usage, name)
                if info.usage != INPUT and name in self._aliases:
                    self._tensors[key] = self._tensors[(INPUT, self._aliases[name])]
                else:
                    self._tensors[key] = _Tensor(self._lib, info, core)
                check(lib.nrt_add_tensor_to_tensor_set(tensors, name.encode(),
                                                       self._tensors[key].handle), name)

    def _need(self):
        if self._model is None or self._session != device.session():
            raise NeuronError(f"{self.name} is closed, or the runtime that had it; load it again")

    def write(self, **inputs):
        """Sets inputs, which keep these values until they are set again."""
        self._need()
        for name, value in inputs.items():
            if name not in self.inputs:
                raise TypeError(f"{self.name} has no input {name!r}; it has "
                                + ", ".join(self.inputs))
            self._tensors[(INPUT, name)].write(value)
            self._given.add(name)

    def read(self, name):
        """The array of an output as the last execution left it."""
        self._need()
        if name not in self.outputs:
            raise TypeError(f"{self.name} has no output {name!r}; it has " + ", ".join(self.outputs))
        return self._tensors[(self.outputs[name].usage, name)].read()

    def execute(self):
        """Executes with the inputs that the device has."""
        self._need()
        missing = [name for name in self.inputs if name not in self._given]
        if missing:
            raise TypeError(f"{self.name}: inputs without a value: " + ", ".join(missing))
        lib = self._lib.library
        self._lib.check(lib.nrt_execute(self._model, *self._sets), f"executing {self.name}")
        self.report = self._lib.report(self._model)

    def __call__(self, *arrays, **named):
        self._need()
        if len(arrays) > len(self.inputs):
            raise TypeError(f"{self.name} has {len(self.inputs)} inputs; found {len(arrays)}")
        self.write(**dict(zip(self.inputs, arrays)), **named)
        self.execute()
        results = {name: self.read(name) for name in self.outputs}
        return next(iter(results.values())) if len(results) == 1 else results

    def profile(self, *arrays, ntff, **named):
        """Executes once and writes what the device measured, for `neuron-profile view`; returns the
        results."""
        self._need()
        path = os.fspath(ntff).encode()
        lib, check = self._lib.library, self._lib.check
        check(lib.nrt_profile_start(self._model, path), f"profiling {self.name}")
        try:
            results = self(*arrays, **named)
        finally:
            stopped = lib.nrt_profile_stop(path)
        check(stopped, f"writing {ntff}")
        return results

    def close(self):
        if self._model is None:
            return
        if self._session != device.session():
            self._tensors, self._model = {}, None  # They ended with the runtime
            return
        lib = self._lib.library
        for tensors in self._sets:
            lib.nrt_destroy_tensor_set(ctypes.byref(tensors))
        for tensor in {id(tensor): tensor for tensor in self._tensors.values()}.values():
            tensor.free()
        if self._model:
            lib.nrt_unload(self._model)
        self._tensors, self._model = {}, None

    def __del__(self):
        if getattr(self, "_model", None) is not None:
            self.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        def texts(infos):
            return ", ".join(f"{i.name}: {i.dtype}{list(i.shape)}" for i in infos.values())
        return f"Model({self.name}: ({texts(self.inputs)}) -> ({texts(self.outputs)}))"


def load(model, core=0, aliases=None, **options):
    """Loads a NEFF, by its path or its bytes; other models are compiled first, with `options` of
    compile(). Outputs that `aliases` names are then compiled as donated."""
    if isinstance(model, (bytes, bytearray)) or str(model).endswith(".neff"):
        return Model(model, core, aliases)
    if aliases:
        options.setdefault("donated", aliases)
    with tempfile.TemporaryDirectory(prefix="neuron.") as folder:
        neff = compiler.compile(model, output=os.path.join(folder, "model.neff"), **options)
        loaded = Model(neff, core, aliases)
    loaded.name = os.fspath(model) if isinstance(model, (str, os.PathLike)) else type(model).__name__
    return loaded
