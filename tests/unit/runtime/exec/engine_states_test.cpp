// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/engine_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hw/udma.h"
#include "tests/unit/runtime/loaded_sample.h"

namespace neuron::runtime {
namespace {

using test::LoadedSample;
using ::testing::HasSubstr;

class States : public ::testing::Test {
 protected:
  void engine(uint32_t engine, uint32_t state, uint32_t pc, uint32_t wait = 0, uint32_t value = 0) {
    const uint64_t block = sample_.core->place().window_bar0() + NEURON_CORE_ENGINE(engine);
    auto& registers = sample_.machine.state.registers;
    registers[block + NEURON_ENG_STATUS] = state;
    registers[block + NEURON_ENG_PC] = pc;
    registers[block + NEURON_ENG_WAITING] = wait;
    registers[block + NEURON_ENG_WAIT_VAL] = value;
  }
  uint32_t main_of(uint32_t engine) const { return sample_.loaded->image(engine).wrapper; }
  static uint32_t wait(uint32_t number, uint32_t condition, uint32_t value) {
    return number | condition << 8 | value << 16;
  }
  EngineStates states(bool stuck = false) { return describe_engines(*sample_.loaded, stuck); }

  LoadedSample sample_;
};

TEST_F(States, AfterAResetAllEnginesAreIdle) {
  const EngineStates idle = states();
  EXPECT_EQ(idle.idle, NEURON_CORE_ENGINES + 0u);
  EXPECT_EQ(idle.waiting, 0u);
  EXPECT_EQ(idle.working, "");
  EXPECT_EQ(idle.rest, "PE, Activation, Pool, DVE, SP with nothing left to do");
  EXPECT_EQ(idle.hung, "");
  EXPECT_EQ(idle.queues, "");
}

TEST_F(States, AWaitNamesItsSemaphoreAndItsValue) {
  engine(NEURON_ENGINE_PE, NEURON_STATE_WAITING, main_of(NEURON_ENGINE_PE),
         wait(20, NEURON_WAIT_GE, 3), 1);
  const EngineStates found = states();
  EXPECT_EQ(found.waiting, 1u);
  EXPECT_EQ(found.idle, 4u);
  EXPECT_THAT(found.working, HasSubstr("PE pc 0 (matmul.py:40): event"));
  EXPECT_THAT(found.working, HasSubstr(" waits for semaphore 20 (ready) >= 3, which is 1"));
  EXPECT_EQ(found.rest, "Activation, Pool, DVE, SP with nothing left to do");
}

TEST_F(States, AWaitMayBeForAnEventOrARegistersValueOrUnnamed) {
  const uint32_t pc = main_of(NEURON_ENGINE_PE) + 1;
  engine(NEURON_ENGINE_PE, NEURON_STATE_WAITING, pc,
         wait(4, NEURON_WAIT_EQ, 1) | NEURON_SEM_SLOT_EVENT);
  EXPECT_THAT(states().working, HasSubstr(" waits for event 4 == 1, which is 0"));
  engine(NEURON_ENGINE_PE, NEURON_STATE_WAITING, pc,
         wait(21, NEURON_WAIT_NE, 2) | NEURON_SEM_SLOT_REG, 7);
  EXPECT_THAT(states().working, HasSubstr(" waits for semaphore 21 != r2, which is 7"));
  engine(NEURON_ENGINE_PE, NEURON_STATE_WAITING, pc, wait(21, NEURON_WAIT_NONE, 2), 7);
  EXPECT_THAT(states().working, ::testing::EndsWith(" waits"));
}

TEST_F(States, WaitingEnginesComeBeforeRunningOnes) {
  engine(NEURON_ENGINE_PE, NEURON_STATE_RUNNING, main_of(NEURON_ENGINE_PE));
  engine(NEURON_ENGINE_SP, NEURON_STATE_WAITING, main_of(NEURON_ENGINE_SP),
         wait(20, NEURON_WAIT_GE, 1));
  const EngineStates found = states();
  EXPECT_LT(found.working.find("SP pc"), found.working.find("PE pc"));
  EXPECT_THAT(found.working, HasSubstr(" runs"));
  EXPECT_EQ(found.waiting, 1u);
}

TEST_F(States, EveryStateHasItsWord) {
  const std::pair<uint32_t, const char*> words[] = {
      {NEURON_STATE_RUNNING, " runs"},
      {NEURON_STATE_WAITING, " waits"},
      {NEURON_STATE_HALTED, " has halted"},
      {NEURON_STATE_STOPPED, " was stopped"},
      {NEURON_STATE_BREAK, " is at a break"},
      {NEURON_STATE_FAULT, " reports it"},
      {NEURON_STATE_FAULT + 1, " is in an unknown state"}};
  for (const auto& [state, word] : words) {
    engine(NEURON_ENGINE_PE, state, main_of(NEURON_ENGINE_PE));
    EXPECT_THAT(states().working, ::testing::EndsWith(word)) << state;
  }
}

TEST_F(States, AnEngineThatRunsWhileNothingAdvancesHangs) {
  engine(NEURON_ENGINE_PE, NEURON_STATE_RUNNING, main_of(NEURON_ENGINE_PE));
  const EngineStates found = states(true);
  EXPECT_THAT(found.hung, HasSubstr("PE hangs: it has stopped issuing at PE pc 0"));
  EXPECT_EQ(found.working, "");
}

TEST_F(States, OutsideTheModelsCodeAnEngineIsDoneOrWaitsForTheOthers) {
  engine(NEURON_ENGINE_PE, NEURON_STATE_WAITING, 0, wait(NEURON_SEM_GO(0), NEURON_WAIT_GE, 1));
  engine(NEURON_ENGINE_SP, NEURON_STATE_WAITING, 1, wait(NEURON_SEM_DONE, NEURON_WAIT_GE, 4), 3);
  engine(NEURON_ENGINE_POOL, NEURON_STATE_RUNNING, 0);
  EXPECT_EQ(states().rest,
            "SP waits for the other engines, 3 of 4 have finished; Pool outside the model's code; "
            "PE, Activation, DVE with nothing left to do");
}

TEST_F(States, QueuesWithDescriptorsLeftAreNamedTheFirstFour) {
  const auto queue = [&](uint32_t engine, uint32_t number, uint32_t head, uint32_t tail) {
    const CorePlace& place = sample_.core->place();
    auto& registers = sample_.machine.state.registers;
    registers[place.queue_register_bar0(engine, NEURON_UDMA_M2S, number, NEURON_UDMAQ_HEAD)] = head;
    registers[place.queue_register_bar0(engine, NEURON_UDMA_M2S, number, NEURON_UDMAQ_TAIL)] = tail;
  };
  queue(0, 1, 12, 21);
  queue(0, 2, 5, 5);
  EXPECT_EQ(states().queues, "DMA engine 0 queue 1 stands at descriptor 12, its tail is 21");
  for (uint32_t engine = 1; engine < 4; ++engine) queue(engine, 0, 0, 1);
  EXPECT_THAT(states().queues, ::testing::EndsWith("DMA engine 3 queue 0 stands at descriptor 0, "
                                                   "its tail is 1"));
  queue(15, 15, 0, 1);
  EXPECT_THAT(states().queues, ::testing::EndsWith("its tail is 1 and others"));
}

TEST_F(States, WhatCannotBeReadIsLeftOut) {
  sample_.machine.state.failing[NEURON_IOCTL_BAR_READ] = -EIO;
  const EngineStates none = states();
  EXPECT_EQ(none.idle, 0u);
  EXPECT_EQ(none.working + none.rest + none.queues, "");
}

}  // namespace
}  // namespace neuron::runtime
