// SPDX-License-Identifier: Apache-2.0
// What a fault plan does to an instruction that is about to be executed.
#include "driver/emulator/neuroncore/group/execution_group.h"

namespace neuron::core {

// True if the instruction is not executed.
bool ExecutionGroup::meets_injected_fault(Sequencer& s, const CachedInstruction& entry,
                                          ModelTime now) {
  const isa::Instruction& i = entry.decoded;
  const uint64_t code = s.program_base() + uint64_t{s.pc} * NEURON_INSTRUCTION_BYTES;
  neuron_fault memory = injected_.fetched(code, NEURON_INSTRUCTION_BYTES);
  uint64_t address = code;
  uint32_t bytes = NEURON_INSTRUCTION_BYTES;
  if (memory == NEURON_FAULT_NONE && i.opcode == NEURON_OP_LOAD && !entry.dynamic) {
    address = i.address.addr;
    bytes = 4;
    memory = injected_.fetched(address, bytes);
  }
  if (memory != NEURON_FAULT_NONE) {
    raise(s, make_fault(memory, address, bytes), s.pc, i.debug, i.opcode, now);
    return true;
  }
  switch (injected_.instruction(core_, s.engine)) {
    case chip::ChipFaults::Issue::kGoesOn:
      return false;
    case chip::ChipFaults::Issue::kHangs:
      // It stays RUNNING and has no next event: nothing it does will ever be seen again.
      s.issue_at = kNever;
      return true;
    case chip::ChipFaults::Issue::kParityError:
      raise(s, make_fault(NEURON_FAULT_NC_UE, core_), s.pc, i.debug, i.opcode, now);
      return true;
  }
  return false;
}

}  // namespace neuron::core
