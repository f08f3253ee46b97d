// SPDX-License-Identifier: Apache-2.0
// multi-rank RANK RANKS: a rank in a process of its own, told by lines on stdin what to do.
//
//   load good   loads an all-reduce of 64 numbers; answers ready
//   load bad    the same with an instruction before it that fails
//   load second loads another all-reduce, beside the first
//   run         executes on numbers of its rank; answers "sum" and the sum, if all are the same
//   run N       the same on N times these numbers
//   second N    executes what "load second" has loaded, on N times these numbers
//   time        executes on made-up numbers; answers "time" and its model time in picoseconds
//   bits        executes on made-up numbers of its rank; answers "bits" and a hash of the result
//   plan        answers "plan" and how the all-reduce was planned
//   unload      answers ready
//   exit        ends with status 0 and closes nothing
// Each answer is a line; "ready" is said first. A failure is "failed" and the sentence.
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_open.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tools/compiler/program_builder/program.h"

namespace {

using neuron::builder::Engine;
using neuron::builder::Program;

constexpr size_t kNumbers = 64;
constexpr size_t kBytes = kNumbers * sizeof(float);

bool say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  return std::fflush(stdout) == 0;
}

bool say_result(NRT_STATUS status) {
  return say(status == NRT_SUCCESS ? "ready" : std::string("failed ") + nrt_open_last_error());
}

std::vector<uint8_t> program(bool good) {
  Program program(good ? "good" : "bad");
  const auto x = program.input("x", NEURON_DTYPE_F32, {kNumbers});
  const auto y = program.output("y", NEURON_DTYPE_F32, {kNumbers});
  const auto from = program.temporary("from", NEURON_DTYPE_F32, {kNumbers});
  const auto to = program.temporary("to", NEURON_DTYPE_F32, {kNumbers});
  if (!good) {
    const auto tile = program.sbuf("tile", 1, kNumbers, NEURON_DTYPE_F32);
    program.dma(Engine::kSp, from.all(), tile.all());  // which nothing has written
  }
  program.dma(Engine::kSp, from.all(), x.all());
  program.collective(Engine::kPool, CCOM_ALL_REDUCE, to, from, {});
  program.dma(Engine::kSp, y.all(), to.all());
  const auto neff = program.build();
  return neff ? std::vector<uint8_t>(neff->begin(), neff->end()) : std::vector<uint8_t>{};
}

class Rank {
 public:
  Rank(uint32_t rank, uint32_t ranks) : rank_(rank), ranks_(ranks) {
    nrt_allocate_tensor_set(&inputs_);
    nrt_allocate_tensor_set(&outputs_);
    nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, kBytes, "x", &x_);
    nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, kBytes, "y", &y_);
    nrt_add_tensor_to_tensor_set(inputs_, "x", x_);
    nrt_add_tensor_to_tensor_set(outputs_, "y", y_);
  }
  ~Rank() {
    unload();
    nrt_destroy_tensor_set(&inputs_);
    nrt_destroy_tensor_set(&outputs_);
    nrt_tensor_free(&x_);
    nrt_tensor_free(&y_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  bool load(bool good, bool second = false) {
    const auto neff = program(good);
    nrt_model_t** into = second ? &second_ : &model_;
    return say_result(nrt_load_collectives(neff.data(), neff.size(), 0, 1, rank_, ranks_, into));
  }
  NRT_STATUS unload() {
    NRT_STATUS status = NRT_SUCCESS;
    for (nrt_model_t** model : {&second_, &model_}) {
      if (*model != nullptr) status = std::max(status, nrt_unload(*model));
      *model = nullptr;
    }
    return status;
  }
  NRT_STATUS execute(std::vector<float>& values, bool second = false) {
    NRT_STATUS status = nrt_tensor_write(x_, values.data(), 0, kBytes);
    if (status == NRT_SUCCESS) status = nrt_execute(second ? second_ : model_, inputs_, outputs_);
    if (status == NRT_SUCCESS) status = nrt_tensor_read(y_, values.data(), 0, kBytes);
    return status;
  }
  std::vector<float> made_up() const {
    std::mt19937 random(rank_);
    std::vector<float> values(kNumbers);
    for (float& value : values) value = static_cast<float>(random()) * 1e-9f;
    return values;
  }
  bool time() {
    std::vector<float> values = made_up();
    nrt_open_execution_report_t report{};
    report.size = sizeof(report);
    NRT_STATUS status = execute(values);
    if (status == NRT_SUCCESS) status = nrt_open_get_execution_report(model_, &report);
    return status == NRT_SUCCESS ? say("time " + std::to_string(report.device_ps))
                                 : say_result(status);
  }
  bool bits() {
    std::vector<float> values = made_up();
    if (const NRT_STATUS status = execute(values)) return say_result(status);
    uint64_t hash = 0xcbf29ce484222325u;
    for (const float value : values) {
      hash = (hash ^ std::bit_cast<uint32_t>(value)) * 0x100000001b3u;
    }
    return say("bits " + std::to_string(hash));
  }
  bool plan() {
    char text[1024] = {};
    const NRT_STATUS status = nrt_open_get_collective_plans(model_, text, sizeof(text));
    std::string line = std::string("plan ") + text;
    while (!line.empty() && line.back() == '\n') line.pop_back();
    return status == NRT_SUCCESS ? say(line) : say_result(status);
  }
  bool run(bool second, unsigned times) {
    std::vector<float> values(kNumbers, static_cast<float>((rank_ + 1) * times));
    if (const NRT_STATUS status = execute(values, second)) return say_result(status);
    const bool same = std::count(values.begin(), values.end(), values[0]) == kNumbers;
    return say(same ? "sum " + std::to_string(static_cast<int>(values[0])) : "failed: they differ");
  }

 private:
  const uint32_t rank_, ranks_;
  nrt_model_t *model_ = nullptr, *second_ = nullptr;
  nrt_tensor_set_t *inputs_ = nullptr, *outputs_ = nullptr;
  nrt_tensor_t *x_ = nullptr, *y_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (const NRT_STATUS status = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "")) {
    say_result(status);
    return 1;
  }
  {
    Rank rank(static_cast<uint32_t>(std::atoi(argv[1])), static_cast<uint32_t>(std::atoi(argv[2])));
    say("ready");
    char line[64];
    while (std::fgets(line, sizeof(line), stdin) != nullptr) {
      const std::string command = line;
      if (command == "load good\n" || command == "load bad\n") {
        rank.load(command == "load good\n");
      } else if (command == "load second\n") {
        rank.load(true, true);
      } else if (unsigned times = 0; command == "run\n") {
        rank.run(false, 1);
      } else if (std::sscanf(line, "run %u", &times) == 1) {
        rank.run(false, times);
      } else if (std::sscanf(line, "second %u", &times) == 1) {
        rank.run(true, times);
      } else if (command == "time\n") {
        rank.time();
      } else if (command == "bits\n") {
        rank.bits();
      } else if (command == "plan\n") {
        rank.plan();
      } else if (command == "exit\n") {
        std::exit(0);
      } else if (command == "unload\n") {
        say_result(rank.unload());
      } else {
        say("failed: unknown command");
      }
    }
  }
  nrt_close();
  return 0;
}
