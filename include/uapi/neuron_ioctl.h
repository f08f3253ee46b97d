/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Numbers of the ioctl calls of /dev/neuronN, as the public drivers 2.24.7.0 and 2.25.4.0 have
 * them.
 *
 * Callers: the driver library. Implementers: the kernel module and the emulated device.
 *
 * - The size field of a number is part of it in two ways. Old calls encode the size of a pointer,
 *   whatever the struct is; newer ones the size of the struct. Direction bits are irregular too.
 *   Both are facts of the interface and never corrected.
 * - A call that grew kept its nr and changed its size: 23, 24, 28, 38, 102, 105, 108, 110, 111,
 *   115, 121, 122, 123 and 124 are told apart by size.
 * - A descriptor opened O_WRONLY takes no attach slot and never waits, but serves only the calls in
 *   the list at the end. Closing one drops all core marks of the process.
 * - Success is exactly 0. A failed copy from user space may answer with a positive number.
 * - No poll, no interrupt, no eventfd: user space polls memory.
 */
#ifndef NEURON_UAPI_IOCTL_H
#define NEURON_UAPI_IOCTL_H

#include "uapi/neuron_ioctl_core.h"
#include "uapi/neuron_ioctl_device.h"
#include "uapi/neuron_ioctl_dma.h"
#include "uapi/neuron_ioctl_memory.h"

#ifdef __KERNEL__
#include <linux/ioctl.h>
#else
#include <sys/ioctl.h>
#endif

#define NEURON_IOCTL_BASE 'N'

/* Device, versions, registers, processes. */
#define NEURON_IOCTL_DEVICE_RESET _IO(NEURON_IOCTL_BASE, 1)
#define NEURON_IOCTL_DEVICE_READY _IOR(NEURON_IOCTL_BASE, 2, __u8)
#define NEURON_IOCTL_DEVICE_RESET_STATUS _IOR(NEURON_IOCTL_BASE, 106, __u8)
#define NEURON_IOCTL_DEVICE_INFO _IOR(NEURON_IOCTL_BASE, 3, struct neuron_ioctl_device_info *)
#define NEURON_IOCTL_DEVICE_INIT _IOR(NEURON_IOCTL_BASE, 4, struct neuron_ioctl_device_init *)
#define NEURON_IOCTL_DEVICE_RELEASE _IO(NEURON_IOCTL_BASE, 5)
#define NEURON_IOCTL_DEVICE_APP_PID _IOR(NEURON_IOCTL_BASE, 6, __s32)
#define NEURON_IOCTL_DEVICE_GET_ALL_APPS_INFO \
  _IOR(NEURON_IOCTL_BASE, 7, struct neuron_ioctl_get_apps_info *)
#define NEURON_IOCTL_BAR_READ _IOR(NEURON_IOCTL_BASE, 11, struct neuron_ioctl_bar_rw *)
#define NEURON_IOCTL_BAR_WRITE _IOW(NEURON_IOCTL_BASE, 12, struct neuron_ioctl_bar_rw *)
#define NEURON_IOCTL_POST_METRIC _IOW(NEURON_IOCTL_BASE, 13, struct neuron_ioctl_post_metric *)
#define NEURON_IOCTL_COMPATIBLE_VERSION \
  _IOW(NEURON_IOCTL_BASE, 93, struct neuron_ioctl_compatible_version *)
#define NEURON_IOCTL_DEVICE_BASIC_INFO \
  _IOW(NEURON_IOCTL_BASE, 100, struct neuron_ioctl_device_basic_info *)
#define NEURON_IOCTL_DEVICE_BDF _IOR(NEURON_IOCTL_BASE, 101, struct neuron_ioctl_device_bdf *)
#define NEURON_IOCTL_DEVICE_BDF_EXT \
  _IOR(NEURON_IOCTL_BASE, 106, struct neuron_ioctl_device_bdf_ext *)
#define NEURON_IOCTL_DRIVER_INFO_GET \
  _IOR(NEURON_IOCTL_BASE, 110, struct neuron_ioctl_device_driver_info)
#define NEURON_IOCTL_DRIVER_INFO_SET \
  _IOW(NEURON_IOCTL_BASE, 110, struct neuron_ioctl_device_driver_info)
#define NEURON_IOCTL_PRINTK _IOW(NEURON_IOCTL_BASE, 113, struct neuron_ioctl_printk)
#define NEURON_IOCTL_HOST_DEVICE_ID _IOR(NEURON_IOCTL_BASE, 114, struct neuron_ioctl_host_device_id)
#define NEURON_IOCTL_HOST_DEVICE_ID_TO_RID_MAP \
  _IOWR(NEURON_IOCTL_BASE, 115, struct neuron_ioctl_host_device_id_to_rid_map)
#define NEURON_IOCTL_NC_PID_STATE_DUMP \
  _IOWR(NEURON_IOCTL_BASE, 117, struct neuron_ioctl_nc_pid_state_dump)
#define NEURON_IOCTL_GET_LOGICAL_TO_PHYSICAL_NC_MAP \
  _IOWR(NEURON_IOCTL_BASE, 120, struct neuron_ioctl_get_logical_to_physical_nc_map)
#define NEURON_IOCTL_POD_INFO _IOWR(NEURON_IOCTL_BASE, 121, struct neuron_ioctl_pod_info)
#define NEURON_IOCTL_POD_STATUS _IOWR(NEURON_IOCTL_BASE, 122, struct neuron_ioctl_pod_status)
#define NEURON_IOCTL_POD_STATUS_V2 _IOWR(NEURON_IOCTL_BASE, 122, struct neuron_ioctl_pod_status_v2)
#define NEURON_IOCTL_POD_CTRL _IOWR(NEURON_IOCTL_BASE, 123, struct neuron_ioctl_pod_ctrl)
#define NEURON_IOCTL_POD_CTRL_V2 _IOWR(NEURON_IOCTL_BASE, 123, struct neuron_ioctl_pod_ctrl_v2)
#define NEURON_IOCTL_POWER_PROFILE _IOW(NEURON_IOCTL_BASE, 127, struct neuron_ioctl_power_profile)
#define NEURON_IOCTL_METRICS_CTRL _IOW(NEURON_IOCTL_BASE, 128, struct neuron_ioctl_metrics_ctrl)

/* Cores: reset, initialisation, locks, semaphores, notifications, datastore. */
#define NEURON_IOCTL_SEMAPHORE_INCREMENT \
  _IOR(NEURON_IOCTL_BASE, 41, struct neuron_ioctl_semaphore *)
#define NEURON_IOCTL_SEMAPHORE_DECREMENT \
  _IOR(NEURON_IOCTL_BASE, 42, struct neuron_ioctl_semaphore *)
#define NEURON_IOCTL_SEMAPHORE_READ _IOWR(NEURON_IOCTL_BASE, 43, struct neuron_ioctl_semaphore *)
#define NEURON_IOCTL_SEMAPHORE_WRITE _IOR(NEURON_IOCTL_BASE, 44, struct neuron_ioctl_semaphore *)
#define NEURON_IOCTL_EVENT_SET _IOR(NEURON_IOCTL_BASE, 45, struct neuron_ioctl_event *)
#define NEURON_IOCTL_EVENT_GET _IOWR(NEURON_IOCTL_BASE, 46, struct neuron_ioctl_event *)
#define NEURON_IOCTL_NOTIFICATIONS_INIT_V1 \
  _IOR(NEURON_IOCTL_BASE, 51, struct neuron_ioctl_notifications_init_v1 *)
#define NEURON_IOCTL_NOTIFICATIONS_DESTROY_V1 \
  _IOR(NEURON_IOCTL_BASE, 52, struct neuron_ioctl_notifications_destroy *)
#define NEURON_IOCTL_NOTIFICATIONS_INIT_V2 \
  _IOR(NEURON_IOCTL_BASE, 53, struct neuron_ioctl_notifications_init_v2 *)
#define NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2 \
  _IOR(NEURON_IOCTL_BASE, 54, struct neuron_ioctl_notifications_init_with_realloc_v2 *)
#define NEURON_IOCTL_NOTIFICATIONS_QUEUE_INFO \
  _IOR(NEURON_IOCTL_BASE, 58, struct neuron_ioctl_notifications_queue_info *)
#define NEURON_IOCTL_ACQUIRE_NEURON_DS \
  _IOR(NEURON_IOCTL_BASE, 71, struct neuron_ioctl_neuron_ds_info *)
#define NEURON_IOCTL_RELEASE_NEURON_DS \
  _IOR(NEURON_IOCTL_BASE, 72, struct neuron_ioctl_neuron_ds_info *)
#define NEURON_IOCTL_CRWL_READER_ENTER _IOW(NEURON_IOCTL_BASE, 81, struct neuron_ioctl_crwl *)
#define NEURON_IOCTL_CRWL_READER_EXIT _IOW(NEURON_IOCTL_BASE, 82, struct neuron_ioctl_crwl *)
#define NEURON_IOCTL_CRWL_WRITER_ENTER _IOW(NEURON_IOCTL_BASE, 83, struct neuron_ioctl_crwl *)
#define NEURON_IOCTL_CRWL_WRITER_DOWNGRADE _IOW(NEURON_IOCTL_BASE, 84, struct neuron_ioctl_crwl *)
#define NEURON_IOCTL_CRWL_NC_RANGE_MARK \
  _IOW(NEURON_IOCTL_BASE, 85, struct neuron_ioctl_crwl_nc_map *)
#define NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0 \
  _IOWR(NEURON_IOCTL_BASE, 85, struct neuron_ioctl_crwl_nc_map_ext)
#define NEURON_IOCTL_CRWL_NC_RANGE_UNMARK \
  _IOW(NEURON_IOCTL_BASE, 86, struct neuron_ioctl_crwl_nc_map *)
#define NEURON_IOCTL_CRWL_NC_RANGE_UNMARK_EXT0 \
  _IOW(NEURON_IOCTL_BASE, 86, struct neuron_ioctl_crwl_nc_map_ext)
#define NEURON_IOCTL_CINIT_SET_STATE _IOW(NEURON_IOCTL_BASE, 91, struct neuron_ioctl_cinit_set *)
#define NEURON_IOCTL_NC_MODEL_STARTED_COUNT \
  _IOW(NEURON_IOCTL_BASE, 92, struct neuron_ioctl_nc_model_started_count *)
#define NEURON_IOCTL_NC_RESET _IOR(NEURON_IOCTL_BASE, 103, struct neuron_ioctl_device_reset *)
#define NEURON_IOCTL_NC_RESET_READY _IOR(NEURON_IOCTL_BASE, 104, struct neuron_ioctl_device_ready *)

/* Memory. */
#define NEURON_IOCTL_MEM_ALLOC _IOR(NEURON_IOCTL_BASE, 21, struct neuron_ioctl_mem_alloc *)
#define NEURON_IOCTL_MEM_ALLOC_V2 _IOR(NEURON_IOCTL_BASE, 102, struct neuron_ioctl_mem_alloc_v2 *)
#define NEURON_IOCTL_MEM_ALLOC_V2MT \
  _IOR(NEURON_IOCTL_BASE, 102, struct neuron_ioctl_mem_alloc_v2_mem_type)
#define NEURON_IOCTL_MEM_ALLOC_V2MT64 \
  _IOR(NEURON_IOCTL_BASE, 102, struct neuron_ioctl_mem_alloc_v2_mem_type64)
#define NEURON_IOCTL_MEM_FREE _IOR(NEURON_IOCTL_BASE, 22, struct neuron_ioctl_mem_free *)
#define NEURON_IOCTL_MEM_COPY _IOR(NEURON_IOCTL_BASE, 23, struct neuron_ioctl_mem_copy *)
#define NEURON_IOCTL_MEM_COPY64 _IOR(NEURON_IOCTL_BASE, 23, struct neuron_ioctl_mem_copy64)
#define NEURON_IOCTL_MEM_BUF_COPY _IOWR(NEURON_IOCTL_BASE, 24, struct neuron_ioctl_mem_buf_copy *)
#define NEURON_IOCTL_MEM_BUF_COPY64 _IOWR(NEURON_IOCTL_BASE, 24, struct neuron_ioctl_mem_buf_copy64)
#define NEURON_IOCTL_MEM_GET_PA _IOR(NEURON_IOCTL_BASE, 25, struct neuron_ioctl_mem_get_pa *)
#define NEURON_IOCTL_MEM_GET_INFO _IOR(NEURON_IOCTL_BASE, 26, struct neuron_ioctl_mem_get_info *)
#define NEURON_IOCTL_PROGRAM_ENGINE \
  _IOWR(NEURON_IOCTL_BASE, 27, struct neuron_ioctl_program_engine *)
#define NEURON_IOCTL_MEMSET _IOR(NEURON_IOCTL_BASE, 28, struct neuron_ioctl_memset *)
#define NEURON_IOCTL_MEMSET64 _IOR(NEURON_IOCTL_BASE, 28, struct neuron_ioctl_memset64)
#define NEURON_IOCTL_MEM_GET_EXTENDED_INFO \
  _IOR(NEURON_IOCTL_BASE, 29, struct neuron_ioctl_mem_get_extended_info *)
#define NEURON_IOCTL_PROGRAM_ENGINE_NC \
  _IOWR(NEURON_IOCTL_BASE, 105, struct neuron_ioctl_program_engine_nc *)
#define NEURON_IOCTL_PROGRAM_ENGINE_NC64 \
  _IOWR(NEURON_IOCTL_BASE, 105, struct neuron_ioctl_program_engine_nc64)
#define NEURON_IOCTL_DMABUF_FD _IOR(NEURON_IOCTL_BASE, 107, struct neuron_ioctl_dmabuf_fd *)
#define NEURON_IOCTL_MEM_COPY_ASYNC \
  _IOWR(NEURON_IOCTL_BASE, 108, struct neuron_ioctl_mem_copy_async)
#define NEURON_IOCTL_MEM_COPY_ASYNC64 \
  _IOWR(NEURON_IOCTL_BASE, 108, struct neuron_ioctl_mem_copy_async64)
#define NEURON_IOCTL_MEM_COPY_ASYNC_WAIT \
  _IOW(NEURON_IOCTL_BASE, 109, struct neuron_ioctl_mem_copy_async_wait)
#define NEURON_IOCTL_MEM_MC_GET_INFO \
  _IOWR(NEURON_IOCTL_BASE, 111, struct neuron_ioctl_mem_get_mc_mmap_info)
#define NEURON_IOCTL_MEM_MC_GET_INFO_V2 \
  _IOWR(NEURON_IOCTL_BASE, 111, struct neuron_ioctl_mem_get_mc_mmap_info_v2)
#define NEURON_IOCTL_RESOURCE_MMAP_INFO \
  _IOWR(NEURON_IOCTL_BASE, 112, struct neuron_ioctl_resource_mmap_info)
#define NEURON_IOCTL_DUMP_MEM_CHUNKS \
  _IOR(NEURON_IOCTL_BASE, 116, struct neuron_ioctl_dump_mem_chunks *)
#define NEURON_IOCTL_HBM_SCRUB_START \
  _IOWR(NEURON_IOCTL_BASE, 118, struct neuron_ioctl_hbm_scrub_start)
#define NEURON_IOCTL_HBM_SCRUB_WAIT \
  _IOWR(NEURON_IOCTL_BASE, 119, struct neuron_ioctl_hbm_scrub_wait)
/* Driver 2.24 gave this number a 40-byte argument; 2.25 answers that size with EINVAL. */
#define NEURON_IOCTL_MEM_BUF_ZEROCOPY64_2_24 \
  _IOWR(NEURON_IOCTL_BASE, 124, struct neuron_ioctl_mem_buf_copy64)
#define NEURON_IOCTL_MEM_BUF_ZEROCOPY64 \
  _IOWR(NEURON_IOCTL_BASE, 124, struct neuron_ioctl_mem_buf_copy64zc)
#define NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES \
  _IOWR(NEURON_IOCTL_BASE, 129, struct neuron_ioctl_mem_buf_copy64zc_batches)

/* DMA engines and queues. */
#define NEURON_IOCTL_DMA_ENG_INIT _IOR(NEURON_IOCTL_BASE, 30, struct neuron_ioctl_dma_eng_init *)
#define NEURON_IOCTL_DMA_ENG_SET_STATE \
  _IOR(NEURON_IOCTL_BASE, 31, struct neuron_ioctl_dma_eng_set_state *)
#define NEURON_IOCTL_DMA_ENG_GET_STATE \
  _IOWR(NEURON_IOCTL_BASE, 32, struct neuron_ioctl_dma_eng_get_state *)
#define NEURON_IOCTL_DMA_QUEUE_INIT \
  _IOR(NEURON_IOCTL_BASE, 33, struct neuron_ioctl_dma_queue_init *)
#define NEURON_IOCTL_DMA_QUEUE_INIT_BATCH \
  _IOR(NEURON_IOCTL_BASE, 133, struct neuron_ioctl_dma_queue_init_batch)
#define NEURON_IOCTL_DMA_QUEUE_RELEASE \
  _IOR(NEURON_IOCTL_BASE, 34, struct neuron_ioctl_dma_queue_release *)
#define NEURON_IOCTL_DMA_QUEUE_COPY_START \
  _IOR(NEURON_IOCTL_BASE, 35, struct neuron_ioctl_dma_queue_copy_start *)
#define NEURON_IOCTL_DMA_ACK_COMPLETED \
  _IOR(NEURON_IOCTL_BASE, 36, struct neuron_ioctl_dma_ack_completed *)
#define NEURON_IOCTL_DMA_QUEUE_GET_STATE \
  _IOWR(NEURON_IOCTL_BASE, 37, struct neuron_ioctl_dma_queue_get_state *)
#define NEURON_IOCTL_DMA_COPY_DESCRIPTORS \
  _IOR(NEURON_IOCTL_BASE, 38, struct neuron_ioctl_dma_copy_descriptors *)
#define NEURON_IOCTL_DMA_COPY_DESCRIPTORS64 \
  _IOR(NEURON_IOCTL_BASE, 38, struct neuron_ioctl_dma_copy_descriptors64)
#define NEURON_IOCTL_DMA_DESCRIPTOR_COPYOUT \
  _IOWR(NEURON_IOCTL_BASE, 39, struct neuron_ioctl_dma_descriptor_copyout *)
#define NEURON_IOCTL_DMA_QUIESCE_QUEUES \
  _IOR(NEURON_IOCTL_BASE, 40, struct neuron_ioctl_dma_quiesce_queues *)
#define NEURON_IOCTL_H2T_DMA_ALLOC_QUEUES \
  _IOWR(NEURON_IOCTL_BASE, 125, struct neuron_ioctl_h2t_dma_alloc_queues)
#define NEURON_IOCTL_H2T_DMA_FREE_QUEUES \
  _IOWR(NEURON_IOCTL_BASE, 126, struct neuron_ioctl_h2t_dma_free_queues)

/* Registers behind the firmware. */
#define NEURON_IOCTL_READ_HW_COUNTERS \
  _IOR(NEURON_IOCTL_BASE, 61, struct neuron_ioctl_read_hw_counters *)

/*
 * Served on any descriptor, O_WRONLY ones included:
 *   CRWL_NC_RANGE_MARK, CRWL_NC_RANGE_MARK_EXT0, CRWL_NC_RANGE_UNMARK,
 *   CRWL_NC_RANGE_UNMARK_EXT0, COMPATIBLE_VERSION, DEVICE_BASIC_INFO, DEVICE_BDF_EXT, DMABUF_FD,
 *   DRIVER_INFO_GET, DRIVER_INFO_SET, PRINTK, HOST_DEVICE_ID_TO_RID_MAP, NC_PID_STATE_DUMP,
 *   GET_LOGICAL_TO_PHYSICAL_NC_MAP, POD_INFO, POD_STATUS, POD_STATUS_V2, POD_CTRL, POD_CTRL_V2.
 * Served only when the calling process itself opened the device (EACCES after fork):
 *   BAR_WRITE, POST_METRIC, MEM_ALLOC, MEM_FREE, MEM_COPY, MEM_GET_PA, MEM_GET_INFO,
 *   DMA_ENG_INIT, DMA_ENG_SET_STATE, DMA_QUEUE_INIT, DMA_QUEUE_RELEASE, DMA_ACK_COMPLETED,
 *   DMA_COPY_DESCRIPTORS, NOTIFICATIONS_INIT_V1, NOTIFICATIONS_INIT_V2,
 *   NOTIFICATIONS_INIT_WITH_REALLOC_V2, MEM_COPY_ASYNC, MEM_COPY_ASYNC_WAIT.
 * All others need a full descriptor and check nothing else.
 */

#endif /* NEURON_UAPI_IOCTL_H */
