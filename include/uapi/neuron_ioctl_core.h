/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Arguments of the core calls of /dev/neuronN: reset, initialisation, marks and locks, semaphores,
 * events, notification queues, datastore (numbers and rules: neuron_ioctl.h).
 *
 * nc_id counts the cores of the opened device from 0.
 */
#ifndef NEURON_UAPI_IOCTL_CORE_H
#define NEURON_UAPI_IOCTL_CORE_H

#include "uapi/neuron_abi.h"
#include "uapi/neuron_shared.h"

/* Of a call without effect. */
struct neuron_ioctl_device_init {
  __u32 mem_regions;
};

/* Queues a reset of the cores in nc_map (bit per core, NEURON_NC_MAP_DEVICE for all). */
struct neuron_ioctl_device_reset {
  __u32 nc_map;
  __u32 request_id; /* out: the process id of the caller */
};

/* Waits for that reset and consumes it. */
struct neuron_ioctl_device_ready {
  __u32 request_id;
  __s32 result; /* out: 0 done, 1 failed or unknown request */
};

/* Once-per-reset handshake: the process that gets STARTED back initialises the core and then sets
 * COMPLETED.
 */
struct neuron_ioctl_cinit_set {
  __u32 nc_id;
  __u32 state;     /* enum neuron_cinit_state */
  __u32 new_state; /* out: state after the call */
};

/* Model starts seen on a core; only Inf1 counts them. */
struct neuron_ioctl_nc_model_started_count {
  __u32 nc_id;
  __u64 started_count; /* out */
};

/* Reader-writer lock of a core, keyed by model and process. */
struct neuron_ioctl_crwl {
  __u32 nc_id;
  struct neuron_uuid uuid;
};

/* Claims nc_count consecutive cores of the host between start and end, or gives bitmap back. */
struct neuron_ioctl_crwl_nc_map {
  __u32 nc_count;
  __u32 start_nc_index;
  __u32 end_nc_index;
  __u32 max_nc_available;        /* out: longest free run when it fails */
  volatile unsigned long bitmap; /* out for mark, in for unmark */
};

/* The same with room for 512 cores. */
struct neuron_ioctl_crwl_nc_map_ext {
  __u32 nc_count;
  __u32 start_nc_index;
  __u32 end_nc_index;
  __u32 max_nc_available;  /* out: longest free run when it fails */
  unsigned long bitmap[8]; /* out for mark, in for unmark */
};

/* Adds to, subtracts from, sets or reads a semaphore. */
struct neuron_ioctl_semaphore {
  __u32 nc_id;
  __u32 semaphore_index; /* 0 to 255 */
  __u32 value;           /* in, out for read */
};

/* Sets or reads an event. */
struct neuron_ioctl_event {
  __u32 nc_id;
  __u32 event_index;
  __u32 value; /* in, out for get */
};

/* Creates a notification queue in host memory. */
struct neuron_ioctl_notifications_init_v1 {
  __u32 nc_id;
  __u32 nq_type;
  __u32 engine_index;
  __u32 size;        /* bytes, a power of two */
  __u64 mmap_offset; /* out */
};

/* Creates, or finds, a notification queue. An existing one is returned unchanged, whatever was
 * asked for. */
struct neuron_ioctl_notifications_init_v2 {
  __u32 nq_dev_id;    /* core or CC core */
  __u32 nq_dev_type;  /* enum NQ_DEVICE_TYPE */
  __u32 nq_type;      /* enum NQ_TYPE */
  __u32 engine_index; /* 0 to 15 */
  __u32 size;         /* bytes, a power of two */
  __u32 on_host_memory;
  __u32 dram_channel;
  __u32 dram_region;
  __u64 mmap_offset; /* out; all ones for a queue in device memory */
  __u64 mem_handle;  /* out */
};

/* The same; force_alloc_mem replaces the buffer of an existing queue. */
struct neuron_ioctl_notifications_init_with_realloc_v2 {
  __u32 nq_dev_id;
  __u32 nq_dev_type;
  __u32 nq_type;
  __u32 engine_index;
  __u32 size;
  __u32 on_host_memory;
  __u32 dram_channel;
  __u32 dram_region;
  __u32 force_alloc_mem;
  __u64 mmap_offset; /* out */
  __u64 mem_handle;  /* out */
};

/* No effect: a queue lives until its core is reset. */
struct neuron_ioctl_notifications_destroy {
  __u64 mmap_offset;
};

/* Names a queue by its place; no released call takes it. */
struct neuron_ioctl_notifications_destroy_nq {
  __u32 nq_dev_id;
  __u32 nq_type;
  __u32 engine_index;
};

/* Of a call that always fails. */
struct neuron_ioctl_notifications_queue_info {
  __u8 nq_dev_id;
  __u8 nq_dev_type;
  __u8 nq_type;
  __u8 engine_index;
  __u32 head;
  __u32 phase_bit;
};

/* Datastore of a process (neuron_datastore.h). */
struct neuron_ioctl_neuron_ds_info {
  __s32 pid;         /* 0: the caller */
  __u64 mmap_offset; /* out */
  __u32 size;        /* out */
};

/* Prints the owner of a core and recent driver calls to the kernel log. */
struct neuron_ioctl_nc_pid_state_dump {
  __u32 size;  /* sizeof this struct */
  __u32 nc_id; /* core of the host */
  __u32 filter_log_owner;
  __u32 log_dump_limit; /* entries; 0 means 128 */
};

#endif /* NEURON_UAPI_IOCTL_CORE_H */
