// SPDX-License-Identifier: Apache-2.0
// A violation as one sentence: where, what is expected, what was found.
#include <cinttypes>

#include "driver/isa/line.h"

namespace neuron::isa {
namespace {

constexpr const char* kOperand[] = {"dst", "src0", "src1", "?3"};

}  // namespace

std::string describe(const Violation& v, const Instruction& instruction) {
  Line line;
  if (!v) return "no violation";
  line.addf("%s: ", opcode_name(instruction.opcode));
  const unsigned slot = NEURON_INST_DST + v.operand * NEURON_OPERAND_BYTES;
  const bool tensors = (instruction.group() >= 2 && instruction.group() <= 5) ||
                       instruction.opcode == NEURON_OP_DMA_GATHER ||
                       instruction.opcode == NEURON_OP_DMA_SCATTER;
  if (tensors && v.offset >= slot && v.offset < slot + NEURON_OPERAND_BYTES) {
    line.addf("%s: ", kOperand[v.operand & 3]);
  }
  line.addf("%s", v.what);
  line.addf("; found %" PRIu32, v.value);
  if (v.value >= 10) line.addf(" (0x%" PRIX32 ")", v.value);
  line.addf(" at byte offset 0x%02X", v.offset);
  if (v.rule) line.addf(", rule R%u", v.rule);
  line.addf(" [%s]", fault_name(v.code));
  return line.take();
}

}  // namespace neuron::isa
