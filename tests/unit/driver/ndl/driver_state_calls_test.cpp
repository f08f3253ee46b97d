// SPDX-License-Identifier: Apache-2.0
// What single calls hand to the driver and what they make of its answer.
#include <sys/mman.h>

#include <cstring>
#include <functional>
#include <string>

#include "fixture.h"
#include "nrt/nds/neuron_ds.h"

namespace neuron::ndl::testing {
namespace {

constexpr int kPassed = 1;  // an answer that leaves the call to the fake driver
constexpr uint64_t kRegionOffset = 1ull << 41;

struct Answers {
  struct Mapping {
    size_t length;
    int protection;
    uint64_t offset;
  };
  std::map<unsigned long, std::function<int(void*)>> calls;
  std::vector<Mapping> mapped;
  std::vector<uint8_t> region = std::vector<uint8_t>(8192);
};

class AnsweringDevice : public FakeDevice {
 public:
  AnsweringDevice(FakeDriver& driver, Answers& answers, bool control)
      : FakeDevice(driver, control), driver_(driver), answers_(answers) {}
  int ioctl(unsigned long request, void* argument) override {
    if (const auto found = answers_.calls.find(request); found != answers_.calls.end()) {
      const int result = found->second(argument);
      if (result != kPassed) {
        driver_.requests.push_back(_IOC_NR(request));
        return result;
      }
    }
    return FakeDevice::ioctl(request, argument);
  }
  int map(size_t length, int protection, uint64_t offset, void** address) override {
    answers_.mapped.push_back({length, protection, offset});
    const auto chunk = driver_.chunks.find(offset);
    if (offset == kRegionOffset) {
      *address = answers_.region.data();
    } else if (chunk != driver_.chunks.end() && length < chunk->second.bytes.size()) {
      *address = chunk->second.bytes.data();
    } else {
      return FakeDevice::map(length, protection, offset, address);
    }
    ++driver_.mappings;
    return 0;
  }

 private:
  FakeDriver& driver_;
  Answers& answers_;
};

class AnsweringPort : public FakePort {
 public:
  AnsweringPort(FakeDriver& driver, Answers& answers)
      : FakePort(driver), driver_(driver), answers_(answers) {}
  int open(int index, int flags, std::unique_ptr<DevicePort>& device) override {
    if (index >= driver_.device_count) return -ENODEV;
    device = std::make_unique<AnsweringDevice>(driver_, answers_, flags == O_WRONLY);
    return 0;
  }

 private:
  FakeDriver& driver_;
  Answers& answers_;
};

class DriverStateCalls : public Library {
 protected:
  void SetUp() override { set_port(std::make_unique<AnsweringPort>(driver, answers)); }
  // The driver answers `request` with what `answer` returns for its argument.
  template <class T>
  void when(unsigned long request, std::function<int(T&)> answer) {
    answers.calls[request] = [answer](void* argument) { return answer(as<T>(argument)); };
  }
  int last_protection() const {
    return answers.mapped.empty() ? -1 : answers.mapped.back().protection;
  }
  Answers answers;
};

TEST_F(DriverStateCalls, StartACopyThatIsWaitedForByItsNumber) {
  open();
  const uint64_t source = allocate(8192);
  const uint64_t source_chunk = driver.chunks.rbegin()->first;
  const uint64_t destination = allocate(4096);
  const uint64_t destination_chunk = driver.chunks.rbegin()->first;
  neuron_ioctl_mem_copy_async64 started = {};
  neuron_ioctl_mem_copy_async_wait waited = {};
  int answer = 0;
  when<neuron_ioctl_mem_copy_async64>(NEURON_IOCTL_MEM_COPY_ASYNC64, [&](auto& in) {
    started = in;
    in.wait_handle = NEURON_DMA_H2T_CTX_HANDLE_ASYNC2;
    return answer;
  });
  when<neuron_ioctl_mem_copy_async_wait>(NEURON_IOCTL_MEM_COPY_ASYNC_WAIT, [&](auto& in) {
    waited = in;
    return answer;
  });
  int number = NEURON_DMA_H2T_CTX_HANDLE_ASYNC1;
  ASSERT_EQ(ndl_memory_copy_as(source, destination, 4096, 16, 1000, 0x5000, &number), 0)
      << last_error();
  EXPECT_EQ(number, NEURON_DMA_H2T_CTX_HANDLE_ASYNC2);
  EXPECT_EQ(started.src_mem_handle, source_chunk);
  EXPECT_EQ(started.dst_mem_handle, destination_chunk);
  EXPECT_EQ(started.size, 1000u);
  EXPECT_EQ(started.src_offset, 4096u);
  EXPECT_EQ(started.dst_offset, 16u);
  EXPECT_EQ(started.host_prefetch_addr, 0x5000u);
  EXPECT_EQ(started.pwait_handle, 1u) << "the earlier copy";
  ASSERT_EQ(ndl_memory_copy_as_wait(destination, number), 0) << last_error();
  EXPECT_EQ(waited.src_mem_handle, destination_chunk);
  EXPECT_EQ(waited.dst_mem_handle, destination_chunk);
  EXPECT_EQ(waited.pwait_handle, 2u);

  answer = -ETIMEDOUT;
  number = NEURON_DMA_H2T_CTX_HANDLE_NONE;
  EXPECT_EQ(ndl_memory_copy_as(source, destination, 0, 0, 1, 0, &number), -ETIMEDOUT);
  EXPECT_EQ(started.pwait_handle, UINT32_MAX);
  EXPECT_EQ(number, NEURON_DMA_H2T_CTX_HANDLE_NONE) << "nothing was started";
  EXPECT_EQ(ndl_memory_copy_as_wait(destination, 1), -ETIMEDOUT);
  EXPECT_TRUE(says("device 0: waiting for a copy")) << last_error();
  const size_t calls = driver.requests.size();
  EXPECT_EQ(ndl_memory_copy_as(source, destination, 0, 0, 4097, 0, &number), -EINVAL);
  EXPECT_TRUE(says("the destination of a copy")) << last_error();
  EXPECT_EQ(ndl_memory_copy_as(source, destination, 0, 0, 1, 0, nullptr), -EINVAL);
  EXPECT_EQ(ndl_memory_copy_as_wait(destination + 1, 1), -EINVAL);
  EXPECT_TRUE(says("no memory handle")) << last_error();
  EXPECT_EQ(driver.requests.size(), calls);
}

TEST_F(DriverStateCalls, MapPartOfAScratchpadAndTakeTheMappingAway) {
  open();
  uint64_t handle = 0;
  ASSERT_EQ(ndl_alloc_contiguous_scratchpad(device, 16384, 0, 0, &handle), 0) << last_error();
  auto& [offset, chunk] = *driver.chunks.rbegin();
  void *va = nullptr, *again = nullptr;
  EXPECT_EQ(ndl_memory_map_contiguous_scratchpad(handle, &va, 0), -EINVAL);
  EXPECT_TRUE(says("size is 0")) << last_error();
  ASSERT_EQ(ndl_memory_map_contiguous_scratchpad(handle, &va, 4096), 0) << last_error();
  ASSERT_EQ(answers.mapped.size(), 1u);
  EXPECT_EQ(answers.mapped[0].length, 4096u) << "what was asked for, not the allocation";
  EXPECT_EQ(answers.mapped[0].protection, PROT_READ | PROT_WRITE);
  EXPECT_EQ(answers.mapped[0].offset, offset);
  static_cast<uint8_t*>(va)[4095] = 0x7E;
  EXPECT_EQ(chunk.bytes[4095], 0x7E);
  EXPECT_EQ(ndl_memory_map(handle, &again), 0);
  EXPECT_EQ(again, va);
  EXPECT_EQ(driver.mappings, 1);
  EXPECT_EQ(ndl_memory_unmap(handle), 0);
  EXPECT_EQ(driver.mappings, 0);
  EXPECT_EQ(ndl_memory_unmap(handle), 0) << "nothing is mapped any more";
  EXPECT_EQ(driver.mappings, 0);
  EXPECT_EQ(ndl_memory_free(handle), 0);
  EXPECT_EQ(ndl_memory_unmap(handle), -EINVAL);
  EXPECT_TRUE(says("ndl_memory_unmap")) << last_error();
}

TEST_F(DriverStateCalls, MapARegisterRegionOnceAndKeepItUntilTheDeviceIsClosed) {
  open();
  neuron_ioctl_resource_mmap_info asked = {};
  int answer = 0;
  when<neuron_ioctl_resource_mmap_info>(NEURON_IOCTL_RESOURCE_MMAP_INFO, [&](auto& in) {
    asked = in;
    in.offset = kRegionOffset;
    in.size = answers.region.size();
    return answer;
  });
  void *va = nullptr, *again = nullptr;
  uint64_t size = 0;
  ASSERT_EQ(ndl_mmap_bar_region(device, NEURON_DM_BLOCK_TOPSP, 5, NEURON_DM_RESOURCE_SEMAPHORE, &va,
                                &size),
            0)
      << last_error();
  EXPECT_EQ(asked.block, static_cast<uint32_t>(NEURON_DM_BLOCK_TOPSP));
  EXPECT_EQ(asked.block_id, 5u);
  EXPECT_EQ(asked.resource, static_cast<uint32_t>(NEURON_DM_RESOURCE_SEMAPHORE));
  EXPECT_EQ(va, answers.region.data());
  EXPECT_EQ(size, 8192u);
  ASSERT_EQ(ndl_mmap_bar_region(device, NEURON_DM_BLOCK_TOPSP, 5, NEURON_DM_RESOURCE_SEMAPHORE,
                                &again, &size),
            0);
  EXPECT_EQ(again, va);
  EXPECT_EQ(driver.mappings, 1);
  ASSERT_EQ(
      ndl_mmap_bar_region(device, NEURON_DM_BLOCK_TOPSP, 5, NEURON_DM_RESOURCE_ALL, &again, &size),
      0);
  EXPECT_EQ(last_protection(), PROT_READ) << "a whole block is only read";
  answer = -EINVAL;
  EXPECT_EQ(
      ndl_mmap_bar_region(device, NEURON_DM_BLOCK_HBM, 9, NEURON_DM_RESOURCE_DMEM, &va, &size),
      -EINVAL);
  EXPECT_TRUE(says("asking where a part of the chip is mapped")) << last_error();
}

TEST_F(DriverStateCalls, SendMetricsModeAndPerformanceProfileToTheDevice) {
  open();
  neuron_ioctl_metrics_ctrl metrics = {};
  neuron_ioctl_power_profile power = {};
  int answer = 0;
  when<neuron_ioctl_metrics_ctrl>(NEURON_IOCTL_METRICS_CTRL, [&](auto& in) {
    metrics = in;
    return answer;
  });
  when<neuron_ioctl_power_profile>(NEURON_IOCTL_POWER_PROFILE, [&](auto& in) {
    power = in;
    return answer;
  });
  EXPECT_EQ(ndl_metrics_ctrl(device, NEURON_METRICS_MODE_PERIODIC_DISABLE), 0) << last_error();
  EXPECT_EQ(metrics.mode, static_cast<uint32_t>(NEURON_METRICS_MODE_PERIODIC_DISABLE));
  EXPECT_EQ(ndl_set_performance_profile(device, 3), 0) << last_error();
  EXPECT_EQ(power.sz, sizeof(power));
  EXPECT_EQ(power.ctrl, 0);
  EXPECT_EQ(power.profile, 3u);
  answer = -EPERM;
  EXPECT_EQ(ndl_metrics_ctrl(device, NEURON_METRICS_MODE_PERIODIC_ENABLE), -EPERM);
  EXPECT_TRUE(says("device 0: pausing or resuming metrics")) << last_error();
  EXPECT_EQ(ndl_set_performance_profile(device, 4), -EPERM);
  EXPECT_TRUE(says("device 0: setting the performance profile")) << last_error();
  EXPECT_EQ(ndl_set_performance_profile(nullptr, 4), -ENODEV);
}

TEST_F(DriverStateCalls, AgreeWhoInitialisesACoreAndCountItsModels) {
  open();
  neuron_ioctl_cinit_set set = {};
  int answer = 0;
  when<neuron_ioctl_cinit_set>(NEURON_IOCTL_CINIT_SET_STATE, [&](auto& in) {
    set = in;
    in.new_state = NEURON_CINIT_STATE_COMPLETED;
    return answer;
  });
  when<neuron_ioctl_nc_model_started_count>(NEURON_IOCTL_NC_MODEL_STARTED_COUNT, [&](auto& in) {
    in.started_count = 0x100000000 + in.nc_id;
    return answer;
  });
  uint32_t state = 99;
  ASSERT_EQ(ndl_nc_init_set_state(device, 1, NEURON_CINIT_STATE_STARTED, &state), 0)
      << last_error();
  EXPECT_EQ(set.nc_id, 1u);
  EXPECT_EQ(set.state, static_cast<uint32_t>(NEURON_CINIT_STATE_STARTED));
  EXPECT_EQ(state, static_cast<uint32_t>(NEURON_CINIT_STATE_COMPLETED)) << "another was first";
  uint64_t started = 0;
  ASSERT_EQ(ndl_nc_model_started_count(device, 1, &started), 0) << last_error();
  EXPECT_EQ(started, 0x100000001u);
  answer = -E2BIG;
  EXPECT_EQ(ndl_nc_init_set_state(device, 9, NEURON_CINIT_STATE_STARTED, &state), -E2BIG);
  EXPECT_EQ(ndl_nc_model_started_count(device, 9, &started), -E2BIG);
  EXPECT_EQ(started, 0x100000001u);
  EXPECT_EQ(ndl_nc_init_set_state(device, 1, NEURON_CINIT_STATE_STARTED, nullptr), -EINVAL);
  EXPECT_EQ(ndl_nc_model_started_count(device, 1, nullptr), -EINVAL);
}

TEST_F(DriverStateCalls, MapTheOwnDatastoreForWritingAndThatOfOthersForReading) {
  open();
  neuron_ioctl_neuron_ds_info asked = {};
  when<neuron_ioctl_neuron_ds_info>(NEURON_IOCTL_ACQUIRE_NEURON_DS, [&](auto& in) {
    asked = in;
    return in.pid == 5 ? -ENOENT : kPassed;
  });
  void *mine = nullptr, *other = nullptr;
  size_t size = 0;
  ASSERT_EQ(ndl_nds_open(device, 0, &mine, &size), 0) << last_error();
  EXPECT_EQ(mine, driver.datastore_bytes.data());
  EXPECT_EQ(size, driver.datastore_bytes.size());
  EXPECT_EQ(last_protection(), PROT_READ | PROT_WRITE);
  EXPECT_TRUE(driver.datastore);
  ASSERT_EQ(ndl_nds_open(device, 4242, &other, &size), 0) << last_error();
  EXPECT_EQ(asked.pid, 4242);
  EXPECT_EQ(last_protection(), PROT_READ);
  EXPECT_EQ(driver.mappings, 2);
  EXPECT_EQ(ndl_nds_close(device, 4242, other, size), 0);
  EXPECT_EQ(driver.mappings, 1);
  EXPECT_TRUE(driver.datastore) << "only the owner gives a datastore up";
  EXPECT_EQ(ndl_nds_close(device, 0, mine, size), 0);
  EXPECT_EQ(driver.mappings, 0);
  EXPECT_FALSE(driver.datastore);
  EXPECT_EQ(ndl_nds_open(device, 5, &other, &size), -ENOENT);
  EXPECT_TRUE(says("finding a datastore")) << last_error();
}

TEST_F(DriverStateCalls, ReplaceTheBufferOfANotificationQueueWhenForcedTo) {
  open();
  neuron_ioctl_notifications_init_with_realloc_v2 asked = {};
  when<neuron_ioctl_notifications_init_with_realloc_v2>(
      NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2, [&](auto& in) {
        asked = in;
        return kPassed;
      });
  uint64_t queue = 0;
  ASSERT_EQ(ndl_notification_init_with_realloc(device, 3, NQ_DEV_TYPE_TOPSP, NQ_TYPE_TRACE, 7, 8192,
                                               false, 1, 0, true, &queue),
            0)
      << last_error();
  EXPECT_EQ(asked.nq_dev_id, 3u);
  EXPECT_EQ(asked.nq_dev_type, static_cast<uint32_t>(NQ_DEV_TYPE_TOPSP));
  EXPECT_EQ(asked.nq_type, static_cast<uint32_t>(NQ_TYPE_TRACE));
  EXPECT_EQ(asked.engine_index, 7u);
  EXPECT_EQ(asked.size, 8192u);
  EXPECT_EQ(asked.on_host_memory, 0u);
  EXPECT_EQ(asked.dram_channel, 1u);
  EXPECT_EQ(asked.dram_region, 0u);
  EXPECT_EQ(asked.force_alloc_mem, 1u);
  uint32_t size = 0;
  EXPECT_EQ(ndl_notification_get_size(queue, &size), 0);
  EXPECT_EQ(size, 8192u);
  EXPECT_EQ(ndl_notification_destroy(queue), 0);
  ASSERT_EQ(ndl_notification_init_with_realloc(device, 1, NQ_DEV_TYPE_NEURON_CORE, NQ_TYPE_NOTIFY,
                                               0, 4096, true, 0, 0, false, &queue),
            0);
  EXPECT_EQ(asked.on_host_memory, 1u);
  EXPECT_EQ(asked.force_alloc_mem, 0u);
  EXPECT_EQ(ndl_notification_destroy(queue), 0);
}

TEST_F(DriverStateCalls, TellTheStateOfTheUltraServerAlsoWhileItElects) {
  int answer = 0;
  when<neuron_ioctl_pod_info>(NEURON_IOCTL_POD_INFO, [&](auto& in) {
    EXPECT_EQ(in.sz, sizeof(in));
    in.pod_type = 2;
    in.pod_sz = 4;
    return answer;
  });
  when<neuron_ioctl_pod_status_v2>(NEURON_IOCTL_POD_STATUS_V2, [&](auto& in) {
    EXPECT_EQ(in.v1.sz, sizeof(in));
    std::memset(in.v1.pod_id, 0xAB, sizeof(in.v1.pod_id));
    in.v1.state = answer == 0 ? NEURON_POD_E_STATE_ULTRASERVER : NEURON_POD_E_STATE_IN_PROGRESS;
    in.v1.pod_type = 2;
    in.v1.pod_sz = 4;
    in.v1.node_id = answer == 0 ? 3 : -1;
    in.mode = NEURON_ULTRASERVER_MODE_X4;
    in.modes_supported = 0x12;
    return answer;
  });
  uint32_t type = 0, nodes = 0, state = 99, modes = 0;
  int node = 99;
  uint8_t id[256] = {};
  neuron_ultraserver_mode mode = NEURON_ULTRASERVER_MODE_UNSET;
  ASSERT_EQ(ndl_pod_info(&type, &nodes), 0) << last_error();
  EXPECT_EQ(type, 2u);
  EXPECT_EQ(nodes, 4u);
  EXPECT_EQ(ndl_pod_election_state(&state), 0) << last_error();
  EXPECT_EQ(state, static_cast<uint32_t>(NEURON_POD_E_STATE_ULTRASERVER));
  EXPECT_EQ(ndl_pod_mapping_info(&node), 0) << last_error();
  EXPECT_EQ(node, 3);

  answer = -EBUSY;
  type = nodes = 0;
  EXPECT_EQ(ndl_pod_status(id, &state, &type, &nodes, &node, &mode, &modes), -EBUSY);
  EXPECT_EQ(id[0], 0xAB);
  EXPECT_EQ(id[255], 0xAB);
  EXPECT_EQ(state, static_cast<uint32_t>(NEURON_POD_E_STATE_IN_PROGRESS));
  EXPECT_EQ(type, 2u);
  EXPECT_EQ(nodes, 4u);
  EXPECT_EQ(node, -1);
  EXPECT_EQ(mode, NEURON_ULTRASERVER_MODE_X4);
  EXPECT_EQ(modes, 0x12u);
  EXPECT_EQ(ndl_pod_mapping_info(&node), -EBUSY) << "no node has a number yet";
  EXPECT_TRUE(says("the state of the UltraServer")) << last_error();
  answer = -EINVAL;
  EXPECT_EQ(ndl_pod_info(&type, &nodes), -EINVAL);
  EXPECT_TRUE(says("asking which UltraServer this is")) << last_error();
  EXPECT_EQ(ndl_pod_election_state(&state), -EINVAL);
}

TEST_F(DriverStateCalls, SteerTheElectionOfTheUltraServer) {
  neuron_ioctl_pod_ctrl_v2 asked = {};
  int answer = 0;
  when<neuron_ioctl_pod_ctrl_v2>(NEURON_IOCTL_POD_CTRL_V2, [&](auto& in) {
    asked = in;
    in.v1.state = NEURON_POD_E_STATE_SINGLE_NODE;
    return answer;
  });
  uint32_t state = 99;
  ASSERT_EQ(ndl_pod_ctrl(NEURON_NPE_POD_CTRL_SET_MODE, NEURON_ULTRASERVER_MODE_X2V, 60, &state), 0)
      << last_error();
  EXPECT_EQ(asked.v1.sz, sizeof(asked));
  EXPECT_EQ(asked.v1.ctrl, static_cast<uint32_t>(NEURON_NPE_POD_CTRL_SET_MODE));
  EXPECT_EQ(asked.v1.timeout, 60u);
  EXPECT_EQ(asked.mode, static_cast<uint32_t>(NEURON_ULTRASERVER_MODE_X2V));
  EXPECT_EQ(state, static_cast<uint32_t>(NEURON_POD_E_STATE_SINGLE_NODE));
  answer = -EBUSY;
  state = 99;
  EXPECT_EQ(ndl_pod_ctrl(NEURON_NPE_POD_CTRL_REQ_KILL, NEURON_ULTRASERVER_MODE_UNSET, 0, &state),
            -EBUSY);
  EXPECT_EQ(state, 99u);
  EXPECT_TRUE(says("steering the UltraServer")) << last_error();
}

TEST_F(DriverStateCalls, PrintOneLineThatEndsWithNul) {
  std::string printed;
  uint32_t action = 0;
  when<neuron_ioctl_printk>(NEURON_IOCTL_PRINTK, [&](auto& in) {
    printed.assign(static_cast<const char*>(in.buffer), in.size);
    action = in.action;
    return 0;
  });
  char line[] = "core 1 was reset";
  ASSERT_EQ(ndl_printk(line, sizeof(line), 2), 0) << last_error();
  EXPECT_EQ(printed, std::string(line, sizeof(line))) << "the NUL is counted";
  EXPECT_EQ(action, 2u);
  const size_t calls = driver.requests.size();
  std::vector<char> longer(513);
  EXPECT_EQ(ndl_printk(line, sizeof(line) - 1, 0), -EINVAL) << "no NUL at the end";
  EXPECT_EQ(ndl_printk(line, 0, 0), -EINVAL);
  EXPECT_EQ(ndl_printk(longer.data(), 513, 0), -EINVAL);
  EXPECT_TRUE(says("ends with NUL and has 1 to 512 bytes, not 513")) << last_error();
  EXPECT_EQ(driver.requests.size(), calls);
}

TEST_F(DriverStateCalls, ProgramAnEngineFromTheCallersBuffer) {
  open();
  neuron_ioctl_program_engine_nc64 asked = {};
  int answer = 0;
  when<neuron_ioctl_program_engine_nc64>(NEURON_IOCTL_PROGRAM_ENGINE_NC64, [&](auto& in) {
    asked = in;
    return answer;
  });
  uint8_t code[64] = {};
  ASSERT_EQ(ndl_program_engine(device, 1, 0xFF0000001000, code, 16, 48), 0) << last_error();
  EXPECT_EQ(asked.nc_id, 1u);
  EXPECT_EQ(asked.dst, 0xFF0000001000u);
  EXPECT_EQ(asked.buffer, code);
  EXPECT_EQ(asked.offset, 16u);
  EXPECT_EQ(asked.size, 48u);
  answer = -ENOMEM;
  EXPECT_EQ(ndl_program_engine(device, 0, 1, code, 0, 64), -ENOMEM) << "outside the windows";
  EXPECT_TRUE(says("device 0: programming an engine")) << last_error();
  EXPECT_EQ(ndl_program_engine(device, 0, 1, nullptr, 0, 64), -EINVAL);
}

TEST_F(DriverStateCalls, ReadHardwareCountersIntoTheCallersArray) {
  open();
  int answer = 0;
  when<neuron_ioctl_read_hw_counters>(NEURON_IOCTL_READ_HW_COUNTERS, [&](auto& in) {
    if (answer != 0) return answer;
    for (uint32_t i = 0; i < in.count; ++i) in.data[i] = static_cast<uint32_t>(in.address[i]) + 1;
    return 0;
  });
  uint64_t addresses[] = {0x10, 0x20, 0x30};
  uint32_t values[] = {0, 0, 0};
  ASSERT_EQ(ndl_read_hw_counters(device, addresses, 2, values), 0) << last_error();
  EXPECT_EQ(values[0], 0x11u);
  EXPECT_EQ(values[1], 0x21u);
  EXPECT_EQ(values[2], 0u) << "two were asked for";
  answer = -EIO;
  EXPECT_EQ(ndl_read_hw_counters(device, addresses, 2, values), -EIO);
  EXPECT_TRUE(says("device 0: reading hardware counters")) << last_error();
  EXPECT_EQ(ndl_read_hw_counters(device, nullptr, 2, values), -EINVAL);
}

TEST_F(DriverStateCalls, KeepCountersAndTheLongProcessTagInTheDatastore) {
  open();
  nds_instance_t *mine = nullptr, *reader = nullptr;
  ASSERT_EQ(nds_open(device, 0, &mine), 0) << last_error();
  ASSERT_EQ(nds_open(device, 4242, &reader), 0) << last_error();
  auto word_at = [&](size_t offset) {
    uint64_t word = 0;
    std::memcpy(&word, driver.datastore_bytes.data() + offset, sizeof(word));
    return word;
  };
  EXPECT_EQ(nds_increment_nd_counter(mine, 2, 9), 0);
  EXPECT_EQ(word_at(8 + 2 * 8), 9u);
  EXPECT_EQ(nds_decrement_nd_counter(mine, 2, 4), 0);
  EXPECT_EQ(word_at(8 + 2 * 8), 5u);
  EXPECT_EQ(nds_decrement_nd_counter(mine, 2, 6), 0);
  EXPECT_EQ(word_at(8 + 2 * 8), 0u) << "a decrement stops at zero";
  uint64_t value = 77;
  EXPECT_EQ(nds_set_nc_counter(mine, 2, 4, &value), 0);
  EXPECT_EQ(word_at(256 + (2 * 31 + 4) * 8), 77u);
  EXPECT_EQ(nds_set_nc_counter(reader, 2, 4, &value), -EPERM);
  EXPECT_EQ(nds_increment_nd_counter(mine, 31, 1), -EINVAL);
  EXPECT_EQ(nds_decrement_nd_counter(mine, 31, 1), -EINVAL);
  EXPECT_TRUE(says("a device has no counter 31")) << last_error();

  nds_obj_handle_t tag = nds_obj_new(mine, OBJECT_TYPE_PROCESS_INFO_EXT);
  ASSERT_NE(nds_obj_handle_to_process_info_ext(tag), nullptr) << last_error();
  std::memset(nds_obj_handle_to_process_info_ext(tag)->tag, 'x', 255);
  EXPECT_EQ(nds_obj_commit(tag), 0);
  nds_obj_handle_t seen = nds_read_process_info_ext(reader);
  ASSERT_NE(seen, nullptr) << last_error();
  EXPECT_EQ(std::string(nds_obj_handle_to_process_info_ext(seen)->tag), std::string(255, 'x'));
  nds_obj_handle_t process = nds_obj_new(mine, OBJECT_TYPE_PROCESS_INFO);
  EXPECT_EQ(nds_obj_handle_to_process_info_ext(process), nullptr) << "of another kind";
  EXPECT_EQ(nds_close(reader), 0);
  EXPECT_EQ(nds_close(mine), 0);
}

}  // namespace
}  // namespace neuron::ndl::testing
