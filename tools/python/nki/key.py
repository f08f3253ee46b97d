# SPDX-License-Identifier: Apache-2.0
"""What decides which specialisation of a kernel serves a call.

The form of the arguments counts: shapes and types of arrays, the values of everything else, and how
tuples, dictionaries and objects hold them. An object counts with its fields, as they are at the
call. What has no fields to compare (functions, classes) counts as itself, and is kept, because
Python gives the number of a dropped object to another one.
"""
import enum
import types

import numpy as np

_PLAIN = (bool, int, str, bytes, type(None))
_ITSELF = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.MethodType)


class Key:
    """`value` can be compared and hashed; `arrays` are the kernel's inputs; `kept` is kept with it."""

    def __init__(self, first, is_array, is_object):
        self.is_array, self.is_object = is_array, is_object
        self.arrays, self.kept = [], []
        self.parts = list(first)
        self.open = set()

    def add(self, value):
        self.parts.append(self._form(value, True))

    @property
    def value(self):
        return tuple(self.parts)

    def _form(self, value, inputs):
        """`inputs`: arrays in here become inputs, as kernel.mapped() finds them."""
        if isinstance(value, _PLAIN):
            return type(value), value
        if isinstance(value, float):
            return float, value.hex()  # -0.0 is not 0.0, and NaN is itself
        if isinstance(value, enum.Enum):
            return type(value), value.name
        if self.is_array(value):
            return self._array(value, inputs)
        if isinstance(value, np.generic):
            return type(value), value.tobytes()
        if id(value) in self.open:
            return "cycle", id(value)
        self.open.add(id(value))
        try:
            return self._held(value, inputs)
        finally:
            self.open.discard(id(value))

    def _array(self, value, inputs):
        from .dtypes import array_dtype
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        if inputs:
            self.arrays.append(array)
            return "array", array.shape, str(array_dtype(array))
        return "constant", array.shape, str(array.dtype), array.tobytes()

    def _held(self, value, inputs):
        if isinstance(value, (list, tuple)):
            return type(value), tuple(self._form(v, inputs) for v in value)
        if isinstance(value, dict):
            return type(value), tuple((self._form(k, False), self._form(v, inputs))
                                      for k, v in value.items())
        if isinstance(value, (set, frozenset)):
            return type(value), frozenset(self._form(v, False) for v in value)
        fields = None if isinstance(value, _ITSELF) else getattr(value, "__dict__", None)
        if fields:
            inputs = inputs and self.is_object(value)
            return type(value), tuple((n, self._form(v, inputs)) for n, v in fields.items())
        self.kept.append(value)
        return "itself", id(value)
