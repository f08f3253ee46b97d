// SPDX-License-Identifier: Apache-2.0
// Calls of custom operators in device memory: what is accepted, and which byte is named of what is
// not.
#include "driver/emulator/neuroncore/operators/operator_call.h"

#include <cstddef>
#include <functional>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"

namespace neuron::core {
namespace {

class OperatorCallTest : public CoreMachine {
 protected:
  // relu of [2, 3] floats.
  static neuron_operator_description sample() {
    neuron_operator_description d{};
    d.magic = NEURON_OPERATOR_MAGIC;
    d.version = NEURON_OPERATOR_VERSION;
    d.arguments = 3;
    d.image_bytes = 100;
    std::memcpy(d.name, "relu", 4);
    for (const unsigned tensor : {0u, 2u}) {
      d.argument[tensor].kind = NEURON_OPERATOR_TENSOR;
      d.argument[tensor].dtype = NEURON_DTYPE_F32;
      d.argument[tensor].dimensions = 2;
      d.argument[tensor].size[0] = 2;
      d.argument[tensor].size[1] = 3;
    }
    d.argument[1].kind = NEURON_OPERATOR_DOUBLE;
    return d;
  }
};

TEST_F(OperatorCallTest, OfADeviceThatAllowsNoneIsAFaultOfPoolBeforeAnythingIsRead) {
  Instruction call = inst(NEURON_OP_CUSTOM_OPERATOR);
  call.address.addr = 0x7000'0000'0000;
  call.address.count = 1;
  load_and_run(NEURON_ENGINE_POOL, {call, inst(NEURON_OP_HALT)});
  EXPECT_EQ(fault(NEURON_ENGINE_POOL), NEURON_FAULT_CUSTOM_OPERATOR);
}

// The same reads without a process: from the chip's bus.
class CallReader : public chip::BusTarget {
 public:
  explicit CallReader(std::vector<std::byte>& bytes) : bytes_(bytes) {}
  bool read(uint64_t offset, std::span<std::byte> out, const chip::Access&) override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) return false;
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return true;
  }
  bool write(uint64_t, std::span<const std::byte>, const chip::Access&) override { return false; }

 private:
  std::vector<std::byte>& bytes_;
};

class OperatorCalls : public OperatorCallTest {
 protected:
  OperatorCalls() : memory_(1 << 16), target_(memory_) {
    bus_.attach(0, memory_.size(), &target_, "memory");
    bus_.seal();
  }
  Fault read(const neuron_operator_description& d, OperatorCall& call) {
    const uint64_t table[] = {0x1000, 0x8000, 0x100, 0x200};
    std::memcpy(memory_.data(), table, sizeof(table));
    std::memcpy(memory_.data() + 0x1000, &d, sizeof(d));
    return call.read(bus_, {}, 0);
  }
  // The byte that is named of a description that has been changed.
  uint32_t refused(const std::function<void(neuron_operator_description&)>& change) {
    neuron_operator_description d = sample();
    change(d);
    OperatorCall call;
    const Fault fault = read(d, call);
    EXPECT_EQ(fault.code, NEURON_FAULT_CUSTOM_OPERATOR);
    EXPECT_EQ(fault.detail, uint32_t{NEURON_OPERATOR_DESCRIPTION});
    return fault.info;
  }
  static uint32_t argument(unsigned number) {
    return static_cast<uint32_t>(offsetof(neuron_operator_description, argument) +
                                 number * sizeof(neuron_operator_argument));
  }

  std::vector<std::byte> memory_;
  CallReader target_;
  chip::Bus bus_;
};

TEST_F(OperatorCalls, HaveTheirTensorsInOrder) {
  OperatorCall call;
  ASSERT_FALSE(read(sample(), call));
  ASSERT_EQ(call.inputs().size(), 1u);
  EXPECT_EQ(call.inputs()[0].address, 0x100u);
  EXPECT_EQ(call.inputs()[0].bytes, 24u);
  EXPECT_EQ(call.output().address, 0x200u);
  EXPECT_EQ(call.output().argument, 2u);
  EXPECT_EQ(call.image(), 0x8000u);
  EXPECT_EQ(call.cores(), 1u);
}

TEST_F(OperatorCalls, AreRefusedWithTheByteThatIsWrong) {
  using D = neuron_operator_description;
  EXPECT_EQ(refused([](D& d) { d.magic = 7; }), 0u);
  EXPECT_EQ(refused([](D& d) { d.version = 2; }), 4u);
  EXPECT_EQ(refused([](D& d) { d.flags = 2; }), 8u);
  EXPECT_EQ(refused([](D& d) { d.arguments = 0; }), 12u);
  EXPECT_EQ(refused([](D& d) { d.arguments = 17; }), 12u);
  EXPECT_EQ(refused([](D& d) { d.image_bytes = 0; }), 16u);
  EXPECT_EQ(refused([](D& d) { d.image_bytes = NEURON_OPERATOR_IMAGE_MAX + 1ull; }), 16u);
  EXPECT_EQ(refused([](D& d) { d.zero = 1; }), 24u);
  EXPECT_EQ(refused([](D& d) { std::memset(d.name, 'x', sizeof(d.name)); }), 32u);
  EXPECT_EQ(refused([](D& d) { d.name[0] = 0; }), 32u);
  EXPECT_EQ(refused([](D& d) { d.argument[1].kind = 9; }), argument(1));
  EXPECT_EQ(refused([](D& d) { d.argument[0].offset = 1; }), argument(0));
  EXPECT_EQ(refused([](D& d) { d.argument[0].dtype = NEURON_DTYPE_NONE; }), argument(0));
  EXPECT_EQ(refused([](D& d) { d.argument[0].dimensions = 9; }), argument(0));
  EXPECT_EQ(refused([](D& d) { d.argument[0].size[0] = 0; }), argument(0));
  EXPECT_EQ(refused([](D& d) { d.argument[0].size[0] = 65536; }), argument(0));
  EXPECT_EQ(refused([](D& d) { d.argument[0].size[0] = d.argument[0].size[1] = 65535; }),
            argument(0));
  EXPECT_EQ(refused([](D& d) { d.argument[2].kind = NEURON_OPERATOR_DOUBLE; }), argument(2));
}

TEST_F(OperatorCalls, WhereNoMemoryAnswersAreABusFault) {
  OperatorCall call;
  EXPECT_EQ(call.read(bus_, {}, 0x7000'0000'0000).code, NEURON_FAULT_BUS);
}

}  // namespace
}  // namespace neuron::core
