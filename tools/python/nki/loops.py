# SPDX-License-Identifier: Apache-2.0
"""Loops whose rounds the device decides. Python runs their body once.

The trace has the body between `while` and `end_while`; it happens as long as the word of the
condition's tile is not 0 when a round begins. The two programs of kernel[2] go through such a loop
together: each says in the trace where it begins and ends, and one core that executes both does so once.
"""
import linecache
import sys

from .errors import caller, place, refuse


def _recorder():
    from . import recorder
    return recorder.current() if recorder.tracing() else None


def depth():
    """How many of these loops are open."""
    recorder = _recorder()
    return len(recorder.open_loops) if recorder is not None else 0


def _first(recorder, what):
    """True for the program that writes the first record; both programs of a pair are here then."""
    return recorder.pair is None or recorder.pair.meet(what)[1]


def begin(condition):
    """`condition`: a tile of one int32 in SBUF, which the body may change."""
    recorder = _recorder()
    position = caller()
    first = _first(recorder, "the begin of a loop of the device")
    record = recorder.emit("while", condition=recorder.operand(condition, "the condition"))
    if not first:
        recorder.twice.append(record)
    else:
        recorder.open_loops.append(position)
        recorder.notes.append("what a loop of the device does counts once in the list of lines, however "
                              "many rounds it has; the whole time is that of all rounds")


def end():
    recorder = _recorder()
    first = _first(recorder, "the end of a loop of the device")
    record = recorder.emit("end_while")
    if first:
        recorder.open_loops.pop()
    else:
        recorder.twice.append(record)


def check_all_ended(recorder):
    if recorder.open_loops:
        refuse(f"the loop of the device that begins at {place(recorder.open_loops[-1])} was left by "
               "break or return; its rounds end by its condition only")


def _word(value, name):
    """A new tile of one int32 that holds a number or what a register holds."""
    from . import isa
    recorder = _recorder()
    tile = recorder.tensor((1, 1), "int32", "sbuf", name)
    source = getattr(value, "tile", None)
    if source is None:
        isa.memset(tile, int(value))
    else:
        isa.dma_copy(tile, source)
    return tile


class Counted:
    """for i in Counted(start, stop, step): i is a register. One round for Python."""

    def __init__(self, start, stop, step):
        from .isa.control import VirtualRegister
        if not isinstance(step, int) or step < 1:
            refuse(f"the step of the loop is {step!r}; expected an integer from 1")
        self.step, self.round = step, 0
        self.number, self.bound = _word(start, "loop counter"), _word(stop, "loop bound")
        self.going = _word(0, "loop condition")
        self.register = VirtualRegister()
        self.register.tile = self.number

    def _compare(self):
        from . import isa
        # 32-bit integers are exact on GpSimd only.
        isa.tensor_tensor(self.going, self.number, self.bound, "less", engine=isa.engine.gpsimd)

    def __iter__(self):
        return self

    def __next__(self):
        from . import isa
        self.round += 1
        if self.round == 1:
            self._compare()
            begin(self.going)
            return self.register
        if self.round == 2:
            increment = _word(self.step, "loop step")
            isa.tensor_tensor(self.number, self.number, increment, "add", engine=isa.engine.gpsimd)
            self._compare()
            end()
        raise StopIteration


def condition(register):
    """What "while register:" asks: True at the begin of the body, False at its end."""
    recorder = _recorder()
    frame = sys._getframe(2)
    position = (frame.f_code.co_filename, frame.f_lineno)
    if not linecache.getline(*position).strip().startswith("while "):
        refuse("the value of this register is known to the device only; \"while register:\" on a line "
               "of its own is a loop of the device, other conditions on it are not available")
    key = (id(register), position, recorder.number if recorder.pair is not None else 0)
    going = recorder.while_words.pop(key, None)
    if going is None:
        going = recorder.while_words[key] = _word(register, "loop condition")
        begin(going)
        return True
    from . import isa
    isa.dma_copy(going, register.tile)
    end()
    return False


def while_register(init, body):
    """r = init; while r != 0: r = body(r)"""
    from . import isa
    from .isa.control import VirtualRegister
    going = _word(init, "loop condition")
    begin(going)
    value = VirtualRegister()
    value.tile = _word_of(going)
    following = body(value)
    if not isinstance(following, VirtualRegister):
        refuse(f"the body of nl.while_loop returned {following!r}; expected a register")
    isa.dma_copy(going, following.tile) if following.tile is not None else isa.memset(
        going, int(following))
    end()


def _word_of(tile):
    from . import isa
    copy = _recorder().tensor((1, 1), "int32", "sbuf", "loop value")
    isa.dma_copy(copy, tile)
    return copy
