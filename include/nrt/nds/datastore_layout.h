// SPDX-License-Identifier: Apache-2.0
// Where this implementation keeps what the public layout of a datastore has no place for: objects
// (models, process information), and per-core measurements of finer grain.
//
// The owner writes through nds_* functions or atomic adds; readers copy the block or map it, and
// treat it as hostile: any process may have written there. Offsets are from the start of the
// block. Others ignore both areas: objects lie in the gap before the retired extension, which is
// private to user space, and the measurements behind everything that uapi/neuron_datastore.h names.
#ifndef NEURON_DS_LAYOUT_H
#define NEURON_DS_LAYOUT_H

#include "nrt/nds/neuron_ds.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NDS_BLOCK_BYTES (256u << 10)

// ---- objects: a slot is a header, then the object's bytes ----

typedef struct nds_slot {
  uint32_t state;     // NDS_SLOT_*
  uint32_t sequence;  // odd while the owner writes; readers repeat when it has changed
} nds_slot_t;

#define NDS_SLOT_FREE 0
#define NDS_SLOT_TAKEN 1
#define NDS_SLOT_PUBLISHED 2

// Model information and memory use, one after the other.
typedef struct nds_model_bytes {
  nds_model_node_info_t info;
  uint8_t pad[4];
  nds_model_node_mem_usage_info_t usage;
} nds_model_bytes_t;

#define NDS_ALIGN8(bytes) (((bytes) + 7) & ~(size_t)7)
#define NDS_SLOT_PROCESS NDS_ALIGN8(NDS_NEURONCORE_COUNTERS_START + NDS_NEURONCORE_COUNTERS_SIZE)
#define NDS_SLOT_PROCESS_EXT \
  (NDS_SLOT_PROCESS + NDS_ALIGN8(sizeof(nds_slot_t) + sizeof(nds_process_info_t)))
#define NDS_SLOT_MODELS \
  (NDS_SLOT_PROCESS_EXT + NDS_ALIGN8(sizeof(nds_slot_t) + sizeof(nds_process_info_ext_t)))
#define NDS_SLOT_MODEL_STRIDE NDS_ALIGN8(sizeof(nds_slot_t) + sizeof(nds_model_bytes_t))
#define NDS_SLOT_MODEL_COUNT ((NDS_EXT_OFFSET_OLD - NDS_SLOT_MODELS) / NDS_SLOT_MODEL_STRIDE)

// ---- measurements ----

#define NDS_OPEN_OFFSET (128u << 10)
#define NDS_OPEN_SIGNATURE "nrtopen"  // eight bytes with its end
#define NDS_OPEN_VERSION 1u           // fields are only ever added at the end of a core's part
#define NDS_OPEN_CORES 16u
#define NDS_OPEN_ENGINES 5u  // PE, Activation, Pool, DVE, SP
#define NDS_OPEN_LATENCY_BUCKETS 128u

typedef struct nds_open_header {
  char signature[8];
  uint32_t version;
  uint32_t core_bytes;    // of one nds_open_core_t, from one core to the next
  uint32_t latency_step;  // buckets of a histogram in which its limit doubles
  uint32_t reserved;
} nds_open_header_t;

// One physical core; 64-bit words that grow, and wrap.
typedef struct nds_open_core {
  uint64_t in_use_ps;  // model time, of which NDS_NC_COUNTER_TIME_IN_USE has the microseconds
  uint64_t collectives_ps;
  uint64_t engine_busy_ps[NDS_OPEN_ENGINES];
  uint64_t dma_bytes;   // moved for programs
  uint64_t link_bytes;  // of these, to other devices
  uint64_t reserved[7];
  // Bucket i counts those below 2^(i / latency_step) microseconds that no smaller bucket has; the
  // last has the rest.
  uint64_t device_latency[NDS_OPEN_LATENCY_BUCKETS];
  uint64_t total_latency[NDS_OPEN_LATENCY_BUCKETS];
} nds_open_core_t;

#define NDS_OPEN_HEADER(base_addr) ((nds_open_header_t *)((base_addr) + NDS_OPEN_OFFSET))
#define NDS_OPEN_CORE(base_addr, nc_index) \
  ((nds_open_core_t *)((base_addr) + NDS_OPEN_OFFSET + 64) + (nc_index))

#ifdef __cplusplus
}
static_assert(sizeof(nds_model_bytes_t) == 672 && sizeof(nds_open_header_t) == 24);
static_assert(sizeof(nds_open_core_t) == (16 + 2 * NDS_OPEN_LATENCY_BUCKETS) * 8);
static_assert(NDS_EXT_NEURONCORE_NC_DATA_START + NDS_EXT_NEURONCORE_NC_DATA_SIZE <=
              NDS_OPEN_OFFSET);
static_assert(NDS_OPEN_OFFSET + 64 + NDS_OPEN_CORES * sizeof(nds_open_core_t) <= NDS_BLOCK_BYTES);
#endif

#endif  // NEURON_DS_LAYOUT_H
