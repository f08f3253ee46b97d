// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/engines/gpsimd_integer64.h"

#include <algorithm>
#include <cstring>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/integer_alu.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/emulator/numerics/integer64.h"
#include "driver/isa/rules.h"

namespace neuron::core {
namespace {

static_assert(kBlockElements * sizeof(uint64_t) <= sizeof(Scratch::a),
              "a scratch row holds a block of 64-bit integers");

std::byte* as_bytes(uint64_t* integers) { return reinterpret_cast<std::byte*>(integers); }
std::byte* as_bytes(float* scratch) { return reinterpret_cast<std::byte*>(scratch); }

bool is_signed(const isa::Operand& operand) { return operand.dtype == NEURON_DTYPE_I64; }

// The immediate is extended as a scalar of its type would be.
void fill(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  const unsigned type = is_signed(i.dst) ? NEURON_DTYPE_I32 : NEURON_DTYPE_U32;
  const uint64_t value =
      numerics::extend_integer(type, reinterpret_cast<const std::byte*>(&i.vector.imm));
  uint64_t* integers = integers64_of(context.scratch.a);
  std::fill_n(integers, std::min<uint64_t>(dst.elements(), kBlockElements), value);
  for_blocks(dst.partitions(), dst.elements(), false, [&](const Block& block) {
    for (unsigned r = 0; r < block.rows; ++r) {
      dst.store_raw(block.part + r, block.first, block.count, as_bytes(integers));
    }
  });
}

void combine_tensors(UnitContext& context, const isa::Instruction& i) {
  const OperandView a(context.memory, i.src0);
  const OperandView b(context.memory, i.src1);
  const OperandView dst(context.memory, i.dst);
  uint64_t* x = integers64_of(context.scratch.a);
  uint64_t* y = integers64_of(context.scratch.b);
  const bool one_by_one = dst.clobbers(a) || dst.clobbers(b);
  for_blocks(dst.partitions(), dst.elements(), one_by_one, [&](const Block& block) {
    load_raw_block(a, block, as_bytes(x));
    load_raw_block(b, block, as_bytes(y));
    for (size_t e = 0; e < block.size(); ++e) {
      x[e] = integer_alu64(i.vector.op0, is_signed(i.src0), x[e], y[e]);
    }
    store_raw_block(dst, block, as_bytes(x));
  });
}

// One step of a block; scalars differ by partition.
void apply_scalar(UnitContext& context, unsigned op, const isa::Scalar& scalar, bool reverse,
                  bool is_signed, const Block& block, uint64_t* x) {
  if (op == NEURON_ALU_BYPASS) return;
  for (unsigned r = 0; r < block.rows; ++r) {
    uint64_t* row = x + r * block.count;
    const uint64_t value = scalar.present() ? integer64_scalar(context, scalar, block.part + r) : 0;
    const bool left = reverse && scalar.present();
    for (size_t e = 0; e < block.count; ++e) {
      row[e] = left ? integer_alu64(op, is_signed, value, row[e])
                    : integer_alu64(op, is_signed, row[e], value);
    }
  }
}

void apply_scalars(UnitContext& context, const isa::Instruction& i) {
  const OperandView a(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const isa::VectorOp& op = i.vector;
  uint64_t* x = integers64_of(context.scratch.a);
  for_blocks(dst.partitions(), dst.elements(), dst.clobbers(a), [&](const Block& block) {
    load_raw_block(a, block, as_bytes(x));
    apply_scalar(context, op.op0, i.scalar0, op.rev0, is_signed(i.src0), block, x);
    apply_scalar(context, op.op1, i.scalar1, op.rev1, is_signed(i.src0), block, x);
    store_raw_block(dst, block, as_bytes(x));
  });
}

// Every reduction starts from the first element, so none needs an identity.
void reduce_groups(UnitContext& context, const isa::Instruction& i) {
  const OperandView a(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  uint64_t group = 1;
  for (unsigned d = 0; d < i.vector.axes && d < i.src0.ndim; ++d) group *= i.src0.size[d];
  uint64_t* x = integers64_of(context.scratch.a);
  for (unsigned p = 0; p < dst.partitions(); ++p) {
    for (uint64_t e = 0; e < dst.elements(); ++e) {
      uint64_t total = 0;
      for (uint64_t at = 0; at < group; at += kBlockElements) {
        const size_t n = std::min<uint64_t>(kBlockElements, group - at);
        a.load_raw(p, e * group + at, n, as_bytes(x));
        for (size_t k = 0; k < n; ++k) {
          const bool first = at == 0 && k == 0;
          total = first ? x[k] : integer_alu64(i.vector.reduce, is_signed(i.src0), total, x[k]);
        }
      }
      if (i.vector.negate) total = 0 - total;
      dst.store_raw(p, e, 1, as_bytes(&total));
    }
  }
}

// Between two types, of which one is of 64-bit integers.
void copy_between_types(UnitContext& context, const isa::Instruction& i) {
  const OperandView a(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  Scratch& s = context.scratch;
  for_blocks(dst.partitions(), dst.elements(), dst.clobbers(a), [&](const Block& block) {
    if (!isa::is_integer_dtype(i.src0.dtype)) {
      const float* values = load_block(a, block, s.a.data());
      uint64_t* integers = integers64_of(s.b);
      for (size_t e = 0; e < block.size(); ++e) {
        integers[e] = numerics::narrow_integer64(is_signed(i.dst), values[e]);
      }
      store_raw_block(dst, block, as_bytes(integers));
      look_for_nan(context, values, block.size());
      return;
    }
    std::byte* source = as_bytes(s.a.data());
    load_raw_block(a, block, source);
    if (!isa::is_integer_dtype(i.dst.dtype)) {
      float* values = s.b.data();
      for (size_t e = 0; e < block.size(); ++e) {
        values[e] = numerics::widen_integer64(
            is_signed(i.src0), numerics::extend_integer(i.src0.dtype, source + 8 * e));
      }
      store_block(context, dst, i.dst, block, values);
      return;
    }
    std::byte* result = as_bytes(s.b.data());
    const bool from_signed = numerics::is_signed_integer(i.src0.dtype);
    for (size_t e = 0; e < block.size(); ++e) {
      numerics::clamp_integer(
          from_signed, numerics::extend_integer(i.src0.dtype, source + e * a.element_bytes()),
          i.dst.dtype, result + e * dst.element_bytes());
    }
    store_raw_block(dst, block, result);
  });
}

}  // namespace

bool works_on_integers64(const isa::Instruction& i) {
  if (i.opcode == NEURON_OP_TENSOR_COPY && i.dst.dtype == i.src0.dtype) return false;  // moves bits
  return isa::is_int64_dtype(i.dst.dtype) || isa::is_int64_dtype(i.src0.dtype);
}

uint64_t integer64_scalar(UnitContext& context, const isa::Scalar& scalar, unsigned part) {
  const std::byte* place =
      scalar.kind == NEURON_SCALAR_POINTER
          ? context.memory.row(scalar.space, scalar.start + part) + scalar.value
          : reinterpret_cast<const std::byte*>(&scalar.value);
  return numerics::extend_integer(scalar.dtype, place);
}

Fault execute_integer64(UnitContext& context, const isa::Instruction& i) {
  switch (i.opcode) {
    case NEURON_OP_MEMSET:
      fill(context, i);
      return {};
    case NEURON_OP_TENSOR_COPY:
      copy_between_types(context, i);
      return {};
    case NEURON_OP_TENSOR_TENSOR:
      combine_tensors(context, i);
      return {};
    case NEURON_OP_TENSOR_SCALAR:
      apply_scalars(context, i);
      return {};
    case NEURON_OP_TENSOR_REDUCE:
      reduce_groups(context, i);
      return {};
    default:
      return make_fault(NEURON_FAULT_OPERAND_DTYPE, 0, i.dst.dtype, NEURON_INST_DST + 4);
  }
}

}  // namespace neuron::core
