// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/sequencer/arrival_times.h"

#include <gtest/gtest.h>

namespace neuron::core {
namespace {

constexpr unsigned kCell = 20;

isa::Wait wait_for(unsigned condition) {
  isa::Wait wait;
  wait.index = kCell;
  wait.condition = static_cast<uint8_t>(condition);
  return wait;
}

// A semaphore with its times.
struct Counter {
  uint32_t value = 0;
  ArrivalTimes times;
  void add(uint32_t units, chip::ModelTime time, bool remote = true) {
    times.note(NEURON_UPDATE_ADD, kCell, units, value, stamp(time, remote));
    value += units;
  }
  // By an actor of the group, which may be late.
  void add_own(uint32_t units, chip::ModelTime time, uint8_t actor) {
    times.note(NEURON_UPDATE_ADD, kCell, units, value, {time, actor});
    value += units;
  }
  void take(uint32_t units) {
    times.note(NEURON_UPDATE_SUB, kCell, units, value, {});
    value -= units;
  }
  chip::ModelTime from(int32_t wanted, unsigned condition = NEURON_WAIT_GE, Stamp now = {}) const {
    return times.held_from(wait_for(condition), value, wanted, now).time;
  }
  static Stamp stamp(chip::ModelTime time, bool remote) {
    return {time, remote ? Stamp::kOtherGroup : uint8_t{0}};
  }
};

TEST(ArrivalTimes, OfWhatTheHostAddsAreNotKept) {
  Counter c;
  c.add(3, 0, false);
  EXPECT_EQ(c.from(3), 0u);
}

TEST(ArrivalTimes, AreThoseOfTheUnitsThatAWaitNeeds) {
  Counter c;
  c.add(1, 100);
  c.add(2, 300);
  EXPECT_EQ(c.from(1), 100u);
  EXPECT_EQ(c.from(2), 300u);
  EXPECT_EQ(c.from(0), 0u);
  EXPECT_EQ(c.from(1, NEURON_WAIT_GT), 300u);
  EXPECT_EQ(c.from(3, NEURON_WAIT_EQ), 300u);
  EXPECT_EQ(c.from(9, NEURON_WAIT_LT), 0u);
}

TEST(ArrivalTimes, GoWithTheOldestUnitsWhenTheseAreTaken) {
  Counter c;
  c.add(2, 0, false);
  c.add(1, 100);
  c.add(1, 40);  // of a peer that is in its next launch
  EXPECT_EQ(c.from(2), 0u);
  c.take(2);
  EXPECT_EQ(c.from(1), 100u);
  c.take(1);
  EXPECT_EQ(c.from(1), 40u);
  c.take(1);
  c.add(1, 0, false);
  EXPECT_EQ(c.from(1), 0u);
}

TEST(ArrivalTimes, OfManyProducersAreThoseOfTheLatest) {
  Counter c;
  for (const chip::ModelTime time : {30, 80, 20}) c.add(1, time);
  EXPECT_EQ(c.from(3), 80u);
}

TEST(ArrivalTimes, KeepABoundedNumberOfChangesAndThenTheLatest) {
  Counter c;
  for (size_t n = 0; n < ArrivalTimes::kMaxEntries + 10; ++n) c.add(1, n + 1);
  EXPECT_EQ(c.from(static_cast<int32_t>(c.value)), ArrivalTimes::kMaxEntries + 10);
  EXPECT_EQ(c.from(1), 1u);
}

TEST(ArrivalTimes, AreForgottenWhenTheValueIsSet) {
  Counter c;
  c.add(4, 100);
  c.times.note(NEURON_UPDATE_WRITE, kCell, 5, c.value, {});
  c.value = 5;
  EXPECT_EQ(c.from(5), 0u);
  c.times.note(NEURON_UPDATE_WRITE, kCell, 2, c.value, Counter::stamp(60, true));
  c.value = 2;
  EXPECT_EQ(c.from(1), 60u);
}

// What a group has done since is not there yet for one of its sequencers that was woken late.
TEST(ArrivalTimes, OfTheGroupsOwnUnitsAreInTheOrderOfTheirTimes) {
  Counter c;
  c.add_own(1, 500, 9);
  c.add_own(1, 300, 6);  // by an actor that was late itself
  c.add_own(1, 400, 7);
  EXPECT_EQ(c.from(1), 300u);
  EXPECT_EQ(c.from(2), 400u);
  EXPECT_EQ(c.from(3), 500u);
  EXPECT_EQ(c.from(2, NEURON_WAIT_GE, {450, 5}), 0u);
  EXPECT_EQ(c.from(3, NEURON_WAIT_GE, {450, 5}), 500u);
}

TEST(ArrivalTimes, AtOneTimeHoldForActorsBehindTheOneThatActed) {
  Counter c;
  c.add_own(1, 500, 6);
  EXPECT_EQ(c.from(1, NEURON_WAIT_GE, {500, 7}), 0u);
  EXPECT_EQ(c.from(1, NEURON_WAIT_GE, {500, 5}), 500u);
  Counter of_peer;
  of_peer.add(1, 500);
  EXPECT_EQ(of_peer.from(1, NEURON_WAIT_GE, {500, 7}), 500u);
}

TEST(ArrivalTimes, BeforeATimeThatNobodyLooksAtAreForgotten) {
  Counter c;
  for (unsigned n = 1; n <= ArrivalTimes::kManyEntries; ++n) c.add_own(1, 10 * n, 9);
  EXPECT_FALSE(c.times.is_crowded());
  c.add_own(1, 9000, 9);
  EXPECT_TRUE(c.times.is_crowded());
  c.times.forget_before(1000);
  EXPECT_FALSE(c.times.is_crowded());
  EXPECT_EQ(c.from(99), 0u);
  EXPECT_EQ(c.from(100), 1000u);
  EXPECT_EQ(c.from(static_cast<int32_t>(c.value)), 9000u);
  c.times.forget_before(9001);
  EXPECT_EQ(c.from(static_cast<int32_t>(c.value)), 0u);
}

TEST(ArrivalTimes, AreForgottenAlsoWhenACellWasFull) {
  Counter c;
  for (size_t n = 1; n <= ArrivalTimes::kMaxEntries; ++n) {
    c.add_own(1, n, 9);
    if (c.times.is_crowded()) c.times.forget_before(0);  // an engine that waits since then
  }
  for (unsigned n = 0; n < ArrivalTimes::kManyEntries && !c.times.is_crowded(); ++n) {
    c.add_own(1, 2 * ArrivalTimes::kMaxEntries, 9);
  }
  ASSERT_TRUE(c.times.is_crowded());
  c.times.forget_before(ArrivalTimes::kMaxEntries);
  c.add_own(1, 3 * ArrivalTimes::kMaxEntries, 9);
  EXPECT_EQ(c.from(static_cast<int32_t>(c.value) - 1), 2 * ArrivalTimes::kMaxEntries);
}

TEST(ArrivalTimes, OfTheGroupItselfAreOlderThanATimeThatBeginsAgain) {
  Counter c;
  c.add_own(2, 700, 9);
  c.add(1, 40);  // of a peer that is in its next launch
  c.times.restart_time();
  EXPECT_EQ(c.from(2), 0u);
  EXPECT_EQ(c.from(3), 40u);
  c.times.restart_time();
  EXPECT_EQ(c.from(3), 40u);
}

TEST(ArrivalTimes, LetAPeerTakeWhatHasNone) {
  Counter c;
  c.add(3, 0, false);
  c.times.note(NEURON_UPDATE_SUB, kCell, 1, c.value, Counter::stamp(90, true));
  c.value = 2;
  c.times.note(NEURON_UPDATE_DEC, kCell, 1, c.value, Counter::stamp(95, true));
  c.value = 1;
  EXPECT_EQ(c.from(1), 0u);
}

}  // namespace
}  // namespace neuron::core
