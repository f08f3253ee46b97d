// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/engines/vector_engine.h"

#include <algorithm>
#include <cstring>

#include "driver/base/abandonment.h"
#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/gpsimd_integer64.h"
#include "driver/emulator/neuroncore/engines/integer_alu.h"
#include "driver/emulator/neuroncore/engines/row_access.h"
#include "driver/emulator/neuroncore/engines/vector_families.h"
#include "driver/emulator/numerics/alu.h"
#include "driver/emulator/numerics/alu_rows.h"

namespace neuron::core {
namespace {

bool is_int32(unsigned dtype) { return dtype == NEURON_DTYPE_I32 || dtype == NEURON_DTYPE_U32; }

uint32_t raw_scalar(UnitContext& context, const isa::Scalar& scalar, unsigned part) {
  if (scalar.kind != NEURON_SCALAR_POINTER) return scalar.value;
  uint32_t value = 0;
  std::memcpy(&value, context.memory.row(scalar.space, scalar.start + part) + scalar.value,
              isa::dtype_bytes(scalar.dtype));
  return value;
}

// Two steps on rows in memory, where all operands are such rows; `second` is null if the second
// step takes scalar1. False: nothing has been done.
bool steps_in_memory(UnitContext& context, const isa::Instruction& i, const OperandView& a,
                     const OperandView* second, const OperandView& dst) {
  const isa::VectorOp& op = i.vector;
  const bool first_bypass = second != nullptr && i.opcode == NEURON_OP_TENSOR_TENSOR;
  numerics::AluRows work;
  work.op0 = first_bypass ? unsigned{NEURON_ALU_BYPASS} : op.op0;
  work.op1 = first_bypass ? op.op0 : op.op1;
  if (!numerics::alu_rows_cover(work.op0, work.op1) || !rows_allowed(context, i.dst, dst) ||
      !is_row(a)) {
    return false;
  }
  // A bypass between tensors leaves either side, and the bits of its NaN.
  if (second != nullptr && (!is_row(*second) || work.op1 == NEURON_ALU_BYPASS)) return false;
  if (!lies_apart(i.scalar0, i.dst, dst) || !lies_apart(i.scalar1, i.dst, dst)) return false;
  float scalars[2][NEURON_PARTITIONS];
  const auto values = [&](const isa::Scalar& scalar, unsigned step, float* out) -> const float* {
    if (step == NEURON_ALU_BYPASS) return nullptr;
    if (scalar.present()) {
      expand_scalar(context, scalar, 0, dst.partitions(), 1, out);
    } else {
      std::fill_n(out, dst.partitions(), 0.0f);
    }
    return out;
  };
  work.scalars0 = values(i.scalar0, work.op0, scalars[0]);
  work.reverse0 = op.rev0 && i.scalar0.present();
  if (second == nullptr) {
    work.scalars1 = values(i.scalar1, work.op1, scalars[1]);
    work.reverse1 = op.rev1 && i.scalar1.present();
  } else {
    work.y = source_rows(*second);
    work.reverse1 = op.rev1 && !first_bypass;
  }
  work.x = source_rows(a);
  work.out = result_rows(dst);
  // A million elements at a time.
  const auto rows = static_cast<unsigned>(
      std::max<uint64_t>((uint64_t{1} << 20) / std::max<uint64_t>(dst.elements(), 1), 1));
  for (unsigned part = 0; part < dst.partitions(); part += rows) {
    base::Abandonment::look();
    numerics::alu_rows(work.from(part), std::min(rows, dst.partitions() - part), dst.elements());
  }
  return true;
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
  if (!one_by_one && steps_in_memory(context, i, a, &b, dst)) return {};
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
  if (!dst.clobbers(a) && steps_in_memory(context, i, a, nullptr, dst)) return {};
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
  if (!one_by_one && steps_in_memory(context, i, a, &b, dst)) return {};
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
    for (unsigned p = 0; p < dst.partitions(); ++p) {
      base::Abandonment::look();
      std::memmove(dst.row(p), a.row(p), bytes);
    }
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

Fault dispatch(UnitContext& context, const isa::Instruction& i) {
  switch (i.opcode) {
    case NEURON_OP_TENSOR_TENSOR:
      return tensor_tensor(context, i);
    case NEURON_OP_TENSOR_SCALAR:
      return tensor_scalar(context, i);
    case NEURON_OP_SCALAR_TENSOR_TENSOR:
      return scalar_tensor_tensor(context, i);
    case NEURON_OP_TENSOR_REDUCE:
      return tensor_reduce(context, i);
    case NEURON_OP_TENSOR_COPY:
      return tensor_copy(context, i);
    case NEURON_OP_RECIPROCAL:
      return reciprocal(context, i);
    case NEURON_OP_MEMSET:
      return memset_elements(context, i);
    case NEURON_OP_READ_ACC:
      return read_accumulator(context, i);
    case NEURON_OP_TENSOR_SCALAR_REDUCE:
      return tensor_scalar_reduce(context, i);
    case NEURON_OP_TENSOR_SCALAR_CUMULATIVE:
      return tensor_scalar_cumulative(context, i);
    case NEURON_OP_TENSOR_TENSOR_SCAN:
      return tensor_tensor_scan(context, i);
    case NEURON_OP_COPY_PREDICATED:
      return copy_predicated(context, i);
    case NEURON_OP_SELECT_REDUCE:
      return select_reduce(context, i);
    case NEURON_OP_RANGE_SELECT:
      return range_select(context, i);
    case NEURON_OP_EXPONENTIAL:
      return exponential(context, i);
    case NEURON_OP_QUANTIZE_MX:
      return quantize_mx(context, i);
    case NEURON_OP_BN_STATS:
      return bn_stats(context, i);
    case NEURON_OP_BN_AGGR:
      return bn_aggr(context, i);
    case NEURON_OP_MAX8:
      return max8(context, i);
    case NEURON_OP_FIND_INDEX8:
      return find_index8(context, i);
    case NEURON_OP_MATCH_REPLACE8:
      return match_replace8(context, i);
    case NEURON_OP_STREAM_SHUFFLE:
      return stream_shuffle(context, i);
    case NEURON_OP_TRANSPOSE32:
      return transpose32(context, i);
    case NEURON_OP_DROPOUT:
      return dropout(context, i);
    case NEURON_OP_RNG:
      return random_bits(context, i);
    case NEURON_OP_SET_RNG_SEED:
      return set_random_seed(context, i);
    case NEURON_OP_RAND2:
      return uniform(context, i);
    case NEURON_OP_RAND_SET_STATE:
      return set_random_state(context, i);
    case NEURON_OP_RAND_GET_STATE:
      return get_random_state(context, i);
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

Fault not_allowed(unsigned operation) {
  return make_fault(NEURON_FAULT_OP_NOT_ALLOWED, 0, operation, NEURON_INST_OP);
}

// Rows from this length on are computed one by one with their scalar; shorter ones together with
// their scalars repeated.
constexpr size_t kShortRow = 32;

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
  if (block.count >= kShortRow) {
    float one_each[NEURON_PARTITIONS];
    expand_scalar(context, scalar, block.part, block.rows, 1, one_each);
    numerics::alu_scalar_rows(op, x, one_each, reverse, out, block.rows, block.count,
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

Fault execute_vector(UnitContext& context, const isa::Instruction& i) {
  const Fault fault = works_on_integers64(i) ? execute_integer64(context, i) : dispatch(context, i);
  if (!fault && i.dst.present()) clear_pe_marks(context, i.dst);
  return fault;
}

}  // namespace neuron::core
