// SPDX-License-Identifier: Apache-2.0
// Processes that attack a daemon from all sides at once while a neighbour computes what is known.
//
// NEURON_TEST_ATTACK_SECONDS says for how long: 8 unless it is set, ten minutes at night. Where the
// test is root, the attackers are another user of the group that the socket belongs to. They leave
// out what is not promised (driver/emulator/SECURITY.md): descriptors that name HBM or host memory
// of another process, the reset of a core that another one has marked, and its registers, but those
// that are the driver's. All else is allowed. The neighbour's speed is printed; from a minute on it
// is a condition too: half of its speed alone, as it was before and is after the attack, on a host
// that does nothing else.
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
#include <iterator>
#include <random>
#include <thread>

#include "driver/base/packet_socket.h"
#include "driver/wire/wire.h"
#include "driver/wire/wire_ioctl.h"
#include "hw/address_map.h"
#include "hw/udma.h"
#include "tests/multi/device_client.h"
#include "tests/support/daemon.h"
#include "tests/support/process.h"

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
constexpr uint32_t kCopyEngines[] = {32, 33};
constexpr int kKinds = 10;
// From then on a host that did something else for a moment does not decide.
constexpr std::chrono::seconds kLongEnoughForSpeed{60};
constexpr double kLeastSpeed = 0.5;  // of its speed alone

std::chrono::seconds duration() {
  const char* text = std::getenv("NEURON_TEST_ATTACK_SECONDS");
  return std::chrono::seconds(text != nullptr ? std::atoi(text) : 8);
}

// One process, with a seed: it attacks until it is told to stop, in one way after another.
class Attacker {
 public:
  Attacker(const std::string& socket, uint32_t seed) : socket_(socket), random_(seed) {}

  int run(Clock::time_point end) {
    end_ = end;
    // Its memory, to be found in rings and rows of others, were that possible.
    buffer_.assign(16 << 20, 'A');
    while (goes_on()) {
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
        case 6:
          register_calls();
          break;
        case 7:
          engines_and_queues();
          break;
        case 8:
          long_programs();
          break;
        default:
          floods();
      }
    }
    std::printf("an attacker of user %u got in %u times, and %u long programs ran\n", ::geteuid(),
                opened_.load(), programs_);
    if (granted_ != nullptr) std::printf("it was granted %s\n", granted_);
    std::fflush(stdout);
    // One that never got in has attacked nothing.
    return granted_ != nullptr ? 4 : opened_ == 0 ? 3 : 0;
  }

 private:
  bool goes_on() const { return Clock::now() < end_; }
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
    for (int i = 0; i < 200 && goes_on(); ++i) {
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
    for (int i = 0; i < 200 && goes_on(); ++i) {
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

  void expect_refused(int result, const char* what) {
    if (result == 0) granted_ = what;
  }

  // Registers by the call: the driver's, which are refused, and those of the own core's engines,
  // which may hold anything.
  void register_calls() {
    const auto client = open();
    neuron_ioctl_device_info info = {};
    if (client == nullptr || client->port().ioctl(NEURON_IOCTL_DEVICE_INFO, &info) != 0) return;
    const auto write = [&](uint64_t offset, uint32_t value) {
      __u64 address = info.bar_address[0] + offset;
      neuron_ioctl_bar_rw access = {0, &address, &value, 1};
      return client->port().ioctl(NEURON_IOCTL_BAR_WRITE, &access);
    };
    const auto word = [this] { return static_cast<uint32_t>(random_()); };
    constexpr uint32_t kDriversOfAQueue[] = {NEURON_UDMAQ_BASE_LO, NEURON_UDMAQ_BASE_HI,
                                             NEURON_UDMAQ_CMPL_BASE_LO, NEURON_UDMAQ_CMPL_BASE_HI,
                                             NEURON_UDMAQ_TAIL_INC};
    constexpr uint32_t kOfTheFirmware[] = {NEURON_FW_RESET, NEURON_FW_REQUEST_LO, NEURON_FW_TRIGGER,
                                           NEURON_FW_RESET_MAP, NEURON_FW_RESPONSE_LO};
    for (int i = 0; i < 300 && goes_on(); ++i) {
      const uint32_t numbers[] = {kCopyEngines[pick(2)], static_cast<uint32_t>(pick(32)), engine()};
      const uint64_t copies = NEURON_V2_UDMA(numbers[0]);
      const uint32_t half = pick(2) != 0 ? NEURON_UDMA_M2S : NEURON_UDMA_S2M;
      expect_refused(write(copies + 4 * pick(NEURON_UDMA_SIZE / 4), word()),
                     "a register of an engine of the host's copies");
      expect_refused(write(copies + half + NEURON_UDMA_CHANGE_STATE, 1u << pick(3)),
                     "the state of an engine of the host's copies");
      expect_refused(
          write(NEURON_V2_MISC_RAM + kOfTheFirmware[pick(std::size(kOfTheFirmware))], word()),
          "a register of the firmware");
      const uint64_t any = NEURON_V2_UDMA(numbers[1]);
      expect_refused(write(any + NEURON_UDMA_QUEUE(half, queue()) +
                               kDriversOfAQueue[pick(std::size(kDriversOfAQueue))],
                           word()),
                     "a ring or a doorbell of an engine");
      (void)write(NEURON_V2_UDMA(numbers[2]) + 4 * pick(NEURON_UDMA_SIZE / 4), word());
      (void)write(NEURON_V2_CORE_WINDOW(kAttackersCore) + NEURON_CORE_SEMAPHORES +
                      4 * pick(NEURON_SEM_BLOCK_SIZE / 4),
                  word());
    }
  }

  // States of engines, which the own core's may have, and queues that others have set up.
  void engines_and_queues() {
    const auto client = open();
    if (client == nullptr) return;
    const auto call = [&](uint64_t request, auto argument) {
      return client->port().ioctl(request, &argument);
    };
    const bool ring = client->make_ring(engine(), queue(), 32);
    const uint64_t memory = client->allocate(65536, true);
    if (ring) client->fill_ring(client->address(memory), client->address(memory), 4096);
    for (int i = 0; i < 300 && goes_on(); ++i) {
      const auto state = static_cast<uint32_t>(pick(5));
      if (state != 1 && state <= 3) {
        expect_refused(call(NEURON_IOCTL_DMA_ENG_SET_STATE,
                            neuron_ioctl_dma_eng_set_state{kCopyEngines[pick(2)], state}),
                       "the state of an engine of the host's copies, by its call");
      }
      call(NEURON_IOCTL_DMA_ENG_SET_STATE, neuron_ioctl_dma_eng_set_state{engine(), state});
      call(NEURON_IOCTL_DMA_ENG_SET_STATE,
           neuron_ioctl_dma_eng_set_state{static_cast<uint32_t>(34 + pick(1000)), state});
      if (ring) client->start_ring(1 + static_cast<uint32_t>(pick(31)));
      const auto theirs = static_cast<uint32_t>(pick(16));
      const uint32_t which = queue();
      // Those that nobody has set up have no rings, and stay free for whoever comes.
      expect_refused(call(NEURON_IOCTL_DMA_QUEUE_COPY_START,
                          neuron_ioctl_dma_queue_copy_start{theirs, which, 1, 1}),
                     "a start of a queue of another process");
      call(NEURON_IOCTL_DMA_ACK_COMPLETED, neuron_ioctl_dma_ack_completed{theirs, which, 1});
      call(NEURON_IOCTL_DMA_QUEUE_RELEASE, neuron_ioctl_dma_queue_release{theirs, which});
      expect_refused(
          call(NEURON_IOCTL_DMA_QUEUE_INIT,
               neuron_ioctl_dma_queue_init{kCopyEngines[pick(2)], 0, 32, 32, memory, memory, 0, 0}),
          "a queue of the host's copies");
    }
  }

  // Programs of many seconds and long instructions, which a doorbell starts, while clients come and
  // go; then their process is killed.
  void long_programs() {
    test::Process job({test::built("tests/multi-job"), pick(2) != 0 ? "instruction" : "compute"},
                      {{"NEURON_EMULATOR", "unix:" + socket_},
                       {"NEURON_RT_VISIBLE_CORES", std::to_string(kAttackersCore)},
                       {"NEURON_RT_LOG_LEVEL", "QUIET"}});
    // Another attacker may have the core.
    if (job.line() != "begun") return;
    ++programs_;
    const auto end = Clock::now() + std::chrono::milliseconds(100 + pick(3000));
    while (Clock::now() < end && goes_on() && !job.ended()) {
      const auto client = open();
      if (client != nullptr && pick(2) != 0) (void)client->allocate(1 << 20, pick(2) != 0);
    }
    job.kill();
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

  // Handles of nobody, and those of others, which are small numbers; addresses of both.
  void wild_handles() {
    const auto client = open();
    if (client == nullptr) return;
    for (int i = 0; i < 300 && goes_on(); ++i) {
      const uint64_t wild = pick(2) == 0 ? 1 + pick(64) : random_() >> pick(64);
      client->free(wild);
      client->fill(wild, pick(1 << 20));
      client->copy(wild, wild + 1, pick(1 << 20));
      client->buffer(wild, buffer_.data(), pick(65536), pick(2) != 0);
      void* address = nullptr;
      const uint64_t host = NEURON_V2_HOST_BASE | pick(64) << 24;
      client->port().map(4096 << pick(8), 3, pick(2) ? host : pick(1 << 16) << 12, &address);
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
    for (int i = 0; i < 300 && goes_on(); ++i) {
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
    for (int i = 0; i < 30 && goes_on(); ++i) {
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
        for (int i = 0; i < 50 && goes_on(); ++i) {
          client->buffer(handle, mine.data(), mine.size(), i % 2 == 0);
        }
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
  Clock::time_point end_;
  std::atomic<unsigned> opened_ = 0;
  unsigned programs_ = 0;
  const char* granted_ = nullptr;  // what should have been refused
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

double rate(Worker& neighbour, const char* milliseconds = "300") {
  return std::atof(neighbour.ask(std::string("rate ") + milliseconds).c_str());
}

TEST(Attack, OfManyProcessesChangesNothingThatANeighbourComputes) {
  const Folder folder;
  Daemon daemon(folder);
  const bool root = ::geteuid() == 0, speed_counts = duration() >= kLongEnoughForSpeed;
  if (root) {
    ASSERT_TRUE(open_to_group(folder, daemon)) << std::strerror(errno);
  }
  Worker neighbour(folder, daemon.emulator(), kNeighboursCore, "digits.neff");
  ASSERT_EQ(neighbour.line(), "ready") << neighbour.log();
  const std::string expected = neighbour.ask("hash");
  ASSERT_NE(expected.substr(0, 6), "failed") << neighbour.log();
  const char* const kAlone = "2000";
  const double alone = rate(neighbour, kAlone);
  const auto end = Clock::now() + duration();
  std::vector<Child> attackers;
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    attackers.push_back(Child::forked([&, seed] {
      if (root && !become_other_user()) return 1;
      // Where speed is a condition, the processors of the host are for the neighbour and the daemon
      // first: what attackers take of its speed then, they take by the daemon.
      if (speed_counts && ::nice(19) == -1) return 1;
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
  const double after = rate(neighbour, kAlone), both = (alone + after) / 2;
  const double speed = sum / rounds / both;
  std::printf("the neighbour executes at %.2f of its speed alone, %u rounds\n", speed, rounds);
  if (speed_counts) {
    EXPECT_GE(speed, kLeastSpeed)
        << "alone it executes " << alone << " times a second before and " << after
        << " after; this needs a host that does nothing else meanwhile, where both are the same";
  }
}

}  // namespace
}  // namespace neuron::attack
