// SPDX-License-Identifier: Apache-2.0
// Posted writes, as the process sees them whose daemon is slow or gone.
#include "driver/ndl/shared_doorbell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "driver/base/packet_socket.h"
#include "driver/ndl/error.h"
#include "tests/support/files.h"

namespace neuron::ndl {
namespace {

using ::testing::HasSubstr;
using Writes = std::vector<DevicePort::RegisterWrite>;

// A daemon that welcomes one client and serves nothing; the test writes into the page for it.
class SharedDoorbellTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = folder_.path() + "/socket";
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    ASSERT_LT(path.size(), sizeof(address.sun_path));
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const base::FileDescriptor listening(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(listening.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(::listen(listening.get(), 1), 0);
    const base::FileDescriptor file(::memfd_create("page", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(file.get(), wire::kRingBytes), 0);
    page_ = static_cast<wire::RingPage*>(
        ::mmap(nullptr, wire::kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
    ASSERT_NE(page_, MAP_FAILED);
    const base::FileDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    std::thread welcome([&] {
      socket_ = base::FileDescriptor(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
      std::vector<std::byte> hello(wire::kMaxMessage);
      base::PacketFiles none;
      EXPECT_GT(base::receive_packet(socket_.get(), hello, none), 0);
      auto welcomes = wire::message<wire::Welcome>(wire::Kind::kWelcome, 0);
      welcomes.features = wire::kFeatures;
      const iovec part = {&welcomes, sizeof(welcomes)};
      const int files[] = {file.get(), event.get()};
      EXPECT_EQ(base::send_packet(socket_.get(), {&part, 1}, files, 1000), 0);
    });
    channel_ = SharedChannel::open(path, wire::kPurposeOpen, 0, 0);
    welcome.join();
    ASSERT_NE(channel_, nullptr) << last_error();
    doorbell_ = SharedDoorbell::create(*channel_);
    ASSERT_NE(doorbell_, nullptr) << last_error();
  }
  void TearDown() override {
    doorbell_.reset();
    channel_.reset();
    if (page_ != nullptr) ::munmap(page_, wire::kRingBytes);
  }
  // As many as there is room for; number n begins at address 0x1000 + n.
  void fill() {
    for (uint64_t n = 0; n < wire::kPosts; ++n) {
      ASSERT_EQ(doorbell_->post(Writes{{0x1000 + n, 1}}), 0) << last_error();
    }
  }

  const test::Folder folder_;
  base::FileDescriptor socket_;  // the daemon's
  wire::RingPage* page_ = nullptr;
  std::unique_ptr<SharedChannel> channel_;
  std::unique_ptr<SharedDoorbell> doorbell_;
};

TEST_F(SharedDoorbellTest, WhoWaitsForRoomSoonLearnsThatTheDaemonIsGone) {
  fill();
  const auto begin = std::chrono::steady_clock::now();
  std::thread death([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    socket_.reset();
  });
  EXPECT_EQ(doorbell_->post(Writes{{0x2000, 1}}), -ENODEV);
  death.join();
  EXPECT_THAT(last_error(), HasSubstr("is gone"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(SharedDoorbellTest, ARefusalWhileSomebodyWaitsForRoomIsToldWithItsOwnAddress) {
  fill();
  std::thread daemon([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    page_->refused_last = 0;
    page_->result = -EINVAL;
    page_->refused.store(1, std::memory_order_release);
    page_->carried.store(1, std::memory_order_release);
  });
  EXPECT_EQ(doorbell_->post(Writes{{0x2000, 1}}), -EINVAL);
  daemon.join();
  EXPECT_THAT(last_error(), HasSubstr("0x1000"));
  EXPECT_EQ(doorbell_->post(Writes{{0x2000, 1}}), 0) << last_error();
}

}  // namespace
}  // namespace neuron::ndl
