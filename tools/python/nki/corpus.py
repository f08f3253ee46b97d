# SPDX-License-Identifier: Apache-2.0
"""neuron-nki corpus FOLDER: every kernel of a folder, run by the tests and scripts that come with it.

A file's functions test_* are called, with the values of pytest.mark.parametrize where they have any;
a file without tests that has `if __name__ == "__main__"` is run as a script. Whatever kernel they
call is one row of the table: what became of it, its modelled time, and the reason if it failed.
Only files that have to do with kernels are run (kernel_files.py says which); of the others, notes name the tests,
the scripts and what has functions under @jit.
"""
import ast
import contextlib
import importlib
import inspect
import io
import itertools
import os
import re
import runpy
import sys
import time
import types

import numpy as np

from . import kernel as kernels
from .errors import shown
from .kernel_files import of_kernels
from .lint import is_kernel
from .tool import load_module

_MOST_CASES = 8  # Of one test's parameters


class Row:
    """What is known of one kernel."""

    def __init__(self, file, name):
        self.file, self.name = file, name
        self.values, self.microseconds, self.reason, self.calls = "not run", None, "", 0


class _Watch:
    """Notes each call of a kernel while a test runs."""

    def __init__(self):
        self.calls = []

    def __enter__(self):
        self.original = kernels.Kernel.__call__
        watch = self

        def call(kernel, *arguments, **named):
            if kernels.tracing():
                return watch.original(kernel, *arguments, **named)
            code = inspect.unwrap(kernel.function).__code__
            note = {"file": os.path.abspath(code.co_filename), "name": kernel.__name__,
                    "error": None, "us": None}
            watch.calls.append(note)
            try:
                result = watch.original(kernel, *arguments, **named)
            except BaseException as error:
                note["error"] = error
                raise
            note["us"] = kernel.last.report.device_ps * 1e-6
            return result

        kernels.Kernel.__call__ = call
        return self

    def __exit__(self, *unused):
        kernels.Kernel.__call__ = self.original


def _stand_in_for_pytest():
    """As much of pytest as test files need while they are imported."""
    module = types.ModuleType("pytest")

    def parametrize(names, values, **unused):
        def mark(function):
            listed = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
            function.__dict__.setdefault("_cases", []).append((listed, list(values)))
            return function
        return mark

    class Marks:
        def __getattr__(self, name):
            if name == "parametrize":
                return parametrize
            return lambda *a, **k: a[0] if len(a) == 1 and callable(a[0]) else (lambda f: f)

    module.mark = Marks()
    module.param = lambda *values, **unused: values if len(values) > 1 else values[0]
    module.fixture = lambda *a, **k: a[0] if a and callable(a[0]) else (lambda f: f)
    module.skip = lambda reason="", **unused: (_ for _ in ()).throw(_Skipped(reason))
    module.raises = _Raises
    module.approx = _Near
    return module


class _Skipped(Exception):
    pass


class _Raises:
    """pytest.raises: what is inside must fail so."""

    def __init__(self, expected, match=None):
        self.expected, self.match = expected, match
        self.value = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            raise AssertionError(f"nothing was raised; expected {self.expected}")
        if not issubclass(kind, self.expected):
            return False
        if self.match is not None and not re.search(self.match, str(error)):
            raise AssertionError(f"the error says \"{error}\"; expected {self.match!r} in it")
        self.value = error
        return True


class _Near:
    """pytest.approx of numbers and arrays, with its bounds of 1e-6 of the value and 1e-12."""

    __array_ufunc__ = None  # NumPy leaves the comparison to this class

    def __init__(self, wanted, rel=1e-6, abs=1e-12, **unused):
        self.wanted, self.rel, self.abs = wanted, rel, abs

    def __eq__(self, got):
        return bool(np.shape(got) == np.shape(self.wanted) and np.all(np.abs(
            np.subtract(got, self.wanted)) <= np.maximum(self.abs, self.rel * np.abs(self.wanted))))


def cases_of(function):
    """The arguments of each call of a test."""
    marks = list(getattr(function, "_cases", []))
    for mark in getattr(function, "pytestmark", []):
        if mark.name == "parametrize":
            names = mark.args[0]
            names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
            marks.append((names, [getattr(v, "values", v) for v in mark.args[1]]))
    lists = []
    for names, values in marks:
        lists.append([dict(zip(names, v if len(names) > 1 else (
            v if isinstance(v, tuple) and len(v) == 1 else (v,)))) for v in values])
    for combination in itertools.islice(itertools.product(*lists), _MOST_CASES):
        yield {k: v for part in combination for k, v in part.items()}


def _script(path):
    """Runs a file as `python FILE` does: its folder comes first, and no words follow its name."""
    words, places, known = sys.argv, list(sys.path), set(sys.modules)
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        runpy.run_path(path, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = words, places
        for name in set(sys.modules) - known:  # Another folder's file of this name is another module
            file = getattr(sys.modules[name], "__file__", None) or ""
            if os.path.dirname(os.path.abspath(file)) == os.path.dirname(os.path.abspath(path)):
                del sys.modules[name]


def _kernels_in(tree):
    return [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and is_kernel(n)]


def _run(action, rows, label):
    """One test or script; what it says goes to the kernels that it called."""
    error = None
    with _Watch() as watch, contextlib.redirect_stdout(io.StringIO()):
        try:
            action()
        except _Skipped:
            pass
        except SystemExit as end:
            error = end if end.code not in (None, 0) else None
        except KeyboardInterrupt:
            raise
        except BaseException as caught:  # pytest's own are no Exceptions
            error = None if type(caught).__name__ == "Skipped" else caught
    for call in watch.calls:
        row = rows.get((call["file"], call["name"]))
        if row is None:
            continue
        row.calls += 1
        if call["us"] is not None:
            row.microseconds = call["us"]
        failed = call["error"] or error
        if failed is None:
            if row.values == "not run":
                row.values = "as its test"
        elif row.values != "failed":
            row.values = "failed"
            kind = "" if call["error"] else f"{label}: "
            text = str(failed).splitlines()[0] if str(failed) else ""
            row.reason = f"{kind}{type(failed).__name__}: {text}"[:240]
    return error if not watch.calls else None


def _passed_over(trees, texts):
    """Notes on the files that are not run: all that may have kernels, and of the rest some that would have been run."""
    why = ("because they neither import nki or neuronxcc, nor have a function under @nki.jit, nor import a file of the "
           "folder that does")
    jitted = [shown(path) for path, tree in trees.items() if _kernels_in(tree)]
    if jitted:
        yield f"files with functions under @jit passed over, {why}: {len(jitted)} ({', '.join(jitted)})"
    others = [shown(path) for path, tree in trees.items()
              if not _kernels_in(tree) and ("def test_" in texts[path] or "__main__" in texts[path])]
    if others:
        names = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        yield f"tests and scripts passed over, {why}: {len(others)} ({names})"


def table(folder, seed, deadline):
    """Runs and prints; 1 if a kernel failed."""
    rows, files, notes = {}, [], []
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "__")))
        files += [os.path.join(base, n) for n in sorted(names) if n.endswith(".py")]
    texts, trees = {}, {}
    for path in files:
        with open(path, encoding="utf-8", errors="replace") as source:
            texts[path] = source.read()
        try:
            trees[path] = ast.parse(texts[path], path)
        except SyntaxError as error:
            notes.append(f"{shown(path)} cannot be read: line {error.lineno}: {error.msg}")
    chosen = of_kernels(trees, folder)
    for path, tree in trees.items():
        if os.path.abspath(path) in chosen:
            for name in _kernels_in(tree):
                rows[os.path.abspath(path), name] = Row(path, name)
    notes += _passed_over({path: tree for path, tree in trees.items() if os.path.abspath(path) not in chosen}, texts)
    try:
        importlib.import_module("pytest")
    except ImportError:
        sys.modules["pytest"] = _stand_in_for_pytest()
    sys.path[:0] = [place for place in (os.path.abspath(folder), os.path.abspath(os.path.join(folder, "src")))
                    if os.path.isdir(place)]  # Many projects keep their package in src
    for path in files:
        if os.path.abspath(path) not in chosen:
            continue
        if time.monotonic() > deadline:
            notes.append("the time is over; the rest was not run")
            break
        text = texts[path]
        if "def test_" not in text:
            if "__main__" in text and "import" in text:
                error = _run(lambda: _script(path), rows, shown(path))
                if error is not None and "nki" in text:
                    notes.append(f"{shown(path)}: {type(error).__name__}: {error}"[:200])
            continue
        imported = []  # Some files of tests call them while they are imported
        error = _run(lambda: imported.append(load_module(path)), rows, shown(path))
        if not imported:
            if error is not None:
                notes.append(f"{shown(path)} cannot be imported: {type(error).__name__}: {error}"[:200])
            continue
        module = imported[0]
        for name, function in list(vars(module).items()):
            if not name.startswith("test_") or not inspect.isfunction(function):
                continue
            for case in cases_of(function):
                missing = [p.name for p in inspect.signature(function).parameters.values()
                           if p.default is p.empty and p.name not in case]
                if missing:
                    notes.append(f"{shown(path)}: {name} wants {', '.join(missing)}")
                    break
                if time.monotonic() > deadline:
                    break
                _run(lambda: function(**case), rows, f"{name}")
    return _print(rows, notes)


def _print(rows, notes):
    width = max([len(f"{shown(r.file)}::{r.name}") for r in rows.values()] + [6])
    print(f"{'kernel':{width}s}  {'values':12s} {'us':>10s}  reason")
    for row in rows.values():
        time_text = f"{row.microseconds:10.2f}" if row.microseconds is not None else " " * 10
        reason = row.reason or ("" if row.calls else "no test or script of the folder calls it")
        print(f"{shown(row.file) + '::' + row.name:{width}s}  {row.values:12s} {time_text}  {reason}")
    passed = sum(r.values == "as its test" for r in rows.values())
    failed = sum(r.values == "failed" for r in rows.values())
    print(f"{len(rows)} kernels: {passed} as their tests, {failed} failed, "
          f"{len(rows) - passed - failed} not run")
    for note in dict.fromkeys(notes):
        print(f"note: {note}")
    return 1 if failed else 0
