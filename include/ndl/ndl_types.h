// SPDX-License-Identifier: Apache-2.0
// Types and limits of the driver library.
//
// A device, its allocations and its notification queues are made by ndl_* functions and only read
// by callers. An ndl_device_t is shared by all openers of one device in a process and lives until
// its last ndl_close_device. Layouts are part of the interface: tools read them directly.
#ifndef NDL_TYPES_H
#define NDL_TYPES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ndl/neuron_driver_shared.h"
#include "ndl/neuron_driver_shared_tensor_batch_op.h"

#define MAX_NEURON_DEVICE_COUNT 64  // devices of one host
#define NEURON_MAX_DEVICES MAX_NEURON_DEVICE_COUNT
#define NEURON_DEVICE_PREFIX "/dev/neuron"
#define NEURON_DRIVER_LIBRARY_MAJOR 1
#define NEURON_DRIVER_LIB_MINOR 0
#define MAX_HBM_PER_DEVICE 4
#define MAX_NC_PER_DEVICE 8
#define DRIVER_VERSION_MAX_SIZE 32
#define NDL_COPY_BUF_SIZE (2ull * 1024 * 1024)  // bytes of a ndl_copy_buf_t

// Who writes into a notification queue; the numbers of enum NQ_DEVICE_TYPE.
typedef enum NQ_DEV_TYPE {
  NQ_DEV_TYPE_NEURON_CORE = 0,
  NQ_DEV_TYPE_TOPSP = 1,  // collectives core
  NQ_DEV_TYPE_MAX = 2,
} ndl_nq_dev_t;

typedef struct ndl_version_info {
  uint16_t driver_major_version;
  uint16_t driver_minor_version;
  char driver_full_version[DRIVER_VERSION_MAX_SIZE];  // text, NUL-terminated
  uint16_t library_major_version;
  uint16_t library_minor_version;
} ndl_version_info_t;

typedef struct ndl_device_init_param {
  bool initialize_device;  // accepted; current drivers initialise at probe
  int num_dram_regions;    // 0 or 1
  bool map_hbm;            // map each HBM whole, where the device offers that
  bool skip_copy_bufs;     // of newer clients; copies use no buffers here, so it changes nothing
} ndl_device_init_param_t;

// Host memory that the device can reach, for staging; one per core, made on first use.
typedef struct ndl_copy_buf {
  uint64_t mem_handle;
  void *mmap_va;
  pthread_mutex_t lock;  // held while the buffer is used
} ndl_copy_buf_t;

typedef struct ndl_device {
  uint8_t device_index;
  uint8_t device_type;  // architecture: 2 Trn1 and Inf2, 3 Trn2, 4 Trn3
  uint16_t device_revision;
  uint8_t connected_device_count;
  uint8_t connected_devices[MAX_NEURON_DEVICE_COUNT];  // device indexes
  uint64_t csr_base[2];                                // base of register addresses: BAR 0, BAR 2
  uint64_t csr_size[2];
  ndl_copy_buf_t cpy_bufs[MAX_NC_PER_DEVICE];
  void *hbm_va[MAX_HBM_PER_DEVICE];  // NULL where an HBM is not mapped whole
  size_t hbm_size;                   // bytes of one mapped HBM, 0 if none is
  uint32_t hbm_va_cnt;
  uint32_t shift_hbm_size;
  uint64_t hbm_offset[MAX_HBM_PER_DEVICE];
  NEURON_EXTENSION_BEGIN
  uint8_t context[];  // ndl_device_context_t
  NEURON_EXTENSION_END
} ndl_device_t;

typedef struct ndl_device_nc {
  ndl_device_t *device;
  uint32_t nc_id;
} ndl_device_nc_t;

typedef struct ndl_device_context {
  int nd_fd;  // descriptor of the device node; negative on an emulated device
} ndl_device_context_t;

// One allocation.
typedef struct ndl_mem_info {
  ndl_device_t *device;
  __u64 driver_handle;  // the driver's handle
  uint64_t pa;
  uint64_t mmap_offset;
  uint64_t size;
  uint32_t align;
  void *mmap_va;  // NULL while not mapped
  uint32_t host_memory;
  int nc_id;
} ndl_mem_info_t;

typedef struct ndl_notification_context {
  NEURON_EXTENSION_BEGIN
  union {
    uint8_t nc_id;
    uint8_t nq_dev_id;  // core or collectives core
  };
  NEURON_EXTENSION_END
  ndl_nq_dev_t nq_dev_type;
  uint8_t nq_type;  // enum NQ_TYPE
  uint8_t engine_index;
  uint32_t size;  // bytes
  int fd;
  uint64_t offset;  // for mmap
  uint64_t mem_handle;
  void *va;  // NULL while not mapped
  ndl_mem_info_t *mem_info;
} ndl_notification_context_t;

#define MAX_NDL_QUEUE_INIT_BATCH 256

// One entry of ndl_dma_queue_init_batch; see ndl_dma_queue_init.
struct ndl_queue_init {
  __u32 eng_id;
  __u32 qid;
  __u32 tx_desc_count;
  __u32 rx_desc_count;
  __u64 tx_handle;
  __u64 rx_handle;
  __u64 rxc_handle;
  __u32 axi_port;
};

struct ndl_queue_init_batch {
  __u32 count;  // at most MAX_NDL_QUEUE_INIT_BATCH - 1
  struct ndl_queue_init entries[MAX_NDL_QUEUE_INIT_BATCH];
};

#endif  // NDL_TYPES_H
