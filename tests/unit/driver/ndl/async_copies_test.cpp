// SPDX-License-Identifier: Apache-2.0
// Names of asynchronous copies over a completion ring, and what a device without one is told.
#include "driver/ndl/async_copies.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "driver/ndl/error.h"

namespace neuron::ndl {
namespace {

constexpr uint32_t kNone = static_cast<uint32_t>(-1);

// Holds copies back until a test lets them end, or ends them as soon as somebody waits.
class FakeRing : public CompletionRing {
 public:
  struct State {
    std::deque<uint64_t> submitted;
    std::deque<std::pair<uint64_t, int>> completed;
    std::vector<neuron_uring_copy> copies;
    int submit_result = 0;
    int copy_result = 0;
    int waits = 0;
    bool abandoned = false;
    void complete_first() {
      completed.emplace_back(submitted.front(), copy_result);
      submitted.pop_front();
    }
    void complete_last() {
      completed.emplace_back(submitted.back(), copy_result);
      submitted.pop_back();
    }
  };
  explicit FakeRing(State& state) : state_(state) {}
  int submit(const neuron_uring_copy& copy, uint64_t id) override {
    if (state_.submit_result != 0) return state_.submit_result;
    state_.copies.push_back(copy);
    state_.submitted.push_back(id);
    return 0;
  }
  bool reap(uint64_t* id, int* result) override {
    if (state_.completed.empty()) return false;
    std::tie(*id, *result) = state_.completed.front();
    state_.completed.pop_front();
    return true;
  }
  void wait(int) override {
    ++state_.waits;
    if (!state_.submitted.empty()) state_.complete_first();
  }
  void abandon() override { state_.abandoned = true; }

 private:
  State& state_;
};

class AsyncCopiesTest : public ::testing::Test {
 protected:
  int start(uint64_t source, uint64_t destination, uint32_t previous, uint32_t* name = nullptr) {
    neuron_ioctl_mem_copy_async64 request = {};
    request.src_mem_handle = source;
    request.dst_mem_handle = destination;
    request.size = 4096;
    request.src_offset = 16;
    request.dst_offset = 32;
    request.pwait_handle = previous;
    const int result = copies.start(request);
    if (name != nullptr) *name = request.wait_handle;
    return result;
  }
  int wait(uint64_t handle, uint32_t name) {
    const neuron_ioctl_mem_copy_async_wait request = {handle, handle, name};
    return copies.wait(request);
  }

  FakeRing::State state;
  AsyncCopies copies{std::make_unique<FakeRing>(state), "neuron0"};
};

TEST_F(AsyncCopiesTest, StartsWithoutWaitingAndSaysWhatToCopy) {
  uint32_t name = 0;
  ASSERT_EQ(start(7, 8, kNone, &name), 0) << last_error();
  EXPECT_EQ(name, 1u);
  EXPECT_EQ(state.waits, 0);
  ASSERT_EQ(state.copies.size(), 1u);
  EXPECT_EQ(state.copies[0].source_handle, 7u);
  EXPECT_EQ(state.copies[0].destination_handle, 8u);
  EXPECT_EQ(state.copies[0].source_offset, 16u);
  EXPECT_EQ(state.copies[0].destination_offset, 32u);
  EXPECT_EQ(state.copies[0].size, 4096u);
  EXPECT_EQ(wait(8, 1), 0) << last_error();
  EXPECT_EQ(wait(8, 1), -EINVAL) << "a copy is waited for once";
}

TEST_F(AsyncCopiesTest, AlternatesNamesAndWaitsForTheEarlierCopyAfterTheNextHasBegun) {
  uint32_t name = 0;
  ASSERT_EQ(start(7, 8, kNone, &name), 0);
  ASSERT_EQ(start(7, 8, name, &name), 0) << last_error();
  EXPECT_EQ(name, 2u);
  EXPECT_EQ(state.copies.size(), 2u);
  EXPECT_EQ(state.submitted.size(), 1u) << "the first has ended, the second runs";
  ASSERT_EQ(start(7, 8, name, &name), 0) << last_error();
  EXPECT_EQ(name, 1u);
  EXPECT_EQ(wait(7, 1), 0);
}

TEST_F(AsyncCopiesTest, WaitsAtOnceForASynchronousCopy) {
  uint32_t name = 9;
  ASSERT_EQ(start(7, 8, 0, &name), 0) << last_error();
  EXPECT_EQ(name, 0u);
  EXPECT_TRUE(state.submitted.empty());
  EXPECT_EQ(wait(8, 0), 0);
}

TEST_F(AsyncCopiesTest, FindsTheCopyOfItsMemoryWhateverEndsFirst) {
  ASSERT_EQ(start(1, 2, kNone), 0);
  ASSERT_EQ(start(3, 4, kNone), 0);
  state.complete_last();
  EXPECT_EQ(wait(4, 1), 0) << last_error();
  EXPECT_EQ(state.waits, 0);
  EXPECT_EQ(wait(1, 1), 0) << last_error();
}

TEST_F(AsyncCopiesTest, AcceptsTheNameOfACopyOfOtherMemoryAsTheDriverDoes) {
  uint32_t name = 0;
  ASSERT_EQ(start(1, 2, kNone, &name), 0);
  ASSERT_EQ(start(3, 4, name, &name), 0) << last_error();
  EXPECT_EQ(name, 2u);
  EXPECT_EQ(wait(4, 2), 0) << last_error();
}

TEST_F(AsyncCopiesTest, RefusesANameThatIsInUseOrUnknown) {
  ASSERT_EQ(start(7, 8, kNone), 0);
  EXPECT_EQ(start(7, 8, kNone), -EINVAL);
  EXPECT_NE(std::string(last_error()).find("has not been waited for"), std::string::npos);
  EXPECT_EQ(start(7, 9, 2), -EINVAL);
  EXPECT_EQ(start(7, 9, 3), -EINVAL);
  EXPECT_EQ(wait(7, 2), -EINVAL);
  EXPECT_EQ(state.copies.size(), 1u) << "nothing was begun";
}

TEST_F(AsyncCopiesTest, ReportsWhatTheDriverSaysOfACopy) {
  state.copy_result = -ENODEV;
  ASSERT_EQ(start(7, 8, kNone), 0);
  EXPECT_EQ(wait(8, 1), -ENODEV);
  EXPECT_NE(std::string(last_error()).find("neuron0"), std::string::npos) << last_error();
  state.submit_result = -EBUSY;
  EXPECT_EQ(start(7, 8, kNone), -EBUSY);
  state.submit_result = 0;
  EXPECT_EQ(start(7, 8, kNone), 0) << "the name of a copy that was not taken is free";
}

TEST_F(AsyncCopiesTest, LetsGoOfTheRingInAChild) {
  copies.abandon();
  EXPECT_TRUE(state.abandoned);
}

TEST(CompletionRing, IsAbsentWhereTheFileHasNoCommands) {
  const int plain = open("/dev/null", O_RDWR | O_CLOEXEC);
  ASSERT_GE(plain, 0);
  EXPECT_EQ(make_completion_ring(plain), nullptr);
  close(plain);
}

}  // namespace
}  // namespace neuron::ndl
