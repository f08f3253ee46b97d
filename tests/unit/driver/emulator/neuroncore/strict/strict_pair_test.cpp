// SPDX-License-Identifier: Apache-2.0
// Strict mode of two programs of a logical core: races in the device memory that both share are
// trapped, and what the two cores tell each other is order.
#include "driver/emulator/neuroncore/strict/strict_pair.h"

#include <gmock/gmock.h>

#include "tests/unit/driver/emulator/neuroncore/pair_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

constexpr unsigned kTell = 9, kMeet = 8, kMoved = 40;
constexpr uint32_t kBytes = 512;
constexpr uint64_t kWordOne = kData + 0x1F00000;  // a word that is 1
constexpr uint64_t kPair = 1000;

// Two programs on SP. Each begins with its launch and ends with `complete`.
class StrictPairOnCores : public PairMachine {
 protected:
  void SetUp() override { begin(); }
  // A new chip.
  void begin() {
    PairMachine::SetUp();
    const uint32_t one = 1;
    std::memcpy(memory(kWordOne, 4), &one, 4);
    for (unsigned core = 0; core < 2; ++core) {
      packets_[core] = 0;
      set_up(core);
    }
  }
  void set_up(unsigned core) {
    for (const uint32_t half : {NEURON_UDMA_M2S, NEURON_UDMA_S2M}) {
      const uint64_t q = NEURON_V3_UDMA(core * 16) + NEURON_UDMA_QUEUE(half, 0);
      set_core(q + NEURON_UDMAQ_BASE_LO,
               static_cast<uint32_t>(ring_address(core * 16, 0, half == NEURON_UDMA_S2M)));
      set_core(q + NEURON_UDMAQ_BASE_HI, 0);
      set_core(q + NEURON_UDMAQ_LENGTH, 64);
      set_core(q + NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RUNNING);
    }
    for (const uint32_t half : {NEURON_UDMA_M2S, NEURON_UDMA_S2M}) {
      set_core(NEURON_V3_UDMA(core * 16) + half + NEURON_UDMA_CHANGE_STATE, 1);
    }
  }
  // A transfer of queue 0 of the core's DMA engine 0, and then the words that it increments.
  Instruction transfer(unsigned core, uint64_t from, uint64_t to,
                       const std::vector<uint64_t>& increments, uint32_t bytes = kBytes) {
    add_copy(core * 16, 0, packets_[core]++, from, to, bytes, true);
    for (const uint64_t word : increments) {
      add_copy(core * 16, 0, packets_[core]++, kWordOne, word, 4, true);
    }
    Instruction i = trigger(0, 1, static_cast<unsigned>(1 + increments.size()));
    const uint64_t base = chip_->bus().layout().device_of(NEURON_V3_UDMA(core * 16));
    i.trigger.m2s = base + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, 0) + NEURON_UDMAQ_TAIL_INC;
    i.trigger.s2m = base + NEURON_UDMA_QUEUE(NEURON_UDMA_S2M, 0) + NEURON_UDMAQ_TAIL_INC;
    return i;
  }
  static Instruction take(unsigned semaphore, unsigned count = 1) {
    Instruction i = inst(NEURON_OP_EVENT);
    i.wait[0] = wait_ge(semaphore, count);
    i.update[0] = update(NEURON_UPDATE_SUB, semaphore, false, count);
    return i;
  }
  // Transfers, and waits until it is done.
  std::vector<Instruction> transferred(unsigned core, uint64_t from, uint64_t to,
                                       uint32_t bytes = kBytes) {
    return {transfer(core, from, to, {increment_of(core, kMoved)}, bytes), take(kMoved)};
  }
  static Instruction meet(unsigned opcode) {
    Instruction i = inst(opcode);
    i.scalar0 = number(kMeet);
    i.wait[1] = wait_ge(kMeet, 1);
    i.update[1] = update(NEURON_UPDATE_DEC, kMeet);
    return i;
  }
  void program(unsigned core, const std::vector<std::vector<Instruction>>& parts,
               uint64_t pair = kPair, unsigned launches = 1) {
    neuron_launch_record record{};
    record.pair = pair;
    const uint64_t launch = kLaunch + core * 64;
    std::memcpy(memory(launch, sizeof(record)), &record, sizeof(record));
    set_core(at(core, kSp, NEURON_ENG_LAUNCH_LO), static_cast<uint32_t>(launch));
    std::vector<Instruction> all = {take(NEURON_SEM_LAUNCH)};
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    all.push_back(inst(NEURON_OP_COMPLETE));
    if (launches > 1) all.push_back(branch(-static_cast<int>(all.size())));
    all.push_back(done(kSp));
    start(core, kSp, all);
    set_core(NEURON_V3_CORE_WINDOW(core) + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC +
                 4 * NEURON_SEM_LAUNCH,
             launches);
  }
  // One core as far as it comes, then the other, until both have ended.
  void run_in_turns(unsigned first = 0) {
    for (unsigned turn = 0; turn < 8; ++turn) {
      chip_->run_slice((first + turn) % 2,
                       std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
    }
  }
  void expect_race(unsigned core, uint64_t address, bool other_wrote) {
    EXPECT_EQ(fault_of(core, kSp), unsigned{NEURON_FAULT_RACE}) << chip_->describe_core(core);
    const uint32_t where = chip_->read_register(at(core, kSp, NEURON_ENG_EXC_ADDR_LO));
    const uint32_t other = chip_->read_register(at(core, kSp, NEURON_ENG_EXC_ADDR_HI));
    const uint32_t high = chip_->read_register(at(core, kSp, NEURON_ENG_EXC_INFO));
    EXPECT_NE(other & NEURON_STRICT_PEER, 0u);
    EXPECT_EQ(uint64_t{high} << NEURON_STRICT_ADDRESS_BITS | (where & NEURON_STRICT_ADDRESS_MASK),
              address);
    EXPECT_EQ((where & NEURON_STRICT_OTHER_WROTE) != 0, other_wrote);
    EXPECT_EQ(other >> NEURON_STRICT_ENGINE_SHIFT & 15, kSp);
    EXPECT_EQ(fault_of(1 - core, kSp), unsigned{NEURON_FAULT_NONE}) << "one of the two is trapped";
  }
  void expect_no_race() {
    expect_halted(0, kSp);
    expect_halted(1, kSp);
  }

  static constexpr uint64_t kShared = kData, kMine = kData + 0x100000;
  std::array<unsigned, 2> packets_{};
};

TEST_F(StrictPairOnCores, ATransferThatReadsWhatTheOtherCoreWritesIsTrappedWhicheverComesFirst) {
  for (const unsigned first : {0u, 1u}) {
    begin();
    program(0, {transferred(0, kMine, kShared)});
    program(1, {transferred(1, kShared + 256, kMine + 0x10000)});
    run_in_turns(first);
    expect_race(1 - first, kShared + 256, first == 0);
    const uint32_t other =
        chip_->read_register(at(1 - first, kSp, NEURON_ENG_EXC_ADDR_HI)) & NEURON_STRICT_PC_MASK;
    EXPECT_EQ(other, 1u) << "the instruction that rang for the other core's transfer";
  }
}

TEST_F(StrictPairOnCores, AReadThatTheOtherCoreOverwritesIsTrapped) {
  program(0, {transferred(0, kShared, kMine)});
  program(1, {transferred(1, kMine + 0x10000, kShared)});
  run_in_turns(0);
  expect_race(1, kShared, false);
}

TEST_F(StrictPairOnCores, AStoreIntoWhatTheOtherCoreReadsIsTrappedBeforeItHasAnEffect) {
  const uint32_t before = 77;
  std::memcpy(memory(kShared + 8, 4), &before, 4);
  program(0, {transferred(0, kShared, kMine)});
  program(1, {{mov(2, 5), store(kShared + 8, 2)}});
  run_in_turns(0);
  expect_race(1, kShared + 8, false);
  EXPECT_EQ(word(kShared + 8), before);
}

TEST_F(StrictPairOnCores, ReadsAndOtherBytesAreNoRace) {
  program(0, {transferred(0, kShared, kMine), transferred(0, kMine, kShared + 0x1000)});
  program(1, {transferred(1, kShared, kMine + 0x10000),
              transferred(1, kMine + 0x10000, kShared + 0x1000 + kBytes),
              transferred(1, kMine + 0x10000, kShared + 0x1000 - kBytes)});
  run_in_turns(0);
  expect_no_race();
}

TEST_F(StrictPairOnCores, ABarrierIsOrder) {
  for (const unsigned first : {0u, 1u}) {
    begin();
    program(0, {transferred(0, kMine, kShared), {meet(NEURON_OP_BARRIER)}});
    program(1, {{meet(NEURON_OP_BARRIER)}, transferred(1, kShared, kMine + 0x10000)});
    run_in_turns(first);
    expect_no_race();
  }
}

TEST_F(StrictPairOnCores, ABarrierInFrontOfTheWriteIsNone) {
  program(0, {{meet(NEURON_OP_BARRIER)}, transferred(0, kMine, kShared)});
  program(1, {{meet(NEURON_OP_BARRIER)}, transferred(1, kShared, kMine + 0x10000)});
  run_in_turns(0);
  EXPECT_EQ((fault_of(0, kSp) == NEURON_FAULT_RACE) + (fault_of(1, kSp) == NEURON_FAULT_RACE), 1);
}

TEST_F(StrictPairOnCores, AWriteToASemaphoreOfTheOtherCoreIsOrder) {
  for (const unsigned first : {0u, 1u}) {
    begin();
    program(0, {transferred(0, kMine, kShared), {write_word(increment_of(1, kTell), 1)}});
    program(1, {{take(kTell)}, transferred(1, kShared, kMine + 0x10000)});
    run_in_turns(first);
    expect_no_race();
  }
}

TEST_F(StrictPairOnCores, ATransferThatIncrementsASemaphoreOfTheOtherCoreBehindItsDataIsOrder) {
  for (const unsigned first : {0u, 1u}) {
    begin();
    program(0, {{transfer(0, kMine, kShared, {increment_of(1, kTell), increment_of(0, kMoved)}),
                 take(kMoved)}});
    program(1, {{take(kTell)}, transferred(1, kShared, kMine + 0x10000)});
    run_in_turns(first);
    expect_no_race();
  }
}

TEST_F(StrictPairOnCores, ASemaphoreThatIsRaisedBeforeTheDataIsThereIsNoOrder) {
  program(0, {{transfer(0, kMine, kShared, {increment_of(0, kMoved)}),
               write_word(increment_of(1, kTell), 1), take(kMoved)}});
  program(1, {{take(kTell)}, transferred(1, kShared, kMine + 0x10000)});
  run_in_turns(0);
  EXPECT_EQ((fault_of(0, kSp) == NEURON_FAULT_RACE) + (fault_of(1, kSp) == NEURON_FAULT_RACE), 1);
}

// Also where the other core has raised the semaphore twice by the time this one looks.
TEST_F(StrictPairOnCores, AUnitOfASemaphoreOrdersWhatComesBeforeItAndNotWhatComesBeforeTheNext) {
  for (const bool waits_for_both : {true, false}) {
    begin();
    program(0, {transferred(0, kMine, kShared),
                {write_word(increment_of(1, kTell), 1)},
                transferred(0, kMine, kShared + 0x1000),
                {write_word(increment_of(1, kTell), 1)}});
    program(1, {{take(kTell)},
                transferred(1, kShared, kMine + 0x10000),
                {waits_for_both ? take(kTell) : inst(NEURON_OP_NOP)},
                transferred(1, kShared + 0x1000, kMine + 0x10000)});
    run_in_turns(0);
    if (waits_for_both) {
      expect_no_race();
    } else {
      expect_race(1, kShared + 0x1000, true);
    }
  }
}

// SP of core 1 is told, and Pool of core 1 moves the data when SP has told it in its turn.
TEST_F(StrictPairOnCores, OrderGoesOnFromEngineToEngine) {
  for (const bool told : {true, false}) {
    begin();
    Instruction pass = inst(NEURON_OP_EVENT);
    pass.update[0] = update(NEURON_UPDATE_INC, 50);
    program(0, {transferred(0, kMine, kShared), {write_word(increment_of(1, kTell), 1)}});
    Instruction moves = transfer(1, kShared, kMine + 0x10000, {increment_of(1, kMoved)});
    start(1, kPool, {take(50), moves, done(kPool)});
    program(1, {{told ? take(kTell) : pass, told ? pass : take(kTell), take(kMoved)}});
    run_in_turns(0);
    if (told) {
      expect_no_race();
    } else {
      EXPECT_EQ(fault_of(1, kPool), unsigned{NEURON_FAULT_RACE});
    }
  }
}

// A word that one core stores and the other one polls is order, too, as within a core.
TEST_F(StrictPairOnCores, AWordThatIsStoredBehindTheDataAndLoadedBeforeItIsOrder) {
  const uint32_t no = 0;
  std::memcpy(memory(kShared + 0x2000, 4), &no, 4);
  program(0, {transferred(0, kMine, kShared), {mov(2, 1), store(kShared + 0x2000, 2)}});
  program(1, {{load_word(3, kShared + 0x2000), branch(-1, NEURON_BRANCH_NE, 3, 1)},
              transferred(1, kShared, kMine + 0x10000)});
  run_in_turns(0);
  expect_no_race();
}

TEST_F(StrictPairOnCores, CoresThatWorkAloneAreNotCompared) {
  program(0, {transferred(0, kMine, kShared)}, 0);
  program(1, {transferred(1, kShared, kMine + 0x10000)}, 0);
  run_in_turns(0);
  expect_no_race();
  begin();
  program(0, {transferred(0, kMine, kShared)}, kPair);
  program(1, {transferred(1, kShared, kMine + 0x10000)}, kPair + 20);
  run_in_turns(0);
  expect_no_race();
}

// The first of two launches of core 0 and the second of core 1 are of different executions.
TEST_F(StrictPairOnCores, OnlyAccessesOfOneExecutionRace) {
  for (const bool same : {false, true}) {
    begin();
    // The rounds differ by a register that counts them.
    const auto in_round = [&](unsigned core, unsigned round, const std::vector<Instruction>& part) {
      std::vector<Instruction> all = {alu(4, 4, NEURON_ALU_ADD, 1)};
      all.push_back(branch(static_cast<int>(part.size()) + 1, NEURON_BRANCH_NE, 4, round));
      all.insert(all.end(), part.begin(), part.end());
      (void)core;
      return all;
    };
    program(0, {in_round(0, 1, transferred(0, kMine, kShared))}, kPair, 2);
    program(1, {in_round(1, same ? 1 : 2, transferred(1, kShared, kMine + 0x10000))}, kPair, 2);
    run_in_turns(0);
    EXPECT_EQ(fault_of(1, kSp), unsigned{same ? NEURON_FAULT_RACE : NEURON_FAULT_NONE});
    EXPECT_EQ(fault_of(0, kSp), unsigned{NEURON_FAULT_NONE});
  }
}

TEST_F(StrictPairOnCores, OrderedProgramsAreNeverTrappedWhateverTheHostsThreadsDo) {
  for (unsigned round = 0; round < 50; ++round) {
    begin();
    const unsigned detour = round % 2 == 0 ? 300 : 1;
    program(0, {{loop(1, 0, detour, 1, 1), inst(NEURON_OP_NOP)},
                transferred(0, kMine, kShared),
                {write_word(increment_of(1, kTell), 1), take(kTell)},
                transferred(0, kShared + 0x1000, kMine + 0x20000),
                {meet(NEURON_OP_BARRIER)},
                transferred(0, kMine, kShared)});
    program(1, {{take(kTell)},
                transferred(1, kShared, kShared + 0x1000),
                {write_word(increment_of(0, kTell), 1), meet(NEURON_OP_BARRIER)}});
    run_both(round, 2000);
    expect_no_race();
    if (HasFailure()) return;
  }
}

// --- the map of accesses, against one entry for each byte ---

StrictPair::Access access_of(StrictClocks& clocks, unsigned actor, uint64_t first, uint64_t bytes,
                             bool write, bool word = false) {
  StrictPair::Access access;
  access.who.actor = static_cast<uint16_t>(actor);
  access.who.tick = clocks.advance(actor);
  access.first = first;
  access.bytes = bytes;
  access.write = write;
  access.word = word;
  return access;
}

TEST(StrictPair, FindsExactlyTheBytesThatOneWritesAndTheOtherReads) {
  constexpr unsigned kMemory = 64;
  std::mt19937 random(1);
  for (unsigned round = 0; round < 300; ++round) {
    StrictPair pair;
    std::array<StrictClocks, 2> clocks;
    std::array<std::array<bool, kMemory>, 2> wrote{}, read{};
    for (unsigned side = 0; side < 2; ++side) pair.begin(side, 5);
    for (unsigned n = 0; n < 40; ++n) {
      const unsigned side = random() % 2;
      const uint64_t first = random() % kMemory;
      const uint64_t bytes = 1 + random() % (kMemory - first);
      const bool write = random() % 3 == 0;
      uint64_t expected = UINT64_MAX;
      for (uint64_t b = first; b < first + bytes; ++b) {
        const bool races = write ? read[1 - side][b] : wrote[1 - side][b];
        if (races) expected = std::min(expected, b);
        (write ? wrote : read)[side][b] = true;
      }
      const auto found = pair.access(
          side, access_of(clocks[side], random() % NEURON_CORE_ENGINES, first, bytes, write),
          clocks[side]);
      ASSERT_EQ(found.has_value(), expected != UINT64_MAX) << round << " " << n;
      if (!found) continue;
      ASSERT_EQ(found->address, expected) << round << " " << n;
    }
  }
}

TEST(StrictPair, WhatOneCoreHasHeardOfIsNoConflictAndWhatCameLaterIs) {
  StrictPair pair;
  std::array<StrictClocks, 2> clocks;
  for (unsigned side = 0; side < 2; ++side) pair.begin(side, 5);
  ASSERT_FALSE(pair.access(0, access_of(clocks[0], 2, 0, 8, true), clocks[0]));
  pair.tell(0, kTell, 2, clocks[0].known_by(2, clocks[0].tell(2)));
  ASSERT_FALSE(pair.access(0, access_of(clocks[0], 2, 8, 8, true), clocks[0]));
  pair.tell(0, kTell, 2, clocks[0].known_by(2, clocks[0].tell(2)));
  for (unsigned n = 0; n < 2; ++n) {
    const auto known = pair.hear(1, kTell, 2);
    ASSERT_TRUE(known);
    clocks[1].hear(kTell, 1, *known);
  }
  EXPECT_FALSE(pair.hear(1, kTell, 2)) << "it was told twice";
  clocks[1].acquire_units(4, kTell, 1);
  EXPECT_FALSE(pair.access(1, access_of(clocks[1], 4, 0, 8, false), clocks[1]));
  EXPECT_TRUE(pair.access(1, access_of(clocks[1], 4, 8, 1, false), clocks[1]));
  clocks[1].acquire_units(4, kTell, 2);
  EXPECT_FALSE(pair.access(1, access_of(clocks[1], 4, 8, 1, false), clocks[1]));
}

TEST(StrictPair, WordsThatBothStoreAreNoConflictButWordsInTransfersAre) {
  StrictPair pair;
  std::array<StrictClocks, 2> clocks;
  for (unsigned side = 0; side < 2; ++side) pair.begin(side, 5);
  EXPECT_FALSE(pair.access(0, access_of(clocks[0], 4, 0, 4, true, true), clocks[0]));
  EXPECT_FALSE(pair.access(1, access_of(clocks[1], 4, 0, 4, true, true), clocks[1]));
  EXPECT_TRUE(pair.access(1, access_of(clocks[1], 4, 0, 64, false), clocks[1]));
}

}  // namespace
}  // namespace neuron::core
