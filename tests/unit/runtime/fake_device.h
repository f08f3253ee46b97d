// SPDX-License-Identifier: Apache-2.0
//
// A device made of host memory, behind the driver library's port: it keeps what it is told, and a
// test looks at it or lets a call fail.
//
// Callers: tests of this folder; calls of the library from several threads take turns, a test looks
// at the state when they have ended. A FakeMachine is the port of the process while it lives. It
// has no engines: a test that wants an execution to end says so in `on_write`.
#ifndef TESTS_UNIT_RUNTIME_FAKE_DEVICE_H
#define TESTS_UNIT_RUNTIME_FAKE_DEVICE_H

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "driver/ndl/error.h"
#include "driver/ndl/port.h"
#include "nrt/nds/datastore_layout.h"
#include "runtime/device/core.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::test {

struct FakeState {
  struct Allocation {
    std::unique_ptr<std::byte, decltype(&std::free)> bytes{nullptr, &std::free};
    neuron_ioctl_mem_alloc_v2_mem_type64 request{};
    uint64_t address = 0;
  };
  struct Programmed {
    uint32_t core = 0;
    uint64_t address = 0;
    std::vector<uint32_t> words;
  };
  static constexpr uint64_t kBar0 = 0xFA0000000000;

  uint32_t generation = 2;
  int devices = 1;
  std::map<uint64_t, Allocation> memory;  // by handle
  uint64_t next_handle = 0x10;
  uint64_t next_address[2] = {0x1000, 0x100000100000};  // HBM, host
  std::map<uint64_t, uint32_t> registers;               // by offset in BAR 0
  std::vector<std::pair<uint64_t, uint32_t>> written;   // of BAR 0, in order
  std::vector<neuron_ioctl_notifications_init_with_realloc_v2> notifications;
  std::vector<neuron_ioctl_dma_queue_init> queues;
  std::vector<Programmed> programmed;
  std::vector<uint32_t> resets;    // maps of cores
  std::vector<uint32_t> core_map;  // physical numbers; empty: the driver has no map
  std::vector<neuron_ioctl_mem_chunk_info> chunks;
  uint32_t reset_result = 0;
  uint32_t longest_free_run = 512;
  std::vector<uint32_t> routing_ids = {0};           // by device
  neuron_ioctl_pod_status_v2 pod = {};               // of the UltraServer; size 0: none
  std::vector<uint32_t> connected;                   // devices at the links of each
  std::vector<std::pair<uint32_t, uint32_t>> marks;  // first and last core that were asked for
  uint64_t datastore = 0;                            // handle
  uint32_t datastore_bytes = NDS_BLOCK_BYTES;
  // Calls that fail, with a negative errno, and which were made.
  std::map<unsigned long, int> failing;
  std::vector<unsigned long> calls;
  std::atomic<int> posted{0};  // what became of posted register writes
  int wait_result = -ETIMEDOUT;
  int waits = 0;
  // After a register was written; before a register is read.
  std::function<void(uint64_t offset, uint32_t value)> on_write;
  std::function<void(uint64_t offset)> on_read;

  std::recursive_mutex calling;  // taken by each call of the library

  Allocation& at(uint64_t handle) { return memory.at(handle); }
  Allocation& at_address(uint64_t address) {
    for (auto& [handle, allocation] : memory) {
      if (address >= allocation.address && address < allocation.address + allocation.request.size) {
        return allocation;
      }
    }
    throw std::out_of_range("no memory at this address");
  }
  std::byte* bytes_at(uint64_t address) {
    Allocation& allocation = at_address(address);
    return allocation.bytes.get() + (address - allocation.address);
  }
  uint64_t add(const neuron_ioctl_mem_alloc_v2_mem_type64& request) {
    const uint64_t handle = next_handle++;
    Allocation& made = memory[handle];
    made.request = request;
    const uint64_t room = (request.size + 4095) / 4096 * 4096;
    made.bytes.reset(static_cast<std::byte*>(std::aligned_alloc(4096, room)));
    std::memset(made.bytes.get(), 0xAA, room);
    uint64_t& next = next_address[request.host_memory];
    const uint64_t alignment = std::max<uint64_t>(request.align, 4096);
    next = (next + alignment - 1) / alignment * alignment;
    made.address = next;
    next += room;
    return handle;
  }
  size_t count(unsigned long call) const {
    return static_cast<size_t>(std::count(calls.begin(), calls.end(), call));
  }
};

class FakeDevice : public ndl::DevicePort {
 public:
  explicit FakeDevice(FakeState& state) : state_(state) {}

  int check_posted() override { return state_.posted; }
  int ioctl(unsigned long request, void* argument) override {
    const std::lock_guard lock(state_.calling);
    state_.calls.push_back(request);
    if (const auto failing = state_.failing.find(request); failing != state_.failing.end()) {
      return failing->second;
    }
    const auto as = [&]<class T>(T*) { return static_cast<T*>(argument); };
    switch (request) {
      case NEURON_IOCTL_DRIVER_INFO_GET:
        as((neuron_ioctl_device_driver_info*)nullptr)->feature_flags1 = ~uint64_t{0};
        return 0;
      case NEURON_IOCTL_DEVICE_INFO: {
        auto& info = *as((neuron_ioctl_device_info*)nullptr);
        info = {};
        info.architecture = state_.generation;
        info.bar_address[0] = FakeState::kBar0;
        info.bar_size[0] = uint64_t{1} << 36;
        info.connected_device_count = static_cast<__u32>(state_.connected.size());
        std::copy(state_.connected.begin(), state_.connected.end(), info.connected_devices);
        return 0;
      }
      case NEURON_IOCTL_DEVICE_BASIC_INFO:
        *as((neuron_ioctl_device_basic_info*)nullptr) = {state_.generation, 7};
        return 0;
      case NEURON_IOCTL_MEM_ALLOC_V2MT64: {
        auto& alloc = *as((neuron_ioctl_mem_alloc_v2_mem_type64*)nullptr);
        *alloc.mem_handle = state_.add(alloc);
        return 0;
      }
      case NEURON_IOCTL_MEM_GET_EXTENDED_INFO: {
        auto& info = *as((neuron_ioctl_mem_get_extended_info*)nullptr);
        const FakeState::Allocation& found = state_.at(info.mem_handle);
        info.host_memory = found.request.host_memory;
        info.mmap_offset = info.mem_handle << 32;
        info.pa = found.address;
        info.size = found.request.size;
        return 0;
      }
      case NEURON_IOCTL_MEM_FREE:
        state_.memory.erase(as((neuron_ioctl_mem_free*)nullptr)->mem_handle);
        return 0;
      case NEURON_IOCTL_MEM_BUF_ZEROCOPY64: {
        auto& copy = *as((neuron_ioctl_mem_buf_copy64zc*)nullptr);
        std::byte* at = state_.at(copy.mem_handle).bytes.get() + copy.offset;
        copy.is_copy_to_device ? std::memcpy(at, copy.buffer, copy.size)
                               : std::memcpy(copy.buffer, at, copy.size);
        return 0;
      }
      case NEURON_IOCTL_MEMSET64: {
        auto& fill = *as((neuron_ioctl_memset64*)nullptr);
        std::memset(state_.at(fill.mem_handle).bytes.get() + fill.offset,
                    static_cast<int>(fill.value), fill.size);
        return 0;
      }
      case NEURON_IOCTL_MEM_COPY64: {
        auto& copy = *as((neuron_ioctl_mem_copy64*)nullptr);
        std::memcpy(state_.at(copy.dst_mem_handle).bytes.get() + copy.dst_offset,
                    state_.at(copy.src_mem_handle).bytes.get() + copy.src_offset, copy.size);
        return 0;
      }
      case NEURON_IOCTL_BAR_READ: {
        auto& access = *as((neuron_ioctl_bar_rw*)nullptr);
        for (uint32_t i = 0; i < access.count; ++i) {
          read_register(access.address[i] - FakeState::kBar0, &access.data[i]);
        }
        return 0;
      }
      case NEURON_IOCTL_BAR_WRITE: {
        auto& access = *as((neuron_ioctl_bar_rw*)nullptr);
        for (uint32_t i = 0; i < access.count; ++i) {
          write_register(access.address[i] - FakeState::kBar0, access.data[i], false);
        }
        return 0;
      }
      case NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2: {
        auto& queue = *as((neuron_ioctl_notifications_init_with_realloc_v2*)nullptr);
        neuron_ioctl_mem_alloc_v2_mem_type64 memory{};
        memory.size = queue.size;
        memory.host_memory = 1;
        queue.mem_handle = state_.add(memory);
        state_.notifications.push_back(queue);
        return 0;
      }
      case NEURON_IOCTL_NC_RESET: {
        auto& reset = *as((neuron_ioctl_device_reset*)nullptr);
        state_.resets.push_back(reset.nc_map);
        reset.request_id = 77;
        return 0;
      }
      case NEURON_IOCTL_NC_RESET_READY:
        as((neuron_ioctl_device_ready*)nullptr)->result = static_cast<int>(state_.reset_result);
        return 0;
      case NEURON_IOCTL_PROGRAM_ENGINE_NC64: {
        auto& program = *as((neuron_ioctl_program_engine_nc64*)nullptr);
        const auto* words = static_cast<const uint32_t*>(program.buffer);
        state_.programmed.push_back(
            {program.nc_id, program.dst, {words, words + program.size / sizeof(uint32_t)}});
        return 0;
      }
      case NEURON_IOCTL_DMA_COPY_DESCRIPTORS64: {
        auto& copy = *as((neuron_ioctl_dma_copy_descriptors64*)nullptr);
        std::memcpy(state_.at(copy.mem_handle).bytes.get() + copy.offset, copy.buffer,
                    size_t{copy.num_descs} * 16);
        return 0;
      }
      case NEURON_IOCTL_DMA_QUEUE_INIT_BATCH: {
        auto& batch = *as((neuron_ioctl_dma_queue_init_batch*)nullptr);
        state_.queues.insert(state_.queues.end(), batch.entries, batch.entries + batch.count);
        return 0;
      }
      case NEURON_IOCTL_HOST_DEVICE_ID_TO_RID_MAP: {
        auto& map = *as((neuron_ioctl_host_device_id_to_rid_map*)nullptr);
        map.count = static_cast<__u32>(state_.routing_ids.size());
        std::copy(state_.routing_ids.begin(), state_.routing_ids.end(), map.host_did_to_rid_map);
        return 0;
      }
      case NEURON_IOCTL_POD_STATUS_V2:
        if (state_.pod.v1.pod_sz == 0) return -ENOTTY;
        *as((neuron_ioctl_pod_status_v2*)nullptr) = state_.pod;
        return 0;
      case NEURON_IOCTL_GET_LOGICAL_TO_PHYSICAL_NC_MAP: {
        auto& map = *as((neuron_ioctl_get_logical_to_physical_nc_map*)nullptr);
        if (state_.core_map.empty()) return -ENOTTY;
        map.map->num_entries = static_cast<__u32>(state_.core_map.size());
        for (size_t i = 0; i < state_.core_map.size(); ++i) {
          map.map->mappings[i] = {0, state_.core_map[i]};
        }
        return 0;
      }
      case NEURON_IOCTL_DUMP_MEM_CHUNKS: {
        auto& dump = *as((neuron_ioctl_dump_mem_chunks*)nullptr);
        dump.num_entries_out = static_cast<__u32>(state_.chunks.size());
        if (dump.num_entries_in < state_.chunks.size()) return -EAGAIN;
        std::copy(state_.chunks.begin(), state_.chunks.end(), dump.data);
        return 0;
      }
      case NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0: {
        auto& mark = *as((neuron_ioctl_crwl_nc_map_ext*)nullptr);
        mark.max_nc_available = state_.longest_free_run;
        if (mark.nc_count > state_.longest_free_run) return -EBUSY;
        state_.marks.emplace_back(mark.start_nc_index, mark.end_nc_index);
        std::memset(mark.bitmap, 0, sizeof(mark.bitmap));
        for (uint32_t core = mark.start_nc_index; core < mark.start_nc_index + mark.nc_count;
             ++core) {
          mark.bitmap[core / 64] |= 1ul << core % 64;
        }
        return 0;
      }
      case NEURON_IOCTL_CRWL_NC_RANGE_UNMARK_EXT0:
        return 0;
      case NEURON_IOCTL_ACQUIRE_NEURON_DS: {
        auto& store = *as((neuron_ioctl_neuron_ds_info*)nullptr);
        if (state_.datastore == 0) {
          neuron_ioctl_mem_alloc_v2_mem_type64 memory{};
          memory.size = state_.datastore_bytes;
          memory.host_memory = 1;
          state_.datastore = state_.add(memory);
          std::memset(state_.at(state_.datastore).bytes.get(), 0, memory.size);
        }
        store.mmap_offset = state_.datastore << 32;
        store.size = state_.datastore_bytes;
        return 0;
      }
      case NEURON_IOCTL_RELEASE_NEURON_DS:
        return 0;
      default:
        return -ENOTTY;
    }
  }
  int map(size_t, int, uint64_t offset, void** address) override {
    *address = state_.at(offset >> 32).bytes.get();
    return 0;
  }
  int unmap(void*, size_t) override { return 0; }
  int read_register(uint64_t offset, uint32_t* value) override {
    if (state_.on_read) state_.on_read(offset);
    const auto found = state_.registers.find(offset);
    *value = found == state_.registers.end() ? 0 : found->second;
    return 0;
  }
  int write_register(uint64_t offset, uint32_t value, bool) override {
    state_.registers[offset] = value;
    state_.written.emplace_back(offset, value);
    if (state_.on_write) state_.on_write(offset, value);
    return 0;
  }
  int wait(unsigned, const uint32_t* word, uint32_t old, uint64_t) override {
    ++state_.waits;
    return *word != old ? 0 : state_.wait_result;
  }
  std::string describe(unsigned) override { return "the engines stand still"; }

 private:
  FakeState& state_;
};

class FakePort : public ndl::Port {
 public:
  explicit FakePort(FakeState& state) : state_(state) {}
  int devices(int* indexes, int capacity) override {
    for (int i = 0; i < std::min(capacity, state_.devices); ++i) indexes[i] = i;
    return state_.devices;
  }
  int open(int, int, std::unique_ptr<ndl::DevicePort>& device) override {
    device = std::make_unique<FakeDevice>(state_);
    return 0;
  }
  std::string name() const override { return "fake"; }

 private:
  FakeState& state_;
};

// The port of the process for the length of a test, and its device 0.
class FakeMachine {
 public:
  explicit FakeMachine(uint32_t generation = 2, std::vector<uint32_t> core_map = {}) {
    state.generation = generation;
    state.core_map = std::move(core_map);
    ndl::set_port(std::make_unique<FakePort>(state));
    auto opened = runtime::Device::open(0);
    if (!opened) throw std::runtime_error(opened.error().sentence);
    device = std::move(*opened);
  }
  ~FakeMachine() {
    state.on_write = nullptr;
    device.reset();
    ndl::release_port();
  }

  std::unique_ptr<runtime::Core> core(uint32_t number = 0, int turn_limit_seconds = 1) {
    auto made =
        runtime::Core::create(*device, number, number, std::chrono::seconds(turn_limit_seconds));
    if (!made) throw std::runtime_error(made.error().sentence);
    return std::move(*made);
  }

  FakeState state;
  std::unique_ptr<runtime::Device> device;
};

}  // namespace neuron::test

#endif
