# SPDX-License-Identifier: Apache-2.0
"""neuronxcc.nki: the old style of NKI, on the same traces as the package nki.

Functions return tiles instead of taking dst; tensors may have block dimensions before nl.par_dim;
indices may be arrays of nl.arange and nl.mgrid, with masks. The target is trn1 unless
NEURON_PLATFORM_TARGET_OVERRIDE says otherwise.
"""
import nki as _new
from nki import NkiError, simulate
from nki.kernel import jit as _jit

from . import compiler, isa, language, typing
from .typing import tensor


def jit(function=None, **options):
    """@nki.jit of the old style; mode and other options are accepted."""
    if function is None:
        return lambda f: jit(f, **options)
    kernel = _jit(function, **options)
    # Kernels of the old style leave it to the compiler when a tile ends.
    kernel.tiles_end_with_last_use = True
    kernel.default_target = "trn1"
    return kernel


def simulate_kernel(kernel, *arguments, **named):
    """Amazon's name for a run without a chip."""
    return simulate(kernel)(*arguments, **named)


class _Latency:
    """What nki.benchmark says of its executions: each takes the modelled time of the last call."""

    def __init__(self, kernel):
        self.kernel = kernel

    @property
    def nc_latency(self):
        if self.kernel.last is None:
            raise NkiError(f"{self.kernel.__name__} was not called yet; its time is known behind a call")
        return self

    def get_latency_percentile(self, percent):
        return self.kernel.last.report.device_ps * 1e-6


def benchmark(function=None, **options):
    """@nki.benchmark: a kernel whose benchmark_result has the modelled time in microseconds."""
    if function is None:
        return lambda f: benchmark(f, **options)
    kernel = jit(function, **options)
    kernel.benchmark_result = _Latency(kernel)
    return kernel


baremetal = profile = trace = jit
to_float32, encode = _new.to_float32, _new.encode
