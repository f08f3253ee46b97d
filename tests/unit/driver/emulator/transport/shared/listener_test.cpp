// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/files.h"

namespace neuron::transport {
namespace {

using ::testing::HasSubstr;

class ListenerTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "a file is left";
  }
  std::string path() const { return folder_.path("s"); }
  const test::Folder folder_;
};

TEST_F(ListenerTest, LeavesALiveSocketAloneWhenItCannotLookWhoListens) {
  std::string error;
  const auto live = Listener::open(path(), "test", error);
  ASSERT_NE(live, nullptr) << error;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // No descriptor is left to connect with.
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto second = Listener::open(path(), "test", error);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(second, nullptr);
  EXPECT_THAT(error, HasSubstr("cannot be found out: Too many open files"));
  EXPECT_EQ(::access(path().c_str(), F_OK), 0) << "the live socket was removed";
}

TEST_F(ListenerTest, TakesThePathOfADeadDaemonAndRefusesThatOfALiveOne) {
  std::string error;
  auto live = Listener::open(path(), "test", error);
  ASSERT_NE(live, nullptr) << error;
  EXPECT_EQ(Listener::open(path(), "test", error), nullptr);
  EXPECT_THAT(error, HasSubstr("is served already"));
  ::close(live->release());  // as when its process was killed
  const auto next = Listener::open(path(), "test", error);
  ASSERT_NE(next, nullptr) << error;
}

}  // namespace
}  // namespace neuron::transport
