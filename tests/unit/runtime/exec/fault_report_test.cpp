// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/fault_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hw/fault.h"
#include "tests/unit/runtime/loaded_sample.h"

namespace neuron::runtime {
namespace {

TEST(FaultReport, EachFaultHasItsStatus) {
  EXPECT_EQ(status_of_fault(NEURON_FAULT_BUS), NRT_EXEC_COMPLETED_WITH_ERR);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_TIME_LIMIT), NRT_TIMEOUT);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_NC_UE), NRT_EXEC_HW_ERR_NC_UE);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_HBM_UE), NRT_EXEC_HW_ERR_HBM_UE);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_HBM_UE_REPAIRABLE), NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_DMA_RING), NRT_EXEC_HW_ERR_DMA_ABORT);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_INDEX_OOB), NRT_EXEC_OOB);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_NQ_OVERFLOW), NRT_EXEC_SW_NQ_OVERFLOW);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_INTERNAL), NRT_EXEC_UNIT_UNRECOVERABLE);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_NUMERIC_NAN), NRT_EXEC_COMPLETED_WITH_NUM_ERR);
}

// Of two CC cores, one has stopped elsewhere, or runs at the instruction that failed.
TEST(FaultReport, TheCcCoreThatStoppedAtTheInstructionIsNamed) {
  test::LoadedSample sample;
  ASSERT_GE(sample.core->place().chip->cc_cores, 2u);
  const auto cc_core = [&](uint32_t number, uint32_t state, uint32_t pc) {
    const uint64_t block = sample.core->place().cc_bar0(number) + NEURON_CC_ENGINE;
    sample.machine.state.registers[block + NEURON_ENG_STATUS] = state;
    sample.machine.state.registers[block + NEURON_ENG_PC] = pc;
  };
  neuron_completion_record record{};
  record.status = NEURON_FAULT_BUS;
  record.engine = NEURON_ENGINE_CC;
  record.pc = 67;
  const auto sentence = [&] { return describe_fault(*sample.loaded, record).sentence; };
  cc_core(0, NEURON_STATE_FAULT, 12);
  cc_core(1, NEURON_STATE_FAULT, 67);
  EXPECT_THAT(sentence(), testing::HasSubstr("its CC core 1 (instruction 67 of that core's"));
  cc_core(0, NEURON_STATE_RUNNING, 67);
  EXPECT_THAT(sentence(), testing::HasSubstr("its CC core 1 (instruction 67 of that core's"));
  cc_core(1, NEURON_STATE_RUNNING, 67);
  EXPECT_THAT(sentence(), testing::HasSubstr("its CC core (instruction 67 of that core's"));
}

}  // namespace
}  // namespace neuron::runtime
