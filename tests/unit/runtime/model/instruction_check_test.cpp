// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/instruction_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/isa/instruction.h"

namespace neuron::runtime {
namespace {

using ::testing::HasSubstr;

isa::Instruction event(uint8_t engine = NEURON_ENGINE_SP) {
  isa::Instruction instruction;
  instruction.opcode = NEURON_OP_EVENT;
  instruction.engines = static_cast<uint8_t>(1u << engine);
  return instruction;
}

std::vector<std::byte> code_of(const std::vector<isa::Instruction>& instructions) {
  std::vector<std::byte> code(instructions.size() * NEURON_INSTRUCTION_BYTES);
  for (size_t i = 0; i < instructions.size(); ++i) {
    isa::encode(
        instructions[i],
        std::span(code).subspan(i * NEURON_INSTRUCTION_BYTES).first<NEURON_INSTRUCTION_BYTES>());
  }
  return code;
}

Result<SynchronizationUse> check(const std::vector<isa::Instruction>& instructions,
                                 uint32_t engine = NEURON_ENGINE_SP,
                                 const std::vector<neff::SourceLine>& lines = {}) {
  SynchronizationUse used;
  NEURON_CHECK(check_program(code_of(instructions), engine, 2, lines, {}, used));
  return used;
}

TEST(ProgramCheck, CollectsTheSemaphoresAndEventsOfWaitsAndUpdates) {
  isa::Instruction waits = event();
  waits.wait[0] = {.index = 20, .condition = NEURON_WAIT_GE, .value = 1};
  waits.wait[1] = {.index = 3, .condition = NEURON_WAIT_EQ, .event = true, .value = 1};
  waits.update[0] = {.index = 21, .operation = NEURON_UPDATE_INC, .at_complete = true};
  waits.update[1] = {.index = 4, .operation = NEURON_UPDATE_EVENT_SET, .at_complete = true};
  const auto used = check({event(), waits});
  ASSERT_TRUE(used) << used.error().sentence;
  EXPECT_EQ(used->semaphores.count(), 2u);
  EXPECT_TRUE(used->semaphores[20] && used->semaphores[21]);
  EXPECT_EQ(used->events.count(), 2u);
  EXPECT_TRUE(used->events[3] && used->events[4]);
}

TEST(ProgramCheck, AnInstructionThatTouchesNothingUsesNothing) {
  const auto used = check({event(), event()});
  ASSERT_TRUE(used);
  EXPECT_TRUE(used->semaphores.none());
  EXPECT_TRUE(used->events.none());
}

TEST(ProgramCheck, SaysWhereAnInstructionIsWrongAndWhatWasFound) {
  const auto refused = check({event(), event(NEURON_ENGINE_PE)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, NRT_INVALID);
  EXPECT_THAT(refused.error().sentence, HasSubstr("SP pc 1: "));
  EXPECT_THAT(refused.error().sentence, HasSubstr("WRONG_ENGINE"));
  EXPECT_THAT(refused.error().sentence, HasSubstr(" of the instruction, expected: "));
}

TEST(ProgramCheck, ANewerInstructionSetIsAnotherStatus) {
  auto code = code_of({event()});
  code[NEURON_HEAD_ISA_SHIFT / 8] = std::byte{0xFF};
  SynchronizationUse used;
  const auto refused = check_program(code, NEURON_ENGINE_SP, 2, {}, {}, used);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, NRT_UNSUPPORTED_NEFF_VERSION) << refused.error().sentence;
}

TEST(ProgramCheck, DescribesAnInstructionWithItsSourceLine) {
  isa::Instruction instruction = event();
  instruction.debug = 5;
  const auto code = code_of({instruction});
  const std::vector<neff::SourceLine> lines = {{4, 1, 0, "a.py"}, {5, 40, 0, "b.py"}};
  EXPECT_THAT(describe_instruction(NEURON_ENGINE_SP, 12, code, lines, {}),
              HasSubstr("SP pc 12 (b.py:40): event"));
  const std::vector<neff::SourceLine> whole = {{5, 0, 0, "b.py"}};
  EXPECT_THAT(describe_instruction(NEURON_ENGINE_SP, 12, code, whole, {}),
              HasSubstr("SP pc 12 (b.py): event"));
  const std::vector<neff::SourceLine> others = {{4, 1, 0, "a.py"}, {6, 2, 0, "c.py"}};
  EXPECT_THAT(describe_instruction(NEURON_ENGINE_SP, 12, code, others, {}),
              HasSubstr("SP pc 12: event"));
  EXPECT_EQ(describe_instruction(NEURON_ENGINE_PE, 3, {}, lines, {}), "PE pc 3");
}

TEST(ProgramCheck, AnInstructionWithoutADebugNumberHasNoSourceLine) {
  const std::vector<neff::SourceLine> lines = {{0, 40, 0, "b.py"}};
  EXPECT_THAT(describe_instruction(NEURON_ENGINE_SP, 0, code_of({event()}), lines, {}),
              HasSubstr("SP pc 0: event"));
}

}  // namespace
}  // namespace neuron::runtime
