# SPDX-License-Identifier: Apache-2.0
"""Tensors of a kernel: storage in HBM, SBUF or PSUM, and views of it.

A view has a shape, strides and an offset in elements, as NumPy's have. On the chip dimension 0 is
the partition: its stride is the number of elements of a partition. Views never copy. A storage ends
with the last view of it; its tile is free from then on.
"""
import math

import numpy as np

from .dtypes import dtype_of
from .errors import no_condition, refuse

SBUF, PSUM, HBM = "sbuf", "psum", "hbm"


class MemoryRegion(str):
    """Where a tensor lies."""


class Storage:
    """Memory of a tensor in the trace."""

    __slots__ = ("identity", "space", "shape", "dtype", "name", "recorder", "record", "constant",
                 "argument", "written", "narrowest", "position", "moved", "__weakref__")

    def __init__(self, recorder, space, shape, dtype, name, position):
        self.recorder = recorder
        self.space = space
        self.shape = shape
        self.dtype = dtype
        self.name = name
        self.position = position
        self.constant = None
        self.argument = None
        self.written, self.narrowest = 0, 4  # Elements in all, and the bytes of the narrowest: views may be of any type
        self.moved = None  # The record whose result went elsewhere, and a copy of it as it was
        self.record = None
        self.identity = recorder.declare(self)

    @property
    def on_chip(self):
        return self.space != HBM

    @property
    def columns(self):
        return math.prod(self.shape[1:])

    def __del__(self):
        if getattr(self, "identity", None) is not None and self.on_chip:
            self.recorder.free(self)


def row_major(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


class DynamicSlice:
    """nl.ds: `size` elements from `start`."""

    __slots__ = ("start", "size")

    def __init__(self, start, size):
        self.start, self.size = start, size


class NkiTensor:
    """A view of a tensor. See the module's text; methods return new views of the same storage."""

    __slots__ = ("storage", "shape", "strides", "offset", "dtype", "dynamic", "beyond", "offsets")

    def __init__(self, storage, shape, strides, offset, dtype, dynamic=None):
        self.offsets = None  # (the view that they reach into, index) of an indirect view
        self.beyond = None  # (tensor, index) of an index that leaves it, until a mask cuts it
        self.storage = storage
        self.shape = tuple(shape)
        self.strides = tuple(strides)
        self.offset = offset
        self.dtype = dtype
        self.dynamic = dynamic

    # What kernels ask for.
    @property
    def name(self):
        return self.storage.name

    @property
    def buffer(self):
        record = self.storage
        return MemoryRegion(record.space if record.on_chip else "shared_hbm")

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def itemsize(self):
        return self.dtype.itemsize

    @property
    def on_chip(self):
        return self.storage.on_chip

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"<{self.storage.name}: {self.dtype}{list(self.shape)} in {self.storage.space}>"

    def __bool__(self):
        # "if bias:" asks whether there is one. Of one element, its value might be meant.
        if self.size > 1:
            return True
        refuse(f"the value of {self!r} is not known before the kernel runs, so Python cannot decide by it; use "
               "nl.where or nisa.tensor_copy_predicated; a loop of the device can ask a register (while register:)")

    __lt__, __le__, __gt__, __ge__ = map(no_condition, ("less", "less_equal", "greater", "greater_equal"))

    def __array_ufunc__(self, function, *_, **__):
        refuse(f"{self!r} has no values before the kernel runs, so NumPy's {function.__name__} cannot take it; "
               "use a function of nki.language, such as nl.exp, or of nki.isa")

    def __iter__(self):
        refuse(f"{self!r} cannot be iterated over; index it with range(shape[0])")

    def _view(self, shape, strides, offset=None, dtype=None, dynamic=None):
        if self.offsets is not None:
            refuse(f"{self!r} is an indirect view, which is an operand as it stands; slice, reshape or cast "
                   "the tensor before .indirect(), or the index")
        return NkiTensor(self.storage, shape, strides, self.offset if offset is None else offset,
                         dtype or self.dtype, dynamic if dynamic is not None else self.dynamic)

    def is_contiguous(self):
        expected = 1
        for size, step in list(zip(self.shape, self.strides))[::-1][:self.ndim - self.on_chip]:
            if size != 1 and step != expected:
                return False
            expected *= size
        return True

    def is_indirect(self):
        return self.dynamic is not None or self.offsets is not None

    def get_pattern(self):
        return [[step, size] for size, step in zip(self.shape, self.strides)]

    # Arithmetic makes new tiles, with the functions of nki.language; += and so on change this one.
    def _arithmetic(self, op, other, reverse=False, into=False):
        from . import elementwise
        return elementwise.arithmetic(self, op, other, reverse, into)

    def __add__(self, other):
        return self._arithmetic("add", other)

    def __sub__(self, other):
        return self._arithmetic("subtract", other)

    def __mul__(self, other):
        return self._arithmetic("multiply", other)

    def __truediv__(self, other):
        return self._arithmetic("divide", other)

    def __radd__(self, other):
        return self._arithmetic("add", other, True)

    def __rsub__(self, other):
        return self._arithmetic("subtract", other, True)

    def __rmul__(self, other):
        return self._arithmetic("multiply", other, True)

    def __rtruediv__(self, other):
        return self._arithmetic("divide", other, True)

    def __neg__(self):
        from . import elementwise
        return elementwise.with_scalar("multiply", self, -1.0)

    def __iadd__(self, other):
        return self._arithmetic("add", other, into=True)

    def __isub__(self, other):
        return self._arithmetic("subtract", other, into=True)

    def __imul__(self, other):
        return self._arithmetic("multiply", other, into=True)

    def __itruediv__(self, other):
        return self._arithmetic("divide", other, into=True)

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, np.ndarray) and k.ndim for k in keys):
            return self._by_arrays(keys)
        given = sum(1 for k in keys if k is not None and k is not Ellipsis)
        if given > self.ndim:
            refuse(f"{given} indices for {self!r}")
        if Ellipsis in [k for k in keys if isinstance(k, type(Ellipsis))]:
            at = next(i for i, k in enumerate(keys) if k is Ellipsis)
            keys = keys[:at] + (slice(None),) * (self.ndim - given) + keys[at + 1:]
        else:
            keys = keys + (slice(None),) * (self.ndim - given)
        shape, strides, offset, dim = [], [], self.offset, 0
        dynamic = None
        for k in keys:
            if k is None:
                shape.append(1)
                strides.append(0)
                continue
            size, step = self.shape[dim], self.strides[dim]
            if isinstance(k, slice):
                start, stop, skip = self._slice(k, size, dim)
                count = -(-(stop - start) // skip)
                offset += start * step
                shape.append(count)
                strides.append(step * skip)
            elif isinstance(k, DynamicSlice):
                start, count = _known(k.start), _known(k.size)
                if count is None:
                    refuse(f"nl.ds of {self!r} has the size {k.size!r}; expected an integer")
                if start is None:
                    return self._dynamic_slice(keys, dim)
                self._check(start, count, size, dim)
                offset += start * step
                shape.append(count)
                strides.append(step)
            elif hasattr(k, "__index__"):
                index = k.__index__()
                if not -size <= index < size:
                    refuse(f"index {index} is outside dimension {dim} of {self!r}")
                offset += index % size * step
                if self.on_chip and dim == 0:
                    shape.append(1)
                    strides.append(step)
            else:
                refuse(f"an index of {self!r} is {k!r}; expected an integer, a slice or nl.ds")
            dim += 1
        if not shape or self.on_chip and len(shape) == 1:
            shape.append(1)
            strides.append(1)
        return self._view(shape, strides, offset, dynamic=dynamic)

    def _by_arrays(self, keys):
        """Indices as nl.arange and nl.mgrid give them: what they reach must be evenly spaced."""
        index = []
        for dim, k in enumerate(keys):
            if isinstance(k, slice):
                start, stop, skip = self._slice(k, self.shape[dim], dim)
                if start == stop:
                    refuse(f"slice {k.start}:{k.stop}:{k.step} of {self!r} is empty")
                k = np.arange(start, stop, skip)
                k = k.reshape((-1,) + (1,) * (len(keys) - 1 - dim))
            index.append(np.asarray(k))
        if len(index) != self.ndim or any(i.dtype.kind not in "iu" for i in index):
            refuse(f"{len(index)} arrays as an index of {self!r}; expected one of integers for each "
                   "dimension")
        outside = any(i.size and (i.min() < 0 or i.max() >= self.shape[dim])
                      for dim, i in enumerate(index))
        address = sum(i.astype(np.int64) * s for i, s in zip(index, self.strides))
        address = address.reshape(address.shape or (1,))
        steps = []
        for dim in range(address.ndim):
            if address.shape[dim] == 1:
                steps.append(0)
                continue
            first = np.take(address, 0, dim)
            step = int((np.take(address, 1, dim) - first).reshape(-1)[0])
            steps.append(step)
        even = int(address.reshape(-1)[0])
        for dim, step in enumerate(steps):
            line = np.arange(address.shape[dim]).reshape([-1 if d == dim else 1
                                                          for d in range(address.ndim)])
            even = even + step * line
        if not np.array_equal(np.broadcast_to(even, address.shape), address):
            refuse(f"the index of {self!r} is not evenly spaced; gather with an index tile")
        view = self._view(address.shape, steps, self.offset + int(address.reshape(-1)[0]))
        if self.on_chip and view.ndim == 1:
            view = view._view(view.shape + (1,), view.strides + (1,))
        if outside:
            view.beyond = (self, index)
        return view

    def _slice(self, key, size, dim):
        start, stop, skip = key.start, key.stop, key.step
        for value in (start, stop, skip):
            if value is not None and not hasattr(value, "__index__"):
                refuse(f"a slice of {self!r} has the bound {value!r}; a bound that the device "
                       "computes is nl.ds(register, size)")
        skip = 1 if skip is None else skip.__index__()
        start, stop = (0 if start is None else start.__index__()), (size if stop is None else stop.__index__())
        start, stop = (value + size if value < 0 else value for value in (start, stop))
        # A slice of nothing may be named, as by a program of a grid that has no rows, but not used.
        if skip < 1 or not 0 <= start <= stop <= size:
            text = ":".join("" if part is None else str(part) for part in (key.start, key.stop, key.step)[:2 + (skip != 1)])
            if 0 <= start <= stop and skip >= 1:
                refuse(f"slice {text} leaves dimension {dim}, which has {size} elements, of {self!r}")
            what = f"has the step {skip}; expected 1 or more" if skip < 1 else "ends before it begins"
            refuse(f"slice {text} of dimension {dim} {what}: {self!r}")
        return start, stop, skip

    def _check(self, start, count, size, dim):
        if start < 0 or count < 0 or start + count > size:
            refuse(f"elements {start} to {start + count - 1} leave dimension {dim} of {self!r}")

    def _dynamic_slice(self, keys, dim):
        others = tuple(slice(0, k.size) if i == dim else k for i, k in enumerate(keys))
        view = self[others]
        return view.at_dynamic(keys[dim].start, self.strides[dim])

    def at_dynamic(self, scalar, step):
        """This view, moved by a value of the device times `step` elements."""
        self._by_one_index()
        return self._view(self.shape, self.strides, dynamic=("scalar", scalar, step))

    def _by_one_index(self):
        if self.dynamic is not None:
            refuse(f"{self!r} is reached by an index of the device already")

    def _dynamic_as(self, element):
        """The index of the device, with its step in elements of another type."""
        if self.dynamic is None:
            return None
        how, index, step = self.dynamic
        return how, index, self._step_as(step, element)

    def _step_as(self, step, element):
        if step * self.dtype.itemsize % element.itemsize:
            refuse(f"an index of the device moves {self!r} by {step * self.dtype.itemsize} bytes, which "
                   f"are no whole elements of {element}")
        return step * self.dtype.itemsize // element.itemsize

    def __setitem__(self, key, value):
        from . import elementwise
        elementwise.assign(self[key], value)

    def slice(self, dim, start, end, step=1):
        keys = [slice(None)] * self.ndim
        keys[dim] = slice(start, end, step)
        return self[tuple(keys)]

    def select(self, dim, index):
        known = _known(index)
        dim = dim % self.ndim
        if known is not None:
            index = known
            size, step = self.shape[dim], self.strides[dim]
            if not -size <= index < size:
                refuse(f"index {index} is outside dimension {dim} of {self!r}")
            shape = self.shape[:dim] + self.shape[dim + 1:]
            strides = self.strides[:dim] + self.strides[dim + 1:]
            return self._view(shape or (1,), strides or (1,), self.offset + index % size * step)
        if self.on_chip and dim == 0:
            refuse("the partition of a tile cannot be chosen by the device")
        rest = self.select(dim, 0)
        return rest.at_dynamic(index, self.strides[dim])

    def vector_select(self, dim, vector_offset):
        if dim != 0 or self.on_chip:
            refuse("vector_select is for dimension 0 of tensors in HBM")
        self._by_one_index()
        shape = (vector_offset.shape[0],) + self.shape[1:]
        view = self._view(shape, (0,) + self.strides[1:])
        view.dynamic = ("vector", vector_offset, self.strides[0])
        return view

    def permute(self, dims):
        if sorted(dims) != list(range(self.ndim)) or self.on_chip and dims[0] != 0:
            refuse(f"permute({tuple(dims)}) of {self!r}: expected each dimension once, and on the "
                   "chip the partition first")
        if self.dynamic is not None and self.dynamic[0] == "vector" and dims[0] != 0:
            refuse(f"permute({tuple(dims)}) of {self!r}: its first dimension is that of the index of the "
                   "device, and stays the first")
        return self._view([self.shape[d] for d in dims], [self.strides[d] for d in dims])

    def broadcast(self, dim, size):
        if self.shape[dim] != 1 or self.on_chip and dim % self.ndim == 0:
            refuse(f"broadcast of dimension {dim} of {self!r}: expected a dimension of size 1 that "
                   "is not the partition")
        shape, strides = list(self.shape), list(self.strides)
        shape[dim], strides[dim] = size, 0
        return self._view(shape, strides)

    def broadcast_to(self, shape):
        from . import elementwise
        return elementwise.broadcast_to(self, shape)

    def expand_dim(self, dim):
        dim = dim % (self.ndim + 1)
        if self.on_chip and dim == 0:
            refuse("a dimension cannot stand before the partition")
        return self._view(self.shape[:dim] + (1,) + self.shape[dim:],
                          self.strides[:dim] + (0,) + self.strides[dim:])

    def squeeze_dim(self, dim):
        if self.shape[dim] != 1:
            refuse(f"squeeze_dim({dim}) of {self!r}: its size is not 1")
        dim = dim % self.ndim
        return self._view(self.shape[:dim] + self.shape[dim + 1:],
                          self.strides[:dim] + self.strides[dim + 1:])

    def reshape_dim(self, dim, shape):
        dim = dim % self.ndim
        shape = _filled(shape, self.shape[dim], self)
        if self.on_chip and dim == 0 and len(shape) > 1:
            refuse("the partition cannot be split into dimensions")
        step = self.strides[dim]
        steps = tuple(s * step for s in row_major(shape))
        return self._view(self.shape[:dim] + shape + self.shape[dim + 1:],
                          self.strides[:dim] + steps + self.strides[dim + 1:])

    def flatten_dims(self, start_dim, end_dim):
        start_dim, end_dim = (d + self.ndim if d < 0 else d for d in (start_dim, end_dim))
        if not 0 <= start_dim <= end_dim < self.ndim:
            refuse(f"flatten_dims({start_dim}, {end_dim}) of {self!r}: expected two of its dimensions")
        size, step = 1, None
        for d in range(end_dim, start_dim - 1, -1):
            if self.shape[d] == 1:
                continue
            if step is None:
                step = self.strides[d]
            elif self.strides[d] != step * size:
                refuse(f"dimensions {start_dim} to {end_dim} of {self!r} do not follow each other "
                       "in memory")
            size *= self.shape[d]
        return self._view(self.shape[:start_dim] + (size,) + self.shape[end_dim + 1:],
                          self.strides[:start_dim] + (step or 1,) + self.strides[end_dim + 1:])

    def reshape(self, *shape):
        shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        shape = _filled(shape, self.size, self)
        if self.on_chip and shape[0] != self.shape[0]:
            refuse(f"reshape of {self!r} to {list(shape)} changes the number of partitions")
        strides = _reshaped(self.shape, self.strides, shape)
        if strides is None:
            refuse(f"reshape of {self!r} to {list(shape)} would need a copy: its elements do not "
                   "follow each other in memory")
        return self._view(shape, strides)

    def rearrange(self, src_pattern, dst_pattern, fixed_sizes=None):
        sizes = dict(fixed_sizes or {})
        names, shape = [], []
        for dim, group in enumerate(src_pattern):
            group = (group,) if isinstance(group, str) else tuple(group)
            unknown = [n for n in group if n not in sizes]
            known = math.prod(sizes[n] for n in group if n in sizes)
            if len(unknown) > 1:
                refuse(f"the sizes of {unknown} are not given")
            if unknown:
                sizes[unknown[0]] = self.shape[dim] // known
            if math.prod(sizes[n] for n in group) != self.shape[dim]:
                refuse(f"dimension {dim} of {self!r} is not {group} with {sizes}")
            names += group
            shape += [sizes[n] for n in group]
        view = self
        for dim in range(self.ndim - 1, -1, -1):
            group = src_pattern[dim]
            if not isinstance(group, str):
                view = view.reshape_dim(dim, tuple(sizes[n] for n in group))
        order = [n for group in dst_pattern for n in ((group,) if isinstance(group, str) else group)]
        if sorted(order) != sorted(names):
            refuse(f"rearrange to {dst_pattern}: expected the names of {src_pattern}")
        view = view.permute(tuple(names.index(n) for n in order))
        for dim, group in enumerate(dst_pattern):
            if not isinstance(group, str):
                view = view.flatten_dims(dim, dim + len(group) - 1)
        return view

    def ap(self, pattern, offset=None, scalar_offset=None, vector_offset=None, indirect_dim=0, dtype=None):
        element = dtype_of(dtype) if dtype is not None else self.dtype
        base = self.offset * self.dtype.itemsize
        if base % element.itemsize:
            refuse(f"{self!r} begins inside an element of {element}")
        if self.on_chip and self.storage.columns * self.storage.dtype.itemsize % element.itemsize:
            refuse(f"a partition of {self!r} has no whole number of elements of {element}")
        start = base // element.itemsize + (offset or 0)
        view = self._view([int(p[1]) for p in pattern], [int(p[0]) for p in pattern], start, element,
                          self._dynamic_as(element))
        if vector_offset is None and scalar_offset is None:
            return view
        self._by_one_index()
        step = self._step_as(self.strides[indirect_dim], element)
        if vector_offset is not None:
            view.dynamic = ("vector", vector_offset, step)
        else:
            view.dynamic = ("scalar", scalar_offset, step)
        return view

    def view(self, dtype):
        new = dtype_of(dtype)
        old, size = self.dtype.itemsize, new.itemsize
        if old == size:
            return self._view(self.shape, self.strides, dtype=new)
        if self.shape[-1] != 1 and self.strides[-1] != 1:
            refuse(f"view({new}) of {self!r}: its last dimension is not contiguous")
        shape, strides = list(self.shape), list(self.strides)
        bytes_of = [s * old for s in strides]
        if shape[-1] * old % size or self.offset * old % size or any(
                b % size for b in bytes_of[:-1]):
            refuse(f"view({new}) of {self!r}: its bytes are no whole elements")
        shape[-1] = shape[-1] * old // size
        strides = [b // size for b in bytes_of[:-1]] + [1]
        return self._view(shape, strides, self.offset * old // size, new, self._dynamic_as(new))

    reinterpret_cast = view

    def indirect(self, index, num_elem=None):
        """A view [P, num_elem] for an operand of trn3: element i of partition p is the one whose number
        is in index[p // G * G + i % G, i // G], counted along the free dimensions; G = 16 partitions, 32
        for the Tensor engine. A source gathers, a destination scatters. num_elem is index.size if left
        out, which is right for one group of partitions.
        """
        target, generation = self.storage.recorder.target, self.storage.recorder.generation
        if generation < 4:
            refuse(f".indirect is of generation 4 (trn3), and the target is {target}; nisa.nc_n_gather gathers "
                   "along the free dimensions, dma_copy by vector_offset rows")
        if self.offsets is not None or self.dynamic is not None:
            refuse(f".indirect of {self!r}, which is reached by an index already")
        if not self.on_chip:
            refuse(f".indirect of {self!r}, which is in HBM; dma_copy reaches its rows by vector_offset")
        if not isinstance(index, NkiTensor) or index.storage.space != SBUF or index.is_indirect():
            refuse(f"the index of .indirect is {index!r}; expected a tile in SBUF")
        if str(index.dtype) not in ("uint16", "int32", "uint32"):
            refuse(f"the index of .indirect is {index.dtype}; expected uint16, int32 or uint32")
        if index.shape[0] < self.shape[0]:
            refuse(f"the index of .indirect has {index.shape[0]} partitions and {self!r} {self.shape[0]}; "
                   "expected as many")
        for view in (self, index):
            if not view.is_contiguous():
                refuse(f".indirect counts elements along the free dimensions, and those of {view!r} do not "
                       "follow each other in memory; copy them into a tile first")
        count = index.size if num_elem is None else num_elem
        if not hasattr(count, "__index__") or not 1 <= count <= index.size:
            refuse(f"num_elem of .indirect is {count!r}; expected 1 to {index.size}, the size of the index")
        view = NkiTensor(self.storage, (self.shape[0], int(count)), (self.strides[0], 1), self.offset, self.dtype)
        view.offsets = (self, index)
        return view

    def astype(self, dtype):
        from . import elementwise
        return elementwise.copied(self, dtype)


def _known(value):
    """An integer, if it is one that the trace knows; else None."""
    if not hasattr(value, "__index__") or getattr(value, "tile", None) is not None:
        return None  # A register of the device, or a tile
    return value.__index__()


def _filled(shape, size, view):
    shape = tuple(int(s) for s in shape)
    if shape.count(-1) == 1:
        known = -math.prod(shape)
        shape = tuple(size // known if s == -1 else s for s in shape)
    if math.prod(shape) != size or any(s < 1 for s in shape):
        refuse(f"{list(shape)} has not the {size} elements of {view!r}")
    return shape


def _reshaped(old_shape, old_strides, shape):
    """Strides of the same elements in a new shape; None if that needs a copy."""
    old = [(n, s) for n, s in zip(old_shape, old_strides) if n != 1]
    strides, i = [], 0
    j = 0
    result = [0] * len(shape)
    while i < len(old):
        group, covered = [i], old[i][0]
        first = j
        new = 1
        while j < len(shape) and new < covered or new != covered:
            if new < covered:
                if j == len(shape):
                    return None
                new *= shape[j]
                j += 1
            else:
                i += 1
                if i == len(old):
                    return None
                group.append(i)
                covered *= old[i][0]
        for a, b in zip(group, group[1:]):
            if old[a][1] != old[b][1] * old[b][0]:
                return None
        step = old[group[-1]][1]
        for d in range(j - 1, first - 1, -1):
            result[d] = step
            step *= shape[d]
        i += 1
    return strides or tuple(result)
