// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "tests/support/child.h"
#include "tests/support/eventually.h"
#include "tests/support/setting.h"
#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using test::Child;
using test::FakePort;
using test::FakeState;
using test::Setting;
using ::testing::HasSubstr;

// The state of the process is that of its only session: each test has a process of its own.
class Lifecycle : public ::testing::Test {
 protected:
  void in_a_new_process(const std::function<void()>& body) {
    Child child = Child::forked([&] {
      body();
      return HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(child.wait(), 0);
  }
  void set_port() { ndl::set_port(std::make_unique<FakePort>(state_)); }
  bool open() {
    set_port();
    const auto opened = open_session({});
    if (!opened) ADD_FAILURE() << opened.error().sentence;
    return opened.has_value();
  }

  FakeState state_;
};

TEST_F(Lifecycle, WithoutASessionACallIsToldWhatToDo) {
  in_a_new_process([&] {
    {
      const SessionUse use;
      EXPECT_FALSE(use);
      EXPECT_EQ(use.error().status, NRT_UNINITIALIZED);
      EXPECT_EQ(use.error().sentence, "the runtime is not initialised; call nrt_init first");
    }
    EXPECT_TRUE(close_session()) << "there is nothing to close";
    EXPECT_EQ(SessionUse().error().status, NRT_UNINITIALIZED) << "it is not closed either";
    ASSERT_TRUE(open());
    EXPECT_TRUE(SessionUse());
    ASSERT_TRUE(close_session());
    const SessionUse use;
    EXPECT_FALSE(use);
    EXPECT_EQ(use.error().status, NRT_CLOSED);
    EXPECT_EQ(use.error().sentence, "the runtime was closed; call nrt_init to use it again");
  });
}

TEST_F(Lifecycle, OpeningTwiceGivesTheSessionThatThereIs) {
  in_a_new_process([&] {
    ASSERT_TRUE(open());
    Session* first = &*SessionUse();
    const size_t resets = state_.resets.size();
    ASSERT_TRUE(open_session({}));
    EXPECT_EQ(&*SessionUse(), first);
    EXPECT_EQ(state_.resets.size(), resets);
    ASSERT_TRUE(close_session());
    EXPECT_TRUE(close_session());
    EXPECT_EQ(state_.count(NEURON_IOCTL_RELEASE_NEURON_DS), 1u);
    EXPECT_EQ(state_.count(NEURON_IOCTL_MEM_FREE), 4u) << "what its two cores had";
  });
}

TEST_F(Lifecycle, TheEnvironmentIsReadAgainAfterAClose) {
  in_a_new_process([&] {
    const Setting cores("NEURON_RT_NUM_CORES", "1");
    ASSERT_TRUE(open());
    EXPECT_EQ(SessionUse()->core_count(), 1u);
    ASSERT_TRUE(close_session());
    const Setting more("NEURON_RT_NUM_CORES", "2");
    ASSERT_TRUE(open());
    EXPECT_EQ(SessionUse()->core_count(), 2u);
    ASSERT_TRUE(close_session());
    const Setting wrong("NEURON_RT_NUM_CORES", "many");
    set_port();
    EXPECT_FALSE(open_session({}));
    EXPECT_EQ(SessionUse().error().status, NRT_CLOSED);
  });
}

TEST_F(Lifecycle, AForkedChildHasNoSession) {
  in_a_new_process([&] {
    {
      Child never = Child::forked([] {
        return SessionUse().error().sentence ==
                       "the runtime is not initialised; call nrt_init first"
                   ? 0
                   : 1;
      });
      EXPECT_EQ(never.wait(), 0);
    }
    ASSERT_TRUE(open());
    const SessionUse running;
    in_a_new_process([&] {
      const SessionUse use;
      EXPECT_FALSE(use);
      EXPECT_EQ(use.error().status, NRT_UNINITIALIZED);
      EXPECT_THAT(use.error().sentence, HasSubstr("this process was forked from one that had"));
      EXPECT_TRUE(close_session()) << "the parent's, so there is nothing to close";
    });
    EXPECT_TRUE(SessionUse()) << "the parent's goes on";
  });
}

TEST_F(Lifecycle, ClosingWaitsForCallsThatRun) {
  in_a_new_process([&] {
    ASSERT_TRUE(open());
    std::optional<SessionUse> running(std::in_place);
    std::atomic<bool> closed{false};
    std::thread closes([&] {
      EXPECT_TRUE(close_session());
      closed = true;
    });
    // It refuses calls as soon as it has begun.
    EXPECT_TRUE(test::eventually([] { return !SessionUse(); }));
    EXPECT_EQ(SessionUse().error().status, NRT_CLOSED);
    EXPECT_FALSE(closed);
    EXPECT_EQ((*running)->core_count(), 2u) << "the session is still there";
    running.reset();
    closes.join();
    EXPECT_TRUE(closed);
  });
}

}  // namespace
}  // namespace neuron::runtime
