// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/instruction_check.h"

#include <algorithm>

#include "driver/isa/instruction.h"
#include "runtime/model/instructions.h"

namespace neuron::runtime {
namespace {

bool has_bindings(const isa::Instruction& instruction) {
  return std::any_of(instruction.bind.begin(), instruction.bind.end(),
                     [](const isa::Binding& b) { return b.mode != NEURON_BIND_UNUSED; });
}

// The last part of the fault's text says what to do.
std::string advice(unsigned code) {
  const std::string text = isa::fault_text(code);
  const size_t at = text.rfind("; ");
  return at == std::string::npos ? text : text.substr(at + 2);
}

}  // namespace

std::string describe_instruction(uint32_t engine, uint32_t pc,
                                 std::span<const std::byte> instruction,
                                 const std::vector<neff::SourceLine>& lines,
                                 const neff::DebugInfo& debug) {
  std::string text = format("{} pc {}", isa::engine_name(engine), pc);
  if (instruction.size() < NEURON_INSTRUCTION_BYTES) return text;
  const isa::Instruction decoded = isa::decode(bytes_at(instruction, 0));
  const auto line =
      std::lower_bound(lines.begin(), lines.end(), decoded.debug,
                       [](const neff::SourceLine& l, uint32_t id) { return l.debug < id; });
  std::string place;
  if (decoded.debug != 0 && line != lines.end() && line->debug == decoded.debug) {
    place = line->line == 0 ? line->file : format("{}:{}", line->file, line->line);
  }
  if (const std::string names = debug.describe(decoded.debug); !names.empty()) {
    place += (place.empty() ? "" : ", ") + names;
  }
  if (!place.empty()) text += " (" + place + ")";
  return text + ": " + isa::disassemble(decoded, static_cast<int>(engine));
}

Result<void> check_program(std::span<const std::byte> code, uint32_t engine, uint32_t generation,
                           const std::vector<neff::SourceLine>& lines, const neff::DebugInfo& debug,
                           SynchronizationUse& used) {
  const isa::Limits limits = isa::limits_of(generation);
  const size_t count = code.size() / NEURON_INSTRUCTION_BYTES;
  for (size_t pc = 0; pc < count; ++pc) {
    const isa::Bytes bytes = bytes_at(code, pc);
    isa::Violation violation = isa::check_encoding(bytes, engine, limits);
    const isa::Instruction instruction = isa::decode(bytes);
    if (!violation && !has_bindings(instruction)) {
      violation = isa::check_operands(instruction, engine, limits);
    }
    if (violation) {
      return fail(
          violation.code == NEURON_FAULT_ISA_VERSION ? NRT_UNSUPPORTED_NEFF_VERSION : NRT_INVALID,
          "{}: {}{}: found {:#x} in byte {:#x} of the instruction, expected: {}; {}",
          describe_instruction(engine, static_cast<uint32_t>(pc), bytes, lines, debug),
          isa::fault_name(violation.code),
          violation.rule == 0 ? "" : format(" (rule R{})", violation.rule), violation.value,
          violation.offset, violation.what, advice(violation.code));
    }
    if (instruction.dma.signal) used.semaphores.set(instruction.dma.semaphore);
    for (const isa::Wait& wait : instruction.wait) {
      if (wait.condition == NEURON_WAIT_NONE) continue;
      wait.event ? used.events.set(wait.index) : used.semaphores.set(wait.index);
    }
    for (const isa::Update& update : instruction.update) {
      if (update.operation == NEURON_UPDATE_NONE) continue;
      const bool event = update.operation >= NEURON_UPDATE_EVENT_SET;
      event ? used.events.set(update.index) : used.semaphores.set(update.index);
    }
  }
  return {};
}

}  // namespace neuron::runtime
