// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/sequencer/index_offsets.h"

#include <algorithm>
#include <cstring>

#include "driver/base/abandonment.h"
#include "driver/isa/indirection.h"

namespace neuron::core {

Fault IndexOffsets::read(CoreMemory& memory, const isa::Operand& operand, unsigned which,
                         unsigned engine) {
  const isa::IndexPlace index = operand.index();
  const unsigned bytes = isa::dtype_bytes(index.dtype);
  const uint64_t bound =
      (memory.partition_bytes(operand.space) - operand.base) / isa::dtype_bytes(operand.dtype);
  group_ = isa::index_group(engine);
  count_ = operand.elements();
  const size_t groups = (operand.parts + group_ - 1) / group_;
  values_.resize(groups * count_);
  for (size_t g = 0; g < groups; ++g) {
    base::Abandonment::look();
    uint32_t* values = values_.data() + g * count_;
    for (unsigned row = 0; row < group_ && row < count_; ++row) {
      const size_t partition = index.start + g * group_ + row;
      const std::byte* from = memory.sbuf(static_cast<unsigned>(partition)) + index.base;
      for (size_t i = row; i < count_; i += group_, from += bytes) {
        values[i] = 0;
        std::memcpy(&values[i], from, bytes);  // a negative i32 is beyond every bound
      }
    }
    for (size_t i = 0; i < count_; ++i) {
      if (values[i] < bound) continue;
      const uint64_t partition = index.start + g * group_ + i % group_;
      Fault fault = make_fault(
          NEURON_FAULT_INDEX_OOB,
          partition << NEURON_STRICT_PARTITION_SHIFT | (index.base + i / group_ * bytes), values[i],
          static_cast<uint8_t>(NEURON_INST_DST + which * NEURON_OPERAND_BYTES));
      fault.rule = 7;
      fault.detail = static_cast<uint32_t>(bound);
      return fault;
    }
  }
  return {};
}

}  // namespace neuron::core
