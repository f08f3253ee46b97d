# SPDX-License-Identifier: Apache-2.0
"""Instructions that generation 4 (trn3) brought; other targets refuse them."""
from ..errors import refuse
from ..recorder import current
from .types import alu, array_tile, command_name, dst as to, engine, engine_name, function, record
from .types import reduce_cmd as reduce_commands
from .types import scalar, src as source

__all__ = ["nc_matmul_mx", "quantize_mx", "activate2", "exponential", "rand2"]

_reduce_commands = reduce_commands


def _only_generation_4(name):
    if current().generation < 4:
        refuse(f"nisa.{name} is of generation 4 (trn3), and the target is {current().target}")


def nc_matmul_mx(dst, stationary, moving, stationary_scale, moving_scale, tile_position=None,
                 tile_size=None, accumulate=None, name=None):
    """dst[M, N] (+)= the product of two block-scaled matrices of x4 types, [P, M] and [P, N].

    Partition p of an x4 matrix holds four rows of the depth. A scale, 2^(s - 127), belongs to 8
    partitions x 4 codes; that of partition p is in row 32 (p // 32) + p % 32 // 8 of its tile, which may be
    sliced to begin at partition 0, 4, 8 or 12. P is 32, 64, 96 or 128, M is even; dst is PSUM, float32 or
    bfloat16. tile_position and tile_size as nc_matmul has them, with all columns of the array.
    """
    _only_generation_4("nc_matmul_mx")
    return record("nc_matmul_mx", dst=to(dst), stationary=source(stationary, "stationary"),
                  moving=source(moving, "moving"),
                  stationary_scale=source(stationary_scale, "stationary_scale"),
                  moving_scale=source(moving_scale, "moving_scale"),
                  accumulate=None if accumulate is None else bool(accumulate),
                  **array_tile(tile_position, tile_size))


def quantize_mx(dst, src, dst_scale, name=None):
    """dst[P, F / 4], dst_scale = src[P, F] as x4 codes with a scale for each 8 partitions x 4 neighbours.

    src is bfloat16 or float16 in SBUF, dst float8_e5m2_x4 or float8_e4m3fn_x4. The scale is twice that of OCP.
    """
    _only_generation_4("quantize_mx")
    return record("quantize_mx", dst=to(dst), src=source(src, "src"),
                  dst_scale=to(dst_scale, "dst_scale"))


def activate2(dst, op, data, imm0, imm1, op0, op1, relu_param=0.0, reverse0=False, reverse1=False,
              reduce_op=None, reduce_res=None, reduce_cmd=_reduce_commands.idle,
              engine=engine.scalar, name=None):
    """dst = op((data op0 imm0) op1 imm1) on the Scalar engine; reduce_res = dst reduced with reduce_op.

    op0, op1: multiply with add, subtract or bypass; add, subtract or bypass with bypass. reverse0 and
    reverse1 put the scalar on the left. reduce_op: add, maximum, minimum, abs_max, abs_min.
    """
    _only_generation_4("activate2")
    if engine_name(engine) not in (None, "scalar"):
        refuse(f"activate2 on engine = {engine_name(engine)}; this chip model has it on scalar only")
    first, second = (alu("bypass" if o is None else o, k) for o, k in ((op0, "op0"), (op1, "op1")))
    command = command_name(reduce_cmd)
    if reduce_op is not None and command == "idle" and reduce_res is not None:
        command = "reset_reduce"
    return record("activate2", dst=to(dst), function=function(op), data=source(data, "data"),
                  alu0=first, operand0=None if first == "bypass" else scalar(imm0, "imm0"),
                  alu1=second, operand1=None if second == "bypass" else scalar(imm1, "imm1"),
                  reverse0=bool(reverse0) or None, reverse1=bool(reverse1) or None,
                  parameter=_number(relu_param),
                  reduce_op=None if reduce_op is None else alu(reduce_op, "reduce_op"),
                  reduce_res=None if reduce_res is None else to(reduce_res, "reduce_res"),
                  reduce_cmd=command)


def _number(value):
    if not isinstance(value, (int, float)):
        refuse(f"relu_param is {type(value).__name__}; this chip model takes a number")
    return float(value) or None


def exponential(dst, src, max_value=0.0, reduce_res=None, reduce_cmd=_reduce_commands.idle,
                reduce_init=0.0, name=None):
    """dst = exp(src - max_value) on the Vector engine; reduce_res = the sum of dst.

    With reduce_cmd.load_reduce the sum begins as reduce_init, a number or a [P, 1] tile.
    """
    _only_generation_4("exponential")
    command = command_name(reduce_cmd)
    loads = command == "load_reduce"
    if not loads and not (isinstance(reduce_init, (int, float)) and reduce_init == 0):
        refuse(f"exponential with reduce_init and reduce_cmd = {command}; a sum begins as reduce_init with "
               "reduce_cmd.load_reduce only")
    return record("exponential", dst=to(dst), src=source(src, "src"),
                  max_value=scalar(max_value, "max_value"),
                  reduce_res=None if reduce_res is None else to(reduce_res, "reduce_res"),
                  reduce_cmd=command,
                  reduce_init=scalar(reduce_init, "reduce_init") if loads else None)


def rand2(dst, min, max, name=None):
    """dst = random floats from min to max, numbers or [P, 1] tiles. Vector engine."""
    _only_generation_4("rand2")
    return record("rand2", dst=to(dst), min=scalar(min, "min"), max=scalar(max, "max"))
