# SPDX-License-Identifier: Apache-2.0
"""The commands run, compile, bench, check, lint and corpus of neuron-nki."""
import argparse
import html
import importlib.util
import inspect
import os
import sys
import sysconfig
import time
import traceback

import numpy as np

from . import dtypes, lint
from .errors import NkiError
from .kernel import Kernel, is_array, mapped
from .recorder import GENERATIONS


def load_module(path):
    """The module in a file, with its folder on the path as python FILE has it."""
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = "kernel_file_" + os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise NkiError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        place = f"{error.filename}:{error.lineno}"
        raise NkiError(f"{place}: {error.msg}: {(error.text or '').strip()}") from None
    return module


def load_kernel(place):
    path, separator, name = place.partition("::")
    if not os.path.exists(path):
        raise NkiError(f"{path} does not exist; expected FILE.py::KERNEL")
    module = load_module(path)
    kernels = {n: v for n, v in vars(module).items() if isinstance(v, Kernel)}
    if not separator and len(kernels) == 1:
        return next(iter(kernels.values()))
    if not kernels:
        raise NkiError(f"{path} has no kernel: none of its functions is decorated with @nki.jit")
    if name not in kernels:
        raise NkiError(f"{path} has no kernel {name or '(none named)'}; its kernels are: {', '.join(kernels)}")
    return kernels[name]


class Form:
    """Shape and type of an array that --shapes asks for."""

    def __init__(self, sizes, dtype):
        self.sizes, self.dtype = sizes, dtype

    def blank(self):
        """An array of this form that takes no memory."""
        return np.broadcast_to(dtypes.encode(np.zeros([1] * len(self.sizes)), self.dtype), self.sizes, subok=True)

    def filled(self, random):
        if str(self.dtype) in dtypes.INTEGERS:
            return random.integers(0, 8, self.sizes).astype(dtypes.storage_type(self.dtype))
        return dtypes.encode(random.standard_normal(self.sizes), self.dtype)


def form(text):
    """Of 128x512 or 128x512:bfloat16 the Form; of VALUE=0.5 the value."""
    if text.startswith("VALUE="):
        value = text[len("VALUE="):]
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                pass
        return {"True": True, "False": False, "None": None}.get(value, value)
    shape, _, dtype = text.partition(":")
    try:
        sizes = tuple(int(s) for s in shape.split("x"))
        if min(sizes) < 1:
            raise ValueError
    except ValueError:
        raise NkiError(f"--shapes {text}: expected SHAPE, SHAPE:TYPE or VALUE=..., such as "
                       "128x512:bfloat16") from None
    try:
        found = Form(sizes, dtypes.dtype_of(dtype or "float32"))
        found.blank()
    except TypeError as error:
        raise NkiError(f"--shapes {text}: {error}; it has float32, bfloat16, float16, int32 and others") from None
    return found


def make_blank(kernel, texts):
    """Arguments of the right form, whose arrays take no memory."""
    given = [form(text) for text in texts]
    parameters = inspect.signature(kernel.function).parameters.values()
    by_name = [p.name for p in parameters if p.kind == p.KEYWORD_ONLY and p.default is p.empty]
    if by_name:
        raise NkiError(f"{kernel.__name__} takes {' and '.join(by_name)} by name only, and --shapes gives arguments by their "
                       f"place; give {'it' if len(by_name) == 1 else 'each'} a default in the kernel's file")
    wanted = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(given) < len(wanted):
        raise NkiError(f"{kernel.__name__} needs {', '.join(p.name for p in wanted)}; --shapes gives "
                       f"{len(given)} of them")
    taken = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(given) > len(taken) and all(p.kind != p.VAR_POSITIONAL for p in parameters):
        raise NkiError(f"{kernel.__name__} takes {', '.join(taken) or 'no arguments'}; --shapes gives "
                       f"{len(given)}, expected at most {len(taken)}")
    return given, tuple(g.blank() if isinstance(g, Form) else g for g in given)


def make_arguments(kernel, texts, seed, lowered=True):
    given, blank = make_blank(kernel, texts)
    # What is refused is refused before arrays of any size are filled. Their forms are all that counts, so the call uses this result.
    specialisation = kernel.specialise(blank, {})[0]
    if lowered:
        specialisation.compile()
    random = np.random.default_rng(seed)
    return [g.filled(random) if isinstance(g, Form) else g for g in given]


def write(path, content):
    """Writes a file as a whole: where that fails, what was there before is there still, and the file is named."""
    whole = not os.path.exists(path) or os.path.isfile(path)
    temporary = f"{path}.{os.getpid()}" if whole else path
    try:
        with open(temporary, "wb") as file:
            file.write(content)
        if whole:
            os.replace(temporary, path)
    except OSError as error:
        if whole and os.path.exists(temporary):
            os.unlink(temporary)
        raise NkiError(f"cannot write {path}: {error.strerror}") from None


def summary(name, array):
    values = dtypes.to_float32(array).astype(np.float64)
    finite = values[np.isfinite(values)]
    text = f"{name}: {dtypes.array_dtype(array)}{list(array.shape)}"
    if finite.size:
        text += (f"  least {finite.min():.6g}  most {finite.max():.6g}  mean {finite.mean():.6g}  "
                 f"deviation {finite.std():.6g}")
    if finite.size != values.size:
        text += f"  not finite {values.size - finite.size}"
    return text


def _kernel(options):
    kernel = load_kernel(options.kernel)
    if options.target:
        kernel = kernel.on(options.target)
    return kernel[options.grid] if options.grid else kernel


def run(options):
    kernel = _kernel(options)
    arguments = make_arguments(kernel, options.shapes, options.seed)
    result = kernel(*arguments)
    results = []
    mapped(result, lambda v: results.append(v) if is_array(v) else None)
    names = [f"result {number}" if len(results) > 1 else "result" for number in range(len(results))]
    for name, array in zip(names, results):
        print(summary(name, array))
    missing = [f"{count} of {size} elements of {'the result' if len(names) == 1 else name} were never written"
               for name, (count, size) in zip(names, kernel.last.never_written()) if count]
    profile = kernel.profile(*arguments)
    print(profile)
    if options.picture:
        page = (f"<!DOCTYPE html><meta charset='utf-8'><title>{html.escape(profile.kernel)}</title>"
                f"{profile._repr_html_()}\n")
        write(options.picture, page.encode())
    if missing:
        raise NkiError(f"{kernel.__name__}: {'; '.join(missing)}; they are shown as NaN, integers as 4")


def compile_(options):
    kernel = _kernel(options)
    _, blank = make_blank(kernel, options.shapes)
    specialisation, _ = kernel.specialise(blank, {})
    if options.trace:
        write(options.trace, specialisation.traced.text().encode())
    compiled = specialisation.compile()
    write(options.output, compiled.neff)
    print(f"{options.output}: {len(compiled.neff)} bytes, for {specialisation.target}")


def bench(options):
    print(f"{'shapes':40s} {'us':>12s} {'GB/s':>8s}  busy")
    for group in " ".join(options.shapes).split(","):
        kernel = _kernel(options)
        arguments = make_arguments(kernel, group.split(), options.seed)
        profile = kernel.profile(*arguments)
        busy = "  ".join(f"{n} {s:.0%}" for n, s in profile.engines.items() if s >= 0.005)
        print(f"{group.strip():40s} {profile.microseconds:12.2f} {profile.bandwidth:8.1f}  {busy}")
        if not flushed():
            return 1
    return 0


def check(options):
    kernel = _kernel(options)
    print(kernel.check(*make_arguments(kernel, options.shapes, options.seed, lowered=False)))


def lint_(options):
    found = []
    for file in options.files:
        with open(file, encoding="utf-8") as source:
            found += lint.findings(source.read(), file)
    for sentence in found:
        print(sentence)
    if not found:
        print(f"neuron-nki: {len(options.files)} file{'s' if len(options.files) != 1 else ''} read, nothing found",
              file=sys.stderr)
    return 1 if found else 0


def corpus(options):
    from .corpus import table
    if not os.path.isdir(options.folder):
        raise SystemExit(f"neuron-nki: {options.folder} is no folder; give one with files of kernels (.py)")
    return table(options.folder, options.seed, time.monotonic() + options.time)


def parser():
    line = argparse.ArgumentParser(prog="neuron-nki", description="NKI kernels without a chip")
    commands = line.add_subparsers(dest="command", required=True)
    for name, action, text in (("run", run, "values, modelled time and use of the engines"),
                               ("compile", compile_, "write a NEFF"),
                               ("bench", bench, "modelled time; several shapes, by commas"),
                               ("check", check, "compare with float64, instruction by instruction")):
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(action=action)
        command.add_argument("kernel", metavar="FILE.py::KERNEL")
        command.add_argument("--shapes", nargs="+", default=[], metavar="SHAPE[:TYPE]",
                             help="one for each argument: 128x512, 128x512:bfloat16, VALUE=0.5")
        command.add_argument("--target", choices=sorted(GENERATIONS))
        command.add_argument("--grid", type=int, default=0, help="run kernel[GRID]")
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--traceback", action="store_true", help="show Python's stack of an error in the kernel's file")
        if name == "compile":
            command.add_argument("-o", "--output", required=True, metavar="FILE.neff")
            command.add_argument("--trace", metavar="FILE", help="also write the trace")
        if name == "run":
            command.add_argument("--picture", metavar="FILE.html",
                                 help="also write a page with bars of the engines and the dearest lines")
    command = commands.add_parser("lint", help="what a compiler of NKI's subset would refuse")
    command.set_defaults(action=lint_)
    command.add_argument("files", nargs="+", metavar="FILE.py")
    command = commands.add_parser("corpus", help="run every kernel of a folder with its reference")
    command.set_defaults(action=corpus)
    command.add_argument("folder")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--time", type=float, default=600, help="seconds in all")
    return line


def user_line(error):
    """FILE:LINE of the innermost line that is neither of this package nor of Python's; None: the error is not the user's."""
    ours = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.abspath(np.__file__))]
    ours += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    place = None
    for frame in traceback.extract_tb(error.__traceback__):
        path = os.path.abspath(frame.filename)
        if not frame.filename.startswith("<") and not any(path.startswith(folder + os.sep) for folder in ours):
            place = f"{frame.filename}:{frame.lineno}"
    return place


def main(words=None):
    options = parser().parse_args(words)
    if getattr(options, "target", None):
        os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = options.target
    # What a kernel imports from the folder of the caller; never before this package.
    sys.path.append(os.getcwd())
    # Kernels of the old style import neuronxcc; one that is installed comes first.
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "old"))
    try:
        status = options.action(options) or 0
        return status if flushed() else 1
    except BrokenPipeError:
        flushed()
        return 1
    except (NkiError, OSError) as error:
        # What has no file is what is printed: files are named.
        printing = isinstance(error, OSError) and error.filename is None
        if not printing or flushed():
            what = f"cannot write to standard output: {error.strerror}" if printing else error
            print(f"neuron-nki: {what}", file=sys.stderr)
        return 1
    except Exception as error:  # pylint: disable=broad-except  # whatever a kernel's file raises
        place = user_line(error)
        if place is None or getattr(options, "traceback", False):
            raise
        said = " ".join(str(error).split("\n"))
        print(f"neuron-nki: {place}: {type(error).__name__}: {said}".rstrip(": "), file=sys.stderr)
        return 1


def flushed():
    """Whether standard output has all that was printed; a reader that has gone wants no more and is told nothing."""
    try:
        sys.stdout.flush()
        return True
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"neuron-nki: cannot write to standard output: {error.strerror}", file=sys.stderr)
        # What is still held would be tried again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False


if __name__ == "__main__":
    sys.exit(main())
