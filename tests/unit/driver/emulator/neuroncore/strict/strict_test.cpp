// SPDX-License-Identifier: Apache-2.0
// Strict mode: what it traps, what it must not trap, and how the trap names both instructions.
#include <cstdlib>

#include "tests/support/setting.h"
#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

const Instruction kHalt = inst(NEURON_OP_HALT);

Instruction fill(const isa::Operand& dst, unsigned engine = kDve) {
  Instruction i = inst(NEURON_OP_MEMSET);
  i.engines = static_cast<uint8_t>(1u << engine);
  i.dst = dst;
  return i;
}
Instruction copy(const isa::Operand& dst, const isa::Operand& src, unsigned engine = kDve) {
  Instruction i = inst(NEURON_OP_TENSOR_COPY);
  i.engines = static_cast<uint8_t>(1u << engine);
  i.dst = dst;
  i.src0 = src;
  return i;
}
Instruction signals(Instruction i, unsigned semaphore, bool at_complete = true) {
  i.update[0] = update(NEURON_UPDATE_INC, semaphore, at_complete);
  return i;
}
Instruction waits(Instruction i, unsigned semaphore, unsigned value = 1) {
  i.wait[0] = wait_ge(semaphore, value);
  return i;
}

// The words of hw/fault.h.
struct Words {
  uint32_t place, other, detail;
  unsigned byte() const { return place & NEURON_STRICT_PLACE_MASK; }
  unsigned partition() const { return place >> NEURON_STRICT_PARTITION_SHIFT & 127; }
  bool writes() const { return (place & NEURON_STRICT_WRITES) != 0; }
  bool other_wrote() const { return (place & NEURON_STRICT_OTHER_WROTE) != 0; }
  bool has_other() const { return (other & NEURON_STRICT_OTHER) != 0; }
  unsigned other_engine() const { return other >> NEURON_STRICT_ENGINE_SHIFT & 15; }
  unsigned other_pc() const { return other & NEURON_STRICT_PC_MASK; }
};

class Strict : public CoreMachine {
 protected:
  void SetUp() override {
    CoreMachine::SetUp();
    set_up_ring(NEURON_NQ_SLOT_ERROR, kErrors);
  }
  // Another chip, without strict mode.
  void turn_off() {
    strict_.set("0");
    CoreMachine::SetUp();
  }
  // Expects the engine to have trapped at `pc`; the words of its notification, which are also those
  // of its registers.
  Words trap(unsigned engine, unsigned code, unsigned pc) {
    EXPECT_EQ(fault(engine), code) << chip_->describe_core(0);
    EXPECT_EQ(get(engine, NEURON_ENG_EXC_PC), pc);
    const neuron_notification n = notification(kErrors, 0);
    EXPECT_EQ(n.word >> NEURON_NW_CODE_SHIFT & 0xFF, code);
    EXPECT_EQ(n.pc, pc);
    const Words words{n.info[0], n.info[1], n.info[2]};
    EXPECT_EQ(get(engine, NEURON_ENG_EXC_ADDR_LO), words.place);
    EXPECT_EQ(get(engine, NEURON_ENG_EXC_ADDR_HI), words.other);
    EXPECT_EQ(get(engine, NEURON_ENG_EXC_INFO), words.detail);
    EXPECT_EQ(record(engine).info, uint64_t{words.other} << 32 | words.place);
    return words;
  }
  void expect_no_trap() {
    for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
      EXPECT_EQ(fault(e), 0u) << "engine " << e << "\n" << chip_->describe_core(0);
    }
  }
  // One transfer of 64 bytes between HBM and partition 0, counted in semaphore 20.
  void prepare_transfer(unsigned index, uint64_t from, uint64_t to) {
    constexpr uint64_t kOne = kData + 0x100000;
    const uint32_t one = 1;
    std::memcpy(memory(kOne, 4), &one, 4);
    add_copy(0, 0, 2 * index, from, to, 64, true);
    add_copy(0, 0, 2 * index + 1, kOne, semaphore_increment(20), 4);
  }

 private:
  test::Setting strict_{"NEURON_EMULATOR_STRICT", "1"};
};

TEST_F(Strict, TrapsReadsOfBytesThatNothingHasWrittenAndNamesTheNearestWriter) {
  load_and_run(kDve, {fill(sbuf(4, 0, kF32, 16)),
                      copy(sbuf(4, 1024, kF32, 17), sbuf(4, 0, kF32, 17)), kHalt});
  const Words words = trap(kDve, NEURON_FAULT_UNINITIALISED, 1);
  EXPECT_EQ(words.byte(), 64u);
  EXPECT_EQ(words.partition(), 0u);
  EXPECT_FALSE(words.writes());
  EXPECT_TRUE(words.has_other());
  EXPECT_EQ(words.other_engine(), kDve);
  EXPECT_EQ(words.other_pc(), 0u);
  EXPECT_EQ(words.detail & NEURON_STRICT_PLACE_MASK, 63u);
}

TEST_F(Strict, SaysThatNothingIsWrittenWhereNothingIs) {
  load_and_run(kDve, {copy(sbuf(4, 1024, kF32, 4), psum(4, 2048, kF32, 4)), kHalt});
  const Words words = trap(kDve, NEURON_FAULT_UNINITIALISED, 0);
  EXPECT_EQ(words.byte(), 2048u);
  EXPECT_NE(words.place & NEURON_STRICT_PSUM, 0u);
  EXPECT_FALSE(words.has_other());
}

TEST_F(Strict, KnowsEachByteOfAPattern) {
  const auto every_second = tile(kSbuf, 0, 100, 6, NEURON_DTYPE_BF16, {40}, {2});
  auto shifted = every_second;
  shifted.base = 8;
  load_and_run(kDve, {fill(every_second),
                      copy(sbuf(100, 4096, NEURON_DTYPE_BF16, 40), every_second), kHalt});
  expect_no_trap();
  load_and_run(kDve, {fill(sbuf(100, 8, NEURON_DTYPE_BF16, 1)),
                      copy(sbuf(100, 4096, NEURON_DTYPE_BF16, 40), shifted), kHalt});
  EXPECT_EQ(trap(kDve, NEURON_FAULT_UNINITIALISED, 1).byte(), 12u);
}

TEST_F(Strict, KnowsEachPartition) {
  load_and_run(kDve, {fill(sbuf(67, 0, kF32, 8)),
                      copy(sbuf(128, 4096, kF32, 8), sbuf(128, 0, kF32, 8)), kHalt});
  const Words words = trap(kDve, NEURON_FAULT_UNINITIALISED, 1);
  EXPECT_EQ(words.partition(), 67u);
}

TEST_F(Strict, AShuffleReadsRowsBeyondItsCountAndOnlyThoseOfRowsThatItWrites) {
  Instruction shuffle = inst(NEURON_OP_STREAM_SHUFFLE);
  shuffle.dst = sbuf(4, 1024, kF32, 8);
  shuffle.src0 = sbuf(4, 0, kF32, 8);
  shuffle.shuffle.fill(9);  // rows 4 to 31 are not written
  for (unsigned row = 0; row < 4; ++row) shuffle.shuffle[row] = 0;
  load_and_run(kDve, {fill(sbuf(1, 0, kF32, 8)), shuffle, kHalt});
  expect_no_trap();
  shuffle.shuffle[2] = 20;
  load_and_run(kDve, {fill(sbuf(1, 0, kF32, 8)), shuffle, kHalt});
  EXPECT_EQ(trap(kDve, NEURON_FAULT_UNINITIALISED, 1).partition(), 20u);
}

TEST_F(Strict, WhatTopkAndLocalGatherLeaveOfALastColumnIsNotTouched) {
  const auto bf16 = [](uint32_t base, unsigned parts, int n) {
    return sbuf(parts, base, NEURON_DTYPE_BF16, n);
  };
  const auto u16 = [](uint32_t base, unsigned parts, int n) {
    return sbuf(parts, base, NEURON_DTYPE_U16, n);
  };
  Instruction topk = inst(NEURON_OP_TOPK);  // 20 numbers: 4 partitions have 2 of them
  topk.dst = bf16(256, 16, 1);
  topk.src0 = bf16(0, 16, 2);
  topk.src1 = u16(512, 16, 1);
  topk.vector.imm = 20;
  topk.pool.count = 5;
  Instruction gather = inst(NEURON_OP_LOCAL_GATHER);
  gather.dst = bf16(768, 16, 5);
  gather.src0 = bf16(0, 16, 1);
  gather.src1 = u16(1024, 16, 2);
  gather.pool.count = 5;
  const std::vector<Instruction> program{fill(bf16(0, 16, 1), kPool), fill(bf16(2, 4, 1), kPool),
                                         topk, fill(u16(1024, 5, 1), kPool), gather};
  auto good = program;
  good.push_back(copy(bf16(2048, 5, 1), bf16(256, 5, 1), kPool));
  good.push_back(kHalt);
  load_and_run(kPool, good);
  expect_no_trap();
  auto bad = program;
  bad.push_back(copy(bf16(2048, 6, 1), bf16(256, 6, 1), kPool));
  load_and_run(kPool, bad);
  EXPECT_EQ(trap(kPool, NEURON_FAULT_UNINITIALISED, 5).partition(), 5u);
}

TEST_F(Strict, CountsWhatTheHostWritesAndForgetsItWithTheReset) {
  set_sbuf(0, 0, 1.0f);
  const Instruction read = copy(sbuf(1, 64, kF32, 1), sbuf(1, 0, kF32, 1));
  load_and_run(kDve, {read, kHalt});
  expect_no_trap();
  set_core(NEURON_CORE_CONTROL + NEURON_CORE_COMMAND, NEURON_CMD_RESET);
  load_and_run(kDve, {read, kHalt});
  EXPECT_EQ(fault(kDve), unsigned{NEURON_FAULT_UNINITIALISED});
}

TEST_F(Strict, TrapsAReadThatNothingOrdersBehindTheWrite) {
  load(kPool, {fill(sbuf(8, 0, kF32, 16), kPool), kHalt});
  load(kDve, {inst(NEURON_OP_NOP), copy(sbuf(8, 1024, kF32, 4), sbuf(8, 16, kF32, 4)), kHalt});
  run();
  const Words words = trap(kDve, NEURON_FAULT_RACE, 1);
  EXPECT_EQ(words.byte(), 16u);
  EXPECT_FALSE(words.writes());
  EXPECT_TRUE(words.other_wrote());
  EXPECT_EQ(words.other_engine(), kPool);
  EXPECT_EQ(words.other_pc(), 0u);
}

TEST_F(Strict, TrapsAWriteThatNothingOrdersBehindTheRead) {
  fill_sbuf(8, 64);
  load(kPool, {copy(sbuf(8, 1024, kF32, 4), sbuf(8, 0, kF32, 4), kPool), kHalt});
  load(kDve, {inst(NEURON_OP_NOP), inst(NEURON_OP_NOP), fill(sbuf(8, 0, kF32, 16)), kHalt});
  run();
  const Words words = trap(kDve, NEURON_FAULT_RACE, 2);
  EXPECT_TRUE(words.writes());
  EXPECT_FALSE(words.other_wrote());
  EXPECT_EQ(words.other_engine(), kPool);
}

TEST_F(Strict, ASemaphoreOrdersTheWriteBeforeTheRead) {
  load(kPool, {signals(fill(sbuf(8, 0, kF32, 16), kPool), 30), kHalt});
  load(kDve, {waits(copy(sbuf(8, 1024, kF32, 4), sbuf(8, 16, kF32, 4)), 30), kHalt});
  run();
  expect_no_trap();
}

TEST_F(Strict, OrderReachesThroughAThirdEngine) {
  load(kPool, {signals(fill(sbuf(8, 0, kF32, 16), kPool), 30), kHalt});
  load(kSp, {signals(waits(inst(NEURON_OP_EVENT), 30), 31), kHalt});
  load(kDve, {waits(copy(sbuf(8, 1024, kF32, 4), sbuf(8, 16, kF32, 4)), 31), kHalt});
  run();
  expect_no_trap();
}

TEST_F(Strict, AnUpdateAtReadReleasesWhatWasReadButNotTheResult) {
  fill_sbuf(8, 64);
  const Instruction producer =
      signals(copy(sbuf(8, 1024, kF32, 16), sbuf(8, 0, kF32, 16), kPool), 30, false);
  load(kPool, {producer, kHalt});
  load(kDve, {waits(fill(sbuf(8, 0, kF32, 16)), 30), kHalt});
  run();
  expect_no_trap();
  load(kPool, {producer, kHalt});
  load(kDve, {waits(copy(sbuf(8, 2048, kF32, 16), sbuf(8, 1024, kF32, 16)), 30, 2), kHalt});
  run();
  EXPECT_EQ(trap(kDve, NEURON_FAULT_RACE, 0).other_engine(), kPool);
}

TEST_F(Strict, PatternsThatInterleaveWithoutSharingBytesDoNotConflict) {
  const auto even = tile(kSbuf, 0, 128, 0, NEURON_DTYPE_U8, {200}, {2});
  const auto odd = tile(kSbuf, 0, 128, 1, NEURON_DTYPE_U8, {200}, {2});
  load(kPool, {fill(even, kPool), fill(even, kPool), kHalt});
  load(kDve, {fill(odd), fill(odd), kHalt});
  run();
  expect_no_trap();
  load(kPool, {fill(sbuf(32, 0, kF32, 16), kPool), kHalt});
  load(kDve, {fill(tile(kSbuf, 32, 32, 0, kF32, {16})), kHalt});
  run();
  expect_no_trap();
}

TEST_F(Strict, TwoWritesToPsumWithoutOrderCollide) {
  fill_sbuf(8, 64);
  Instruction act = inst(NEURON_OP_ACTIVATE);
  act.dst = psum(8, 256, kF32, 16);
  act.src0 = sbuf(8, 0, kF32, 16);
  load(kAct, {act, kHalt});
  load(kDve, {fill(psum(8, 300, kF32, 16)), kHalt});
  run();
  const Words words = trap(kDve, NEURON_FAULT_PSUM_COLLISION, 0);
  EXPECT_EQ(words.byte(), 300u);
  EXPECT_NE(words.place & NEURON_STRICT_PSUM, 0u);
  EXPECT_EQ(words.other_engine(), kAct);
}

TEST_F(Strict, AnExecutionComesBehindTheOneBefore) {
  const Instruction go = waits(inst(NEURON_OP_EVENT), NEURON_SEM_LAUNCH);
  load(kPool, {fill(sbuf(8, 0, kF32, 16), kPool), kHalt});
  run();
  load(kDve, {go, fill(sbuf(8, 0, kF32, 16)), kHalt});
  increment(NEURON_SEM_LAUNCH);
  run();
  expect_no_trap();
}

TEST_F(Strict, AccumulationOntoPsumNamesWhoWroteItLast) {
  Instruction weights = inst(NEURON_OP_LDWEIGHTS);
  weights.src0 = sbuf(4, 0, kF32, 4);
  Instruction matmul = inst(NEURON_OP_MATMUL);
  matmul.dst = psum(4, 0, kF32, 8);
  matmul.src0 = sbuf(4, 64, kF32, 8);
  matmul.pe.swap = true;
  Instruction accumulate = matmul;
  accumulate.pe.swap = false;
  accumulate.pe.accumulate = true;
  fill_sbuf(4, 128);
  load_and_run(kPe, {weights, matmul, accumulate, kHalt});
  expect_no_trap();
  load_and_run(kDve, {inst(NEURON_OP_NOP), fill(psum(1, 8, kF32, 1)), kHalt});
  load_and_run(kPe, {accumulate, kHalt});
  const Words words = trap(kPe, NEURON_FAULT_PSUM_UNDEFINED, 0);
  EXPECT_EQ(words.byte(), 8u);
  EXPECT_EQ(words.other_engine(), kDve);
  EXPECT_EQ(words.other_pc(), 1u);
}

TEST_F(Strict, AccumulationKnowsEachCellOfAPattern) {
  Instruction weights = inst(NEURON_OP_LDWEIGHTS);
  weights.src0 = sbuf(4, 0, kF32, 4);
  Instruction matmul = inst(NEURON_OP_MATMUL);
  matmul.dst = tile(NEURON_SPACE_PSUM, 0, 4, 0, kF32, {8}, {2});
  matmul.src0 = sbuf(4, 64, kF32, 8);
  matmul.pe.swap = true;
  Instruction accumulate = matmul;
  accumulate.pe.swap = false;
  accumulate.pe.accumulate = true;
  fill_sbuf(4, 128);
  Instruction between = fill(tile(NEURON_SPACE_PSUM, 0, 4, 4, kF32, {7}, {2}));
  between.wait[0] = wait_ge(30, 1);
  load(kPe, {weights, signals(matmul, 30), waits(accumulate, 31), kHalt});
  load(kDve, {signals(between, 31), kHalt});
  run();
  expect_no_trap();
}

TEST_F(Strict, AnInputOutsideTheRangeOfAFunctionNamesItsPlaceValueAndProducer) {
  Instruction act = inst(NEURON_OP_ACTIVATE);
  act.dst = sbuf(3, 1024, kF32, 5);
  act.src0 = sbuf(3, 0, kF32, 5);
  act.act.function = NEURON_ACT_SIN;
  Instruction bad = fill(tile(kSbuf, 0, 1, 12, kF32, {1}));
  bad.vector.imm = 0x40800000;  // 4.0
  load_and_run(kDve, {fill(sbuf(3, 0, kF32, 5)), bad, kHalt});
  load_and_run(kAct, {inst(NEURON_OP_NOP), act, kHalt});
  const Words words = trap(kAct, NEURON_FAULT_DOMAIN, 1);
  EXPECT_EQ(words.byte(), 3u) << "the element";
  EXPECT_EQ(words.partition(), 0u);
  EXPECT_EQ(words.detail, 0x40800000u);
  EXPECT_EQ(words.other_engine(), kDve);
  EXPECT_EQ(words.other_pc(), 1u);
  uint32_t untouched = 0;
  ASSERT_TRUE(chip_->bus().read32(sbuf_address(2, 1024), untouched, {}));
  EXPECT_EQ(untouched, 0xFFFFFFFFu) << "nothing was written";
}

TEST_F(Strict, ATransferIsOrderedByItsSemaphoreOnly) {
  set_up_queue(0, 0);
  prepare_transfer(0, kData, sbuf_address(0, 0));
  const Instruction read = copy(sbuf(1, 1024, kF32, 16), sbuf(1, 0, kF32, 16));
  load(kSp, {trigger(0, 1, 2), kHalt});
  load(kDve, {waits(read, 20), kHalt});
  run();
  expect_no_trap();
  // The engine reads the tile while the next transfer into it is under way.
  prepare_transfer(1, kData, sbuf_address(0, 0));
  load(kSp, {inst(NEURON_OP_NOP), trigger(0, 1, 2), kHalt});
  load(kDve, {read, kHalt});
  run();
  const Words words = trap(kSp, NEURON_FAULT_RACE, 1);
  EXPECT_NE(words.place & NEURON_STRICT_DMA, 0u);
  EXPECT_TRUE(words.writes());
  EXPECT_EQ(words.other_engine(), kDve);
  EXPECT_EQ(words.other_pc(), 0u);
}

// The engine that has read a tile lends it to the queue; another one, which does not wait for it,
// rings for the sources.
TEST_F(Strict, ATransferComesBehindWhoeverRangForItsDestinations) {
  set_up_queue(0, 0);
  prepare_transfer(0, kData, sbuf_address(0, 0));
  const Instruction write = fill(sbuf(1, 0, kF32, 16));
  Instruction lend = trigger(0, 1, 2), send = trigger(0, 1, 2);
  lend.trigger.m2s_count[0] = 0;
  send.trigger.s2m_count[0] = 0;
  load(kDve, {write, copy(sbuf(1, 1024, kF32, 16), sbuf(1, 0, kF32, 16)), inst(NEURON_OP_DRAIN),
              lend, kHalt});
  std::vector<Instruction> later(64, inst(NEURON_OP_NOP));
  later.push_back(send);
  later.push_back(kHalt);
  load(kSp, later);
  run();
  expect_no_trap();
  EXPECT_EQ(semaphore(20), 1u) << "the transfer has taken place";
}

TEST_F(Strict, AReadBeforeTheTransferHasSignalledNamesTheTransfer) {
  set_up_queue(0, 0);
  prepare_transfer(0, kData, sbuf_address(0, 0));
  // Time passes without an order: the transfer is done when the copy reads.
  std::vector<Instruction> late{loop(1, 0, 100, 1, 1), inst(NEURON_OP_NOP)};
  late.push_back(copy(sbuf(1, 1024, kF32, 16), sbuf(1, 0, kF32, 16)));
  late.push_back(kHalt);
  load(kSp, {inst(NEURON_OP_NOP), trigger(0, 1, 2), kHalt});
  load(kDve, late);
  run();
  const Words words = trap(kDve, NEURON_FAULT_RACE, 2);
  EXPECT_NE(words.place & NEURON_STRICT_OTHER_DMA, 0u);
  EXPECT_EQ(words.other_engine(), kSp);
  EXPECT_EQ(words.other_pc(), 1u);
}

TEST_F(Strict, AReadOfBytesThatATransferInFlightWillWriteNamesThatTransfer) {
  set_up_queue(0, 0);
  set_up_queue(0, 1);
  // The second transfer writes the tile. Another queue and an earlier doorbell are no part of it.
  prepare_transfer(0, kData, sbuf_address(7, 0));
  prepare_transfer(1, kData, sbuf_address(0, 256));
  add_copy(0, 1, 0, kData, sbuf_address(0, 512), 64, true);
  load(kSp, {trigger(1, 1, 1), trigger(0, 1, 2), inst(NEURON_OP_NOP), trigger(0, 1, 2), kHalt});
  load(kDve, {inst(NEURON_OP_NOP), inst(NEURON_OP_NOP), inst(NEURON_OP_NOP), inst(NEURON_OP_NOP),
              copy(sbuf(1, 1024, kF32, 16), sbuf(1, 256, kF32, 16)), kHalt});
  run();
  const Words words = trap(kDve, NEURON_FAULT_RACE, 4);
  EXPECT_EQ(words.byte(), 256u);
  EXPECT_FALSE(words.writes());
  EXPECT_FALSE(words.other_wrote());
  EXPECT_NE(words.place & NEURON_STRICT_OTHER_DMA, 0u);
  EXPECT_NE(words.other & NEURON_STRICT_PENDING, 0u);
  EXPECT_EQ(words.other_engine(), kSp);
  EXPECT_EQ(words.other_pc(), 3u);
  EXPECT_EQ(words.detail, 0u) << "queue 0 of DMA engine 0";
}

TEST_F(Strict, AReadBesideWhatATransferInFlightWritesIsUninitialised) {
  set_up_queue(0, 0);
  prepare_transfer(0, kData, sbuf_address(0, 256));
  load(kSp, {trigger(0, 1, 2), kHalt});
  load(kDve, {inst(NEURON_OP_NOP), copy(sbuf(1, 1024, kF32, 1), sbuf(1, 320, kF32, 1)), kHalt});
  run();
  EXPECT_EQ(trap(kDve, NEURON_FAULT_UNINITIALISED, 1).other & NEURON_STRICT_PENDING, 0u);
}

TEST_F(Strict, ALaterDoorbellOrdersNothingForTheTransfersBeforeIt) {
  set_up_queue(0, 0);
  fill_sbuf(1, 256);
  prepare_transfer(0, sbuf_address(0, 0), kData);
  prepare_transfer(1, sbuf_address(0, 128), kData);
  // SP rings for a read of the tile, overwrites it by a word, and rings again.
  load_and_run(kSp, {trigger(0, 1, 2), write_word(sbuf_address(0, 0), 7), trigger(0, 1, 2), kHalt});
  const Words words = trap(kSp, NEURON_FAULT_RACE, 0);
  EXPECT_NE(words.place & NEURON_STRICT_DMA, 0u);
  EXPECT_FALSE(words.writes());
  EXPECT_TRUE(words.other_wrote());
  EXPECT_EQ(words.other_pc(), 1u);
}

TEST_F(Strict, ADrainOrdersTheTransfersThatTheEngineRang) {
  set_up_queue(0, 0);
  prepare_transfer(0, kData, sbuf_address(0, 0));
  load(kDve, {trigger(0, 1, 2), inst(NEURON_OP_DRAIN),
              copy(sbuf(1, 1024, kF32, 16), sbuf(1, 0, kF32, 16)), kHalt});
  run();
  expect_no_trap();
}

TEST_F(Strict, AWordOfTheHostDuringAnExecutionRacesUntilTheHostSignals) {
  const Instruction go = waits(inst(NEURON_OP_EVENT), NEURON_SEM_LAUNCH);
  Instruction take = go;
  take.update[0] = update(NEURON_UPDATE_DEC, NEURON_SEM_LAUNCH, false);
  const Instruction read = copy(sbuf(1, 1024, kF32, 1), sbuf(1, 0, kF32, 1));
  load(kDve, {take, waits(read, 40), kHalt});
  load(kPool, {waits(fill(sbuf(1, 0, kF32, 1), kPool), 41), kHalt});
  increment(NEURON_SEM_LAUNCH);
  run();
  set_sbuf(0, 0, 1.0f);
  increment(40);
  run();
  expect_no_trap();
}

TEST_F(Strict, OffItTrapsNothingAndTakesTheSameModelTime) {
  const std::vector<Instruction> pool{fill(sbuf(8, 0, kF32, 16), kPool), kHalt};
  const std::vector<Instruction> ordered{
      waits(copy(sbuf(8, 1024, kF32, 4), sbuf(8, 16, kF32, 4)), 30), kHalt};
  std::array<uint64_t, 2> times{};
  for (unsigned off = 0; off < 2; ++off) {
    if (off) turn_off();
    load(kPool, {signals(pool[0], 30), kHalt});
    load(kDve, ordered);
    run();
    times[off] = time();
    expect_no_trap();
  }
  EXPECT_EQ(times[0], times[1]);
  load_and_run(kDve, {copy(sbuf(8, 0, kF32, 4), sbuf(8, 4096, kF32, 4)), kHalt});
  expect_no_trap();
}

// 40,000 accesses: more states than are kept, so that those which nobody holds are collected.
TEST_F(Strict, CollectsStatesThatNoCellHoldsAndStillKnowsTheRest) {
  std::vector<Instruction> program{fill(sbuf(128, 0, kF32, 48)), loop(1, 0, 10'000, 1, 2)};
  program.push_back(copy(sbuf(3, 256, kF32, 5), sbuf(3, 0, kF32, 5)));
  program.push_back(copy(sbuf(100, 128, kF32, 7), sbuf(100, 64, kF32, 7)));
  program.push_back(copy(sbuf(128, 1024, kF32, 48), sbuf(128, 0, kF32, 48)));
  program.push_back(copy(sbuf(128, 2048, kF32, 64), sbuf(128, 1024, kF32, 64)));
  load_and_run(kDve, program);
  const Words words = trap(kDve, NEURON_FAULT_UNINITIALISED, 5);
  EXPECT_EQ(words.byte(), 1024u + 48 * 4);
  EXPECT_EQ(words.other_pc(), 4u);
}

}  // namespace
}  // namespace neuron::core
