// SPDX-License-Identifier: Apache-2.0
#include "driver/isa/fields.h"
#include "driver/isa/instruction.h"

namespace neuron::isa {

Instruction decode(Bytes bytes) {
  Words words;
  std::memcpy(words.data(), bytes.data(), bytes.size());
  Instruction instruction;
  const FieldReader read{words};
  visit_head(read, instruction);
  if (const OpcodeInfo* info = find_opcode(instruction.opcode)) {
    visit_body(read, *info, instruction);
  }
  return instruction;
}

void encode(const Instruction& instruction, MutableBytes bytes) {
  Words words{};
  const FieldWriter write{words};
  visit_head(write, instruction);
  if (const OpcodeInfo* info = find_opcode(instruction.opcode)) {
    visit_body(write, *info, instruction);
  }
  std::memcpy(bytes.data(), words.data(), bytes.size());
}

}  // namespace neuron::isa
