# SPDX-License-Identifier: Apache-2.0
"""@nki.jit: a Python function as a kernel that can be called with NumPy arrays.

A call traces the function once for each specialisation (shapes, types, other arguments, target and
grid), lowers the trace to a NEFF, and executes it. Outputs are new arrays; arrays that the kernel
changed are changed.
"""
import functools
import inspect
import math
import os
import sys
import threading

import numpy as np

from . import compiler, dtypes, grids, loops, runtime
from .errors import NkiError, place, refuse, shown
from .key import Key
from .recorder import GENERATIONS, Recorder, tracing
from .tensor import HBM, NkiTensor

DEFAULT_TARGET = "trn2"


def target_of_environment(default=DEFAULT_TARGET):
    target = os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE", default)
    if target not in GENERATIONS:
        raise NkiError(f"the target is {target!r}; this chip model knows "
                       f"{', '.join(GENERATIONS)} (NEURON_PLATFORM_TARGET_OVERRIDE)")
    return target


class Leaf:
    """A tensor of the kernel's result, in place of which the caller gets an array."""

    def __init__(self, tensor):
        self.tensor = tensor


def is_array(value):
    return isinstance(value, np.ndarray) or (hasattr(value, "__array__") and
                                             hasattr(value, "shape") and value.shape != ())


def is_object(value):
    """An object whose fields mapped() follows."""
    from .language.constants import NKIObject
    return isinstance(value, NKIObject)


def mapped(value, change):
    """The value with `change` done to each leaf of tuples, lists, dictionaries and NKIObjects."""
    if isinstance(value, (list, tuple)):
        items = [mapped(v, change) for v in value]
        made = type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        getattr(made, "__dict__", {}).update(getattr(value, "__dict__", {}))
        return made
    if isinstance(value, dict):
        return {k: mapped(v, change) for k, v in value.items()}
    if is_object(value) and getattr(value, "__dict__", None):
        fields = {name: mapped(field, change) for name, field in vars(value).items()}
        if all(fields[name] is field for name, field in vars(value).items()):
            return value
        copy = object.__new__(type(value))
        for name, field in fields.items():
            object.__setattr__(copy, name, field)
        return copy
    return change(value)


class Kernel:
    """What @nki.jit makes of a function."""

    def __init__(self, function, grid=(), target=None):
        functools.update_wrapper(self, function)
        self.function = function
        self.grid = grid
        self.target = target
        self.specialisations = {}
        self.last = None
        self._known_signature = None
        self.tiles_end_with_last_use = False
        self.default_target = DEFAULT_TARGET

    def chosen_target(self):
        return self.target or target_of_environment(self.default_target)

    def _like(self, grid, target):
        other = Kernel(self.function, grid, target)
        other.specialisations = self.specialisations
        other.tiles_end_with_last_use = self.tiles_end_with_last_use
        other.default_target = self.default_target
        return other

    def __getitem__(self, grid):
        grid = grid if isinstance(grid, tuple) else (grid,)
        sizes = tuple(int(g) for g in grid)
        if any(g < 1 for g in sizes):
            raise NkiError(f"{place()}: kernel[{grid}]: expected numbers from 1")
        return self._like(sizes, self.target)

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return functools.partial(self, instance)

    def __call__(self, *arguments, **named):
        if tracing():
            return self.function(*arguments, **named)
        specialisation, arrays = self.specialise(arguments, named)
        self.last = specialisation
        return specialisation.run(arrays)

    def on(self, target):
        """The same kernel for another target: trn1, inf2, trn2 or trn3."""
        return self._like(self.grid, target)

    def ranks(self, calls):
        """One rank for each tuple of arguments, executed at the same time; a list of their results."""
        calls = [call if isinstance(call, tuple) else (call,) for call in calls]
        found = [self.specialise(call, {}, rank, len(calls)) for rank, call in enumerate(calls)]
        self.last = found[0][0]
        return runtime.together([functools.partial(one.run, arrays) for one, arrays in found])

    def specialise(self, arguments, named, rank=0, ranks=1):
        """The compiled form for these arguments, and their arrays in its order."""
        bound = self._signature().bind(*arguments, **named)
        bound.apply_defaults()
        target = self.chosen_target()
        key = Key((target, self.grid, rank, ranks, compiler.physical_cores(target)), is_array, is_object)
        key.add_function(self.function)
        for name, value in bound.arguments.items():
            try:
                key.add((name, value))
            except TypeError as error:
                raise TypeError(f"{place()}: argument {name} of {self.__name__}: {error}") from error
        found = self.specialisations.get(key.value)
        if found is None or found.traced.files_changed():
            found = self.specialisations[key.value] = Specialisation(self, target, bound, place=(rank, ranks))
            found.kept = key.kept
        return found, key.arrays

    def _signature(self):
        """That of the function, which is read again when its defaults or what tells them have changed."""
        function = self.function
        read = getattr(function, "__code__", None), getattr(function, "__defaults__", None)
        changes = getattr(function, "__kwdefaults__", True) or getattr(function, "__dict__", True)
        if changes or self._known_signature is None or any(a is not b for a, b in zip(read, self._known_signature[0])):
            self._known_signature = read, inspect.signature(function)
        return self._known_signature[1]

    def trace(self, *arguments, **named):
        """The text of the trace for these arguments."""
        return self.specialise(arguments, named)[0].traced.text()

    def profile(self, *arguments, **named):
        """Executes the kernel and says where its modelled time goes, by engine and line of Python."""
        specialisation, arrays = self.specialise(arguments, named)
        specialisation.run(arrays)
        from .profile import Profile
        return Profile(specialisation)

    def check(self, *arguments, **named):
        """Compares each value that an instruction writes with an interpretation in float64."""
        from .check import check
        return check(self, arguments, named)


class Specialisation:
    """One traced and lowered form of a kernel."""

    def __init__(self, kernel, target, bound, observe=None, place=(0, 1)):
        self.name = kernel.__name__
        self.rank, self.ranks = place
        self.target = target
        self.grid = kernel.grid
        self.inputs = []
        self.argument_names = []
        self.traced = self._trace(kernel, bound)
        if observe is not None:
            observe(self.traced)
        self.compiled = None
        self.executable = None
        self.report = None
        self.kept = None  # What the key of this specialisation compares by identity
        self.one_call = threading.Lock()  # The device's memory of inputs and outputs is that of one call

    def _trace(self, kernel, bound):
        """Runs the function; fills inputs and the form of the result."""
        programs = _programs(self.grid)
        recorder = Recorder(kernel.__name__, self.target, self.grid, (), self.rank, self.ranks)
        with recorder:
            def argument(name):
                def change(value):
                    if not is_array(value):
                        return value
                    array = value if isinstance(value, np.ndarray) else np.asarray(value)
                    tensor = recorder.tensor(array.shape or (1,), dtypes.array_dtype(array), HBM,
                                             name, position=(kernel.function.__code__.co_filename,
                                                             kernel.function.__code__.co_firstlineno))
                    tensor.storage.argument = len(self.inputs)
                    self.inputs.append(tensor.storage)
                    self.argument_names.append(name)
                    return tensor
                return change

            for name, value in list(bound.arguments.items()):
                bound.arguments[name] = mapped(value, argument(name))
            try:
                results = grids.run(recorder, lambda: kernel.function(*bound.args, **bound.kwargs),
                                    programs)
            except NkiError:
                raise
            except Exception as error:
                error.add_note(f"raised while the kernel {kernel.__name__} was traced, at "
                               f"{_where(error)}")
                raise
            loops.check_all_ended(recorder)
            first = results[0]
            if any(len(_tensors(r)) != len(_tensors(first)) for r in results):
                raise NkiError(f"{kernel.__name__}: the programs of the grid return different "
                               "results")
            self.returned = _tensors(first)
            self.result = mapped(first, lambda v: Leaf(v) if isinstance(v, NkiTensor) else v)
            self._settle(recorder)
            if len(programs) > 1:
                grids.settle(recorder, compiler.physical_cores(self.target))
            # Tiles of the function end here, inside the trace.
            del results, first
        if kernel.tiles_end_with_last_use:
            recorder.end_tiles_with_last_use()
        return recorder

    def _settle(self, recorder):
        """Says of each tensor in HBM what it is to the caller."""
        self.outputs = []

        def collect(value):
            if not isinstance(value, Leaf):
                return value
            storage = value.tensor.storage
            if storage.on_chip:
                raise NkiError(f"{shown(storage.position[0])}:{storage.position[1]}: the kernel "
                               f"returns tile \"{storage.name}\" of {storage.space.upper()}; "
                               "results are tensors in nl.shared_hbm")
            if storage.constant is not None:
                raise NkiError("the kernel returns a constant")
            _check_returned(value.tensor)
            if storage.argument is None:
                if not storage.written:
                    raise NkiError(f"{shown(storage.position[0])}:{storage.position[1]}: the kernel "
                                   f"returns \"{storage.name}\", which nothing has written")
                storage.record["kind"] = "output"
            if storage not in self.outputs:
                self.outputs.append(storage)
            return value

        mapped(self.result, collect)
        for storage in self.inputs:
            storage.record["kind"] = "inout" if storage.written else "input"
            if storage.written and storage not in self.outputs:
                self.outputs.append(storage)
        for label, storage in recorder.prints:
            storage.record["kind"] = "output"
            self.outputs.append(storage)

    def compile(self):
        if self.compiled is None:
            self.compiled = compiler.lower(self.traced.text(), self.target)
        return self.compiled

    def run(self, arrays):
        """Executes with the arrays of one call; returns the kernel's result."""
        for storage, array in zip(self.inputs, arrays):
            if storage.written and not array.flags.writeable and not self._returns(storage):
                raise NkiError(f"{shown(storage.position[0])}:{storage.position[1]}: the kernel changes "
                               f"\"{storage.name}\", and the array of this call cannot be changed (it is "
                               "read-only, or a copy of what was given); give a NumPy array that can be "
                               "written, or return the tensor")
        with self.one_call:
            return self._run(arrays)

    def _returns(self, storage):
        return any(tensor.storage is storage for tensor in self.returned)

    def never_written(self):
        """Of each array of the result, in order, how many elements nothing wrote, and its size; after one run."""
        with self.one_call:
            kept = self.executable.never_written()
        counts = []

        def count(value):
            if isinstance(value, Leaf):
                mask, tensor = kept.get(value.tensor.storage), value.tensor
                # As a number of the mask's bytes, an element is 0 if each of its bytes was written.
                missing = 0 if mask is None else np.count_nonzero(_elements(mask, tensor, f"u{tensor.itemsize}"))
                counts.append((int(missing), tensor.size))
            elif is_array(value):
                counts.append((0, value.size))

        mapped(self.result, count)
        return counts

    def _run(self, arrays):
        if self.executable is None:
            self.executable = runtime.load(self.compile(), self.target, self.inputs, self.outputs,
                                           2 if self.traced.both_cores else 1,
                                           (self.rank, self.ranks))
        for storage, array in zip(self.inputs, arrays):
            if tuple(array.shape or (1,)) != storage.shape:
                refuse("an array changed its shape")
        self.report = self.executable.execute(arrays)
        for label, storage in self.traced.prints:
            values = dtypes.to_float32(self.executable.output(storage)) if str(
                storage.dtype) in ("bfloat16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn") else (
                    self.executable.output(storage))
            print(f"{label} {values}")
        for storage, array in zip(self.inputs, arrays):
            if storage.written and array.flags.writeable:
                self.executable.read_into(storage, array)

        def leaf(value):
            if not isinstance(value, Leaf):
                return value
            tensor = value.tensor
            array = self.executable.output(tensor.storage)
            return _viewed(array, tensor)

        return mapped(self.result, leaf)


def _viewed(array, tensor):
    """The part of an output that a returned view names, in the view's type."""
    storage = tensor.storage
    if (tensor.dtype == storage.dtype and tensor.shape == storage.shape and tensor.is_contiguous()
            and tensor.offset == 0):
        return array
    elements = _elements(array, tensor, dtypes.storage_type(tensor.dtype))
    return dtypes.from_bytes(elements, tensor.dtype, tensor.shape)


def _elements(array, tensor, kind):
    """A copy of what a view names of an array with the bytes of its storage; a kind of number as wide as the view's."""
    # Steps count elements of the view, which may be wider or narrower than the array's, so they are taken in bytes.
    flat, size = np.asarray(array).reshape(-1).view(np.uint8), tensor.itemsize
    return np.ndarray(tensor.shape, kind, flat, tensor.offset * size, [s * size for s in tensor.strides]).copy()


def _check_returned(tensor):
    """Refuses a view of HBM whose elements no array of the caller can have."""
    storage = tensor.storage
    where = f"{shown(storage.position[0])}:{storage.position[1]}: the kernel returns a view of \"{storage.name}\""
    if tensor.is_indirect():
        raise NkiError(f"{where} at an index that only the device computes; copy it into a tensor of its own with "
                       "nisa.dma_copy, and return that")
    ends = [(size - 1) * step for size, step in zip(tensor.shape, tensor.strides)]
    first = tensor.offset + sum(min(end, 0) for end in ends)
    last = tensor.offset + sum(max(end, 0) for end in ends)
    count = math.prod(storage.shape) * storage.dtype.itemsize // tensor.itemsize
    if tensor.size and not 0 <= first <= last < count:
        raise NkiError(f"{where} whose elements are numbers {first} to {last} of {tensor.dtype} from its start; it has "
                       f"{count} of them, 0 to {count - 1}")


def _tensors(value):
    found = []
    mapped(value, lambda v: found.append(v) if isinstance(v, NkiTensor) else None)
    return found


def _programs(grid):
    programs = [()]
    for size in grid:
        programs = [p + (i,) for p in programs for i in range(size)]
    return programs


def _where(error):
    """The innermost line of the traceback that is not of this package."""
    from .errors import _PACKAGE
    last = "an unknown line"
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_PACKAGE):
            last = f"{shown(file)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return last


def jit(function=None, **options):
    """Makes a kernel of a function. Use as @nki.jit or @nki.jit(...); NKI's options are accepted."""
    if function is None:
        return lambda f: jit(f, **options)
    target = options.get("platform_target")
    target = target if target in GENERATIONS else None
    if isinstance(function, Kernel):
        return function._like(function.grid, target or function.target)
    return Kernel(function, (), target)


def simulate(kernel, *unused, **also_unused):
    """nki.simulate(kernel)(arrays): the kernel itself, which is always executed on an emulated chip."""
    if not isinstance(kernel, Kernel):
        kernel = Kernel(kernel)
    if unused:
        return kernel(*unused, **also_unused)
    return kernel


if sys.version_info < (3, 11):
    raise ImportError("the package nki needs Python 3.11")
