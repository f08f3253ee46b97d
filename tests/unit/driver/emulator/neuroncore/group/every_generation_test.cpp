// SPDX-License-Identifier: Apache-2.0
// Ends, waits, records and doorbells of a program, on each generation.
#include "tests/unit/driver/emulator/neuroncore/core_machine.h"

namespace neuron::core {
namespace {

constexpr unsigned kSp = NEURON_ENGINE_SP;

class Programs : public EveryGeneration {};
INSTANTIATE_TEST_SUITE_P(Generations, Programs, kGenerations);

TEST_P(Programs, AnEventWaitsForASemaphoreAndUpdatesTwo) {
  Instruction event = inst(NEURON_OP_EVENT);
  event.wait[0] = wait_ge(20, 2);
  event.update = {update(NEURON_UPDATE_SUB, 20, false, 2), update(NEURON_UPDATE_INC, 21)};
  load(kSp, {event, mov(1, 7), inst(NEURON_OP_HALT)}, 0);
  increment(20);
  run(10);
  EXPECT_EQ(register_of(kSp, 1), 0U);
  increment(20);
  EXPECT_EQ(run(), chip::RunResult::kQuiescent);
  EXPECT_EQ(register_of(kSp, 1), 7U);
  EXPECT_EQ(semaphore(20), 0U);
  EXPECT_EQ(semaphore(21), 1U);
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
}

TEST_P(Programs, CompleteWritesARecordWithThePlaceAndTheTimes) {
  load(kSp, {mov(1, 1), inst(NEURON_OP_COMPLETE), inst(NEURON_OP_HALT)});
  reinterpret_cast<neuron_launch_record*>(memory(kLaunch, 64))->exec_id = 77;
  EXPECT_EQ(run(), chip::RunResult::kQuiescent);
  const neuron_completion_record written = record(kSp);
  EXPECT_EQ(written.sequence, 1U);
  EXPECT_EQ(written.status, 0U);
  EXPECT_EQ(written.engine, kSp);
  EXPECT_EQ(written.pc, 1U);
  EXPECT_GT(written.end, written.start);
}

TEST_P(Programs, ABreakStopsUntilTheHostContinues) {
  load(kSp, {mov(1, 1), inst(NEURON_OP_BRK), mov(2, 2), inst(NEURON_OP_HALT)}, 0);
  run();
  EXPECT_EQ(state(kSp), NEURON_STATE_BREAK);
  EXPECT_EQ(get(kSp, NEURON_ENG_PC), 1U);
  EXPECT_EQ(register_of(kSp, 2), 0U);
  set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_CONTINUE);
  run();
  EXPECT_EQ(register_of(kSp, 2), 2U);
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
}

TEST_P(Programs, ADrainWaitsForTheTransferThatADoorbellBegan) {
  set_up_queue(0, 0);
  for (uint32_t i = 0; i < 16; ++i) {
    std::memcpy(memory(kData + 4 * i, 4), &i, 4);
  }
  add_copy(0, 0, 0, kData, sbuf_address(3, 64), 64);
  add_copy(0, 0, 1, sbuf_address(3, 64), kData + 0x1000, 64, true);
  Instruction load_word = inst(NEURON_OP_LOAD);
  load_word.flow.rd = 1;
  load_word.address = {kData + 0x1000 + 4 * 15, 0, 1};
  load_and_run(kSp, {trigger(0, 1, 2), inst(NEURON_OP_DRAIN), load_word, inst(NEURON_OP_HALT)});
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
  EXPECT_EQ(register_of(kSp, 1), 15U);
}

}  // namespace
}  // namespace neuron::core
