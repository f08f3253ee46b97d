# SPDX-License-Identifier: Apache-2.0
"""Loops of nki.language. All but the dynamic ones are Python's range."""
from .. import loops as _loops
from ..errors import refuse
from ..isa.control import VirtualRegister

__all__ = ["affine_range", "sequential_range", "static_range", "dynamic_range", "fori_loop",
           "while_loop"]


def _range(start, stop, step):
    for value in (start, stop, step):
        if value is not None and not hasattr(value, "__index__"):
            refuse(f"a bound of the loop is {value!r}; expected an integer")
    return range(start) if stop is None else range(start, stop, step)


def affine_range(start, stop=None, step=1):
    return _range(start, stop, step)


sequential_range = static_range = affine_range


def dynamic_range(start, stop=None, step=1):
    """A loop of the device, if it computes a bound (a register); with known bounds it is unrolled."""
    if stop is None:
        start, stop = 0, start
    if any(isinstance(v, VirtualRegister) and v.tile is not None for v in (start, stop)):
        return _loops.Counted(start, stop, step)
    return _range(int(start), int(stop), step)


def fori_loop(lower, upper, body_fun, step=1):
    """body_fun(i) for i from `lower` to `upper`, exclusive; i is a register."""
    for i in dynamic_range(lower, upper, step):
        body_fun(i if isinstance(i, VirtualRegister) else VirtualRegister(i))


def while_loop(init, body_fun):
    """r = init; while r != 0: r = body_fun(r). Registers; the device decides."""
    if not isinstance(init, VirtualRegister):
        refuse(f"init is {init!r}; expected a register")
    _loops.while_register(init, body_fun)
