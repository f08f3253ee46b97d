// SPDX-License-Identifier: Apache-2.0
// The sockets that the nodes of an UltraServer find each other by: who is believed, and where.
#include "driver/emulator/transport/shared/pod_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "driver/base/file_descriptor.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/instance.h"
#include "driver/emulator/transport/control/daemon.h"
#include "tests/support/eventually.h"
#include "tests/support/files.h"

namespace neuron::transport {
namespace {

using ::testing::HasSubstr;

constexpr char kProfile[] = "trn2-ultraserver";
constexpr unsigned kNodes = 4;

base::FileDescriptor seqpacket() {
  return base::FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// A daemon without a program of its own, whose loop runs in a thread.
class Node {
 public:
  Node(const std::string& folder, unsigned node) {
    int failure = 0;
    instance_ = service::Instance::create(
        kProfile, {},
        [](const chip::ChipConfig&, chip::HostMemory&, std::string&) { return nullptr; }, failure);
    if (!instance_) {
      error_ = service::last_error();
      return;
    }
    link_ = PodLink::join(Daemon{io_, *instance_, kProfile, {}}, folder, node, error_);
  }
  ~Node() { stop(); }

  void run() {
    if (link_) thread_ = std::thread([this] { io_.run(); });
  }
  void stop() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }
  bool joined() const { return link_ != nullptr; }
  const std::string& error() const { return error_; }
  boost::asio::io_context& io() { return io_; }
  uint32_t state() const {
    neuron_ioctl_pod_status_v2 status = {};
    (void)instance_->pod().status(status);
    return status.v1.state;
  }
  bool is_ultraserver() const {
    return test::eventually([this] { return state() == NEURON_POD_E_STATE_ULTRASERVER; });
  }

 private:
  boost::asio::io_context io_{1};
  std::unique_ptr<service::Instance> instance_;
  std::unique_ptr<PodLink> link_;
  std::string error_;
  std::thread thread_;
};

class PodLinks : public ::testing::Test {
 protected:
  std::unique_ptr<Node> join(unsigned node) {
    auto made = std::make_unique<Node>(folder_.path(), node);
    EXPECT_TRUE(made->joined()) << made->error();
    made->run();
    return made;
  }
  std::string refused() { return Node(folder_.path(), 0).error(); }

  const test::Folder folder_;
};

TEST_F(PodLinks, NodesOfOneUserFindEachOther) {
  std::unique_ptr<Node> nodes[kNodes];
  for (unsigned node = 0; node < kNodes; ++node) nodes[node] = join(node);
  for (const auto& node : nodes) EXPECT_TRUE(node->is_ultraserver());
}

TEST_F(PodLinks, AFolderThatOthersMayWriteToIsRefused) {
  for (const mode_t mode : {0770u, 0707u, 01777u}) {
    ASSERT_EQ(::chmod(folder_.path().c_str(), mode), 0);
    EXPECT_THAT(refused(), HasSubstr("others than its user may write to it")) << std::oct << mode;
  }
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  EXPECT_EQ(refused(), "");
  EXPECT_THAT(Node(folder_.path("none"), 0).error(), HasSubstr("there is no such folder"));
  EXPECT_THAT(Node(folder_.write("file", ""), 0).error(), HasSubstr("it is no folder"));
}

TEST_F(PodLinks, AFolderOfAnotherUserIsRefused) {
  if (::chown(folder_.path().c_str(), 65534, 65534) == 0) {
    EXPECT_THAT(refused(), HasSubstr("it belongs to user 65534, who could put sockets"));
    ASSERT_EQ(::chown(folder_.path().c_str(), ::geteuid(), ::getegid()), 0);
  }
  EXPECT_EQ(refused(), "");
}

TEST_F(PodLinks, ASocketOfAStrangerIsNotBelievedAndToldOnce) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can listen as another user";
  std::unique_ptr<Node> nodes[kNodes];
  for (unsigned node = 1; node + 1 < kNodes; ++node) nodes[node] = join(node);
  // It says what the node before it says, but who listens is somebody else.
  const std::string path = folder_.path("node-3");
  base::FileDescriptor listener = seqpacket();
  const sockaddr_un address = address_of(path);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            0);
  // By this thread alone, which seteuid() is not: the nodes' threads stay root's.
  ASSERT_EQ(::syscall(SYS_setresuid, -1, 65534, -1), 0);
  const int listens = ::listen(listener.get(), 16);
  ASSERT_EQ(::syscall(SYS_setresuid, -1, 0, -1), 0);
  ASSERT_EQ(listens, 0);
  struct {
    char magic[8] = {'n', 'd', '-', 'p', 'o', 'd', '-', '1'};
    uint64_t serial = 0x6666;
    uint32_t nodes = kNodes, node = 3, type = NEURON_POD_TYPE_P2P, reserved = 0;
  } record;
  std::atomic<unsigned> asked{0};
  std::thread stranger([&] {
    for (;;) {  // bounded: ends when the listener is shut down
      const base::FileDescriptor client(::accept(listener.get(), nullptr, nullptr));
      if (!client) return;
      ++asked;
      (void)!::send(client.get(), &record, sizeof(record), MSG_NOSIGNAL);
    }
  });
  testing::internal::CaptureStderr();
  nodes[0] = join(0);
  EXPECT_TRUE(test::eventually([&] { return asked >= 9; }));
  for (unsigned node = 0; node + 1 < kNodes; ++node) {
    EXPECT_EQ(nodes[node]->state(), static_cast<uint32_t>(NEURON_POD_E_STATE_IN_PROGRESS));
  }
  ::shutdown(listener.get(), SHUT_RDWR);
  stranger.join();
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string sentence = "listens a process of user 65534 in the place of node 3";
  const size_t first = log.find(sentence);
  ASSERT_NE(first, std::string::npos) << log;
  // The three nodes share this process, and with it standard error.
  size_t told = 0;
  for (size_t at = first; at != std::string::npos; at = log.find(sentence, at + 1)) ++told;
  EXPECT_LE(told, 3u) << log;
  // The node itself is believed when it comes.
  listener.reset();
  nodes[3] = join(3);
  for (const auto& node : nodes) EXPECT_TRUE(node->is_ultraserver());
}

TEST_F(PodLinks, WithoutADescriptorTheLoopRestsAndTheNextQuestionIsAnswered) {
  auto node = std::make_unique<Node>(folder_.path(), 1);
  ASSERT_TRUE(node->joined()) << node->error();
  const base::FileDescriptor client = seqpacket();
  const sockaddr_un address = address_of(folder_.path("node-1"));
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            0);
  testing::internal::CaptureStderr();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const size_t steps = node->io().run_for(std::chrono::milliseconds(500));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LE(steps, 20u) << "handlers in half a second";
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "neuron-emulatord: no other node of the UltraServer can be answered at " +
                folder_.path("node-1") + ": Too many open files; raise the limit of open files\n");
  char record[64];
  EXPECT_TRUE(test::eventually([&] {
    node->io().run_for(std::chrono::milliseconds(10));
    return ::recv(client.get(), record, sizeof(record), MSG_DONTWAIT) == 32;
  }));
}

// Who has gone before it is accepted leaves nothing to accept.
TEST_F(PodLinks, WhoGoesBeforeItIsAnsweredHoldsUpNobody) {
  auto node = std::make_unique<Node>(folder_.path(), 1);
  ASSERT_TRUE(node->joined()) << node->error();
  const sockaddr_un address = address_of(folder_.path("node-1"));
  for (int i = 0; i < 3; ++i) {
    const base::FileDescriptor client = seqpacket();
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
  }
  EXPECT_GE(node->io().run_for(std::chrono::milliseconds(100)), 3u);
}

}  // namespace
}  // namespace neuron::transport
