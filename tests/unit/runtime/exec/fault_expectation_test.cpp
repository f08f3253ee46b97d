// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/fault_expectation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hw/address_map.h"
#include "hw/fault.h"
#include "tests/unit/runtime/loaded_sample.h"

namespace neuron::runtime {
namespace {

using test::LoadedSample;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(FaultExpectation, AnAddressIsPutBetweenItsNearestRegions) {
  const ChipTable& chip = *find_chip_table(2);
  EXPECT_EQ(describe_address(chip, 0),
            "which lies in HBM 0 (0x0 to 0x3ffffffff), but the access is refused there");
  EXPECT_THAT(describe_address(chip, NEURON_V2_HBM_SIZE - 1), StartsWith("which lies in HBM 0"));
  EXPECT_EQ(describe_address(chip, NEURON_V2_HBM_SIZE),
            base::format("expected an address that is mapped; the nearest are HBM 0, which ends at "
                         "0x3ffffffff, and HBM 1, which starts at {:#x}",
                         uint64_t{NEURON_V2_HBM_STRIDE}));
  const AddressRegion& last = chip.regions.back();
  EXPECT_THAT(describe_address(chip, last.last), StartsWith("which lies in host memory"));
  EXPECT_EQ(describe_address(chip, last.last + 1),
            base::format("expected an address that is mapped; the highest are host memory, which "
                         "ends at {:#x}",
                         last.last));
}

class Expectation : public ::testing::Test {
 protected:
  std::string of(uint32_t code, std::array<uint32_t, 3> info, uint64_t record = 0,
                 uint32_t engine = NEURON_ENGINE_PE, uint32_t pc = 0) {
    const neuron_notification entry{.info = {info[0], info[1], info[2]},
                                    .word = engine << NEURON_NW_ENGINE_SHIFT};
    return describe_expectation(*sample_.loaded, engine, pc, code, &entry, record);
  }
  std::string without_entry(uint32_t code, uint64_t record) {
    return describe_expectation(*sample_.loaded, NEURON_ENGINE_PE, 0, code, nullptr, record);
  }
  LoadedSample sample_;
};

TEST_F(Expectation, OfAnAccessSaysHowLongItWasAndWhere) {
  EXPECT_THAT(of(NEURON_FAULT_BUS, {0x10, 0x1, 16}),
              StartsWith("found an access of 16 bytes to device address 0x100000010, which lies "));
  EXPECT_THAT(of(NEURON_FAULT_FETCH, {0x10, 0, 128}),
              StartsWith("found an access of 128 bytes to device address 0x10, "));
  EXPECT_THAT(without_entry(NEURON_FAULT_BUS, 0x20),
              StartsWith("found an access of 4 bytes to device address 0x20, "));
}

TEST_F(Expectation, OfSemaphoresAndEventsSaysTheirValues) {
  EXPECT_EQ(of(NEURON_FAULT_SEM_OVERFLOW, {20, 5, 6}),
            "found semaphore 20 at 5 and 6 to be added, expected a sum of at most 2147483647");
  EXPECT_EQ(of(NEURON_FAULT_SEM_UNDERFLOW, {20, 5, 6}),
            "found semaphore 20 at 5 and 6 to be subtracted, expected at least as much");
  EXPECT_EQ(of(NEURON_FAULT_EVENT_DOUBLE, {0x103, 1, 0}), "found event 3 at 1, expected 0");
  EXPECT_EQ(of(NEURON_FAULT_EVENT_DOUBLE, {0x103, 0, 0}), "found event 3 at 0, expected 1");
}

TEST_F(Expectation, OfADmaFaultNamesEngineQueueAndPlaceInTheRing) {
  EXPECT_THAT(of(NEURON_FAULT_DMA_BUS, {0x302, 9, 0}, 0x40),
              StartsWith("DMA engine 3 queue 2 ring index 9: found address 0x40, which lies in"));
  EXPECT_EQ(of(NEURON_FAULT_DMA_ENGINE, {0x302, 9, 0}, 0x40),
            "DMA engine 3 queue 2 ring index 9: source address 0x40");
  EXPECT_EQ(of(NEURON_FAULT_DMA_RING, {0x302, 9, 0x50}),
            "DMA engine 3 queue 2 ring index 9: found 0x50, expected a doorbell of at most the "
            "free descriptors of a ring that is set up");
  EXPECT_EQ(of(NEURON_FAULT_DMA_DESC, {0x302, 9, 0x50}),
            "DMA engine 3 queue 2 ring index 9: found 0x50, expected a descriptor of a defined "
            "operation with clear reserved bits");
}

TEST_F(Expectation, OfBadBytesSaysWhoHasReadThem) {
  for (const uint32_t code : {NEURON_FAULT_HBM_UE, NEURON_FAULT_HBM_UE_REPAIRABLE}) {
    EXPECT_EQ(of(code, {0x302, 9, 0}, 0x40), "found bad bytes at device address 0x40");
    EXPECT_EQ(of(code, {0x302, 9, 0}, 0x40, NEURON_ENGINE_DMA),
              "DMA engine 3 queue 2 ring index 9: found bad bytes at device address 0x40");
    EXPECT_EQ(without_entry(code, 0x40), "found bad bytes at device address 0x40");
  }
}

TEST_F(Expectation, OfAnIndexSaysItsBound) {
  EXPECT_EQ(of(NEURON_FAULT_DMA_OOB, {70, 64, 0}),
            "found a row at offset or index 70, expected one inside of 64");
  EXPECT_EQ(without_entry(NEURON_FAULT_DMA_OOB, 0x40), "found a row at device address 0x40");
  EXPECT_EQ(of(NEURON_FAULT_INDEX_OOB, {70, 64, 5u << 20 | 0x10}),
            "found index 70 in partition 5 at offset 0x10, expected less than 64");
  EXPECT_EQ(of(NEURON_FAULT_INDEX_OOB, {3, 16, 5u << 20 | 0x10}),
            "found position 3 in partition 5 at offset 0x10, expected another one: a row before it "
            "has this position in the same column");
  EXPECT_EQ(without_entry(NEURON_FAULT_INDEX_OOB, 5u << 20 | 0x10),
            "found it in partition 5 at offset 0x10");
}

TEST_F(Expectation, OfControlFlowSaysHowManyThereAre) {
  EXPECT_EQ(of(NEURON_FAULT_PC_RANGE, {0, 99, 0}),
            base::format("found a next instruction at 99, expected one of the {} of the program",
                         sample_.loaded->image(NEURON_ENGINE_PE).instructions));
  EXPECT_THAT(of(NEURON_FAULT_PC_RANGE, {0, 99, 0}, 0, NEURON_CORE_ENGINES),
              HasSubstr("expected one of the 0 of the program"));
  EXPECT_EQ(of(NEURON_FAULT_LOOP_DEPTH, {0, 9, 0}),
            "found 9 loops and calls open, expected 1 to 8");
  EXPECT_EQ(of(NEURON_FAULT_DIVIDE, {0, 0, 0}), "found a divisor of 0, expected another one");
}

TEST_F(Expectation, OfALinkNamesTheDevicesAtBothEnds) {
  sample_.machine.state.routing_ids = {7, 3, 5};
  const uint64_t address = NEURON_V2_PEER(5) + 0x40;
  const std::array<uint32_t, 3> info = {static_cast<uint32_t>(address),
                                        static_cast<uint32_t>(address >> 32), 5};
  const std::string words =
      "found no way over links that work from device 0 to device 2 (routing id 5), device address "
      "0x1500000000040; ways between chips are fixed, so none leads around a link that is down";
  EXPECT_EQ(of(NEURON_FAULT_LINK, info, 0, NEURON_ENGINE_CC), words);
  EXPECT_EQ(without_entry(NEURON_FAULT_LINK, address), words);
  EXPECT_THAT(of(NEURON_FAULT_LINK, {0, 0, 9}), HasSubstr("to the chip with routing id 9,"));
  EXPECT_THAT(of(NEURON_FAULT_LINK, {0, 0, 64 + 5}),
              HasSubstr("to device 2 (routing id 5) of the node that is 1 further in the "
                        "UltraServer,"));
  EXPECT_THAT(of(NEURON_FAULT_LINK, {0, 0, 128 + 9}),
              HasSubstr("to the chip with routing id 9 of the node that is 2 further in the "
                        "UltraServer,"));
  sample_.machine.state.pod.v1.state = NEURON_POD_E_STATE_ULTRASERVER;
  sample_.machine.state.pod.v1.pod_sz = 4;
  sample_.machine.state.pod.v1.node_id = 3;
  EXPECT_THAT(
      of(NEURON_FAULT_LINK, {0, 0, 64 + 5}),
      HasSubstr("to device 2 (routing id 5) of node 0 of the UltraServer, whose node 3 this "
                "host is,"));
  EXPECT_THAT(of(NEURON_FAULT_LINK, {0, 0, 258}), HasSubstr("to its neighbour at link 2,"));
}

TEST_F(Expectation, OfAnotherFaultIsItsAddressIfItHasOne) {
  EXPECT_EQ(of(NEURON_FAULT_INTERNAL, {0, 0, 0}, 0), "");
  EXPECT_EQ(of(NEURON_FAULT_INTERNAL, {0, 0, 0}, 0x99), "address 0x99");
}

TEST_F(Expectation, OfAnInstructionNamesRuleOperandAndByte) {
  // word 0: byte | rule << 8, word 2: operand.
  EXPECT_EQ(of(NEURON_FAULT_OPERAND_PARTITION, {0x22 | 1 << 8, 8, 0}),
            "rule R1, operand dst (byte 0x22 of the instruction): found 0x8");
  EXPECT_EQ(of(NEURON_FAULT_OPERAND_RANGE, {0x22, 8, 1}),
            "operand src0 (byte 0x22 of the instruction): found 0x8");
  EXPECT_EQ(of(NEURON_FAULT_OPERAND_RANGE, {0x22, 8, 2}),
            "operand src1 (byte 0x22 of the instruction): found 0x8");
  EXPECT_EQ(of(NEURON_FAULT_ILLEGAL_FIELD, {0x22, 8, 3}),
            "(byte 0x22 of the instruction): found 0x8");
  EXPECT_EQ(without_entry(NEURON_FAULT_ILLEGAL_FIELD, 5), "");
  EXPECT_EQ(of(NEURON_FAULT_ILLEGAL_FIELD, {0x22, 8, 3}, 0, NEURON_CORE_ENGINES), "");
  const uint32_t behind = sample_.loaded->image(NEURON_ENGINE_PE).instructions;
  EXPECT_EQ(of(NEURON_FAULT_ILLEGAL_FIELD, {0x22, 8, 3}, 0, NEURON_ENGINE_PE, behind), "");
  EXPECT_NE(of(NEURON_FAULT_ILLEGAL_FIELD, {0x22, 8, 3}, 0, NEURON_ENGINE_PE, behind - 1), "");
}

TEST_F(Expectation, OfWeightsSaysWhatIsLoaded) {
  EXPECT_THAT(of(NEURON_FAULT_WEIGHTS, {NEURON_INST_OP + 1, 0, 3}),
              StartsWith("found no loaded weights, expected weights of "));
  EXPECT_EQ(of(NEURON_FAULT_WEIGHTS, {0x22 | 64u << 16, 8, 0}),
            "found 8 partitions of operand dst, expected 64 as the loaded weights have columns");
  EXPECT_EQ(of(NEURON_FAULT_WEIGHTS, {0x22 | 64u << 16, 8, 1}),
            "found 8 partitions of operand src0, expected 64 as the loaded weights have "
            "partitions");
}

}  // namespace
}  // namespace neuron::runtime
