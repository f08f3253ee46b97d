// SPDX-License-Identifier: Apache-2.0
// Products and sums with a number for each channel, one after another, as batch norms, learned
// scales and hard swishes make them: pairs are one instruction, with the values of the reference
// and the same bits as one by one.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/system/onnx/device_test.h"
#include "tests/unit/tools/compiler/onnx/model_writer.h"

namespace neuron::compile {
namespace {

class Chain {
 public:
  Chain(const graph::Shape& shape, uint32_t seed) : channels_(shape[1]), seed_(seed) {
    writer_.input("x", shape);
  }

  // With a number for each channel.
  void with_channels(const std::string& type, bool number_first = false) {
    const std::string name = "channels" + std::to_string(count_);
    writer_.constant(name, {channels_, 1, 1},
                     seeded_numbers(static_cast<size_t>(channels_), 2, seed_ + count_));
    two(type, name, number_first);
  }
  void with_number(const std::string& type, float number, bool number_first = false) {
    const std::string name = "number" + std::to_string(count_);
    writer_.constant(name, {}, {number});
    two(type, name, number_first);
  }
  void alone(const std::string& type) { node(type, {last_}); }
  // With an earlier value, x among them.
  void with(const std::string& type, const std::string& other, bool first = false) {
    two(type, other, first);
  }
  std::string last() const { return last_; }
  std::vector<uint8_t> bytes() {
    writer_.node("Identity", {last_}, {"y"});
    writer_.output("y");
    return writer_.bytes();
  }

 private:
  void two(const std::string& type, const std::string& other, bool first) {
    node(type, first ? std::vector{other, last_} : std::vector{last_, other});
  }
  void node(const std::string& type, const std::vector<std::string>& operands) {
    const std::string name = "value" + std::to_string(count_++);
    writer_.node(type, operands, {name});
    last_ = name;
  }

  onnx::ModelWriter writer_;
  const int64_t channels_;
  const uint32_t seed_;
  uint32_t count_ = 0;
  std::string last_ = "x";
};

// a * x + b, its hard swish, and c * that + d.
std::vector<uint8_t> hard_swish(const graph::Shape& shape) {
  Chain chain(shape, 3);
  chain.with_channels("Mul");
  chain.with_channels("Add");
  const std::string inner = chain.last();
  chain.with_number("Add", 3);
  chain.with_number("Max", 0);
  chain.with_number("Min", 6);
  chain.with("Mul", inner);
  chain.with_number("Div", 6);
  chain.with_channels("Mul");
  chain.with_channels("Add");
  return chain.bytes();
}

std::vector<uint8_t> random_chain(const graph::Shape& shape, std::mt19937& random) {
  Chain chain(shape, static_cast<uint32_t>(random()));
  const char* arithmetic[] = {"Add", "Sub", "Mul", "Max", "Min"};
  const char* functions[] = {"Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Erf", "Softplus"};
  std::vector<std::string> values = {"x"};
  for (int step = 0; step < 14; ++step) {
    const char* type = arithmetic[random() % 5];
    const bool first = random() % 2 == 0;
    switch (random() % 5) {
      case 0:
        chain.with_number(type, static_cast<float>(static_cast<int>(random() % 9) - 4) / 2, first);
        break;
      case 1:
        chain.with(type, values[random() % values.size()], first);
        break;
      case 2:
        chain.alone(functions[random() % 7]);
        break;
      default:
        chain.with_channels(type, first);
        break;
    }
    values.push_back(chain.last());
  }
  return chain.bytes();
}

class AffineMaps : public DeviceTest {};

TEST_F(AffineMaps, OfAHardSwishBetweenScalesTakeNoLongerThanTheirBound) {
  double us = 0;
  const graph::Shape shape = {1, 128, 40, 80};
  // One by one, with their numbers laid out for all elements, they took 283 us.
  expect_reference_and_equal_bits(hard_swish(shape), shape, {1e-6, 0, 1e-6}, us);
  EXPECT_LE(us, 32);
}

// The last map writes to its value's place, which the step that waits for it must not take.
TEST_F(AffineMaps, BeforeEveryFunctionHaveTheReferencesValuesAndTheSameBitsAtEveryLevel) {
  for (const char* function :
       {"Abs", "Neg", "Exp", "Tanh", "Erf", "Sigmoid", "Softplus", "Relu", "Floor"}) {
    for (const char* before : {"Mul", "Add", "Sub", "Max"}) {
      for (const bool each : {true, false}) {
        SCOPED_TRACE(testing::Message() << function << " of " << before << (each ? "" : " 0.75"));
        const graph::Shape shape = {1, 64, 12, 10};
        Chain chain(shape, 3);
        each ? chain.with_channels(before) : chain.with_number(before, 0.75F);
        chain.alone(function);
        chain.alone("GlobalAveragePool");  // no map: the one before it stays in SBUF
        double us = 0;
        expect_reference_and_equal_bits(chain.bytes(), shape, {1e-5, 1e-4, 1e-4}, us);
      }
    }
  }
}

TEST_F(AffineMaps, InRandomOrderHaveTheReferencesValuesAndTheSameBitsAtEveryLevel) {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    const graph::Shape shape = {
        1 + static_cast<int64_t>(random() % 2), 1 + static_cast<int64_t>(random() % 140),
        1 + static_cast<int64_t>(random() % 30), 1 + static_cast<int64_t>(random() % 30)};
    double us = 0;
    expect_reference_and_equal_bits(random_chain(shape, random), shape, {1e-5, 1e-4, 1e-4}, us);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace neuron::compile
