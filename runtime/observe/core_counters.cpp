// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/core_counters.h"

namespace neuron::runtime {

void CoreCounters::executed_well(std::uint64_t count, std::uint64_t device_us,
                                 std::uint64_t host_us) {
  if (words_ == nullptr) return;
  add(NDS_NC_COUNTER_INFERENCE_COUNT, count);
  add(NDS_NC_COUNTER_LATENCY_DEVICE, device_us);
  add(NDS_NC_COUNTER_LATENCY_TOTAL, host_us);
  add(NDS_NC_COUNTER_TIME_IN_USE, device_us);
  add(NDS_NC_COUNTER_INFER_COMPLETED, count);
}

void CoreCounters::executed(NRT_STATUS status, std::uint64_t device_us, std::uint64_t host_us) {
  if (words_ == nullptr) return;
  if (status == NRT_SUCCESS) return executed_well(1, device_us, host_us);
  add(NDS_NC_COUNTER_INFERENCE_COUNT, 1);
  add(NDS_NC_COUNTER_LATENCY_DEVICE, device_us);
  add(NDS_NC_COUNTER_LATENCY_TOTAL, host_us);
  add(NDS_NC_COUNTER_TIME_IN_USE, device_us);
  switch (status) {
    case NRT_TIMEOUT:
      add(NDS_NC_COUNTER_INFER_TIMED_OUT, 1);
      return;
    case NRT_EXEC_COMPLETED_WITH_NUM_ERR:
      add(NDS_NC_COUNTER_INFER_COMPLETED_WITH_NUM_ERR, 1);
      add(NDS_NC_COUNTER_ERR_NUMERICAL, 1);
      return;
    case NRT_EXEC_OOB:
      add(NDS_NC_COUNTER_OOB, 1);
      break;
    case NRT_EXEC_HW_ERR_HBM_UE:
      add(NDS_EXT_NC_COUNTER_HW_ERR_HBM_UE, 1);
      add(NDS_NC_COUNTER_ERR_HW, 1);
      break;
    case NRT_EXEC_HW_ERR_NC_UE:
      add(NDS_EXT_NC_COUNTER_HW_ERR_NC_UE, 1);
      add(NDS_NC_COUNTER_ERR_HW, 1);
      break;
    case NRT_EXEC_HW_ERR_DMA_ABORT:
      add(NDS_EXT_NC_COUNTER_HW_ERR_DMA_ABORT, 1);
      add(NDS_NC_COUNTER_ERR_HW, 1);
      break;
    case NRT_EXEC_SW_NQ_OVERFLOW:
      add(NDS_EXT_NC_COUNTER_ERR_SW_NQ_OVERFLOW, 1);
      break;
    case NRT_EXEC_COMPLETED_WITH_ERR:
      add(NDS_NC_COUNTER_ERR_MODEL, 1);
      break;
    default:
      add(NDS_NC_COUNTER_ERR_GENERIC, 1);
      break;
  }
  add(NDS_NC_COUNTER_INFER_COMPLETED_WITH_ERR, 1);
}

}  // namespace neuron::runtime
