// SPDX-License-Identifier: Apache-2.0
// A process copies to the device by calls, while a ring of another one writes to the I/O addresses
// where the buffers of those calls would be if they were mapped among what clients reach.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "hw/address_map.h"
#include "hw/udma.h"
#include "tests/multi/device_client.h"
#include "tests/multi/raw_client.h"
#include "tests/support/child.h"
#include "tests/support/daemon.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::multi {
namespace {

using test::Child;
using test::Daemon;
using test::Folder;

constexpr uint64_t kBytes = wire::kMaxData;  // the ring is at it when a call has ended
constexpr uint32_t kPiece = 64u << 10, kPieces = kBytes / kPiece;
constexpr unsigned kSlotShift = 24;  // of I/O addresses, which rotate by slots
constexpr uint64_t kSlots = kBytes >> kSlotShift;
constexpr uint32_t kEngine = 3, kQueue = 2, kRing = kPieces + 32;
constexpr uint32_t kCopies = 20;

struct DescriptorOfCopy {
  uint32_t control;
  uint32_t meta;
  uint64_t address;
};
constexpr uint32_t kOfOnePacket = NEURON_DESC_FIRST | NEURON_DESC_LAST |
                                  1u << NEURON_DESC_RING_ID_SHIFT |
                                  (kPiece & NEURON_DESC_LENGTH_MASK);

// What all processes of the test see.
struct Board {
  std::atomic<uint32_t> copies;  // that have ended
  std::atomic<uint32_t> rings;   // that were started
  std::atomic<uint32_t> hits;    // of them, those that found memory
};

struct __attribute__((packed)) CopyCall {
  wire::IoctlRequest request = wire::message<wire::IoctlRequest>(
      wire::Kind::kIoctl, 5, wire::kFlagDataInFile, sizeof(neuron_ioctl_mem_buf_copy64));
  neuron_ioctl_mem_buf_copy64 argument = {};
  explicit CopyCall(uint64_t handle) {
    request.request = NEURON_IOCTL_MEM_BUF_COPY64;
    request.argument_bytes = sizeof(argument);
    request.pointers = static_cast<uint32_t>(wire::PointerState::kValid);
    request.data_bytes = kBytes;
    argument.mem_handle = handle;
    argument.buffer = this;
    argument.size = kBytes;
    argument.copy_to_mem_handle = 1;
  }
};

struct Pipe {
  Pipe() { (void)!::pipe(ends); }
  void say() const { (void)!::write(ends[1], "", 1); }
  bool hear() const {
    pollfd readable = {ends[0], POLLIN, 0};
    char byte;
    return ::poll(&readable, 1, kPatienceMs) == 1 && ::read(ends[0], &byte, 1) == 1;
  }
  int ends[2] = {-1, -1};
};

// Statuses: 1 it has not begun, 2 the daemon does not answer, 3 a copy was refused.
int copy_again_and_again(const Daemon& daemon, Board& board, const Pipe& ready, const Pipe& go) {
  const auto client = DeviceClient::open(daemon.socket());
  Raw raw(daemon);
  const int file = ::memfd_create("data", MFD_CLOEXEC);
  if (client == nullptr || raw.greet() != 0 || ::ftruncate(file, kBytes) != 0) return 1;
  const uint64_t handle = client->allocate(kBytes, false);
  ready.say();
  if (handle == 0 || !go.hear()) return 1;
  while (board.copies < kCopies) {
    wire::Reply reply{};
    if (!raw.send(CopyCall(handle), {&file, 1}) || raw.receive(reply) <= 0) return 2;
    if (reply.result != 0) return 3;
    ++board.copies;
  }
  return 0;
}

// A ring that moves kBytes from the device to I/O addresses of its choice.
class Attack {
 public:
  explicit Attack(DeviceClient& client) : client_(client) {
    constexpr uint64_t kMemory = kRing * sizeof(DescriptorOfCopy) / 4096 * 4096 + 4096;
    tx_ = client.allocate(kMemory, true);
    rx_ = client.allocate(kMemory, true);
    source_ = static_cast<DescriptorOfCopy*>(client.map(tx_, kMemory));
    destination_ = static_cast<DescriptorOfCopy*>(client.map(rx_, kMemory));
    memory_ = client.address(client.allocate(kBytes, false));
    const uint64_t newest = client.allocate(4096, true);
    next_slot_ = ((client.address(newest) & ~NEURON_V2_HOST_BASE) >> kSlotShift) + 1;
  }
  bool valid() const { return source_ != nullptr && destination_ != nullptr && memory_ != 0; }

  // 1 if the engine has found memory where the buffer of that copy would be, negative without a
  // daemon.
  int move_to(uint32_t copy) {
    const uint64_t to = NEURON_V2_HOST_BASE | (next_slot_ + copy * kSlots) << kSlotShift;
    for (uint64_t i = 0; i < kPieces; ++i) {
      source_[i] = {kOfOnePacket, NEURON_META_DEFAULT, memory_ + i * kPiece};
      destination_[i] = {kOfOnePacket, 0, to + i * kPiece};
    }
    ndl::DevicePort& port = client_.port();
    neuron_ioctl_dma_eng_set_state normal = {kEngine, 2};
    if (const int gone = port.ioctl(NEURON_IOCTL_DMA_ENG_SET_STATE, &normal)) return gone;
    neuron_ioctl_dma_queue_init init = {kEngine, kQueue, kRing, kRing, tx_, rx_, 0, 0};
    neuron_ioctl_dma_queue_copy_start start = {kEngine, kQueue, kPieces, kPieces};
    neuron_dma_queue_state from = {}, into = {};
    neuron_ioctl_dma_queue_get_state get = {kEngine, kQueue, &from, &into};
    if (port.ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &init) != 0 ||
        port.ioctl(NEURON_IOCTL_DMA_QUEUE_COPY_START, &start) != 0 ||
        port.ioctl(NEURON_IOCTL_DMA_QUEUE_GET_STATE, &get) != 0) {
      return -1;
    }
    return (from.head_pointer & NEURON_UDMA_INDEX_MASK) != 0;
  }

 private:
  DeviceClient& client_;
  uint64_t tx_, rx_, memory_, next_slot_;
  DescriptorOfCopy *source_, *destination_;
};

// Statuses: 1 it has not begun, 2 the daemon does not answer.
int attack(const Daemon& daemon, Board& board, const Pipe& go) {
  const auto client = DeviceClient::open(daemon.socket());
  if (client == nullptr) return 1;
  Attack attack(*client);
  if (!attack.valid()) return 1;
  go.say();
  while (board.copies < kCopies) {
    ++board.rings;
    const int found = attack.move_to(board.copies);
    if (found < 0) return 2;
    board.hits += static_cast<uint32_t>(found);
  }
  return 0;
}

TEST(CopyInFlight, IsNotReachedByARingOfAnotherProcessAndTheDaemonLives) {
  const Folder folder;
  Daemon daemon(folder);
  auto* board = static_cast<Board*>(
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(board, MAP_FAILED);
  const Pipe ready, go;
  Child copier = Child::forked([&] { return copy_again_and_again(daemon, *board, ready, go); });
  ASSERT_TRUE(ready.hear());
  Child attacker = Child::forked([&] { return attack(daemon, *board, go); });
  EXPECT_EQ(copier.wait(), 0) << "the copies, of which " << board->copies << " have ended";
  EXPECT_EQ(attacker.wait(), 0) << "the rings";
  EXPECT_EQ(board->hits, 0u) << "rings that have found the buffer of another process's copy";
  EXPECT_GE(board->rings, board->copies) << "it was no attack";
  EXPECT_FALSE(daemon.process().ended()) << "the daemon " << daemon.process().wait();
  Raw another(daemon);
  EXPECT_EQ(another.greet(), 0) << daemon.log();
  ::munmap(board, sizeof(Board));
}

}  // namespace
}  // namespace neuron::multi
