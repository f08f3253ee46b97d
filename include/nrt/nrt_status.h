// SPDX-License-Identifier: Apache-2.0
// Status of every nrt_* call. Numbers are the contract and are never reused; 8 and 12 are unused.
//
// Codes up to 100 describe the call, 1xx an execution unit, 10xx and 12xx an execution, 11xx a
// collective operation. The sentence that says what happened is in the log.
#ifndef NRT_STATUS_H
#define NRT_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum {
  NRT_SUCCESS = 0,
  NRT_FAILURE = 1,         // failed, and no other code says it better; a name was not found
  NRT_INVALID = 2,         // an argument, a NEFF, an instruction or a descriptor is wrong
  NRT_INVALID_HANDLE = 3,  // no such object; end of an enumeration
  NRT_RESOURCE = 4,        // device or host memory, room in a buffer, or another limit is used up
  NRT_TIMEOUT = 5,         // the deadline passed; the core may need a new load
  NRT_HW_ERROR = 6,        // the device failed
  NRT_QUEUE_FULL = 7,      // asynchronous queue has no room: wait for one completion, then repeat
  NRT_LOAD_NOT_ENOUGH_NC = 9,         // the model needs more cores than this process has
  NRT_UNSUPPORTED_NEFF_VERSION = 10,  // version or feature bits of the NEFF
  NRT_FAIL_HOST_MEM_ALLOC = 11,       // kept for old callers; NRT_RESOURCE is returned today
  NRT_UNINITIALIZED = 13,             // before nrt_init
  NRT_CLOSED = 14,                    // after nrt_close
  NRT_QUEUE_EMPTY = 15,               // nothing to read

  NRT_EXEC_UNIT_UNRECOVERABLE = 101,  // everything scheduled on the unit fails until a new nrt_init

  NRT_EXEC_BAD_INPUT = 1002,               // the inputs were refused when execution started
  NRT_EXEC_COMPLETED_WITH_NUM_ERR = 1003,  // finished, but a NaN was produced where that is watched
  NRT_EXEC_COMPLETED_WITH_ERR = 1004,      // finished with another error
  NRT_EXEC_NC_BUSY = 1005,                 // the core is held by another model or process
  NRT_EXEC_OOB = 1006,                     // an indirect copy left its tensor

  NRT_COLL_PENDING = 1100,  // a collective operation is still under way

  NRT_EXEC_HW_ERR_COLLECTIVES = 1200,        // stuck in a collective operation
  NRT_EXEC_HW_ERR_HBM_UE = 1201,             // HBM error that cannot be repaired
  NRT_EXEC_HW_ERR_NC_UE = 1202,              // parity error in a core's memory
  NRT_EXEC_HW_ERR_DMA_ABORT = 1203,          // a DMA engine gave up
  NRT_EXEC_SW_NQ_OVERFLOW = 1204,            // more notifications than were read
  NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE = 1205,  // HBM error that a reset repairs
  NRT_NETWORK_PROXY_FAILURE = 1206,          // traffic between hosts failed
} NRT_STATUS;

// Text for a status: static, never NULL, also for numbers that are none. Any thread, any time.
const char *nrt_get_status_as_str(NRT_STATUS status);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NRT_STATUS_H
