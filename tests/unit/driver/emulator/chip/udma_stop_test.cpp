// SPDX-License-Identifier: Apache-2.0
// A driver stops a queue and frees the memory of its transfers: whatever it did to stop it, nothing
// writes there when its register write has returned.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "driver/base/abandonment.h"
#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

constexpr uint32_t kSlots = 256;
constexpr uint32_t kStoppedBytes = 0x10000;
constexpr uint64_t kStoppedTo = 0x100000;  // of the host

// The group of a core, which executes whatever a queue holds.
class Group {
 public:
  Group(Machine& machine, unsigned queue) : machine_(machine), queue_(queue) {
    thread_ = std::thread([this] {
      while (!stop_) {
        if (!machine_.engine.has_work(queue_)) continue;
        runs_ += machine_.engine.try_execute_run(queue_, 16, Access{Origin::kDma}, 0) ? 1 : 0;
      }
    });
  }
  ~Group() {
    stop_ = true;
    thread_.join();
  }
  // Until the group is in the middle of something.
  void await_run() const {
    const int before = runs_;
    while (runs_ == before && machine_.engine.has_work(queue_)) std::this_thread::yield();
  }

 private:
  Machine& machine_;
  const unsigned queue_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> runs_ = 0;
  std::thread thread_;
};

struct Stop {
  const char* name;
  void (*act)(Machine&, unsigned queue);
};
constexpr Stop kStops[] = {
    {"the destinations' ring is reset", [](Machine& m, unsigned queue) { m.reset(queue, true); }},
    {"the sources' ring is reset", [](Machine& m, unsigned queue) { m.reset(queue, false); }},
    {"the queue is disabled",
     [](Machine& m, unsigned queue) {
       m.set(queue, false, NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RESET);
     }},
    {"a ring is moved",
     [](Machine& m, unsigned queue) {
       // Empty descriptors there: they lead to the beginning of HBM.
       m.set(queue, true, NEURON_UDMAQ_BASE_LO, 0x3000000);
     }},
    {"the engine is stopped",
     [](Machine& m, unsigned) {
       m.write(m.base() + NEURON_UDMA_S2M + NEURON_UDMA_CHANGE_STATE, 2);
     }},
    {"the core is reset", [](Machine& m, unsigned) { m.engine.reset(); }},
};

TEST(UdmaStop, NothingIsWrittenBehindARegisterWriteThatStopsAQueue) {
  Machine m(1);
  m.engine.set_listener(nullptr);
  std::byte* const memory = m.host.add(kStoppedTo, size_t{kSlots} * kStoppedBytes);
  m.fill(kFrom, kStoppedBytes, 1);
  std::mt19937 random(4711);
  constexpr unsigned kQueue = 2;
  Group group(m, kQueue);
  for (int round = 0; round < 120; ++round) {
    const Stop& stop = kStops[random() % std::size(kStops)];
    m.write(m.base() + NEURON_UDMA_S2M + NEURON_UDMA_CHANGE_STATE, 1);
    m.init(kQueue, kSlots);
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      // Single packets and pieces that are copied together.
      const uint32_t at = round % 2 == 0 ? slot : kSlots - 1 - slot;
      m.copy(slot, kFrom, NEURON_V2_HOST_BASE + kStoppedTo + uint64_t{at} * kStoppedBytes,
             kStoppedBytes);
    }
    m.ring(kQueue, kSlots, kSlots, Origin::kEngine);
    for (unsigned runs = random() % 4; runs != 0; --runs) group.await_run();
    stop.act(m, kQueue);
    std::fill_n(memory, size_t{kSlots} * kStoppedBytes, kFreed);
    for (int look = 0; look < 20; ++look) std::this_thread::yield();
    const auto written = std::find_if(memory, memory + size_t{kSlots} * kStoppedBytes,
                                      [](std::byte byte) { return byte != kFreed; });
    ASSERT_EQ(written, memory + size_t{kSlots} * kStoppedBytes)
        << "round " << round << ": " << stop.name << ", byte " << written - memory;
  }
}

// The looks of this thread at whether anybody still waits for its work, and what is said to it.
class Looks {
 public:
  explicit Looks(uint64_t abandon_at = UINT64_MAX) : client_(gone_) {
    count_ = 0;
    abandon_at_ = abandon_at;
    gone_ = false;
    base::Abandonment::observe([] {
      if (++count_ == abandon_at_) gone_ = true;
    });
  }
  ~Looks() { base::Abandonment::observe(nullptr); }
  Looks(const Looks&) = delete;
  Looks& operator=(const Looks&) = delete;
  static uint64_t count() { return count_; }

 private:
  static inline thread_local uint64_t count_ = 0;
  static inline thread_local uint64_t abandon_at_ = 0;
  static inline std::atomic<bool> gone_ = false;
  const base::Abandonment client_;
};

// A question of strict mode, about rings of millions of descriptors.
TEST(UdmaStop, WhoAsksWhatIsStillToBeWrittenStopsAskingWhenNobodyWaits) {
  constexpr unsigned kQueue = 2;
  constexpr uint32_t kMany = 1 << 16;  // what lies between the rings
  Machine m(1);
  m.engine.set_listener(nullptr);
  constexpr uint64_t kM2s = 0x1000000;
  constexpr uint64_t kS2m = 0x2000000;
  m.init(kQueue, kMany, kM2s, kS2m);
  for (uint32_t slot = 0; slot < kMany; ++slot) {
    m.descriptor(kM2s, slot, 64 | 1u << 24 | NEURON_DESC_FIRST | NEURON_DESC_LAST,
                 NEURON_META_DEFAULT, kFrom);
    m.descriptor(kS2m, slot, 64 | 1u << 24, 0, 0x3000000 + 64 * uint64_t{slot});
  }
  m.ring(kQueue, kMany - 1, kMany - 1, Origin::kEngine);
  {
    const Looks looks;
    EXPECT_EQ(m.engine.pending_write(kQueue, 0x3000000 + 64 * (kMany - 2)), kMany - 2);
    EXPECT_GE(Looks::count(), kMany / 4096);
  }
  const Looks looks(3);
  EXPECT_EQ(m.engine.pending_write(kQueue, 0x3000000 + 64 * (kMany - 2)), std::nullopt);
  EXPECT_EQ(Looks::count(), 3u);
}

// Packets of 64 words take as long as 64 packets of one, and compute packets longer than copies.
TEST(UdmaStop, ARunLooksAroundByTheDescriptorsAndTheElementsOfItsPackets) {
  constexpr unsigned kQueue = 2;
  constexpr uint32_t kPackets = 128;
  constexpr uint32_t kEach = 64;
  Machine m(1);
  m.engine.set_listener(nullptr);
  m.init(kQueue, kPackets * kEach + 1);
  for (uint32_t slot = 0; slot < kPackets * kEach; ++slot) {
    m.source(slot, kFrom + 8 * uint64_t{slot}, 4,
             (slot % kEach == 0 ? NEURON_DESC_FIRST : 0) |
                 (slot % kEach == kEach - 1 ? NEURON_DESC_LAST : 0));
    m.destination(slot, 0x2000000 + 8 * uint64_t{slot}, 4);
  }
  {
    const Looks looks;
    m.ring(kQueue, kPackets * kEach, kPackets * kEach);
    EXPECT_EQ(m.get(kQueue, true, NEURON_UDMAQ_HEAD) & NEURON_UDMA_INDEX_MASK, kPackets * kEach);
    EXPECT_GE(Looks::count(), kPackets * kEach / 1024);
  }
  m.init(kQueue, kPackets * kEach + 1);
  const Looks looks(2);
  m.ring(kQueue, kPackets * kEach, kPackets * kEach);
  EXPECT_LE(m.get(kQueue, true, NEURON_UDMAQ_HEAD) & NEURON_UDMA_INDEX_MASK, 2048u)
      << "nobody waits for the rest";
}

}  // namespace
}  // namespace neuron::chip
