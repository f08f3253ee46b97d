// SPDX-License-Identifier: Apache-2.0
//
// A session on a fake device with one model, which reads tensor "x" and writes tensor "y", 64 bytes
// each, and tensors for both.
//
// Callers: tests of this folder, one thread. The fake device ends each launch at once: `outcome`
// says how.
#ifndef TESTS_UNIT_RUNTIME_LOADED_SAMPLE_H
#define TESTS_UNIT_RUNTIME_LOADED_SAMPLE_H

#include "driver/isa/instruction.h"
#include "runtime/model/loaded_model.h"
#include "runtime/session/session.h"
#include "runtime/tensor/tensor_set.h"
#include "tests/unit/runtime/fake_device.h"

namespace neuron::test {

// STATUS of a core whose engines all wait.
inline constexpr uint32_t kSettled = NEURON_CORE_STATUS_QUIESCENT | 0x22222;

inline isa::Instruction sample_event(uint8_t engine) {
  isa::Instruction instruction;
  instruction.opcode = NEURON_OP_EVENT;
  instruction.engines = static_cast<uint8_t>(1u << engine);
  return instruction;
}

inline std::vector<uint8_t> sample_code(const std::vector<isa::Instruction>& instructions) {
  std::vector<uint8_t> code(instructions.size() * NEURON_INSTRUCTION_BYTES);
  for (size_t i = 0; i < instructions.size(); ++i) {
    isa::encode(instructions[i], std::as_writable_bytes(std::span(code))
                                     .subspan(i * NEURON_INSTRUCTION_BYTES)
                                     .first<NEURON_INSTRUCTION_BYTES>());
  }
  return code;
}

// PE has three instructions with source lines, SP one transfer from x to y, which it never
// triggers.
inline neff::Model sample_model() {
  neff::Model model;
  model.name = "sample";
  neff::Subgraph& graph = model.subgraphs.emplace_back();
  graph.name = "sg00";
  graph.variables.resize(3);
  graph.variables[0] = {.name = "x", .kind = neff::VariableKind::kInput, .size = 64};
  graph.variables[1] = {.name = "y", .kind = neff::VariableKind::kOutput, .size = 64};
  graph.variables[2] = {.name = "t", .kind = neff::VariableKind::kTmpBuf, .size = 100};
  graph.semaphores = {{"ready", 20}};
  graph.queues.resize(1);
  graph.queues[0].name = "q";
  for (uint8_t e = 0; e < NEURON_CORE_ENGINES; ++e) graph.engines[e].engine = e;
  neff::EngineProgram& pe = graph.engines[NEURON_ENGINE_PE];
  isa::Instruction first = sample_event(NEURON_ENGINE_PE);
  first.debug = 1;
  pe.code = sample_code({first, sample_event(NEURON_ENGINE_PE), sample_event(NEURON_ENGINE_PE)});
  pe.entries = {{"main", 0, 3, NEURON_ENTRY_MAIN}};
  pe.lines = {{1, 40, 0, "matmul.py"}};
  neff::DmaTransfer transfer;
  transfer.id = 7;
  transfer.semaphore = 20;
  transfer.from.resize(1);
  transfer.from[0].sizes = {64, 1, 1, 1};
  transfer.to = transfer.from[0];
  transfer.to.variable = 1;
  graph.engines[NEURON_ENGINE_SP].dma.push_back(transfer);
  model.inputs = {{.name = "x", .variable = 0, .size = 64}};
  model.outputs = {{.name = "y", .variable = 1, .size = 64}};
  for (auto* list : {&model.inputs, &model.outputs}) {
    list->front().dtype = NEURON_DTYPE_F32;
    list->front().shape = {16};
  }
  return model;
}

class LoadedSample {
 public:
  explicit LoadedSample(const neff::Model& model = sample_model(),
                        runtime::Configuration configuration = {}) {
    configuration.cores.count = 1;
    auto opened = runtime::Session::open(configuration, {});
    if (!opened) throw std::runtime_error(opened.error().sentence);
    session = std::move(*opened);
    core = *session->core(0);
    machine.state
        .registers[core->place().window_bar0() + NEURON_CORE_CONTROL + NEURON_CORE_STATUS] =
        kSettled;
    machine.state.on_write = [this](uint64_t offset, uint32_t value) {
      if (offset == launch_semaphore()) end(value);
    };
    auto made = runtime::LoadedModel::load(*core, model);
    if (!made) throw std::runtime_error(made.error().sentence);
    loaded = std::move(*made);
    x = add("x", 64);
    y = add("y", 64);
    inputs.put("x", x);
    outputs.put("y", y);
  }
  ~LoadedSample() {
    machine.state.failing.clear();
    machine.state.on_write = nullptr;
    loaded.reset();
    session.reset();
  }

  uint64_t launch_semaphore() const {
    return core->place().window_bar0() + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC +
           NEURON_SEM_LAUNCH * 4;
  }
  // A tensor in HBM; its handle.
  void* add(const char* name, uint64_t size) {
    auto storage =
        runtime::Storage::device(core->device(), core->number(), size, session->mappings, name);
    return *session->handles.insert(
        runtime::HandleKind::kTensor,
        std::make_unique<runtime::Tensor>(name, runtime::TensorView{*storage, 0, size}));
  }
  runtime::Pin<runtime::Tensor> tensor(void* handle) {
    return {session->handles, handle, runtime::HandleKind::kTensor};
  }
  void put_error(const neuron_notification& entry) {
    // The first entry of the ring of errors, which is the last one that was made.
    auto* ring = reinterpret_cast<neuron_notification*>(
        machine.state.at(machine.state.notifications.back().mem_handle).bytes.get());
    ring[errors++] = entry;
  }

  struct Outcome {
    uint32_t status = 0;
    uint8_t engine = 0;
    uint32_t pc = 0;
    uint64_t info = 0;
    bool ends = true;
  };

  FakeMachine machine;
  std::unique_ptr<runtime::Session> session;
  runtime::Core* core = nullptr;
  std::unique_ptr<runtime::LoadedModel> loaded;
  runtime::TensorSet inputs, outputs;
  void* x = nullptr;
  void* y = nullptr;
  Outcome outcome;
  std::vector<neuron_launch_record> launches;
  std::vector<uint32_t> counts;
  uint32_t errors = 0;

 private:
  void end(uint32_t count) {
    launches.push_back(core->launch());
    counts.push_back(count);
    if (!outcome.ends) return;
    neuron_completion_record& record = core->completion();
    record.status = outcome.status;
    record.engine = outcome.engine;
    record.pc = outcome.pc;
    record.info = outcome.info;
    record.start = 100;
    record.end = 1100;
    record.exec_id = core->launch().exec_id;
    record.sequence += count;
  }
};

}  // namespace neuron::test

#endif
