// SPDX-License-Identifier: Apache-2.0
// Every kernel of build/neff on its chip, a hundred times with strict mode on and a hundred with it
// off: the same bits and the same model time.
#include <gtest/gtest.h>

#include "runtime/neff/model.h"
#include "tests/differential/kernels/outcome.h"

namespace neuron::differential {
namespace {

constexpr int kHundred = 100;

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

TEST(Kernels, GiveTheSameAHundredTimesWithStrictModeOnAndOff) {
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
    Values inputs;
    for (const auto& tensor : model->inputs) inputs[tensor.name] = filled(tensor);
    std::vector<std::string> outputs;
    for (const auto& tensor : model->outputs) outputs.push_back(tensor.name);
    const Outcome outcome = outcome_of(neff, generation, inputs, outputs, kHundred);
    EXPECT_EQ(outcome.outputs.size(), outputs.size());
    EXPECT_GT(outcome.device_ps, 0U);
  }
}

}  // namespace
}  // namespace neuron::differential
