// SPDX-License-Identifier: Apache-2.0
// iota: element = offset + partition * channel multiplier + sum of step * index, in wrapping 32-bit
// integers, then converted to the destination's type: exactly into 32-bit integers, through fp32
// into all others. Into 64-bit integers it is a sum of 64 bits. affine_select: the integer of 32
// bits, signed, is compared with 0 and selects.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/gpsimd_engine.h"
#include "driver/emulator/neuroncore/engines/gpsimd_integer64.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/isa/rules.h"

namespace neuron::core {
namespace {

// A factor or a step of 32 bits, signed, in the width of the sum: T is uint32_t or uint64_t.
template <class T>
T extended(int32_t value) {
  return static_cast<T>(static_cast<std::make_signed_t<T>>(value));
}

// The offset may be an immediate or one value per partition; a float is rounded to an integer of 32
// bits.
template <class T>
T offset_of(UnitContext& context, const isa::Scalar& scalar, unsigned part) {
  if (!scalar.present()) return 0;
  if (scalar.dtype != NEURON_DTYPE_F32) {
    return static_cast<T>(integer64_scalar(context, scalar, part));
  }
  float value;
  expand_scalar(context, scalar, part, 1, 1, &value);
  int32_t rounded;
  numerics::narrow_one(NEURON_DTYPE_I32, value, reinterpret_cast<std::byte*>(&rounded));
  return extended<T>(rounded);
}

// The integers of a block, packed.
template <class T>
void affine_block(UnitContext& context, const isa::Instruction& i, const isa::Scalar& offset,
                  const Block& block, T* out) {
  const isa::Pattern& pattern = i.pattern;
  std::array<uint32_t, 4> size;
  for (unsigned d = 0; d < 4; ++d) size[d] = pattern.size[d] == 0 ? 1 : pattern.size[d];
  for (unsigned r = 0; r < block.rows; ++r) {
    const unsigned part = block.part + r;
    const T start = offset_of<T>(context, offset, part) +
                    part * extended<T>(static_cast<int32_t>(i.vector.imm));
    std::array<uint32_t, 4> index;
    uint64_t rest = block.first;
    for (unsigned d = 0; d < 4; ++d) {
      index[d] = static_cast<uint32_t>(rest % size[d]);
      rest /= size[d];
    }
    for (size_t e = 0; e < block.count; ++e) {
      T value = start;
      for (unsigned d = 0; d < 4; ++d) value += index[d] * extended<T>(pattern.step[d]);
      *out++ = value;
      for (unsigned d = 0; d < 4 && ++index[d] == size[d]; ++d) index[d] = 0;
    }
  }
}

bool holds(unsigned op, int32_t value) {
  switch (op) {
    case NEURON_ALU_EQ:
      return value == 0;
    case NEURON_ALU_NE:
      return value != 0;
    case NEURON_ALU_GT:
      return value > 0;
    case NEURON_ALU_GE:
      return value >= 0;
    case NEURON_ALU_LT:
      return value < 0;
    default:
      return value <= 0;
  }
}

}  // namespace

Fault execute_iota(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  if (isa::is_int64_dtype(i.dst.dtype)) {
    uint64_t* sums = integers64_of(context.scratch.a);
    for_blocks(dst.partitions(), dst.elements(), false, [&](const Block& block) {
      affine_block(context, i, i.scalar0, block, sums);
      store_raw_block(dst, block, reinterpret_cast<const std::byte*>(sums));
    });
    return {};
  }
  const bool exact = i.dst.dtype == NEURON_DTYPE_I32 || i.dst.dtype == NEURON_DTYPE_U32;
  auto* integers = reinterpret_cast<uint32_t*>(context.scratch.a.data());
  const auto* bytes = reinterpret_cast<const std::byte*>(context.scratch.a.data());
  for_blocks(dst.partitions(), dst.elements(), false, [&](const Block& block) {
    affine_block(context, i, i.scalar0, block, integers);
    if (exact) {
      for (unsigned r = 0; r < block.rows; ++r) {
        dst.store_raw(block.part + r, block.first, block.count, bytes + r * block.count * 4);
      }
      return;
    }
    float* values = context.scratch.c.data();
    numerics::widen(NEURON_DTYPE_I32, bytes, 1, values, block.size());
    store_block(context, dst, i.dst, block, values);
  });
  clear_pe_marks(context, i.dst);
  return {};
}

// A selected element of the same type keeps its bits; the constant is fp32 and is converted. That
// of 64-bit integers is an integer.
Fault affine_select(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  const OperandView source(context.memory, i.src0);
  const bool raw = i.dst.dtype == i.src0.dtype && i.dst.bias == i.src0.bias;
  const unsigned bytes = dst.element_bytes();
  auto* integers = reinterpret_cast<uint32_t*>(context.scratch.a.data());
  auto* packed = reinterpret_cast<std::byte*>(context.scratch.d.data());
  auto* kept = reinterpret_cast<std::byte*>(context.scratch.e.data());
  float* values = context.scratch.b.data();
  float* constants = context.scratch.c.data();
  for_blocks(dst.partitions(), dst.elements(), dst.clobbers(source), [&](const Block& block) {
    affine_block(context, i, i.scalar1, block, integers);
    if (isa::is_int64_dtype(i.dst.dtype)) {
      uint64_t* constants64 = integers64_of(context.scratch.d);
      for (unsigned r = 0; r < block.rows; ++r) {
        std::fill_n(constants64 + r * block.count, block.count,
                    integer64_scalar(context, i.scalar0, block.part + r));
      }
    } else {
      expand_scalar(context, i.scalar0, block.part, block.rows, block.count, constants);
      if (raw) narrow_block(context, dst, i.dst, block, constants, packed);
    }
    if (!raw) {
      for (unsigned r = 0; r < block.rows; ++r) {
        source.load(block.part + r, block.first, block.count, values + r * block.count);
      }
      for (size_t e = 0; e < block.size(); ++e) {
        if (!holds(i.vector.op0, static_cast<int32_t>(integers[e]))) values[e] = constants[e];
      }
      store_block(context, dst, i.dst, block, values);
      return;
    }
    for (unsigned r = 0; r < block.rows; ++r) {
      std::byte* row = packed + r * block.count * bytes;
      source.load_raw(block.part + r, block.first, block.count, kept);
      for (size_t e = 0; e < block.count; ++e) {
        if (!holds(i.vector.op0, static_cast<int32_t>(integers[r * block.count + e]))) continue;
        std::memcpy(row + e * bytes, kept + e * bytes, bytes);
      }
      dst.store_raw(block.part + r, block.first, block.count, row);
    }
  });
  clear_pe_marks(context, i.dst);
  return {};
}

Fault nonzero_with_count(UnitContext& context, const isa::Instruction& i) {
  const OperandView dst(context.memory, i.dst);
  const OperandView source(context.memory, i.src0);
  const size_t n = source.elements();
  const bool is_float = i.src0.dtype == NEURON_DTYPE_F32;
  std::vector<uint32_t> row(n), out(n + 1);
  for (unsigned part = 0; part < dst.partitions(); part += kGpsimdCorePartitions) {
    source.load_raw(part, 0, n, reinterpret_cast<std::byte*>(row.data()));
    const auto offset = offset_of<uint32_t>(context, i.scalar0, part);
    uint32_t count = 0;
    for (size_t e = 0; e < n; ++e) {
      // -0 is zero, a NaN is not.
      const bool zero = is_float ? (row[e] & 0x7FFFFFFFu) == 0 : row[e] == 0;
      if (!zero) out[count++] = offset + static_cast<uint32_t>(e);
    }
    std::fill(out.begin() + count, out.end() - 1, i.vector.imm);
    out.back() = count;
    dst.store_raw(part, 0, n + 1, reinterpret_cast<const std::byte*>(out.data()));
  }
  return {};
}

}  // namespace neuron::core
