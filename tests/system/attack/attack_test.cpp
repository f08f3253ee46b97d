// SPDX-License-Identifier: Apache-2.0
// Processes that attack a daemon from all sides at once while a neighbour computes what is known.
//
// NEURON_TEST_ATTACK_SECONDS says for how long: 8 unless it is set, ten minutes by hand. Where the
// test is root, the attackers are another user of the group that the socket belongs to. What they
// may not do here is what any process with the device open may: write to memory that is allocated
// to another one, free it, or reset a core that another one has marked (driver/emulator/
// transport/decisions.md). All else is allowed. The neighbour's speed is printed: it is a figure,
// not a condition.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "driver/base/packet_socket.h"
#include "driver/wire/wire.h"
#include "driver/wire/wire_ioctl.h"
#include "hw/address_map.h"
#include "hw/udma.h"
#include "tests/multi/device_client.h"
#include "tests/support/daemon.h"

namespace neuron::attack {
namespace {

using multi::DeviceClient;
using test::Child;
using test::Clock;
using test::Daemon;
using test::Folder;
using test::Worker;

constexpr uint32_t kNeighboursCore = 0, kAttackersCore = 1;
constexpr uint32_t kFirstEngine = 16 * kAttackersCore;
constexpr uid_t kOtherUser = 65534;
constexpr int kKinds = 7;

std::chrono::seconds duration() {
  const char* text = std::getenv("NEURON_TEST_ATTACK_SECONDS");
  return std::chrono::seconds(text != nullptr ? std::atoi(text) : 8);
}

// One process, with a seed: it attacks until it is told to stop, in one way after another.
class Attacker {
 public:
  Attacker(const std::string& socket, uint32_t seed) : socket_(socket), random_(seed) {}

  int run(Clock::time_point end) {
    // Its memory, to be found in rings and rows of others, were that possible.
    buffer_.assign(16 << 20, 'A');
    while (Clock::now() < end) {
      switch (pick(kKinds)) {
        case 0:
          foreign_rings();
          break;
        case 1:
          registers();
          break;
        case 2:
          deaths();
          break;
        case 3:
          wild_handles();
          break;
        case 4:
          wild_calls();
          break;
        case 5:
          garbage();
          break;
        default:
          floods();
      }
    }
    return opened_ == 0 ? 3 : 0;  // one that never got in has attacked nothing
  }

 private:
  uint64_t pick(uint64_t below) { return random_() % below; }
  std::unique_ptr<DeviceClient> open() {
    auto client = DeviceClient::open(socket_);
    if (client != nullptr) ++opened_;
    return client;
  }
  uint32_t engine() { return kFirstEngine + static_cast<uint32_t>(pick(16)); }
  uint32_t queue() { return static_cast<uint32_t>(pick(NEURON_DMA_QUEUES)); }

  // I/O addresses as the driver hands them out for copies: behind the newest allocation, around it,
  // and anywhere, in both directions. What this process's own rings and memory have is its own.
  void foreign_rings() {
    const auto client = open();
    if (client == nullptr || !client->make_ring(engine(), queue(), 32)) return;
    const uint64_t mine = client->allocate(65536, true);
    const uint64_t own = client->address(mine);
    for (int i = 0; i < 200; ++i) {
      // Slots above all that is allocated, so that no other process's memory is hit.
      const uint64_t newest = client->allocate(4096, true);
      const uint64_t slot = (client->address(newest) >> 24 & 0x7FFFF) + 1 + pick(8);
      client->free(newest);
      const uint64_t half = pick(2) << 43;
      // In the other half anything goes: nothing there is any process's.
      const uint64_t io = half != 0 ? half | pick(4096) << 24 : slot << 24;
      const uint64_t target = NEURON_V2_HOST_BASE | io | pick(65536) * 64 % (16 << 20);
      const auto bytes = static_cast<uint32_t>(1 + pick(65536));
      // Below the first half's newest mapping lie those of other processes: only reading there.
      if (half != 0 && pick(2) != 0) {
        client->fill_ring(own, target, bytes);
      } else {
        client->fill_ring(target, own, bytes);
      }
      client->start_ring(1 + static_cast<uint32_t>(pick(31)));
    }
  }

  // Registers of the driver's queues, the firmware, and everything that has no address.
  void registers() {
    const auto client = open();
    if (client == nullptr || !client->make_ring(engine(), queue(), 32)) return;
    const uint64_t own = client->address(client->allocate(4096, true));
    for (int i = 0; i < 200; ++i) {
      const uint64_t driver = NEURON_V2_UDMA(32 + pick(2));
      const uint64_t offset =
          pick(3) == 0 ? NEURON_V2_MISC_RAM + 4 * pick(1024)
          : pick(2) == 0
              ? driver + NEURON_UDMA_QUEUE(pick(2) ? NEURON_UDMA_M2S : NEURON_UDMA_S2M, 0) +
                    4 * pick(64)
              : driver + (pick(2) ? NEURON_UDMA_M2S : NEURON_UDMA_S2M) + NEURON_UDMA_CHANGE_STATE;
      const uint64_t nowhere = random_() | uint64_t{1} << 60;
      client->fill_ring(own, pick(4) == 0 ? nowhere : NEURON_V2_BAR0_DEVICE_BASE + offset,
                        4 * static_cast<uint32_t>(1 + pick(4)));
      client->start_ring(1);
    }
  }

  // Children that are killed in the middle of long work.
  void deaths() {
    const int work = static_cast<int>(pick(4));
    Child child = Child::forked([&] {
      const auto client = open();
      if (client == nullptr) return 1;
      (void)client->mark(kAttackersCore);
      const uint64_t from = client->allocate(16 << 20, false, kAttackersCore);
      const uint64_t to = client->allocate(16 << 20, false, kAttackersCore);
      if (from == 0 || to == 0) return 1;
      if (work == 0 && client->make_ring(engine(), queue(), 1 << 18)) {
        client->fill_ring(client->address(from), client->address(to), 65536);
        while (client->start_ring((1 << 18) - 1) == 0) {
        }
      }
      for (;;) {
        const int error = work == 1   ? client->fill(to, 16 << 20)
                          : work == 2 ? client->copy(from, to, 16 << 20)
                                      : client->buffer(to, buffer_.data(), buffer_.size(), true);
        if (error != 0) return 1;
      }
    });
    ::usleep(static_cast<useconds_t>(pick(200'000)));
    child.kill();
  }

  // Handles that nobody has: those of living memory are small numbers.
  void wild_handles() {
    const auto client = open();
    if (client == nullptr) return;
    for (int i = 0; i < 300; ++i) {
      const uint64_t wild = pick(2) == 0 ? (1 << 20) + pick(3 << 20) : random_() << 32 | random_();
      client->free(wild);
      client->fill(wild, pick(1 << 20));
      client->copy(wild, wild + 1, pick(1 << 20));
      client->buffer(wild, buffer_.data(), pick(65536), pick(2) != 0);
      void* address = nullptr;
      client->port().map(pick(1 << 24), 3, random_() << 30 ^ random_(), &address);
    }
    // Limits: as much as there is, and a little more.
    const uint64_t most = uint64_t{1} << (20 + pick(20));
    const uint64_t handle = client->allocate(most, pick(2) != 0, kAttackersCore);
    if (handle != 0) client->free(handle);
  }

  // Any call that names nothing of the neighbour's, with arguments of chance.
  void wild_calls() {
    const auto client = open();
    if (client == nullptr) return;
    for (int i = 0; i < 300; ++i) {
      std::array<uint64_t, 64> argument;
      for (uint64_t& word : argument) word = pick(2) == 0 ? random_() << 32 | random_() : 0;
      const uint64_t request = pick(3) == 0 ? random_() : 'N' << 8 | (200 + pick(56)) | 8 << 16;
      client->port().ioctl(request, argument.data());
      uint32_t value = 0;
      client->port().read_register(random_(), &value);
      client->port().write_register(random_() | uint64_t{1} << 40, value, false);
      const uint32_t word = 0;
      client->port().wait(static_cast<unsigned>(2 + pick(100)), &word, 0, 0);
    }
  }

  // Packets that are no messages, and messages that are none of a client's.
  void garbage() {
    for (int i = 0; i < 30; ++i) {
      const base::FileDescriptor raw = connect();
      if (!raw) return;
      std::vector<std::byte> packet(pick(wire::kMaxMessage));
      for (std::byte& byte : packet) byte = static_cast<std::byte>(random_());
      if (pick(2) == 0 && packet.size() >= sizeof(wire::Header)) {
        wire::Header header = wire::message<wire::Header>(static_cast<wire::Kind>(pick(16)), 1);
        header.size = static_cast<uint32_t>(packet.size());
        std::memcpy(packet.data(), &header, sizeof(header));
      }
      (void)::send(raw.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }

  // Connections, threads and calls, more than the daemon would like.
  void floods() {
    std::vector<base::FileDescriptor> silent;
    for (int i = 0; i < 100; ++i) silent.push_back(connect());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([this] {
        const auto client = open();
        if (client == nullptr) return;
        const uint64_t handle = client->allocate(1 << 20, false, kAttackersCore);
        std::vector<char> mine(1 << 20);
        for (int i = 0; i < 50; ++i) client->buffer(handle, mine.data(), mine.size(), i % 2 == 0);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  base::FileDescriptor connect() const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    socket_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    base::FileDescriptor raw(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (::connect(raw.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      raw.reset();
    }
    return raw;
  }

  const std::string socket_;
  std::mt19937_64 random_;
  std::vector<char> buffer_;
  std::atomic<unsigned> opened_ = 0;
};

// The socket and its folder for a group, as units set them; what attackers become.
bool open_to_group(const Folder& folder, const Daemon& daemon) {
  return ::chmod(folder.path().c_str(), 0755) == 0 &&
         ::chown(daemon.socket().c_str(), static_cast<uid_t>(-1), kOtherUser) == 0 &&
         ::chmod(daemon.socket().c_str(), 0660) == 0;
}
bool become_other_user() {
  return ::setgroups(0, nullptr) == 0 && ::setgid(kOtherUser) == 0 && ::setuid(kOtherUser) == 0;
}

double rate(Worker& neighbour) { return std::atof(neighbour.ask("rate 300").c_str()); }

TEST(Attack, OfManyProcessesChangesNothingThatANeighbourComputes) {
  const Folder folder;
  Daemon daemon(folder);
  const bool root = ::geteuid() == 0;
  if (root) {
    ASSERT_TRUE(open_to_group(folder, daemon)) << std::strerror(errno);
  }
  Worker neighbour(folder, daemon.emulator(), kNeighboursCore, "digits.neff");
  ASSERT_EQ(neighbour.line(), "ready") << neighbour.log();
  const std::string expected = neighbour.ask("hash");
  ASSERT_NE(expected.substr(0, 6), "failed") << neighbour.log();
  const double alone = rate(neighbour);
  const auto end = Clock::now() + duration();
  std::vector<Child> attackers;
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    attackers.push_back(Child::forked([&, seed] {
      if (root && !become_other_user()) return 1;
      return Attacker(daemon.socket(), seed).run(end);
    }));
  }
  double sum = 0;
  unsigned rounds = 0;
  while (Clock::now() < end) {
    ASSERT_EQ(neighbour.ask("hash"), expected) << neighbour.log() << daemon.log();
    const double now = rate(neighbour);
    ASSERT_GT(now, 0) << neighbour.log() << daemon.log();
    sum += now;
    ++rounds;
    ASSERT_GT(std::atof(neighbour.ask("copy 1").c_str()), 0) << neighbour.log() << daemon.log();
  }
  for (Child& attacker : attackers) EXPECT_EQ(attacker.wait(), 0);
  EXPECT_EQ(neighbour.ask("hash"), expected) << neighbour.log();
  EXPECT_FALSE(daemon.process().ended()) << daemon.log();
  // What the attackers held is free again: the second core is anybody's.
  EXPECT_TRUE(test::eventually([&] {
    const auto client = DeviceClient::open(daemon.socket());
    return client != nullptr && client->mark(kAttackersCore);
  })) << daemon.log();
  std::printf("the neighbour executes at %.2f of its speed alone, %u rounds\n",
              sum / rounds / alone, rounds);
}

}  // namespace
}  // namespace neuron::attack
