/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Layout of a datastore: 256 KiB per process and device in which the runtime keeps counters that
 * tools, the kernel driver and other processes read (NEURON_IOCTL_ACQUIRE_NEURON_DS maps it).
 *
 * The owner writes; readers map it read-only in spirit, and no lock exists: each counter is one
 * aligned 64-bit word, and a reader tolerates counters that are a moment apart. A zero-filled block
 * is empty. Accessor macros take a byte pointer to the start of the block and need the stdint name
 * uint64_t.
 */
#ifndef NEURON_UAPI_DATASTORE_H
#define NEURON_UAPI_DATASTORE_H

#include "uapi/neuron_abi.h"

#define NDS_ND_COUNTER_RESERVED 18
#define NDS_NC_COUNTER_RESERVED 0
#define NDS_MAX_NEURONCORE_COUNT (4)      /* cores of the first section */
#define NDS_EXT_MAX_NEURONCORE_COUNT (12) /* further cores, in the extension */
#define NDS_EXT_NC_COUNTER_ADDED_RESERVED 54

/* Counters of a process on a device; each is one 64-bit word. */
enum {
  NDS_ND_COUNTER_RUNTIME_VERSION = 0,   /* nmetric_version_t */
  NDS_ND_COUNTER_FRAMEWORK_VERSION = 1, /* nmetric_version_t */
  NDS_ND_COUNTER_FAL_VERSION = 2,       /* nmetric_version_t */
  NDS_ND_COUNTER_FEATURE_BITMAP = 3,    /* feature_bitmap_bit_index_t */
  NDS_ND_COUNTER_MIN_NEFF_VERSION = 4,
  NDS_ND_COUNTER_MAX_NEFF_VERSION = 5,
  NDS_ND_COUNTER_MEM_USAGE_CODE_HOST = 6, /* bytes, as the next four */
  NDS_ND_COUNTER_MEM_USAGE_TENSORS_HOST = 7,
  NDS_ND_COUNTER_MEM_USAGE_CONSTANTS_HOST = 8,
  NDS_ND_COUNTER_MEM_USAGE_SCRATCHPAD_HOST = 9,
  NDS_ND_COUNTER_MEM_USAGE_MISC_HOST = 10,
  NDS_ND_COUNTER_DYNAMIC_SYSFS_METRIC_BITMAP = 11,
  NDS_ND_COUNTER_DEVICE_CLUSTER_ID = 12,
  NDS_ND_COUNTER_COUNT = 31, /* slots, the last 18 of them reserved */
};

/*
 * Counters of a process on one core. The order of the error counters is part of the contract:
 * a driver adds them by index into its own statistics.
 */
enum {
  NDS_NC_COUNTER_TIME_IN_USE = 0, /* microseconds */
  NDS_NC_COUNTER_INFER_COMPLETED = 1,
  NDS_NC_COUNTER_INFER_COMPLETED_WITH_ERR = 2,
  NDS_NC_COUNTER_INFER_COMPLETED_WITH_NUM_ERR = 3,
  NDS_NC_COUNTER_INFER_TIMED_OUT = 4,
  NDS_NC_COUNTER_INFER_INCORRECT_INPUT = 5,
  NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE = 6,
  NDS_NC_COUNTER_ERR_GENERIC = 7,
  NDS_NC_COUNTER_ERR_NUMERICAL = 8,
  NDS_NC_COUNTER_ERR_MODEL = 9,
  NDS_NC_COUNTER_ERR_TRANSIENT = 10,
  NDS_NC_COUNTER_ERR_HW = 11,
  NDS_NC_COUNTER_ERR_RT = 12,
  NDS_NC_COUNTER_LATENCY_DEVICE = 13, /* microseconds, summed */
  NDS_NC_COUNTER_LATENCY_TOTAL = 14,  /* microseconds, summed */
  NDS_NC_COUNTER_NC_TIME = 15,
  NDS_NC_COUNTER_GENERIC_FAIL = 16,
  NDS_NC_COUNTER_ERR_RESOURCE = 17,
  NDS_NC_COUNTER_ERR_RESOURCE_NC = 18,
  NDS_NC_COUNTER_ERR_INVALID = 19,
  NDS_NC_COUNTER_ERR_UNSUPPORTED_NEFF_VERSION = 20,
  NDS_NC_COUNTER_CC_TIME = 21,
  NDS_NC_COUNTER_MEM_USAGE_CODE_DEVICE = 22, /* bytes, as the next four */
  NDS_NC_COUNTER_MEM_USAGE_TENSORS_DEVICE = 23,
  NDS_NC_COUNTER_MEM_USAGE_CONSTANTS_DEVICE = 24,
  NDS_NC_COUNTER_MEM_USAGE_SCRATCHPAD_DEVICE = 25,
  NDS_NC_COUNTER_MEM_USAGE_MISC_DEVICE = 26,
  NDS_NC_COUNTER_MODEL_LOAD_COUNT = 27,
  NDS_NC_COUNTER_INFERENCE_COUNT = 28,
  NDS_NC_COUNTER_MAC_COUNT = 29,
  NDS_NC_COUNTER_OOB = 30,
  NDS_NC_COUNTER_COUNT = 31,
};

/* Counters added after the first section was full; their numbers continue those above. */
enum {
  NDS_EXT_NC_COUNTER_HW_ERR_COLLECTIVES = 31,
  NDS_EXT_NC_COUNTER_HW_ERR_HBM_UE = 32,
  NDS_EXT_NC_COUNTER_HW_ERR_NC_UE = 33,
  NDS_EXT_NC_COUNTER_HW_ERR_DMA_ABORT = 34,
  NDS_EXT_NC_COUNTER_ERR_SW_NQ_OVERFLOW = 35,
  NDS_EXT_NC_COUNTER_ERR_SW_SEMAPHORE_ERROR = 36,
  NDS_EXT_NC_COUNTER_ERR_SW_EVENT_ERROR = 37,
  NDS_EXT_NC_COUNTER_ERR_SW_PSUM_COLLISION = 38,
  NDS_EXT_NC_COUNTER_ERR_SW_SEQUENCER_FATAL = 39,
  NDS_EXT_NC_COUNTER_HW_ERR_REPAIRABLE_HBM_UE = 40,
  NDS_EXT_NC_COUNTER_LAST = 41,  /* first unused index */
  NDS_EXT_NC_COUNTER_COUNT = 64, /* slots of the extension of one core */
};

/* The 0 turns two enumerations, which C++20 does not add, into numbers. */
#define NDS_TOTAL_NC_COUNTER_COUNT (0 + NDS_NC_COUNTER_COUNT + NDS_EXT_NC_COUNTER_COUNT)

/* First bytes of the block: signature 'n','d','s',0, then the layout version, written by the owner.
 */
typedef struct nds_header {
  char signature[4];
  int version;
} nds_header_t;

#define NDS_HEADER_START (0)
#define NDS_HEADER_SIZE (sizeof(nds_header_t))

#define NDS_ND_COUNTERS_START (NDS_HEADER_START + NDS_HEADER_SIZE)
#define NDS_ND_COUNTERS_SIZE (NDS_ND_COUNTER_COUNT * sizeof(__u64))
#define NDS_ND_COUNTERS(base_addr) ((uint64_t *)((base_addr) + NDS_ND_COUNTERS_START))

#define NDS_NEURONCORE_COUNTERS_COUNT (NDS_NC_COUNTER_COUNT)
#define NDS_NEURONCORE_COUNTERS_START (NDS_ND_COUNTERS_START + NDS_ND_COUNTERS_SIZE)
#define NDS_NEURONCORE_COUNTERS_SIZE \
  (NDS_NEURONCORE_COUNTERS_COUNT * NDS_MAX_NEURONCORE_COUNT * sizeof(__u64))
#define NDS_NEURONCORE_COUNTERS(base_addr, nc_index)           \
  ((uint64_t *)((base_addr) + NDS_NEURONCORE_COUNTERS_START) + \
   ((nc_index)*NDS_NEURONCORE_COUNTERS_COUNT))

/* The area up to NDS_EXT_OFFSET holds objects private to user space and a retired extension. */
#define NDS_EXT_NC_COUNTER_COUNT_OLD (65)
#define NDS_TOTAL_NC_COUNTER_COUNT_OLD (96)
#define NDS_EXT_NEURONCORE_COUNTERS_SIZE_OLD \
  (NDS_EXT_NC_COUNTER_COUNT_OLD * NDS_MAX_NEURONCORE_COUNT * sizeof(__u64))
#define NDS_EXT_NEURONCORE_NC_DATA_SIZE_OLD \
  (NDS_TOTAL_NC_COUNTER_COUNT_OLD * NDS_EXT_MAX_NEURONCORE_COUNT * sizeof(__u64))
#define NDS_EXT_SECTION_SIZE_OLD \
  (NDS_EXT_NEURONCORE_COUNTERS_SIZE_OLD + NDS_EXT_NEURONCORE_NC_DATA_SIZE_OLD)
#define NDS_EXT_OFFSET_OLD (44588)

#define NDS_EXT_ALIGNMENT (64)
#define NDS_ALIGN(v) ((v) + (-(v) & (NDS_EXT_ALIGNMENT - 1)))
#define NDS_EXT_OFFSET (NDS_ALIGN(NDS_EXT_OFFSET_OLD + NDS_EXT_SECTION_SIZE_OLD))

#define NDS_EXT_NEURONCORE_COUNTERS_COUNT (NDS_EXT_NC_COUNTER_COUNT)
#define NDS_EXT_NEURONCORE_COUNTERS_START (NDS_EXT_OFFSET)
#define NDS_EXT_NEURONCORE_COUNTERS_SIZE \
  (NDS_EXT_NC_COUNTER_COUNT * NDS_MAX_NEURONCORE_COUNT * sizeof(__u64))
#define NDS_EXT_NEURONCORE_COUNTERS(base_addr, nc_index)           \
  ((uint64_t *)((base_addr) + NDS_EXT_NEURONCORE_COUNTERS_START) + \
   ((nc_index)*NDS_EXT_NC_COUNTER_COUNT))

/* Cores from NDS_MAX_NEURONCORE_COUNT on: all counters of a core in one run, plus one pad word. */
#define NDS_EXT_NEURONCORE_NC_DATA_PADDING (1)
#define NDS_EXT_NEURONCORE_NC_DATA_COUNT \
  (NDS_TOTAL_NC_COUNTER_COUNT + NDS_EXT_NEURONCORE_NC_DATA_PADDING)
#define NDS_EXT_NEURONCORE_NC_DATA_START \
  (NDS_ALIGN(NDS_EXT_NEURONCORE_COUNTERS_START + NDS_EXT_NEURONCORE_COUNTERS_SIZE))
#define NDS_EXT_NEURONCORE_NC_DATA_SIZE \
  (NDS_EXT_MAX_NEURONCORE_COUNT * NDS_EXT_NEURONCORE_NC_DATA_COUNT * sizeof(__u64))
#define NDS_EXT_NEURONCORE_NC_DATA(base_addr, nc_index)           \
  ((uint64_t *)((base_addr) + NDS_EXT_NEURONCORE_NC_DATA_START) + \
   ((nc_index)*NDS_EXT_NEURONCORE_NC_DATA_COUNT))

#endif /* NEURON_UAPI_DATASTORE_H */
