// SPDX-License-Identifier: Apache-2.0
//
// A small complete program in NEFF form, whose parts a test changes before it is packed.
// Callers: tests and the fuzzer. Thread-safe: values.
#ifndef TESTS_UNIT_RUNTIME_NEFF_SAMPLE_PROGRAM_H
#define TESTS_UNIT_RUNTIME_NEFF_SAMPLE_PROGRAM_H

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "driver/base/little_endian.h"
#include "runtime/neff/engine_binary_writer.h"
#include "runtime/neff/model.h"
#include "runtime/neff/neff_writer.h"
#include "runtime/neff/npy_file.h"

namespace neuron::test {

using Buffer = std::vector<uint8_t>;

template <class T>
T must(runtime::Result<T> result) {
  if (!result) throw std::runtime_error(result.error().sentence);
  return std::move(*result);
}

// `count` events of engine `engine`.
inline Buffer event_code(uint8_t engine, size_t count) {
  Buffer code(count * NEURON_INSTRUCTION_BYTES, 0);
  for (size_t i = 0; i < count; ++i) {
    base::store_little<uint32_t>(code.data() + i * NEURON_INSTRUCTION_BYTES,
                                 NEURON_OP_EVENT | NEURON_ISA_VERSION << NEURON_HEAD_ISA_SHIFT |
                                     1u << engine << NEURON_HEAD_ENGINES_SHIFT);
  }
  return code;
}

inline void set_opcode(neff::EngineProgram& program, uint32_t pc, uint32_t opcode) {
  uint8_t* head = program.code.data() + pc * NEURON_INSTRUCTION_BYTES;
  const auto old = base::load_little<uint32_t>(head);
  base::store_little<uint32_t>(head, (old & ~NEURON_HEAD_OPCODE_MASK) | opcode);
}

// Four instructions; instruction 0 triggers transfer 7, 1 stores to `scratch`, 3 is the function
// "late".
inline neff::EngineProgram sample_engine(uint8_t engine) {
  neff::EngineProgram program;
  program.engine = engine;
  program.code = event_code(engine, 4);
  program.entries = {{"main", 0, 3, NEURON_ENTRY_MAIN}};
  program.lines = {{1, 10, 2, "kernel.py"}, {5, 11, 0, "kernel.py"}};
  if (engine == NEURON_ENGINE_SP) {
    program.entries.push_back({"late", 3, 1, NEURON_ENTRY_FUNCTION});
    set_opcode(program, 0, NEURON_OP_DMA_TRIGGER);
    set_opcode(program, 1, NEURON_OP_WRITE);
    set_opcode(program, 3, NEURON_OP_DMA_TRIGGER);
    program.relocations = {
        {0, NEURON_INST_WAIT0, NEURON_RELOC_SEMAPHORE, 1, "loaded", 0, 0},
        {0, NEURON_DMA_TRIGGER_M2S, NEURON_RELOC_DMA_BLOCK, 0, "7", 0, 0},
        {1, NEURON_ADDRESS_ADDR, NEURON_RELOC_VAR_ADDR, 8, "scratch", 64, 0},
        {3, NEURON_DMA_TRIGGER_M2S, NEURON_RELOC_DMA_BLOCK, 0, "9", 0, 0},
    };
  }
  return program;
}

struct SampleProgram {
  tools::NeffOptions options{.name = "sample", .build_version = "test 1"};
  tools::NeffMembers members;

  SampleProgram() {
    set("neff.json", R"({"format": "nrt-open-program", "version": 1, "target": "trn1", "lnc": 1,
 "nodes": [{"name": "sg00", "executor": "NeuronCore"}],
 "inputs": [{"name": "x:0", "variable": "x", "subgraph": "sg00", "dtype": "float32", "shape": [4, 16],
   "size": 256, "format": "NC", "timeseries": false}],
 "outputs": [{"name": "y:0", "variable": "y", "dtype": "bfloat16", "shape": [128], "size": 256}]})");
    set("info.json", R"({"target": "trn1", "tool_version": "0.1", "created_by": "sample"})");
    set("sg00/def.json", R"({"program": {"isa": 1, "generation": 2},
 "var": {
  "x": {"type": "input", "var_id": 1, "size": 256},
  "y": {"type": "output", "var_id": 2, "size": 256, "alignment": 64, "fabric_path": "main"},
  "w": {"type": "file", "var_id": 3, "size": 48, "file_name": "w.npy", "ops": []},
  "raw": {"type": "file", "var_id": 4, "size": 5, "file_name": "raw.dat"},
  "scratch": {"type": "tmp-buf", "var_id": 5, "size": 4096},
  "shared": {"type": "virtual", "var_id": 6, "size": 100, "backing_variable_off": 512},
  "p": {"type": "pointer", "var_id": 7, "size": 8, "referenced_var_id": 5},
  "t": {"type": "dge-table", "var_id": 8, "size": 32, "list": [5, 3]},
  "sbuf": {"type": "state-buffer", "var_id": 9, "size": 33554432}},
 "dma_queue": {
  "in": {"type": "in", "num_queues": 16, "owner": "SP", "semaphore": 20},
  "data": {"type": "data", "num_queues": 2, "queue_instances": ["data_a", "data_b"], "semaphore_set": [21, 22]}},
 "semaphore": {"loaded": 20, "stored": 21},
 "engines": {"PE": {"bin": "PE.bin"}, "SP": {"bin": "SP.bin", "json": "SP.json"}}})");
    set("sg00/SP.json", R"({"dma": [
 {"id": 7, "queue": "in", "semaphore": "loaded", "desc": {"from": "x", "to": "sbuf", "to_off": 4096,
   "to_sizes": [64, 4], "to_steps": [1, 262144]}},
 {"id": 8, "queue": "in", "instance_name": "data_b", "semaphore": 21, "event": 3, "section_start_desc": true,
   "desc": {"op": "copy", "from": "w", "from_off": 16, "to": "scratch", "to_sizes": [32], "to_steps": [1]}},
 {"id": 9, "queue": "in", "function_start": "late", "desc": {"op": "cast", "from": "scratch",
   "from_dtype": "float32", "to_dtype": "bfloat16", "from_sizes": [512], "from_steps": [1], "to": "y"}}]})");
    tools::NpyArray weights{"<f4", {3, 4}, Buffer(48)};
    for (size_t i = 0; i < weights.data.size(); ++i) weights.data[i] = static_cast<uint8_t>(i);
    members["sg00/w.npy"] = tools::write_npy(weights);
    set("sg00/raw.dat", "bytes");
    set_engine("sg00/PE.bin", sample_engine(NEURON_ENGINE_PE));
    set_engine("sg00/SP.bin", sample_engine(NEURON_ENGINE_SP));
  }

  void set(const std::string& member, std::string_view text) {
    members[member] = tools::bytes_of(text);
  }
  void set_engine(const std::string& member, const neff::EngineProgram& program) {
    members[member] = must(tools::write_engine_binary(program));
  }
  // Replaces the only place of `from` in a text member.
  void edit(const std::string& member, std::string_view from, std::string_view to) {
    Buffer& bytes = members.at(member);
    std::string text(bytes.begin(), bytes.end());
    const size_t at = text.find(from);
    if (at == std::string::npos || text.find(from, at + 1) != std::string::npos) {
      throw std::runtime_error("the sample has not exactly one " + std::string(from));
    }
    text.replace(at, from.size(), to);
    bytes.assign(text.begin(), text.end());
  }
  Buffer pack() const { return must(tools::write_neff(members, options)); }
};

}  // namespace neuron::test

#endif
