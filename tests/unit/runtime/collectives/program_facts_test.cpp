// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/program_facts.h"

#include <gtest/gtest.h>

#include "hw/address_map.h"
#include "hw/isa.h"
#include "runtime/neff/model.h"

namespace neuron::runtime {
namespace {

class ProgramFacts : public ::testing::Test {
 protected:
  ProgramFacts() {
    members_[0].world = 4;
    members_[1].world = 9;
    for (uint32_t n = 0; n < 2; ++n) {
      collectives_[n].size = 2 - n;
      collectives_[n].members = members_ + n;
      collectives_[n].count = 100 + n;
      sizes_[n] = {.input = 10 + n, .output = 20 + n, .whole = 30 + n};
    }
    collectives_[0].operation = CCOM_ALL_REDUCE;
    collectives_[0].type = CCOM_FP32;
    collectives_[1].operation = CCOM_ALL_GATHER;
    collectives_[1].type = CCOM_BF16;
    for (uint32_t i = 0; i < 3; ++i) notes_[i].bytes = 1000 + i;
    for (uint32_t i = 0; i < 6; ++i) waits_[i].semaphore = i;
    stream_.cc_core = 0x5000000;
    stream_.count = 2;
    stream_.collectives = collectives_;
    program_.instructions = 3;
    program_.plan_count = 2;
    program_.plans = kPlans;
    program_.names = kNames;
    program_.algorithms = kAlgorithms;
    program_.sizes = sizes_;
  }
  StreamFacts facts() {
    StreamFacts begun;
    begun.stream = 1;
    begun.rank = 4;
    begun.prologue = 7;
    return with_program(begun, {3}, stream_, program_);
  }

  static constexpr const char* kPlans[] = {"a plan", "another"};
  static constexpr const char* kNames[] = {"the sum", "the rows"};
  static constexpr const char* kAlgorithms[] = {"ring", "mesh"};
  ccom_device_member_t members_[2]{};
  ccom_device_collective_t collectives_[2]{};
  ccom_device_size_t sizes_[2]{};
  ccom_device_note_t notes_[3]{};
  ccom_device_waiting_t waits_[6]{};
  ccom_device_stream_t stream_{};
  ccom_device_program_t program_{};
};

TEST_F(ProgramFacts, EachCollectiveOfTheStreamIsDescribed) {
  const StreamFacts found = facts();
  EXPECT_EQ(found.stream, 1u);
  EXPECT_EQ(found.rank, 4u);
  EXPECT_EQ(found.prologue, 7u);
  EXPECT_EQ(found.go, 0x5000000 + NEURON_CC_SEMAPHORES + NEURON_SEM_BLOCK_INC);
  ASSERT_EQ(found.collectives.size(), 2u);
  const CollectiveFacts& sum = found.collectives[0];
  EXPECT_EQ(sum.name, "the sum");
  EXPECT_EQ(sum.algorithm, "ring");
  EXPECT_EQ(sum.plan, "a plan");
  EXPECT_EQ(sum.operation, neff::collective_name(CCOM_ALL_REDUCE));
  EXPECT_EQ(sum.type, neff::collective_type_name(CCOM_FP32));
  EXPECT_EQ(sum.count, 100u);
  EXPECT_EQ(sum.ranks, (std::vector<uint32_t>{4, 9}));
  EXPECT_EQ(sum.group, 3u);
  EXPECT_EQ(sum.size.whole, 30u);
  const CollectiveFacts& rows = found.collectives[1];
  EXPECT_EQ(rows.name, "the rows");
  EXPECT_EQ(rows.count, 101u);
  EXPECT_EQ(rows.ranks, (std::vector<uint32_t>{9}));
  EXPECT_EQ(rows.group, 0u) << "the model names no group for it";
  EXPECT_EQ(rows.size.input, 11u);
}

TEST_F(ProgramFacts, ACollectiveWithoutAPlanIsLeftOut) {
  program_.plan_count = 1;
  EXPECT_EQ(facts().collectives.size(), 1u);
  program_.plan_count = 2;
  stream_.count = 1;
  EXPECT_EQ(facts().collectives.size(), 1u);
}

TEST_F(ProgramFacts, EachInstructionHasANoteAndTwoWaitsWhereTheLibraryTellsThem) {
  EXPECT_TRUE(facts().notes.empty());
  EXPECT_TRUE(facts().waits.empty());
  program_.notes = notes_;
  program_.waits = waits_;
  const StreamFacts found = facts();
  ASSERT_EQ(found.notes.size(), 3u);
  EXPECT_EQ(found.notes[2].bytes, 1002u);
  ASSERT_EQ(found.waits.size(), 6u);
  EXPECT_EQ(found.waits[5].semaphore, 5u);
}

}  // namespace
}  // namespace neuron::runtime
