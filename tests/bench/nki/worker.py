# SPDX-License-Identifier: Apache-2.0
"""Measures kernels for nki_bench: a question a line on standard input, seconds on standard output.

  trace NAME        from nothing to the NEFF of `attention` or `many`
  run               the second and later calls of rows_softmax, 4096 x 1024 in f32
  values TYPE       each of the ten kernels, the best of calls in a row
  numpy             the same with NumPy, one call for each instruction, in f32
"""
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3] / "tools" / "python")]

import kernels  # noqa: E402  the path comes first
import nki  # noqa: E402

random = np.random.default_rng(5)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def seconds(function, *arguments):
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def best(function, *arguments):
    """Of several calls in a row. The first call behind another kernel's moves the core from one program
    to the other, which takes most of a millisecond."""
    return min(seconds(function, *arguments) for _ in range(6))


def trace(name):
    if name == "many":
        arguments = (normal(128, 64),)
    else:
        arguments = tuple(nki.encode(normal(*shape), "bfloat16")
                          for shape in ((128, 2048), (128, 2048), (2048, 128)))
    kernel = nki.jit(getattr(kernels, name).function)
    return seconds(lambda: kernel.specialise(arguments, {})[0].compile())


ROWS = normal(4096, 1024)
X = normal(128, 512)
FORMS = {"float32": X, "bfloat16": nki.encode(X, "bfloat16"), "float8_e4m3": nki.encode(X, "float8_e4m3")}
MADE = [kernels.made(body) for body in kernels.BODIES]


def checked():
    """The ten kernels compute what their peers do."""
    for kernel, peer in zip(MADE, kernels.PEERS):
        worst = float(np.max(np.abs(kernel(X) - peer(X)) / (1 + np.abs(peer(X)))))
        if worst > 1e-3:
            raise SystemExit(f"{kernel.__name__} differs from NumPy by {worst}")


def values(form):
    # No engine transposes 8-bit types, as `squared` does.
    chosen = [k for k in MADE if form != "float8_e4m3" or k.__name__ != "squared"]
    return sum(best(kernel, FORMS[form]) for kernel in chosen)


def with_numpy():
    return sum(best(peer, X) for peer in kernels.PEERS)


def answer(words):
    if words[0] == "trace":
        return trace(words[1])
    if words[0] == "run":
        return min(seconds(kernels.rows_softmax, ROWS) for _ in range(3))
    if words[0] == "values":
        return values(words[1])
    if words[0] == "numpy":
        return with_numpy()
    raise SystemExit(f"unknown question: {' '.join(words)}")


if __name__ == "__main__":
    os.environ["NEURON_NKI_CACHE"] = ""
    checked()
    kernels.rows_softmax(ROWS)
    for line in sys.stdin:
        print(answer(line.split()), flush=True)
