// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/core_notes.h"

#include <gtest/gtest.h>

#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using test::FakeMachine;

class CoreNotesTest : public ::testing::Test {
 protected:
  uint64_t at(uint32_t offset) const {
    return core_->place().notification() + NEURON_NQ_BASE(NEURON_NQ_SLOT_NOTIFY) + offset;
  }
  // The device writes entries into its ring.
  void notify(uint32_t count) {
    auto& registers = machine_.state.registers;
    const uint64_t address = uint64_t{registers.at(at(NEURON_NQ_ADDRESS_HI))} << 32 |
                             registers.at(at(NEURON_NQ_ADDRESS_LO));
    auto* ring = reinterpret_cast<neuron_notification*>(machine_.state.bytes_at(address));
    for (uint32_t n = 0; n < count; ++n) {
      ring[next_++].word = NEURON_NK_NOTIFY << NEURON_NW_KIND_SHIFT | 1;
    }
  }
  FakeMachine machine_;
  const std::unique_ptr<Core> core_ = machine_.core();
  uint32_t next_ = 0;
};

TEST_F(CoreNotesTest, CountsEventsForWhichThereIsNoRoom) {
  auto notes = CoreNotes::create(*core_, 2);
  ASSERT_TRUE(notes) << notes.error().sentence;
  notify(5);
  (*notes)->read();
  EXPECT_EQ((*notes)->dropped(), 3u);
  EXPECT_TRUE((*notes)->take());
  EXPECT_TRUE((*notes)->take());
  EXPECT_FALSE((*notes)->take());
}

TEST_F(CoreNotesTest, CountsEventsThatDidNotFitIntoTheRingOfTheDevice) {
  auto notes = CoreNotes::create(*core_, 1u << 20);
  ASSERT_TRUE(notes) << notes.error().sentence;
  const uint32_t entries = machine_.state.registers.at(at(NEURON_NQ_SIZE)) / 32;
  notify(entries - 1);
  machine_.state.registers[at(NEURON_NQ_DROPPED)] = 7;
  (*notes)->read();
  EXPECT_EQ((*notes)->dropped(), 7u);
}

TEST_F(CoreNotesTest, AReaderThatLetsAClosedStreamGoLastTellsTheDeviceNothing) {
  auto notes = CoreNotes::create(*core_, 2);
  ASSERT_TRUE(notes) << notes.error().sentence;
  (*notes)->stop();
  EXPECT_EQ(machine_.state.registers.at(at(NEURON_NQ_SIZE)), 0u);
  auto next = CoreNotes::create(*core_, 2);
  ASSERT_TRUE(next);
  notes->reset();
  EXPECT_NE(machine_.state.registers.at(at(NEURON_NQ_SIZE)), 0u)
      << "the next client keeps its ring";
}

}  // namespace
}  // namespace neuron::runtime
