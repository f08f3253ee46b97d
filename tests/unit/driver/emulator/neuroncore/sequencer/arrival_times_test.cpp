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
    times.note(NEURON_UPDATE_ADD, kCell, units, value, remote, time);
    value += units;
  }
  void take(uint32_t units) {
    times.note(NEURON_UPDATE_SUB, kCell, units, value, false, 0);
    value -= units;
  }
  chip::ModelTime from(int32_t wanted, unsigned condition = NEURON_WAIT_GE) const {
    return times.held_from(wait_for(condition), value, wanted);
  }
};

TEST(ArrivalTimes, OfACountOfThisGroupAloneAreNotKept) {
  Counter c;
  c.add(3, 700, false);
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
  c.times.note(NEURON_UPDATE_WRITE, kCell, 5, c.value, false, 10);
  c.value = 5;
  EXPECT_EQ(c.from(5), 0u);
  c.times.note(NEURON_UPDATE_WRITE, kCell, 2, c.value, true, 60);
  c.value = 2;
  EXPECT_EQ(c.from(1), 60u);
}

TEST(ArrivalTimes, LetAPeerTakeWhatHasNone) {
  Counter c;
  c.add(3, 0, false);
  c.times.note(NEURON_UPDATE_SUB, kCell, 1, c.value, true, 90);
  c.value = 2;
  c.times.note(NEURON_UPDATE_DEC, kCell, 1, c.value, true, 95);
  c.value = 1;
  EXPECT_EQ(c.from(1), 0u);
}

}  // namespace
}  // namespace neuron::core
