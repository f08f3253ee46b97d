# SPDX-License-Identifier: Apache-2.0
"""Instructions that work element by element or along the free dimensions."""
from ..errors import refuse
from ..recorder import current, number
from ..tensor import NkiTensor
from .types import alu, command_name, dst as to, engine, engine_name, function, record
from .types import reduce_cmd as reduce_commands
from .types import scalar, src as source

__all__ = ["tensor_copy", "memset", "tensor_copy_predicated", "tensor_tensor", "tensor_scalar",
           "scalar_tensor_tensor", "tensor_scalar_reduce", "tensor_scalar_cumulative",
           "tensor_reduce", "tensor_tensor_scan", "activation", "activation_reduce", "reciprocal",
           "bn_stats", "bn_aggr", "dropout", "rng", "set_rng_seed", "rand_set_state",
           "rand_get_state", "select_reduce", "range_select"]

_reduce_commands = reduce_commands


def tensor_copy(dst, src, engine=engine.unknown, name=None, dtype=None):
    """dst = src, cast to dst's type. Vector, Scalar (trn2) or GpSimd; GpSimd not in PSUM."""
    return record("tensor_copy", dst=to(dst), src=source(src, "src"), engine=engine_name(engine))


def memset(dst, value, engine=engine.unknown, name=None):
    """Fills dst. Vector or GpSimd."""
    return record("memset", dst=to(dst), value=number(value, "value"), engine=engine_name(engine))


def tensor_copy_predicated(dst, src, predicate, reverse_pred=False, name=None):
    """dst = src where predicate is not 0; other elements stay. The predicate is uint8, 16 or 32."""
    kept = predicate
    if isinstance(predicate, NkiTensor) and str(predicate.dtype) in ("int8", "int16", "int32"):
        kept = predicate.view("u" + str(predicate.dtype))
    return record("tensor_copy_predicated", dst=to(dst), src=scalar(src, "src"),
                  predicate=source(kept, "predicate"), reverse_pred=bool(reverse_pred))


def tensor_tensor(dst, data1, data2, op, engine=engine.unknown, name=None):
    """dst = data1 op data2. At most one input in PSUM; 32-bit integers are exact on GpSimd."""
    return record("tensor_tensor", dst=to(dst), data1=source(data1, "data1"),
                  data2=source(data2, "data2"), alu=alu(op), engine=engine_name(engine))


def tensor_scalar(dst, data, op0, operand0, reverse0=False, op1=None, operand1=None, reverse1=False,
                  engine=engine.unknown, name=None):
    """dst = (data op0 operand0) op1 operand1; operands are numbers or [P, 1] tiles."""
    return record("tensor_scalar", dst=to(dst), data=source(data, "data"), alu0=alu(op0, "op0"),
                  operand0=None if operand0 is None else scalar(operand0, "operand0"),
                  reverse0=bool(reverse0) or None, alu1=None if op1 is None else alu(op1, "op1"),
                  operand1=None if op1 is None or operand1 is None else scalar(operand1, "operand1"),
                  reverse1=bool(reverse1) or None, engine=engine_name(engine))


def scalar_tensor_tensor(dst, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False,
                         name=None):
    """dst = (data op0 operand0) op1 operand1; operand0 a number or [P, 1], operand1 a tile."""
    return record("scalar_tensor_tensor", dst=to(dst), data=source(data, "data"),
                  alu0=alu(op0, "op0"), operand0=scalar(operand0, "operand0"),
                  alu1=alu(op1, "op1"), operand1=source(operand1, "operand1"),
                  reverse0=bool(reverse0) or None, reverse1=bool(reverse1) or None)


def tensor_scalar_reduce(dst, data, op0, operand0, reduce_op, reduce_res=None, reverse0=False,
                         reduce_cmd=_reduce_commands.reset_reduce, reduce_init=None,
                         reduce_res_negate=False, name=None):
    """dst = data op0 operand0; reduce_res = dst reduced over the free dimensions.

    With reduce_cmd.load_reduce the reduction begins as reduce_init, a number or a [P, 1] tile.
    """
    if (reduce_init is None) != (command_name(reduce_cmd) != "load_reduce"):
        refuse(f"tensor_scalar_reduce with reduce_cmd = {command_name(reduce_cmd)} and "
               f"{'no ' if reduce_init is None else ''}reduce_init; it goes with reduce_cmd.load_reduce, and only "
               "with that")
    return record("tensor_scalar_reduce", dst=to(dst), data=source(data, "data"),
                  alu0=alu(op0, "op0"), operand0=scalar(operand0, "operand0"),
                  reduce_op=alu(reduce_op, "reduce_op"),
                  reduce_res=None if reduce_res is None else to(reduce_res, "reduce_res"),
                  reverse0=bool(reverse0) or None, reduce_cmd=command_name(reduce_cmd),
                  reduce_init=None if reduce_init is None else scalar(reduce_init, "reduce_init"),
                  negate=bool(reduce_res_negate) or None)


def tensor_scalar_cumulative(dst, src, op0, op1, imm0, imm1=None,
                             reduce_cmd=_reduce_commands.reset_reduce, name=None):
    """dst[i] = running op1 of (src[i] op0 imm0); imm1 is loaded first with load_reduce."""
    return record("tensor_scalar_cumulative", dst=to(dst), src=source(src, "src"),
                  alu0=alu(op0, "op0"), alu1=alu(op1, "op1"), imm0=scalar(imm0, "imm0"),
                  imm1=None if imm1 is None else scalar(imm1, "imm1"),
                  reduce_cmd=command_name(reduce_cmd))


def tensor_reduce(dst, op, data, axis, negate=False, keepdims=False, name=None):
    """dst = data reduced with op over free dimensions `axis`, negated on request."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = sorted(a % data.ndim for a in axes)
    if not axes or axes[0] == 0 or len(set(axes)) != len(axes):
        refuse(f"tensor_reduce over axes {axis} of {data!r}: expected free dimensions, 1 to "
               f"{data.ndim - 1}")
    kept = [d for d in range(1, data.ndim) if d not in axes]
    # The instruction reduces its innermost dimensions; patterns can have any order.
    ordered = data if data.offsets is not None else data.permute((0, *kept, *axes))
    return record("tensor_reduce", dst=to(dst), data=source(ordered, "data"), alu=alu(op),
                  axes=len(axes), negate=bool(negate) or None)


def tensor_tensor_scan(dst, data0, data1, initial, op0, op1, reverse0=False, reverse1=False,
                       name=None):
    """dst[i] = (data0[i] op0 dst[i-1]) op1 data1[i], beginning with `initial`."""
    return record("tensor_tensor_scan", dst=to(dst), data0=source(data0, "data0"),
                  data1=source(data1, "data1"), initial=scalar(initial, "initial"),
                  alu0=alu(op0, "op0"), alu1=alu(op1, "op1"), reverse0=bool(reverse0) or None,
                  reverse1=bool(reverse1) or None)


def activation(dst, op, data, bias=None, scale=1.0, reduce_op=None, reduce_res=None,
               reduce_cmd=_reduce_commands.idle, name=None):
    """dst = op(data * scale + bias) on the Scalar engine; the sum of dst on request."""
    command = command_name(reduce_cmd)
    if reduce_op is not None and command == "idle" and reduce_res is not None:
        command = "reset_reduce"
    return record("activation", dst=to(dst), function=function(op), data=source(data, "data"),
                  bias=None if bias is None else scalar(bias, "bias"), scale=scalar(scale, "scale"),
                  reduce_op=None if reduce_op is None else alu(reduce_op, "reduce_op"),
                  reduce_res=None if reduce_res is None else to(reduce_res, "reduce_res"),
                  reduce_cmd=command)


def activation_reduce(dst, op, data, reduce_op, reduce_res, bias=None, scale=1.0, name=None):
    """activation() with its sum: reduce_res = the sum of dst over the free dimensions."""
    return activation(dst, op, data, bias, scale, reduce_op, reduce_res,
                      _reduce_commands.reset_reduce)


def reciprocal(dst, data, name=None):
    """dst = 1 / data on the Vector engine."""
    return record("reciprocal", dst=to(dst), data=source(data, "data"))


def bn_stats(dst, data, name=None):
    """dst[P, 6] = count, mean and variance times count of even, then of odd elements."""
    return record("bn_stats", dst=to(dst), data=source(data, "data"))


def bn_aggr(dst, data, name=None):
    """dst[P, 2] = mean and variance of the triples that bn_stats wrote."""
    return record("bn_aggr", dst=to(dst), data=source(data, "data"))


def dropout(dst, data, prob, name=None):
    """dst = data, each element 0 with the probability `prob`."""
    return record("dropout", dst=to(dst), data=source(data, "data"), prob=scalar(prob, "prob"))


def rng(dst, engine=engine.vector, name=None):
    """dst = random bits of integers. Vector, from trn2 on GpSimd, too."""
    return record("rng", dst=to(dst), engine=engine_name(engine))


def rand_set_state(src_seeds, engine=engine.unknown, name=None):
    """Sets the XORWOW states of GpSimd, six uint32 in each partition, from trn2 on; or of Vector, 24, on trn3."""
    return record("rand_set_state", src=source(src_seeds, "src_seeds"), engine=engine_name(engine))


def rand_get_state(dst, engine=engine.unknown, name=None):
    """dst[P, 6] = the XORWOW states of GpSimd, from trn2 on; or dst[P, 24] of Vector, on trn3."""
    return record("rand_get_state", dst=to(dst), engine=engine_name(engine))


def set_rng_seed(src_seeds, name=None):
    """Seeds rng and dropout with one uint32."""
    return record("set_rng_seed", src=source(src_seeds, "src_seeds"))


def _only_maximum(name, reduce_op):
    if reduce_op is not None and alu(reduce_op, "reduce_op") != "maximum":
        refuse(f"{name} reduces with nl.maximum only")


def select_reduce(dst, predicate, on_true, on_false, reduce_res=None,
                  reduce_cmd=_reduce_commands.idle, reduce_op=None, reverse_pred=False, name=None):
    """dst = predicate ? on_true : on_false; reduce_res = the maximum of dst. From trn2 on.

    The predicate has 8 or 16 bits; on_true is neither tfloat32 nor a 32-bit integer.
    """
    _only_maximum("select_reduce", reduce_op)
    return record("select_reduce", dst=to(dst), predicate=source(predicate, "predicate"),
                  on_true=source(on_true, "on_true"), on_false=scalar(on_false, "on_false"),
                  reduce_res=None if reduce_res is None else to(reduce_res, "reduce_res"),
                  reduce_cmd=command_name(reduce_cmd), reverse_pred=bool(reverse_pred))


def range_select(dst, on_true_tile, comp_op0, comp_op1, bound0, bound1,
                 reduce_cmd=_reduce_commands.reset_reduce, reduce_res=None, reduce_op=None,
                 range_start=0, on_false_value=-3.4028235e38, name=None):
    """dst = on_true_tile where range_start + i is in both bounds, else the least float. From trn2 on."""
    _only_maximum("range_select", reduce_op)
    if on_false_value > -3.4e38:
        refuse(f"range_select with on_false_value = {on_false_value}; the chip has the least float only")
    return record("range_select", dst=to(dst), on_true=source(on_true_tile, "on_true_tile"),
                  comp_op0=alu(comp_op0, "comp_op0"), comp_op1=alu(comp_op1, "comp_op1"),
                  bound0=source(bound0, "bound0"), bound1=source(bound1, "bound1"),
                  range_start=int(range_start),
                  reduce_res=None if reduce_res is None else to(reduce_res, "reduce_res"),
                  reduce_cmd=command_name(reduce_cmd))
