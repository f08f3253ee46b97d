// SPDX-License-Identifier: Apache-2.0
//
// A NEFF written by hand, for what no program builder writes: each part of def.json and the engine
// JSON as text, instructions as structs. Callers: tests, one thread. A part that does not fit
// throws.
#ifndef TESTS_SYSTEM_API_PROGRAM_FILE_H
#define TESTS_SYSTEM_API_PROGRAM_FILE_H

#include <array>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "driver/isa/instruction.h"
#include "runtime/neff/engine_binary_writer.h"
#include "runtime/neff/neff_writer.h"

namespace neuron::test {

class ProgramFile {
 public:
  ProgramFile() {
    for (uint8_t e = 0; e < NEURON_CORE_ENGINES; ++e) engines_[e].engine = e;
  }

  // `shape`: "[4, 16]".
  void input(const std::string& name, const std::string& dtype, const std::string& shape,
             uint64_t size) {
    port(inputs_, "input", name, dtype, shape, size);
  }
  void output(const std::string& name, const std::string& dtype, const std::string& shape,
              uint64_t size) {
    port(outputs_, "output", name, dtype, shape, size);
  }
  // `fields`: R"("type": "tmp-buf", "size": 64)".
  void variable(const std::string& name, const std::string& fields) {
    append(variables_,
           quoted(name) + ": {" + fields + ", \"var_id\": " + std::to_string(next_id_++) + "}");
  }
  void queue(const std::string& name, const std::string& fields) {
    append(queues_, quoted(name) + ": {" + fields + "}");
  }
  void semaphore(const std::string& name, unsigned number) {
    append(semaphores_, quoted(name) + ": " + std::to_string(number));
  }
  void transfer(uint8_t engine, const std::string& fields) {
    append(transfers_[engine], "{" + fields + "}");
  }

  isa::Instruction& add(uint8_t engine, uint16_t opcode) {
    isa::Instruction instruction;
    instruction.opcode = opcode;
    instruction.engines = static_cast<uint8_t>(1u << engine);
    code_[engine].push_back(instruction);
    return code_[engine].back();
  }
  // At the instruction that was added last.
  void relocate(uint8_t engine, uint16_t field, uint8_t kind, uint8_t width,
                const std::string& symbol, int64_t addend = 0) {
    engines_[engine].relocations.push_back({pc(engine) - 1, field, kind, width, symbol, addend, 0});
  }
  void trigger(uint8_t engine, unsigned id) {
    add(engine, NEURON_OP_DMA_TRIGGER);
    relocate(engine, NEURON_DMA_TRIGGER_M2S, NEURON_RELOC_DMA_BLOCK, 0, std::to_string(id));
  }
  // Waits, and takes the value away again.
  void wait(uint8_t engine, uint8_t semaphore, uint16_t value) {
    isa::Instruction& event = add(engine, NEURON_OP_EVENT);
    event.wait[0] = {.index = semaphore, .condition = NEURON_WAIT_GE, .value = value};
    event.update[0] = {.index = semaphore, .operation = NEURON_UPDATE_SUB, .value = value};
  }
  void call(uint8_t engine, const std::string& function) {
    add(engine, NEURON_OP_CALL);
    relocate(engine, NEURON_INST_OP + 4, NEURON_RELOC_PC, 4, function);
  }
  void end_main(uint8_t engine) {
    add(engine, NEURON_OP_RET);
    engines_[engine].entries.push_back({"main", 0, pc(engine), NEURON_ENTRY_MAIN});
  }
  void begin_function(uint8_t engine, const std::string& name) {
    engines_[engine].entries.push_back({name, pc(engine), 0, NEURON_ENTRY_FUNCTION});
  }
  void end_function(uint8_t engine) {
    add(engine, NEURON_OP_RET);
    neff::ProgramEntry& entry = engines_[engine].entries.back();
    entry.length = pc(engine) - entry.pc;
  }
  uint32_t pc(uint8_t engine) const { return static_cast<uint32_t>(code_[engine].size()); }
  void member(const std::string& name, std::string_view contents) {
    members_[name] = tools::bytes_of(contents);
  }
  neff::EngineProgram& program(uint8_t engine) { return engines_[engine]; }

  std::vector<uint8_t> pack() {
    std::string engines;
    for (uint8_t e = 0; e < NEURON_CORE_ENGINES; ++e) {
      if (code_[e].empty()) continue;
      const std::string name = neff::engine_name(e);
      append(engines,
             quoted(name) + R"(: {"bin": ")" + name + R"(.bin", "json": ")" + name + R"(.json"})");
      engines_[e].code.resize(code_[e].size() * NEURON_INSTRUCTION_BYTES);
      for (size_t i = 0; i < code_[e].size(); ++i) {
        std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
        isa::encode(code_[e][i], bytes);
        std::memcpy(engines_[e].code.data() + i * bytes.size(), bytes.data(), bytes.size());
      }
      members_["sg00/" + name + ".bin"] = must(tools::write_engine_binary(engines_[e]));
      member("sg00/" + name + ".json", "{\"dma\": [" + transfers_[e] + "]}");
    }
    member("sg00/def.json", R"({"program": {"isa": 1, "generation": 2}, "var": {)" + variables_ +
                                "}, \"dma_queue\": {" + queues_ + "}, \"semaphore\": {" +
                                semaphores_ + "}, \"engines\": {" + engines + "}}");
    member("neff.json", R"({"format": "nrt-open-program", "version": 1, "target": "trn1",
 "nodes": [{"name": "sg00", "executor": "NeuronCore"}], "inputs": [)" +
                            inputs_ + "], \"outputs\": [" + outputs_ + "]}");
    return must(tools::write_neff(members_, {.name = "by_hand", .build_version = "test"}));
  }

 private:
  template <class T>
  static T must(runtime::Result<T> result) {
    if (!result) throw std::runtime_error(result.error().sentence);
    return std::move(*result);
  }
  static std::string quoted(const std::string& text) { return "\"" + text + "\""; }
  static void append(std::string& list, const std::string& item) {
    if (!list.empty()) list += ",\n";
    list += item;
  }
  void port(std::string& list, const std::string& type, const std::string& name,
            const std::string& dtype, const std::string& shape, uint64_t size) {
    const std::string bytes = std::to_string(size);
    variable(name, "\"type\": " + quoted(type) + ", \"size\": " + bytes);
    append(list, "{\"name\": " + quoted(name) + ", \"variable\": " + quoted(name) +
                     ", \"dtype\": " + quoted(dtype) + ", \"shape\": " + shape +
                     ", \"size\": " + bytes + "}");
  }

  std::string variables_, queues_, semaphores_, inputs_, outputs_;
  std::array<std::string, NEURON_CORE_ENGINES> transfers_;
  std::array<std::vector<isa::Instruction>, NEURON_CORE_ENGINES> code_;
  std::array<neff::EngineProgram, NEURON_CORE_ENGINES> engines_;
  tools::NeffMembers members_;
  unsigned next_id_ = 1;
};

}  // namespace neuron::test

#endif
