// SPDX-License-Identifier: Apache-2.0
// A violation as one sentence: where, what is expected, what was found.
#include <cinttypes>

#include "driver/isa/line.h"
#include "driver/isa/opcode_table.h"

namespace neuron::isa {
namespace {

constexpr const char* kOperand[] = {"dst", "src0", "src1", "?3"};

constexpr unsigned kDtypeOfOperand = 4, kSpaceOfOperand = 5, kDtypeOfScalar = 4;

// What the field that was refused holds, as the assembler spells it; empty for a number.
std::string name_of_value(const Violation& v, const Instruction& instruction, bool in_operand) {
  const unsigned in_slot = v.offset - (NEURON_INST_DST + v.operand * NEURON_OPERAND_BYTES);
  if (v.code == NEURON_FAULT_OPERAND_SPACE && in_operand && in_slot == kSpaceOfOperand) {
    return v.value == NEURON_SPACE_SBUF ? "SBUF" : v.value == NEURON_SPACE_PSUM ? "PSUM" : "";
  }
  if (v.code != NEURON_FAULT_OPERAND_DTYPE) return "";
  const bool of_transfer =
      instruction.group() == 6 && (v.offset == NEURON_DMA_CTL || v.offset == NEURON_DMA_CTL + 1);
  const bool is_type = (in_operand && in_slot == kDtypeOfOperand) || of_transfer ||
                       v.offset == NEURON_INST_SCALAR0 + kDtypeOfScalar ||
                       v.offset == NEURON_INST_SCALAR1 + kDtypeOfScalar;
  return is_type ? dtype_name(v.value) : "";
}

// "PE or SP"
std::string engines_of(unsigned mask) {
  std::string text;
  for (unsigned engine = 0; engine < 6; ++engine) {
    if ((mask >> engine & 1) == 0) continue;
    if (!text.empty()) text += mask >> (engine + 1) == 0 ? " or " : ", ";
    text += engine_name(engine);
  }
  return text;
}

// An instruction that stands in the program of an engine that does not execute it.
std::string describe_wrong_engine(const Instruction& instruction, const OpcodeInfo& info) {
  const unsigned executes = info.engines | info.engines_v3;
  std::string found = engines_of(instruction.engines & ~executes & NEURON_HEAD_ENGINES_MASK);
  // The engine that has fetched it is not among those that the instruction names.
  if (found.empty()) found = "another engine";
  return std::string(info.name) + ": found it in a program of " + found + ", expected one of " +
         engines_of(executes) + ", which executes it [WRONG_ENGINE]";
}

}  // namespace

std::string describe(const Violation& v, const Instruction& instruction) {
  Line line;
  if (!v) return "no violation";
  const OpcodeInfo* info = find_opcode(instruction.opcode);
  if (v.code == NEURON_FAULT_WRONG_ENGINE && v.offset == 0 && info != nullptr) {
    return describe_wrong_engine(instruction, *info);
  }
  line.addf("%s: ", opcode_name(instruction.opcode));
  const unsigned slot = NEURON_INST_DST + v.operand * NEURON_OPERAND_BYTES;
  const bool tensors = (instruction.group() >= 2 && instruction.group() <= 5) ||
                       instruction.opcode == NEURON_OP_DMA_GATHER ||
                       instruction.opcode == NEURON_OP_DMA_SCATTER;
  const bool in_operand = tensors && v.offset >= slot && v.offset < slot + NEURON_OPERAND_BYTES;
  if (in_operand) {
    line.addf("%s: ", kOperand[v.operand & 3]);
  }
  line.addf("%s", v.what);
  const std::string name = name_of_value(v, instruction, in_operand);
  if (!name.empty() && name != "?") {
    line.addf("; found %s", name.c_str());
  } else {
    line.addf("; found %" PRIu32, v.value);
    if (v.value >= 10) line.addf(" (0x%" PRIX32 ")", v.value);
  }
  line.addf(" at byte offset 0x%02X", v.offset);
  if (v.rule) line.addf(", rule R%u", v.rule);
  line.addf(" [%s]", fault_name(v.code));
  return line.take();
}

}  // namespace neuron::isa
