// SPDX-License-Identifier: Apache-2.0
// A driver stops a queue and frees the memory of its transfers: whatever it did to stop it, nothing
// writes there when its register write has returned.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

constexpr uint32_t kSlots = 256;
constexpr uint32_t kBytes = 0x10000;
constexpr uint64_t kFrom = 0x1000000;
constexpr uint64_t kTo = 0x100000;  // of the host
constexpr std::byte kFreed{0xA5};

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
  std::byte* const memory = m.host.add(kTo, size_t{kSlots} * kBytes);
  m.fill(kFrom, kBytes, 1);
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
      m.copy(slot, kFrom, NEURON_V2_HOST_BASE + kTo + uint64_t{at} * kBytes, kBytes);
    }
    m.ring(kQueue, kSlots, kSlots, Origin::kEngine);
    for (unsigned runs = random() % 4; runs != 0; --runs) group.await_run();
    stop.act(m, kQueue);
    std::fill_n(memory, size_t{kSlots} * kBytes, kFreed);
    for (int look = 0; look < 20; ++look) std::this_thread::yield();
    const auto written = std::find_if(memory, memory + size_t{kSlots} * kBytes,
                                      [](std::byte byte) { return byte != kFreed; });
    ASSERT_EQ(written, memory + size_t{kSlots} * kBytes)
        << "round " << round << ": " << stop.name << ", byte " << written - memory;
  }
}

}  // namespace
}  // namespace neuron::chip
