# SPDX-License-Identifier: Apache-2.0
"""What the old style says to Amazon's compiler: hints, on which nothing here depends, and the places of
tiles, which are followed."""
from nki.errors import refuse
from nki.language import no_reorder  # noqa: F401  kernels find it here, too


def _hint(function=None, **unused):
    return function if function is not None else (lambda f: f)


skip_middle_end_transformations = enable_stack_allocator = force_auto_alloc = _hint


class Placed(str):
    """A memory in which each block of a tensor has a place that the kernel chooses."""

    def __new__(cls, space, place):
        region = super().__new__(cls, space)
        region.place = place  # (block's indices, partitions, bytes) -> (partition, byte)
        return region


def _modulo(base, counts, size):
    """Where block `index` lies, of which those with equal remainders share a place."""
    def place(index):
        # A tensor without blocks is one tile, which lies at the base; published kernels give it numbers, too.
        sizes = counts if counts and index else (1,) * len(index)
        if len(sizes) != len(index):
            refuse(f"{len(sizes)} numbers of tiles, {tuple(sizes)}, for {len(index)} dimensions of blocks")
        number = 0
        for i, n in zip(index, sizes):
            number = number * n + i % n
        return base + number * size
    return place


class _Sbuf(str):
    """nki.compiler.sbuf."""

    def alloc(self, func):
        """func(block's indices, partitions, bytes) gives the first partition and the byte."""
        return Placed(self, func)

    def mod_alloc(self, *, base_addr, base_partition=0, num_par_tiles=(), num_free_tiles=()):
        """Blocks whose indices have equal remainders share a place."""
        return Placed(self, lambda index, parts, size: (
            _modulo(base_partition, num_par_tiles, parts)(index),
            _modulo(base_addr, num_free_tiles, size)(index)))

    def auto_alloc(self):
        return self


class _Psum(str):
    """nki.compiler.psum."""

    def alloc(self, func):
        """func(block's indices, partitions, bytes) gives bank, first partition and byte in the bank."""
        from nki.recorder import PSUM_BANK_BYTES, PSUM_BYTES

        def place(index, parts, size):
            found = func(index, parts, size)
            if not isinstance(found, tuple) or len(found) != 3:
                refuse(f"block {tuple(index)} is to lie at {found!r}; expected bank, partition and byte")
            bank, partition, byte = found
            if not 0 <= bank < PSUM_BYTES // PSUM_BANK_BYTES or byte < 0 or byte + size > PSUM_BANK_BYTES:
                refuse(f"block {tuple(index)} of {size} bytes is to lie in bank {bank} of PSUM from byte {byte}; "
                       f"there are {PSUM_BYTES // PSUM_BANK_BYTES} banks of {PSUM_BANK_BYTES} bytes")
            return partition, bank * PSUM_BANK_BYTES + byte

        return Placed(self, place)

    def mod_alloc(self, *, base_bank, base_addr=0, base_partition=0, num_bank_tiles=(), num_par_tiles=(),
                  num_free_tiles=()):
        """Blocks whose indices have equal remainders share a place."""
        return self.alloc(lambda index, parts, size: (
            _modulo(base_bank, num_bank_tiles, 1)(index), _modulo(base_partition, num_par_tiles, parts)(index),
            _modulo(base_addr, num_free_tiles, size)(index)))

    def auto_alloc(self):
        return self


sbuf, psum = _Sbuf("sbuf"), _Psum("psum")
