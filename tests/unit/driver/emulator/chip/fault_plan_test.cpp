// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/fault_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver/emulator/chip/chip_faults.h"

namespace neuron::chip {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<FaultSpec> parse(const std::string& text) {
  std::vector<FaultSpec> plan;
  std::string error;
  EXPECT_TRUE(parse_fault_plan(text, plan, error)) << error;
  return plan;
}

std::string refusal(const std::string& text) {
  std::vector<FaultSpec> plan;
  std::string error;
  EXPECT_FALSE(parse_fault_plan(text, plan, error)) << text;
  EXPECT_THAT(plan, IsEmpty());
  return error;
}

TEST(FaultPlan, LinesAreReadAndGivenBackAsTheyWere) {
  const std::string text =
      "# what the plan is for\n"
      "\n"
      R"({"at":"engine.instruction","kind":"hang","chip":1,"core":0,"engine":"Pool","n":17})"
      "\r\n"
      R"({"at":"dma.descriptor","kind":"error","engine":33,"queue":15,"n":1})"
      "\n"
      R"({"at":"hbm","kind":"uncorrectable","address":"0x1000000","bytes":4096,"n":1})"
      "\n"
      R"({"at":"link","kind":"down","a":0,"b":3})"
      "\n"
      R"({"at":"link","kind":"down","a":5,"b":5,"b_node":1})"
      "\n"
      R"({"at":"link","kind":"down","a":5,"b":5,"a_node":2,"b_node":3})";
  const std::vector<FaultSpec> plan = parse(text);
  ASSERT_EQ(plan.size(), 6u);
  EXPECT_EQ(plan[0].engine, 2);
  EXPECT_EQ(plan[0].n, 17u);
  EXPECT_EQ(plan[1].queue, 15);
  EXPECT_EQ(plan[1].chip, FaultSpec::kAny);
  EXPECT_EQ(plan[2].address, 0x1000000u);
  EXPECT_EQ(plan[3].peer, 3);
  EXPECT_EQ(plan[4].node, FaultSpec::kAny);
  EXPECT_EQ(plan[4].peer_node, 1);
  EXPECT_EQ(plan[5].node, 2);
  for (const FaultSpec& spec : plan) {
    const std::vector<FaultSpec> again = parse(spec.text());
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0].text(), spec.text());
    EXPECT_THAT(text, HasSubstr(spec.text()));
  }
}

TEST(FaultPlan, WhatIsWrongIsNamedWithItsLineAndField) {
  EXPECT_THAT(refusal("{}\n"), HasSubstr("line 1 of the fault plan: field \"at\" is missing"));
  EXPECT_THAT(refusal("\n\n[1]"), HasSubstr("line 3 of the fault plan: it is no JSON object"));
  EXPECT_THAT(refusal("{\"at\":"), HasSubstr("it is no JSON (incomplete"));
  EXPECT_THAT(refusal(R"({"at":"disk","kind":"error"})"),
              HasSubstr("field \"at\" is \"disk\", expected one of engine.instruction, dma"));
  EXPECT_THAT(refusal(R"({"at":"dma.descriptor","kind":"hang"})"),
              HasSubstr("field \"kind\" is \"hang\", expected one of error, off"));
  EXPECT_THAT(refusal(R"({"at":"dma.descriptor","kind":"error","core":1})"),
              HasSubstr("field \"core\" is unknown for \"dma.descriptor\", expected at, kind"));
  EXPECT_THAT(refusal(R"({"at":"chip","kind":"off","n":0})"),
              HasSubstr("field \"n\" is 0, expected a number from 1"));
  EXPECT_THAT(refusal(R"({"at":"chip","kind":"off","n":-1})"), HasSubstr("field \"n\" is -1"));
  EXPECT_THAT(refusal(R"({"at":"chip","kind":"off","chip":64})"),
              HasSubstr("field \"chip\" is 64, expected a number from 0 to 63"));
  EXPECT_THAT(refusal(R"({"at":"engine.instruction","kind":"hang","engine":"GPU"})"),
              HasSubstr("field \"engine\" is \"GPU\", expected PE, Activation"));
  EXPECT_THAT(refusal(R"({"at":"hbm","kind":"correctable","bytes":64})"),
              HasSubstr("field \"bytes\" needs the field \"address\""));
  EXPECT_THAT(refusal(R"({"at":"hbm","kind":"correctable","address":"0xQ"})"),
              HasSubstr("field \"address\" is \"0xQ\""));
  EXPECT_THAT(refusal(R"({"at":"link","kind":"down","a":1})"), HasSubstr("needs its two ends"));
  EXPECT_THAT(refusal(R"({"at":"link","kind":"down","a":1,"b":1})"), HasSubstr("two ends"));
  EXPECT_THAT(refusal(R"({"at":"link","kind":"down","a":1,"b":1,"a_node":2,"b_node":2})"),
              HasSubstr("two ends"));
  EXPECT_THAT(refusal(R"({"at":"chip","kind":"off","n":[[[[1]]]]})"), HasSubstr("it is no JSON"));
  EXPECT_THAT(refusal(std::string(size_t{2} << 20, ' ')), HasSubstr("at most 1048576 are read"));
}

TEST(FaultPlan, AFileThatCannotBeReadIsNamed) {
  std::vector<FaultSpec> plan;
  std::string error;
  EXPECT_FALSE(read_fault_plan("/nowhere/plan", plan, error));
  EXPECT_THAT(error, HasSubstr("/nowhere/plan cannot be read: No such file"));
  EXPECT_FALSE(read_fault_plan("/", plan, error));
  EXPECT_THAT(error, HasSubstr("cannot be read"));
}

class Faults : public ::testing::Test {
 protected:
  static constexpr uint64_t kStride = uint64_t{1} << 36;
  Faults() { faults_.describe_chip(0, {0, kStride}, uint64_t{16} << 30); }
  void arm(const std::string& line) {
    for (const FaultSpec& spec : parse(line)) EXPECT_TRUE(faults_.arm(spec)) << line;
  }
  ChipFaults faults_;
};

TEST_F(Faults, NothingIsArmedBeforeAPlanAndAfterItHasHappened) {
  EXPECT_FALSE(faults_.armed());
  arm(R"({"at":"dma.descriptor","kind":"error","n":3})");
  EXPECT_TRUE(faults_.armed());
  EXPECT_EQ(faults_.descriptor(0, 0, 0, 64), NEURON_FAULT_NONE);
  EXPECT_EQ(faults_.descriptor(5, 1, 0, 64), NEURON_FAULT_NONE);
  EXPECT_THAT(faults_.status().armed,
              ElementsAre(R"({"at":"dma.descriptor","kind":"error","n":1})"));
  EXPECT_EQ(faults_.descriptor(9, 2, 0, 64), NEURON_FAULT_DMA_ENGINE);
  EXPECT_FALSE(faults_.armed());
  EXPECT_EQ(faults_.status().dma_errors, 1u);
}

TEST_F(Faults, OnlyEventsThatThePlanNamesAreCounted) {
  arm(R"({"at":"dma.descriptor","kind":"error","engine":4,"queue":2,"n":2})");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(faults_.descriptor(4, 1, 0, 4), NEURON_FAULT_NONE);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(faults_.descriptor(3, 2, 0, 4), NEURON_FAULT_NONE);
  EXPECT_EQ(faults_.descriptor(4, 2, 0, 4), NEURON_FAULT_NONE);
  EXPECT_EQ(faults_.descriptor(4, 2, 0, 4), NEURON_FAULT_DMA_ENGINE);
  EXPECT_FALSE(faults_.arm(parse(R"({"at":"chip","kind":"off","chip":1})")[0]));
}

TEST_F(Faults, AHungEngineHangsUntilItsCoreIsReset) {
  arm(R"({"at":"engine.instruction","kind":"hang","core":1,"engine":2,"n":2})");
  EXPECT_EQ(faults_.instruction(1, 2), ChipFaults::Issue::kGoesOn);
  EXPECT_EQ(faults_.instruction(0, 2), ChipFaults::Issue::kGoesOn);
  EXPECT_EQ(faults_.instruction(1, 2), ChipFaults::Issue::kHangs);
  EXPECT_EQ(faults_.instruction(1, 2), ChipFaults::Issue::kHangs);
  EXPECT_EQ(faults_.instruction(1, 3), ChipFaults::Issue::kGoesOn);
  EXPECT_EQ(faults_.status().hung[1], 1u << 2);
  faults_.core_was_reset(0);
  EXPECT_TRUE(faults_.armed());
  faults_.core_was_reset(1);
  EXPECT_FALSE(faults_.armed());
  EXPECT_EQ(faults_.instruction(1, 2), ChipFaults::Issue::kGoesOn);
}

TEST_F(Faults, CorrectableErrorsCountInTheirStackAndLeaveTheBytesAlone) {
  arm(R"({"at":"hbm","kind":"correctable","n":2,"count":2})");
  EXPECT_EQ(faults_.descriptor(0, 0, kStride, 64), NEURON_FAULT_NONE);
  EXPECT_EQ(faults_.descriptor(0, 0, NEURON_V2_HOST_BASE, 64), NEURON_FAULT_NONE);
  EXPECT_EQ(faults_.ecc_word(NEURON_FW_ECC_HBM0 + 4), 0u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(faults_.descriptor(0, 0, kStride, 64), NEURON_FAULT_NONE);
  EXPECT_EQ(faults_.ecc_word(NEURON_FW_ECC_HBM0 + 4), 2u << 16);
  EXPECT_EQ(faults_.ecc_word(NEURON_FW_ECC_HBM0), 0u);
  EXPECT_FALSE(faults_.armed());
}

TEST_F(Faults, UncorrectableBytesStayBadForWhoeverReadsThem) {
  arm(R"({"at":"hbm","kind":"uncorrectable","address":"0x5000","bytes":4097})");
  EXPECT_EQ(faults_.descriptor(0, 0, 0x4000, 0x1000), NEURON_FAULT_NONE);
  const uint32_t epoch = faults_.bad_epoch();
  EXPECT_EQ(faults_.descriptor(0, 0, 0x4FFF, 2), NEURON_FAULT_HBM_UE);
  EXPECT_NE(faults_.bad_epoch(), epoch);
  EXPECT_EQ(faults_.fetched(0x6000, 128), NEURON_FAULT_HBM_UE);
  EXPECT_EQ(faults_.fetched(0x6001, 128), NEURON_FAULT_NONE);
  EXPECT_THAT(faults_.bad_pages(), ElementsAre(0x5000, 0x6000));
  EXPECT_EQ(faults_.ecc_word(NEURON_FW_ECC_HBM0), 2u);
  EXPECT_EQ(faults_.ecc_word(NEURON_FW_HBM_REPAIR), 0u);
  faults_.device_was_reset();
  EXPECT_EQ(faults_.descriptor(0, 0, 0x5000, 4), NEURON_FAULT_HBM_UE);
  faults_.clear();
  EXPECT_EQ(faults_.descriptor(0, 0, 0x5000, 4), NEURON_FAULT_NONE);
}

TEST_F(Faults, ADeviceResetRepairsWhatIsRepairable) {
  arm(R"({"at":"hbm","kind":"repairable"})");
  EXPECT_EQ(faults_.descriptor(0, 0, 0x1234, 4), NEURON_FAULT_HBM_UE_REPAIRABLE);
  EXPECT_EQ(faults_.descriptor(0, 0, 0x1200, 4), NEURON_FAULT_HBM_UE_REPAIRABLE);
  EXPECT_EQ(faults_.ecc_word(NEURON_FW_HBM_REPAIR), 1u);
  EXPECT_THAT(faults_.bad_pages(), IsEmpty());
  faults_.device_was_reset();
  EXPECT_EQ(faults_.ecc_word(NEURON_FW_HBM_REPAIR), 0u);
  EXPECT_EQ(faults_.descriptor(0, 0, 0x1234, 4), NEURON_FAULT_NONE);
}

TEST_F(Faults, AChipWithoutPowerIsGoneUntilItIsSwitchedOn) {
  arm(R"({"at":"chip","kind":"off","n":2})");
  EXPECT_FALSE(faults_.host_access());
  EXPECT_EQ(faults_.losses(), 0u);
  EXPECT_TRUE(faults_.host_access());
  EXPECT_TRUE(faults_.off());
  EXPECT_EQ(faults_.losses(), 1u);
  EXPECT_EQ(faults_.instruction(0, 0), ChipFaults::Issue::kHangs);
  faults_.clear();
  EXPECT_TRUE(faults_.host_access());
  faults_.set_off(false);
  EXPECT_FALSE(faults_.armed());
  EXPECT_EQ(faults_.losses(), 1u);
}

}  // namespace
}  // namespace neuron::chip
