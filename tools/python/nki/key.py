# SPDX-License-Identifier: Apache-2.0
"""What decides which specialisation of a kernel serves a call.

The form of the arguments counts: shapes and types of arrays, the values of everything else, and how
tuples, dictionaries and objects hold them. An object counts with its fields and those of its class,
as they are at the call. A function counts with its code and with what that reads: defaults, closure,
and the names of its module. Objects of other libraries that a function reads, and what has no fields
to compare, count as themselves and are kept, because Python gives the number of a dropped object to
another one.
"""
import enum
import functools
import sys
import types

import numpy as np

_PLAIN = (bool, int, str, bytes, complex, type(None), type(Ellipsis))
# What a function reads of these packages does not change, or is not a kernel's.
_LIBRARIES = {"nki", "neuronxcc", "neuron", "numpy", "ml_dtypes", "torch", "jax", "builtins", "pytest", "_pytest"} | (
    set(sys.stdlib_module_names) - {"__main__", "types", "argparse", "functools", "collections"})


def _of_library(name):
    return isinstance(name, str) and name.split(".", 1)[0] in _LIBRARIES


@functools.lru_cache(maxsize=4096)
def _names(code):
    """The names that a function looks up outside of itself, those of functions inside of it included; sorted."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(_names(constant))
    return tuple(sorted(found))


class Key:
    """`value` can be compared and hashed; `arrays` are the kernel's inputs; `kept` is kept with it."""

    def __init__(self, first, is_array, is_object):
        self.is_array, self.is_object = is_array, is_object
        self.arrays, self.kept = [], []
        self.parts = list(first)
        self.open, self.seen, self.alive = {}, {}, []
        self.reading = False  # What a function reads, not an argument

    def add(self, value):
        self.parts.append(self._form(value, True))

    def add_function(self, function):
        """The code of the kernel, and what that reads."""
        self.parts.append(self._form(function, False))

    @property
    def value(self):
        return tuple(self.parts)

    def _form(self, value, inputs):
        """`inputs`: arrays in here become inputs, as kernel.mapped() finds them."""
        if isinstance(value, enum.Enum):
            return type(value), value.name, self._form(value.value, False)
        if isinstance(value, _PLAIN):
            fields = getattr(value, "__dict__", None)
            return (type(value), value, self._values(fields, False)) if fields else (type(value), value)
        if isinstance(value, float):
            return float, value.hex()  # -0.0 is not 0.0, and NaN is itself
        if isinstance(value, (type, types.FunctionType, types.ModuleType)):
            return self._once(value)
        if self.is_array(value):
            return self._array(value, inputs)
        if isinstance(value, np.generic):
            return type(value), value.tobytes()
        if isinstance(value, (range, slice)):
            return type(value), *(self._form(v, False) for v in (value.start, value.stop, value.step))
        if isinstance(value, np.dtype):
            return np.dtype, value.str
        if id(value) in self.open:
            return "cycle", self.open[id(value)]
        if self.reading and id(value) in self.seen:
            return "again", self.seen[id(value)]
        self.open[id(value)] = len(self.open)
        try:
            return self._held(value, inputs)
        finally:
            del self.open[id(value)]
            if self.reading:  # Objects that share others would be followed once for each way to them
                self.seen[id(value)] = len(self.seen) + 1
                self.alive.append(value)  # So that no other one gets its number

    def _array(self, value, inputs):
        from .dtypes import array_dtype
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        if inputs:
            if array is not value and array.base is None:
                # A copy: what the kernel changes would not reach the caller.
                array = array.view()
                array.flags.writeable = False
            self.arrays.append(array)
            return "array", array.shape, str(array_dtype(array))
        if array.dtype.hasobject:
            return "constant", array.shape, tuple(self._form(v, False) for v in array.reshape(-1))
        return "constant", array.shape, array.dtype.str, array.tobytes()

    def _held(self, value, inputs):
        fields = self._fields(value)
        kind = type(value) if isinstance(value, (list, tuple, dict)) and not fields else (
            self._form(type(value), False))
        if isinstance(value, (list, tuple)):
            return kind, tuple(self._form(v, inputs) for v in value), self._values(fields, False)
        if isinstance(value, dict):
            return kind, tuple((self._form(k, False), self._form(v, inputs))
                               for k, v in value.items()), self._values(fields, False)
        if isinstance(value, (set, frozenset)):
            return kind, frozenset(self._form(v, False) for v in value)
        if isinstance(value, types.MethodType):
            return "method", self._form(value.__func__, False), self._form(value.__self__, False)
        if isinstance(value, functools.partial):
            return ("partial", self._form(value.func, False), self._form(value.args, False),
                    self._form(value.keywords, False))
        function = getattr(value, "function", None)
        if type(value).__module__ == "nki.kernel" and function is not None:
            return "kernel", self._form(function, False)
        if fields and not (self.reading and _of_library(type(value).__module__)):
            return kind, self._values(fields, inputs and self.is_object(value))
        self.kept.append(value)
        return "itself", id(value)

    def _fields(self, value):
        fields = {}
        for base in type(value).__mro__:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(value, name) and name not in ("__dict__", "__weakref__"):
                    fields[name] = getattr(value, name)
        fields.update(getattr(value, "__dict__", {}))
        return fields

    def _values(self, fields, inputs):
        return tuple((n, self._form(v, inputs)) for n, v in fields.items())

    def _once(self, value):
        """A function or a class, whose form is the same wherever it is met."""
        known = self.seen.get(id(value))
        if known is not None:
            return "again", known
        self.seen[id(value)] = len(self.seen) + 1
        if isinstance(value, types.ModuleType):
            return "module", value.__name__
        self.kept.append(value)
        if _of_library(value.__module__) or isinstance(value, type) and issubclass(value, enum.Enum):
            return "itself", id(value)
        before, self.reading = self.reading, True
        try:
            return self._function(value) if isinstance(value, types.FunctionType) else self._class(value)
        finally:
            self.reading = before

    def _class(self, kind):
        """A class with its attributes and methods."""
        attributes = []
        for name, value in vars(kind).items():
            if isinstance(value, property):
                value = value.fget
            value = getattr(value, "__func__", value)
            if isinstance(value, types.FunctionType) or not name.startswith("__"):
                attributes.append((name, self._form(value, False)))
        return "class", id(kind), tuple(attributes), tuple(self._form(b, False) for b in kind.__bases__)

    def _function(self, function):
        code = function.__code__
        cells = []
        for cell in function.__closure__ or ():
            try:
                cells.append(self._form(cell.cell_contents, False))
            except ValueError:
                cells.append("empty")
        return ("function", code.co_filename, code, self._form(function.__defaults__, False),
                self._form(function.__kwdefaults__, False), tuple(cells),
                self._reads(function.__globals__, _names(code), set()))

    def _reads(self, values, names, modules):
        """The values of those names that a module has, and, of modules among them, the same names."""
        found = []
        for name in names:
            if name not in values:
                continue
            value = values[name]
            if isinstance(value, types.ModuleType):
                if not _of_library(value.__name__) and id(value) not in modules:
                    found.append((name, value.__name__,
                                  self._reads(vars(value), names, modules | {id(value)})))
                continue
            found.append((name, self._form(value, False)))
        return tuple(found)
