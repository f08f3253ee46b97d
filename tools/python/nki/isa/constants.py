# SPDX-License-Identifier: Apache-2.0
"""The enumerations of nki.isa, under the name that some kernels import them by."""
from .types import (dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode,
                    reduce_cmd)

__all__ = ["dge_mode", "dma_engine", "engine", "matmul_perf_mode", "nc_version", "oob_mode",
           "reduce_cmd"]
