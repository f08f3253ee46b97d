// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

#include "driver/isa/opcode_table.h"
#include "tests/unit/driver/isa/samples.h"

namespace neuron::isa {
namespace {

using testing::Raw;
using testing::raw;

// Rows of 16 bytes as "offset: words", in the order of the bytes.
Raw from_rows(std::initializer_list<std::pair<unsigned, const char*>> rows) {
  Raw bytes{};
  for (const auto& [offset, text] : rows) {
    unsigned at = offset;
    for (const char* p = text; *p;) {
      if (*p == ' ') {
        ++p;
        continue;
      }
      const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'A' + 10; };
      bytes[at++] = static_cast<std::byte>(digit(p[0]) * 16 + digit(p[1]));
      p += 2;
    }
  }
  return bytes;
}

const Raw kMatmul = from_rows({{0x00, "01120100 07000000 14012000 00000000"},
                               {0x10, "15010000 00000000 05240000 00000000"},
                               {0x20, "00000000 A8180000 00020100 00000000"},
                               {0x30, "00000000 00000000 00400000 68140000"},
                               {0x40, "00020100 00000000 00000000 00000000"},
                               {0x70, "00000000 00000000 00180000 00000000"}});
const Raw kActivate = from_rows({{0x00, "00140200 09000000 16010100 00000000"},
                                 {0x10, "17090000 00000000 00000000 00000000"},
                                 {0x20, "00800000 68140000 00020100 00000000"},
                                 {0x30, "00000000 00000000 00080000 A8280000"},
                                 {0x40, "80000100 04008000 00000000 00000000"},
                                 {0x60, "00000000 00000000 0000003E 29000000"},
                                 {0x70, "00C00000 2A010000 1100C100 00000000"}});
const Raw kTrigger = from_rows({{0x00, "00161000 0C000000 15010100 00000000"},
                                {0x20, "383000F0 FF0F0000 383002F0 FF0F0000"},
                                {0x30, "00000400 FFFF0200 03000000 00000000"},
                                {0x40, "09000900 09000900 09000900 09000900"},
                                {0x50, "09000900 09000900 09000900 09000900"},
                                {0x60, "09000900 09000900 09000900 09000900"},
                                {0x70, "09000900 09000900 09000900 09000900"}});

TEST(InstructionCodec, DecodesTheSpecifiedMatmul) {
  const Instruction i = decode(kMatmul);
  EXPECT_EQ(i.opcode, NEURON_OP_MATMUL);
  EXPECT_EQ(i.debug, 7U);
  EXPECT_EQ(i.wait[0].index, 20);
  EXPECT_EQ(i.wait[0].condition, NEURON_WAIT_GE);
  EXPECT_EQ(i.wait[0].value, 32);
  EXPECT_EQ(i.update[0].index, 21);
  EXPECT_FALSE(i.update[0].at_complete);
  EXPECT_EQ(i.bind[0].reg, 5);
  EXPECT_EQ(i.bind[0].operand, 1);
  EXPECT_EQ(i.bind[0].mode, NEURON_BIND_ADD);
  EXPECT_EQ(i.src0.base, 0x4000U);
  EXPECT_EQ(i.src0.parts, 128);
  EXPECT_EQ(i.src0.dtype, NEURON_DTYPE_BF16);
  EXPECT_EQ(i.dst.space, NEURON_SPACE_PSUM);
  EXPECT_TRUE(i.pe.accumulate);
  EXPECT_TRUE(i.pe.swap);
  EXPECT_FALSE(check_encoding(kMatmul, NEURON_ENGINE_PE, Limits{}));
  EXPECT_FALSE(check_operands(i, NEURON_ENGINE_PE, Limits{}));
  EXPECT_EQ(disassemble(i, NEURON_ENGINE_PE),
            "matmul psum[0:128, 0x0] f32 [512] = sbuf[0:128, 0x4000+r5] bf16 [512], acc, swap"
            "  wait(s20 >= 32)  then(s21++!)  @7");
}

TEST(InstructionCodec, DecodesTheSpecifiedActivation) {
  const Instruction i = decode(kActivate);
  EXPECT_FALSE(check_encoding(kActivate, NEURON_ENGINE_ACTIVATION, Limits{}));
  EXPECT_EQ(i.src0.size[1], 4);
  EXPECT_EQ(i.scalar1.kind, NEURON_SCALAR_POINTER);
  EXPECT_EQ(i.act.reduce_command, NEURON_REDUCE_RESET_ACCUMULATE);
  EXPECT_TRUE(i.update[0].at_complete);
  EXPECT_EQ(disassemble(i, NEURON_ENGINE_ACTIVATION),
            "activate sbuf[0:128, 0x8000] bf16 [512] = exp psum[0:128, 0x800] f32 [4, 128],"
            " scale=0.125, bias=&sbuf[0, 0xC000] f32, reduce=add, reset_reduce"
            "  wait(s22 >= 1)  then(s23++)  @9");
}

TEST(InstructionCodec, DecodesTheSpecifiedDmaTrigger) {
  const Instruction i = decode(kTrigger);
  EXPECT_FALSE(check_encoding(kTrigger, NEURON_ENGINE_SP, Limits{}));
  EXPECT_EQ(i.trigger.m2s, 0xFFFF0003038U);
  EXPECT_EQ(i.trigger.s2m, 0xFFFF0023038U);
  EXPECT_EQ(i.trigger.s2m_count[15], 9);
  EXPECT_EQ(disassemble(i, NEURON_ENGINE_SP),
            "dma_trigger block=3, queue=2, m2s=0xFFFF0003038, s2m=0xFFFF0023038, stride=0x40000,"
            " mask=0xFFFF, m2s_count=9, s2m_count=9  wait(s21 >= 1)  @12");
}

TEST(InstructionCodec, EncodesTheSpecifiedInstructionsToTheSameBytes) {
  for (const Raw& bytes : {kMatmul, kActivate, kTrigger}) EXPECT_EQ(raw(decode(bytes)), bytes);
}

TEST(InstructionCodec, EncodesWhatItDecodedForEveryAcceptedChangeOfASample) {
  // Random single-field damage: most of it is refused, what is accepted must survive the way round.
  std::mt19937_64 random(20240101);
  unsigned accepted = 0;
  for (const auto& sample : testing::samples()) {
    for (int round = 0; round < 400; ++round) {
      Raw bytes = raw(sample.instruction);
      const unsigned flips = 1 + random() % 3;
      for (unsigned f = 0; f < flips; ++f) {
        const unsigned bit = random() % (NEURON_INSTRUCTION_BYTES * 8);
        bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      }
      if (check_encoding(bytes, sample.engine, limits_of(sample.generation))) continue;
      ++accepted;
      ASSERT_EQ(raw(decode(bytes)), bytes) << disassemble(sample.instruction);
    }
  }
  EXPECT_GT(accepted, 1000U);
}

TEST(InstructionCodec, SurvivesRandomBytes) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20000; ++round) {
    Raw bytes;
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    const auto& opcodes = all_opcodes();
    if (round % 2) {  // a known opcode, so that the checks behind the first one are reached
      const uint32_t head = opcodes[random() % opcodes.size()].opcode | 0x003F1000U;
      std::memcpy(bytes.data(), &head, sizeof head);
    }
    const Instruction i = decode(bytes);
    const unsigned engine = random() % 7;
    const Limits limits = limits_of(2 + round % 3);
    const Violation v = check_encoding(bytes, engine, limits);
    (void)check_operands(i, engine, limits);
    EXPECT_FALSE(describe(v, i).empty());
    EXPECT_FALSE(disassemble(i).empty());
  }
}

TEST(Disassembler, TellsAcceptedInstructionsApart) {
  std::mt19937_64 random(99);
  for (const auto& sample : testing::samples()) {
    std::set<std::string> texts;
    std::set<Raw> seen;
    for (int round = 0; round < 300; ++round) {
      Raw bytes = raw(sample.instruction);
      if (round > 0) {
        const unsigned bit = random() % (NEURON_INSTRUCTION_BYTES * 8);
        bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      }
      const Limits limits = limits_of(sample.generation);
      if (check_encoding(bytes, sample.engine, limits) || !seen.insert(bytes).second) continue;
      const std::string text = disassemble(decode(bytes));
      EXPECT_TRUE(texts.insert(text).second) << "two instructions read " << text;
    }
    EXPECT_GE(texts.size(), 2U);
  }
}

TEST(Disassembler, NamesAnOpcodeThatTheDeviceDoesNotExecute) {
  EXPECT_EQ(disassemble(testing::make(0x402, NEURON_ENGINE_ACTIVATION)),
            ".word 0x402 (activate_quantize)");
  EXPECT_EQ(disassemble(testing::make(0x0FF, NEURON_ENGINE_DVE)), ".word 0x0FF");
}

}  // namespace
}  // namespace neuron::isa
