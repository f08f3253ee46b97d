// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/vector_engine.h"

#include <algorithm>
#include <cstring>

#include "driver/emulator/neuroncore/block_loop.h"
#include "driver/emulator/neuroncore/integer_alu.h"
#include "driver/emulator/neuroncore/numerics/alu.h"

namespace neuron::core {
namespace {

Fault not_allowed(unsigned op) {
  return make_fault(NEURON_FAULT_OP_NOT_ALLOWED, 0, op, NEURON_INST_OP);
}

std::byte* bytes_of(float* scratch) { return reinterpret_cast<std::byte*>(scratch); }

void load_raw_block(const OperandView& view, const Block& block, std::byte* out) {
  for (unsigned r = 0; r < block.rows; ++r) {
    view.load_raw(block.part + r, block.first, block.count,
                  out + r * block.count * view.element_bytes());
  }
}

void store_raw_block(const OperandView& view, const Block& block, const std::byte* in) {
  for (unsigned r = 0; r < block.rows; ++r) {
    view.store_raw(block.part + r, block.first, block.count,
                   in + r * block.count * view.element_bytes());
  }
}

bool is_int32(unsigned dtype) { return dtype == NEURON_DTYPE_I32 || dtype == NEURON_DTYPE_U32; }

uint32_t raw_scalar(UnitContext& context, const isa::Scalar& scalar, unsigned part) {
  if (scalar.kind != NEURON_SCALAR_POINTER) return scalar.value;
  uint32_t value = 0;
  std::memcpy(&value, context.memory.row(scalar.space, scalar.start + part) + scalar.value,
              isa::dtype_bytes(scalar.dtype));
  return value;
}

Fault tensor_tensor(UnitContext& context, const isa::Instruction& i) {
  const OperandView a(context.memory, i.src0);
  const OperandView b(context.memory, i.src1);
  const OperandView dst(context.memory, i.dst);
  const bool one_by_one = dst.clobbers(a) || dst.clobbers(b);
  const unsigned op = i.vector.op0;
  Scratch& s = context.scratch;
  const bool bits = numerics::alu_is_bitwise(op);
  const bool native = context.engine == NEURON_ENGINE_POOL && is_int32(i.src0.dtype) &&
                      i.src1.dtype == i.src0.dtype && i.dst.dtype == i.src0.dtype &&
                      integer_alu_covers(op);
  if (!bits && !native && !numerics::alu_is_arithmetic(op)) return not_allowed(op);
  for_blocks(dst.partitions(), dst.elements(), one_by_one, [&](const Block& block) {
    if (bits || native) {
      std::byte* x = bytes_of(s.a.data());
      std::byte* y = bytes_of(s.b.data());
      load_raw_block(a, block, x);
      load_raw_block(b, block, y);
      if (bits) {
        numerics::alu_bits(op, x, y, x, dst.element_bytes(), block.size());
      } else {
        integer_alu(op, i.src0.dtype == NEURON_DTYPE_I32, x, y, x, block.size());
      }
      store_raw_block(dst, block, x);
      return;
    }
    const float* x = load_block(a, block, s.a.data());
    const float* y = load_block(b, block, s.b.data());
    numerics::alu(op, x, y, s.c.data(), block.size(), context.subnormals);
    store_block(context, dst, i.dst, block, s.c.data());
  });
  return {};
}

// One step of tensor_scalar on packed fp32 in `x`.
void scalar_step(UnitContext& context, unsigned op, const isa::Scalar& scalar, bool reverse,
                 const Block& block, const float* x, float* out) {
  if (op == NEURON_ALU_BYPASS) {
    if (out != x) std::memcpy(out, x, block.size() * sizeof(float));
    return;
  }
  if (scalar.kind != NEURON_SCALAR_POINTER) {
    const float value = scalar.present() ? immediate_value(scalar) : 0.0f;
    numerics::alu_scalar(op, x, value, reverse && scalar.present(), out, block.size(),
                         context.subnormals);
    return;
  }
  float* values = context.scratch.b.data();
  expand_scalar(context, scalar, block.part, block.rows, block.count, values);
  if (reverse) {
    numerics::alu(op, values, x, out, block.size(), context.subnormals);
  } else {
    numerics::alu(op, x, values, out, block.size(), context.subnormals);
  }
}

void bit_step(UnitContext& context, unsigned op, const isa::Scalar& scalar, bool reverse,
              const Block& block, unsigned element_bytes, std::byte* x) {
  if (op == NEURON_ALU_BYPASS) return;
  for (unsigned r = 0; r < block.rows; ++r) {
    std::byte* row = x + r * block.count * element_bytes;
    const uint32_t value = scalar.present() ? raw_scalar(context, scalar, block.part + r) : 0;
    numerics::alu_bits_scalar(op, row, value, reverse && scalar.present(), row, element_bytes,
                              block.count);
  }
}

Fault tensor_scalar(UnitContext& context, const isa::Instruction& i) {
  const OperandView a(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const isa::VectorOp& op = i.vector;
  const bool bits = numerics::alu_is_bitwise(op.op0) || numerics::alu_is_bitwise(op.op1);
  for (unsigned step : {op.op0, op.op1}) {
    if (step != NEURON_ALU_BYPASS && !bits && !numerics::alu_is_arithmetic(step)) {
      return not_allowed(step);
    }
  }
  Scratch& s = context.scratch;
  for_blocks(dst.partitions(), dst.elements(), dst.clobbers(a), [&](const Block& block) {
    if (bits) {
      std::byte* x = bytes_of(s.a.data());
      load_raw_block(a, block, x);
      bit_step(context, op.op0, i.scalar0, op.rev0, block, dst.element_bytes(), x);
      bit_step(context, op.op1, i.scalar1, op.rev1, block, dst.element_bytes(), x);
      store_raw_block(dst, block, x);
      return;
    }
    const float* x = load_block(a, block, s.a.data());
    scalar_step(context, op.op0, i.scalar0, op.rev0, block, x, s.c.data());
    scalar_step(context, op.op1, i.scalar1, op.rev1, block, s.c.data(), s.c.data());
    store_block(context, dst, i.dst, block, s.c.data());
  });
  return {};
}

Fault scalar_tensor_tensor(UnitContext& context, const isa::Instruction& i) {
  const OperandView a(context.memory, i.src0);
  const OperandView b(context.memory, i.src1);
  const OperandView dst(context.memory, i.dst);
  const isa::VectorOp& op = i.vector;
  if (op.op0 != NEURON_ALU_BYPASS && !numerics::alu_is_arithmetic(op.op0)) {
    return not_allowed(op.op0);
  }
  if (!numerics::alu_is_arithmetic(op.op1)) return not_allowed(op.op1);
  Scratch& s = context.scratch;
  const bool one_by_one = dst.clobbers(a) || dst.clobbers(b);
  for_blocks(dst.partitions(), dst.elements(), one_by_one, [&](const Block& block) {
    const float* x = load_block(a, block, s.a.data());
    scalar_step(context, op.op0, i.scalar0, op.rev0, block, x, s.c.data());
    const float* y = load_block(b, block, s.b.data());
    if (op.rev1) {
      numerics::alu(op.op1, y, s.c.data(), s.c.data(), block.size(), context.subnormals);
    } else {
      numerics::alu(op.op1, s.c.data(), y, s.c.data(), block.size(), context.subnormals);
    }
    store_block(context, dst, i.dst, block, s.c.data());
  });
  return {};
}

Fault tensor_copy(UnitContext& context, const isa::Instruction& i) {
  const OperandView a(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const bool raw = i.src0.dtype == i.dst.dtype && i.src0.bias == i.dst.bias;
  const bool one_by_one = dst.clobbers(a);
  if (raw && !one_by_one && a.contiguous() && dst.contiguous()) {
    const size_t bytes = dst.elements() * dst.element_bytes();
    for (unsigned p = 0; p < dst.partitions(); ++p) std::memmove(dst.row(p), a.row(p), bytes);
    return {};
  }
  Scratch& s = context.scratch;
  for_blocks(dst.partitions(), dst.elements(), one_by_one, [&](const Block& block) {
    if (raw) {
      std::byte* x = bytes_of(s.a.data());
      load_raw_block(a, block, x);
      store_raw_block(dst, block, x);
    } else {
      store_block(context, dst, i.dst, block, load_block(a, block, s.a.data()));
    }
  });
  return {};
}

Fault reciprocal(UnitContext& context, const isa::Instruction& i) {
  const OperandView a(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  Scratch& s = context.scratch;
  for_blocks(dst.partitions(), dst.elements(), dst.clobbers(a), [&](const Block& block) {
    const float* x = load_block(a, block, s.a.data());
    numerics::alu_scalar(NEURON_ALU_RECIPROCAL, x, 0.0f, false, s.c.data(), block.size(),
                         context.subnormals);
    store_block(context, dst, i.dst, block, s.c.data());
  });
  return {};
}

Fault memset_elements(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  const size_t piece = std::min<uint64_t>(dst.elements(), kPiece);
  std::byte* pattern = bytes_of(context.scratch.a.data());
  for (size_t e = 0; e < piece; ++e) {
    std::memcpy(pattern + e * dst.element_bytes(), &i.vector.imm, dst.element_bytes());
  }
  for_blocks(dst.partitions(), dst.elements(), false, [&](const Block& block) {
    for (unsigned r = 0; r < block.rows; ++r) {
      dst.store_raw(block.part + r, block.first, block.count, pattern);
    }
  });
  return {};
}

// `group` neighbouring elements of the source stream become one of the destination.
Fault tensor_reduce(UnitContext& context, const isa::Instruction& i) {
  const OperandView a(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const unsigned op = i.vector.reduce;
  uint64_t group = 1;
  for (unsigned d = 0; d < i.vector.axes && d < i.src0.ndim; ++d) group *= i.src0.size[d];
  const bool bits = numerics::alu_is_bitwise(op);
  if (!bits && !numerics::alu_is_reducible(op)) return not_allowed(op);
  const bool one_by_one = dst.clobbers(a);
  Scratch& s = context.scratch;
  const auto finish = [&](unsigned p, uint64_t element, float* value) {
    if (i.vector.negate) {
      numerics::alu_scalar(NEURON_ALU_SUB, value, 0.0f, true, value, 1, context.subnormals);
    }
    store_block(context, dst, i.dst, {p, 1, element, 1}, value);
  };
  for (unsigned p = 0; p < dst.partitions(); ++p) {
    for (uint64_t e = 0; e < dst.elements(); ++e) {
      const uint64_t first = e * group;
      if (bits) {
        std::byte* x = bytes_of(s.a.data());
        std::byte* total = bytes_of(s.b.data());
        a.load_raw(p, first, 1, total);
        for (uint64_t at = 1; at < group; ++at) {
          a.load_raw(p, first + at, 1, x);
          numerics::alu_bits(op, total, x, total, dst.element_bytes(), 1);
        }
        dst.store_raw(p, e, 1, total);
        continue;
      }
      float total = numerics::reduce_identity(op);
      uint64_t at = 0;
      if (op == NEURON_ALU_SUB) {  // x0 - x1 - x2 ...
        total = *a.load_or_map(p, first, 1, s.a.data());
        at = 1;
      }
      while (at < group) {
        const size_t piece = one_by_one ? 1 : std::min<uint64_t>(group - at, kPiece);
        const float* x = a.load_or_map(p, first + at, piece, s.a.data());
        total = numerics::reduce(op, x, piece, total, context.subnormals);
        at += piece;
      }
      finish(p, e, &total);
    }
  }
  return {};
}

// One reduction over the whole of each partition, many partitions at a time.
Fault reduce_whole_rows(UnitContext& context, const isa::Instruction& i) {
  const OperandView a(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const unsigned op = i.vector.reduce;
  const size_t n = a.elements();
  std::array<float, NEURON_PARTITIONS> totals;
  totals.fill(numerics::reduce_identity(op));
  if (i.src0.dtype == NEURON_DTYPE_F32 && a.contiguous()) {
    numerics::reduce_rows(op, reinterpret_cast<const float*>(a.row(0)),
                          static_cast<ptrdiff_t>(a.row_stride() / sizeof(float)), a.partitions(), n,
                          totals.data(), context.subnormals);
  } else {
    for_blocks(a.partitions(), n, false, [&](const Block& block) {
      float* x = context.scratch.a.data();
      for (unsigned r = 0; r < block.rows; ++r) {
        a.load(block.part + r, block.first, block.count, x + r * block.count);
      }
      numerics::reduce_rows(op, x, static_cast<ptrdiff_t>(block.count), block.rows, block.count,
                            totals.data() + block.part, context.subnormals);
    });
  }
  if (i.vector.negate) {
    numerics::alu_scalar(NEURON_ALU_SUB, totals.data(), 0.0f, true, totals.data(), a.partitions(),
                         context.subnormals);
  }
  store_block(context, dst, i.dst, {0, dst.partitions(), 0, 1}, totals.data());
  return {};
}

Fault reduce_any(UnitContext& context, const isa::Instruction& i) {
  const bool whole = i.vector.axes >= i.src0.ndim && i.vector.reduce != NEURON_ALU_SUB &&
                     numerics::alu_is_reducible(i.vector.reduce) &&
                     !numerics::alu_is_bitwise(i.vector.reduce);
  return whole ? reduce_whole_rows(context, i) : tensor_reduce(context, i);
}

Fault read_accumulator(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  float* values = context.scratch.a.data();
  std::copy_n(context.accumulator.begin() + i.dst.start, dst.partitions(), values);
  if (i.vector.negate) {
    numerics::alu_scalar(NEURON_ALU_SUB, values, 0.0f, true, values, dst.partitions(),
                         context.subnormals);
  }
  store_block(context, dst, i.dst, {0, dst.partitions(), 0, 1}, values);
  return {};
}

Fault dispatch(UnitContext& context, const isa::Instruction& i) {
  switch (i.opcode) {
    case NEURON_OP_TENSOR_TENSOR:
      return tensor_tensor(context, i);
    case NEURON_OP_TENSOR_SCALAR:
      return tensor_scalar(context, i);
    case NEURON_OP_SCALAR_TENSOR_TENSOR:
      return scalar_tensor_tensor(context, i);
    case NEURON_OP_TENSOR_REDUCE:
      return reduce_any(context, i);
    case NEURON_OP_TENSOR_COPY:
      return tensor_copy(context, i);
    case NEURON_OP_RECIPROCAL:
      return reciprocal(context, i);
    case NEURON_OP_MEMSET:
      return memset_elements(context, i);
    case NEURON_OP_READ_ACC:
      return read_accumulator(context, i);
    default:
      return make_fault(NEURON_FAULT_ILLEGAL_OPCODE, 0, i.opcode);
  }
}

}  // namespace

void clear_pe_marks(UnitContext& context, const isa::Operand& dst) {
  if (dst.space != NEURON_SPACE_PSUM) return;
  const OperandView view(context.memory, dst);
  for (unsigned p = 0; p < dst.parts; ++p) {
    context.memory.mark_pe(dst.start + p, view.begin(), view.end() - view.begin(), false);
  }
}

float immediate_value(const isa::Scalar& scalar) {
  return numerics::widen_one(scalar.dtype, reinterpret_cast<const std::byte*>(&scalar.value));
}

void expand_scalar(UnitContext& context, const isa::Scalar& scalar, unsigned part, unsigned rows,
                   size_t count, float* out) {
  for (unsigned r = 0; r < rows; ++r) {
    const float value =
        scalar.kind == NEURON_SCALAR_POINTER
            ? numerics::widen_one(
                  scalar.dtype,
                  context.memory.row(scalar.space, scalar.start + part + r) + scalar.value)
            : immediate_value(scalar);
    std::fill_n(out + r * count, count, value);
  }
}

Fault execute_vector(UnitContext& context, const isa::Instruction& i) {
  const Fault fault = dispatch(context, i);
  if (!fault) clear_pe_marks(context, i.dst);
  return fault;
}

}  // namespace neuron::core
