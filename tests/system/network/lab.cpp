// SPDX-License-Identifier: Apache-2.0
#include "tests/system/network/lab.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <queue>
#include <random>
#include <thread>

#include "tests/support/process.h"

namespace neuron::network {

namespace {

using Clock = std::chrono::steady_clock;
using Address = std::array<unsigned char, 6>;

// Behind a virtio header (10 bytes), which carries segmentation and checksums that are still open.
constexpr size_t kHeader = 10;
constexpr size_t kLargest = 65536 + 256;
constexpr const char* kPrefix = "nccom";
constexpr const char* kFolder = "/var/run/netns/";

std::string stem() { return kPrefix + std::to_string(getpid()) + "x"; }

test::Ending quietly(const std::string& command) {
  return test::shell(command, {}, std::chrono::seconds(10)).ending;
}

// Namespaces of tests that were killed.
void remove_stale() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder, error)) {
    const std::string name = entry.path().filename();
    if (name.rfind(kPrefix, 0) != 0) continue;
    const int pid = std::atoi(name.c_str() + std::strlen(kPrefix));
    if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH) quietly("ip netns del " + name);
  }
}

}  // namespace

struct Lab::Switch {
  struct Frame {
    Clock::time_point due;
    uint64_t order;
    uint32_t to;
    std::vector<unsigned char> bytes;
    bool operator>(const Frame& other) const {
      return due != other.due ? due > other.due : order > other.order;
    }
  };

  uint32_t ports;
  std::vector<int> sockets;
  std::mutex mutex;
  std::vector<Harm> harm;  // [from * ports + to]
  std::atomic<uint64_t> passed{0}, dropped{0};
  std::atomic<bool> stopping{false};
  std::thread thread;
  std::map<Address, uint32_t> known;
  std::priority_queue<Frame, std::vector<Frame>, std::greater<>> waiting;
  uint64_t order = 0;
  std::mt19937_64 random{12345};

  explicit Switch(uint32_t count) : ports(count), harm(uint64_t{count} * count) {}
  ~Switch() {
    stopping = true;
    if (thread.joinable()) thread.join();
    for (const int socket : sockets) close(socket);
  }

  // In the namespace of the switch: a thread of its own, so that the test stays where it is.
  std::string open(const std::string& space) {
    std::string failure;
    std::thread opener([&] {
      const int file = ::open((kFolder + space).c_str(), O_RDONLY | O_CLOEXEC);
      if (file < 0 || setns(file, CLONE_NEWNET) != 0) {
        failure = "cannot enter the namespace of the switch: " + std::string(std::strerror(errno));
      }
      for (uint32_t i = 0; failure.empty() && i < ports; ++i) failure = open_port(i);
      if (file >= 0) close(file);
    });
    opener.join();
    if (failure.empty()) thread = std::thread([this] { serve(); });
    return failure;
  }

  std::string open_port(uint32_t port) {
    const int socket =
        ::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL));
    if (socket < 0) return "no packet socket: " + std::string(std::strerror(errno));
    sockets.push_back(socket);
    const int on = 1, size = 8 << 20;
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(("p" + std::to_string(port)).c_str()));
    setsockopt(socket, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    setsockopt(socket, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    if (setsockopt(socket, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0 ||
        setsockopt(socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0 ||
        bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      return "a packet socket cannot be set up: " + std::string(std::strerror(errno));
    }
    return "";
  }

  void serve() {
    // No process of the hosts: it does not wait until all of theirs have had their turn.
    constexpr int kFirst = -20, kThisThread = 0;
    setpriority(PRIO_PROCESS, kThisThread, kFirst);
    std::vector<unsigned char> buffer(kLargest);
    while (!stopping) {
      std::vector<pollfd> readable;
      for (const int socket : sockets) readable.push_back({socket, POLLIN, 0});
      // To the nanosecond: it would spin through the last millisecond of each delay.
      std::chrono::nanoseconds patience = std::chrono::milliseconds(20);
      if (!waiting.empty()) {
        patience = std::clamp<std::chrono::nanoseconds>(waiting.top().due - Clock::now(),
                                                        std::chrono::nanoseconds(0), patience);
      }
      const timespec limit{.tv_sec = 0, .tv_nsec = patience.count()};
      ppoll(readable.data(), readable.size(), &limit, nullptr);
      for (uint32_t from = 0; from < ports; ++from) {
        for (int burst = 0; burst < 64; ++burst) {
          const ssize_t length = recv(sockets[from], buffer.data(), buffer.size(), 0);
          if (length < static_cast<ssize_t>(kHeader + ETH_HLEN)) break;
          pass(from, buffer.data(), static_cast<size_t>(length));
        }
      }
      while (!waiting.empty() && waiting.top().due <= Clock::now()) {
        deliver(waiting.top().to, waiting.top().bytes.data(), waiting.top().bytes.size());
        waiting.pop();
      }
    }
  }

  void pass(uint32_t from, const unsigned char* frame, size_t length) {
    Address destination, source;
    std::memcpy(destination.data(), frame + kHeader, 6);
    std::memcpy(source.data(), frame + kHeader + 6, 6);
    known[source] = from;
    const auto found = known.find(destination);
    for (uint32_t to = 0; to < ports; ++to) {
      if (to == from || (found != known.end() && found->second != to)) continue;
      Harm now;
      {
        const std::lock_guard lock(mutex);
        now = harm[uint64_t{from} * ports + to];
      }
      const double roll = std::uniform_real_distribution<>(0, 1)(random);
      if (now.blocked || roll < now.drop) {
        ++dropped;
      } else if (now.delay.count() == 0) {
        deliver(to, frame, length);
      } else {
        waiting.push({Clock::now() + now.delay, order++, to, {frame, frame + length}});
      }
    }
  }

  void deliver(uint32_t to, const unsigned char* frame, size_t length) {
    // A queue that is full is a network that drops.
    if (send(sockets[to], frame, length, 0) < 0) {
      ++dropped;
    } else {
      ++passed;
    }
  }
};

bool Lab::permitted() {
  const std::string name = stem() + "probe";
  const bool made = quietly("ip netns add " + name) == 0;
  if (made) quietly("ip netns del " + name);
  return made;
}

Lab::Lab(uint32_t hosts) : hosts_(hosts) {
  remove_stale();
  make();
  if (!ready()) remove();
}

Lab::~Lab() { remove(); }

std::string Lab::name(uint32_t host) const { return stem() + "h" + std::to_string(host); }
std::string Lab::address(uint32_t host) const { return "10.77.0." + std::to_string(host + 1); }

bool Lab::run(const std::string& command) {
  if (!failure_.empty()) return false;
  const test::Ending ending = quietly(command);
  if (ending != 0) failure_ = "\"" + command + "\" " + ending.sentence();
  return ending == 0;
}

void Lab::make() {
  const std::string space = stem() + "switch";
  run("ip netns add " + space);
  for (uint32_t i = 0; i < hosts_; ++i) {
    const std::string host = name(i), port = "p" + std::to_string(i);
    run("ip netns add " + host);
    run("ip -n " + space + " link add " + port + " type veth peer name eth0 netns " + host);
    run("ip -n " + host + " addr add " + address(i) + "/24 dev eth0");
    run("ip -n " + host + " link set lo up");
    run("ip -n " + host + " link set eth0 up");
    run("ip netns exec " + space + " sysctl -qw net.ipv6.conf." + port + ".disable_ipv6=1 || true");
    run("ip -n " + space + " link set " + port + " up");
  }
  if (!ready()) return;
  switch_ = std::make_unique<Switch>(hosts_);
  failure_ = switch_->open(space);
}

void Lab::remove() {
  switch_.reset();
  for (uint32_t i = 0; i < hosts_; ++i) quietly("ip netns del " + name(i));
  quietly("ip netns del " + stem() + "switch");
}

void Lab::set(uint32_t from, uint32_t to, const Harm& harm) {
  const std::lock_guard lock(switch_->mutex);
  switch_->harm[uint64_t{from} * hosts_ + to] = harm;
}

void Lab::set_all(const Harm& harm) {
  const std::lock_guard lock(switch_->mutex);
  std::fill(switch_->harm.begin(), switch_->harm.end(), harm);
}

uint64_t Lab::passed() const { return switch_->passed; }
uint64_t Lab::dropped() const { return switch_->dropped; }

}  // namespace neuron::network
