# SPDX-License-Identifier: Apache-2.0
"""Sizes of the chip, and the base class of kernels' own classes."""
import inspect

from ..recorder import (PARTITIONS, PSUM_BANK_BYTES, PSUM_BYTES, SBUF_BYTES, current, tracing)


class _ByKeyword(type):
    """Lets a constructor take every class attribute as a keyword, also those without an annotation,
    which the constructor that @dataclass makes does not know."""

    def __call__(cls, *positional, **fields):
        known = inspect.signature(cls.__init__).parameters
        if any(p.kind is p.VAR_KEYWORD for p in known.values()):
            return super().__call__(*positional, **fields)
        others = {n: v for n, v in fields.items() if n not in known and hasattr(cls, n)}
        given = {n: v for n, v in fields.items() if n not in others}
        # Fields without a value are None, as the annotation says for other classes of kernels.
        for name in list(known)[1 + len(positional):]:
            if known[name].default is known[name].empty and name not in given:
                given[name] = None
        made = super().__call__(*positional, **given)
        for name, value in others.items():
            object.__setattr__(made, name, value)
        return made


class NKIObject(metaclass=_ByKeyword):
    """A class whose annotated fields are None unless the constructor's keywords say otherwise."""

    def __init__(self, **fields):
        known = {}
        for kind in reversed(type(self).__mro__):
            for name in getattr(kind, "__annotations__", {}):
                known[name] = getattr(type(self), name, None)
        for name in fields:
            if name not in known and known:
                raise TypeError(f"{type(self).__name__} has no field {name}")
        for name, value in {**known, **fields}.items():
            setattr(self, name, value)


class _TileSize(NKIObject):
    pmax = PARTITIONS
    psum_fmax = PSUM_BANK_BYTES // 4
    psum_bank_fmax = PSUM_BANK_BYTES // 4
    psum_bank_fmax_bytes = PSUM_BANK_BYTES
    gemm_stationary_fmax = 128
    gemm_moving_fmax = 512
    bn_stats_fmax = 512
    psum_min_align = 4
    sbuf_min_align = 4
    psum_num_banks = PSUM_BYTES // PSUM_BANK_BYTES

    @property
    def sbuf_fmax_bytes(self):
        return SBUF_BYTES[current().generation if tracing() else 3]

    @property
    def sbuf_fmax(self):
        return self.sbuf_fmax_bytes // 4

    @property
    def sbuf_size_bytes(self):
        return self.sbuf_fmax_bytes * PARTITIONS

    @property
    def total_available_sbuf_size(self):
        return self.sbuf_fmax_bytes


tile_size = _TileSize()
