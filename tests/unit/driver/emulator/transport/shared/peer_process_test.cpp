// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/peer_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "driver/emulator/transport/shared/listener.h"

namespace neuron::transport {
namespace {

class PeerOf : public ::testing::TestWithParam<bool> {
 protected:
  PeerOf()
      : path_(std::filesystem::temp_directory_path() /
              ("neuron-peer-" + std::to_string(::getpid()))) {
    std::string error;
    listener_ = Listener::open(path_, "test", error);
    EXPECT_NE(listener_, nullptr) << error;
  }
  base::FileDescriptor connect() const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    base::FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto* where = reinterpret_cast<const sockaddr*>(&address);
    if (::connect(socket.get(), where, sizeof(address)) != 0) socket.reset();
    return socket;
  }
  std::optional<PeerProcess> accept() {
    accepted_.reset(::accept4(listener_->fd(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(accepted_);
    return PeerProcess::of(accepted_.get(), why_, GetParam());
  }

  const std::string path_;
  std::unique_ptr<Listener> listener_;
  base::FileDescriptor accepted_;
  std::string why_;
};

TEST_P(PeerOf, ASocketIsTheProcessThatHasConnectedAndTheSameOneEachTime) {
  const base::FileDescriptor first = connect();
  const std::optional<PeerProcess> one = accept();
  const base::FileDescriptor second = connect();
  const std::optional<PeerProcess> other = accept();
  ASSERT_TRUE(one && other) << why_;
  EXPECT_EQ(one->client.pid, ::getpid());
  EXPECT_EQ(one->client.user, ::getuid());
  EXPECT_NE(one->client.process, 0u);
  EXPECT_EQ(one->client.process, other->client.process);
}

TEST_P(PeerOf, ASocketWhoseProcessHasEndedIsNobodyAlthoughAChildOfItHoldsTheOtherEnd) {
  int end[2];
  ASSERT_EQ(::pipe(end), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const base::FileDescriptor socket = connect();
    if (::fork() == 0) {
      char byte;
      ::close(end[1]);
      (void)!::read(end[0], &byte, 1);
    }
    ::_exit(socket ? 0 : 1);
  }
  ::close(end[0]);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_FALSE(accept());
  EXPECT_EQ(why_, "");
  ::close(end[1]);
}

TEST_P(PeerOf, ADescriptorTellsWhenTheProcessEnds) {
  int end[2];
  ASSERT_EQ(::pipe(end), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const base::FileDescriptor socket = connect();
    char byte;
    ::close(end[1]);
    (void)!::read(end[0], &byte, 1);
    ::_exit(0);
  }
  ::close(end[0]);
  const std::optional<PeerProcess> peer = accept();
  ASSERT_TRUE(peer) << why_;
  EXPECT_EQ(peer->client.pid, child);
  EXPECT_NE(peer->client.process, 0u);
  pollfd polled = {peer->process.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&polled, 1, 0), 0);
  ::close(end[1]);
  EXPECT_EQ(::poll(&polled, 1, 30'000), 1);
  ::waitpid(child, nullptr, 0);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutSocketOptions, PeerOf, ::testing::Bool());

}  // namespace
}  // namespace neuron::transport
