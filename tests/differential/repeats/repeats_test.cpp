// SPDX-License-Identifier: Apache-2.0
// Every kernel of build/neff on its chip, the large ones, programs of two cores and kernels written
// in NKI, several times with strict mode on and as often with it off, the first half on an idle
// host, the second on one whose processors others keep busy: the same bits, the same model time,
// and the same time and instructions of each engine.
//
// NEURON_TEST_RUNS says how often: 5 unless it is set, 100 at night. A large kernel takes seconds
// each time: unless it is set, two of them run, three times. Times are compared from the second
// execution on: of three the last runs on the loaded host, and those before it do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <latch>
#include <optional>
#include <thread>

#include "runtime/neff/model_reader.h"
#include "tests/differential/kernels/outcome.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/system/published/nki_programs.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::differential {
namespace {

size_t runs() {
  const char* text = std::getenv("NEURON_TEST_RUNS");
  return text != nullptr ? static_cast<size_t>(std::max(3, std::atoi(text))) : 5;
}

// Small numbers, or those of rows; the positions of a sparse matrix must differ in a column, so
// each of four rows has its own.
Bytes filled(const neff::TensorInfo& tensor) {
  Bytes bytes(tensor.size);
  constexpr size_t kPeriod = 17;
  const auto small = [](size_t i) { return static_cast<float>(i % kPeriod) * 0.0625F - 0.5F; };
  std::vector<float> values(tensor.size / (tensor.dtype == kBf16 ? 2 : 4));
  for (size_t i = 0; i < values.size(); ++i) values[i] = small(i);
  if (tensor.dtype == kBf16 || tensor.dtype == kF32) return bytes_of(tensor.dtype, values);
  if (tensor.dtype == NEURON_DTYPE_U32) {
    std::vector<uint32_t> numbers(tensor.size / 4);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<uint32_t>(i);
    return bytes_of(numbers);
  }
  std::vector<uint16_t> words(tensor.size / 2);
  const size_t row = tensor.shape.back();
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<uint16_t>(0x1111 * 4 * (i / row % 4));
  }
  return bytes_of(words);
}

// Keeps every processor busy while it lives, with one thread more than there are: the emulator's
// threads lose theirs at any moment and come back in another order.
class LoadedHost {
 public:
  LoadedHost() : begun_(threads_wanted() + 1) {
    for (ptrdiff_t t = 0; t < threads_wanted(); ++t) threads_.emplace_back([this] { work(); });
    begun_.arrive_and_wait();
  }
  ~LoadedHost() {
    done_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  LoadedHost(const LoadedHost&) = delete;
  LoadedHost& operator=(const LoadedHost&) = delete;

 private:
  static ptrdiff_t threads_wanted() {
    return std::max(1U, std::thread::hardware_concurrency()) + 1;
  }
  // Memory as well as arithmetic: what the emulator has in caches is driven out, too.
  void work() {
    std::vector<uint64_t> words(1 << 17, 1);
    begun_.arrive_and_wait();
    for (size_t i = 0; !done_.load(std::memory_order_relaxed); ++i) {
      words[i % words.size()] = words[i * 4099 % words.size()] * 6364136223846793005 + i;
    }
    result_.fetch_add(words[0], std::memory_order_relaxed);
  }

  std::latch begun_;
  std::atomic<bool> done_{false};
  std::atomic<uint64_t> result_{0};  // So that no compiler leaves the work out
  std::vector<std::thread> threads_;
};

struct Execution {
  uint64_t hash = 0, device_ps = 0;
  std::array<std::pair<uint64_t, uint64_t>, NRT_OPEN_ENGINES> engines{};  // busy, instructions
  bool operator==(const Execution&) const = default;
  bool same_times(const Execution& other) const {
    return device_ps == other.device_ps && engines == other.engines;
  }
};

// A file, and the device that it is for.
struct Case {
  std::string name;
  kernels::Neff neff;
  uint8_t generation = 2;
  uint32_t cores = 1;  // Physical ones of a logical core
  size_t runs = 0;
  bool draws = false;  // Rounds stochastically: draws new numbers in each execution
};

// The second half of the runs, which is less by one where they are odd, is on a loaded host.
std::vector<Execution> executions(const Case& of, const neff::Model& file, bool strict) {
  std::vector<Execution> all;
  const Chip chip(of.generation, strict, of.cores);
  DeviceModel model(of.neff, chip.ready());
  if (!model.usable()) return all;
  for (const auto& tensor : file.inputs) {
    const Bytes bytes = filled(tensor);
    model.write(tensor.name, bytes.data(), bytes.size());
  }
  std::optional<LoadedHost> others;
  while (all.size() < of.runs) {
    if (all.size() == (of.runs + 1) / 2) others.emplace();
    if (!model.execute()) return all;
    Bytes outputs;
    for (const auto& tensor : file.outputs) {
      const Bytes bytes = model.read(tensor.name);
      outputs.insert(outputs.end(), bytes.begin(), bytes.end());
    }
    const nrt_open_execution_report_t report = model.report();
    Execution& one = all.emplace_back(Execution{hash_of(outputs), report.device_ps});
    for (size_t engine = 0; engine < one.engines.size(); ++engine) {
      one.engines[engine] = {report.engines[engine].busy_ps, report.engines[engine].instructions};
    }
  }
  return all;
}

void expect_repeats(const Case& of) {
  SCOPED_TRACE(of.name);
  ASSERT_TRUE(of.neff) << of.neff.error().sentence;
  const auto container = neff::Container::open(*of.neff);
  ASSERT_TRUE(container) << container.error().sentence;
  const auto model = neff::load_model(*container, {of.generation, of.cores, false});
  ASSERT_TRUE(model) << model.error().sentence;
  const auto strict = executions(of, *model, true);
  ASSERT_EQ(strict.size(), of.runs);
  EXPECT_TRUE(strict == executions(of, *model, false)) << "strict mode off";
  uint64_t busy = 0;
  for (const auto& [time, instructions] : strict[0].engines) busy += time;
  EXPECT_GT(busy, 0U) << "no engine was busy";
  // The first execution has also pointed the rings at the tensors.
  if (of.runs > 1) {
    EXPECT_EQ(strict[0].hash == strict[1].hash, !of.draws);
  }
  for (size_t run = 2; run < strict.size(); ++run) {
    EXPECT_TRUE(strict[run].same_times(strict[1])) << "execution " << run;
    EXPECT_TRUE(of.draws || strict[run].hash == strict[1].hash) << "execution " << run;
  }
}

Case kernel(const std::string& name, size_t runs) {
  const std::string data = std::string(NEURON_SOURCE_DIR) + "/tools/compiler/kernels/digits";
  return {.name = name,
          .neff = kernels::build(name, data),
          .generation = kernels::generation_of(name),
          .runs = runs,
          .draws = name.ends_with("_sr")};
}

// Each of the two programs sends a tile to the other, meets it at a barrier, adds what it got to
// its own tile, and multiplies; three times.
kernels::Neff pair(uint8_t generation) {
  constexpr uint32_t kSide = 128, kWide = 256;
  using builder::Engine;
  builder::Program first("pair", generation), second("pair", generation);
  builder::Program* const programs[] = {&first, &second};
  for (size_t core = 0; core < 2; ++core) {
    builder::Program& program = *programs[core];
    const std::string number = std::to_string(core);
    const auto x = program.input("x" + number, kF32, {kSide, kWide});
    const auto y = program.output("y" + number, kF32, {kSide, kWide});
    const auto own = program.sbuf("own", kSide, kWide, kF32);
    const auto others = program.sbuf("others", kSide, kWide, kF32);
    const auto sum = program.psum("sum", kSide, kWide);
    program.dma(Engine::kSp, own.all(), x.all());
    for (int round = 0; round < 3; ++round) {
      program.send_receive(others.all(), own.all());
      program.core_barrier(Engine::kSp);
      program.tensor_tensor(Engine::kDve, own.all(), own.all(), NEURON_ALU_ADD, others.all());
      program.activate(others.all(), NEURON_ACT_TANH, own.all());
      program.matmul(sum.all(), others.column_range(0, kSide), own.all());
      program.tensor_scalar(Engine::kDve, own.all(), sum.all(), NEURON_ALU_MUL, 0.125F);
    }
    program.dma(Engine::kSp, y.all(), own.all());
  }
  first.physical_cores(2, &second);
  return first.build();
}

TEST(Kernels, GiveTheSameFromRunToRunWithStrictModeOnAndOffOnAnIdleHostAndALoadedOne) {
  for (const std::string& name : kernels::names()) expect_repeats(kernel(name, runs()));
}

TEST(LargeKernels, GiveTheSameFromRunToRunWithStrictModeOnAndOffOnAnIdleHostAndALoadedOne) {
  constexpr size_t kQuickRuns = 3;
  const bool night = std::getenv("NEURON_TEST_RUNS") != nullptr;
  const std::vector<std::string> quick = {"mamba_v1_4096", "mamba_v2_4096"};
  const std::vector<std::string> names = night ? kernels::large_names() : quick;
  for (const std::string& name : names) expect_repeats(kernel(name, night ? runs() : kQuickRuns));
}

TEST(TwoCorePrograms, GiveTheSameFromRunToRunWithStrictModeOnAndOffOnAnIdleHostAndALoadedOne) {
  for (const uint8_t generation : {3, 4}) {
    expect_repeats({.name = "pair of generation " + std::to_string(generation),
                    .neff = pair(generation),
                    .generation = generation,
                    .cores = 2,
                    .runs = runs()});
  }
}

TEST(NkiKernels, GiveTheSameFromRunToRunWithStrictModeOnAndOffOnAnIdleHostAndALoadedOne) {
  for (const uint8_t generation : {3, 4}) {
    for (const char* function : {"tiled", "hoisted"}) {
      expect_repeats(
          {.name = function + (" of generation " + std::to_string(generation)),
           .neff = published::nki_matmul(function, {"512x256:bfloat16", "512x1024:bfloat16"},
                                         generation == 3 ? "trn2" : "trn3"),
           .generation = generation,
           .cores = 2,
           .runs = runs()});
    }
  }
}

}  // namespace
}  // namespace neuron::differential
