// SPDX-License-Identifier: Apache-2.0
// Launches: doorbell, completion record, accounting, determinism, deadlock, limits, debugger.
#include <bit>
#include <thread>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

Instruction event(std::array<isa::Wait, 2> wait, std::array<isa::Update, 2> updates = {}) {
  Instruction i = inst(NEURON_OP_EVENT);
  i.wait = wait;
  i.update = updates;
  return i;
}

class Launch : public CoreMachine {
 protected:
  // The resident programs of the runtime, with a call to `main` where there is one.
  void load_wrappers(const std::vector<Instruction>& main_sp = {inst(NEURON_OP_RET)},
                     const std::vector<Instruction>& main_other = {inst(NEURON_OP_RET)}) {
    for (unsigned e = 0; e < 4; ++e) {
      Instruction done = event({}, {update(NEURON_UPDATE_INC, NEURON_SEM_DONE)});
      done.drain = true;
      std::vector<Instruction> program{
          event({wait_ge(e, 1)}, {update(NEURON_UPDATE_SUB, e, false, 1)}), call(3), done,
          branch(-3)};
      program.insert(program.end(), main_other.begin(), main_other.end());
      load(e, program);
    }
    Instruction finish = inst(NEURON_OP_COMPLETE);
    std::vector<Instruction> sp{
        event({wait_ge(NEURON_SEM_LAUNCH, 1)},
              {update(NEURON_UPDATE_SUB, NEURON_SEM_LAUNCH, false, 1)}),
        event({}, {update(NEURON_UPDATE_INC, 0, false), update(NEURON_UPDATE_INC, 1, false)}),
        event({}, {update(NEURON_UPDATE_INC, 2, false), update(NEURON_UPDATE_INC, 3, false)}),
        call(4),
        event({wait_ge(NEURON_SEM_DONE, 4)},
              {update(NEURON_UPDATE_SUB, NEURON_SEM_DONE, false, 4)}),
        finish,
        branch(-6)};
    sp.insert(sp.end(), main_sp.begin(), main_sp.end());
    load(kSp, sp);
    ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  }
  void launch() {
    increment(NEURON_SEM_LAUNCH);
    ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  }
};

// As a driver does when a process ends whose program is still running: it resets the queues, and
// frees the memory of the records.
TEST_F(Launch, WritesNoRecordOnceTheHostHasResetAQueueThatItUses) {
  constexpr unsigned kGo = 30;
  for (const unsigned queue : {0u, 1u}) {
    set_up_queue(0, queue);
    for (const unsigned slot : {0u, 1u}) add_copy(0, queue, slot, kData, kData + 0x1000, 64);
  }
  const auto reset_queue = [this](unsigned queue) {
    set_core(
        NEURON_V2_UDMA(0) + NEURON_UDMA_QUEUE(NEURON_UDMA_S2M, queue) + NEURON_UDMAQ_S2M_SW_CONTROL,
        NEURON_UDMAQ_SW_RESET);
    set_core(
        NEURON_V2_UDMA(0) + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, queue) + NEURON_UDMAQ_M2S_SW_CONTROL,
        NEURON_UDMAQ_SW_RESET);
  };
  const auto go_on = [this] {
    increment(kGo);
    ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  };
  load_wrappers({trigger(0, 1, 1),
                 event({wait_ge(kGo, 1)}, {update(NEURON_UPDATE_SUB, kGo, false, 1)}),
                 inst(NEURON_OP_RET)});
  auto* launch_record = reinterpret_cast<neuron_launch_record*>(memory(kLaunch, 64));
  launch_record->work_record = kData + 0x8000;
  auto* work =
      reinterpret_cast<neuron_work_record*>(memory(kData + 0x8000, sizeof(neuron_work_record)));
  launch();
  reset_queue(1);  // of another program
  go_on();
  EXPECT_EQ(record(kSp).sequence, 1u);
  EXPECT_EQ(work->executions, 1u);
  launch();
  reset_queue(0);
  go_on();
  EXPECT_EQ(record(kSp).sequence, 1u) << "the memory of the record may be anybody's";
  EXPECT_EQ(work->executions, 1u);
}

TEST_F(Launch, WritesACompletionRecordForEachDoorbell) {
  load_wrappers();
  auto* launch_record = reinterpret_cast<neuron_launch_record*>(memory(kLaunch, 64));
  launch_record->exec_id = 77;
  launch();
  neuron_completion_record r = record(kSp);
  EXPECT_EQ(r.sequence, 1u);
  EXPECT_EQ(r.status, 0u);
  EXPECT_EQ(r.exec_id, 77u);
  EXPECT_EQ(r.engine, kSp);
  EXPECT_EQ(r.pc, 5u);
  EXPECT_GT(r.end, r.start);
  const uint64_t end = r.end;
  launch();
  r = record(kSp);
  EXPECT_EQ(r.sequence, 2u);
  EXPECT_EQ(r.end, end) << "each launch counts from 0";
  EXPECT_EQ(semaphore(NEURON_SEM_LAUNCH), 0u);
  EXPECT_EQ(core_register(NEURON_CORE_CONTROL + NEURON_CORE_STATUS), 0x80022222u);
}

TEST_F(Launch, QueuesLaunchesThatFindTheCoreBusyAndTimesEachFromZero) {
  load_wrappers();
  launch();
  const uint64_t end = record(kSp).end;
  increment(NEURON_SEM_LAUNCH, 3);
  increment(NEURON_SEM_LAUNCH);
  ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  EXPECT_EQ(record(kSp).sequence, 5u);
  EXPECT_EQ(record(kSp).end, end);
}

// Its time was that of the launch before.
TEST_F(Launch, AUnitThatTheLaunchBeforeHasLeftIsThereFromTheBeginning) {
  constexpr unsigned kLeft = 30;
  load_wrappers({event({wait_ge(kLeft, 1)}, {update(NEURON_UPDATE_SUB, kLeft, false, 1)}),
                 loop(1, 0, 500, 1, 1), inst(NEURON_OP_NOP),
                 event({}, {update(NEURON_UPDATE_INC, kLeft)}), inst(NEURON_OP_RET)});
  increment(kLeft);
  launch();
  const uint64_t end = record(kSp).end;
  for (int next = 0; next < 3; ++next) {
    launch();
    EXPECT_EQ(record(kSp).end, end) << next;
  }
}

TEST_F(Launch, ReportsBusyTimeAndInstructionsOfEveryEngine) {
  for (unsigned e = 0; e < 5; ++e) set_up_ring(e, kTrace + e * kRingBytes);
  load_wrappers({inst(NEURON_OP_RET)}, {inst(NEURON_OP_NOP), inst(NEURON_OP_RET)});
  launch();
  for (unsigned e = 0; e < 5; ++e) {
    const neuron_notification n = notification(kTrace + e * kRingBytes, 0);
    EXPECT_EQ(n.word >> NEURON_NW_KIND_SHIFT & 15, unsigned{NEURON_NK_COMPLETE}) << e;
    EXPECT_EQ(n.time, record(kSp).end);
    // Others: event, call, nop, ret, event, branch. SP has retired all but complete and branch.
    EXPECT_EQ(n.info[2], 6u) << e;
    EXPECT_EQ(n.info[0], 6 * 45'714u) << e;
  }
}

TEST_F(Launch, GivesTheSameTimesFromAnyThreadAndHoweverOftenItPauses) {
  load_wrappers({loop(1, 0, 500, 1, 1), inst(NEURON_OP_NOP), inst(NEURON_OP_RET)});
  launch();
  const uint64_t end = record(kSp).end;
  increment(NEURON_SEM_LAUNCH);
  std::thread other([this] {
    while (chip_->run_group(0, std::chrono::steady_clock::now()) != chip::RunResult::kQuiescent) {
    }
  });
  other.join();
  EXPECT_EQ(record(kSp).end, end);
  // Without the promise to run it here, a worker of the chip does.
  chip_->write_register(NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + 4 * NEURON_SEM_LAUNCH, 1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (completions(kSp) != 3 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(record(kSp).sequence, 3u);
  EXPECT_EQ(record(kSp).end, end);
}

TEST_F(Launch, LetsTwoEnginesPlayPingPong) {
  const unsigned ping = 20;
  const unsigned pong = 21;
  load(kPe, {loop(1, 0, 10, 1, 1),
             event({wait_ge(ping, 1)},
                   {update(NEURON_UPDATE_DEC, ping, false), update(NEURON_UPDATE_INC, pong)}),
             inst(NEURON_OP_HALT)});
  load(kSp,
       {loop(1, 0, 10, 1, 2), event({}, {update(NEURON_UPDATE_INC, ping)}),
        event({wait_ge(pong, 1)}, {update(NEURON_UPDATE_DEC, pong, false)}), inst(NEURON_OP_HALT)});
  ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  EXPECT_EQ(state(kPe), NEURON_STATE_HALTED);
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
  EXPECT_EQ(semaphore(ping) + semaphore(pong), 0u);
  // Each round: two instructions of SP and one of PE, and two updates on their way.
  EXPECT_GT(time(), 10u * (2 * 45'714 + 2 * 50'000));
}

TEST_F(Launch, WaitsForTwoConditionsRegistersAndEvents) {
  isa::Wait by_register{20, NEURON_WAIT_EQ, false, true, 3};
  isa::Wait by_event{9, NEURON_WAIT_EQ, true, false, 1};
  load(kSp, {mov(3, 2), event({by_register, by_event}), mov(1, 1), inst(NEURON_OP_HALT)});
  run();
  EXPECT_EQ(state(kSp), NEURON_STATE_WAITING);
  EXPECT_EQ(get(kSp, NEURON_ENG_WAITING),
            20u | NEURON_WAIT_EQ << 8 | NEURON_SEM_SLOT_REG | 3u << 16);
  increment(20, 2);
  run();
  EXPECT_EQ(state(kSp), NEURON_STATE_WAITING);
  EXPECT_EQ(get(kSp, NEURON_ENG_WAITING),
            9u | NEURON_WAIT_EQ << 8 | NEURON_SEM_SLOT_EVENT | 1u << 16);
  set_core(NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_EVENT + 4 * 9, 1);
  run();
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
}

TEST_F(Launch, ReportsADeadlockAtOnceAndNamesTheWaits) {
  load_wrappers({event({wait_ge(33, 5)}), inst(NEURON_OP_RET)});
  const auto begin = std::chrono::steady_clock::now();
  increment(NEURON_SEM_LAUNCH);
  EXPECT_EQ(run(60'000), chip::RunResult::kQuiescent);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(record(kSp).sequence, 0u);
  EXPECT_NE(core_register(NEURON_CORE_CONTROL + NEURON_CORE_STATUS) & 1u << 31, 0u);
  const std::string text = chip_->describe_core(0);
  EXPECT_NE(text.find("deadlocked"), std::string::npos) << text;
  EXPECT_NE(text.find("SP: waiting at pc 7"), std::string::npos) << text;
  EXPECT_NE(text.find("waits for semaphore 33 >= 5, which is 0"), std::string::npos) << text;
  EXPECT_NE(text.find("PE: waiting at pc 0"), std::string::npos) << text;
}

TEST_F(Launch, StopsAnExecutionAtItsModelTimeLimit) {
  load_wrappers({branch(0)});
  reinterpret_cast<neuron_launch_record*>(memory(kLaunch, 64))->time_limit = 5'000'000;
  launch();
  EXPECT_EQ(record(kSp).status, unsigned{NEURON_FAULT_TIME_LIMIT});
  EXPECT_EQ(fault(kSp), unsigned{NEURON_FAULT_TIME_LIMIT});
  EXPECT_GT(record(kSp).end, 5'000'000u);
  EXPECT_LT(record(kSp).end, 5'100'000u);
}

TEST_F(Launch, ReturnsAtTheHostsDeadlineAndCanGoOn) {
  load(kSp, {branch(0)});
  EXPECT_EQ(run(5), chip::RunResult::kDeadline);
  EXPECT_EQ(run(5), chip::RunResult::kDeadline);
  set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_STOP);
  EXPECT_EQ(run(), chip::RunResult::kQuiescent);
  EXPECT_EQ(state(kSp), NEURON_STATE_STOPPED);
}

TEST_F(Launch, TakesCommandsWhileAnotherThreadRunsTheGroup) {
  load(kSp, {alu(1, 1, NEURON_ALU_ADD, 1), branch(-1)});
  std::thread runner([this] { run(20'000); });
  // Reads of a running core wait for the end of an event only.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (get(kSp, NEURON_ENG_RETIRED_LO) < 1000 && std::chrono::steady_clock::now() < deadline) {
  }
  EXPECT_EQ(state(kSp), NEURON_STATE_RUNNING);
  set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_STOP);
  runner.join();
  EXPECT_EQ(state(kSp), NEURON_STATE_STOPPED);
  EXPECT_GE(get(kSp, NEURON_ENG_RETIRED_LO), 1000u);
}

TEST_F(Launch, StepsStopsAtBreakpointsAndContinues) {
  Instruction marked = mov(3, 3);
  marked.brk = true;
  load(kSp, {mov(1, 1), mov(2, 2), marked, mov(4, 4), inst(NEURON_OP_BRK), inst(NEURON_OP_HALT)});
  set(kSp, NEURON_ENG_BREAK0, 1u << 31 | 1);
  run();
  EXPECT_EQ(state(kSp), NEURON_STATE_BREAK);
  EXPECT_EQ(get(kSp, NEURON_ENG_PC), 1u);
  EXPECT_EQ(register_of(kSp, 2), 0u);
  set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_STEP);
  run();
  EXPECT_EQ(state(kSp), NEURON_STATE_STOPPED);
  EXPECT_EQ(register_of(kSp, 2), 2u);
  set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_CONTINUE);
  run();
  // The mark was at the program counter that CONTINUE began with: ignored once.
  EXPECT_EQ(register_of(kSp, 3), 3u);
  EXPECT_EQ(get(kSp, NEURON_ENG_PC), 4u);
  EXPECT_EQ(state(kSp), NEURON_STATE_BREAK);
  set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_CONTINUE);
  run();
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
}

TEST_F(Launch, AbortEndsAWaitAndResetMakesTheEngineUsableAgain) {
  load(kSp, {event({wait_ge(40, 1)}), inst(NEURON_OP_HALT)});
  run();
  set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_ABORT);
  EXPECT_EQ(state(kSp), NEURON_STATE_FAULT);
  EXPECT_EQ(fault(kSp), unsigned{NEURON_FAULT_ABORTED});
  EXPECT_EQ(record(kSp).status, unsigned{NEURON_FAULT_ABORTED});
  set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_RESET);
  EXPECT_EQ(state(kSp), NEURON_STATE_IDLE);
  EXPECT_EQ(fault(kSp), 0u);
  load_and_run(kSp, {mov(1, 8), inst(NEURON_OP_HALT)});
  EXPECT_EQ(register_of(kSp, 1), 8u);
}

TEST_F(Launch, ResetOfAnEngineForgetsHowFarItsRandomNumbersWere) {
  Instruction random = inst(NEURON_OP_RNG);
  random.dst = sbuf(1, 0, NEURON_DTYPE_U32, 4);
  const auto draw = [&] {
    load_and_run(NEURON_ENGINE_DVE, {random, inst(NEURON_OP_HALT)});
    EXPECT_EQ(state(NEURON_ENGINE_DVE), NEURON_STATE_HALTED);
    return std::bit_cast<uint32_t>(sbuf_float(0, 0));
  };
  const uint32_t first = draw();
  EXPECT_NE(draw(), first);
  set(NEURON_ENGINE_DVE, NEURON_ENG_CONTROL, NEURON_CMD_RESET);
  EXPECT_EQ(draw(), first);
}

TEST_F(Launch, CoreResetClearsSemaphoresEnginesAndMemory) {
  load_wrappers();
  increment(50, 4);
  set_sbuf(3, 16, 1.0f);
  set_core(NEURON_CORE_CONTROL + NEURON_CORE_FILL, 0x40000000);
  set_core(NEURON_CORE_CONTROL + NEURON_CORE_COMMAND, NEURON_CMD_RESET);
  EXPECT_EQ(semaphore(50), 0u);
  EXPECT_EQ(core_register(NEURON_CORE_CONTROL + NEURON_CORE_STATUS), 0x80000000u);
  EXPECT_EQ(sbuf_float(3, 16), 2.0f);
  EXPECT_EQ(psum_float(127, 0x3FFC), 2.0f);
  load_wrappers();
  launch();
  EXPECT_EQ(record(kSp).status, 0u);
}

TEST_F(Launch, RefusesConfigurationOfARunningEngine) {
  load(kSp, {event({wait_ge(40, 1)}), inst(NEURON_OP_HALT)});
  run();
  set_up_ring(NEURON_NQ_SLOT_ERROR, kErrors);
  set(kSp, NEURON_ENG_PROG_COUNT, 99);
  EXPECT_EQ(get(kSp, NEURON_ENG_PROG_COUNT), 2u);
  EXPECT_NE(get(kSp, NEURON_ENG_STATUS) & 1u << 9, 0u);
  EXPECT_EQ(notification(kErrors, 0).word >> NEURON_NW_CODE_SHIFT & 0xFF,
            unsigned{NEURON_FAULT_CTRL_BUSY});
}

}  // namespace
}  // namespace neuron::core
