// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/gpsimd_engine.h"

#include <cstring>

#include "driver/emulator/neuroncore/block_loop.h"
#include "driver/emulator/neuroncore/vector_engine.h"

namespace neuron::core {
namespace {

// The offset may be an immediate or one 32-bit value per partition.
int32_t offset_of(UnitContext& context, const isa::Scalar& scalar, unsigned part) {
  if (!scalar.present()) return 0;
  if (scalar.kind != NEURON_SCALAR_POINTER && scalar.dtype != NEURON_DTYPE_F32) {
    return static_cast<int32_t>(scalar.value);
  }
  if (scalar.kind == NEURON_SCALAR_POINTER &&
      (scalar.dtype == NEURON_DTYPE_I32 || scalar.dtype == NEURON_DTYPE_U32)) {
    int32_t value;
    std::memcpy(&value, context.memory.row(scalar.space, scalar.start + part) + scalar.value, 4);
    return value;
  }
  float value;
  expand_scalar(context, scalar, part, 1, 1, &value);
  int32_t rounded;
  numerics::narrow_one(NEURON_DTYPE_I32, value, reinterpret_cast<std::byte*>(&rounded));
  return rounded;
}

uint32_t pattern_value(const isa::Pattern& pattern, uint64_t element) {
  uint32_t value = 0;
  for (unsigned d = 0; d < 4; ++d) {
    const uint32_t size = pattern.size[d] == 0 ? 1 : pattern.size[d];
    value += static_cast<uint32_t>(element % size) * static_cast<uint32_t>(pattern.step[d]);
    element /= size;
  }
  return value;
}

// The pointer of iota's offset is not covered by the operand checks of other instructions.
bool pointer_in_range(const isa::Scalar& scalar, unsigned parts) {
  if (scalar.kind != NEURON_SCALAR_POINTER) return true;
  const unsigned bytes = isa::dtype_bytes(scalar.dtype);
  return scalar.space == NEURON_SPACE_SBUF && bytes != 0 && bytes <= 4 &&
         scalar.value % bytes == 0 && scalar.value <= CoreMemory::kSbufBytes - bytes &&
         scalar.start + parts <= NEURON_PARTITIONS;
}

}  // namespace

Fault execute_iota(UnitContext& context, const isa::Instruction& i) {
  if (!pointer_in_range(i.scalar0, i.dst.parts)) {
    return make_fault(NEURON_FAULT_OPERAND_RANGE, 0, i.scalar0.value, NEURON_INST_SCALAR0);
  }
  const OperandView dst(context.memory, i.dst);
  const bool exact = i.dst.dtype == NEURON_DTYPE_I32 || i.dst.dtype == NEURON_DTYPE_U32;
  auto* integers = reinterpret_cast<std::byte*>(context.scratch.a.data());
  for_blocks(dst.partitions(), dst.elements(), false, [&](const Block& block) {
    for (unsigned r = 0; r < block.rows; ++r) {
      const unsigned part = block.part + r;
      const uint32_t start =
          static_cast<uint32_t>(offset_of(context, i.scalar0, part)) + part * i.vector.imm;
      for (size_t e = 0; e < block.count; ++e) {
        const uint32_t value = start + pattern_value(i.pattern, block.first + e);
        std::memcpy(integers + (r * block.count + e) * 4, &value, 4);
      }
    }
    if (exact) {
      for (unsigned r = 0; r < block.rows; ++r) {
        dst.store_raw(block.part + r, block.first, block.count, integers + r * block.count * 4);
      }
      return;
    }
    float* values = context.scratch.c.data();
    numerics::widen(NEURON_DTYPE_I32, integers, 1, values, block.size());
    store_block(context, dst, i.dst, block, values);
  });
  clear_pe_marks(context, i.dst);
  return {};
}

}  // namespace neuron::core
