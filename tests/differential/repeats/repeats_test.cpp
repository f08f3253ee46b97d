// SPDX-License-Identifier: Apache-2.0
// Every kernel of build/neff on its chip, several times with strict mode on and as often with it
// off, the first half on an idle host, the second on one whose processors others keep busy: the
// same bits and the same model time.
//
// NEURON_TEST_RUNS says how often: 5 unless it is set, 100 at night.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <latch>
#include <optional>
#include <thread>

#include "runtime/neff/model.h"
#include "tests/differential/kernels/outcome.h"

namespace neuron::differential {
namespace {

size_t runs() {
  const char* text = std::getenv("NEURON_TEST_RUNS");
  return text != nullptr ? static_cast<size_t>(std::max(2, std::atoi(text))) : 5;
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
  bool operator==(const Execution&) const = default;
};

// The second half of the runs, which is less by one where they are odd, is on a loaded host.
std::vector<Execution> executions(const kernels::Neff& neff, unsigned generation,
                                  const neff::Model& file, bool strict) {
  std::vector<Execution> all;
  const Chip chip(generation, strict);
  DeviceModel model(neff, chip.ready());
  if (!model.usable()) return all;
  for (const auto& tensor : file.inputs) {
    const Bytes bytes = filled(tensor);
    model.write(tensor.name, bytes.data(), bytes.size());
  }
  std::optional<LoadedHost> others;
  while (all.size() < runs()) {
    if (all.size() == (runs() + 1) / 2) others.emplace();
    if (!model.execute()) return all;
    Bytes outputs;
    for (const auto& tensor : file.outputs) {
      const Bytes bytes = model.read(tensor.name);
      outputs.insert(outputs.end(), bytes.begin(), bytes.end());
    }
    all.push_back({hash_of(outputs), model.device_ps()});
  }
  return all;
}

TEST(Kernels, GiveTheSameFromRunToRunWithStrictModeOnAndOffOnAnIdleHostAndALoadedOne) {
  const std::string data = std::string(NEURON_SOURCE_DIR) + "/tools/compiler/kernels/digits";
  for (const std::string& name : kernels::names()) {
    SCOPED_TRACE(name);
    const auto neff = kernels::build(name, data);
    ASSERT_TRUE(neff) << neff.error().sentence;
    const uint8_t generation = kernels::generation_of(name);
    const auto container = neff::Container::open(*neff);
    ASSERT_TRUE(container) << container.error().sentence;
    const auto model = neff::load_model(*container, {generation, 1, false});
    ASSERT_TRUE(model) << model.error().sentence;
    const auto strict = executions(neff, generation, *model, true);
    ASSERT_EQ(strict.size(), runs());
    EXPECT_TRUE(strict == executions(neff, generation, *model, false)) << "strict mode off";
    // The first execution has also pointed the rings at the tensors. What rounds stochastically
    // draws new numbers in each.
    const bool draws = name.ends_with("_sr");
    EXPECT_EQ(strict[0].hash == strict[1].hash, !draws);
    for (size_t run = 2; run < strict.size(); ++run) {
      EXPECT_EQ(strict[run].device_ps, strict[1].device_ps) << "execution " << run;
      EXPECT_TRUE(draws || strict[run].hash == strict[1].hash) << "execution " << run;
    }
  }
}

}  // namespace
}  // namespace neuron::differential
