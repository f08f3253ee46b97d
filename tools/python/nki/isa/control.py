# SPDX-License-Identifier: Apache-2.0
"""Registers, and what the two physical cores of a logical core do together."""
from .. import loops
from ..errors import refuse
from ..recorder import current
from ..tensor import NkiTensor
from .types import engine_name

__all__ = ["register_alloc", "register_move", "register_load", "register_store", "core_barrier",
           "sendrecv"]


class VirtualRegister:
    """A register of the device, as far as the trace knows it: a number, or a tile that holds one."""

    __slots__ = ("value", "tile", "depth")

    def __init__(self, value=0):
        self.value, self.tile = value, None
        self.depth = loops.depth()

    def __index__(self):
        if self.tile is not None:
            refuse("the value of this register is known to the device only; it can be an offset of "
                   "a transfer (scalar_offset), and bound or condition of a loop of the device")
        return int(self.value)

    __int__ = __index__

    def __bool__(self):
        """The condition of "while register:" is the device's; other uses need a known number."""
        return bool(self.value) if self.tile is None else loops.condition(self)

    def becomes(self, source):
        """Holds what the tile of one integer or the number `source` is now."""
        from .memory import dma_copy
        from .vector import memset
        if self.tile is None and self.depth < loops.depth():
            refuse("a register that held a number when this loop of the device began is changed in it: "
                   "the next round would not see that; load it from a tile before the loop")
        if not isinstance(source, NkiTensor):
            if self.tile is None or loops.depth() == 0:
                self.value, self.tile = int(source), None
            else:
                memset(self.tile, int(source))
            return
        if self.tile is None:
            self.tile = current().tensor((1, 1), "int32", "sbuf", "register")
        dma_copy(self.tile, source if source.dtype == self.tile.dtype else source.view("int32"))


def register_alloc(x=None):
    """A register: 0, a number, or the one 32-bit integer of a tile or tensor, at first."""
    if isinstance(x, NkiTensor):
        register = VirtualRegister()
        register_load(register, x)
        return register
    return VirtualRegister(0 if x is None else x)


def register_move(dst, src):
    """dst = a number, or another register, as that is now."""
    if isinstance(src, VirtualRegister):
        src = src.value if src.tile is None else src.tile
    dst.becomes(src)


def register_load(dst, src):
    """dst = the one 32-bit integer of src, as it is now: what changes src later does not count."""
    if src.size != 1 or str(src.dtype) not in ("int32", "uint32"):
        refuse(f"register_load reads one int32 or uint32, found {src!r}")
    dst.becomes(src)


def register_store(dst, src):
    """dst, a tensor of one element, = the register."""
    from .memory import dma_copy
    from .vector import memset, tensor_copy
    if isinstance(src, VirtualRegister) and src.tile is not None:
        same = dst.on_chip and src.tile.on_chip
        return tensor_copy(dst, src.tile) if same else dma_copy(dst, src.tile)
    return memset(dst, int(src))


def core_barrier(data, cores, engine=None, name=None):
    """Waits until both programs of kernel[2] are here; nothing where there is one program. What they did
    to all tensors in HBM that both reach is done then, not only to `data`."""
    from .. import grids
    grids.barrier(engine_name(engine))


def sendrecv(src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine=None, name=None):
    """dst = the src of the other program of kernel[2], whose dst becomes this src. Tiles of SBUF."""
    from .. import grids
    if src.size != dst.size:
        refuse(f"sendrecv of {src!r} to {dst!r}: {src.size} elements to {dst.size}")
    grids.exchange(src, dst)
