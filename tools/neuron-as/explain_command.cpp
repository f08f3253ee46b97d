// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-as/explain_command.h"

#include <bit>
#include <cstdio>
#include <optional>

#include "driver/isa/explain.h"
#include "driver/isa/opcode_table.h"
#include "driver/isa/rules.h"
#include "runtime/neff/container.h"
#include "runtime/neff/model_reader.h"
#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/compiler/assembler/instruction_parser.h"
#include "tools/compiler/assembler/instruction_printer.h"
#include "tools/neuron-as/input.h"

namespace neuron::tools {
namespace {

using base::format;
using runtime::fail;
using runtime::Result;

// "PE:3" or "sg01/PE:3"; nothing if `what` is no address.
struct Address {
  std::string subgraph;  // empty: the first one
  unsigned engine = 0;
  uint32_t pc = 0;
};
std::optional<Address> address_of(const std::string& what) {
  const size_t colon = what.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const size_t slash = what.find('/');
  const size_t first = slash < colon ? slash + 1 : 0;
  const uint8_t engine = neff::engine_from_name(what.substr(first, colon - first));
  uint64_t pc = 0;
  if (engine >= NEURON_CORE_ENGINES || !assembler::parse_unsigned(what.substr(colon + 1), pc) ||
      pc >= NEURON_PROGRAM_MAX) {
    return std::nullopt;
  }
  return Address{what.substr(0, first == 0 ? 0 : slash), engine, static_cast<uint32_t>(pc)};
}

std::string where_from(const neff::EngineProgram& program, uint32_t debug) {
  for (const neff::SourceLine& line : program.lines) {
    if (debug != 0 && line.debug == debug) {
      return format("source:       {}:{}\n", base::escaped(line.file), line.line);
    }
  }
  return {};
}

// The semaphores of the other core that an instruction of subgraph `number` names.
std::string names_of_peer(const neff::Model& model, size_t number, unsigned engine, uint32_t pc) {
  std::string text;
  for (const neff::Relocation& relocation : model.subgraphs[number].engines[engine].relocations) {
    if (relocation.pc != pc || !relocation.of_peer()) continue;
    const neff::Subgraph& other = model.subgraphs[1 - number];
    const neff::Semaphore& semaphore = other.semaphores[relocation.target];
    text += format("other core:   {} is semaphore {} of {}\n", base::escaped(semaphore.name),
                   semaphore.number, other.name);
  }
  return text;
}

// As generation 2 has it; it has no 64-bit integers.
isa::Explanation explanation_of(const isa::Instruction& instruction, unsigned engine) {
  const unsigned generation = isa::has_int64(instruction) ? 3 : 2;
  return isa::explain(instruction, engine, isa::limits_of(generation));
}

Result<std::string> explain_address(const Address& address, const std::string& input) {
  NEURON_TRY(file, read_input(input));
  auto container = neff::Container::open(file);
  if (!container) return container.error().with("{}", input);
  auto model = neff::load_model(*container, {});
  if (!model) return model.error().with("{}", input);
  size_t number = 0;
  while (!address.subgraph.empty() && number < model->subgraphs.size() &&
         model->subgraphs[number].name != address.subgraph) {
    ++number;
  }
  if (number == model->subgraphs.size()) {
    return fail(NRT_INVALID, "{}: there is no subgraph {}; the first is {}", input,
                base::escaped(address.subgraph), model->subgraphs[0].name);
  }
  const neff::Subgraph& subgraph = model->subgraphs[number];
  const neff::EngineProgram& program = subgraph.engines[address.engine];
  if (address.pc >= program.instructions()) {
    return fail(NRT_INVALID, "{}: {} has {} instructions; there is no {}", input,
                neff::engine_name(static_cast<uint8_t>(address.engine)), program.instructions(),
                address.pc);
  }
  const assembler::InstructionPrinter printer(subgraph, program);
  const isa::Instruction instruction = isa::decode(printer.bytes(address.pc));
  return format("in the file:  {}\n", printer.print(address.pc, {}, false)) +
         names_of_peer(*model, number, address.engine, address.pc) +
         where_from(program, instruction.debug) +
         isa::to_text(explanation_of(instruction, address.engine));
}

// The engine of an instruction that does not say which.
unsigned usual_engine(const std::string& text) {
  const std::string mnemonic = text.substr(0, text.find_first_of(" \t"));
  for (const isa::OpcodeInfo& info : isa::all_opcodes()) {
    if (mnemonic != info.name) continue;
    // Control instructions that all engines execute count as SP's.
    if (info.engines >> NEURON_ENGINE_SP & 1) return NEURON_ENGINE_SP;
    // Vector instructions count as DVE's.
    if (info.engines >> NEURON_ENGINE_DVE & 1) return NEURON_ENGINE_DVE;
    return static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(info.engines)));
  }
  return NEURON_ENGINE_SP;
}

// The opcode whose name is all of the text.
std::optional<unsigned> opcode_named(const std::string& what) {
  for (const isa::OpcodeInfo& info : isa::all_opcodes()) {
    // An instruction without operands is complete with its name.
    if (what == info.name && info.required != 0) return info.opcode;
  }
  return std::nullopt;
}

}  // namespace

int explain_command(const std::string& what, const std::string& engine, const std::string& input) {
  const std::optional<Address> address = address_of(what);
  if (address && input.empty()) {
    std::fprintf(stderr, "neuron-as: --explain %s needs the NEFF that it is in\n", what.c_str());
    return kWrongUsage;
  }
  if (address) {
    const auto text = explain_address(*address, input);
    if (text) return print_output("neuron-as", *text) ? 0 : kFailed;
    std::fprintf(stderr, "neuron-as: %s\n", base::escaped(text.error().sentence).c_str());
    return kFailed;
  }
  unsigned executing = usual_engine(what);
  if (!engine.empty()) {
    executing = neff::engine_from_name(engine);
    if (executing > NEURON_ENGINE_CC) {
      std::fprintf(stderr, "neuron-as: no engine %s; there are PE, Activation, Pool, DVE, SP, CC\n",
                   base::escaped(engine).c_str());
      return kWrongUsage;
    }
  }
  if (const auto opcode = opcode_named(what)) {
    const std::string text = isa::to_text(isa::explain_opcode(*opcode, executing));
    return print_output("neuron-as", text) ? 0 : kFailed;
  }
  assembler::Diagnostic error;
  auto instruction = assembler::parse_instruction(what, static_cast<int>(executing), error);
  if (instruction && engine.empty() && isa::has_int64(*instruction)) {
    executing = NEURON_ENGINE_POOL;  // of those that execute it, the one that has such integers
    instruction = assembler::parse_instruction(what, NEURON_ENGINE_POOL, error);
  }
  if (!instruction) {
    std::fputs(assembler::render(error, "--explain", what).c_str(), stderr);
    return kFailed;
  }
  const isa::Explanation explanation = explanation_of(*instruction, executing);
  const bool printed = print_output("neuron-as", isa::to_text(explanation));
  return printed && explanation.problem.empty() ? 0 : kFailed;
}

}  // namespace neuron::tools
