// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/instruction_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "driver/isa/opcode_table.h"
#include "tests/unit/driver/isa/samples.h"

namespace neuron::assembler {
namespace {

using isa::Instruction;
using isa::testing::raw;
using ::testing::HasSubstr;

std::optional<Instruction> parsed(const std::string& text, unsigned engine) {
  Diagnostic error;
  auto instruction = parse_instruction(text, static_cast<int>(engine), error);
  EXPECT_TRUE(instruction.has_value()) << render(error, "text", text);
  return instruction;
}
// Column and message of what is wrong with it.
std::string line_refusal(const std::string& text, unsigned engine = NEURON_ENGINE_DVE) {
  Diagnostic error;
  if (parse_instruction(text, static_cast<int>(engine), error)) return "accepted";
  return std::to_string(error.column) + ": " + error.message;
}

void expect_round_trip(const isa::testing::Raw& bytes, unsigned engine) {
  const std::string text = isa::disassemble(isa::decode(bytes), static_cast<int>(engine));
  const auto back = parsed(text, engine);
  ASSERT_TRUE(back.has_value());
  ASSERT_EQ(raw(*back), bytes) << text << "\n" << isa::disassemble(*back, static_cast<int>(engine));
}

TEST(InstructionParser, ReadsBackEveryOpcodeThatIsPrinted) {
  std::set<unsigned> seen;
  for (const isa::testing::Sample& sample : isa::testing::samples()) {
    seen.insert(sample.instruction.opcode);
    expect_round_trip(raw(sample.instruction), sample.engine);
  }
  for (const isa::OpcodeInfo& info : isa::all_opcodes()) {
    EXPECT_EQ(seen.contains(info.opcode), info.available) << info.name;
  }
}

// Immediates of 64-bit integers are the 32 bits that the instruction holds.
TEST(InstructionParser, ReadsBackInstructionsOn64BitIntegers) {
  constexpr unsigned pool = NEURON_ENGINE_POOL;
  for (const char* text :
       {"tensor_tensor sbuf[0:128, 0x0] i64 [64] = sbuf[0:128, 0x400] i64 [64], sbuf[0:128, 0x800] "
        "i64 [64], op=add",
        "tensor_scalar sbuf[0:128, 0x0] u64 [64] = sbuf[0:128, 0x400] u64 [64], op0=mul, "
        "s0=0xFFFFFFFB i32, rev0, op1=sub, s1=&sbuf[0, 0x1000] u64",
        "tensor_copy sbuf[0:128, 0x0] bf16 [64] = sbuf[0:128, 0x400] i64 [64:2]",
        "tensor_reduce sbuf[0:128, 0x0] u64 [1] = sbuf[0:128, 0x400] u64 [64], reduce=xor, axes=1",
        "memset sbuf[0:128, 0x0] i64 [64], value=0xFFFFFFFF",
        "iota sbuf[0:128, 0x0] i64 [64], p0=64:1, offset=&sbuf[0, 0x1000] i64, channel=-3",
        "partition_reduce sbuf[0:1, 0x0] i64 [64] = sbuf[0:128, 0x400] i64 [64], op=max"}) {
    const auto instruction = parsed(text, pool);
    ASSERT_TRUE(instruction.has_value());
    EXPECT_EQ(isa::disassemble(*instruction, pool), text);
    const isa::Violation v = isa::check_operands(*instruction, pool, isa::limits_of(3));
    EXPECT_FALSE(v) << isa::describe(v, *instruction);
    expect_round_trip(raw(*instruction), pool);
  }
}

// Initial values of accumulators, and operations of later engines.
TEST(InstructionParser, ReadsBackLoadedAccumulatorsAndQuotients) {
  constexpr unsigned dve = NEURON_ENGINE_DVE, act = NEURON_ENGINE_ACTIVATION;
  const std::pair<unsigned, const char*> lines[] = {
      {dve,
       "exponential sbuf[0:128, 0x0] f32 [64] = sbuf[0:128, 0x400] bf16 [64], s0=1.5, "
       "s1=&sbuf[0, 0x1000] f32, reduce=add, load_reduce"},
      {dve,
       "exponential sbuf[0:128, 0x0] f32 [64] = sbuf[0:128, 0x400] bf16 [64], s1=-2, "
       "reduce=add, load_reduce"},
      {dve,
       "tensor_scalar_reduce sbuf[0:128, 0x0] f32 [64] = sbuf[0:128, 0x400] f32 [64], op0=sub, "
       "s0=2, s1=0.5, reduce=max, load_reduce"},
      {dve,
       "tensor_tensor sbuf[0:128, 0x0] f32 [64] = sbuf[0:128, 0x400] f32 [64], sbuf[0:128, "
       "0x800] f32 [64], op=mod"},
      {act,
       "tensor_scalar sbuf[0:128, 0x0] f32 [64] = sbuf[0:128, 0x400] f32 [64], op0=div, s0=1, "
       "rev0, op1=average, s1=2"}};
  for (const auto& [engine, text] : lines) {
    const auto instruction = parsed(text, engine);
    ASSERT_TRUE(instruction.has_value());
    EXPECT_EQ(isa::disassemble(*instruction, static_cast<int>(engine)), text);
    const isa::Limits limits = isa::limits_of(4);
    isa::Violation v = isa::check_encoding(raw(*instruction), engine, limits);
    if (!v) v = isa::check_operands(*instruction, engine, limits);
    EXPECT_FALSE(v) << isa::describe(v, *instruction);
    expect_round_trip(raw(*instruction), engine);
  }
}

TEST(InstructionParser, ReadsBackIndirectOperands) {
  Instruction i = isa::testing::make(NEURON_OP_TENSOR_COPY, NEURON_ENGINE_DVE);
  i.dst = isa::testing::sbuf(0, 64);
  i.src0 = isa::testing::sbuf(0x400, 64);
  for (const isa::IndexPlace& place : {isa::IndexPlace{0x2000, 0, NEURON_DTYPE_U16},
                                       isa::IndexPlace{0x3FFFC, 96, NEURON_DTYPE_I32},
                                       isa::IndexPlace{0x1FFFC, 64, NEURON_DTYPE_U32}}) {
    i.dst.set_index(place);
    expect_round_trip(raw(i), NEURON_ENGINE_DVE);
    i.src0.set_index(place);
    expect_round_trip(raw(i), NEURON_ENGINE_DVE);
  }
}

TEST(InstructionParser, SaysWhatIsWrongWithTheIndexOfAnOperand) {
  const auto with = [](const std::string& index) {
    return "tensor_copy sbuf[0:128, 0x0] f32 [8] = sbuf[0:128, 0x0] f32 [8 by " + index + "]";
  };
  EXPECT_THAT(line_refusal(with("sbuf[0, 0x2000] u16")),
              HasSubstr("as in by &sbuf[0, 0x2000] u16"));
  EXPECT_THAT(line_refusal(with("&psum[0, 0x2000] u16")), HasSubstr("where an index lies"));
  EXPECT_THAT(line_refusal(with("&sbuf[16, 0x2000] u16")), HasSubstr("0, 32, 64 or 96"));
  EXPECT_THAT(line_refusal(with("&sbuf[0, 0x40000] u16")), HasSubstr("byte offset"));
  EXPECT_THAT(line_refusal(with("&sbuf[0, 0x2000]")), HasSubstr("a data type"));
}

TEST(InstructionParser, ReadsBackEveryAcceptedChangeOfAnInstruction) {
  std::mt19937_64 random(20261121);
  const auto samples = isa::testing::samples();
  unsigned accepted = 0;
  for (unsigned round = 0; round < 300; ++round) {
    for (const isa::testing::Sample& sample : samples) {
      isa::testing::Raw bytes = raw(sample.instruction);
      // Waits, updates and flags are legal everywhere.
      Instruction changed = isa::decode(bytes);
      const auto pick = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
      for (unsigned n = 0; n < 2; ++n) {
        if (pick(2)) {
          changed.wait[n] = {static_cast<uint8_t>(pick(256)), static_cast<uint8_t>(1 + pick(6)),
                             false, pick(4) == 0, static_cast<uint16_t>(pick(64))};
        }
        if (pick(2)) {
          const auto operation = static_cast<uint8_t>(1 + pick(7));
          const bool value = operation >= NEURON_UPDATE_ADD && operation <= NEURON_UPDATE_WRITE;
          changed.update[n] = {static_cast<uint8_t>(pick(256)), operation, pick(2) == 0,
                               value && pick(4) == 0, static_cast<uint16_t>(value ? pick(64) : 0)};
        }
      }
      changed.debug = pick(3) ? 0 : static_cast<uint32_t>(random());
      changed.trace = pick(4) == 0;
      changed.brk = pick(4) == 0;
      changed.drain = pick(4) == 0;
      changed.rounding = static_cast<uint8_t>(pick(3));
      bytes = raw(changed);
      for (unsigned flips = pick(3); flips > 0; --flips) {
        const unsigned bit = pick(NEURON_INSTRUCTION_BYTES * 8);
        bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      }
      if (broken_rule(bytes, sample.engine, sample.generation)) continue;
      ++accepted;
      expect_round_trip(bytes, sample.engine);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  EXPECT_GT(accepted, 5000U);
}

TEST(InstructionParser, AnyBytesGiveTextThatTheParserSurvives) {
  std::mt19937_64 random(3);
  const auto opcodes = isa::all_opcodes();
  for (unsigned round = 0; round < 4000; ++round) {
    isa::testing::Raw bytes;
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    const uint32_t head = opcodes[random() % opcodes.size()].opcode | 0x00101000U;
    std::memcpy(bytes.data(), &head, sizeof head);
    Diagnostic error;
    parse_instruction(isa::disassemble(isa::decode(bytes), 4), 4, error);
  }
}

TEST(InstructionParser, WhatAPersonWritesMeansWhatItLooksLike) {
  const auto loop = parsed("loop r2 = 1 .. r3 step 4, length=2", NEURON_ENGINE_SP);
  EXPECT_EQ(loop->flow.rd, 2);
  EXPECT_EQ(loop->scalar0.value, 1U);
  EXPECT_EQ(loop->scalar1.kind, NEURON_SCALAR_REGISTER);
  EXPECT_EQ(loop->loop.step, 4);
  EXPECT_EQ(loop->loop.length, 2U);
  const auto alu = parsed("alu r4 = r5 - 3", NEURON_ENGINE_SP);
  EXPECT_EQ(alu->flow.alu, NEURON_ALU_SUB);
  EXPECT_EQ(alu->scalar0.value, 3U);
  EXPECT_TRUE(alu->flow.imm);
  const auto branch = parsed("branch lt r1, 5, -7", NEURON_ENGINE_SP);
  EXPECT_EQ(branch->flow.condition, NEURON_BRANCH_LT);
  EXPECT_EQ(branch->flow.ra, 1);
  EXPECT_EQ(branch->scalar0.value, 5U);
  EXPECT_EQ(branch->flow.target, -7);
  EXPECT_EQ(parsed("branch eq r1 r2 +4", NEURON_ENGINE_SP)->flow.rb, 2);
  EXPECT_EQ(parsed("event wait(go_sp >= 1) then(done++)", NEURON_ENGINE_SP)->wait[0].index, 4);
  // A bare number is 32 bits in control, and an f32 in arithmetic.
  EXPECT_EQ(parsed("complete s0=1", NEURON_ENGINE_SP)->scalar0.value, 1U);
  const char* scale = "activate sbuf[0:128, 0x0] f32 [4] = copy sbuf[0:128, 0x0] f32 [4], scale=1";
  EXPECT_EQ(parsed(scale, NEURON_ENGINE_ACTIVATION)->scalar0.value, 0x3F800000U);
  EXPECT_EQ(parsed("memset sbuf[0:1, 0x0] i32 [4], value=-2", NEURON_ENGINE_POOL)->vector.imm,
            0xFFFFFFFEU);
  EXPECT_EQ(parsed("memset sbuf[0:1, 0x0] f32 [4], value=1", NEURON_ENGINE_POOL)->vector.imm,
            0x3F800000U);
}

TEST(InstructionParser, AnErrorSaysWhereWhatWasFoundAndWhatIsExpected) {
  EXPECT_EQ(line_refusal("matmull psum"),
            "1: found \"matmull\", expected an instruction, as matmul, tensor_copy or event, or a "
            "directive, as .var");
  EXPECT_THAT(line_refusal("activate_quantize"),
              HasSubstr("found activate_quantize, an instruction of generation 4"));
  EXPECT_THAT(line_refusal("memset psam[0:128, 0x0] f32 [4]"),
              HasSubstr("8: found \"psam\", expected a tensor, as in sbuf["));
  EXPECT_THAT(line_refusal("memset sbuf[0:128, 0x0] f33 [4]"),
              HasSubstr("25: found \"f33\", expected a data type"));
  EXPECT_THAT(line_refusal("memset sbuf[0:128, 0x0] f32 [4, 4, 4, 4, 4]"),
              HasSubstr("a tensor has at most 4 free dimensions"));
  EXPECT_THAT(line_refusal("memset sbuf[0:128, 0x0] f32 [4], fill=3"),
              HasSubstr("34: found \"fill\""));
  EXPECT_THAT(line_refusal("memset sbuf[0:128, 0x0] f32 [4], fill=3"),
              HasSubstr("memset's keys: value="));
  EXPECT_THAT(line_refusal("event wait(s300 >= 1)"), HasSubstr("expected a number up to 255"));
  EXPECT_THAT(line_refusal("event wait(s3 => 1)"),
              HasSubstr("found \"=\", expected one of >= == >"));
  EXPECT_THAT(line_refusal("event wait(s3 >= 70000)"),
              HasSubstr("18: found 70000, expected a register or a number from 0 to 65535"));
  EXPECT_THAT(line_refusal("event wait(s1 >= 1, s2 >= 1, s3 >= 1)"), HasSubstr("two waits"));
  EXPECT_THAT(line_refusal("event wait(full >= 1)"), HasSubstr("name it with .sem before"));
  EXPECT_THAT(line_refusal("event wait(s1 >= 1"),
              HasSubstr("found the end of the line, expected \")\""));
  EXPECT_THAT(line_refusal("mov r64 = 1"), HasSubstr("\"r64\""));
  EXPECT_THAT(line_refusal("branch always loop_head"), HasSubstr("need a program around them"));
  EXPECT_THAT(
      line_refusal("tensor_scalar sbuf[0:1, 0x0] f32 [4] = sbuf[0:1, 0x0] f32 [4], s0=1e99"),
      HasSubstr("fits into an f32"));
}

}  // namespace
}  // namespace neuron::assembler
