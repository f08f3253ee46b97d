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

}  // namespace
}  // namespace neuron::runtime
