// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/runtime/collectives/fake_ccom.h"
#include "tests/unit/runtime/loaded_sample.h"

namespace neuron::runtime {
namespace {

using test::FakeCcom;
using test::LoadedSample;
using test::Setting;

// The sample's temporary has 100 bytes.
constexpr uint32_t kTemporary = 2;

neff::Collective all_gather(uint64_t count, uint64_t input_offset, uint64_t output_offset) {
  neff::Collective c;
  c.operation = CCOM_ALL_GATHER;
  c.type = CCOM_FP32;
  c.count = count;
  c.input = c.output = kTemporary;
  c.input_offset = input_offset;
  c.output_offset = output_offset;
  return c;
}

class ConnectedModel : public ::testing::Test {
 protected:
  // The sample with one collective, and the world of it alone.
  std::string connect(const neff::Collective& c) {
    neff::Model model = test::sample_model();
    model.subgraphs[0].operations = {c};
    sample_.reset();  // The next machine is the only one then: the driver library asks the first.
    sample_ = std::make_unique<LoadedSample>(model);
    fake_->program.code = code_.data();
    fake_->program.instructions = 1;
    const auto world = World::join(*sample_->core, 0, 1, std::make_shared<Meeting>(1), "",
                                   std::chrono::seconds(5));
    const auto connected = connect_model(*sample_->loaded, *world);
    if (connected) return "connected";
    EXPECT_EQ(connected.error().status, NRT_INVALID);
    EXPECT_EQ(sample_->loaded->collectives(), nullptr);
    return connected.error().sentence;
  }

  const Setting emulator_{"NEURON_EMULATOR", nullptr};
  FakeCcom fake_;
  std::array<std::byte, NEURON_INSTRUCTION_BYTES> code_{};
  std::unique_ptr<LoadedSample> sample_;
};

TEST_F(ConnectedModel, HasItsCollectivesOnItsOwnVariables) {
  ASSERT_EQ(connect(all_gather(10, 4, 60)), "connected");
  EXPECT_NE(sample_->loaded->collectives(), nullptr);
  const uint64_t address = sample_->loaded->addresses()[kTemporary];
  const ccom_device_member_t& own = fake_->compiled.at(0).members[0][0];
  EXPECT_EQ(own.input, address + 4);
  EXPECT_EQ(own.output, address + 60);
}

TEST_F(ConnectedModel, ABarrierNeedsNoBuffer) {
  neff::Collective barrier;
  barrier.operation = CCOM_BARRIER;
  barrier.input = barrier.output = ~0u;
  EXPECT_EQ(connect(barrier), "connected");
}

TEST_F(ConnectedModel, BuffersFitTheirVariablesWithSoManyRanks) {
  EXPECT_EQ(connect(all_gather(10, 60, 60)), "connected") << "to the last byte";
  EXPECT_EQ(connect(all_gather(10, 64, 0)),
            "all_gather of 1 ranks: 40 bytes at 64 of \"input\", which has 100; load "
            "it with the number of ranks that it was built for");
  EXPECT_EQ(connect(all_gather(10, 0, 64)),
            "all_gather of 1 ranks: 40 bytes at 64 of \"output\", which has 100; load it with the "
            "number of ranks that it was built for");
}

TEST_F(ConnectedModel, AGroupHasItsOwnNumberOfRanks) {
  neff::Collective c = all_gather(10, 0, 40);
  c.groups = {{0, 1}};
  EXPECT_EQ(connect(c),
            "all_gather of 1 ranks: 80 bytes at 40 of \"output\", which has 100; load it with the "
            "number of ranks that it was built for");
}

TEST_F(ConnectedModel, WhatCannotBeConnectedIsToldWithTheNameOfTheModel) {
  fake_->compile_result = CCOM_INVALID;
  fake_->device_error = "no";
  EXPECT_EQ(connect(all_gather(10, 0, 40)), "collectives of model 'sample': stream 0: no");
}

}  // namespace
}  // namespace neuron::runtime
