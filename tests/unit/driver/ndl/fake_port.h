// SPDX-License-Identifier: Apache-2.0
// A driver in memory behind port.h, with a call that fails on demand and counts of what is held.
//
// Callers: tests of driver/ndl, one thread. FakeDriver is the machine: it outlives ports and
// devices, so a test can look at what they left behind.
#ifndef TESTS_UNIT_DRIVER_NDL_FAKE_PORT_H
#define TESTS_UNIT_DRIVER_NDL_FAKE_PORT_H

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver/ndl/error.h"
#include "driver/ndl/port.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::ndl::testing {

struct FakeChunk {
  std::vector<uint8_t> bytes;
  uint32_t host_memory = 0;
  uint64_t pa = 0;
  bool of_device = false;  // lives on when the process goes (notification queues)
};

struct FakeDriver {
  // The call with this number (from 1) fails; 0: none. A call that releases something does that and
  // reports the failure all the same, as a kernel would.
  int fail_at = 0;
  int fail_with = EIO;
  int calls = 0;

  int device_count = 2;
  uint64_t features = 0x1FF;
  bool refuses_zero_copy = false;
  unsigned most_pinned = 0;  // pages that a piece of a zero copy of 2.24 has touched
  int positive_answer = 0;   // what a broken driver returns for the next ioctl

  int open_devices = 0;
  int open_controls = 0;
  int mappings = 0;
  uint64_t claims = 0;
  bool datastore = false;
  std::map<uint64_t, FakeChunk> chunks;
  std::map<uint64_t, uint32_t> registers;
  std::vector<uint8_t> datastore_bytes = std::vector<uint8_t>(262144);
  std::vector<unsigned> requests;  // nr of each ioctl, in order
  std::vector<neuron_ioctl_dma_queue_init> queues;
  uint32_t semaphore = 0;
  uint32_t event = 0;

  bool fails() { return ++calls == fail_at; }
  int count(unsigned nr) const {
    int found = 0;
    for (unsigned request : requests) found += request == nr;
    return found;
  }
  size_t process_chunks() const {
    size_t found = 0;
    for (const auto& [handle, chunk] : chunks) found += !chunk.of_device;
    return found;
  }
};

class FakeDevice : public DevicePort {
 public:
  FakeDevice(FakeDriver& driver, bool control) : driver_(driver), control_(control) {
    ++(control_ ? driver_.open_controls : driver_.open_devices);
  }
  ~FakeDevice() override {
    --(control_ ? driver_.open_controls : driver_.open_devices);
    if (control_) {
      driver_.claims = 0;
      return;
    }
    std::erase_if(driver_.chunks, [](const auto& entry) { return !entry.second.of_device; });
    driver_.datastore = false;
  }

  int ioctl(unsigned long request, void* argument) override;
  int map(size_t length, int, uint64_t offset, void** address) override {
    if (driver_.fails()) return -driver_.fail_with;
    if (offset == kDatastoreOffset) {
      *address = driver_.datastore_bytes.data();
    } else {
      const auto found = driver_.chunks.find(offset);
      if (found == driver_.chunks.end() || found->second.bytes.size() != length) return -EINVAL;
      *address = found->second.bytes.data();
    }
    ++driver_.mappings;
    return 0;
  }
  int unmap(void*, size_t) override {
    --driver_.mappings;
    return driver_.fails() ? -driver_.fail_with : 0;
  }
  int read_register(uint64_t offset, uint32_t* value) override {
    *value = driver_.registers[offset];
    return 0;
  }
  int write_register(uint64_t offset, uint32_t value, bool) override {
    driver_.registers[offset] = value;
    return 0;
  }
  int wait(unsigned, const uint32_t* word, uint32_t old, uint64_t) override {
    return *word != old ? 0 : -ETIMEDOUT;
  }
  std::string describe(unsigned core) override { return "core " + std::to_string(core); }
  void abandon() override {}

  static constexpr uint64_t kDatastoreOffset = 1ull << 40;

 private:
  void note_pinned(const void* buffer, uint64_t size);
  int memory_ioctl(unsigned long request, void* argument);
  int queue_ioctl(unsigned long request, void* argument);
  int core_ioctl(unsigned long request, void* argument);
  int info_ioctl(unsigned long request, void* argument);
  uint64_t allocate(uint64_t size, uint32_t host_memory, bool of_device) {
    // Not reused, so that a handle that leaks into another allocation is seen.
    const uint64_t handle = ++next_handle();
    FakeChunk& chunk = driver_.chunks[handle];
    chunk.bytes.assign((size + 4095) / 4096 * 4096, 0);
    chunk.host_memory = host_memory;
    chunk.pa = 0x1000000 + handle * 0x100000;
    chunk.of_device = of_device;
    return handle;
  }
  static uint64_t& next_handle() {
    static uint64_t handle = 0;
    return handle;
  }
  FakeChunk* chunk(uint64_t handle) {
    const auto found = driver_.chunks.find(handle);
    return found == driver_.chunks.end() ? nullptr : &found->second;
  }

  FakeDriver& driver_;
  const bool control_;
};

class FakePort : public Port {
 public:
  explicit FakePort(FakeDriver& driver) : driver_(driver) {}
  int devices(int* indexes, int capacity) override {
    if (driver_.fails()) return -driver_.fail_with;
    for (int i = 0; i < driver_.device_count && i < capacity; ++i) indexes[i] = i;
    return driver_.device_count;
  }
  int open(int index, int flags, std::unique_ptr<DevicePort>& device) override {
    if (driver_.fails()) return -driver_.fail_with;
    if (index >= driver_.device_count) return -ENODEV;
    device = std::make_unique<FakeDevice>(driver_, flags == O_WRONLY);
    return 0;
  }
  std::string name() const override { return "fake"; }
  std::string driver_version() const override { return "2.25.4.0"; }

 private:
  FakeDriver& driver_;
};

template <class T>
T& as(void* argument) {
  return *static_cast<T*>(argument);
}

inline int FakeDevice::ioctl(unsigned long request, void* argument) {
  driver_.requests.push_back(_IOC_NR(request));
  const bool failing = driver_.fails();
  if (failing && request != NEURON_IOCTL_MEM_FREE && request != NEURON_IOCTL_RELEASE_NEURON_DS &&
      request != NEURON_IOCTL_CRWL_NC_RANGE_UNMARK_EXT0) {
    return -driver_.fail_with;
  }
  if (driver_.positive_answer != 0) return std::exchange(driver_.positive_answer, 0);
  int result = memory_ioctl(request, argument);
  if (result == -ENOTTY) result = queue_ioctl(request, argument);
  if (result == -ENOTTY) result = core_ioctl(request, argument);
  if (result == -ENOTTY) result = info_ioctl(request, argument);
  return failing ? -driver_.fail_with : result;
}

// As driver 2.24 cuts a transfer: 64 pages of bytes are one piece, wherever they begin.
inline void FakeDevice::note_pinned(const void* buffer, uint64_t size) {
  constexpr uint64_t kPage = 4096, kPiece = 64 * kPage;
  const uint64_t inside = reinterpret_cast<uintptr_t>(buffer) % kPage;
  const uint64_t piece = size <= kPiece ? size : kPiece - inside;
  const auto pages = static_cast<unsigned>((inside + piece + kPage - 1) / kPage);
  driver_.most_pinned = std::max(driver_.most_pinned, pages);
}

inline int FakeDevice::memory_ioctl(unsigned long request, void* argument) {
  switch (request) {
    case NEURON_IOCTL_MEM_ALLOC_V2MT64: {
      auto& in = as<neuron_ioctl_mem_alloc_v2_mem_type64>(argument);
      if (in.size > 1ull << 30) return -ENOMEM;
      *in.mem_handle = allocate(in.size, in.host_memory, false);
      return 0;
    }
    case NEURON_IOCTL_MEM_FREE:
      return driver_.chunks.erase(as<neuron_ioctl_mem_free>(argument).mem_handle) == 1 ? 0
                                                                                       : -EINVAL;
    case NEURON_IOCTL_MEM_GET_EXTENDED_INFO: {
      auto& in = as<neuron_ioctl_mem_get_extended_info>(argument);
      const FakeChunk* found = chunk(in.mem_handle);
      if (found == nullptr) return 22;
      in.host_memory = found->host_memory;
      in.mmap_offset = in.mem_handle;
      in.pa = found->pa;
      in.size = found->bytes.size();
      in.mem_handle = 0xFFFF888000000000;  // a kernel pointer, to be ignored
      return 0;
    }
    case NEURON_IOCTL_MEM_BUF_COPY64:
    case NEURON_IOCTL_MEM_BUF_ZEROCOPY64_2_24:
    case NEURON_IOCTL_MEM_BUF_ZEROCOPY64: {
      const bool zero_copy = request != NEURON_IOCTL_MEM_BUF_COPY64;
      if (zero_copy && driver_.refuses_zero_copy) return -EINVAL;
      // A driver takes the form of its time and refuses the other one by its size.
      const bool new_form = request == NEURON_IOCTL_MEM_BUF_ZEROCOPY64;
      if (zero_copy && new_form != ((driver_.features & NEURON_DRIVER_FEATURE_ZEROCOPY) != 0)) {
        return -EINVAL;
      }
      // Both structs begin alike up to the direction.
      auto& in = as<neuron_ioctl_mem_buf_copy64>(argument);
      FakeChunk* found = chunk(in.mem_handle);
      if (found == nullptr || in.offset + in.size > found->bytes.size()) return -EINVAL;
      if (zero_copy && !new_form) note_pinned(in.buffer, in.size);
      uint8_t* at = found->bytes.data() + in.offset;
      if (in.copy_to_mem_handle != 0) {
        std::memcpy(at, in.buffer, in.size);
      } else {
        std::memcpy(in.buffer, at, in.size);
      }
      return 0;
    }
    case NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES: {
      auto& in = as<neuron_ioctl_mem_buf_copy64zc_batches>(argument);
      if (driver_.refuses_zero_copy) return -EINVAL;
      for (uint32_t b = 0; b < in.num_batches; ++b) {
        const neuron_memcpy_batch_t& batch = in.batches_ptr[b];
        FakeChunk* found = chunk(batch.mem_handle);
        if (found == nullptr) return -EINVAL;
        for (uint32_t i = 0; i < batch.num_ops; ++i) {
          const nrt_tensor_batch_op_t& op = batch.ops_ptr[i];
          uint8_t* at = found->bytes.data() + batch.mem_handle_offset + op.offset;
          std::memcpy(in.is_copy_to_device != 0 ? at : op.buffer,
                      in.is_copy_to_device != 0 ? op.buffer : at, op.size);
        }
      }
      return 0;
    }
    case NEURON_IOCTL_MEMSET64: {
      auto& in = as<neuron_ioctl_memset64>(argument);
      FakeChunk* found = chunk(in.mem_handle);
      if (found == nullptr) return -EINVAL;
      std::memset(found->bytes.data() + in.offset, static_cast<int>(in.value), in.size);
      return 0;
    }
    case NEURON_IOCTL_MEM_COPY64: {
      auto& in = as<neuron_ioctl_mem_copy64>(argument);
      FakeChunk *from = chunk(in.src_mem_handle), *to = chunk(in.dst_mem_handle);
      if (from == nullptr || to == nullptr) return -EINVAL;
      std::memmove(to->bytes.data() + in.dst_offset, from->bytes.data() + in.src_offset, in.size);
      return 0;
    }
    case NEURON_IOCTL_PROGRAM_ENGINE_NC64:
      return 0;
    default:
      return -ENOTTY;
  }
}

inline int FakeDevice::queue_ioctl(unsigned long request, void* argument) {
  switch (request) {
    case NEURON_IOCTL_DMA_QUEUE_INIT:
      driver_.queues.push_back(as<neuron_ioctl_dma_queue_init>(argument));
      return 0;
    case NEURON_IOCTL_DMA_QUEUE_INIT_BATCH: {
      auto& in = as<neuron_ioctl_dma_queue_init_batch>(argument);
      driver_.queues.insert(driver_.queues.end(), in.entries, in.entries + in.count);
      return 0;
    }
    case NEURON_IOCTL_DMA_COPY_DESCRIPTORS64: {
      auto& in = as<neuron_ioctl_dma_copy_descriptors64>(argument);
      FakeChunk* found = chunk(in.mem_handle);
      if (found == nullptr) return -EINVAL;
      std::memcpy(found->bytes.data() + in.offset, in.buffer, size_t{in.num_descs} * 16);
      return 0;
    }
    case NEURON_IOCTL_DMA_QUEUE_COPY_START:
    case NEURON_IOCTL_DMA_ACK_COMPLETED:
    case NEURON_IOCTL_DMA_QUEUE_GET_STATE:
    case NEURON_IOCTL_DMA_ENG_GET_STATE:
    case NEURON_IOCTL_DMA_ENG_SET_STATE:
      return 0;
    case NEURON_IOCTL_NOTIFICATIONS_INIT_V2: {
      auto& in = as<neuron_ioctl_notifications_init_v2>(argument);
      in.mem_handle = allocate(in.size, in.on_host_memory, true);
      in.mmap_offset = in.mem_handle;
      return 0;
    }
    case NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2: {
      auto& in = as<neuron_ioctl_notifications_init_with_realloc_v2>(argument);
      in.mem_handle = allocate(in.size, in.on_host_memory, true);
      in.mmap_offset = in.mem_handle;
      return 0;
    }
    default:
      return -ENOTTY;
  }
}

inline int FakeDevice::core_ioctl(unsigned long request, void* argument) {
  switch (request) {
    case NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0: {
      auto& in = as<neuron_ioctl_crwl_nc_map_ext>(argument);
      if (in.nc_count > 4) {
        in.max_nc_available = 4;
        return -EBUSY;
      }
      in.bitmap[0] = ((1ull << in.nc_count) - 1) << in.start_nc_index;
      driver_.claims |= in.bitmap[0];
      return 0;
    }
    case NEURON_IOCTL_CRWL_NC_RANGE_UNMARK_EXT0:
      driver_.claims &= ~as<neuron_ioctl_crwl_nc_map_ext>(argument).bitmap[0];
      return 0;
    case NEURON_IOCTL_NC_RESET:
      as<neuron_ioctl_device_reset>(argument).request_id = 77;
      return 0;
    case NEURON_IOCTL_NC_RESET_READY: {
      auto& in = as<neuron_ioctl_device_ready>(argument);
      in.result = in.request_id == 77 ? 0 : 1;
      return 0;
    }
    case NEURON_IOCTL_CINIT_SET_STATE:
      as<neuron_ioctl_cinit_set>(argument).new_state = NEURON_CINIT_STATE_STARTED;
      return 0;
    case NEURON_IOCTL_SEMAPHORE_WRITE:
    case NEURON_IOCTL_SEMAPHORE_INCREMENT:
    case NEURON_IOCTL_SEMAPHORE_DECREMENT: {
      auto& in = as<neuron_ioctl_semaphore>(argument);
      driver_.semaphore = request == NEURON_IOCTL_SEMAPHORE_WRITE ? in.value
                          : request == NEURON_IOCTL_SEMAPHORE_INCREMENT
                              ? driver_.semaphore + in.value
                              : driver_.semaphore - in.value;
      return 0;
    }
    case NEURON_IOCTL_SEMAPHORE_READ:
      as<neuron_ioctl_semaphore>(argument).value = driver_.semaphore;
      return 0;
    case NEURON_IOCTL_EVENT_SET:
      driver_.event = as<neuron_ioctl_event>(argument).value;
      return 0;
    case NEURON_IOCTL_EVENT_GET:
      as<neuron_ioctl_event>(argument).value = driver_.event;
      return 0;
    case NEURON_IOCTL_ACQUIRE_NEURON_DS: {
      auto& in = as<neuron_ioctl_neuron_ds_info>(argument);
      in.mmap_offset = kDatastoreOffset;
      in.size = static_cast<uint32_t>(driver_.datastore_bytes.size());
      driver_.datastore |= in.pid == 0;
      return 0;
    }
    case NEURON_IOCTL_RELEASE_NEURON_DS:
      driver_.datastore = false;
      return 0;
    default:
      return -ENOTTY;
  }
}

inline int FakeDevice::info_ioctl(unsigned long request, void* argument) {
  switch (request) {
    case NEURON_IOCTL_DRIVER_INFO_GET: {
      auto& in = as<neuron_ioctl_device_driver_info>(argument);
      in.architecture = 2;
      in.feature_flags1 = driver_.features;
      return 0;
    }
    case NEURON_IOCTL_DEVICE_INFO: {
      auto& in = as<neuron_ioctl_device_info>(argument);
      in.architecture = 2;
      in.revision = 255;
      in.connected_device_count = 100;  // more than there is room for
      in.connected_devices[0] = 1;
      in.bar_address[0] = 0x7F0000000000;
      in.bar_size[0] = 0x40000000;
      return 0;
    }
    case NEURON_IOCTL_DEVICE_BASIC_INFO:
      as<neuron_ioctl_device_basic_info>(argument) = {2, 255};
      return 0;
    case NEURON_IOCTL_COMPATIBLE_VERSION:
      as<neuron_ioctl_compatible_version>(argument) = {7, 5};
      return 0;
    case NEURON_IOCTL_DEVICE_BDF_EXT: {
      auto& in = as<neuron_ioctl_device_bdf_ext>(argument);
      in.bus_number = 0x10 + in.nd_index;
      in.slot = 0x1E;
      return 0;
    }
    case NEURON_IOCTL_DEVICE_GET_ALL_APPS_INFO: {
      auto& in = as<neuron_ioctl_get_apps_info>(argument);
      in.size = 1;
      in.app_data[0].pid = 4242;
      return 0;
    }
    case NEURON_IOCTL_BAR_READ: {
      auto& in = as<neuron_ioctl_bar_rw>(argument);
      for (uint32_t i = 0; i < in.count; ++i) in.data[i] = driver_.registers[in.address[i]];
      return 0;
    }
    case NEURON_IOCTL_BAR_WRITE: {
      auto& in = as<neuron_ioctl_bar_rw>(argument);
      for (uint32_t i = 0; i < in.count; ++i) driver_.registers[in.address[i]] = in.data[i];
      return 0;
    }
    case NEURON_IOCTL_HOST_DEVICE_ID:
      as<neuron_ioctl_host_device_id>(argument).host_device_id = 3;
      return 0;
    default:
      return -ENOTTY;
  }
}

}  // namespace neuron::ndl::testing

#endif
