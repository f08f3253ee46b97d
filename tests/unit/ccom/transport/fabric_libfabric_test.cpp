// SPDX-License-Identifier: Apache-2.0
// Endpoints of libfabric at their end: nothing of them stays behind.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <iterator>

#include "ccom/transport/fabric_provider.h"
#include "driver/base/deadline.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

class FabricLibfabric : public testing::Test {
 protected:
  void SetUp() override {
    // What libfabric opens once for the process does not count.
    open();
    close();
    files_ = open_files();
    open();
  }

  void open() {
    for (auto& end : ends_) {
      auto opened = open_provider("tcp", "127.0.0.1");
      ASSERT_TRUE(opened) << opened.error().sentence;
      end = std::move(*opened);
    }
    const std::vector<std::vector<std::byte>> addresses{ends_[0]->address(), ends_[1]->address()};
    for (auto& end : ends_) ASSERT_TRUE(end->introduce(addresses));
  }

  void close() {
    for (auto& end : ends_) {
      end->close();
      EXPECT_EQ(end->failure().sentence, "");
    }
  }

  static ptrdiff_t open_files() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  }

  int send(FabricEndpoint& from, Rank to) {
    return from.send(to, data_.data(), data_.size(), nullptr, 7, 0, sent_);
  }

  std::array<FabricCompletion, 4> completions_;
  std::array<std::byte, 512> data_{};
  std::array<std::byte, 512> place_{};
  FabricOperation sent_, received_;
  std::unique_ptr<FabricEndpoint> ends_[2];
  ptrdiff_t files_ = 0;
};

TEST_F(FabricLibfabric, ClosesEverythingAfterMessages) {
  ASSERT_EQ(ends_[1]->receive(kAnyPeer, place_.data(), place_.size(), nullptr, 7, 0, received_), 0);
  const base::Deadline end = base::Deadline::after(milliseconds(5000));
  int posted = -EAGAIN;
  int completed = 0;
  while (completed < 2 && !end.expired()) {
    if (posted == -EAGAIN) posted = send(*ends_[0], 1);
    completed += ends_[0]->poll(completions_) + ends_[1]->poll(completions_);
  }
  ASSERT_EQ(completed, 2);
  close();
  EXPECT_EQ(open_files(), files_);
}

TEST_F(FabricLibfabric, ClosesWithAReceiveThatNothingCameFor) {
  ASSERT_EQ(ends_[1]->receive(kAnyPeer, place_.data(), place_.size(), nullptr, 7, 0, received_), 0);
  close();
  EXPECT_EQ(open_files(), files_);
}

// A connection whose other end has not said yet who it is when this end closes is lost inside of
// libfabric 1.17, whatever we do (README.md); one that has is not.
TEST_F(FabricLibfabric, ClosesAConnectionThatNothingWasReceivedOver) {
  const base::Deadline end = base::Deadline::after(milliseconds(5000));
  int posted = -EAGAIN;
  while (posted == -EAGAIN && !end.expired()) {
    posted = send(*ends_[0], 1);
    ends_[0]->poll(completions_);
    ends_[1]->poll(completions_);
  }
  ASSERT_EQ(posted, 0);
  ASSERT_GT(open_files(), files_);
  close();
  EXPECT_EQ(open_files(), files_);
}

}  // namespace
}  // namespace neuron::ccom
