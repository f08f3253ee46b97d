// SPDX-License-Identifier: Apache-2.0
// Launches that a core repeats as one step against the same launches event by event: two chips get
// the same programs and the same accesses, and whatever a host can read is compared after each.
#include "driver/emulator/neuroncore/group/known_launches.h"

#include <malloc.h>

#include "tests/unit/driver/emulator/neuroncore/group/launches_machine.h"

namespace neuron::core {
namespace {

class KnownLaunchesTest : public LaunchesMachine {};

INSTANTIATE_TEST_SUITE_P(Generations, KnownLaunchesTest, kLaunchesMachines);

TEST_P(KnownLaunchesTest, AnEmptyModel) {
  compare(
      [this] {
        start();
        launch(8);
      },
      6);
}

TEST_P(KnownLaunchesTest, SeveralLaunchesThatWaitForEachOther) {
  compare(
      [this] {
        start();
        launch(3);
        increment(NEURON_SEM_LAUNCH, 5);
        increment(NEURON_SEM_LAUNCH, 2);
        ASSERT_EQ(run(), chip::RunResult::kQuiescent);
        note();
        launch(2);
      },
      10);
}

// The launches of one host count for the other, which gives other numbers and limits.
TEST_P(KnownLaunchesTest, WhatTheLaunchRecordAsksForIsNewEachTime) {
  compare(
      [this] {
        start();
        launch(3);
        launch_record()->exec_id = 900;
        launch(2);
        launch_record()->work_record = 0;
        launch(2);
        launch_record()->work_record = kWorkRecord;
        launch_record()->time_limit = 50'000'000;
        launch(2);
        launch_record()->flags = NEURON_LAUNCH_REBIND;  // another way through the prologue
        launch(3);
        memory(kLoaded, 4)[0] = std::byte{7};
        launch(3);
        launch_record()->flags = 0;
        launch(2);
        launch_record()->time_limit = 200'000;  // in the middle of the launch
        launch(1);
      },
      9);
}

TEST_P(KnownLaunchesTest, ALimitIsMetAtTheSameEventWhereverItLies) {
  compare(
      [this] {
        for (uint64_t limit = 60'000; limit < 1'500'000; limit += 45'000) {
          reset_core();
          launch_record()->time_limit = 0;
          start();
          launch(3);
          launch_record()->time_limit = limit;
          launch(1);
        }
      },
      20);
}

TEST_P(KnownLaunchesTest, EntriesOfAllRingsAndTraces) {
  compare(
      [this] {
        start();
        launch(3);
        set_up_rings();
        launch(4);
        set_all_modes(2);
        launch(4);
        set_all_modes(0);
        launch(3);
        for (unsigned e = 0; e < 5; ++e) set_up_ring(e, 0);
        launch(3);
        set_up_ring(NEURON_NQ_SLOT_SEMAPHORE, 0);
        launch(3);
      },
      10);
}

TEST_P(KnownLaunchesTest, TheBeginningOfAModelThatComputesAndTransfers) {
  Mains mains;
  mains.of[kDve] = {fill_tile(kDve, 0, 5), at_semaphores({}, {update(NEURON_UPDATE_INC, 16)}),
                    inst(NEURON_OP_RET)};
  mains.of[kPool] = {at_semaphores({wait_ge(16, 1)}), fill_tile(kPool, 64, 6), inst(NEURON_OP_RET)};
  for (const bool traced : {false, true}) {
    compare(
        [&] {
          set_up_queues();
          mains.of[kSp] = {trigger(0, 3, 1),
                           inst(NEURON_OP_DRAIN),
                           at_semaphores({}, {update(NEURON_UPDATE_INC, 20)}),
                           trigger(0, 1, 2),
                           at_semaphores({wait_ge(20, 1)}),
                           inst(NEURON_OP_RET)};
          for (uint32_t n = 0; n < 32; ++n) memory(kData + n * 4, 4)[0] = std::byte(n + 1);
          if (traced) set_up_rings();
          start(mains);
          if (traced) set_all_modes(2);
          launch(6);
        },
        3);
  }
}

TEST_P(KnownLaunchesTest, WhatAHostDoesBetweenTwoLaunches) {
  compare(
      [this] {
        set_up_queues();
        start();
        launch(3);
        increment(kFirstCleared + 2, 5);  // cleared by the prologue
        launch(2);
        increment(50);  // of nobody
        launch(2);
        set_core(window_ + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_EVENT + 4 * 9, 1);
        launch(2);
        set_core(window_ + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_SET + 4 * NEURON_SEM_DONE, 1);
        launch(2);
        set(kSp, NEURON_ENG_MODE, 1);
        launch(2);
        set(kPe, NEURON_ENG_EXEC_ID, 4711);
        launch(2);
        set_sbuf(0, 0, 2.0f);
        launch(2);
        set(kPool, NEURON_ENG_CONTROL, NEURON_CMD_STOP);
        set(kPool, NEURON_ENG_REG0 + 4 * 12, 99);
        set(kPool, NEURON_ENG_CONTROL, NEURON_CMD_CONTINUE);
        ASSERT_EQ(run(), chip::RunResult::kQuiescent);
        launch(4);
      },
      8);
}

TEST_P(KnownLaunchesTest, BreakpointsAndSteps) {
  compare(
      [this] {
        start();
        launch(4);
        set(kSp, NEURON_ENG_BREAK0, 1u << 31 | 12);
        launch(1);
        set(kSp, NEURON_ENG_STEPS, 2);
        set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_STEP);
        ASSERT_EQ(run(), chip::RunResult::kQuiescent);
        note();
        set(kSp, NEURON_ENG_BREAK0, 0);
        set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_CONTINUE);
        ASSERT_EQ(run(), chip::RunResult::kQuiescent);
        note();
        launch(3);
      },
      3);
}

// Bytes that change while a program runs are a fault of the engine that fetches them again.
TEST_P(KnownLaunchesTest, AnyByteOfTheInstructionsCounts) {
  const auto on_each_instruction = [this](unsigned e, unsigned instructions) {
    for (unsigned pc = 0; pc < instructions; ++pc) {
      reset_core();
      start();
      launch(3);
      *code_word(e, pc, NEURON_INST_DEBUG) ^= 0x100;
      launch(1);
      *code_word(e, pc, NEURON_INST_DEBUG) ^= 0x100;
      launch(1);
    }
  };
  compare(
      [&] {
        on_each_instruction(kSp, 17);
        on_each_instruction(kDve, 4);
      },
      20);
}

TEST_P(KnownLaunchesTest, ProgramsThatResembleOneThatIsKnown) {
  const auto with = [this](unsigned e, unsigned pc,
                           const std::function<void(Instruction&)>& change) {
    reset_core();
    start();
    launch(3);
    Instructions program = program_of(e, {});
    change(program[pc]);
    for (const Instructions& next : {program, program_of(e, {})}) {
      set(e, NEURON_ENG_CONTROL, NEURON_CMD_RESET);
      load(e, next);
      ASSERT_EQ(run(), chip::RunResult::kQuiescent);
      launch(3);
    }
  };
  compare(
      [&] {
        with(kSp, 11, [](Instruction& i) { i.update[0] = update(NEURON_UPDATE_INC, 30); });
        with(kSp, 12, [](Instruction& i) { i.update[1].at_complete = false; });
        with(kSp, 15, [](Instruction& i) { i.scalar0 = number(77); });
        with(kSp, 15, [](Instruction& i) { i.debug = 1234; });
        with(kSp, 15, [](Instruction& i) { i.trace = true; });
        with(kSp, 5, [](Instruction& i) { i.address.count = 3; });
        with(kSp, 5, [](Instruction& i) { i.scalar0 = number(3); });
        with(kSp, 10, [](Instruction& i) { i.scalar0 = number(0); });
        with(kDve, 2, [](Instruction& i) { i.update[0] = update(NEURON_UPDATE_ADD, 15, true, 1); });
        with(kPe, 0, [](Instruction& i) { i.drain = true; });
        with(kPe, 2, [](Instruction& i) { i.drain = false; });
        with(kAct, 2, [](Instruction& i) { i.update[1] = update(NEURON_UPDATE_INC, 60); });
      },
      12);
}

TEST_P(KnownLaunchesTest, FaultsThatArePlannedBetweenLaunches) {
  compare(
      [this] {
        start();
        launch(3);
        arm(R"({"at":"sram","kind":"uncorrectable","core":0,"n":7})");
        launch(2);
        chip_->faults().clear();
        reset_core();
        start();
        launch(4);
        std::ostringstream of_the_record;
        of_the_record << R"({"at":"hbm","kind":"uncorrectable","address":")" << std::showbase
                      << std::hex << kLaunch << R"(","bytes":64})";
        arm(of_the_record.str());
        launch(2);
        chip_->faults().clear();
        reset_core();
        start();
        launch(4);
        arm(R"({"at":"engine.instruction","kind":"hang","core":0,"engine":1,"n":5})");
        launch(2);
      },
      5);
}

TEST_P(KnownLaunchesTest, ResetsAndStarts) {
  compare(
      [this] {
        for (int round = 0; round < 3; ++round) {
          start();
          launch(4);
          set(kAct, NEURON_ENG_CONTROL, NEURON_CMD_RESET);
          launch(2);
          reset_core();
        }
        start();
        launch(4);
        set(kPool, NEURON_ENG_CONTROL, NEURON_CMD_RESET);
        load(kPool, program_of(kPool, {}));
        ASSERT_EQ(run(), chip::RunResult::kQuiescent);
        launch(4);
      },
      6);
}

TEST_P(KnownLaunchesTest, AnExecutionThatWaitsForTheHost) {
  Mains mains;
  mains.of[kAct] = {at_semaphores({wait_ge(40, 1)}, {update(NEURON_UPDATE_DEC, 40, false)}),
                    inst(NEURON_OP_RET)};
  compare(
      [&] {
        start(mains);
        for (int n = 0; n < 4; ++n) {
          launch(1);  // stops in a deadlock
          increment(40);
          ASSERT_EQ(run(), chip::RunResult::kQuiescent);
          note();
        }
        increment(40, 2);
        launch(2);
      },
      2);
}

TEST_P(KnownLaunchesTest, RecordsWithoutMemoryAreTheSameFault) {
  compare(
      [this] {
        start();
        set_up_ring(NEURON_NQ_SLOT_ERROR, kErrors);
        launch(3);
        set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_STOP);
        set(kSp, NEURON_ENG_DONE_HI, 0x7F00);
        set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_CONTINUE);
        ASSERT_EQ(run(), chip::RunResult::kQuiescent);
        launch(1);
      },
      1);
}

// The end of a loop's body counts its register up, also if the body's last instruction has loaded
// into it.
TEST_P(KnownLaunchesTest, AWordThatIsLoadedIntoTheCounterOfALoop) {
  Mains mains;
  mains.of[kSp] = {loop(3, 0, 100, 1, 1), load_from(3, kLoaded + 4), inst(NEURON_OP_RET)};
  compare(
      [&] {
        memory(kLoaded + 4, 4)[0] = std::byte{99};
        start(mains);
        launch(3);
        memory(kLoaded + 4, 4)[0] = std::byte{100};
        launch(3);
      },
      2);
}

// A program may do the same for ever, and the host's memory has an end.
TEST_P(KnownLaunchesTest, OfALongProgramLittleIsRemembered) {
  const test::Setting strict("NEURON_EMULATOR_STRICT", std::get<1>(GetParam()) ? "1" : "0");
  const auto used = [] {
    const auto info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const auto kept_of = [&](const Instruction& instruction, uint32_t times) {
    create(std::get<0>(GetParam()));
    Mains mains;
    mains.of[kSp] = {loop(3, 0, times, 1, 1), instruction, inst(NEURON_OP_RET)};
    start(mains);
    set_up_queues();
    set_up_ring(kSp, kTrace);
    const size_t before = used();
    for (int n = 0; n < 3; ++n) {
      increment(NEURON_SEM_LAUNCH);
      EXPECT_EQ(run(60'000), chip::RunResult::kQuiescent);
    }
    EXPECT_EQ(completions(kSp), 3u);
    return used() - before;
  };
  create(std::get<0>(GetParam()));
  Instruction traced = inst(NEURON_OP_NOP);
  traced.trace = true;
  Instruction rewinds = rewind(false);
  rewinds.address.count = 50'000;
  rewinds.address.stride = 0;
  for (const auto& [instruction, times] : {std::pair(load_from(5, kLoaded), 300'000u),
                                           std::pair(traced, 300'000u), std::pair(rewinds, 10u)}) {
    EXPECT_LT(kept_of(instruction, times), 4u << 20);
  }
}

// Six buffers that take turns are more than a core remembers. It remembers some of them, and does
// not forget each before its turn comes again.
TEST_P(KnownLaunchesTest, MoreLaunchesThatTakeTurnsThanAreRemembered) {
  constexpr uint32_t kLaunches = 600;
  create(std::get<0>(GetParam()));
  start();
  launch_record()->flags = NEURON_LAUNCH_REBIND;
  const uint64_t repeated = KnownLaunches::repeated_by_this_thread();
  const uint64_t remembered = KnownLaunches::remembered_by_this_thread();
  for (uint32_t n = 0; n < kLaunches; ++n) {
    memory(kLoaded, 4)[0] = std::byte(n % 6);
    increment(NEURON_SEM_LAUNCH);
    ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  }
  EXPECT_GT(KnownLaunches::repeated_by_this_thread() - repeated, kLaunches / 2);
  EXPECT_LT(KnownLaunches::remembered_by_this_thread() - remembered, kLaunches / 10);
}

// It would be compared each time for nothing.
TEST_P(KnownLaunchesTest, OnePartOfTwoIsNotRemembered) {
  create(std::get<0>(GetParam()));
  start();
  const uint64_t remembered = KnownLaunches::remembered_by_this_thread();
  for (uint32_t n = 1; n < 8; ++n) {
    launch_record()->pair = n;
    increment(NEURON_SEM_LAUNCH);
    ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  }
  EXPECT_EQ(KnownLaunches::remembered_by_this_thread(), remembered);
}

// What the launch writes into a ring itself is not there yet when the words are compared.
TEST_P(KnownLaunchesTest, AProgramThatReadsItsOwnRing) {
  constexpr uint64_t kRing = kTrace + NEURON_NQ_SLOT_SEMAPHORE * uint64_t{kRingBytes};
  constexpr uint32_t kOfTheWrapper = 16;  // entries
  constexpr uint32_t kPerLaunch = kRingBytes / NEURON_NOTIFICATION_BYTES;
  Mains mains;
  mains.of[kSp] = {
      loop(3, 0, kPerLaunch - kOfTheWrapper, 1, 1),
      at_semaphores({}, {update(NEURON_UPDATE_INC, 20)}),
      load_from(5, kRing + 40 * NEURON_NOTIFICATION_BYTES + offsetof(neuron_notification, word)),
      alu(6, 5, NEURON_ALU_AND, 1),
      branch(3, NEURON_BRANCH_EQ, 6, 0),
      inst(NEURON_OP_NOP),
      inst(NEURON_OP_NOP),
      mov(5, 0),
      mov(6, 0),
      inst(NEURON_OP_RET)};
  compare(
      [&] {
        set_up_ring(NEURON_NQ_SLOT_SEMAPHORE, kRing);
        const uint64_t queues =
            generation_ == 2 ? NEURON_V2_CORE_NOTIFICATION(0) : NEURON_V3_CORE_NOTIFICATION(0);
        set_core(queues + NEURON_NQ_BASE(NEURON_NQ_SLOT_SEMAPHORE) + NEURON_NQ_MODE, 1);
        start(mains);
        launch(8);
      },
      0);
}

}  // namespace
}  // namespace neuron::core
