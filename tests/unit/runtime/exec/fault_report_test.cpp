// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/fault_report.h"

#include <gtest/gtest.h>

#include "hw/fault.h"

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

}  // namespace
}  // namespace neuron::runtime
