// SPDX-License-Identifier: Apache-2.0
// quantize_mx: bf16 and f16 to block-scaled f8. 8 partitions x 4 neighbours share a scale, which
// puts the largest of them into the second highest binade of the type.
#include <algorithm>
#include <cmath>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/vector_families.h"
#include "driver/emulator/numerics/block_scaled.h"
#include "driver/isa/scale_rows.h"

namespace neuron::core {
namespace {

constexpr size_t kCodes = NEURON_MX_CODES;
constexpr unsigned kBlockRows = NEURON_MX_PARTITIONS;
constexpr size_t kGroups = 256;  // scales at a time

// The largest magnitudes of n groups of 8 rows x 4 numbers; a NaN does not count.
void find_largest(const float* const rows[kBlockRows], size_t n, float* largest) {
  for (size_t g = 0; g < n; ++g) {
    float most = 0;
    for (unsigned r = 0; r < kBlockRows; ++r) {
      for (size_t c = 0; c < kCodes; ++c) {
        most = std::fmax(most, std::fabs(rows[r][g * kCodes + c]));
      }
    }
    largest[g] = most;
  }
}

}  // namespace

Fault quantize_mx(UnitContext& context, const isa::Instruction& i) {
  const OperandView source(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const OperandView scales(context.memory, i.src1);
  const unsigned code = numerics::code_type(i.dst.dtype);
  const numerics::NarrowMode mode = context.narrow_mode(i.dst);
  float* values = context.scratch.a.data();  // kBlockRows rows of kGroups * kCodes
  auto* codes = reinterpret_cast<std::byte*>(context.scratch.b.data());
  float largest[kGroups];
  uint8_t scale[kGroups];
  for (unsigned part = 0; part < source.partitions(); part += kBlockRows) {
    for (uint64_t first = 0; first < dst.elements(); first += kGroups) {
      const size_t n = std::min<uint64_t>(kGroups, dst.elements() - first);
      const float* rows[kBlockRows];
      for (unsigned r = 0; r < kBlockRows; ++r) {
        float* row = values + r * kGroups * kCodes;
        source.load(part + r, first * kCodes, n * kCodes, row);
        rows[r] = row;
      }
      find_largest(rows, n, largest);
      for (size_t g = 0; g < n; ++g) scale[g] = numerics::scale_for(i.dst.dtype, largest[g]);
      for (unsigned r = 0; r < kBlockRows; ++r) {
        float* row = values + r * kGroups * kCodes;
        look_for_nan(context, row, n * kCodes);
        for (size_t e = 0; e < n * kCodes; ++e) {
          row[e] = numerics::unscaled(row[e], scale[e / kCodes]);
        }
        numerics::RandomStream random = rounding_stream(context, i.dst, part + r, first * kCodes);
        numerics::narrow(code, row, codes, 1, n * kCodes, mode, &random);
        dst.store_raw(part + r, first, n, codes);
      }
      scales.store_raw(isa::scale_row(part, i.vector.imm), first, n,
                       reinterpret_cast<const std::byte*>(scale));
    }
  }
  return {};
}

}  // namespace neuron::core
