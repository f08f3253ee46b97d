# SPDX-License-Identifier: Apache-2.0
"""Errors of tracing and executing kernels. Each names a file and a line of Python."""
import difflib
import itertools
import linecache
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
# Frames in here are never a kernel's: this package, and the old style on top of it.
_PACKAGE = (_HERE + os.sep, os.path.join(os.path.dirname(_HERE), "old") + os.sep)


class NkiError(Exception):
    """A kernel asks for something that the chip, or this model of it, cannot do."""


class NkiValidationError(NkiError):
    """An argument of a call is wrong."""


class DeviceError(NkiError):
    """The device stopped the kernel, or cannot be used."""


def _frame():
    """The innermost frame outside this package."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame


def caller():
    """(file, line) of the innermost frame outside this package."""
    frame = _frame()
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("unknown", 0)


def place(position=None):
    """"kernel.py:12" for a message."""
    file, line = position or caller()
    return f"{shown(file)}:{line}"


def shown(file):
    """The path as a reader wants it: relative where that is shorter."""
    try:
        relative = os.path.relpath(file)
    except ValueError:
        return file
    return relative if len(relative) < len(file) else file


def refuse(text, kind=NkiValidationError):
    raise kind(f"{place()}: {text}")


def unknown_name(module, other, old=()):
    """The __getattr__ of a module: it tells what a name that is not there may have meant.

    other: the module whose names are taken for this one's; old: names that only the older style has.
    """
    def unknown(name):
        here = f"module '{module}' has no attribute '{name}'"
        if name.startswith("_"):
            raise AttributeError(here)
        own = [n for n in vars(sys.modules[module]) if not n.startswith("_")]
        elsewhere = vars(sys.modules[other]) if other in sys.modules else {}
        near = difflib.get_close_matches(name, own, 1, 0.7)
        if name in elsewhere:
            here += f"; it is {other}.{name}"
        elif name in old:
            here += ("; the older style has it: import neuronxcc.nki, with tools/python/old in PYTHONPATH "
                     "beside tools/python")
        elif near:
            here += f"; did you mean '{near[0]}'?"
        raise AttributeError(here, name="", obj=None)  # so Python adds no second guess

    return unknown


def no_condition(name):
    """A comparison of tensors by Python's operator, which nl.NAME does on the chip."""
    def compare(tensor, _):
        refuse(f"the result of comparing {tensor!r} is not known before the kernel runs; nl.{name} makes a tile of "
               "ones and zeros, for nl.where or nisa.tensor_copy_predicated")

    return compare


def assigned_name(position, fallback):
    """The variable that a line assigns to, to name a tile after."""
    text = linecache.getline(*position).strip()
    if ";" in text:
        text = _statement(position)
    name = text.split("=", 1)[0].split(":", 1)[0].strip() if "=" in text else ""
    return name if name.isidentifier() else fallback


def _statement(position):
    """Of a line with several statements, the start of that which runs; empty if that cannot be known."""
    frame = _frame()
    if frame is None or caller() != position:
        return ""
    places = itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    line, _, column, _ = next(places, (None,) * 4)
    if line != position[1] or column is None:
        return ""
    before = linecache.getline(*position).encode()[:column].decode(errors="replace")  # Columns count bytes
    return before.rsplit(";", 1)[-1].strip()
