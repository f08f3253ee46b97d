// SPDX-License-Identifier: Apache-2.0
#include "runtime/async/async_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>

#include "driver/base/file_descriptor.h"

namespace neuron::runtime {
namespace {

using ::testing::HasSubstr;

class Events : public ::testing::Test {
 protected:
  void reach(uint64_t number) {
    progress_.store(number);
    events_.fire(progress_);
  }
  // What was added to the eventfd since it was read last.
  uint64_t read_event() const {
    uint64_t value = 0;
    return read(event_.get(), &value, sizeof(value)) == sizeof(value) ? value : 0;
  }
  static base::Deadline soon() { return base::Deadline::after(std::chrono::milliseconds(2)); }

  AsyncEvents::Progress progress_{5};
  AsyncEvents events_;
  base::FileDescriptor event_{eventfd(0, EFD_NONBLOCK)};
};

TEST_F(Events, AWaitEndsWithTheRequestOrAtItsDeadline) {
  EXPECT_TRUE(events_.wait(progress_, 5, soon()));
  EXPECT_TRUE(events_.wait(progress_, 4, soon()));
  EXPECT_FALSE(events_.wait(progress_, 6, soon()));
  std::thread waiter([&] {
    EXPECT_TRUE(events_.wait(progress_, 7, base::Deadline::after(std::chrono::seconds(20))));
  });
  reach(6);
  reach(7);
  waiter.join();
}

TEST_F(Events, AnEventfdIsSignalledOnceWithItsRequest) {
  ASSERT_TRUE(events_.add(progress_, 5, event_.get()));
  EXPECT_EQ(read_event(), 1u) << "it has completed already";
  ASSERT_TRUE(events_.add(progress_, 7, event_.get()));
  reach(6);
  EXPECT_EQ(read_event(), 0u);
  reach(7);
  EXPECT_EQ(read_event(), 1u);
  reach(8);
  EXPECT_EQ(read_event(), 0u);
}

TEST_F(Events, OneThatIsTakenBackIsNotSignalled) {
  ASSERT_TRUE(events_.add(progress_, 7, event_.get()));
  ASSERT_TRUE(events_.add(progress_, 8, event_.get()));
  events_.remove(7);
  reach(7);
  EXPECT_EQ(read_event(), 0u);
  reach(8);
  EXPECT_EQ(read_event(), 1u);
}

TEST_F(Events, AFollowerCountsCompletionsFromNowOn) {
  ASSERT_TRUE(events_.follow(progress_, event_.get()));
  reach(5);
  EXPECT_EQ(read_event(), 0u);
  reach(6);
  EXPECT_EQ(read_event(), 1u);
  reach(9);
  EXPECT_EQ(read_event(), 3u);
  ASSERT_TRUE(events_.follow(progress_, -1));
  reach(10);
  EXPECT_EQ(read_event(), 0u);
}

TEST_F(Events, ADescriptorThatItsOwnerClosesDoesNoHarm) {
  base::FileDescriptor other(eventfd(0, EFD_NONBLOCK));
  ASSERT_TRUE(events_.add(progress_, 6, other.get()));
  other = base::FileDescriptor();
  reach(6);
}

TEST_F(Events, RefuseWhatIsNoEventfd) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const base::FileDescriptor first(ends[0]), second(ends[1]);
  const auto pipe_end = events_.add(progress_, 9, ends[1]);
  ASSERT_FALSE(pipe_end);
  EXPECT_EQ(pipe_end.error().status, NRT_INVALID);
  EXPECT_THAT(pipe_end.error().sentence, HasSubstr("is no eventfd; make one with eventfd(2)"));
  const auto closed = events_.follow(progress_, 100'000);
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().sentence, "descriptor 100000 is not open; give an eventfd, or -1");
}

}  // namespace
}  // namespace neuron::runtime
