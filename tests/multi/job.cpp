// SPDX-License-Identifier: Apache-2.0
// multi-job KIND [RANK RANKS]: a process that works by the runtime, on its first visible core,
// until it is killed.
//
//   compute      executes a program of many seconds of instructions, again and again
//   instruction  executes a program whose instructions take a second and more each
//   load         loads and unloads a file of 64 MiB, again and again
//   collective   executes an all-reduce of 4 MiB with its peers, again and again
// It says "begun" when it has come so far, and otherwise "failed" and the sentence.
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_open.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tools/compiler/program_builder/program.h"

namespace {

using neuron::builder::Engine;
using neuron::builder::Program;

constexpr uint32_t kPartitions = 128, kColumns = 512;
constexpr uint64_t kWeights = 64 << 20, kNumbers = 1 << 20;

bool say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  return std::fflush(stdout) == 0;
}

// The longest file of all is made by whoever has it loaded, so that none has to lie anywhere.
using File = std::vector<uint8_t>;
File built(Program& program) {
  auto neff = program.build();
  return neff ? File(neff->begin(), neff->end()) : File();
}

File compute() {
  constexpr uint32_t kRounds = 1 << 20;
  Program program("compute");
  const auto y = program.output("y", NEURON_DTYPE_F32, {kPartitions, kColumns});
  const auto tile = program.sbuf("tile", kPartitions, kColumns, NEURON_DTYPE_F32);
  program.memset(Engine::kDve, tile.all(), 0x3F800000);
  program.loop(kRounds, [&] {
    program.activate(tile.all(), NEURON_ACT_TANH, tile.all());
    program.tensor_tensor(Engine::kDve, tile.all(), tile.all(), NEURON_ALU_ADD, tile.all());
  });
  program.dma(Engine::kSp, y.all(), tile.all());
  return built(program);
}

// Copies 2^20 elements of each of 128 partitions one by one, because each is written where the next
// one is read.
File instruction() {
  Program program("instruction");
  const auto y = program.output("y", NEURON_DTYPE_F32, {kPartitions, kColumns});
  const auto tile = program.sbuf("tile", kPartitions, kColumns, NEURON_DTYPE_F32);
  program.memset(Engine::kDve, tile.all(), 0x3F800000);
  const auto side = [&](std::vector<uint16_t> sizes, std::vector<int16_t> steps) {
    neuron::isa::Operand operand;
    operand.space = NEURON_SPACE_SBUF;
    operand.parts = kPartitions;
    operand.dtype = NEURON_DTYPE_F32;
    operand.ndim = static_cast<uint8_t>(sizes.size());
    for (size_t d = 0; d < sizes.size(); ++d) {
      operand.size[d] = sizes[d];
      operand.step[d] = steps[d];
    }
    return operand;
  };
  neuron::isa::Instruction copy;
  copy.opcode = NEURON_OP_TENSOR_COPY;
  copy.src0 = side({1024, 1024}, {0, 0});
  copy.dst = side({2, 1024, 512}, {1, 0, 0});
  for (int i = 0; i < 600; ++i) program.raw(Engine::kDve, copy);
  program.dma(Engine::kSp, y.all(), tile.all());
  return built(program);
}

File weights() {
  Program program("weights");
  const auto y = program.output("y", NEURON_DTYPE_U8, {kWeights});
  const auto w =
      program.constant("w", NEURON_DTYPE_U8, {kWeights}, std::vector<uint8_t>(kWeights, 7));
  program.dma(Engine::kSp, y.all(), w.all());
  return built(program);
}

File collective() {
  Program program("collective");
  const auto y = program.output("y", NEURON_DTYPE_F32, {kNumbers});
  const auto from = program.temporary("from", NEURON_DTYPE_F32, {kNumbers});
  const auto to = program.temporary("to", NEURON_DTYPE_F32, {kNumbers});
  const auto zero = program.constant("zero", NEURON_DTYPE_F32, {kNumbers}, File(kNumbers * 4));
  program.dma(Engine::kSp, from.all(), zero.all());
  program.collective(Engine::kPool, CCOM_ALL_REDUCE, to, from, {});
  program.dma(Engine::kSp, y.all(), to.all());
  return built(program);
}

NRT_STATUS execute_for_ever(nrt_model_t* model, uint64_t output_bytes, bool first) {
  nrt_tensor_set_t *inputs = nullptr, *outputs = nullptr;
  nrt_tensor_t* y = nullptr;
  NRT_STATUS status = nrt_allocate_tensor_set(&inputs);
  if (status == NRT_SUCCESS) status = nrt_allocate_tensor_set(&outputs);
  if (status == NRT_SUCCESS) {
    status = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, output_bytes, "y", &y);
  }
  if (status == NRT_SUCCESS) status = nrt_add_tensor_to_tensor_set(outputs, "y", y);
  // With peers, once all of them are there.
  if (status == NRT_SUCCESS && first) status = nrt_execute(model, inputs, outputs);
  if (status == NRT_SUCCESS) say("begun");
  while (status == NRT_SUCCESS) status = nrt_execute(model, inputs, outputs);
  return status;
}

NRT_STATUS load_for_ever(const File& file) {
  say("begun");
  NRT_STATUS status = NRT_SUCCESS;
  while (status == NRT_SUCCESS) {
    nrt_model_t* model = nullptr;
    status = nrt_load(file.data(), file.size(), 0, 1, &model);
    if (status == NRT_SUCCESS) status = nrt_unload(model);
  }
  return status;
}

NRT_STATUS work(const std::string& kind, uint32_t rank, uint32_t ranks) {
  nrt_model_t* model = nullptr;
  if (kind == "load") return load_for_ever(weights());
  if (kind == "collective") {
    const File file = collective();
    const NRT_STATUS status =
        nrt_load_collectives(file.data(), file.size(), 0, 1, rank, ranks, &model);
    return status == NRT_SUCCESS ? execute_for_ever(model, kNumbers * 4, true) : status;
  }
  const File file = kind == "compute" ? compute() : instruction();
  const NRT_STATUS status = nrt_load(file.data(), file.size(), 0, 1, &model);
  return status == NRT_SUCCESS ? execute_for_ever(model, kPartitions * kColumns * 4, false)
                               : status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) return 2;
  const auto number = [&](int at) {
    return argc == 4 ? static_cast<uint32_t>(std::atoi(argv[at])) : at - 2U;
  };
  NRT_STATUS status = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
  if (status == NRT_SUCCESS) status = work(argv[1], number(2), number(3));
  say(std::string("failed ") + nrt_open_last_error());
  return 1;
}
