// SPDX-License-Identifier: Apache-2.0
// Marks, locks, reset, semaphores, notification queues and datastores.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <string>

#include "driver/base/process_status.h"
#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/error.h"
#include "hw/notification.h"
#include "tests/support/child.h"
#include "tests/unit/driver/emulator/service/fake_chip.h"
#include "uapi/neuron_datastore.h"

namespace neuron::service {
namespace {

using ::testing::HasSubstr;

class CoreCalls : public ServiceTest {
 protected:
  int mark(Session* session, uint32_t count, uint32_t first, uint32_t last,
           neuron_ioctl_crwl_nc_map_ext* out) {
    *out = {count, first, last, 0, {}};
    return session->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, out);
  }
  int lock(unsigned long call, uint32_t core, uint8_t model) {
    neuron_ioctl_crwl request = {};
    request.nc_id = core;
    request.uuid.value[0] = model;
    return session_->ioctl(call, &request);
  }
};

TEST_F(CoreCalls, ASecondOpenerOfAMarkedCoreLearnsWhoHoldsIt) {
  Session* first = open(0, O_WRONLY, 100);
  Session* second = open(0, O_WRONLY, 200);
  neuron_ioctl_crwl_nc_map_ext map;
  ASSERT_EQ(mark(first, 1, 0, 0, &map), 0);
  EXPECT_EQ(map.bitmap[0], 1u);
  EXPECT_EQ(mark(second, 2, 0, 1, &map), -EBUSY);
  EXPECT_EQ(map.max_nc_available, 1u);
  EXPECT_THAT(last_error(), HasSubstr("core 0 is held by pid 100"));
  ASSERT_EQ(mark(second, 1, 0, 1, &map), 0);
  EXPECT_EQ(map.bitmap[0], 2u);
  // Only its own marks come off.
  neuron_ioctl_crwl_nc_map all = {0, 0, 0, 0, 3};
  ASSERT_EQ(second->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_UNMARK, &all), 0);
  EXPECT_EQ(mark(second, 1, 0, 0, &map), -EBUSY);
  EXPECT_EQ(mark(second, 1, 1, 1, &map), 0);
}

// Device 0 of trn2.48xlarge has physical core 4 behind logical core 0, and that of logical core 4
// is 2.
TEST_F(CoreCalls, TheEndOfAProcessResetsThePhysicalCoreBehindItsMarkAndNoOther) {
  start("trn2.48xlarge", 0, core::create_chip);
  Session* other = open(0, O_RDWR, 200);
  neuron_ioctl_crwl_nc_map_ext map;
  ASSERT_EQ(mark(session_, 1, 4, 4, &map), 0);
  ASSERT_EQ(mark(other, 1, 0, 0, &map), 0);
  const auto resets = [&](uint32_t core) {
    const std::lock_guard lock(device().mutex);
    return device().core_state[core].resets;
  };
  const uint64_t before[] = {resets(2), resets(4)};
  session_->abandon();
  ASSERT_EQ(instance_->close(session_), 0);
  EXPECT_EQ(resets(2), before[0] + 1);
  EXPECT_EQ(resets(4), before[1]) << "it is the core of process 200";
}

// A kernel has closed what a process had open before anybody learns of its end.
TEST_F(CoreCalls, AMarkOfAProcessThatHasEndedIsWaitedForAndThatOfOneThatLivesIsNot) {
  test::Child ended = test::Child::forked([] { return 0; });
  const pid_t pid = ended.pid();
  ASSERT_EQ(ended.wait(), 0);
  Session *first = nullptr, *second = nullptr;
  ASSERT_EQ(instance_->open(0, O_RDWR, Client{.pid = pid, .process = 1}, &first), 0);
  ASSERT_EQ(instance_->open(0, O_RDWR, Client{.pid = ::getpid(), .process = 2}, &second), 0);
  neuron_ioctl_crwl_nc_map_ext map;
  ASSERT_EQ(mark(first, 1, 0, 0, &map), 0);
  std::future<int> result = std::async(std::launch::async, [&] {
    neuron_ioctl_crwl_nc_map_ext wanted;
    return mark(second, 1, 0, 0, &wanted);
  });
  EXPECT_EQ(result.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  ASSERT_EQ(instance_->close(first), 0);
  EXPECT_EQ(result.get(), 0);

  Session* third = nullptr;
  ASSERT_EQ(instance_->open(0, O_RDWR, Client{.pid = ::getppid(), .process = 3}, &third), 0);
  EXPECT_EQ(mark(third, 1, 0, 0, &map), -EBUSY);
  EXPECT_THAT(last_error(), HasSubstr("core 0 is held by pid " + std::to_string(::getpid())));

  // Nor is that of a process which lives on without its first thread.
  test::Child child = test::Child::forked([] { return test::live_in_another_thread(); });
  ASSERT_TRUE(test::eventually([&] {
    return base::process_status(child.pid()).value_or(base::ProcessStatus{}).state == 'Z';
  }));
  Session* fourth = nullptr;
  ASSERT_EQ(instance_->open(0, O_RDWR, Client{.pid = child.pid(), .process = 4}, &fourth), 0);
  ASSERT_EQ(mark(fourth, 1, 1, 1, &map), 0);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(mark(third, 1, 1, 1, &map), -EBUSY);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_THAT(last_error(), HasSubstr("core 1 is held by pid " + std::to_string(child.pid())));
}

TEST_F(CoreCalls, ClosingADescriptorGivesUpItsMarks) {
  neuron_ioctl_crwl_nc_map_ext map;
  Session* full = open(0, O_RDWR, 300);
  ASSERT_EQ(mark(full, 1, 0, 0, &map), 0);
  ASSERT_EQ(instance_->close(full), 0);
  EXPECT_EQ(mark(session_, 1, 0, 0, &map), 0);
  // A restricted one gives up all marks of its process.
  Session* restricted = open(0, O_WRONLY, kPid);
  ASSERT_EQ(instance_->close(restricted), 0);
  Session* other = open(0, O_WRONLY, 400);
  EXPECT_EQ(mark(other, 2, 0, 1, &map), 0);
}

TEST_F(CoreCalls, CoresThatTheHostDoesNotHaveCannotBeMarked) {
  neuron_ioctl_crwl_nc_map_ext map;
  EXPECT_EQ(mark(session_, 1, 2, 5, &map), -EINVAL);
  EXPECT_EQ(mark(session_, 3, 0, 511, &map), -EBUSY);
  EXPECT_EQ(mark(session_, 0, 0, 1, &map), -EINVAL);
  EXPECT_EQ(mark(session_, 1, 1, 0, &map), -EINVAL);
}

TEST_F(CoreCalls, AWriterDowngradesAndLeavesAsAReader) {
  EXPECT_EQ(lock(NEURON_IOCTL_CRWL_WRITER_DOWNGRADE, 0, 1), -EINVAL);
  EXPECT_EQ(lock(NEURON_IOCTL_CRWL_WRITER_ENTER, 0, 1), 0);
  EXPECT_EQ(lock(NEURON_IOCTL_CRWL_WRITER_DOWNGRADE, 0, 2), -ENOENT);
  EXPECT_EQ(lock(NEURON_IOCTL_CRWL_WRITER_DOWNGRADE, 0, 1), 0);
  EXPECT_EQ(lock(NEURON_IOCTL_CRWL_READER_ENTER, 0, 2), -ENOENT);
  EXPECT_EQ(lock(NEURON_IOCTL_CRWL_READER_ENTER, 0, 1), 0);
  EXPECT_EQ(lock(NEURON_IOCTL_CRWL_READER_EXIT, 0, 1), 0);
  EXPECT_EQ(lock(NEURON_IOCTL_CRWL_READER_EXIT, 0, 1), 0);
  EXPECT_EQ(lock(NEURON_IOCTL_CRWL_READER_EXIT, 0, 1), -EINVAL);
  EXPECT_EQ(lock(NEURON_IOCTL_CRWL_WRITER_ENTER, 0, 1), -EALREADY);
  EXPECT_EQ(lock(NEURON_IOCTL_CRWL_READER_ENTER, 9, 1), -EINVAL);
}

TEST_F(CoreCalls, TheFirstInitialisesACoreAndOthersFindItDone) {
  neuron_ioctl_cinit_set state = {1, NEURON_CINIT_STATE_STARTED, 0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_CINIT_SET_STATE, &state), 0);
  EXPECT_EQ(state.new_state, NEURON_CINIT_STATE_STARTED);
  state.state = NEURON_CINIT_STATE_COMPLETED;
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_CINIT_SET_STATE, &state), 0);
  state.state = NEURON_CINIT_STATE_STARTED;
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_CINIT_SET_STATE, &state), 0);
  EXPECT_EQ(state.new_state, NEURON_CINIT_STATE_COMPLETED);
  state.nc_id = 2;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_CINIT_SET_STATE, &state), -E2BIG);
}

TEST_F(CoreCalls, AResetTakesQueuesAndInitialisationButNoMemory) {
  const uint64_t handle = allocate(4096);
  neuron_ioctl_cinit_set state = {0, NEURON_CINIT_STATE_STARTED, 0};
  session_->ioctl(NEURON_IOCTL_CINIT_SET_STATE, &state);
  neuron_ioctl_notifications_init_v2 nq = {0, 0, NQ_TYPE_TRACE, 2, 4096, 1, 0, 0, 0, 0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &nq), 0) << last_error();
  const uint64_t queue = nq.mem_handle;
  EXPECT_EQ(free_handle(queue), -EINVAL);  // the device's own
  neuron_ioctl_device_reset reset = {1, 0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_NC_RESET, &reset), 0) << last_error();
  EXPECT_EQ(reset.request_id, static_cast<uint32_t>(kPid));
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_NC_RESET, &reset), -EBUSY);
  neuron_ioctl_device_ready ready = {reset.request_id, 7};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_NC_RESET_READY, &ready), 0);
  EXPECT_EQ(ready.result, 0);
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_NC_RESET_READY, &ready), 0);
  EXPECT_EQ(ready.result, 1);  // no such request any more
  EXPECT_EQ(info(handle).size, 4096u);
  EXPECT_FALSE(memory().pin(queue));
  EXPECT_EQ(device().core_state[0].init, NEURON_CINIT_STATE_INVALID);
  char byte = 1;
  EXPECT_EQ(buffer_copy(handle, &byte, 1, 0, true), 0) << last_error();
  reset.nc_map = 4;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_NC_RESET, &reset), -EINVAL);
}

TEST_F(CoreCalls, FirmwareThatNeverFinishesAResetMissesItsDeadline) {
  HostArena& arena = instance_->arena();
  IoSpace io;
  MemoryBudget budget({});
  behaviour_.reset_never_finishes = true;
  FakeChip chip({}, io, behaviour_);
  MemoryFiles files;
  DeviceMemory memory(5, chip, io, arena, arena, budget, files);
  Firmware firmware(5, chip, std::chrono::milliseconds(5));
  EXPECT_EQ(firmware.reset(1), -ETIMEDOUT);
  EXPECT_THAT(last_error(), HasSubstr("device 5: reset of core map 0x1 not finished"));
}

TEST_F(CoreCalls, SemaphoresCountAndBadIndexesAreRefused) {
  neuron_ioctl_semaphore request = {1, 20, 5};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_SEMAPHORE_WRITE, &request), 0);
  request.value = 3;
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_SEMAPHORE_INCREMENT, &request), 0);
  request.value = 1;
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_SEMAPHORE_DECREMENT, &request), 0);
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_SEMAPHORE_READ, &request), 0);
  EXPECT_EQ(request.value, 7u);
  uint32_t value = 0;
  ASSERT_EQ(session_->read_register(0x4000000 + 0x2701000 + 80, &value), 0);
  EXPECT_EQ(value, 7u);
  ASSERT_EQ(session_->write_register(0x4000000 + 0x2701800 + 80, 2, false), 0);
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_SEMAPHORE_READ, &request), 0);
  EXPECT_EQ(request.value, 9u);
  EXPECT_EQ(session_->write_register(NEURON_V2_MISC_RAM, 1, false), -EACCES);
  EXPECT_EQ(session_->read_register(0x2701002, &value), -EACCES);
  request.semaphore_index = 256;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_SEMAPHORE_READ, &request), -EINVAL);
  request.nc_id = 2;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_SEMAPHORE_READ, &request), -E2BIG);
  neuron_ioctl_event event = {0, 256, 1};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_EVENT_SET, &event), -EINVAL);
  event.event_index = 255;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_EVENT_SET, &event), 0);
  event.value = 0;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_EVENT_GET, &event), 0);
  EXPECT_EQ(event.value, 1u);
}

TEST_F(CoreCalls, ANotificationQueueIsFoundAgainUnlessItIsReplaced) {
  neuron_ioctl_notifications_init_v2 nq = {1, 0, NQ_TYPE_ERROR, 7, 8192, 1, 0, 0, 0, 0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &nq), 0) << last_error();
  const uint64_t base = NEURON_V2_CORE_NOTIFICATION(1) + NEURON_NQ_BASE(7);
  EXPECT_EQ(device().chip().read_register(base + NEURON_NQ_SIZE), 8192u);
  void* ring = nullptr;
  EXPECT_EQ(session_->map(8192, 3, nq.mmap_offset, &ring), 0);
  neuron_ioctl_notifications_init_v2 again = nq;
  again.size = 65536;
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &again), 0);
  EXPECT_EQ(again.mem_handle, nq.mem_handle);
  neuron_ioctl_notifications_init_with_realloc_v2 other = {
      1, 0, NQ_TYPE_ERROR, 7, 65536, 0, 1, 0, 1, 0, 0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2, &other), 0)
      << last_error();
  EXPECT_EQ(other.mmap_offset, ~uint64_t{0});
  EXPECT_EQ(info(other.mem_handle).pa % 65536, 0u);
  nq.size = 5000;
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &nq), -EINVAL);
  nq = {0, 2, 0, 0, 4096, 1, 0, 0, 0, 0};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &nq), -ENOSYS);
  nq = {6, 1, 0, 0, 4096, 1, 0, 0, 0, 0};
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, &nq), -EINVAL);
}

TEST_F(CoreCalls, ADatastoreBelongsToItsProcessAndIsClearedWithIt) {
  Session* other = open(0, O_RDWR, 200);
  neuron_ioctl_neuron_ds_info own = {0, 0, 0};
  ASSERT_EQ(other->ioctl(NEURON_IOCTL_ACQUIRE_NEURON_DS, &own), 0);
  EXPECT_EQ(own.size, 262144u);
  void* memory = nullptr;
  ASSERT_EQ(other->map(own.size, 3, own.mmap_offset, &memory), 0);
  std::memcpy(memory, "nds", 4);
  neuron_ioctl_neuron_ds_info foreign = {200, 0, 0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_ACQUIRE_NEURON_DS, &foreign), 0);
  EXPECT_EQ(foreign.mmap_offset, own.mmap_offset);
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_RELEASE_NEURON_DS, &foreign), 0);  // not the owner
  EXPECT_STREQ(static_cast<char*>(memory), "nds");
  ASSERT_EQ(instance_->close(other), 0);
  EXPECT_EQ(*static_cast<char*>(memory), 0);
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_ACQUIRE_NEURON_DS, &foreign), -ENOENT);
}

TEST_F(CoreCalls, ASeventeenthProcessIsTurnedAwayUntilOneLeaves) {
  std::vector<Session*> sessions;
  for (int32_t pid = 101; pid < 116; ++pid) sessions.push_back(open(0, O_RDWR, pid));
  Session* extra = nullptr;
  EXPECT_EQ(instance_->open(0, O_RDWR, 500, &extra), -EBUSY);
  EXPECT_EQ(instance_->open(0, O_WRONLY, 500, &extra), 0);
  EXPECT_EQ(instance_->open(0, O_RDWR, 101, &extra), 0);  // attached already
  ASSERT_EQ(instance_->close(sessions[5]), 0);
  EXPECT_EQ(instance_->open(0, O_RDWR, 500, &extra), 0);
}

TEST_F(CoreCalls, WaitingEndsWithTheWordTheDeadlockOrTheDeadline) {
  uint32_t word = 4;
  EXPECT_EQ(session_->wait(0, &word, 3, 0), 0);
  EXPECT_EQ(session_->wait(0, &word, 4, ~uint64_t{0}), -EDEADLK);
  behaviour_.run = [] { return chip::RunResult::kDeadline; };
  EXPECT_EQ(session_->wait(0, &word, 4, 0), -ETIMEDOUT);
  behaviour_.run = [&] {
    __atomic_store_n(&word, 5, __ATOMIC_RELEASE);
    return chip::RunResult::kQuiescent;
  };
  EXPECT_EQ(session_->wait(1, &word, 4, ~uint64_t{0}), 0);
  EXPECT_EQ(session_->wait(2, &word, 5, 0), -EINVAL);
  EXPECT_EQ(session_->describe(1), "core 1");
}

}  // namespace
}  // namespace neuron::service
