// SPDX-License-Identifier: Apache-2.0
// Registers, branches, loops, calls and memory access of a sequencer.
#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

class ControlFlow : public EveryGeneration {
 protected:
  // 64 cycles: of 1.4 GHz, and of 1.2 GHz from generation 3 on.
  uint64_t instruction_ps() const { return GetParam() == 2 ? 45'714 : 53'333; }
};
INSTANTIATE_TEST_SUITE_P(Generations, ControlFlow, kGenerations);

TEST_P(ControlFlow, MovesAndComputesInRegisters) {
  Instruction sum = inst(NEURON_OP_ALU);
  sum.flow = {.rd = 4, .ra = 1, .rb = 2, .imm = false, .alu = NEURON_ALU_SUB};
  load_and_run(kSp,
               {mov(1, 40), mov(2, 42), sum, alu(5, 4, NEURON_ALU_MUL, 7),
                alu(6, 4, NEURON_ALU_SHR_ARITH, 1), alu(7, 4, NEURON_ALU_SHR_LOGICAL, 1),
                alu(8, 4, NEURON_ALU_DIV, 2), alu(9, 1, NEURON_ALU_MOD, 7), inst(NEURON_OP_HALT)});
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
  EXPECT_EQ(get(kSp, NEURON_ENG_PC), 8u);
  EXPECT_EQ(register_of(kSp, 4), uint32_t(-2));
  EXPECT_EQ(register_of(kSp, 5), uint32_t(-14));
  EXPECT_EQ(register_of(kSp, 6), uint32_t(-1));
  EXPECT_EQ(register_of(kSp, 7), 0x7FFFFFFFu);
  EXPECT_EQ(register_of(kSp, 8), uint32_t(-1));
  EXPECT_EQ(register_of(kSp, 9), 5u);
  EXPECT_EQ(get(kSp, NEURON_ENG_RETIRED_LO), 9u);
}

TEST_P(ControlFlow, BranchesOnSignedAndUnsignedComparisons) {
  Instruction below = branch(2, NEURON_BRANCH_LT, 1, 1);
  Instruction below_unsigned = branch(2, NEURON_BRANCH_LT, 1, 1);
  below_unsigned.flow.is_unsigned = true;
  load_and_run(kSp, {mov(1, uint32_t(-5)), below, mov(2, 99), below_unsigned, mov(3, 77),
                     inst(NEURON_OP_HALT)});
  EXPECT_EQ(register_of(kSp, 2), 0u) << "-5 < 1 jumps over";
  EXPECT_EQ(register_of(kSp, 3), 77u) << "0xFFFFFFFB < 1 does not";
}

TEST_P(ControlFlow, RunsNestedLoopsThatEndTogether) {
  load_and_run(kSp, {loop(1, 0, 4, 1, 3), loop(2, 0, 6, 2, 2), alu(3, 3, NEURON_ALU_ADD, 1),
                     alu(4, 4, NEURON_ALU_ADD, 10), inst(NEURON_OP_HALT)});
  EXPECT_EQ(register_of(kSp, 3), 12u);
  EXPECT_EQ(register_of(kSp, 4), 120u);
  EXPECT_EQ(register_of(kSp, 1), 4u);
  EXPECT_EQ(register_of(kSp, 2), 6u);
}

TEST_P(ControlFlow, SkipsALoopWhoseRangeIsEmpty) {
  load_and_run(kSp, {loop(1, 5, 5, 1, 1), mov(2, 1), inst(NEURON_OP_HALT)});
  EXPECT_EQ(register_of(kSp, 2), 0u);
  EXPECT_EQ(register_of(kSp, 1), 5u);
}

TEST_P(ControlFlow, LeavesALoopByBranchAndEntersTheNextOneAfresh) {
  // Breaks out of the first loop at r1 == 2; 8 levels would overflow if it stayed on the stack.
  load_and_run(kSp, {loop(5, 0, 20, 1, 4), loop(1, 0, 100, 1, 2), branch(2, NEURON_BRANCH_EQ, 1, 2),
                     alu(3, 3, NEURON_ALU_ADD, 1), inst(NEURON_OP_NOP), inst(NEURON_OP_HALT)});
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
  EXPECT_EQ(register_of(kSp, 3), 40u);
}

TEST_P(ControlFlow, CallsAFunctionFromInsideALoop) {
  load_and_run(kSp, {loop(1, 0, 3, 1, 1), call(2), inst(NEURON_OP_HALT),
                     alu(2, 2, NEURON_ALU_ADD, 5), inst(NEURON_OP_RET)});
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
  EXPECT_EQ(register_of(kSp, 2), 15u);
}

TEST_P(ControlFlow, LoadsAndStoresDeviceMemory) {
  Instruction load_word = inst(NEURON_OP_LOAD);
  load_word.address = {kData, 0, 1};
  load_word.flow.rd = 1;
  const uint32_t value = 0xCAFE;
  std::memcpy(memory(kData, 4), &value, 4);
  load_and_run(kSp, {load_word, store(kData + 8, 1), inst(NEURON_OP_HALT)});
  EXPECT_EQ(word(kData + 8), 0xCAFEu);
}

TEST_P(ControlFlow, AddsARegisterPairToAnAddress) {
  Instruction s = store(kData, 1);
  s.bind[0] = {2, NEURON_BIND_BASE, 0, NEURON_BIND_ADD_PAIR};
  load_and_run(kSp, {mov(1, 7), mov(2, 64), s, inst(NEURON_OP_HALT)});
  EXPECT_EQ(word(kData + 64), 7u);
}

TEST_P(ControlFlow, WritesAWordSeveralTimesWithAStride) {
  load_and_run(kSp, {write_word(kData, 3, 4, 8), inst(NEURON_OP_HALT)});
  for (unsigned n = 0; n < 4; ++n) EXPECT_EQ(word(kData + 8 * n), 3u);
  EXPECT_EQ(word(kData + 4), 0u);
}

TEST_P(ControlFlow, WritesSemaphoresOfItsOwnCoreThroughTheBus) {
  increment(20, 5);
  const uint64_t set_alias = device_address(NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_SET);
  load_and_run(kSp, {write_word(semaphore_increment(21), 2),
                     write_word(set_alias + 4 * 16, 0, 10, 4), inst(NEURON_OP_HALT)});
  EXPECT_EQ(semaphore(20), 0u);
  EXPECT_EQ(semaphore(21), 0u);
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
}

TEST_P(ControlFlow, ReadsSemaphoresTimeAndIdentity) {
  increment(30, 9);
  Instruction sem = inst(NEURON_OP_SEM);
  sem.flow.rd = 1;
  sem.scalar0 = number(30);
  Instruction when = inst(NEURON_OP_TIME);
  when.flow.rd = 2;
  Instruction generation = inst(NEURON_OP_IDENT);
  generation.flow.rd = 4;
  generation.scalar0 = number(3);
  load_and_run(kSp, {sem, when, generation, inst(NEURON_OP_HALT)});
  EXPECT_EQ(register_of(kSp, 1), 9u);
  EXPECT_EQ(register_of(kSp, 2), instruction_ps());
  EXPECT_EQ(register_of(kSp, 4), GetParam());
}

TEST_P(ControlFlow, PostsANotification) {
  set_up_ring(NEURON_NQ_SLOT_NOTIFY, kTrace);
  Instruction notify = inst(NEURON_OP_NOTIFY);
  notify.scalar0 = number(11);
  notify.scalar1 = number(22);
  notify.debug = 5;
  load_and_run(kSp, {notify, inst(NEURON_OP_HALT)});
  const neuron_notification n = notification(kTrace, 0);
  EXPECT_EQ(n.info[0], 11u);
  EXPECT_EQ(n.info[1], 22u);
  EXPECT_EQ(n.debug, 5u);
  EXPECT_EQ(n.word >> NEURON_NW_KIND_SHIFT & 15, unsigned{NEURON_NK_NOTIFY});
}

TEST_P(ControlFlow, ChangesItsOwnMode) {
  Instruction mode = inst(NEURON_OP_MODE);
  mode.scalar0 = number(0xFF);
  mode.scalar1 = number(0x30);
  load_and_run(kSp, {mode, inst(NEURON_OP_HALT)});
  EXPECT_EQ(get(kSp, NEURON_ENG_MODE), 0x30u);
}

TEST_P(ControlFlow, TracesWhatItExecutes) {
  set_up_ring(kSp, kTrace);
  set(kSp, NEURON_ENG_MODE, 2);
  load_and_run(kSp, {mov(1, 1), inst(NEURON_OP_HALT)});
  const neuron_notification n = notification(kTrace, 0);
  EXPECT_EQ(n.word >> NEURON_NW_KIND_SHIFT & 15, unsigned{NEURON_NK_TRACE});
  EXPECT_EQ(n.word >> NEURON_NW_OPCODE_SHIFT & 0xFFF, unsigned{NEURON_OP_MOV});
  EXPECT_EQ(n.info[0], instruction_ps());
}

TEST_P(ControlFlow, ConfiguresAndStartsAnEngineByOneBurst) {
  place(kSp, {mov(1, 3), inst(NEURON_OP_HALT)});
  std::array<uint32_t, 16> block{};
  block[NEURON_ENG_PROG_LO / 4] = static_cast<uint32_t>(kCode + kSp * 0x10000);
  block[NEURON_ENG_PROG_COUNT / 4] = 2;
  block[NEURON_ENG_CONTROL / 4] = NEURON_CMD_START;
  chip::Access dma{chip::Origin::kDma, 0, NEURON_ENGINE_DMA, 0};
  ASSERT_TRUE(chip_->bus().write(device_address(NEURON_CORE_ENGINE(kSp)),
                                 std::as_bytes(std::span(block)), dma));
  EXPECT_EQ(run(), chip::RunResult::kQuiescent);
  EXPECT_EQ(register_of(kSp, 1), 3u);
  EXPECT_EQ(get(kSp, NEURON_ENG_STATUS) >> 16, 1u);
}

}  // namespace
}  // namespace neuron::core
