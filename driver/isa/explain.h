// SPDX-License-Identifier: Apache-2.0
// What an operator may ask about one instruction: which engines execute it, since which generation,
// under which rules, and what it costs.
//
// Callers: neuron-as --explain, tests. Any instruction may be explained; the cycles hold if the
// checks accept it, else `problem` says why they refuse it. Thread-safe. Fails by bad_alloc only.
#ifndef DRIVER_ISA_EXPLAIN_H
#define DRIVER_ISA_EXPLAIN_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "driver/isa/instruction.h"

namespace neuron::isa {

// Words about an opcode; nullptr for one that the instruction set does not list.
struct OpcodeText {
  uint16_t opcode;
  const char* summary;  // what it computes
  const char* rules;    // operand rules of its own, sentences with "; " between; may be empty
  const char* cost;     // the formula
};
const OpcodeText* find_opcode_text(unsigned opcode);

struct Explanation {
  std::string text;          // the instruction, disassembled
  std::string summary;       // what it computes
  std::string engines;       // "DVE, Pool; Activation from generation 3"
  unsigned generation = 0;   // first generation; 0: unknown opcode
  bool available = false;    // this device executes it
  std::string availability;  // the same as a sentence
  // "functions", "op", "op1", "reduce" ...: what the instruction may name there, "exp, ln, ...".
  std::vector<std::pair<std::string, std::string>> choices;
  std::vector<std::string> rules;
  std::string cost;             // formula in words
  uint64_t cycles = 0;          // of the engine's clock, of this instruction; 0 for control and DMA
  uint64_t interval_ps = 0;     // the engine is occupied
  uint64_t latency_ps = 0;      // from there until the result is visible
  bool of_instruction = false;  // not of an opcode alone, which has no cycles and no problem
  std::string problem;          // why the checks refuse it; empty: accepted
};
Explanation explain(const Instruction& instruction, unsigned engine, const Limits& limits = {});
// What holds for all instructions of an opcode.
Explanation explain_opcode(unsigned opcode, unsigned engine, const Limits& limits = {});

// Names of all activation functions, operations and data types, ", " between.
std::string all_functions();
std::string all_operations();
std::string all_dtypes();

// The explanation as lines of text.
std::string to_text(const Explanation& explanation);

}  // namespace neuron::isa

#endif
