// SPDX-License-Identifier: Apache-2.0
// CC cores: programs, time across cores and chips, and waiting for others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "driver/emulator/neuroncore/sequencer/cost_model.h"
#include "tests/unit/driver/emulator/neuroncore/ring_machine.h"

namespace neuron::core {
namespace {

using ::testing::HasSubstr;
using Member = RingMachine::Member;

// Launches every member `times` times, each in a thread of its own that dawdles now and then, and
// gives the model times at which each launch of each member ended.
std::vector<std::vector<uint64_t>> launch_all(RingMachine& machine, unsigned times, unsigned seed) {
  std::vector<std::vector<uint64_t>> ends(machine.members().size());
  std::vector<std::thread> threads;
  for (unsigned n = 0; n < machine.members().size(); ++n) {
    threads.emplace_back([&, n] {
      std::mt19937 random(seed * 131 + n);
      const Member& me = machine.members()[n];
      for (unsigned k = 0; k < times; ++k) {
        if (random() % 3 == 0) {
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
        }
        const unsigned before = machine.completions(me);
        machine.launch(me);
        EXPECT_EQ(machine.run(me), chip::RunResult::kQuiescent) << me.chip->describe_core(me.core);
        EXPECT_EQ(machine.completions(me), before + 1) << me.chip->describe_core(me.core);
        ends[n].push_back(machine.record(me).end);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

TEST(CcCore, PassesDataToTheNextChipWithItsSemaphoreBehindIt) {
  RingMachine machine(2, 1, {});
  machine.load(3, 65536);
  for (unsigned n = 0; n < 2; ++n) {
    std::memset(machine.memory(machine.members()[n], RingMachine::kFrom, 65536), 0x40 + n, 65536);
  }
  launch_all(machine, 1, 0);
  for (unsigned n = 0; n < 2; ++n) {
    const Member& me = machine.members()[n];
    EXPECT_EQ(
        std::memcmp(machine.memory(me, RingMachine::kTo, 65536),
                    machine.memory(machine.members()[1 - n], RingMachine::kFrom, 65536), 65536),
        0);
  }
}

TEST(CcCore, HasTheTimeOfItsWayAndOfItsBytes) {
  const auto end_of = [](chip::LinkTiming timing, unsigned blocks, uint32_t bytes) {
    RingMachine machine(2, 1, timing);
    machine.load(blocks, bytes);
    return launch_all(machine, 1, 0)[0][0];
  };
  constexpr uint64_t kRate = 50'000'000'000;
  const uint64_t base = end_of({1'000'000, kRate}, 4, 65536);
  // Each block is waited for: four ways of 2 us more.
  EXPECT_EQ(end_of({3'000'000, kRate}, 4, 65536), base + 4 * 2'000'000);
  // At 10 GB/s the link needs 6.554 us for a block and its count, the DMA engine 3.94 us.
  const uint64_t slow = end_of({1'000'000, 10'000'000'000}, 4, 65536);
  const isa::Timing& timing = isa::timing_of(2);
  const uint64_t engine = isa::transfer_time(65536 + isa::least_transfer(timing), timing);
  EXPECT_EQ(slow, base + 4 * (6'554'000 - engine));
}

TEST(CcCore, GivesTheSameTimesWhateverTheHostDoes) {
  // 20 launches without a common beginning: who is ahead sends into the next launch of others.
  RingMachine machine(4, 1, {});
  machine.load(5, 4096, 40);
  const auto ends = launch_all(machine, 20, 1);
  for (const auto& of_member : ends) {
    for (const uint64_t end : of_member) EXPECT_EQ(end, ends[0][0]);
  }
  RingMachine again(4, 1, {});
  again.load(5, 4096, 40);
  EXPECT_EQ(launch_all(again, 5, 2)[3][4], ends[0][0]);
}

TEST(CcCore, OfOneChipGiveTheSameTimesToo) {
  RingMachine machine(1, 2, {});
  machine.load(5, 4096, 100);
  const auto ends = launch_all(machine, 20, 3);
  for (const auto& of_member : ends) {
    for (const uint64_t end : of_member) EXPECT_EQ(end, ends[0][0]);
  }
}

TEST(CcCore, Of32CoresInARingGiveTheSameTimesOnAFewHostCores) {
  RingMachine machine(16, 2, {});
  machine.load(4, 4096);
  const auto ends = launch_all(machine, 4, 4);
  for (unsigned n = 0; n < 32; ++n) {
    // Those whose predecessor is on the same chip have a shorter way, but what they send on depends
    // on everybody.
    for (const uint64_t end : ends[n]) EXPECT_EQ(end, ends[n][0]) << n;
    EXPECT_EQ(ends[n][0], ends[n % 2][0]) << n;
  }
}

TEST(CcCore, WorksWhileEnginesCompute) {
  const auto end_of = [](unsigned blocks, unsigned busy) {
    RingMachine machine(1, 1, {});
    machine.load(blocks, 65536, busy);
    return launch_all(machine, 1, 0)[0][0];
  };
  const uint64_t communication = end_of(8, 0);
  const uint64_t compute = end_of(0, 500);
  const uint64_t both = end_of(8, 500);
  EXPECT_GT(communication, 20'000'000u);
  EXPECT_GT(compute, 20'000'000u);
  EXPECT_LT(both, std::max(communication, compute) + 2'000'000);
}

TEST(CcCore, RefusesWhatHasADatapath) {
  RingMachine machine(1, 1, {});
  const Member& me = machine.members()[0];
  Instruction i = inst(NEURON_OP_MEMSET);
  i.dst = sbuf(1, 0, NEURON_DTYPE_F32, 4);
  i.engines = 0x3F;
  machine.start(me, RingMachine::topsp(me, 2) + NEURON_CC_ENGINE, 1, {i});
  (void)machine.run(me);
  EXPECT_EQ(machine.cc_register(me, 2, NEURON_ENG_EXC_CODE), unsigned{NEURON_FAULT_WRONG_ENGINE});
  EXPECT_EQ(machine.cc_register(me, 2, NEURON_ENG_STATUS) & 0xF, unsigned{NEURON_STATE_FAULT});
  EXPECT_EQ(machine.cc_register(me, 2, NEURON_ENG_ID), 0x4E0E0205u);
  const uint32_t faults = me.chip->read_register(NEURON_CORE_CONTROL + NEURON_CORE_FAULTS);
  EXPECT_EQ(faults, 1u << 7);
  me.chip->reset(1);
  EXPECT_EQ(machine.cc_register(me, 2, NEURON_ENG_EXC_CODE), 0u);
}

TEST(CcCore, ThatWaitsForAPeerIsNoDeadlockAndSaysWhatItWaitsFor) {
  RingMachine machine(2, 1, {});
  machine.load(1, 64);
  const Member& me = machine.members()[0];
  machine.launch(me);
  EXPECT_EQ(machine.run(me, 30), chip::RunResult::kDeadline);
  const std::string text = me.chip->describe_core(0);
  EXPECT_THAT(text, HasSubstr("waiting for another core or chip"));
  EXPECT_THAT(text, HasSubstr("CC core 0: waiting at pc 3 of 6"));
  EXPECT_THAT(text, HasSubstr("waits for semaphore 16 >= 1, which is 0"));
  EXPECT_THAT(text, HasSubstr("waits for semaphore 240 >= 1, which is 0"));
  const uint32_t status = me.chip->read_register(NEURON_CORE_CONTROL + NEURON_CORE_STATUS);
  EXPECT_EQ(status & NEURON_CORE_STATUS_AWAITS, NEURON_CORE_STATUS_AWAITS);
  // The other one comes late, and both go on.
  machine.launch(machine.members()[1]);
  EXPECT_EQ(machine.run(machine.members()[1]), chip::RunResult::kQuiescent);
  EXPECT_EQ(machine.run(me), chip::RunResult::kQuiescent);
  EXPECT_EQ(machine.completions(me), 1u);
}

TEST(CcCore, ThatWaitsForAPeerIsLeftAtOnceWhenItIsAbortedResetOrWithoutPower) {
  for (const int how : {0, 1, 2}) {
    RingMachine machine(2, 1, {});
    machine.load(1, 64);
    const Member& me = machine.members()[0];
    machine.launch(me);
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const uint64_t block = NEURON_V2_TOPSP_WINDOW(0) + NEURON_CC_ENGINE;
      if (how == 0) me.chip->write_register(block + NEURON_ENG_CONTROL, NEURON_CMD_ABORT);
      if (how == 1) me.chip->reset(1);
      if (how == 2) me.chip->set_power(false);
    });
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(machine.run(me, 20'000), chip::RunResult::kQuiescent) << how;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << how;
    other.join();
    if (how == 0) {
      EXPECT_EQ(machine.record(me).status, unsigned{NEURON_FAULT_ABORTED});
    }
  }
}

TEST(CcCore, ThatWaitsToBeAskedLetsADeadlockBeSeen) {
  RingMachine machine(1, 1, {});
  const Member& me = machine.members()[0];
  // SP waits for what nobody will do.
  machine.start(me, RingMachine::core_window(me) + NEURON_CORE_ENGINE(NEURON_ENGINE_SP), 0,
                {wait_and_take(NEURON_SEM_LAUNCH), wait_and_take(30)});
  Instruction go = cc(wait_and_take(NEURON_CC_SEM_GO));
  machine.start(me, RingMachine::topsp(me, 0) + NEURON_CC_ENGINE, 1, {go});
  machine.launch(me);
  EXPECT_EQ(machine.run(me, 2000), chip::RunResult::kQuiescent);
  EXPECT_THAT(me.chip->describe_core(0), HasSubstr("deadlocked"));
}

TEST(CcCore, OfCoresThatShareAWorkerLetEachOtherGoOn) {
  RingMachine machine(1, 2, {}, 1);
  machine.load(20, 64);
  for (const Member& me : machine.members()) machine.launch(me, false);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (const Member& me : machine.members()) {
    while (machine.completions(me) == 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_EQ(machine.completions(me), 1u) << me.chip->describe_core(me.core);
  }
}

TEST(CcCore, FaultsWithTheIdOfAChipToWhichNoLinkLeads) {
  RingMachine machine(2, 1, {});
  machine.load(1, 64);
  machine.fabric().set_link(0, 1, false);
  const Member& me = machine.members()[0];
  machine.launch(me);
  EXPECT_EQ(machine.run(me, 2000), chip::RunResult::kQuiescent);
  EXPECT_EQ(machine.record(me).status, unsigned{NEURON_FAULT_LINK});
  EXPECT_EQ(machine.record(me).engine, unsigned{NEURON_ENGINE_CC});
  EXPECT_EQ(machine.record(me).info, NEURON_V2_PEER(1) + RingMachine::kTo);
}

// CC core 0 of core 0, on each generation.
class CollectiveCore : public EveryGeneration {
 protected:
  uint64_t topsp() const {
    return GetParam() == 2 ? NEURON_V2_TOPSP_WINDOW(0) : NEURON_V3_TOPSP_WINDOW(0);
  }
  uint64_t topsp_device() const {
    return GetParam() == 2 ? NEURON_V2_BAR0_DEVICE_BASE + topsp() : NEURON_V3_TOPSP_DEVICE(0);
  }
  uint64_t block() const { return topsp() + NEURON_CC_ENGINE; }
  void start_cc(std::vector<Instruction> program) {
    for (Instruction& i : program) i = cc(i);
    place(NEURON_ENGINE_CC, program);
    set_core(block() + NEURON_ENG_PROG_LO, kCode + NEURON_ENGINE_CC * 0x10000);
    set_core(block() + NEURON_ENG_PROG_HI, 0);
    set_core(block() + NEURON_ENG_PROG_COUNT, static_cast<uint32_t>(program.size()));
    set_core(block() + NEURON_ENG_CONTROL, NEURON_CMD_START);
  }
  unsigned cc_state() { return core_register(block() + NEURON_ENG_STATUS) & 15; }
};

INSTANTIATE_TEST_SUITE_P(Generations, CollectiveCore, kGenerations);

// s0 is the step and s1 the peer: numbers and registers, in the entries of the trace, with what a
// trace says of every instruction, and nothing else changes.
TEST_P(CollectiveCore, CcAdvanceMarksItsStepInTheTrace) {
  const uint64_t queue =
      (GetParam() == 2 ? NEURON_V2_TOPSP_NOTIFICATION(0) : NEURON_V3_TOPSP_NOTIFICATION(0)) +
      NEURON_NQ_BASE(NEURON_NQ_SLOT_TRACE(0));
  set_core(queue + NEURON_NQ_ADDRESS_LO, static_cast<uint32_t>(kTrace));
  set_core(queue + NEURON_NQ_ADDRESS_HI, 0);
  set_core(queue + NEURON_NQ_SIZE, kRingBytes);
  set_core(block() + NEURON_ENG_MODE, 2);
  const auto advance = [](isa::Scalar step, isa::Scalar peer) {
    Instruction i = inst(NEURON_OP_CC_ADVANCE);
    i.scalar0 = step;
    i.scalar1 = peer;
    i.debug = 9;
    return i;
  };
  start_cc({advance(number(3), number(1)), mov(4, 0x1234), mov(5, 0x5678), advance(reg(4), reg(5)),
            advance(number(0xFFFF), number(0x1FFFF)), inst(NEURON_OP_HALT)});
  ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  EXPECT_EQ(cc_state(), NEURON_STATE_HALTED)
      << isa::fault_name(core_register(block() + NEURON_ENG_EXC_CODE));
  const struct {
    unsigned entry;
    uint32_t mark;  // step in the upper half, the lower half of the peer
  } marks[] = {{0, 0x00030001}, {3, 0x12345678}, {4, 0xFFFFFFFF}};
  for (const auto& m : marks) {
    const neuron_notification n = notification(kTrace, m.entry);
    EXPECT_EQ(n.word >> NEURON_NW_KIND_SHIFT & 15, unsigned{NEURON_NK_TRACE});
    EXPECT_EQ(n.word >> NEURON_NW_ENGINE_SHIFT & 15, unsigned{NEURON_ENGINE_CC});
    EXPECT_EQ(n.word >> NEURON_NW_OPCODE_SHIFT & 0xFFF, unsigned{NEURON_OP_CC_ADVANCE});
    EXPECT_EQ(n.info[2], m.mark) << m.entry;
    EXPECT_EQ(n.pc, m.entry);
    EXPECT_EQ(n.debug, 9U);
  }
  EXPECT_EQ(notification(kTrace, 1).info[2], 0U) << "mov marks nothing";
  for (unsigned r = 0; r < NEURON_REGISTERS; ++r) {
    const uint32_t expected = r == 4 ? 0x1234 : r == 5 ? 0x5678 : 0;
    EXPECT_EQ(core_register(block() + NEURON_ENG_REG0 + 4 * r), expected) << r;
  }
}

// `write` by another name: words in memory, and the count that a CC core waits for.
TEST_P(CollectiveCore, CcTriggerWritesTheWordsThatStartIt) {
  start_cc(
      {wait_and_take(NEURON_CC_SEM_GO, 2), write_word(kData + 0x100, 77), inst(NEURON_OP_HALT)});
  Instruction words = write_word(kData, 5, 3, 8);
  words.opcode = NEURON_OP_CC_TRIGGER;
  Instruction go = write_word(topsp_device() + NEURON_SEM_BLOCK_INC + 4 * NEURON_CC_SEM_GO, 2);
  go.opcode = NEURON_OP_CC_TRIGGER;
  ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  EXPECT_EQ(cc_state(), NEURON_STATE_WAITING);
  EXPECT_EQ(word(kData + 0x100), 0U);
  load_and_run(NEURON_ENGINE_SP, {words, go, inst(NEURON_OP_HALT)});
  EXPECT_EQ(state(NEURON_ENGINE_SP), NEURON_STATE_HALTED);
  for (unsigned n = 0; n < 8; ++n) EXPECT_EQ(word(kData + 4 * n), n % 2 == 0 && n < 6 ? 5U : 0U);
  EXPECT_EQ(cc_state(), NEURON_STATE_HALTED);
  EXPECT_EQ(word(kData + 0x100), 77U);
}

}  // namespace
}  // namespace neuron::core
