/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Enumerations and small structs that the kernel interface, the driver library and the operator
 * tools have in common. Numbers are the contract; nothing here is ever renumbered.
 *
 * Included through neuron_ioctl.h by drivers and through ndl/neuron_driver_shared.h by libraries.
 */
#ifndef NEURON_UAPI_SHARED_H
#define NEURON_UAPI_SHARED_H

#include "uapi/neuron_abi.h"
#include "uapi/neuron_tensor_batch_op.h"

/*
 * What a driver can do: bits of neuron_ioctl_device_driver_info.feature_flags1. A driver that does
 * not know NEURON_IOCTL_DRIVER_INFO_GET has none of them. Features are asked for one by one; a
 * version number is never compared to find out.
 */
enum neuron_driver_feature_flag {
  NEURON_DRIVER_FEATURE_DMABUF = 1,                  /* NEURON_IOCTL_DMABUF_FD works */
  NEURON_DRIVER_FEATURE_ASYNC_DMA = 2,               /* 64-bit asynchronous copies */
  NEURON_DRIVER_FEATURE_BATCH_DMAQ_INIT = 4,         /* NEURON_IOCTL_DMA_QUEUE_INIT_BATCH */
  NEURON_DRIVER_FEATURE_BIG_CORE_MAPS = 8,           /* 512-bit core marks (..._EXT0) */
  NEURON_DRIVER_FEATURE_MEM_ALLOC_TYPE = 16,         /* accounting category in allocations */
  NEURON_DRIVER_FEATURE_HBM_SCRUB = 32,              /* NEURON_IOCTL_HBM_SCRUB_* */
  NEURON_DRIVER_FEATURE_MEM_ALLOC64 = 64,            /* allocations of 4 GiB and more */
  NEURON_DRIVER_FEATURE_CONTIGUOUS_SCRATCHPAD = 128, /* growing scratchpad at the end of an HBM */
  NEURON_DRIVER_FEATURE_ZEROCOPY = 256,              /* 48-byte zero-copy and batches */
};

/* Kind of UltraServer ("pod") that this host belongs to. */
enum {
  NEURON_POD_TYPE_NONE = 0,   /* a host of its own */
  NEURON_POD_TYPE_P2P = 1,    /* hosts joined chip to chip */
  NEURON_POD_TYPE_SWITCH = 2, /* hosts joined by switches */
};

/* Where the election that gives UltraServer nodes their ids stands. */
enum {
  NEURON_POD_E_STATE_NOT_STARTED = 0,
  NEURON_POD_E_STATE_IN_PROGRESS = 1,
  NEURON_POD_E_STATE_ULTRASERVER = 2, /* elected: node ids are valid */
  NEURON_POD_E_STATE_FAILED = 3,
  NEURON_POD_E_STATE_SINGLE_NODE = 4, /* runs alone */
};

/* What NEURON_IOCTL_POD_CTRL is asked to do. */
enum neuron_pod_ctrl_req {
  NEURON_NPE_POD_CTRL_REQ_POD = 0,         /* start an election */
  NEURON_NPE_POD_CTRL_REQ_SINGLE_NODE = 1, /* leave: work as a single node */
  NEURON_NPE_POD_CTRL_REQ_KILL = 2,        /* stop a running election */
  NEURON_NPE_POD_CTRL_SET_MODE = 3,        /* choose an enum neuron_ultraserver_mode */
};

/* How many nodes of an UltraServer work together. */
enum neuron_ultraserver_mode {
  NEURON_ULTRASERVER_MODE_UNSET = 0,
  NEURON_ULTRASERVER_MODE_X4 = 1,  /* four nodes */
  NEURON_ULTRASERVER_MODE_X2H = 2, /* two nodes over the right-hand links */
  NEURON_ULTRASERVER_MODE_X2V = 3, /* two nodes over the left-hand links */
  NEURON_ULTRASERVER_MODE_X1 = 4,  /* one node */
};

/* Periodic posting of metrics by the driver. */
enum neuron_metrics_mode {
  NEURON_METRICS_MODE_PERIODIC_ENABLE = 0,
  NEURON_METRICS_MODE_PERIODIC_DISABLE = 1,
};

/* Core map of a reset request that means the whole device. */
#define NEURON_NC_MAP_DEVICE (0xffffffff)

/* The rings of a DMA queue. */
enum neuron_dma_queue_type {
  NEURON_DMA_QUEUE_TYPE_TX = 0,         /* descriptors that read memory */
  NEURON_DMA_QUEUE_TYPE_RX = 1,         /* descriptors that write memory */
  NEURON_DMA_QUEUE_TYPE_COMPLETION = 2, /* completion ring; never used by these drivers */
};

/* State of the once-per-reset initialisation of a core (NEURON_IOCTL_CINIT_SET_STATE). */
enum neuron_cinit_state {
  NEURON_CINIT_STATE_STARTED = 1,   /* a process initialises the core */
  NEURON_CINIT_STATE_COMPLETED = 2, /* the core is ready */
  NEURON_CINIT_STATE_INVALID = 3,   /* never initialised, or reset since */
};

/* Registers of a DMA engine, as NEURON_IOCTL_DMA_ENG_GET_STATE reports them. */
struct neuron_dma_eng_state {
  __u32 revision_id;
  __u32 max_queues; /* queues the engine has */
  __u32 num_queues; /* queues in use */
  __u32 tx_state;
  __u32 rx_state;
};

/* Registers of one ring of a DMA queue; addresses are bus addresses, pointers count descriptors. */
struct neuron_dma_queue_state {
  __u32 hw_status;
  __u32 sw_status;
  __u64 base_addr;
  __u32 length; /* descriptors */
  __u32 head_pointer;
  __u32 tail_pointer;
  __u64 completion_base_addr;
  __u32 completion_head;
};

/* Names of the transfers that may be in flight on one host-to-device ring. */
enum neuron_dma_h2t_ctx_handle_type {
  NEURON_DMA_H2T_CTX_HANDLE_NONE = -1,  /* no earlier transfer to wait for */
  NEURON_DMA_H2T_CTX_HANDLE_SYNC = 0,   /* already complete */
  NEURON_DMA_H2T_CTX_HANDLE_ASYNC1 = 1, /* first of two transfers in flight */
  NEURON_DMA_H2T_CTX_HANDLE_ASYNC2 = 2, /* second */
  NEURON_DMA_H2T_CTX_HANDLE_CNT = 3,
};

/* Queue id that means the default host-to-device queue of the core. */
#define NEURON_DMA_H2T_DEFAULT_QID (-1)

/* Who writes into a notification queue. */
enum NQ_DEVICE_TYPE {
  NQ_DEVICE_TYPE_NEURON_CORE = 0, /* a NeuronCore */
  NQ_DEVICE_TYPE_TOPSP = 1,       /* a collectives (CC) core */
  NQ_DEVICE_TYPE_MAX = 2,
};

/* What a notification queue carries. */
enum NQ_TYPE {
  NQ_TYPE_TRACE = 0,     /* instruction traces */
  NQ_TYPE_NOTIFY = 1,    /* explicit notifications of programs */
  NQ_TYPE_EVENT = 2,     /* event changes */
  NQ_TYPE_ERROR = 3,     /* errors */
  NQ_TYPE_TRACE_DMA = 4, /* traces of one DMA engine */
  NQ_TYPE_THROTTLE = 5,  /* throttling */
  NQ_TYPE_MAX = 6,
};

/* Block of the chip in NEURON_IOCTL_RESOURCE_MMAP_INFO. */
enum neuron_dm_block_type {
  NEURON_DM_BLOCK_INVALID = -1,
  NEURON_DM_BLOCK_TPB = 0,
  NEURON_DM_BLOCK_TOPSP = 1,
  NEURON_DM_BLOCK_HBM = 2,
};

/* Part of the block in NEURON_IOCTL_RESOURCE_MMAP_INFO. */
enum neuron_dm_resource_type {
  NEURON_DM_RESOURCE_SEMAPHORE = 0, /* semaphores and events */
  NEURON_DM_RESOURCE_ALL = 1,       /* the whole block */
  NEURON_DM_RESOURCE_SBUF = 2,      /* state buffer */
  NEURON_DM_RESOURCE_DMEM = 3,      /* device memory */
};

/* Identity of a model, chosen by user space; the driver only compares it. */
struct neuron_uuid {
  __u8 value[32];
};

#define NEURON_MAX_PROCESS_PER_DEVICE 16

/* apps_info_flags of NEURON_IOCTL_DEVICE_GET_ALL_APPS_INFO: which columns are wanted. */
#define APP_INFO_PID_NC_LOCK_INFO (1)
#define APP_INFO_PID_MEM_USAGE (1 << 1)
#define APP_INFO_ALL (0xF)

#define APP_INFO_MAX_MODELS_PER_DEVICE (4)
#define NDS_INVALID_ID (-1)

/* One process attached to a device. Pids are those of the initial namespace. */
struct neuron_app_info {
  __s32 pid;
  __u8 nc_lock_map;                /* bit per core that the process holds (cores 0 to 3) */
  struct neuron_uuid uuid_data[4]; /* model on each of those cores */
  size_t host_mem_size;            /* bytes */
  size_t device_mem_size;          /* bytes */
};

/* A version packed into one counter of the datastore. */
typedef union nmetric_version {
  NEURON_EXTENSION_BEGIN
  struct {
    __u64 build_num : 32;
    __u64 minor_ver : 8;
    __u64 major_ver : 8;
    __u64 reserved : 16; /* framework type, where the counter describes a framework */
  };
  NEURON_EXTENSION_END
  __u64 all;
} nmetric_version_t;

/* One live allocation in device memory (NEURON_IOCTL_DUMP_MEM_CHUNKS). */
struct neuron_ioctl_mem_chunk_info {
  __u64 pa;
  __u64 size;
  __u32 mem_type; /* mem_alloc_category_t */
};

#define NEURON_NC_MAP_MAX_ENTRIES 128

/* Layout version of the core map. */
enum neuron_ioctl_nc_mapping_type {
  NEURON_IOCTL_NC_MAPPING_TYPE_V0 = 0,
};

/* Physical place of one logical core. */
struct neuron_ioctl_nc_map_entry {
  __u32 device_id;
  __u32 device_nc_idx;
};

/* Logical core i is mappings[i]; the caller provides room for max_map_entries of them. */
struct neuron_ioctl_nc_map {
  __u32 num_entries;
  NEURON_EXTENSION_BEGIN
  struct neuron_ioctl_nc_map_entry mappings[];
  NEURON_EXTENSION_END
};

/* Transfers between host buffers and one device allocation; ops run in order. */
typedef struct neuron_memcpy_batch {
  __u64 mem_handle;
  __u64 mem_handle_offset;              /* added to the offset of every op */
  const nrt_tensor_batch_op_t *ops_ptr; /* num_ops transfers */
  __u32 num_ops;
  __u16 bar4_wr_threshold; /* up to this many bytes may be written by the CPU */
  __u16 flags;             /* 0 */
  void *context;           /* ignored by the driver */
} neuron_memcpy_batch_t;

/* Who an allocation is accounted to. HOST categories live in host memory, DEVICE ones in HBM. */
typedef enum {
  NEURON_MEMALLOC_TYPE_UNKNOWN_HOST = 0,
  NEURON_MEMALLOC_TYPE_CODE_HOST = 1,
  NEURON_MEMALLOC_TYPE_TENSORS_HOST = 2,
  NEURON_MEMALLOC_TYPE_CONSTANTS_HOST = 3,
  NEURON_MEMALLOC_TYPE_MISC_HOST = 4,
  NEURON_MEMALLOC_TYPE_NCDEV_HOST = 5, /* the driver itself */
  NEURON_MEMALLOC_TYPE_NOTIFICATION_HOST = 6,
  NEURON_MEMALLOC_TYPE_UNKNOWN_DEVICE = 7,
  NEURON_MEMALLOC_TYPE_CODE_DEVICE = 8,
  NEURON_MEMALLOC_TYPE_TENSORS_DEVICE = 9,
  NEURON_MEMALLOC_TYPE_CONSTANTS_DEVICE = 10,
  NEURON_MEMALLOC_TYPE_SCRATCHPAD_DEVICE = 11,
  NEURON_MEMALLOC_TYPE_MISC_DEVICE = 12,
  NEURON_MEMALLOC_TYPE_NCDEV_DEVICE = 13, /* the driver itself */
  NEURON_MEMALLOC_TYPE_COLLECTIVES_DEVICE = 14,
  NEURON_MEMALLOC_TYPE_SCRATCHPAD_NONSHARED_DEVICE = 15,
  NEURON_MEMALLOC_TYPE_NOTIFICATION_DEVICE = 16,
  NEURON_MEMALLOC_TYPE_DMA_RINGS_HOST = 17,
  NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE = 18,
  NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE = 19,
  NEURON_MEMALLOC_TYPE_MAX = 20, /* number of categories */
} mem_alloc_category_t;

#endif /* NEURON_UAPI_SHARED_H */
