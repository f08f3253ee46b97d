// SPDX-License-Identifier: Apache-2.0
// Faults: each code that a program can reach, where it is latched, and what happens to the rest.
#include <limits>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

class Faults : public CoreMachine {
 protected:
  // Runs one engine and expects it to fault at `pc`, before the instruction behind it.
  void expect_fault(unsigned engine, const std::vector<Instruction>& program, unsigned code,
                    unsigned pc) {
    set_up_ring(NEURON_NQ_SLOT_ERROR, kErrors);
    load_and_run(engine, program);
    EXPECT_EQ(state(engine), NEURON_STATE_FAULT);
    EXPECT_EQ(fault(engine), code) << isa::fault_name(fault(engine));
    EXPECT_EQ(get(engine, NEURON_ENG_EXC_PC), pc);
    EXPECT_EQ(record(engine).status, code);
    EXPECT_EQ(record(engine).sequence, 1u);
    EXPECT_EQ(record(engine).pc, pc);
    EXPECT_EQ(core_register(NEURON_CORE_CONTROL + NEURON_CORE_FAULTS) & 0x1F, 1u << engine);
    const neuron_notification n = notification(kErrors, 0);
    EXPECT_EQ(n.word >> NEURON_NW_KIND_SHIFT & 15, unsigned{NEURON_NK_ERROR});
    EXPECT_EQ(n.word >> NEURON_NW_CODE_SHIFT & 0xFF, code);
    EXPECT_EQ(n.word >> NEURON_NW_ENGINE_SHIFT & 15, engine);
    EXPECT_EQ(n.pc, pc);
  }
  // Damages one byte of an instruction that is in place already.
  void patch(unsigned engine, unsigned pc, unsigned at, uint8_t value) {
    *memory(kCode + engine * 0x10000 + pc * NEURON_INSTRUCTION_BYTES + at, 1) = std::byte{value};
  }
  void start_patched(unsigned engine, const std::vector<Instruction>& program, unsigned pc,
                     unsigned at, uint8_t value) {
    load(engine, program);
    patch(engine, pc, at, value);
    ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  }
};

TEST_F(Faults, RunningPastTheProgram) {
  expect_fault(kSp, {inst(NEURON_OP_NOP)}, NEURON_FAULT_PC_RANGE, 1);
}

TEST_F(Faults, BranchOutOfTheProgram) { expect_fault(kSp, {branch(-1)}, NEURON_FAULT_PC_RANGE, 0); }

TEST_F(Faults, OtherIsaVersionAndUnknownOpcode) {
  start_patched(kSp, {inst(NEURON_OP_NOP), inst(NEURON_OP_HALT)}, 0, 1, 0x20);
  EXPECT_EQ(fault(kSp), unsigned{NEURON_FAULT_ISA_VERSION});
  start_patched(kSp, {inst(NEURON_OP_NOP), inst(NEURON_OP_HALT)}, 0, 0, 0xEE);
  EXPECT_EQ(fault(kSp), unsigned{NEURON_FAULT_ILLEGAL_OPCODE});
  EXPECT_EQ(get(kSp, NEURON_ENG_EXC_FIELD) >> 16, 0x0EEu);
}

TEST_F(Faults, StrayBitNamesItsByte) {
  start_patched(kSp, {inst(NEURON_OP_NOP), inst(NEURON_OP_HALT)}, 0, 0x61, 1);
  EXPECT_EQ(fault(kSp), unsigned{NEURON_FAULT_ILLEGAL_FIELD});
  EXPECT_EQ(get(kSp, NEURON_ENG_EXC_FIELD) & 0xFC, 0x60u);
}

TEST_F(Faults, InstructionOfAnotherEngine) {
  Instruction matmul = inst(NEURON_OP_LDWEIGHTS);
  matmul.engines = 0x1F;
  matmul.src0 = sbuf(4, 0, kF32, 4);
  expect_fault(kDve, {matmul, inst(NEURON_OP_HALT)}, NEURON_FAULT_WRONG_ENGINE, 0);
}

TEST_F(Faults, OperandOutsideItsPartition) {
  Instruction fill = inst(NEURON_OP_MEMSET);
  fill.dst = sbuf(4, 0x30000 - 8, kF32, 3);
  expect_fault(kDve, {fill, inst(NEURON_OP_HALT)}, NEURON_FAULT_OPERAND_RANGE, 0);
}

TEST_F(Faults, RegisterThatMovesAnOperandOutsideFaultsLikeAConstant) {
  Instruction fill = inst(NEURON_OP_MEMSET);
  fill.dst = sbuf(4, 0, kF32, 3);
  fill.bind[0] = {5, NEURON_BIND_BASE, 0, NEURON_BIND_ADD_ELEMENTS};
  Instruction set = mov(5, 0x30000 / 4);
  expect_fault(kDve, {set, fill, inst(NEURON_OP_HALT)}, NEURON_FAULT_OPERAND_RANGE, 1);
}

TEST_F(Faults, StartPartitionCarriesItsRuleNumber) {
  Instruction fill = inst(NEURON_OP_MEMSET);
  fill.dst = tile(NEURON_SPACE_SBUF, 32, 64, 0, kF32, {4});
  expect_fault(kDve, {fill, inst(NEURON_OP_HALT)}, NEURON_FAULT_OPERAND_PARTITION, 0);
  EXPECT_EQ(get(kDve, NEURON_ENG_EXC_FIELD) >> 8 & 0xFF, 1u);
}

TEST_F(Faults, MatmulWithoutWeightsOrWithOtherSizes) {
  fill_sbuf(4, 64);
  Instruction matmul = inst(NEURON_OP_MATMUL);
  matmul.dst = psum(4, 0, kF32, 8);
  matmul.src0 = sbuf(4, 0, kF32, 8);
  expect_fault(kPe, {matmul, inst(NEURON_OP_HALT)}, NEURON_FAULT_WEIGHTS, 0);
  Instruction weights = inst(NEURON_OP_LDWEIGHTS);
  weights.src0 = sbuf(3, 0, kF32, 4);
  matmul.pe.swap = true;
  load_and_run(kPe, {weights, matmul, inst(NEURON_OP_HALT)});
  EXPECT_EQ(fault(kPe), unsigned{NEURON_FAULT_WEIGHTS});
  EXPECT_EQ(get(kPe, NEURON_ENG_EXC_PC), 1u);
  EXPECT_EQ(get(kPe, NEURON_ENG_EXC_INFO), 4u) << "partitions of the moving matrix";
}

TEST_F(Faults, NotificationsSayWhichOperandWasFoundWrongAndWhatWasExpected) {
  fill_sbuf(4, 64);
  set_up_ring(NEURON_NQ_SLOT_ERROR, kErrors);
  Instruction weights = inst(NEURON_OP_LDWEIGHTS);
  weights.src0 = sbuf(3, 0, kF32, 4);
  Instruction matmul = inst(NEURON_OP_MATMUL);
  matmul.dst = psum(4, 0, kF32, 8);
  matmul.src0 = sbuf(4, 0, kF32, 8);
  matmul.pe.swap = true;
  load_and_run(kPe, {weights, matmul, inst(NEURON_OP_HALT)});
  neuron_notification n = notification(kErrors, 0);
  EXPECT_EQ(n.info[0] & 0xFF, NEURON_INST_SRC0 + 3u);
  EXPECT_EQ(n.info[0] >> 16, 3u) << "partitions of the weights";
  EXPECT_EQ(n.info[1], 4u);
  EXPECT_EQ(n.info[2], 1u) << "src0";
  // By a register, so that nothing but the core can know the value.
  Instruction copy = inst(NEURON_OP_TENSOR_COPY);
  copy.dst = sbuf(4, 0, kF32, 3);
  copy.src0 = sbuf(4, 0, kF32, 3);
  copy.bind[0] = {5, NEURON_BIND_START, 1, NEURON_BIND_REPLACE};
  load_and_run(kDve, {mov(5, 7), copy, inst(NEURON_OP_HALT)});
  n = notification(kErrors, 1);
  EXPECT_EQ(n.info[0], (NEURON_INST_SRC0 + 2u) | 1u << 8);
  EXPECT_EQ(n.info[1], 7u);
  EXPECT_EQ(n.info[2], 1u);
  EXPECT_EQ(get(kDve, NEURON_ENG_EXC_FIELD),
            (NEURON_INST_SRC0 + 2u) | 1u << 8 | NEURON_OP_TENSOR_COPY << 16);
  EXPECT_EQ(get(kDve, NEURON_ENG_EXC_INFO), 7u);
  // A semaphore: index, value before, operand; none of them is an operand of the instruction.
  Instruction event = inst(NEURON_OP_EVENT);
  event.update[0] = update(NEURON_UPDATE_SUB, 40, false, 2);
  load_and_run(kSp, {event, inst(NEURON_OP_HALT)});
  n = notification(kErrors, 2);
  EXPECT_EQ(n.info[0], 40u);
  EXPECT_EQ(n.info[1], 0u);
  EXPECT_EQ(n.info[2], 2u);
  load_and_run(kSp, {branch(9)});
  n = notification(kErrors, 3);
  EXPECT_EQ(n.info[1], 9u);
  EXPECT_EQ(n.info[2], 3u) << "no operand";
}

TEST_F(Faults, BranchIntoTheBodyOfALoopThatIsNotRunning) {
  const Instruction nop = inst(NEURON_OP_NOP);
  const Instruction halt = inst(NEURON_OP_HALT);
  expect_fault(kSp, {branch(2), loop(1, 0, 3, 1, 1), nop, halt}, NEURON_FAULT_LOOP_NEST, 0);
  EXPECT_EQ(get(kSp, NEURON_ENG_EXC_INFO), 2u) << "the target";
  // From the outer body into the inner one, and by a call.
  load_and_run(kSp, {loop(1, 0, 3, 1, 4), branch(2), loop(2, 0, 3, 1, 2), nop, nop, halt});
  EXPECT_EQ(fault(kSp), unsigned{NEURON_FAULT_LOOP_NEST});
  EXPECT_EQ(get(kSp, NEURON_ENG_EXC_PC), 1u);
  load_and_run(kSp, {call(2), loop(1, 0, 3, 1, 2), nop, nop, halt});
  EXPECT_EQ(fault(kSp), unsigned{NEURON_FAULT_LOOP_NEST});
}

TEST_F(Faults, BranchesWithinABodyOverALoopAndToItsStartAreLegal) {
  const Instruction nop = inst(NEURON_OP_NOP);
  const Instruction halt = inst(NEURON_OP_HALT);
  // Inside the inner body; from it to the outer one; to a loop instruction; behind a body.
  load_and_run(kSp, {loop(1, 0, 3, 1, 5), loop(2, 0, 3, 1, 3), branch(2), nop, nop, nop, halt});
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
  load_and_run(kSp, {loop(1, 0, 3, 1, 4), loop(2, 0, 3, 1, 2), branch(2), nop, nop, halt});
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
  load_and_run(kSp, {branch(2), halt, loop(1, 0, 3, 1, 1), branch(1), branch(-3)});
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
  // A function in the body of the caller's loop may branch within itself.
  load_and_run(
      kSp, {loop(1, 0, 3, 1, 5), call(2), branch(3), branch(1), inst(NEURON_OP_RET), nop, halt});
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
}

TEST_F(Faults, LoopsAndCallsTooDeepOrCrossing) {
  std::vector<Instruction> nest;
  for (unsigned level = 0; level < 9; ++level) nest.push_back(loop(level, 0, 2, 1, 9 - level));
  nest.push_back(inst(NEURON_OP_NOP));
  nest.push_back(inst(NEURON_OP_HALT));
  expect_fault(kSp, nest, NEURON_FAULT_LOOP_DEPTH, 8);
  load_and_run(kSp, {loop(1, 0, 2, 1, 2), loop(2, 0, 2, 1, 3), inst(NEURON_OP_NOP),
                     inst(NEURON_OP_NOP), inst(NEURON_OP_NOP), inst(NEURON_OP_HALT)});
  EXPECT_EQ(fault(kSp), unsigned{NEURON_FAULT_LOOP_NEST});
  load_and_run(kSp, {call(0)});
  EXPECT_EQ(fault(kSp), unsigned{NEURON_FAULT_LOOP_DEPTH});
  load_and_run(kSp, {inst(NEURON_OP_RET)});
  EXPECT_EQ(fault(kSp), unsigned{NEURON_FAULT_LOOP_DEPTH});
}

TEST_F(Faults, DivisionByZero) {
  expect_fault(kSp, {alu(1, 2, NEURON_ALU_DIV, 0)}, NEURON_FAULT_DIVIDE, 0);
}

TEST_F(Faults, SemaphoreRangeKeepsTheOldValue) {
  Instruction under = inst(NEURON_OP_EVENT);
  under.update[0] = update(NEURON_UPDATE_SUB, 60, false, 3);
  increment(60, 2);
  expect_fault(kSp, {under, inst(NEURON_OP_HALT)}, NEURON_FAULT_SEM_UNDERFLOW, 0);
  EXPECT_EQ(semaphore(60), 2u);
  Instruction over = inst(NEURON_OP_EVENT);
  over.update[0] = update(NEURON_UPDATE_INC, 61);
  set_core(NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_SET + 4 * 61, NEURON_SEMAPHORE_MAX);
  load_and_run(kSp, {over, inst(NEURON_OP_HALT)});
  EXPECT_EQ(fault(kSp), unsigned{NEURON_FAULT_SEM_OVERFLOW});
  EXPECT_EQ(get(kSp, NEURON_ENG_EXC_ADDR_LO), 61u);
  EXPECT_EQ(semaphore(61), unsigned{NEURON_SEMAPHORE_MAX});
}

TEST_F(Faults, DoubleEvent) {
  Instruction twice = inst(NEURON_OP_EVENT);
  twice.update = {update(NEURON_UPDATE_EVENT_SET, 3), update(NEURON_UPDATE_EVENT_SET, 3)};
  expect_fault(kSp, {twice, inst(NEURON_OP_HALT)}, NEURON_FAULT_EVENT_DOUBLE, 0);
}

TEST_F(Faults, UnmappedAddress) {
  Instruction load_word = inst(NEURON_OP_LOAD);
  load_word.address = {0xABCDEF0000, 0, 1};
  expect_fault(kSp, {load_word, inst(NEURON_OP_HALT)}, NEURON_FAULT_BUS, 0);
  EXPECT_EQ(get(kSp, NEURON_ENG_EXC_ADDR_LO), 0xCDEF0000u);
  EXPECT_EQ(get(kSp, NEURON_ENG_EXC_ADDR_HI), 0xABu);
}

TEST_F(Faults, ProgramThatIsNotInMemory) {
  set(kSp, NEURON_ENG_PROG_HI, 0x7F);
  set(kSp, NEURON_ENG_PROG_COUNT, 4);
  set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_START);
  run();
  EXPECT_EQ(fault(kSp), unsigned{NEURON_FAULT_FETCH});
}

TEST_F(Faults, CodeThatChangesWhileItRuns) {
  // The loop overwrites the debug id of its own second instruction.
  const uint64_t target = kCode + kSp * 0x10000 + 2 * NEURON_INSTRUCTION_BYTES + NEURON_INST_DEBUG;
  expect_fault(
      kSp,
      {mov(1, 9), loop(2, 0, 3, 1, 2), inst(NEURON_OP_NOP), store(target, 1), inst(NEURON_OP_HALT)},
      NEURON_FAULT_CODE_WRITE, 2);
  // After START the new code is simply the program.
  set(kSp, NEURON_ENG_CONTROL, NEURON_CMD_START);
  run();
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
}

TEST_F(Faults, FirstFaultStaysUntilCleared) {
  expect_fault(kSp, {inst(NEURON_OP_NOP)}, NEURON_FAULT_PC_RANGE, 1);
  EXPECT_NE(get(kSp, NEURON_ENG_STATUS) & NEURON_ENG_STATUS_FAULT, 0u);
  set(kSp, NEURON_ENG_EXC_CLEAR, 1);
  EXPECT_EQ(fault(kSp), 0u);
  EXPECT_EQ(state(kSp), NEURON_STATE_IDLE);
  EXPECT_EQ(core_register(NEURON_CORE_CONTROL + NEURON_CORE_FAULTS), 0u);
}

TEST_F(Faults, StopsTheOtherEnginesUnlessToldNotTo) {
  const std::vector<Instruction> waiting{[] {
                                           Instruction i = inst(NEURON_OP_EVENT);
                                           i.wait[0] = wait_ge(70, 1);
                                           return i;
                                         }(),
                                         inst(NEURON_OP_HALT)};
  load(kPe, waiting);
  run();
  load_and_run(kSp, {inst(NEURON_OP_RET)});
  EXPECT_EQ(state(kPe), NEURON_STATE_STOPPED);
  EXPECT_EQ(fault(kPe), 0u);
  load(kPe, waiting);
  set_core(NEURON_CORE_CONTROL + NEURON_CORE_MODE, 0);
  load_and_run(kSp, {inst(NEURON_OP_RET)});
  EXPECT_EQ(state(kPe), NEURON_STATE_WAITING);
}

TEST_F(Faults, RefusesStreamsThatRepeatElementsWithoutEnd) {
  Instruction fill = inst(NEURON_OP_MEMSET);
  fill.dst = tile(NEURON_SPACE_SBUF, 0, 1, 0, kF32, {65535, 65535, 65535, 65535}, {0, 0, 0, 0});
  expect_fault(kDve, {fill, inst(NEURON_OP_HALT)}, NEURON_FAULT_OPERAND_SHAPE, 0);
}

TEST_F(Faults, NanIsAWarningThatStopsNothing) {
  set_up_ring(NEURON_NQ_SLOT_ERROR, kErrors);
  Instruction copy = inst(NEURON_OP_RECIPROCAL);
  copy.nan = true;
  copy.src0 = sbuf(1, 0, kF32, 1);
  set_sbuf(0, 0, std::numeric_limits<float>::quiet_NaN());
  copy.dst = sbuf(1, 64, kF32, 1);
  load_and_run(kDve, {copy, inst(NEURON_OP_HALT)});
  EXPECT_EQ(state(kDve), NEURON_STATE_HALTED);
  EXPECT_EQ(notification(kErrors, 0).word >> NEURON_NW_CODE_SHIFT & 0xFF,
            unsigned{NEURON_FAULT_NUMERIC_NAN});
}

}  // namespace
}  // namespace neuron::core
