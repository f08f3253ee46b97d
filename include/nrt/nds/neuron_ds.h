// SPDX-License-Identifier: Apache-2.0
// Datastore: counters and descriptions that a process publishes per device, for operator tools.
//
// The owner opens with pid 0 and writes; others open with its pid and read. Counters are lock-free
// 64-bit words; objects (models, process information) are written to a private copy and published
// by nds_obj_commit. Functions return 0, or a negative errno value: -EINVAL for a bad index or
// handle, -EPERM for writing to another process's datastore, -ENOSPC when the block is full.
// Thread-safe: counters; objects are used by one thread at a time.
#ifndef NEURON_DS_H
#define NEURON_DS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ndl/ndl.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define OBJECT_TYPE_MODEL_NODE_INFO (0)
#define OBJECT_TYPE_PROCESS_INFO (1)
#define OBJECT_TYPE_PROCESS_INFO_EXT (2)

#define MODEL_MEM_USAGE_LOCATION_COUNT 2  // host, device

typedef struct nds_instance nds_instance_t;
typedef void *nds_obj_handle_t;

// Slots of nds_model_node_mem_usage_info_t, per location; the rest up to COUNT is reserved.
enum {
  NDS_DMA_MEM_USAGE_SLOT_CODE = 0,
  NDS_DMA_MEM_USAGE_SLOT_TENSORS = 1,
  NDS_DMA_MEM_USAGE_SLOT_CONSTANTS = 2,
  NDS_DMA_MEM_USAGE_SLOT_SCRATCHPAD = 3,
  NDS_DMA_MEM_USAGE_SLOT_MISC = 4,
  NDS_DMA_MEM_USAGE_SLOT_COUNT = 12,
};

typedef struct nds_mem_usage_info {
  size_t total_size;  // bytes
  uint32_t chunk_count;
} nds_mem_usage_info_t;

typedef struct nds_model_node_info {
  uint32_t model_id;
  uint32_t model_node_id;
  char name[256];
  char uuid[16];
  uint8_t nc_index;
  uint8_t sg_index;
} nds_model_node_info_t;

typedef struct nds_model_node_mem_usage_info {
  nds_mem_usage_info_t model_mem_usage[MODEL_MEM_USAGE_LOCATION_COUNT]
                                      [NDS_DMA_MEM_USAGE_SLOT_COUNT];
} nds_model_node_mem_usage_info_t;

typedef struct nds_version_info {
  uint8_t major;
  uint8_t minor;
  uint32_t build;
} nds_version_info_t;

typedef struct nds_process_info {
  int8_t framework_type;  // nrt_framework_type_t
  char tag[32];           // NEURON_PROCESS_TAG, shortened
  nds_version_info_t framework_version;
  nds_version_info_t fal_version;
  nds_version_info_t runtime_version;
} nds_process_info_t;

typedef struct nds_process_info_ext {
  char tag[256];
} nds_process_info_ext_t;

// Bits of NDS_ND_COUNTER_FEATURE_BITMAP.
typedef enum feature_bitmap_bit_index {
  BIT_INDEX_TEST_FEATURE = 0,
  BIT_INDEX_MULTICORE_FEATURE = 1,
  BIT_INDEX_COUNT = 2,
} feature_bitmap_bit_index_t;

// Opens the datastore of a process on a device; pid 0: this process, created if needed.
int nds_open(ndl_device_t *device, pid_t pid, nds_instance_t **inst);

// Frees the instance and its objects; the owner's datastore goes with it.
int nds_close(nds_instance_t *inst);

// Counters of physical core pnc_index (NDS_NC_COUNTER_*, NDS_EXT_NC_COUNTER_*). A decrement stops
// at 0. `value` of the setter is an input.
int nds_increment_nc_counter(nds_instance_t *inst, int pnc_index, uint32_t counter_index,
                             uint64_t increment);
int nds_decrement_nc_counter(nds_instance_t *inst, int pnc_index, uint32_t counter_index,
                             uint64_t decrement);
int nds_get_nc_counter(nds_instance_t *inst, int pnc_index, uint32_t counter_index,
                       uint64_t *value);
int nds_set_nc_counter(nds_instance_t *inst, int pnc_index, uint32_t counter_index,
                       uint64_t *value);

// Counters of the device (NDS_ND_COUNTER_*). nds_or_nd_counter sets bit number bit_index.
int nds_increment_nd_counter(nds_instance_t *inst, uint32_t counter_index, uint64_t increment);
int nds_decrement_nd_counter(nds_instance_t *inst, uint32_t counter_index, uint64_t decrement);
int nds_or_nd_counter(nds_instance_t *inst, uint32_t counter_index, uint64_t bit_index);
int nds_get_nd_counter(nds_instance_t *inst, uint32_t counter_index, uint64_t *value);
int nds_set_nd_counter(nds_instance_t *inst, uint32_t counter_index, uint64_t *value);

// A new object of a kind (OBJECT_TYPE_*), zeroed; NULL when there is no room for one more.
nds_obj_handle_t nds_obj_new(nds_instance_t *inst, int type);

// Publishes what the caller wrote through the pointers below.
int nds_obj_commit(nds_obj_handle_t obj);

// Removes an object, or forgets one that was read.
int nds_obj_delete(nds_obj_handle_t obj);

// Contents of an object, valid until it is deleted or the instance closed; NULL for another kind.
nds_model_node_info_t *nds_obj_handle_to_model_node_info(nds_obj_handle_t obj);
nds_model_node_mem_usage_info_t *nds_obj_handle_to_model_node_mem_usage(nds_obj_handle_t obj);
nds_process_info_t *nds_obj_handle_to_process_info(nds_obj_handle_t obj);
nds_process_info_ext_t *nds_obj_handle_to_process_info_ext(nds_obj_handle_t obj);

// All published models: *models is a malloc() block of *count handles that the caller frees; the
// handles stay the instance's.
int nds_read_all_model_nodes(nds_instance_t *inst, nds_obj_handle_t **models, size_t *count);

// Published process information; NULL if there is none.
nds_obj_handle_t nds_read_process_info(nds_instance_t *inst);
nds_obj_handle_t nds_read_process_info_ext(nds_instance_t *inst);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NEURON_DS_H
