// SPDX-License-Identifier: Apache-2.0
// Cores: semaphores, events, reset, initialisation, locks, marks, registers.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "hw/address_map.h"
#include "hw/udma.h"
#include "tests/vm/guest/device.h"

namespace neuron::guest {
namespace {

int semaphore(const Device& device, unsigned long number, uint32_t core, uint32_t index,
              uint32_t& value) {
  neuron_ioctl_semaphore request = {core, index, value};
  const int result = device.call(number, &request);
  value = request.value;
  return result;
}

uint32_t read_semaphore(const Device& device, uint32_t core, uint32_t index) {
  uint32_t value = 0;
  EXPECT_EQ(semaphore(device, NEURON_IOCTL_SEMAPHORE_READ, core, index, value), 0);
  return value;
}

void reset(const Device& device, uint32_t map) {
  neuron_ioctl_device_reset request = {map, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_NC_RESET, &request), 0);
  neuron_ioctl_device_ready ready = {request.request_id, 7};
  EXPECT_EQ(device.call(NEURON_IOCTL_NC_RESET_READY, &ready), 0);
  EXPECT_EQ(ready.result, 0);
}

CASE("semaphores count up and down on every core") {
  const Device device;
  for (uint32_t core = 0; core < device.chip().cores; ++core) {
    for (const uint32_t index : {0u, 1u, 128u, 255u}) {
      uint32_t value = 1000 + core;
      EXPECT_EQ(semaphore(device, NEURON_IOCTL_SEMAPHORE_WRITE, core, index, value), 0);
      value = 25;
      EXPECT_EQ(semaphore(device, NEURON_IOCTL_SEMAPHORE_INCREMENT, core, index, value), 0);
      value = 5;
      EXPECT_EQ(semaphore(device, NEURON_IOCTL_SEMAPHORE_DECREMENT, core, index, value), 0);
      EXPECT_EQ(read_semaphore(device, core, index), 1020 + core);
      value = 0;
      EXPECT_EQ(semaphore(device, NEURON_IOCTL_SEMAPHORE_WRITE, core, index, value), 0);
    }
  }
}

CASE("semaphores that do not exist are refused") {
  const Device device;
  uint32_t value = 0;
  EXPECT(semaphore(device, NEURON_IOCTL_SEMAPHORE_READ, 0, 256, value) < 0);
  EXPECT_EQ(semaphore(device, NEURON_IOCTL_SEMAPHORE_READ, device.chip().cores, 0, value), -E2BIG);
}

CASE("events are set and cleared") {
  const Device device;
  for (const uint32_t value : {1u, 0u}) {
    neuron_ioctl_event event = {1, 200, value};
    EXPECT_EQ(device.call(NEURON_IOCTL_EVENT_SET, &event), 0);
    event.value = 9;
    EXPECT_EQ(device.call(NEURON_IOCTL_EVENT_GET, &event), 0);
    EXPECT_EQ(event.value, value);
  }
}

CASE("semaphores act through their mapping as through the calls") {
  const Device device;
  for (uint32_t core = 0; core < device.chip().cores; ++core) {
    neuron_ioctl_resource_mmap_info info = {NEURON_DM_BLOCK_TPB, core, NEURON_DM_RESOURCE_SEMAPHORE,
                                            0, 0};
    EXPECT_EQ(device.call(NEURON_IOCTL_RESOURCE_MMAP_INFO, &info), 0);
    EXPECT_EQ(info.size, 0x2000);
    const Mapping page(device, info.offset, info.size, PROT_READ | PROT_WRITE);
    page.word(0x1400 + 4 * 9) = 50;
    page.word(0x1800 + 4 * 9) = 7;
    page.word(0x1c00 + 4 * 9) = 2;
    EXPECT_EQ(page.word(0x1000 + 4 * 9), 55);
    EXPECT_EQ(read_semaphore(device, core, 9), 55);
    page.word(0x1400 + 4 * 9) = 0;
  }
}

CASE("semaphores of the collectives processors are mapped too") {
  const Device device;
  for (const uint32_t id : {0u, device.chip().topsps - 1}) {
    neuron_ioctl_resource_mmap_info info = {NEURON_DM_BLOCK_TOPSP, id, NEURON_DM_RESOURCE_SEMAPHORE,
                                            0, 0};
    EXPECT_EQ(device.call(NEURON_IOCTL_RESOURCE_MMAP_INFO, &info), 0);
    const Mapping page(device, info.offset, info.size, PROT_READ | PROT_WRITE);
    page.word(0x1400 + 4 * 3) = 11;
    page.word(0x1800 + 4 * 3) = 4;
    EXPECT_EQ(page.word(0x1000 + 4 * 3), 15);
    page.word(0x1400 + 4 * 3) = 0;
  }
}

CASE("a reset of one core is requested, waited for and then unknown") {
  const Device device;
  neuron_ioctl_device_reset request = {1, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_NC_RESET, &request), 0);
  EXPECT_EQ(request.request_id, getpid());
  neuron_ioctl_device_ready ready = {request.request_id, 7};
  EXPECT_EQ(device.call(NEURON_IOCTL_NC_RESET_READY, &ready), 0);
  EXPECT_EQ(ready.result, 0);
  EXPECT_EQ(device.call(NEURON_IOCTL_NC_RESET_READY, &ready), 0);
  EXPECT_EQ(ready.result, 1);
}

CASE("a second reset request of a process that has not waited is refused") {
  const Device device;
  neuron_ioctl_device_reset request = {1, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_NC_RESET, &request), 0);
  EXPECT(device.call(NEURON_IOCTL_NC_RESET, &request) != 0);
  neuron_ioctl_device_ready ready = {static_cast<uint32_t>(getpid()), 7};
  EXPECT_EQ(device.call(NEURON_IOCTL_NC_RESET_READY, &ready), 0);
  EXPECT_EQ(ready.result, 0);
}

CASE("a reset of the whole device keeps memory, handles and copies") {
  const Device device;
  const Memory memory(device, 1 << 20);
  const auto bytes = pattern(1 << 20, 5);
  EXPECT_EQ(device.copy_in(memory.handle(), bytes.data(), bytes.size()), 0);
  reset(device, NEURON_NC_MAP_DEVICE);
  std::vector<uint8_t> back(bytes.size());
  EXPECT_EQ(device.copy_out(memory.handle(), back.data(), back.size()), 0);
  EXPECT(back == bytes);
}

CASE("one caller initialises a core after a reset, the next finds it done") {
  const Device device;
  reset(device, 1);
  neuron_ioctl_cinit_set request = {0, NEURON_CINIT_STATE_STARTED, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_CINIT_SET_STATE, &request), 0);
  EXPECT_EQ(request.new_state, NEURON_CINIT_STATE_STARTED);
  request.state = NEURON_CINIT_STATE_COMPLETED;
  EXPECT_EQ(device.call(NEURON_IOCTL_CINIT_SET_STATE, &request), 0);
  EXPECT_EQ(request.new_state, NEURON_CINIT_STATE_COMPLETED);
  request.state = NEURON_CINIT_STATE_STARTED;
  EXPECT_EQ(device.call(NEURON_IOCTL_CINIT_SET_STATE, &request), 0);
  EXPECT_EQ(request.new_state, NEURON_CINIT_STATE_COMPLETED);
  request.nc_id = 99;
  EXPECT_EQ(device.call(NEURON_IOCTL_CINIT_SET_STATE, &request), -E2BIG);
  neuron_ioctl_nc_model_started_count count = {0, 9};
  EXPECT_EQ(device.call(NEURON_IOCTL_NC_MODEL_STARTED_COUNT, &count), 0);
  EXPECT_EQ(count.started_count, 0);
}

neuron_ioctl_crwl lock_of(uint32_t core, uint8_t model) {
  neuron_ioctl_crwl lock = {};
  lock.nc_id = core;
  lock.uuid.value[0] = model;
  return lock;
}

CASE("a model's lock goes from writer to reader and back to nobody") {
  const Device device;
  auto lock = lock_of(1, 42);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_WRITER_DOWNGRADE, &lock), -EINVAL);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_WRITER_ENTER, &lock), 0);
  auto other = lock_of(1, 43);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_WRITER_DOWNGRADE, &other), -ENOENT);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_WRITER_DOWNGRADE, &lock), 0);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_READER_ENTER, &other), -ENOENT);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_READER_ENTER, &lock), 0);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_READER_EXIT, &lock), 0);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_READER_EXIT, &lock), 0);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_READER_EXIT, &lock), -EINVAL);
  // The same process and model again: the lock is taken, and the answer says that nothing changed.
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_WRITER_ENTER, &lock), -EALREADY);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_WRITER_DOWNGRADE, &lock), 0);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_READER_EXIT, &lock), 0);
  lock.nc_id = 8;
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_WRITER_ENTER, &lock), -EINVAL);
}

CASE("a dead process's lock is free again") {
  const Device device;
  auto lock = lock_of(0, 77);
  {
    WaitingChild child([&]() -> __u64 {
      auto* own = new Device;
      return static_cast<__u64>(own->call(NEURON_IOCTL_CRWL_WRITER_ENTER, &lock));
    });
    EXPECT_EQ(child.value(), 0);
  }
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_WRITER_ENTER, &lock), 0);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_WRITER_DOWNGRADE, &lock), 0);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_READER_EXIT, &lock), 0);
}

neuron_ioctl_crwl_nc_map_ext marks(uint32_t count, uint32_t first, uint32_t last) {
  neuron_ioctl_crwl_nc_map_ext request = {};
  request.nc_count = count;
  request.start_nc_index = first;
  request.end_nc_index = last;
  return request;
}

CASE("cores are marked in a row, refused to others, and free when they are given back") {
  const Device device(0, O_WRONLY);
  const uint32_t cores = device.chip().cores * Device::count();
  auto all = marks(cores, 0, cores - 1);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &all), 0);
  EXPECT_EQ(__builtin_popcountl(all.bitmap[0]), cores < 64 ? cores : 64);
  auto second = marks(1, 0, cores - 1);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &second), -EBUSY);
  EXPECT_EQ(second.max_nc_available, 0);
  EXPECT_EQ(exit_status_of_child([&] {
              const Device own(0, O_WRONLY);
              auto try_it = marks(1, 0, cores - 1);
              return own.call(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &try_it) == -EBUSY ? 0 : 1;
            }),
            0);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_NC_RANGE_UNMARK_EXT0, &all), 0);
  neuron_ioctl_crwl_nc_map old = {1, 0, cores - 1, 0, 0};
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_NC_RANGE_MARK, &old), 0);
  EXPECT_EQ(old.bitmap, 1);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_NC_RANGE_UNMARK, &old), 0);
  auto wrong = marks(1, 5, 4);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &wrong), -EINVAL);
}

CASE("closing a write-only descriptor gives all marks of the process back") {
  const Device watcher(0, O_RDWR);
  auto all = marks(watcher.chip().cores, 0, watcher.chip().cores - 1);
  {
    const Device device(0, O_WRONLY);
    EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &all), 0);
  }
  const Device device(0, O_WRONLY);
  EXPECT_EQ(device.call(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &all), 0);
}

CASE("registers are read and written through calls, but for those that would take over DMA") {
  const Device device;
  const Chip& chip = device.chip();
  neuron_ioctl_device_info info = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_DEVICE_INFO, &info), 0);
  const __u64 base = info.bar_address[0];
  __u64 address = base + chip.core_window + 0x2700000 + 0x1400 + 4 * 20;  // sets semaphore 20
  uint32_t value = 321;
  neuron_ioctl_bar_rw request = {0, &address, &value, 1};
  EXPECT_EQ(device.call(NEURON_IOCTL_BAR_WRITE, &request), 0);
  EXPECT_EQ(read_semaphore(device, 0, 20), 321);
  address = base + chip.core_window + 0x2700000 + 0x1000 + 4 * 20;  // reads it
  value = 0;
  EXPECT_EQ(device.call(NEURON_IOCTL_BAR_READ, &request), 0);
  EXPECT_EQ(value, 321);
  for (const uint32_t blocked :
       {NEURON_UDMAQ_BASE_LO, NEURON_UDMAQ_BASE_HI, NEURON_UDMAQ_TAIL_INC}) {
    address = base + chip.copy_queue_register() + blocked;
    EXPECT_EQ(device.call(NEURON_IOCTL_BAR_WRITE, &request), -EINVAL);
  }
  std::vector<__u64> many(100, base + chip.copy_queue_register() + NEURON_UDMAQ_LENGTH);
  std::vector<uint32_t> values(100);
  neuron_ioctl_bar_rw all_at_once = {0, many.data(), values.data(), 100};
  EXPECT_EQ(device.call(NEURON_IOCTL_BAR_READ, &all_at_once), 0);
  EXPECT(values[99] != 0 && values[99] == values[0]);
}

CASE("metrics are posted, and too long ones refused") {
  const Device device;
  uint32_t words[40] = {0x00000401, 7};
  neuron_ioctl_post_metric request = {words, 8};
  EXPECT_EQ(device.call(NEURON_IOCTL_POST_METRIC, &request), 0);
  request.data_size = 132;
  EXPECT_EQ(device.call(NEURON_IOCTL_POST_METRIC, &request), -E2BIG);
}

CASE("periodic metrics pause, and power profiles are accepted where they exist") {
  const Device device;
  if (!device.has_zero_copy_of_2_25()) throw Skipped{"this driver has neither call"};
  for (const uint32_t mode : {1u, 0u}) {
    neuron_ioctl_metrics_ctrl request = {mode};
    EXPECT_EQ(device.call(NEURON_IOCTL_METRICS_CTRL, &request), 0);
  }
  neuron_ioctl_power_profile profile = {};
  EXPECT_EQ(device.call(NEURON_IOCTL_POWER_PROFILE, &profile), -ENXIO);
  profile.sz = sizeof(profile);
  EXPECT_EQ(device.call(NEURON_IOCTL_POWER_PROFILE, &profile), 0);
}

}  // namespace
}  // namespace neuron::guest
