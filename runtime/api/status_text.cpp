// SPDX-License-Identifier: Apache-2.0
//
// nrt_get_status_as_str: a text per status, as frameworks print it.
#include "nrt/nrt_status.h"
#include "runtime/api/guard.h"

NRT_EXPORT const char* nrt_get_status_as_str(NRT_STATUS status) {
  switch (status) {
    case NRT_SUCCESS:
      return "Success";
    case NRT_FAILURE:
      return "Non specific failure";
    case NRT_INVALID:
      return "Invalid argument, NEFF, instruction or descriptor";
    case NRT_INVALID_HANDLE:
      return "Invalid handle";
    case NRT_RESOURCE:
      return "Allocation failure";
    case NRT_TIMEOUT:
      return "Timeout exceeded";
    case NRT_HW_ERROR:
      return "Hardware failure";
    case NRT_QUEUE_FULL:
      return "Queue is full";
    case NRT_LOAD_NOT_ENOUGH_NC:
      return "Not enough NeuronCores";
    case NRT_UNSUPPORTED_NEFF_VERSION:
      return "Unsupported NEFF version or feature";
    case NRT_FAIL_HOST_MEM_ALLOC:
      return "Host memory allocation failure";
    case NRT_UNINITIALIZED:
      return "Runtime is not initialised";
    case NRT_CLOSED:
      return "Runtime is closed";
    case NRT_QUEUE_EMPTY:
      return "Queue is empty";
    case NRT_EXEC_UNIT_UNRECOVERABLE:
      return "Execution unit cannot be used any more";
    case NRT_EXEC_BAD_INPUT:
      return "Invalid input to execution";
    case NRT_EXEC_COMPLETED_WITH_NUM_ERR:
      return "Execution was completed with numerical errors";
    case NRT_EXEC_COMPLETED_WITH_ERR:
      return "Execution was completed with other errors";
    case NRT_EXEC_NC_BUSY:
      return "NeuronCore is busy";
    case NRT_EXEC_OOB:
      return "Indirect copy was out of bounds";
    case NRT_COLL_PENDING:
      return "Collective operation is pending";
    case NRT_EXEC_HW_ERR_COLLECTIVES:
      return "Stuck in a collective operation";
    case NRT_EXEC_HW_ERR_HBM_UE:
      return "Uncorrectable HBM error";
    case NRT_EXEC_HW_ERR_NC_UE:
      return "Parity error in NeuronCore memory";
    case NRT_EXEC_HW_ERR_DMA_ABORT:
      return "DMA engine aborted";
    case NRT_EXEC_SW_NQ_OVERFLOW:
      return "Notification queue overflow";
    case NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE:
      return "Repairable HBM error";
    case NRT_NETWORK_PROXY_FAILURE:
      return "Network proxy failure";
  }
  return "Unknown status";
}
