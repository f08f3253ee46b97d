// SPDX-License-Identifier: Apache-2.0
// The offsets of an indirect operand, read from its index in SBUF and checked against its memory.
//
// Callers: engines/indirection.cpp, strict mode; in the group's thread. The operand has been
// checked (isa::check_operands). Fails: INDEX_OOB with the offset, the bound (elements from the
// operand's base to the end of the partition) and the place of the offset (partition << 20 | byte);
// std::bad_alloc.
#ifndef DRIVER_EMULATOR_NEURONCORE_SEQUENCER_INDEX_OFFSETS_H
#define DRIVER_EMULATOR_NEURONCORE_SEQUENCER_INDEX_OFFSETS_H

#include <cstdint>
#include <span>
#include <vector>

#include "driver/emulator/neuroncore/sequencer/core_memory.h"
#include "driver/emulator/neuroncore/sequencer/sequencer.h"
#include "driver/isa/instruction.h"

namespace neuron::core {

class IndexOffsets {
 public:
  // `which` operand of the instruction it is: 0 dst, 1 src0, 2 src1.
  Fault read(CoreMemory& memory, const isa::Operand& operand, unsigned which, unsigned engine);
  unsigned group() const { return group_; }  // partitions that share their offsets
  // In elements from the operand's base on, in stream order.
  std::span<const uint32_t> of(unsigned partition) const {
    return {values_.data() + partition / group_ * count_, count_};
  }

 private:
  unsigned group_ = 1;
  size_t count_ = 0;
  std::vector<uint32_t> values_;  // group after group
};

}  // namespace neuron::core

#endif
