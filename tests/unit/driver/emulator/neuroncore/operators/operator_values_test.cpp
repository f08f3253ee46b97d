// SPDX-License-Identifier: Apache-2.0
// custom_operator on a core of each generation: from the call table in device memory through the
// operator's process to the values of its output. What compiled operators compute is in
// tests/system/api/custom_operator_test.cpp.
#include "tests/support/setting.h"
#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/operators/operator_programs.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

constexpr uint8_t kWords = 100;
constexpr uint64_t kTable = kData, kDescription = kData + 0x1000, kImage = kData + 0x10000,
                   kInput = kData + 0x3000, kOutput = kData + 0x4000;

class CustomOperatorCalls : public EveryGeneration {
 protected:
  void SetUp() override {
    EveryGeneration::SetUp();
    neuron_operator_description d{};
    d.magic = NEURON_OPERATOR_MAGIC;
    d.version = NEURON_OPERATOR_VERSION;
    d.arguments = 2;
    const std::vector<uint8_t> image = program_of(three_times_and_five(kWords));
    d.image_bytes = image.size();
    std::memcpy(d.name, "affine", 6);
    for (unsigned tensor = 0; tensor < 2; ++tensor) {
      d.argument[tensor].kind = NEURON_OPERATOR_TENSOR;
      d.argument[tensor].dtype = NEURON_DTYPE_I32;
      d.argument[tensor].dimensions = 2;
      d.argument[tensor].size[0] = 4;
      d.argument[tensor].size[1] = kWords / 4;
    }
    const uint64_t table[] = {kDescription, kImage, kInput, kOutput};
    std::memcpy(memory(kTable, sizeof(table)), table, sizeof(table));
    std::memcpy(memory(kDescription, sizeof(d)), &d, sizeof(d));
    std::memcpy(memory(kImage, image.size()), image.data(), image.size());
    for (uint32_t n = 0; n < kWords + 1u; ++n) {
      put_word(kInput + 4 * n, n * n - 50);
      put_word(kOutput + 4 * n, 0xDEAD);
    }
  }
  void put_word(uint64_t at, uint32_t value) { std::memcpy(memory(at, 4), &value, 4); }
  static Instruction call() {
    Instruction i = inst(NEURON_OP_CUSTOM_OPERATOR);
    i.address = {kTable, 0, 1};
    return i;
  }

 private:
  test::Setting allowed_{"NEURON_EMULATOR_CUSTOM_OPERATORS", "1"};
};

INSTANTIATE_TEST_SUITE_P(Generations, CustomOperatorCalls, kGenerations);

TEST_P(CustomOperatorCalls, ComputeFromTheTensorThatTheirTableNames) {
  load_and_run(kPool, {call(), inst(NEURON_OP_HALT)});
  ASSERT_EQ(state(kPool), NEURON_STATE_HALTED) << isa::fault_name(fault(kPool)) << "\n"
                                               << chip_->describe_core(0);
  for (uint32_t n = 0; n < kWords; ++n) EXPECT_EQ(word(kOutput + 4 * n), 3 * (n * n - 50) + 5) << n;
  EXPECT_EQ(word(kOutput + 4 * kWords), 0xDEADU) << "behind the tensor";
}

// A register moves the table; the second call works on what the first one has written.
TEST_P(CustomOperatorCalls, FollowATableThatARegisterMoves) {
  const uint64_t moved[] = {kDescription, kImage, kOutput, kInput};
  std::memcpy(memory(kTable + 0x200, sizeof(moved)), moved, sizeof(moved));
  Instruction second = call();
  second.bind[0] = {1, NEURON_BIND_BASE, 0, NEURON_BIND_ADD};
  load_and_run(kPool, {mov(1, 0x200), call(), second, inst(NEURON_OP_HALT)});
  ASSERT_EQ(state(kPool), NEURON_STATE_HALTED) << isa::fault_name(fault(kPool)) << "\n"
                                               << chip_->describe_core(0);
  for (uint32_t n = 0; n < kWords; ++n) {
    EXPECT_EQ(word(kInput + 4 * n), 3 * (3 * (n * n - 50) + 5) + 5) << n;
  }
}

}  // namespace
}  // namespace neuron::core
