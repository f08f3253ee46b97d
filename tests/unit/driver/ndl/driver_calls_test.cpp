// SPDX-License-Identifier: Apache-2.0
// What single calls send to the driver and what they make of its answer: locks, DMA queues, memory
// of other processes, maps of the host.
#include <array>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "fixture.h"

namespace neuron::ndl::testing {
namespace {

constexpr int kPassOn = 1 << 20;  // no answer of a driver: FakeDevice answers

// What the driver answers instead of FakeDevice, and which of these calls arrived.
struct Script {
  std::map<unsigned long, std::function<int(void*)>> answers;
  std::map<uint64_t, void*> regions;  // what a mapping at this offset shows
  std::vector<unsigned long> arrived;
  int on_control = 0;  // how many of them on the descriptor for questions
};

class ScriptedDevice : public FakeDevice {
 public:
  ScriptedDevice(FakeDriver& driver, Script& script, bool control)
      : FakeDevice(driver, control), fake_(driver), script_(script), control_(control) {}
  int ioctl(unsigned long request, void* argument) override {
    const auto answer = script_.answers.find(request);
    if (answer == script_.answers.end()) return FakeDevice::ioctl(request, argument);
    script_.arrived.push_back(request);
    script_.on_control += control_;
    const int result = answer->second(argument);
    return result == kPassOn ? FakeDevice::ioctl(request, argument) : result;
  }
  int map(size_t length, int protection, uint64_t offset, void** address) override {
    const auto region = script_.regions.find(offset);
    if (region == script_.regions.end()) {
      return FakeDevice::map(length, protection, offset, address);
    }
    *address = region->second;
    ++fake_.mappings;
    return 0;
  }

 private:
  FakeDriver& fake_;
  Script& script_;
  const bool control_;
};

class ScriptedPort : public FakePort {
 public:
  ScriptedPort(FakeDriver& driver, Script& script)
      : FakePort(driver), fake_(driver), script_(script) {}
  int open(int index, int flags, std::unique_ptr<DevicePort>& device) override {
    if (index >= fake_.device_count) return -ENODEV;
    device = std::make_unique<ScriptedDevice>(fake_, script_, flags == O_WRONLY);
    return 0;
  }

 private:
  FakeDriver& fake_;
  Script& script_;
};

class DriverCalls : public Library {
 protected:
  void SetUp() override { set_port(std::make_unique<ScriptedPort>(driver, script)); }
  template <class T>
  void answer(unsigned long request, std::function<int(T&)> with) {
    script.answers[request] = [with](void* argument) { return with(as<T>(argument)); };
  }
  using Requests = std::vector<unsigned long>;

  Script script;
};

TEST_F(DriverCalls, TakeTheLockOfACoreAsWriterAndReaderWithTheModelsUuid) {
  open();
  neuron_uuid model = {};
  for (size_t i = 0; i < std::size(model.value); ++i) model.value[i] = static_cast<uint8_t>(i + 1);
  int writers = 0, readers = 0, result = 0;
  auto lock = [&](int writer_change, int reader_change) {
    return [&, writer_change, reader_change](neuron_ioctl_crwl& in) {
      EXPECT_EQ(in.nc_id, 1u);
      EXPECT_EQ(std::memcmp(in.uuid.value, model.value, sizeof(model.value)), 0);
      writers += writer_change;
      readers += reader_change;
      return result;
    };
  };
  answer<neuron_ioctl_crwl>(NEURON_IOCTL_CRWL_WRITER_ENTER, lock(1, 0));
  answer<neuron_ioctl_crwl>(NEURON_IOCTL_CRWL_WRITER_DOWNGRADE, lock(-1, 1));
  answer<neuron_ioctl_crwl>(NEURON_IOCTL_CRWL_READER_ENTER, lock(0, 1));
  answer<neuron_ioctl_crwl>(NEURON_IOCTL_CRWL_READER_EXIT, lock(0, -1));
  EXPECT_EQ(ndl_crwl_writer_enter(device, 1, model), 0) << last_error();
  EXPECT_EQ(writers, 1);
  EXPECT_EQ(ndl_crwl_writer_downgrade(device, 1, model), 0) << last_error();
  EXPECT_EQ(writers, 0);
  EXPECT_EQ(readers, 1);
  EXPECT_EQ(ndl_crwl_reader_enter(device, 1, model), 0) << last_error();
  EXPECT_EQ(readers, 2);
  EXPECT_EQ(ndl_crwl_reader_exit(device, 1, model), 0) << last_error();
  EXPECT_EQ(ndl_crwl_reader_exit(device, 1, model), 0) << last_error();
  EXPECT_EQ(readers, 0);
  EXPECT_EQ(script.on_control, 0) << "the lock belongs to the opener of the device";
  result = -EALREADY;
  EXPECT_EQ(ndl_crwl_writer_enter(device, 1, model), -EALREADY);
  EXPECT_EQ(writers, 1) << "held all the same";
  EXPECT_TRUE(says("device 0: entering a core as writer")) << last_error();
  result = -EINVAL;
  EXPECT_EQ(ndl_crwl_writer_downgrade(device, 1, model), -EINVAL);
  EXPECT_TRUE(says("device 0: turning the writer of a core into a reader")) << last_error();
  result = -ENOENT;
  EXPECT_EQ(ndl_crwl_reader_enter(device, 1, model), -ENOENT);
  EXPECT_TRUE(says("device 0: entering a core as reader")) << last_error();
  result = -EINVAL;
  EXPECT_EQ(ndl_crwl_reader_exit(device, 1, model), -EINVAL);
  EXPECT_TRUE(says("device 0: leaving a core as reader")) << last_error();
}

TEST_F(DriverCalls, SetAndReadTheStateOfADmaEngine) {
  open();
  uint32_t now = 0;
  answer<neuron_ioctl_dma_eng_set_state>(NEURON_IOCTL_DMA_ENG_SET_STATE, [&](auto& in) {
    EXPECT_EQ(in.eng_id, 17u);
    now = in.state;
    return 0;
  });
  answer<neuron_ioctl_dma_eng_get_state>(NEURON_IOCTL_DMA_ENG_GET_STATE, [&](auto& in) {
    EXPECT_EQ(in.eng_id, 17u);
    *in.state = {4, 16, 5, now, now};
    return 0;
  });
  neuron_dma_eng_state state = {};
  EXPECT_EQ(ndl_dma_eng_set_state(0, 17, 3), 0) << last_error();
  EXPECT_EQ(now, 3u);
  EXPECT_EQ(ndl_dma_eng_get_state(0, 17, &state), 0) << last_error();
  EXPECT_EQ(state.revision_id, 4u);
  EXPECT_EQ(state.max_queues, 16u);
  EXPECT_EQ(state.num_queues, 5u);
  EXPECT_EQ(state.tx_state, 3u);
  EXPECT_EQ(state.rx_state, 3u);
  EXPECT_EQ(ndl_dma_eng_get_state(0, 17, nullptr), -EINVAL);
  EXPECT_TRUE(says("state is null")) << last_error();
  EXPECT_EQ(ndl_dma_eng_get_state(1, 17, &state), -ENODEV) << "only device 0 is open";
  EXPECT_EQ(ndl_dma_eng_set_state(1, 17, 2), -ENODEV);
  EXPECT_EQ(script.arrived.size(), 2u);
}

TEST_F(DriverCalls, ReadTheRegistersAndTheDescriptorsOfADmaQueue) {
  open();
  answer<neuron_ioctl_dma_queue_get_state>(NEURON_IOCTL_DMA_QUEUE_GET_STATE, [](auto& in) {
    EXPECT_EQ(in.eng_id, 33u);
    EXPECT_EQ(in.qid, 7u);
    in.tx->base_addr = 0x1122334455667700;
    in.tx->length = 64;
    in.rx->length = 32;
    in.rx->tail_pointer = 9;
    return 0;
  });
  neuron_dma_queue_state tx = {}, rx = {};
  EXPECT_EQ(ndl_dma_queue_get_state(0, 33, 7, &tx, &rx), 0) << last_error();
  EXPECT_EQ(tx.base_addr, 0x1122334455667700u);
  EXPECT_EQ(tx.length, 64u);
  EXPECT_EQ(rx.length, 32u);
  EXPECT_EQ(rx.tail_pointer, 9u);
  EXPECT_EQ(ndl_dma_queue_get_state(0, 33, 7, &tx, nullptr), -EINVAL);
  EXPECT_EQ(ndl_dma_queue_get_state(0, 33, 7, nullptr, &rx), -EINVAL);

  int result = 0;
  answer<neuron_ioctl_dma_descriptor_copyout>(NEURON_IOCTL_DMA_DESCRIPTOR_COPYOUT, [&](auto& in) {
    EXPECT_EQ(in.eng_id, 33u);
    EXPECT_EQ(in.qid, 7u);
    EXPECT_EQ(in.type, NEURON_DMA_QUEUE_TYPE_RX);
    EXPECT_EQ(in.start_index, 30u);
    EXPECT_EQ(in.count, 2u);
    if (result == 0) std::memset(in.buffer, 0xD5, size_t{in.count} * 16);
    return result;
  });
  std::array<uint8_t, 33> descriptors = {};
  EXPECT_EQ(
      ndl_dma_descriptor_copyout(0, 33, 7, NEURON_DMA_QUEUE_TYPE_RX, 30, 2, descriptors.data()), 0)
      << last_error();
  EXPECT_EQ(descriptors[0], 0xD5);
  EXPECT_EQ(descriptors[31], 0xD5);
  EXPECT_EQ(descriptors[32], 0);
  result = -EFBIG;
  EXPECT_EQ(
      ndl_dma_descriptor_copyout(0, 33, 7, NEURON_DMA_QUEUE_TYPE_RX, 30, 2, descriptors.data()),
      -EFBIG);
  EXPECT_TRUE(says("device 0: reading descriptors back")) << last_error();
  EXPECT_EQ(ndl_dma_descriptor_copyout(0, 33, 7, NEURON_DMA_QUEUE_TYPE_RX, 30, 2, nullptr),
            -EINVAL);
  EXPECT_EQ(script.arrived.size(), 3u);
}

TEST_F(DriverCalls, StartAcknowledgeAndReleaseTheQueueTheyName) {
  open();
  int result = 0;
  answer<neuron_ioctl_dma_queue_copy_start>(NEURON_IOCTL_DMA_QUEUE_COPY_START, [&](auto& in) {
    EXPECT_EQ(in.eng_id, 5u);
    EXPECT_EQ(in.qid, 14u);
    EXPECT_EQ(in.tx_desc_count, 12u);
    EXPECT_EQ(in.rx_desc_count, 10u);
    return result;
  });
  answer<neuron_ioctl_dma_ack_completed>(NEURON_IOCTL_DMA_ACK_COMPLETED, [&](auto& in) {
    EXPECT_EQ(in.eng_id, 5u);
    EXPECT_EQ(in.qid, 14u);
    EXPECT_EQ(in.count, 22u);
    return result;
  });
  answer<neuron_ioctl_dma_queue_release>(NEURON_IOCTL_DMA_QUEUE_RELEASE, [&](auto& in) {
    EXPECT_EQ(in.eng_id, 5u);
    EXPECT_EQ(in.qid, 14u);
    return result;
  });
  EXPECT_EQ(ndl_dma_queue_copy_start(0, 5, 14, 12, 10), 0) << last_error();
  EXPECT_EQ(ndl_dma_ack_completed_desc(0, 5, 14, 22), 0) << last_error();
  EXPECT_EQ(ndl_dma_queue_release(0, 5, 14), 0) << last_error();
  EXPECT_EQ(script.arrived,
            (Requests{NEURON_IOCTL_DMA_QUEUE_COPY_START, NEURON_IOCTL_DMA_ACK_COMPLETED,
                      NEURON_IOCTL_DMA_QUEUE_RELEASE}));
  result = -EPERM;
  EXPECT_EQ(ndl_dma_queue_copy_start(0, 5, 14, 12, 10), -EPERM);
  EXPECT_TRUE(says("device 0: starting a DMA queue")) << last_error();
  EXPECT_EQ(ndl_dma_ack_completed_desc(0, 5, 14, 22), -EPERM);
  EXPECT_TRUE(says("device 0: acknowledging descriptors")) << last_error();
  EXPECT_EQ(ndl_dma_queue_release(0, 5, 14), -EPERM);
  EXPECT_TRUE(says("device 0: releasing a DMA queue")) << last_error();
  EXPECT_EQ(ndl_dma_queue_release(1, 5, 14), -ENODEV);
}

TEST_F(DriverCalls, ReserveHostQueuesOfACoreAndGiveThemBack) {
  open();
  int result = 0;
  answer<neuron_ioctl_h2t_dma_alloc_queues>(NEURON_IOCTL_H2T_DMA_ALLOC_QUEUES, [&](auto& in) {
    EXPECT_EQ(in.sz, sizeof(in));
    EXPECT_EQ(in.nc_id, 1u);
    EXPECT_EQ(in.copy_queue_cnt, 3u);
    EXPECT_EQ(in.service_queue_cnt, 2u);
    in.copy_queue_bmap = 0x0E;
    in.service_queue_bmap = 0x30;
    in.copy_default_queue = 6;
    return result;
  });
  uint32_t given_back = 0;
  answer<neuron_ioctl_h2t_dma_free_queues>(NEURON_IOCTL_H2T_DMA_FREE_QUEUES, [&](auto& in) {
    EXPECT_EQ(in.sz, sizeof(in));
    EXPECT_EQ(in.nc_id, 1u);
    given_back = in.queue_bmap;
    return result;
  });
  uint32_t copy = 0, service = 0, standard = 0;
  EXPECT_EQ(ndl_h2t_dma_queue_alloc(device, 1, 3, 2, &copy, &service, &standard), 0)
      << last_error();
  EXPECT_EQ(copy, 0x0Eu);
  EXPECT_EQ(service, 0x30u);
  EXPECT_EQ(standard, 6u);
  EXPECT_EQ(ndl_h2t_dma_queue_free(device, 1, 0x3E), 0) << last_error();
  EXPECT_EQ(given_back, 0x3Eu);
  result = -ENXIO;
  copy = service = standard = 99;
  EXPECT_EQ(ndl_h2t_dma_queue_alloc(device, 1, 3, 2, &copy, &service, &standard), -ENXIO);
  EXPECT_TRUE(says("device 0: reserving host queues")) << last_error();
  EXPECT_EQ(copy, 99u) << "none were reserved";
  EXPECT_EQ(service, 99u);
  EXPECT_EQ(standard, 99u);
  EXPECT_EQ(ndl_h2t_dma_queue_free(device, 1, 1), -ENXIO);
  EXPECT_TRUE(says("device 0: giving host queues back")) << last_error();
  const size_t arrived = script.arrived.size();
  EXPECT_EQ(ndl_h2t_dma_queue_alloc(device, 1, 65539, 2, &copy, &service, &standard), -E2BIG)
      << "65539 would arrive as 3";
  EXPECT_EQ(ndl_h2t_dma_queue_free(device, 257, 1), -E2BIG) << "257 would arrive as 1";
  EXPECT_TRUE(says("device 0 has no core 257")) << last_error();
  EXPECT_EQ(ndl_h2t_dma_queue_alloc(device, 1, 3, 2, nullptr, &service, &standard), -EINVAL);
  EXPECT_EQ(script.arrived.size(), arrived);
}

TEST_F(DriverCalls, AllocateAScratchpadWhereTheDriverHasThem) {
  open();
  answer<neuron_ioctl_mem_alloc_v2_mem_type64>(NEURON_IOCTL_MEM_ALLOC_V2MT64, [](auto& in) {
    EXPECT_EQ(in.size, 3u << 20);
    EXPECT_EQ(in.align, 0u);
    EXPECT_EQ(in.host_memory, 0u);
    EXPECT_EQ(in.dram_channel, 1u);
    EXPECT_EQ(in.dram_region, 0u);
    EXPECT_EQ(in.nc_id, 4u);
    EXPECT_EQ(in.mem_type, NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE);
    return kPassOn;
  });
  uint64_t handle = 0, pa = 0;
  ASSERT_EQ(ndl_alloc_contiguous_scratchpad(device, 3u << 20, 1, 4, &handle), 0) << last_error();
  EXPECT_EQ(script.arrived.size(), 1u);
  ASSERT_EQ(driver.chunks.size(), 1u);
  EXPECT_EQ(ndl_memory_get_pa(handle, &pa), 0);
  EXPECT_EQ(pa, driver.chunks.begin()->second.pa);
  EXPECT_EQ(ndl_alloc_contiguous_scratchpad(device, 3u << 20, 1, 4, nullptr), -EINVAL);
  EXPECT_EQ(ndl_memory_free(handle), 0);
  EXPECT_TRUE(driver.chunks.empty());
  ASSERT_EQ(ndl_close_device(device), 0);
  device = nullptr;
  driver.features &= ~uint64_t{NEURON_DRIVER_FEATURE_CONTIGUOUS_SCRATCHPAD};
  open();
  EXPECT_EQ(ndl_alloc_contiguous_scratchpad(device, 3u << 20, 1, 4, &handle), -ENOTSUP);
  EXPECT_TRUE(says("device 0: the driver has no contiguous scratchpad")) << last_error();
  EXPECT_EQ(script.arrived.size(), 1u);
}

TEST_F(DriverCalls, ShowTheHbmsThatWereMappedWholeWithTheDevice) {
  static std::array<char, 4096> hbms[2];
  constexpr uint64_t kOffset = 1ull << 46, kStep = 1ull << 38;
  for (uint64_t i = 0; i < 2; ++i) script.regions[kOffset + i * kStep] = hbms[i].data();
  answer<neuron_ioctl_resource_mmap_info>(NEURON_IOCTL_RESOURCE_MMAP_INFO, [&](auto& in) {
    EXPECT_EQ(in.block, static_cast<uint32_t>(NEURON_DM_BLOCK_HBM));
    EXPECT_EQ(in.resource, static_cast<uint32_t>(NEURON_DM_RESOURCE_DMEM));
    if (in.block_id > 1) return -EINVAL;
    in.offset = kOffset + in.block_id * kStep;
    in.size = hbms[0].size();
    return 0;
  });
  void* va = nullptr;
  size_t size = 0;
  open();
  EXPECT_EQ(ndl_get_hbm_va(device, 0, &va, &size), -ENOTSUP);
  EXPECT_TRUE(says("without map_hbm")) << last_error();
  ASSERT_EQ(ndl_close_device(device), 0);
  ndl_device_init_param_t whole = {};
  whole.map_hbm = true;
  ASSERT_EQ(ndl_open_device(0, &whole, &device), 0) << last_error();
  ASSERT_EQ(ndl_get_hbm_va(device, 1, &va, &size), 0) << last_error();
  EXPECT_EQ(va, hbms[1].data());
  EXPECT_EQ(size, hbms[1].size());
  ASSERT_EQ(ndl_get_hbm_va(device, 0, &va, &size), 0) << last_error();
  EXPECT_EQ(va, hbms[0].data());
  EXPECT_EQ(device->hbm_size, hbms[0].size());
  for (int missing : {-1, 2, MAX_HBM_PER_DEVICE}) {
    EXPECT_EQ(ndl_get_hbm_va(device, missing, &va, &size), -EINVAL) << missing;
    EXPECT_TRUE(says("device 0 has no HBM")) << last_error();
  }
  EXPECT_EQ(ndl_get_hbm_va(device, 0, nullptr, &size), -EINVAL);
  ASSERT_EQ(ndl_close_device(device), 0);

  // Who opened the device first has not asked for it.
  open();
  ndl_device_t* again = nullptr;
  ASSERT_EQ(ndl_open_device(0, &whole, &again), 0) << last_error();
  EXPECT_EQ(again, device);
  EXPECT_EQ(again->hbm_size, hbms[0].size());
  EXPECT_EQ(again->hbm_va_cnt, 2u);
  ASSERT_EQ(ndl_get_hbm_va(again, 1, &va, &size), 0) << last_error();
  EXPECT_EQ(va, hbms[1].data());
  EXPECT_EQ(ndl_close_device(again), 0);
  ASSERT_EQ(ndl_get_hbm_va(device, 1, &va, &size), 0) << "the other reference keeps it";
}

TEST_F(DriverCalls, FindAnAllocationByAddressWithoutTakingItOver) {
  open();
  const uint64_t mine = allocate(8192);
  const auto& [driver_handle, chunk] = *driver.chunks.begin();
  int result = 0;
  answer<neuron_ioctl_mem_get_mc_mmap_info_v2>(
      NEURON_IOCTL_MEM_MC_GET_INFO_V2, [&, pa = chunk.pa, number = driver_handle](auto& in) {
        EXPECT_EQ(in.pa, pa + 100);
        in.mmap_offset = 0xABCD000;
        in.size = 8192;
        in.mem_handle = number;
        return result;
      });
  uint64_t offset = 0, size = 0, handle = 0;
  ASSERT_EQ(ndl_mem_get_mc_mmap_info(device, chunk.pa + 100, &offset, &size, &handle), 0)
      << last_error();
  EXPECT_EQ(offset, 0xABCD000u);
  EXPECT_EQ(size, 8192u);
  EXPECT_NE(handle, mine);
  ASSERT_EQ(ndl_memset(handle, 8191, 0x5A, 1), 0) << last_error();
  EXPECT_EQ(chunk.bytes[8191], 0x5A) << "the handle works on the allocation it was found for";
  EXPECT_EQ(ndl_memory_free(handle), 0);
  EXPECT_EQ(driver.chunks.size(), 1u) << "the allocation is its owner's to free";
  offset = size = 0;
  EXPECT_EQ(ndl_mem_get_mc_mmap_info(device, chunk.pa + 100, &offset, &size, nullptr), 0);
  EXPECT_EQ(offset, 0xABCD000u);
  EXPECT_EQ(handles_in_use(), 1u);
  result = -ENOMEM;
  offset = size = handle = 77;
  EXPECT_EQ(ndl_mem_get_mc_mmap_info(device, chunk.pa + 100, &offset, &size, &handle), -ENOMEM);
  EXPECT_TRUE(says("device 0: finding an allocation")) << last_error();
  EXPECT_EQ(offset, 77u);
  EXPECT_EQ(size, 77u);
  EXPECT_EQ(handle, 77u);
  EXPECT_EQ(ndl_mem_get_mc_mmap_info(device, chunk.pa, nullptr, &size, nullptr), -EINVAL);
  EXPECT_EQ(ndl_memory_free(mine), 0);
}

TEST_F(DriverCalls, ExportMappedMemoryAsDmaBuf) {
  open();
  const uint64_t handle = allocate(8192);
  void* va = nullptr;
  ASSERT_EQ(ndl_memory_map(handle, &va), 0);
  const uint64_t address = reinterpret_cast<uint64_t>(va) + 4096;
  int result = 0;
  answer<neuron_ioctl_dmabuf_fd>(NEURON_IOCTL_DMABUF_FD, [&](auto& in) {
    EXPECT_EQ(in.va, address);
    EXPECT_EQ(in.size, 4096u);
    if (result == 0) *in.fd = 1234;
    return result;
  });
  int fd = -7;
  EXPECT_EQ(ndl_get_dmabuf_fd(address, 4096, &fd), 0) << last_error();
  EXPECT_EQ(fd, 1234);
  result = -EPROTONOSUPPORT;
  fd = -7;
  EXPECT_EQ(ndl_get_dmabuf_fd(address, 4096, &fd), -EPROTONOSUPPORT);
  EXPECT_TRUE(says("device 0: exporting memory as dma-buf")) << last_error();
  EXPECT_EQ(fd, -7);
  EXPECT_EQ(ndl_get_dmabuf_fd(reinterpret_cast<uint64_t>(&fd), 4, &fd), -EINVAL);
  EXPECT_TRUE(says("in no device memory that this process has mapped")) << last_error();
  EXPECT_EQ(ndl_get_dmabuf_fd(address, 4096, nullptr), -EINVAL);
  EXPECT_EQ(script.arrived.size(), 2u);
  EXPECT_EQ(ndl_memory_free(handle), 0);
  ASSERT_EQ(ndl_close_device(device), 0);
  device = nullptr;
  driver.features &= ~uint64_t{NEURON_DRIVER_FEATURE_DMABUF};
  open();
  const uint64_t older = allocate(8192);
  ASSERT_EQ(ndl_memory_map(older, &va), 0);
  EXPECT_EQ(ndl_get_dmabuf_fd(reinterpret_cast<uint64_t>(va), 4096, &fd), -ENOTSUP);
  EXPECT_TRUE(says("device 0: the driver cannot export memory as dma-buf")) << last_error();
  EXPECT_EQ(script.arrived.size(), 2u);
}

TEST_F(DriverCalls, ListTheAllocationsOfAnHbmOrSayHowMuchRoomTheyNeed) {
  open();
  int result = 0;
  answer<neuron_ioctl_dump_mem_chunks>(NEURON_IOCTL_DUMP_MEM_CHUNKS, [&](auto& in) {
    EXPECT_EQ(in.hbm_index, 1u);
    in.num_entries_out = 2;
    if (result != 0) return result;
    if (in.num_entries_in < 2) return -EAGAIN;
    in.data[0] = {0x1000, 4096, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE};
    in.data[1] = {0x8000, 8192, NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE};
    return 0;
  });
  uint32_t entries = 0;
  EXPECT_EQ(ndl_dump_device_allocation_info(device, 1, nullptr, &entries), -EAGAIN);
  EXPECT_EQ(entries, 2u);
  neuron_ioctl_mem_chunk_info chunks[3] = {};
  entries = 3;
  EXPECT_EQ(ndl_dump_device_allocation_info(device, 1, chunks, &entries), 0) << last_error();
  EXPECT_EQ(entries, 2u);
  EXPECT_EQ(chunks[0].pa, 0x1000u);
  EXPECT_EQ(chunks[1].size, 8192u);
  EXPECT_EQ(chunks[1].mem_type,
            static_cast<uint32_t>(NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE));
  result = -EINVAL;
  entries = 3;
  EXPECT_EQ(ndl_dump_device_allocation_info(device, 1, chunks, &entries), -EINVAL);
  EXPECT_TRUE(says("device 0: listing its allocations")) << last_error();
  EXPECT_EQ(entries, 3u);
  EXPECT_EQ(ndl_dump_device_allocation_info(device, 1, nullptr, &entries), -EINVAL)
      << "room for 3 entries nowhere";
  EXPECT_EQ(script.arrived.size(), 3u);
}

TEST_F(DriverCalls, StartAFillOfAnHbmAndWaitForIt) {
  open();
  bool running = false;
  answer<neuron_ioctl_hbm_scrub_start>(NEURON_IOCTL_HBM_SCRUB_START, [&](auto& in) {
    EXPECT_EQ(in.nc_id, 1u);
    EXPECT_EQ(in.hbm_index, 2u);
    EXPECT_EQ(in.axi_port, 3u);
    EXPECT_EQ(in.init_val, 0xDEADBEEFu);
    return std::exchange(running, true) ? -EPERM : 0;
  });
  answer<neuron_ioctl_hbm_scrub_wait>(NEURON_IOCTL_HBM_SCRUB_WAIT, [&](auto& in) {
    EXPECT_EQ(in.nc_id, 1u);
    EXPECT_EQ(in.hbm_index, 2u);
    return std::exchange(running, false) ? 0 : -EPERM;
  });
  EXPECT_EQ(ndl_hbm_scrub_wait(device, 1, 2), -EPERM) << "none was started";
  EXPECT_TRUE(says("device 0: waiting for the fill of an HBM")) << last_error();
  EXPECT_EQ(ndl_hbm_scrub_start(device, 1, 2, 3, 0xDEADBEEF), 0) << last_error();
  EXPECT_TRUE(running);
  EXPECT_EQ(ndl_hbm_scrub_start(device, 1, 2, 3, 0xDEADBEEF), -EPERM) << "one at a time";
  EXPECT_TRUE(says("device 0: starting to fill an HBM")) << last_error();
  EXPECT_EQ(ndl_hbm_scrub_wait(device, 1, 2), 0) << last_error();
  EXPECT_FALSE(running);
}

TEST_F(DriverCalls, TellWhichDevicesOfTheHostTheyAre) {
  open();
  uint32_t id = 0;
  EXPECT_EQ(ndl_get_host_device_id(device, &id), 0) << last_error();
  EXPECT_EQ(id, 3u);
  EXPECT_EQ(ndl_get_host_device_id(device, nullptr), -EINVAL);
  uint32_t devices = 2;
  int result = 0;
  answer<neuron_ioctl_host_device_id_to_rid_map>(NEURON_IOCTL_HOST_DEVICE_ID_TO_RID_MAP,
                                                 [&](auto& in) {
                                                   in.count = devices;
                                                   for (uint32_t i = 0; i < 64; ++i) {
                                                     in.host_did_to_rid_map[i] = 1000 + i;
                                                   }
                                                   return result;
                                                 });
  std::vector<uint32_t> ids(MAX_NEURON_DEVICE_COUNT + 1, 7);
  uint32_t count = 0;
  EXPECT_EQ(ndl_get_host_device_id_to_rid_map(&count, ids.data()), 0) << last_error();
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(ids[1], 1001u);
  EXPECT_EQ(ids[2], 7u) << "no more than there are devices";
  EXPECT_EQ(script.on_control, 1);
  devices = 200;
  EXPECT_EQ(ndl_get_host_device_id_to_rid_map(&count, ids.data()), 0) << last_error();
  EXPECT_EQ(count, 64u) << "a driver's count is not trusted";
  EXPECT_EQ(ids[63], 1063u);
  EXPECT_EQ(ids[64], 7u);
  result = -EACCES;
  count = 5;
  EXPECT_EQ(ndl_get_host_device_id_to_rid_map(&count, ids.data()), -EACCES);
  EXPECT_TRUE(says("asking for routing ids")) << last_error();
  EXPECT_EQ(count, 5u);
  EXPECT_EQ(ndl_get_host_device_id_to_rid_map(nullptr, ids.data()), -EINVAL);
}

TEST_F(DriverCalls, MapLogicalCoresWhereTheChipNumbersThemItself) {
  int result = 0;
  std::vector<uint8_t> room(sizeof(neuron_ioctl_nc_map) + 2 * sizeof(neuron_ioctl_nc_map_entry));
  auto* map = reinterpret_cast<neuron_ioctl_nc_map*>(room.data());
  answer<neuron_ioctl_get_logical_to_physical_nc_map>(
      NEURON_IOCTL_GET_LOGICAL_TO_PHYSICAL_NC_MAP, [&](auto& in) {
        EXPECT_EQ(in.max_map_entries, 2u);
        EXPECT_EQ(in.mapping_version, static_cast<uint32_t>(NEURON_IOCTL_NC_MAPPING_TYPE_V0));
        if (result != 0) return result;
        in.map->num_entries = 2;
        in.map->mappings[0] = {1, 6};
        in.map->mappings[1] = {0, 3};
        return 0;
      });
  EXPECT_EQ(ndl_get_logical_to_physical_nc_map(map, 2, NEURON_IOCTL_NC_MAPPING_TYPE_V0), 0)
      << last_error();
  EXPECT_EQ(map->num_entries, 2u);
  EXPECT_EQ(map->mappings[0].device_nc_idx, 6u);
  EXPECT_EQ(map->mappings[1].device_id, 0u);
  EXPECT_EQ(map->mappings[1].device_nc_idx, 3u);
  EXPECT_EQ(script.on_control, 1);
  result = -524;  // the kernel's own number for "not supported"
  EXPECT_EQ(ndl_get_logical_to_physical_nc_map(map, 2, NEURON_IOCTL_NC_MAPPING_TYPE_V0), -ENOTSUP);
  EXPECT_EQ(errno, ENOTSUP);
  EXPECT_TRUE(says("this chip numbers its cores physically")) << last_error();
  EXPECT_EQ(ndl_get_logical_to_physical_nc_map(nullptr, 2, NEURON_IOCTL_NC_MAPPING_TYPE_V0),
            -EINVAL);
}

TEST_F(DriverCalls, PrintTheOwnerOfACoreWithoutAnOpenDevice) {
  int result = 0;
  uint32_t filter = 9;
  answer<neuron_ioctl_nc_pid_state_dump>(NEURON_IOCTL_NC_PID_STATE_DUMP, [&](auto& in) {
    EXPECT_EQ(in.size, sizeof(in));
    EXPECT_EQ(in.nc_id, 37u);
    EXPECT_EQ(in.log_dump_limit, 50u);
    filter = in.filter_log_owner;
    return result;
  });
  EXPECT_EQ(ndl_dump_nc_pid_info(37, true, 50), 0) << last_error();
  EXPECT_EQ(filter, 1u);
  EXPECT_EQ(ndl_dump_nc_pid_info(37, false, 50), 0) << last_error();
  EXPECT_EQ(filter, 0u);
  EXPECT_EQ(script.on_control, 2);
  EXPECT_EQ(driver.open_controls, 0) << "nothing needs it any more";
  result = -EINVAL;
  EXPECT_EQ(ndl_dump_nc_pid_info(37, false, 50), -EINVAL);
  EXPECT_TRUE(says("printing the owner of a core")) << last_error();
}

TEST_F(DriverCalls, SayThatNoCallSwitchesThrottlingNotifications) {
  open();
  const size_t calls = driver.requests.size();
  for (bool enable : {true, false}) {
    EXPECT_EQ(ndl_enable_throttling_notifications(device, enable), -ENOTSUP);
    EXPECT_EQ(errno, ENOTSUP);
    EXPECT_TRUE(
        says("device 0: the driver's interface (2.24, 2.25) has no call that switches "
             "throttling notifications"))
        << last_error();
  }
  EXPECT_EQ(driver.requests.size(), calls);
  ndl_device_t stranger = {};
  EXPECT_EQ(ndl_enable_throttling_notifications(&stranger, true), -ENODEV);
}

}  // namespace
}  // namespace neuron::ndl::testing
