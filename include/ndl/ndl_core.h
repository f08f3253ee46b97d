// SPDX-License-Identifier: Apache-2.0
// NeuronCores: claims, reset, locks, semaphores, events, notification queues, datastore.
// Rules for all functions: ndl.h. nc_id and nc_index count the cores of one device from 0.
#ifndef NDL_CORE_H
#define NDL_CORE_H

#include "ndl/ndl_types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// Claims nc_count consecutive free cores of the host between start_nc and end_nc (both inclusive,
// numbered device * cores per device + core). bitmap: `size` bytes, zeroed, then one bit per
// claimed core. Claims end with ndl_crwl_nc_range_unmark or with the process. -EBUSY: not enough;
// *max_nc_available (may be NULL) is the longest run that is free.
int ndl_crwl_nc_range_mark(uint32_t nc_count, uint32_t start_nc, uint32_t end_nc,
                           uint32_t *max_nc_available, uint64_t *bitmap, size_t size);
int ndl_crwl_nc_range_unmark(uint64_t *bitmap, size_t size);

// Starts a reset of the cores in nc_map (bit per core, NEURON_NC_MAP_DEVICE for the device) and
// returns its id. Nothing may be sent to these cores until ndl_ready_ncs said that it is done. One
// reset per process and device at a time. Memory, claims and locks survive; notification queues do
// not.
int ndl_reset_ncs(int device_index, int nc_map, uint32_t *request_id);

// Waits for a reset. *result: 1 done, 0 failed. The driver bounds the wait (minutes on hardware).
int ndl_ready_ncs(int device_index, uint32_t request_id, uint8_t *result);

// Once-per-reset initialisation of a core, agreed between processes: ask with
// NEURON_CINIT_STATE_STARTED. The process that gets that state back initialises the core and then
// sets NEURON_CINIT_STATE_COMPLETED. Others get COMPLETED, after a wait of at most 5 s.
int ndl_nc_init_set_state(ndl_device_t *device, uint32_t nc_id, uint32_t state,
                          uint32_t *new_state);

// Model starts seen by the driver; counts on Inf1 only.
int ndl_nc_model_started_count(ndl_device_t *device, uint32_t nc_id, uint64_t *started_count);

// Lock of a core, keyed by model: a writer changes the model, readers run it. Order of calls:
// writer_enter, writer_downgrade, reader_exit; reader_enter, reader_exit. -EBUSY after the driver's
// wait of a few seconds; -ENOENT: another model is current; writer_enter gives -EALREADY, with the
// lock taken, if this model is already current.
int ndl_crwl_reader_enter(ndl_device_t *device, int nc_index, struct neuron_uuid uuid);
int ndl_crwl_reader_exit(ndl_device_t *device, int nc_index, struct neuron_uuid uuid);
int ndl_crwl_writer_enter(ndl_device_t *device, int nc_index, struct neuron_uuid uuid);
int ndl_crwl_writer_downgrade(ndl_device_t *device, int nc_index, struct neuron_uuid uuid);

// Semaphores (index 0 to 255) and events of a core. -E2BIG: no such core; -EINVAL: no such index.
int ndl_nc_semaphore_increment(ndl_device_t *device, int nc_index, uint32_t semaphore_index,
                               uint32_t value);
int ndl_nc_semaphore_decrement(ndl_device_t *device, int nc_index, uint32_t semaphore_index,
                               uint32_t value);
int ndl_nc_semaphore_read(ndl_device_t *device, int nc_index, uint32_t semaphore_index,
                          uint32_t *value);
int ndl_nc_semaphore_write(ndl_device_t *device, int nc_index, uint32_t semaphore_index,
                           uint32_t value);
int ndl_nc_event_get(ndl_device_t *device, int nc_index, uint32_t event_index, uint32_t *value);
int ndl_nc_event_set(ndl_device_t *device, int nc_index, uint32_t event_index, uint32_t value);

// Creates a notification queue of `size` bytes (a power of two) in host or device memory.
// nq_dev_id: core, or collectives core, by nq_dev_type; nq_type: enum NQ_TYPE; engine_index: 0
// to 15. An existing queue is returned unchanged, whatever size was asked for;
// ndl_notification_get_size gives its size. *notification_context identifies the queue until
// ndl_notification_destroy.
int ndl_notification_init(ndl_device_t *device, int nq_dev_id, ndl_nq_dev_t nq_dev_type,
                          uint8_t nq_type, uint8_t engine_index, uint32_t size, bool on_host_memory,
                          uint32_t dram_channel, uint32_t dram_region,
                          uint64_t *notification_context);

// The same; force_alloc_mem replaces the buffer of an existing queue.
int ndl_notification_init_with_realloc(ndl_device_t *device, int nq_dev_id,
                                       ndl_nq_dev_t nq_dev_type, uint8_t nq_type,
                                       uint8_t engine_index, uint32_t size, bool on_host_memory,
                                       uint32_t dram_channel, uint32_t dram_region,
                                       bool force_alloc_mem, uint64_t *notification_context);

// mem_handle of the queue's buffer for ndl_memory_* calls; it is valid as long as the context.
int ndl_notification_get_mem_handle(uint64_t notification_context, uint64_t *mem_handle);
int ndl_notification_get_size(uint64_t notification_context, uint32_t *size);

// Maps the buffer; a second call returns the same address.
int ndl_notification_map(uint64_t notification_context, void **va);

// Forgets the context and its mapping; the queue itself lives until its core is reset.
int ndl_notification_destroy(uint64_t notification_context);

// Maps the datastore of a process on this device; pid 0: this process, created if needed. -ENOENT:
// no such process; -ENOMEM: 16 processes have one. Close with the same values; closing pid 0 also
// gives the datastore up.
int ndl_nds_open(ndl_device_t *device, int32_t pid, void **data, size_t *size);
int ndl_nds_close(ndl_device_t *device, int32_t pid, void *data, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NDL_CORE_H
