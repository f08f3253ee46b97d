# SPDX-License-Identifier: Apache-2.0
"""Tensors with block dimensions, and masks, as the old style has them."""
import math

import numpy as np

from nki import elementwise
from nki.dtypes import dtype_of
from nki.errors import caller, refuse
from nki.recorder import current, space_of
from nki.tensor import NkiTensor


class ParDim(int):
    """A size that is the partition dimension's."""


class Blocked:
    """A tile whose shape has dimensions before the partition: each block has its own columns."""

    def __init__(self, tile, blocks):
        self.tile, self.blocks = tile, blocks

    @property
    def shape(self):
        physical = self.tile.shape
        return physical[1:1 + self.blocks] + physical[:1] + physical[1 + self.blocks:]

    @property
    def dtype(self):
        return self.tile.dtype

    @property
    def ndim(self):
        return len(self.shape)

    def _place(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        if Ellipsis in [k for k in keys if not isinstance(k, np.ndarray)]:
            at = next(i for i, k in enumerate(keys) if k is Ellipsis)
            keys = keys[:at] + (slice(None),) * (self.ndim - len(keys) + 1) + keys[at + 1:]
        keys = keys + (slice(None),) * (self.ndim - len(keys))
        outer, inner = keys[:self.blocks], keys[self.blocks:]
        tile, number = self.tile, self.blocks
        for k in outer:
            if not hasattr(k, "__index__"):
                refuse(f"a block of {list(self.shape)} is chosen by a number, found {k!r}")
            tile = tile.select(1, int(k))
            number -= 1
        return tile[tuple(inner)] if inner else tile

    def __getitem__(self, key):
        return self._place(key)

    def __setitem__(self, key, value):
        elementwise.assign(self._place(key), value)


class SeparateBlocks(Blocked):
    """A tensor with blocks in PSUM, or at places that the kernel chooses: each block is a tile of its
    own, because all of them together are often more than there is. A tile lives from its first use to
    its last."""

    def __init__(self, shape, blocks, dtype, region, name):
        self.whole, self.blocks, self.kind = tuple(shape), blocks, dtype_of(dtype)
        self.region, self.name, self.tiles = region, name, {}
        self.position = caller()

    def tile_of(self, number):
        """The tile of one block, made when it is first named."""
        if number not in self.tiles:
            shape = self.whole[self.blocks:]
            self.tiles[number] = current().tensor(shape, self.kind, space_of(self.region), self.name or None,
                                                  placed(self.region, number, shape, self.kind), self.position)
        return self.tiles[number]

    def all_tiles(self):
        return [self.tile_of(number) for number in np.ndindex(*self.whole[:self.blocks])]

    @property
    def shape(self):
        return self.whole

    @property
    def dtype(self):
        return self.kind

    def _place(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        outer, inner = keys[:self.blocks], keys[self.blocks:]
        if len(outer) < self.blocks or not all(hasattr(k, "__index__") for k in outer):
            refuse(f"blocks of {list(self.whole)} are chosen by numbers, found {key!r}")
        number = tuple(int(k) for k in outer)
        if not all(0 <= i < n for i, n in zip(number, self.whole)):
            refuse(f"block {number} is outside {list(self.whole)}")
        tile = self.tile_of(number)
        return tile[tuple(inner)] if inner else tile


def placed(region, number, shape, dtype):
    """(partition, byte) of a block, if the kernel chooses it; else None."""
    place = getattr(region, "place", None)
    if place is None:
        return None
    parts, size = shape[0], math.prod(shape[1:]) * dtype_of(dtype).itemsize
    found = place(number, parts, size)
    if not isinstance(found, tuple) or len(found) != 2 or any(
            not hasattr(v, "__index__") or v < 0 for v in found):
        refuse(f"block {number} is to lie at {found!r}; expected a partition and a byte")
    return found


def plain(value):
    """A tensor of the package nki, where an argument is one with blocks."""
    if isinstance(value, SeparateBlocks):
        refuse(f"a tensor of {list(value.whole)} with blocks is used as a whole; name a block")
    return value.tile if isinstance(value, Blocked) else value


def masked(tile, mask):
    """The part of a tile that a mask leaves, which must be a box from 0; None if it is empty."""
    if mask is None or not isinstance(tile, NkiTensor):
        return tile
    mask = np.asarray(mask)
    if mask.ndim == 0 or mask.all():
        return tile if mask.all() else None
    mask = mask.reshape(mask.shape + (1,) * (tile.ndim - mask.ndim)) if mask.ndim < tile.ndim else mask
    try:
        kept = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, tile.shape))
    except ValueError:
        return refuse(f"a mask of shape {list(mask.shape)} for {tile!r}")
    if not kept.any():
        return None
    limits = [int(np.flatnonzero(kept.any(axis=tuple(d for d in range(kept.ndim) if d != axis)))[-1])
              + 1 for axis in range(kept.ndim)]
    if kept.sum() != math.prod(limits):
        return refuse(f"the mask for {tile!r} is no box from 0; use affine_select")
    if tile.beyond is not None:
        whole, index = tile.beyond
        index = np.broadcast_arrays(*index)
        box = tuple(slice(0, n) for n in limits[:index[0].ndim])
        return whole[tuple(i[box] for i in index)]
    return tile[tuple(slice(0, min(n, s)) for n, s in zip(limits, tile.shape))]
