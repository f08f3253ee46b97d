// SPDX-License-Identifier: Apache-2.0
// The calls of ccom_device.h: programs of a stream of collectives for the cores of one chip.
#include <ccom/ccom_device.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "hw/address_map.h"

namespace {

// An all-reduce of two cores of one chip of generation 2.
class TwoCores : public testing::Test {
 protected:
  TwoCores() {
    for (uint32_t core = 0; core < 2; ++core) {
      const uint64_t memory = core << 20;
      members_[core] = {.world = core,
                        .core = core,
                        .cc_core = NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_TOPSP_WINDOW(core * 3),
                        .input = memory + 0x1000,
                        .output = memory + 0x40000,
                        .scratch = memory + 0x80000};
    }
    reduce_.operation = CCOM_ALL_REDUCE;
    reduce_.type = CCOM_FP32;
    reduce_.reduction = CCOM_ADD;
    reduce_.algorithm = CCOM_ALGORITHM_AUTO;
    reduce_.size = 2;
    reduce_.count = 4096;
    reduce_.members = members_.data();
    reduce_.done[0] = 0x200;
    reduce_.done_value[0] = 1;
    stream_ = {sizeof stream_,
               sizeof reduce_,
               sizeof(ccom_device_program_t),
               2,
               0,
               0,
               0x40000,
               members_[0].cc_core,
               0x7000000000,
               0x7000001000,
               0x100,
               0xFFFF,
               1,
               &reduce_};
  }
  std::array<ccom_device_member_t, 2> members_ = {};
  ccom_device_collective_t reduce_ = {};
  ccom_device_stream_t stream_ = {};
  uint32_t messages_ = 0;
};

TEST_F(TwoCores, FreeingAProgramGivesItsMemoryBack) {
  const auto compile_and_free = [&] {
    std::array<char, 512> error = {};
    const ccom_device_program_t* program = nullptr;
    ASSERT_EQ(ccom_device_compile(&stream_, &program, error.data(), error.size()), CCOM_SUCCESS)
        << error.data();
    ASSERT_GT(program->instructions, 0u);
    ccom_device_free(program);
  };
  compile_and_free();  // what is allocated once
  const size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 100; ++i) compile_and_free();
  // A program has kilobytes of instructions and descriptors.
  EXPECT_LT(mallinfo2().uordblks, before + 64 * 1024);
}

// What one member plans must be what the others plan, so each says it in the same words.
TEST_F(TwoCores, ThePlanOfACollectiveTellsAllThatDecidesAboutThePrograms) {
  const auto plan = [&](uint32_t rank) {
    reduce_.rank = rank;
    stream_.core = rank;
    stream_.cc_core = members_[rank].cc_core;
    std::array<char, 512> error = {};
    const ccom_device_program_t* program = nullptr;
    EXPECT_EQ(ccom_device_compile(&stream_, &program, error.data(), error.size()), CCOM_SUCCESS)
        << error.data();
    if (program == nullptr) return std::string();
    EXPECT_EQ(program->plan_count, 1u);
    const std::string text = program->plan_count == 1 ? program->plans[0] : "";
    ccom_device_free(program);
    return text;
  };
  const std::string usual = plan(0);
  EXPECT_EQ(usual.substr(0, usual.find(" (request")),
            "all_reduce of 4096 fp32 (add) by mesh with 1 channels, 1 segments, chunks of 0 B, "
            "window 4");
  EXPECT_EQ(plan(1), usual) << "on every member";
  setenv("CCOM_ALGORITHM", "ring", 1);
  const std::string by_ring = plan(1);
  unsetenv("CCOM_ALGORITHM");
  EXPECT_NE(by_ring.find(" by ring with "), std::string::npos) << by_ring;
  std::swap(members_[0].world, members_[1].world);
  EXPECT_NE(plan(0), usual) << "in another order of the members";
  std::swap(members_[0].world, members_[1].world);
  members_[1].output = members_[1].input;
  EXPECT_EQ(plan(0), usual);
  EXPECT_NE(plan(1), usual) << "one is in place, and the other is not";
  reduce_.operation = CCOM_BROADCAST;
  EXPECT_EQ(plan(1), plan(0)) << "where it does not matter";
}

TEST_F(TwoCores, ThePlanTellsWhatLeadsFromOneNodeOfTheMembersToAnother) {
  const auto plan = [&] {
    std::array<char, 512> error = {};
    const ccom_device_program_t* program = nullptr;
    EXPECT_EQ(ccom_device_compile(&stream_, &program, error.data(), error.size()), CCOM_SUCCESS)
        << error.data();
    const std::string text = program == nullptr ? "" : program->plans[0];
    if (program != nullptr) messages_ = program->message_count;
    ccom_device_free(program);
    return text;
  };
  stream_.generation = 3;
  EXPECT_EQ(plan().find("between"), std::string::npos);
  members_[0].credit = 1;
  members_[1].node = 1;
  members_[1].credit = 2;
  EXPECT_NE(plan().find(", between nodes by NeuronLink (request "), std::string::npos) << plan();
  EXPECT_EQ(messages_, 0u) << "the network has nothing to carry";
  members_[1].instance = 1;
  EXPECT_NE(plan().find(", between instances over the network (request "), std::string::npos)
      << plan();
  EXPECT_GT(messages_, 0u);
}

// On one chip there are no instances to sum up first, unless ranks are grouped.
TEST_F(TwoCores, AGroupingLetsRanksOfOneInstanceBePlannedAsThoseOfSeveral) {
  std::array<char, 512> error = {};
  const auto compile = [&](const char* grouping) {
    setenv("CCOM_ALGORITHM", "all_reduce=hierarchical", 1);
    setenv("CCOM_GROUPING", grouping, 1);
    const ccom_device_program_t* program = nullptr;
    error = {};
    const auto result = ccom_device_compile(&stream_, &program, error.data(), error.size());
    unsetenv("CCOM_GROUPING");
    unsetenv("CCOM_ALGORITHM");
    std::string plan;
    if (program != nullptr) plan = program->plans[0];
    ccom_device_free(program);
    return std::pair(result, plan);
  };
  EXPECT_EQ(compile("").first, CCOM_UNSUPPORTED);
  const auto [result, plan] = compile("1");
  EXPECT_EQ(result, CCOM_SUCCESS) << error.data();
  EXPECT_NE(plan.find(" by hierarchical with "), std::string::npos) << plan;
  EXPECT_NE(plan.find(", in groups of 1 ranks"), std::string::npos) << plan;
  for (const char* wrong : {"0", "-1", "two", "2 ", "99999999999"}) {
    EXPECT_EQ(compile(wrong).first, CCOM_INVALID) << wrong;
    EXPECT_NE(std::string(error.data())
                  .find(std::string("CCOM_GROUPING is \"") + wrong +
                        "\"; expected a number of ranks, for example 32"),
              std::string::npos)
        << error.data();
  }
}

// What a profile shows of a rank: its buffers, and all that arrives, also where an instruction
// waits for two things.
TEST_F(TwoCores, AProgramSaysTheBytesOfItsCollectiveAndOfEachMessageThatItWaitsFor) {
  std::array<char, 512> error = {};
  const ccom_device_program_t* program = nullptr;
  ASSERT_EQ(ccom_device_compile(&stream_, &program, error.data(), error.size()), CCOM_SUCCESS)
      << error.data();
  EXPECT_EQ(program->sizes[0].input, 4096u * 4);
  EXPECT_EQ(program->sizes[0].output, 4096u * 4);
  EXPECT_EQ(program->sizes[0].whole, 4096u * 4);
  uint64_t sent = 0, arrived = 0;
  size_t pairs = 0;
  for (uint32_t pc = 0; pc < program->instructions; ++pc) {
    const ccom_device_note_t& note = program->notes[pc];
    if (note.action == CCOM_DEVICE_SEND) sent += note.bytes;
    const ccom_device_waiting_t* waits = program->waits + 2 * size_t{pc};
    EXPECT_EQ(waits[0].wait == CCOM_DEVICE_NO_WAIT, note.wait == CCOM_DEVICE_NO_WAIT);
    pairs += waits[1].wait != CCOM_DEVICE_NO_WAIT ? 1 : 0;
    for (int n = 0; n < 2; ++n) {
      if (waits[n].wait == CCOM_DEVICE_WAIT_GO) {
        EXPECT_EQ(waits[n].semaphore, 0u);
      }
      if (waits[n].wait != CCOM_DEVICE_WAIT_ARRIVAL) {
        EXPECT_EQ(waits[n].bytes, 0u);
        continue;
      }
      EXPECT_EQ(waits[n].peer, 1u);
      arrived += waits[n].bytes;
    }
  }
  EXPECT_EQ(sent, 4096u * 4) << "a half to be added, and the sum of the other half";
  EXPECT_EQ(arrived, sent);
  EXPECT_GT(pairs, 0u);
  ccom_device_free(program);
  reduce_.operation = CCOM_REDUCE_SCATTER;
  ASSERT_EQ(ccom_device_compile(&stream_, &program, error.data(), error.size()), CCOM_SUCCESS)
      << error.data();
  EXPECT_EQ(program->sizes[0].input, 2u * 4096 * 4);
  EXPECT_EQ(program->sizes[0].output, 4096u * 4);
  EXPECT_EQ(program->sizes[0].whole, 2u * 4096 * 4) << "the blocks of both ranks";
  ccom_device_free(program);
}

TEST_F(TwoCores, AStreamOfAnotherSizeIsRefused) {
  stream_.size_of = 8;
  std::array<char, 512> error = {};
  const ccom_device_program_t* program = nullptr;
  EXPECT_EQ(ccom_device_compile(&stream_, &program, error.data(), error.size()), CCOM_INVALID);
  EXPECT_EQ(program, nullptr);
  EXPECT_NE(std::string(error.data()), "");
}

}  // namespace
