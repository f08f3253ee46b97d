// SPDX-License-Identifier: Apache-2.0
// The program of an engine whose functions call each other, for tests of what the loader makes of
// it. Entry 0 is `main`; functions come behind it, in the order of the calls of function().
#ifndef TESTS_UNIT_RUNTIME_RINGS_CALLING_PROGRAM_H
#define TESTS_UNIT_RUNTIME_RINGS_CALLING_PROGRAM_H

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "driver/isa/instruction.h"
#include "runtime/neff/model.h"

namespace neuron::test {

class CallingProgram {
 public:
  explicit CallingProgram(uint8_t engine = NEURON_ENGINE_SP) {
    program_.engine = engine;
    program_.entries.push_back({"main", 0, 0, NEURON_ENTRY_MAIN});
  }

  // An instruction of the present function; its number.
  uint32_t add(uint16_t opcode) {
    isa::Instruction instruction;
    instruction.opcode = opcode;
    instruction.engines = static_cast<uint8_t>(1u << program_.engine);
    code.push_back(instruction);
    return static_cast<uint32_t>(code.size() - 1);
  }
  // A call or branch to the `behind`th instruction of an entry.
  uint32_t go(uint16_t opcode, uint32_t entry, uint32_t behind = 0) {
    jumps_.push_back({add(opcode), {entry, behind}});
    return jumps_.back().first;
  }
  uint32_t call(uint32_t entry) { return go(NEURON_OP_CALL, entry); }
  // Ends what is open and begins the function; its entry.
  uint32_t function(const std::string& name) {
    close();
    program_.entries.push_back(
        {name, static_cast<uint32_t>(code.size()), 0, NEURON_ENTRY_FUNCTION});
    return static_cast<uint32_t>(program_.entries.size() - 1);
  }
  // A function that calls these entries and returns.
  uint32_t function(const std::string& name, const std::vector<uint32_t>& callees) {
    const uint32_t entry = function(name);
    add(NEURON_OP_NOP);
    for (const uint32_t callee : callees) call(callee);
    add(NEURON_OP_RET);
    return entry;
  }

  neff::EngineProgram take() {
    close();
    for (const auto& [pc, target] : jumps_) {
      code[pc].flow.target =
          static_cast<int32_t>(program_.entries[target.first].pc + target.second - pc);
    }
    program_.code.resize(code.size() * NEURON_INSTRUCTION_BYTES);
    for (size_t pc = 0; pc < code.size(); ++pc) {
      isa::encode(code[pc], std::as_writable_bytes(std::span(program_.code))
                                .subspan(pc * NEURON_INSTRUCTION_BYTES)
                                .first<NEURON_INSTRUCTION_BYTES>());
    }
    return program_;
  }

  std::vector<isa::Instruction> code;

 private:
  void close() {
    neff::ProgramEntry& open = program_.entries.back();
    open.length = static_cast<uint32_t>(code.size()) - open.pc;
  }

  neff::EngineProgram program_;
  std::vector<std::pair<uint32_t, std::pair<uint32_t, uint32_t>>> jumps_;
};

}  // namespace neuron::test

#endif
