// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/core_trace.h"

#include <gtest/gtest.h>

#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using test::FakeMachine;

// A device that writes as fast as the trace is read: it fills the ring again whenever somebody has
// taken from it.
class Chatterbox final : public TraceSink {
 public:
  explicit Chatterbox(FakeMachine& machine) : machine_(machine) {}

  void attach(const Core& core) {
    const uint64_t base = core.place().notification() + NEURON_NQ_BASE(kSlot);
    const auto word = [&](uint32_t at) { return machine_.state.registers.at(base + at); };
    const uint64_t address =
        uint64_t{word(NEURON_NQ_ADDRESS_HI)} << 32 | word(NEURON_NQ_ADDRESS_LO);
    ring_ = reinterpret_cast<neuron_notification*>(machine_.state.bytes_at(address));
    entries_ = word(NEURON_NQ_SIZE) / NEURON_NOTIFICATION_BYTES;
    write(8192);
  }
  void take(uint32_t slot, std::span<const neuron_notification> entries) override {
    if (slot != kSlot) return;
    taken += entries.size();
    if (taken < uint64_t{8} * entries_) write(static_cast<uint32_t>(entries.size()));
  }
  void ended(const TracedExecution&) override {}

  uint64_t taken = 0;
  uint32_t entries() const { return entries_; }

 private:
  static constexpr uint32_t kSlot = 0;
  void write(uint32_t count) {
    for (uint32_t n = 0; n < count; ++n, ++next_) {
      const uint32_t phase = (next_ / entries_ + 1) & 1;
      ring_[next_ % entries_].word = NEURON_NK_TRACE << NEURON_NW_KIND_SHIFT | phase;
    }
  }

  FakeMachine& machine_;
  neuron_notification* ring_ = nullptr;
  uint32_t entries_ = 0, next_ = 0;
};

TEST(CoreTrace, LooksAtNoMoreThanOneLapOfARingSoThatAWaitMeetsItsDeadline) {
  FakeMachine machine;
  const auto core = machine.core();
  auto device = std::make_shared<Chatterbox>(machine);
  auto trace = CoreTrace::create(*core, device);
  ASSERT_TRUE(trace) << trace.error().sentence;
  device->attach(*core);
  (*trace)->read();
  EXPECT_GE(device->taken, device->entries());
  EXPECT_LT(device->taken, 2 * device->entries());
  const uint64_t before = device->taken;
  (*trace)->read();
  EXPECT_GT(device->taken, before) << "the next look goes on where the last one ended";
}

// Takes what a ring says, and remembers the last word of each entry but its phase.
class Listener final : public TraceSink {
 public:
  void take(uint32_t slot, std::span<const neuron_notification> entries) override {
    if (slot != 0) return;
    for (const neuron_notification& entry : entries) seen.push_back(entry.pc);
  }
  void ended(const TracedExecution&) override {}
  std::vector<uint32_t> seen;
};

// The ring of slot 0, as its registers say where it lies.
struct FirstRing {
  FirstRing(FakeMachine& machine, const Core& core)
      : base(core.place().notification() + NEURON_NQ_BASE(0)) {
    const auto word = [&](uint32_t at) { return machine.state.registers.at(base + at); };
    size = word(NEURON_NQ_SIZE);
    count = size / NEURON_NOTIFICATION_BYTES;
    entries = reinterpret_cast<neuron_notification*>(machine.state.bytes_at(
        uint64_t{word(NEURON_NQ_ADDRESS_HI)} << 32 | word(NEURON_NQ_ADDRESS_LO)));
  }
  uint64_t base;
  uint32_t size = 0, count = 0;  // bytes, entries
  neuron_notification* entries = nullptr;
};

TEST(CoreTrace, ARingBeginsAnewBetweenExecutionsAndNoEntryIsLostOrSeenTwice) {
  FakeMachine machine;
  const auto core = machine.core();
  auto sink = std::make_shared<Listener>();
  auto trace = CoreTrace::create(*core, sink);
  ASSERT_TRUE(trace) << trace.error().sentence;
  const FirstRing first(machine, *core);
  const uint64_t base = first.base;
  const uint32_t size = first.size, entries = first.count;
  auto* const ring = first.entries;

  // The device's part: a write of the size puts it back to the first place and phase.
  uint32_t next = 0, written = 0, begun = 0, furthest = 0, acknowledged = 0;
  machine.state.on_write = [&](uint64_t offset, uint32_t value) {
    if (offset == base + NEURON_NQ_HEAD) acknowledged = value;
    if (offset != base + NEURON_NQ_SIZE) return;
    EXPECT_TRUE(value == 0 || value == size) << value;
    next = 0;
    begun += value != 0;
  };
  const auto write = [&](uint32_t count) {
    for (uint32_t n = 0; n < count; ++n, ++next) {
      neuron_notification& entry = ring[next % entries];
      entry.pc = written++;
      entry.word = NEURON_NK_TRACE << NEURON_NW_KIND_SHIFT | ((next / entries + 1) & 1);
    }
    furthest = std::max(furthest, next);
  };
  // Short executions, one that goes through the ring more than once, and short ones again.
  for (int n = 0; n < 200; ++n) {
    if (n == 100) {
      for (uint32_t part = 0; part < 4; ++part) {
        write(entries / 2);
        (*trace)->read();
        EXPECT_LT((next + entries - acknowledged) % entries, entries / 4)
            << "the device would take what was read for unread, and drop entries";
      }
    } else {
      write(150);
    }
    if (n == 99) {
      EXPECT_LT(furthest, 5000U) << "short executions stay in the first pages";
      EXPECT_EQ(begun, 3U);
    }
    (*trace)->end({});
  }
  EXPECT_GT(begun, 3U) << "after two laps there are entries of the other phase behind the last";
  ASSERT_EQ(sink->seen.size(), written);
  for (uint32_t n = 0; n < written; ++n) ASSERT_EQ(sink->seen[n], n);
  machine.state.on_write = nullptr;
}

TEST(CoreTrace, WhatARingHeldBeforeItsStartIsNotTaken) {
  FakeMachine machine;
  const auto core = machine.core();
  auto sink = std::make_shared<Listener>();
  auto trace = CoreTrace::create(*core, sink);
  ASSERT_TRUE(trace) << trace.error().sentence;
  const FirstRing ring(machine, *core);
  for (uint32_t n = 0; n < ring.count; ++n) {
    ring.entries[n].word = NEURON_NK_TRACE << NEURON_NW_KIND_SHIFT | 1;
  }
  ASSERT_TRUE((*trace)->start());
  (*trace)->read();
  EXPECT_TRUE(sink->seen.empty());
}

}  // namespace
}  // namespace neuron::runtime
