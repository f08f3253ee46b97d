# SPDX-License-Identifier: Apache-2.0
"""Instructions of the Tensor engine."""
from .types import array_tile, dst as to, engine, engine_name, matmul_perf_mode, record
from .types import src as source

__all__ = ["nc_matmul", "nc_transpose"]

_MODES = {None: None, "none": None, "double_row_gen3": "double_row"}  # The last one: its first name


def nc_matmul(dst, stationary, moving, is_stationary_onezero=False, is_moving_onezero=False,
              is_transpose=False, accumulate=None, tile_position=(), tile_size=(),
              perf_mode=matmul_perf_mode.none, name=None):
    """dst[M, N] (+)= stationary[K, M].T @ moving[K, N]; dst is PSUM float32, K and M at most 128, N 512.

    accumulate=None: the first product that writes a location of dst overwrites it, later ones add.
    perf_mode=double_row (trn2): 8-bit floats, stationary [K, 2, M] and moving [K, 2, N]; both rows are
    summed, at the price of one. The onezero hints say that a matrix holds zeros and ones only.
    tile_position, tile_size = (row, column), (rows, columns): the part of the array that multiplies, 32, 64 or
    128 on each side. Products in parts that share nothing run at the same time.
    """
    mode = getattr(perf_mode, "name", perf_mode)
    return record("nc_matmul", dst=to(dst), stationary=source(stationary, "stationary"),
                  moving=source(moving, "moving"),
                  onezero_stationary=bool(is_stationary_onezero) or None,
                  onezero_moving=bool(is_moving_onezero) or None, is_transpose=bool(is_transpose) or None,
                  accumulate=None if accumulate is None else bool(accumulate),
                  perf_mode=_MODES.get(mode, str(mode)),
                  **array_tile(tile_position, tile_size))


def nc_transpose(dst, data, engine=engine.unknown, name=None):
    """dst = data.T: the Tensor engine from SBUF to PSUM up to 128 x 128, the Vector engine 32 x 32."""
    return record("nc_transpose", dst=to(dst), data=source(data, "data"),
                  engine=engine_name(engine))
