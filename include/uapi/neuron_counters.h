/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Names of the counters of a core in a datastore. They are the names of the attributes below
 * neuron_core<i>/stats/status/, which operators know.
 *
 * Lists for a macro X(name, counter), with the counters of uapi/neuron_datastore.h: the driver core
 * makes the tree of attributes from them, and tools name the values that they read from datastores.
 */
#ifndef NEURON_UAPI_COUNTERS_H
#define NEURON_UAPI_COUNTERS_H

#include "uapi/neuron_datastore.h"

/* How executions ended, and kinds of errors. */
#define NEURON_OUTCOME_COUNTERS(X)                                                   \
  X("success", NDS_NC_COUNTER_INFER_COMPLETED)                                       \
  X("timeout", NDS_NC_COUNTER_INFER_TIMED_OUT)                                       \
  X("exec_bad_input", NDS_NC_COUNTER_INFER_INCORRECT_INPUT)                          \
  X("hw_error", NDS_NC_COUNTER_ERR_HW)                                               \
  X("execute_completed_with_error", NDS_NC_COUNTER_INFER_COMPLETED_WITH_ERR)         \
  X("execute_completed_with_num_error", NDS_NC_COUNTER_INFER_COMPLETED_WITH_NUM_ERR) \
  X("generic_error", NDS_NC_COUNTER_ERR_GENERIC)                                     \
  X("execute_failed_to_queue", NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE)

/* What caused an error. */
#define NEURON_CAUSE_COUNTERS(X)                                             \
  X("failure", NDS_NC_COUNTER_GENERIC_FAIL)                                  \
  X("resource_error", NDS_NC_COUNTER_ERR_RESOURCE)                           \
  X("resource_nc_error", NDS_NC_COUNTER_ERR_RESOURCE_NC)                     \
  X("invalid_error", NDS_NC_COUNTER_ERR_INVALID)                             \
  X("unsupported_neff_version", NDS_NC_COUNTER_ERR_UNSUPPORTED_NEFF_VERSION) \
  X("oob_error", NDS_NC_COUNTER_OOB)                                         \
  X("hw_collectives_error", NDS_EXT_NC_COUNTER_HW_ERR_COLLECTIVES)           \
  X("hw_hbm_ue_error", NDS_EXT_NC_COUNTER_HW_ERR_HBM_UE)                     \
  X("hw_nc_ue_error", NDS_EXT_NC_COUNTER_HW_ERR_NC_UE)                       \
  X("hw_dma_abort_error", NDS_EXT_NC_COUNTER_HW_ERR_DMA_ABORT)               \
  X("execute_sw_nq_overflow", NDS_EXT_NC_COUNTER_ERR_SW_NQ_OVERFLOW)         \
  X("execute_sw_semaphore_error", NDS_EXT_NC_COUNTER_ERR_SW_SEMAPHORE_ERROR) \
  X("execute_sw_event_error", NDS_EXT_NC_COUNTER_ERR_SW_EVENT_ERROR)         \
  X("execute_sw_psum_collision", NDS_EXT_NC_COUNTER_ERR_SW_PSUM_COLLISION)   \
  X("execute_sw_sequencer_fatal", NDS_EXT_NC_COUNTER_ERR_SW_SEQUENCER_FATAL) \
  X("hw_repairable_hbm_ue_error", NDS_EXT_NC_COUNTER_HW_ERR_REPAIRABLE_HBM_UE)

#endif /* NEURON_UAPI_COUNTERS_H */
