// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/veneers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hw/udma.h"
#include "tests/unit/runtime/rings/calling_program.h"

namespace neuron::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> code_of(const neff::EngineProgram& program) {
  const auto bytes = std::as_bytes(std::span(program.code));
  return {bytes.begin(), bytes.end()};
}

Result<VeneerRegisters> unused_of(const isa::Instruction& instruction) {
  std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
  isa::encode(instruction, bytes);
  return find_unused_registers(bytes, NEURON_ENGINE_SP);
}

isa::Instruction make(uint16_t opcode) {
  isa::Instruction instruction;
  instruction.opcode = opcode;
  instruction.engines = 1u << NEURON_ENGINE_SP;
  return instruction;
}

TEST(Veneers, UseTheHighestRegistersThatNoInstructionNames) {
  const auto found = [](const isa::Instruction& instruction) {
    const auto registers = unused_of(instruction);
    EXPECT_TRUE(registers) << registers.error().sentence;
    return std::vector<int>{registers->base, registers->scratch};
  };
  EXPECT_THAT(found(make(NEURON_OP_NOP)), ElementsAre(63, 62));
  isa::Instruction alu = make(NEURON_OP_ALU);
  alu.flow = {.rd = 63, .ra = 62, .rb = 60};
  EXPECT_THAT(found(alu), ElementsAre(61, 59));
  isa::Instruction time = make(NEURON_OP_TIME);
  time.flow.rd = 62;
  EXPECT_THAT(found(time), ElementsAre(61, 60)) << "time takes two";
  isa::Instruction write = make(NEURON_OP_WRITE);
  write.address.count = 1;
  write.scalar0 = {.value = 63, .kind = NEURON_SCALAR_REGISTER, .dtype = NEURON_DTYPE_U32};
  write.bind[0] = {61, NEURON_BIND_BASE, 0, NEURON_BIND_ADD_PAIR};
  EXPECT_THAT(found(write), ElementsAre(60, 59)) << "an address takes two";
  isa::Instruction event = make(NEURON_OP_EVENT);
  event.wait[0] = {.index = 20, .condition = NEURON_WAIT_GE, .is_register = true, .value = 63};
  event.update[0] = {.index = 20, .operation = NEURON_UPDATE_ADD, .is_register = true, .value = 62};
  event.wait[1] = {.index = 21, .condition = NEURON_WAIT_GE, .value = 61};
  EXPECT_THAT(found(event), ElementsAre(61, 60)) << "61 is a number";
}

TEST(Veneers, ARegisterTooFewIsRefused) {
  test::CallingProgram sample;
  for (uint32_t number = 1; number < NEURON_REGISTERS; number += 2) {
    sample.code[sample.add(NEURON_OP_ALU)].flow = {.rd = static_cast<uint8_t>(number),
                                                   .ra = static_cast<uint8_t>(number - 1)};
  }
  const auto all = find_unused_registers(code_of(sample.take()), NEURON_ENGINE_POOL);
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().status, NRT_RESOURCE);
  EXPECT_THAT(all.error().sentence, HasSubstr("functions of engine Pool share DMA queues"));
  EXPECT_THAT(all.error().sentence, HasSubstr("uses 64 of 64"));
}

// Functions 1 and 2, of which main calls both and 2 calls 1, with one and two rings.
struct Sample {
  Sample() {
    program.call(1);
    program.call(2);
    program.add(NEURON_OP_RET);
    program.function("one", {});
    program.function("two", {1});
    const neff::EngineProgram taken = program.take();
    code = code_of(taken);
    functions = {{taken.entries[1].pc, {0, taken.entries[2].pc + 1}, {}},
                 {taken.entries[2].pc, {1}, {}}};
    functions[0].rings.push_back({.number = 3, .engines = 1});
    functions[0].rings[0].offset[0] = {0x100, 0x2000};
    functions[1].rings.push_back({.number = 4, .engines = 2});
    functions[1].rings[0].offset[0] = {0x200, 0x2100};
    functions[1].rings[0].offset[1] = {0x300, 0x2200};
    functions[1].rings.push_back({.number = 5, .engines = 16});
    veneers = make_veneers(NEURON_ENGINE_SP, functions, core, {.base = 63, .scratch = 62});
    call_veneers(functions, veneers, code);
  }
  isa::Instruction at(uint32_t pc) const {
    return isa::decode(std::span<const std::byte>(code)
                           .subspan(size_t{pc} * NEURON_INSTRUCTION_BYTES)
                           .first<NEURON_INSTRUCTION_BYTES>());
  }

  const CorePlace core{.number = 0};
  test::CallingProgram program;
  std::vector<std::byte> code;
  std::vector<SharingFunction> functions;
  Veneers veneers;
};

TEST(Veneers, LieBetweenCallsAndFunctions) {
  const Sample sample;
  const auto behind = static_cast<int64_t>(sample.veneers.code.size());
  const auto called = [&](uint32_t pc) { return behind + pc + sample.at(pc).flow.target; };
  EXPECT_EQ(called(0), sample.veneers.entries[0]);
  EXPECT_EQ(called(1), sample.veneers.entries[1]);
  EXPECT_EQ(called(sample.functions[1].pc + 1), sample.veneers.entries[0]);
  std::vector<int64_t> reached;
  for (int64_t pc = 0; pc < behind; ++pc) {
    const isa::Instruction& i = sample.veneers.code[static_cast<size_t>(pc)];
    if (i.opcode == NEURON_OP_BRANCH) reached.push_back(pc + i.flow.target - behind);
  }
  EXPECT_THAT(reached, ElementsAre(sample.functions[0].pc, sample.functions[1].pc));
}

TEST(Veneers, WaitUntilTheQueuesAreIdleAndGiveThemTheirRings) {
  const Sample sample;
  std::vector<std::string> lines;
  for (uint32_t pc = 0; pc < sample.veneers.entries[1]; ++pc) {
    lines.push_back(isa::disassemble(sample.veneers.code[pc], NEURON_ENGINE_SP));
  }
  const auto reg = [&](uint32_t side, uint32_t offset) {
    return format("0x{:X}", sample.core.queue_register(0, side, 3, offset));
  };
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_TRUE(sample.veneers.code[0].drain);
  EXPECT_THAT(lines[1], HasSubstr("alu r62 = r63 add, s0=0x100 u32"));
  EXPECT_THAT(lines[2], HasSubstr("r62"));
  EXPECT_THAT(lines[2], HasSubstr(reg(NEURON_UDMA_M2S, NEURON_UDMAQ_BASE_LO)));
  EXPECT_THAT(lines[3], HasSubstr("alu r62 = r63 add, s0=0x2000 u32"));
  EXPECT_THAT(lines[4], HasSubstr(reg(NEURON_UDMA_S2M, NEURON_UDMAQ_BASE_LO)));
  EXPECT_THAT(lines[5], HasSubstr(reg(NEURON_UDMA_M2S, NEURON_UDMAQ_M2S_SW_CONTROL)));
  EXPECT_THAT(lines[6], HasSubstr(reg(NEURON_UDMA_S2M, NEURON_UDMAQ_S2M_SW_CONTROL)));
  // Two and sixteen DMA engines: an addition and a store for each half of each, two rewinds a ring.
  EXPECT_EQ(sample.veneers.code.size() - sample.veneers.entries[1], 1 + (2 * 4 + 2) + (64 + 2) + 1);
}

TEST(Veneers, AreValidCodeOnEveryEngineOfEveryGeneration) {
  const Sample sample;
  for (uint8_t generation = 2; generation <= 4; ++generation) {
    for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
      const Veneers veneers =
          make_veneers(engine, sample.functions, sample.core, {.base = 63, .scratch = 62});
      for (const isa::Instruction& instruction : veneers.code) {
        std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
        isa::encode(instruction, bytes);
        const isa::Violation violation =
            isa::check_encoding(bytes, engine, isa::limits_of(generation));
        EXPECT_FALSE(violation) << isa::disassemble(instruction) << ": " << violation.what;
      }
    }
  }
}

}  // namespace
}  // namespace neuron::runtime
