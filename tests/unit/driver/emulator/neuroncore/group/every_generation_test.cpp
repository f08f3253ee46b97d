// SPDX-License-Identifier: Apache-2.0
// Ends, waits, records and doorbells of a program, on each generation.
#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

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

// Doorbells reach their queues in the order of their instructions, whatever was chosen: `order`
// changes no register, no mode, no semaphore and no byte, and takes the time of a nop.
TEST_P(Programs, OrderIsANopToWhatComesBehindIt) {
  set_up_queue(0, 0);
  const auto put = [this](uint64_t at, uint32_t value) { std::memcpy(memory(at, 4), &value, 4); };
  const auto run_with = [&](const Instruction& between) {
    put(kData, 111), put(kData + 4, 222), put(kData + 8, 0), put(kData + 12, 0);
    set_up_queue(0, 0);
    // The second transfer overwrites the first one's word; the third one has read it before.
    add_copy(0, 0, 0, kData, kData + 8, 4);
    add_copy(0, 0, 1, kData + 8, kData + 12, 4, true);
    add_copy(0, 0, 2, kData + 4, kData + 8, 4, true);
    set(kSp, NEURON_ENG_MODE, 0x30);
    increment(20);
    load_and_run(kSp, {mov(1, 1), between, trigger(0, 1, 1), between, trigger(0, 1, 1), between,
                       trigger(0, 1, 1), inst(NEURON_OP_DRAIN), inst(NEURON_OP_COMPLETE),
                       inst(NEURON_OP_HALT)});
    EXPECT_EQ(state(kSp), NEURON_STATE_HALTED) << isa::fault_name(fault(kSp));
    const neuron_completion_record written = record(kSp);
    std::vector<uint64_t> all = {word(kData),
                                 word(kData + 4),
                                 word(kData + 8),
                                 word(kData + 12),
                                 get(kSp, NEURON_ENG_MODE),
                                 get(kSp, NEURON_ENG_RETIRED_LO),
                                 semaphore(20),
                                 written.end - written.start};
    for (unsigned r = 0; r < NEURON_REGISTERS; ++r) all.push_back(register_of(kSp, r));
    create(GetParam());
    return all;
  };
  const std::vector<uint64_t> of_nop = run_with(inst(NEURON_OP_NOP));
  EXPECT_EQ(of_nop[2], 222U);
  EXPECT_EQ(of_nop[3], 111U);
  EXPECT_EQ(of_nop[5], 10U);
  for (const uint32_t order : {0U, 1U}) {
    Instruction chosen = inst(NEURON_OP_ORDER);
    chosen.scalar0 = number(order);
    EXPECT_EQ(run_with(chosen), of_nop) << order;
  }
}

}  // namespace
}  // namespace neuron::core
