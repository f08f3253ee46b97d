// SPDX-License-Identifier: Apache-2.0
// Where the pointers of each call are. A call of driver/core/ioctl_table.c that is not here cannot
// be made on a shared device; a test compares the two.
#include <cstddef>

#include "driver/wire/wire_ioctl.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::wire {
namespace {

// More entries than a list can have are never asked for.
constexpr uint32_t kMostProcesses = 1024;
constexpr uint32_t kMostChunks = 1u << 20;
constexpr uint32_t kMostCores = 4096;

#define FIELD(type, member) \
  Field { offsetof(struct type, member), sizeof(type::member) }
#define AT(type, member) offsetof(struct type, member)

template <typename T>
constexpr IoctlRule plain(uint64_t request) {
  return {static_cast<uint32_t>(request), sizeof(T), Shape::kFlat, {}};
}

constexpr IoctlRule empty(uint64_t request) {
  return {static_cast<uint32_t>(request), 0, Shape::kFlat, {}};
}

template <typename T>
constexpr IoctlRule flat(uint64_t request, PointerRule first, PointerRule second = {}) {
  return {static_cast<uint32_t>(request), sizeof(T), Shape::kFlat, {first, second}};
}

constexpr PointerRule out(size_t field, uint32_t bytes) {
  return {.field = static_cast<uint16_t>(field), .way = Way::kOut, .element = bytes};
}

constexpr PointerRule array(size_t field, Way way, uint32_t element, Field count, Field flag = {}) {
  return {.field = static_cast<uint16_t>(field),
          .way = way,
          .element = element,
          .count = count,
          .flag = flag};
}

// What two forms of a call have in common.
template <typename T>
constexpr IoctlRule allocation(uint64_t request) {
  return flat<T>(request, out(offsetof(T, mem_handle), sizeof(__u64)));
}

template <typename T>
constexpr IoctlRule buffer_copy(uint64_t request) {
  return flat<T>(request,
                 array(offsetof(T, buffer), Way::kByFlag, 1, {offsetof(T, size), sizeof(T::size)},
                       {offsetof(T, copy_to_mem_handle), sizeof(__u32)}));
}

template <typename T>
constexpr IoctlRule program(uint64_t request) {
  return flat<T>(request, {.field = offsetof(T, buffer),
                           .way = Way::kIn,
                           .element = 1,
                           .count = {offsetof(T, size), sizeof(T::size)},
                           .skip = {offsetof(T, offset), sizeof(T::offset)}});
}

template <typename T>
constexpr IoctlRule descriptors(uint64_t request) {
  return flat<T>(request, array(offsetof(T, buffer), Way::kIn, 16,
                                {offsetof(T, num_descs), sizeof(T::num_descs)}));
}

const IoctlRule rules[] = {
    empty(NEURON_IOCTL_DEVICE_RESET),
    plain<__u8>(NEURON_IOCTL_DEVICE_READY),
    plain<__u8>(NEURON_IOCTL_DEVICE_RESET_STATUS),
    plain<neuron_ioctl_device_info>(NEURON_IOCTL_DEVICE_INFO),
    plain<neuron_ioctl_device_init>(NEURON_IOCTL_DEVICE_INIT),
    empty(NEURON_IOCTL_DEVICE_RELEASE),
    plain<__s32>(NEURON_IOCTL_DEVICE_APP_PID),
    {NEURON_IOCTL_DEVICE_GET_ALL_APPS_INFO,
     sizeof(neuron_ioctl_get_apps_info),
     Shape::kTail,
     {{.way = Way::kOut,
       .element = sizeof(neuron_app_info),
       .count = FIELD(neuron_ioctl_get_apps_info, capacity),
       .most = kMostProcesses},
      {}}},
    flat<neuron_ioctl_bar_rw>(NEURON_IOCTL_BAR_READ,
                              array(AT(neuron_ioctl_bar_rw, address), Way::kIn, sizeof(__u64),
                                    FIELD(neuron_ioctl_bar_rw, count)),
                              array(AT(neuron_ioctl_bar_rw, data), Way::kOut, sizeof(__u32),
                                    FIELD(neuron_ioctl_bar_rw, count))),
    flat<neuron_ioctl_bar_rw>(NEURON_IOCTL_BAR_WRITE,
                              array(AT(neuron_ioctl_bar_rw, address), Way::kIn, sizeof(__u64),
                                    FIELD(neuron_ioctl_bar_rw, count)),
                              array(AT(neuron_ioctl_bar_rw, data), Way::kIn, sizeof(__u32),
                                    FIELD(neuron_ioctl_bar_rw, count))),
    flat<neuron_ioctl_post_metric>(NEURON_IOCTL_POST_METRIC,
                                   array(AT(neuron_ioctl_post_metric, data), Way::kIn, 1,
                                         FIELD(neuron_ioctl_post_metric, data_size))),
    allocation<neuron_ioctl_mem_alloc>(NEURON_IOCTL_MEM_ALLOC),
    allocation<neuron_ioctl_mem_alloc_v2>(NEURON_IOCTL_MEM_ALLOC_V2),
    allocation<neuron_ioctl_mem_alloc_v2_mem_type>(NEURON_IOCTL_MEM_ALLOC_V2MT),
    allocation<neuron_ioctl_mem_alloc_v2_mem_type64>(NEURON_IOCTL_MEM_ALLOC_V2MT64),
    plain<neuron_ioctl_mem_free>(NEURON_IOCTL_MEM_FREE),
    plain<neuron_ioctl_mem_copy>(NEURON_IOCTL_MEM_COPY),
    plain<neuron_ioctl_mem_copy64>(NEURON_IOCTL_MEM_COPY64),
    buffer_copy<neuron_ioctl_mem_buf_copy>(NEURON_IOCTL_MEM_BUF_COPY),
    buffer_copy<neuron_ioctl_mem_buf_copy64>(NEURON_IOCTL_MEM_BUF_COPY64),
    flat<neuron_ioctl_mem_get_pa>(NEURON_IOCTL_MEM_GET_PA,
                                  out(AT(neuron_ioctl_mem_get_pa, pa), sizeof(__u64))),
    flat<neuron_ioctl_mem_get_info>(NEURON_IOCTL_MEM_GET_INFO,
                                    out(AT(neuron_ioctl_mem_get_info, mmap_offset), sizeof(__u64)),
                                    out(AT(neuron_ioctl_mem_get_info, pa), sizeof(__u64))),
    program<neuron_ioctl_program_engine>(NEURON_IOCTL_PROGRAM_ENGINE),
    plain<neuron_ioctl_memset>(NEURON_IOCTL_MEMSET),
    plain<neuron_ioctl_memset64>(NEURON_IOCTL_MEMSET64),
    plain<neuron_ioctl_mem_get_extended_info>(NEURON_IOCTL_MEM_GET_EXTENDED_INFO),
    plain<neuron_ioctl_dma_eng_init>(NEURON_IOCTL_DMA_ENG_INIT),
    plain<neuron_ioctl_dma_eng_set_state>(NEURON_IOCTL_DMA_ENG_SET_STATE),
    flat<neuron_ioctl_dma_eng_get_state>(
        NEURON_IOCTL_DMA_ENG_GET_STATE,
        out(AT(neuron_ioctl_dma_eng_get_state, state), sizeof(neuron_dma_eng_state))),
    plain<neuron_ioctl_dma_queue_init>(NEURON_IOCTL_DMA_QUEUE_INIT),
    plain<neuron_ioctl_dma_queue_init_batch>(NEURON_IOCTL_DMA_QUEUE_INIT_BATCH),
    plain<neuron_ioctl_dma_queue_release>(NEURON_IOCTL_DMA_QUEUE_RELEASE),
    plain<neuron_ioctl_dma_queue_copy_start>(NEURON_IOCTL_DMA_QUEUE_COPY_START),
    plain<neuron_ioctl_dma_ack_completed>(NEURON_IOCTL_DMA_ACK_COMPLETED),
    flat<neuron_ioctl_dma_queue_get_state>(
        NEURON_IOCTL_DMA_QUEUE_GET_STATE,
        out(AT(neuron_ioctl_dma_queue_get_state, tx), sizeof(neuron_dma_queue_state)),
        out(AT(neuron_ioctl_dma_queue_get_state, rx), sizeof(neuron_dma_queue_state))),
    descriptors<neuron_ioctl_dma_copy_descriptors>(NEURON_IOCTL_DMA_COPY_DESCRIPTORS),
    descriptors<neuron_ioctl_dma_copy_descriptors64>(NEURON_IOCTL_DMA_COPY_DESCRIPTORS64),
    flat<neuron_ioctl_dma_descriptor_copyout>(
        NEURON_IOCTL_DMA_DESCRIPTOR_COPYOUT,
        array(AT(neuron_ioctl_dma_descriptor_copyout, buffer), Way::kOut, 16,
              FIELD(neuron_ioctl_dma_descriptor_copyout, count))),
    plain<neuron_ioctl_dma_quiesce_queues>(NEURON_IOCTL_DMA_QUIESCE_QUEUES),
    plain<neuron_ioctl_semaphore>(NEURON_IOCTL_SEMAPHORE_INCREMENT),
    plain<neuron_ioctl_semaphore>(NEURON_IOCTL_SEMAPHORE_DECREMENT),
    plain<neuron_ioctl_semaphore>(NEURON_IOCTL_SEMAPHORE_READ),
    plain<neuron_ioctl_semaphore>(NEURON_IOCTL_SEMAPHORE_WRITE),
    plain<neuron_ioctl_event>(NEURON_IOCTL_EVENT_SET),
    plain<neuron_ioctl_event>(NEURON_IOCTL_EVENT_GET),
    plain<neuron_ioctl_notifications_init_v1>(NEURON_IOCTL_NOTIFICATIONS_INIT_V1),
    plain<neuron_ioctl_notifications_destroy>(NEURON_IOCTL_NOTIFICATIONS_DESTROY_V1),
    plain<neuron_ioctl_notifications_init_v2>(NEURON_IOCTL_NOTIFICATIONS_INIT_V2),
    plain<neuron_ioctl_notifications_init_with_realloc_v2>(
        NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2),
    plain<neuron_ioctl_notifications_queue_info>(NEURON_IOCTL_NOTIFICATIONS_QUEUE_INFO),
    flat<neuron_ioctl_read_hw_counters>(
        NEURON_IOCTL_READ_HW_COUNTERS,
        array(AT(neuron_ioctl_read_hw_counters, address), Way::kIn, sizeof(__u64),
              FIELD(neuron_ioctl_read_hw_counters, count)),
        array(AT(neuron_ioctl_read_hw_counters, data), Way::kOut, sizeof(__u32),
              FIELD(neuron_ioctl_read_hw_counters, count))),
    plain<neuron_ioctl_neuron_ds_info>(NEURON_IOCTL_ACQUIRE_NEURON_DS),
    plain<neuron_ioctl_neuron_ds_info>(NEURON_IOCTL_RELEASE_NEURON_DS),
    plain<neuron_ioctl_crwl>(NEURON_IOCTL_CRWL_READER_ENTER),
    plain<neuron_ioctl_crwl>(NEURON_IOCTL_CRWL_READER_EXIT),
    plain<neuron_ioctl_crwl>(NEURON_IOCTL_CRWL_WRITER_ENTER),
    plain<neuron_ioctl_crwl>(NEURON_IOCTL_CRWL_WRITER_DOWNGRADE),
    plain<neuron_ioctl_crwl_nc_map>(NEURON_IOCTL_CRWL_NC_RANGE_MARK),
    plain<neuron_ioctl_crwl_nc_map_ext>(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0),
    plain<neuron_ioctl_crwl_nc_map>(NEURON_IOCTL_CRWL_NC_RANGE_UNMARK),
    plain<neuron_ioctl_crwl_nc_map_ext>(NEURON_IOCTL_CRWL_NC_RANGE_UNMARK_EXT0),
    plain<neuron_ioctl_cinit_set>(NEURON_IOCTL_CINIT_SET_STATE),
    plain<neuron_ioctl_nc_model_started_count>(NEURON_IOCTL_NC_MODEL_STARTED_COUNT),
    plain<neuron_ioctl_compatible_version>(NEURON_IOCTL_COMPATIBLE_VERSION),
    plain<neuron_ioctl_device_basic_info>(NEURON_IOCTL_DEVICE_BASIC_INFO),
    plain<neuron_ioctl_device_bdf>(NEURON_IOCTL_DEVICE_BDF),
    plain<neuron_ioctl_device_reset>(NEURON_IOCTL_NC_RESET),
    plain<neuron_ioctl_device_ready>(NEURON_IOCTL_NC_RESET_READY),
    program<neuron_ioctl_program_engine_nc>(NEURON_IOCTL_PROGRAM_ENGINE_NC),
    program<neuron_ioctl_program_engine_nc64>(NEURON_IOCTL_PROGRAM_ENGINE_NC64),
    plain<neuron_ioctl_device_bdf_ext>(NEURON_IOCTL_DEVICE_BDF_EXT),
    flat<neuron_ioctl_dmabuf_fd>(NEURON_IOCTL_DMABUF_FD,
                                 out(AT(neuron_ioctl_dmabuf_fd, fd), sizeof(__s32))),
    plain<neuron_ioctl_mem_copy_async>(NEURON_IOCTL_MEM_COPY_ASYNC),
    plain<neuron_ioctl_mem_copy_async64>(NEURON_IOCTL_MEM_COPY_ASYNC64),
    plain<neuron_ioctl_mem_copy_async_wait>(NEURON_IOCTL_MEM_COPY_ASYNC_WAIT),
    plain<neuron_ioctl_device_driver_info>(NEURON_IOCTL_DRIVER_INFO_GET),
    plain<neuron_ioctl_device_driver_info>(NEURON_IOCTL_DRIVER_INFO_SET),
    plain<neuron_ioctl_mem_get_mc_mmap_info>(NEURON_IOCTL_MEM_MC_GET_INFO),
    plain<neuron_ioctl_mem_get_mc_mmap_info_v2>(NEURON_IOCTL_MEM_MC_GET_INFO_V2),
    plain<neuron_ioctl_resource_mmap_info>(NEURON_IOCTL_RESOURCE_MMAP_INFO),
    flat<neuron_ioctl_printk>(NEURON_IOCTL_PRINTK, array(AT(neuron_ioctl_printk, buffer), Way::kIn,
                                                         1, FIELD(neuron_ioctl_printk, size))),
    plain<neuron_ioctl_host_device_id>(NEURON_IOCTL_HOST_DEVICE_ID),
    plain<neuron_ioctl_host_device_id_to_rid_map>(NEURON_IOCTL_HOST_DEVICE_ID_TO_RID_MAP),
    flat<neuron_ioctl_dump_mem_chunks>(
        NEURON_IOCTL_DUMP_MEM_CHUNKS, {.field = AT(neuron_ioctl_dump_mem_chunks, data),
                                       .way = Way::kOut,
                                       .element = sizeof(neuron_ioctl_mem_chunk_info),
                                       .count = FIELD(neuron_ioctl_dump_mem_chunks, num_entries_in),
                                       .most = kMostChunks}),
    plain<neuron_ioctl_nc_pid_state_dump>(NEURON_IOCTL_NC_PID_STATE_DUMP),
    plain<neuron_ioctl_hbm_scrub_start>(NEURON_IOCTL_HBM_SCRUB_START),
    plain<neuron_ioctl_hbm_scrub_wait>(NEURON_IOCTL_HBM_SCRUB_WAIT),
    flat<neuron_ioctl_get_logical_to_physical_nc_map>(
        NEURON_IOCTL_GET_LOGICAL_TO_PHYSICAL_NC_MAP,
        {.field = AT(neuron_ioctl_get_logical_to_physical_nc_map, map),
         .way = Way::kOut,
         .element = sizeof(neuron_ioctl_nc_map_entry),
         .count = FIELD(neuron_ioctl_get_logical_to_physical_nc_map, max_map_entries),
         .extra = sizeof(neuron_ioctl_nc_map),
         .most = kMostCores}),
    plain<neuron_ioctl_pod_info>(NEURON_IOCTL_POD_INFO),
    plain<neuron_ioctl_pod_status>(NEURON_IOCTL_POD_STATUS),
    plain<neuron_ioctl_pod_status_v2>(NEURON_IOCTL_POD_STATUS_V2),
    plain<neuron_ioctl_pod_ctrl>(NEURON_IOCTL_POD_CTRL),
    plain<neuron_ioctl_pod_ctrl_v2>(NEURON_IOCTL_POD_CTRL_V2),
    buffer_copy<neuron_ioctl_mem_buf_copy64>(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_2_24),
    flat<neuron_ioctl_mem_buf_copy64zc>(
        NEURON_IOCTL_MEM_BUF_ZEROCOPY64,
        array(AT(neuron_ioctl_mem_buf_copy64zc, buffer), Way::kByFlag, 1,
              FIELD(neuron_ioctl_mem_buf_copy64zc, size),
              FIELD(neuron_ioctl_mem_buf_copy64zc, is_copy_to_device))),
    plain<neuron_ioctl_h2t_dma_alloc_queues>(NEURON_IOCTL_H2T_DMA_ALLOC_QUEUES),
    plain<neuron_ioctl_h2t_dma_free_queues>(NEURON_IOCTL_H2T_DMA_FREE_QUEUES),
    plain<neuron_ioctl_power_profile>(NEURON_IOCTL_POWER_PROFILE),
    plain<neuron_ioctl_metrics_ctrl>(NEURON_IOCTL_METRICS_CTRL),
    {NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES,
     sizeof(neuron_ioctl_mem_buf_copy64zc_batches),
     Shape::kBatches,
     {{.field = AT(neuron_ioctl_mem_buf_copy64zc_batches, batches_ptr),
       .way = Way::kIn,
       .element = sizeof(neuron_memcpy_batch_t),
       .count = FIELD(neuron_ioctl_mem_buf_copy64zc_batches, num_batches),
       .flag = FIELD(neuron_ioctl_mem_buf_copy64zc_batches, is_copy_to_device)},
      {}}},
};

}  // namespace

std::span<const IoctlRule> all_ioctls() { return rules; }

const IoctlRule* find_ioctl(uint64_t request) {
  if (request >> 32 != 0) return nullptr;
  for (const IoctlRule& rule : rules) {
    if (rule.request == request) return &rule;
  }
  for (const IoctlRule& rule : rules) {
    if (_IOC_TYPE(rule.request) == _IOC_TYPE(request) &&
        _IOC_NR(rule.request) == _IOC_NR(request) &&
        _IOC_SIZE(rule.request) == _IOC_SIZE(request)) {
      return &rule;
    }
  }
  return nullptr;
}

}  // namespace neuron::wire
