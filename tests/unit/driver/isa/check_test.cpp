// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "driver/isa/opcode_table.h"
#include "tests/unit/driver/isa/samples.h"

namespace neuron::isa {
namespace {

using testing::make;
using testing::number;
using testing::pointer;
using testing::raw;

Instruction sample(uint16_t opcode) {
  for (const auto& s : testing::samples()) {
    if (s.instruction.opcode == opcode) return s.instruction;
  }
  ADD_FAILURE() << "no sample of opcode " << opcode;
  return {};
}

unsigned engine_of(const Instruction& i) { return std::countr_zero(i.engines); }

Violation encoding(const Instruction& i) { return check_encoding(raw(i), engine_of(i), Limits{}); }
Violation operands(const Instruction& i) { return check_operands(i, engine_of(i), Limits{}); }

TEST(InstructionCheck, AcceptsASampleOfEveryAvailableOpcode) {
  std::vector<bool> seen(0x800);
  for (const auto& s : testing::samples()) {
    const Violation v = check_encoding(raw(s.instruction), s.engine, limits_of(s.generation));
    EXPECT_FALSE(v) << describe(v, s.instruction);
    const Violation w = check_operands(s.instruction, s.engine, limits_of(s.generation));
    EXPECT_FALSE(w) << describe(w, s.instruction);
    seen[s.instruction.opcode] = true;
  }
  for (const OpcodeInfo& info : all_opcodes()) {
    EXPECT_EQ(seen[info.opcode], info.available) << info.name;
  }
}

struct Case {
  const char* name;
  uint16_t opcode;
  std::function<void(Instruction&)> damage;
  unsigned code;
  unsigned rule;
  unsigned operand;
  unsigned offset;
};

void expect(const Case& c, const Violation& v, const Instruction& i) {
  EXPECT_EQ(fault_name(v.code), std::string(fault_name(c.code)))
      << c.name << ": " << describe(v, i);
  EXPECT_EQ(v.rule, c.rule) << c.name;
  EXPECT_EQ(v.operand, c.operand) << c.name;
  EXPECT_EQ(v.offset, c.offset) << c.name << ": " << describe(v, i);
}

TEST(InstructionCheck, FindsEachBrokenEncodingRule) {
  using I = Instruction;
  constexpr unsigned field = NEURON_FAULT_ILLEGAL_FIELD;
  constexpr unsigned op = NEURON_FAULT_OP_NOT_ALLOWED;
  const Case cases[] = {
      {"isa", NEURON_OP_NOP, [](I& i) { i.isa = 2; }, NEURON_FAULT_ISA_VERSION, 0, 0, 1},
      {"size", NEURON_OP_NOP, [](I& i) { i.size = 1; }, NEURON_FAULT_ISA_VERSION, 0, 0, 3},
      {"unknown", NEURON_OP_NOP, [](I& i) { i.opcode = 0x7FF; }, NEURON_FAULT_ILLEGAL_OPCODE, 0, 0,
       0},
      {"pe on sp", NEURON_OP_MATMUL, [](I& i) { i.engines = 1 << NEURON_ENGINE_SP; },
       NEURON_FAULT_WRONG_ENGINE, 0, 0, 0},
      {"reduce on pool", NEURON_OP_TENSOR_REDUCE, [](I& i) { i.engines = 1 << NEURON_ENGINE_POOL; },
       NEURON_FAULT_WRONG_GENERATION, 0, 0, 0},
      {"rounding", NEURON_OP_NOP, [](I& i) { i.rounding = 3; }, field, 0, 0, 3},
      {"wait", NEURON_OP_NOP, [](I& i) { i.wait[1].condition = 7; }, field, 0, 0, 0x0D},
      {"idle wait", NEURON_OP_NOP, [](I& i) { i.wait[0].value = 7; }, field, 0, 0, 0x08},
      {"event value", NEURON_OP_NOP,
       [](I& i) {
         i.wait[0] = {1, NEURON_WAIT_EQ, true, false, 2};
       },
       field, 0, 0, 0x0A},
      {"wait register", NEURON_OP_NOP,
       [](I& i) {
         i.wait[0] = {1, NEURON_WAIT_GE, false, true, 64};
       },
       field, 0, 0, 0x0A},
      {"inc operand", NEURON_OP_NOP,
       [](I& i) {
         i.update[1] = {1, NEURON_UPDATE_INC, true, false, 1};
       },
       field, 0, 0, 0x16},
      {"no dst", NEURON_OP_MATMUL, [](I& i) { i.dst = {}; }, field, 0, 0, 0x25},
      {"space", NEURON_OP_MATMUL, [](I& i) { i.src0.space = 3; }, field, 0, 1, 0x3D},
      {"ndim", NEURON_OP_MATMUL, [](I& i) { i.src0.ndim = 5; }, field, 0, 1, 0x3D},
      {"dtype", NEURON_OP_MATMUL, [](I& i) { i.src0.dtype = 40; }, field, 0, 1, 0x3C},
      {"gen 4 dtype", NEURON_OP_MATMUL, [](I& i) { i.src0.dtype = NEURON_DTYPE_F8E4FN; },
       NEURON_FAULT_WRONG_GENERATION, 0, 1, 0x3C},
      {"saturating source", NEURON_OP_MATMUL, [](I& i) { i.src0.saturate = true; }, field, 0, 1,
       0x3D},
      {"bias of f32", NEURON_OP_MATMUL, [](I& i) { i.src0.bias = 3; }, field, 0, 1, 0x3E},
      {"unused dimension", NEURON_OP_MATMUL, [](I& i) { i.src0.size[2] = 3; }, field, 0, 1, 0x48},
      {"absent scalar", NEURON_OP_ACTIVATE, [](I& i) { i.scalar0.kind = 0; }, field, 0, 0, 0x68},
      {"pointer in control", NEURON_OP_MOV, [](I& i) { i.scalar0 = pointer(0); }, field, 0, 0,
       0x6C},
      {"bind mode", NEURON_OP_MATMUL,
       [](I& i) {
         i.bind[2] = {1, 0, 1, 6};
       },
       field, 0, 0, 0x1D},
      {"bind absent", NEURON_OP_LDWEIGHTS,
       [](I& i) {
         i.bind[0] = {1, 0, 0, 2};
       },
       field, 0, 0, 0x19},
      {"loop step", NEURON_OP_LOOP, [](I& i) { i.loop.step = 0; }, field, 0, 0, 0x20},
      {"odd pair", NEURON_OP_TIME, [](I& i) { i.flow.rd = 3; }, field, 0, 0, 0x78},
      {"register op", NEURON_OP_ALU, [](I& i) { i.flow.alu = NEURON_ALU_RELU; }, op, 0, 0, 0x7A},
      {"count 0", NEURON_OP_WRITE, [](I& i) { i.address.count = 0; }, field, 0, 0, 0x2C},
      {"trigger mask", NEURON_OP_DMA_TRIGGER, [](I& i) { i.trigger.mask = 0x7FFF; }, field, 0, 0,
       0x5E},
      {"tile of 16", NEURON_OP_MATMUL, [](I& i) { i.pe.rows = 3; }, field, 0, 0, 0x78},
      {"tile of 32 x 32", NEURON_OP_MATMUL, [](I& i) { i.pe.rows = i.pe.columns = 2; }, op, 0, 0,
       0x78},
      {"tile row", NEURON_OP_MATMUL,
       [](I& i) {
         i.pe.rows = 1;
         i.pe.row = 1;
       },
       op, 0, 0, 0x78},
      {"tile column", NEURON_OP_MATMUL, [](I& i) { i.pe.column = 2; }, op, 0, 0, 0x78},
      {"mode", NEURON_OP_MATMUL, [](I& i) { i.pe.mode = 2; }, op, 0, 0, 0x79},
      {"op", NEURON_OP_TENSOR_TENSOR, [](I& i) { i.vector.op0 = 31; }, field, 0, 0, 0x78},
      {"pow", NEURON_OP_TENSOR_TENSOR, [](I& i) { i.vector.op0 = NEURON_ALU_POW; }, op, 0, 0, 0x78},
      {"mixed", NEURON_OP_TENSOR_SCALAR, [](I& i) { i.vector.op1 = NEURON_ALU_AND; }, op, 3, 0,
       0x78},
      {"function", NEURON_OP_ACTIVATE, [](I& i) { i.act.function = 50; }, field, 0, 0, 0x78},
      {"table", NEURON_OP_ACTIVATE, [](I& i) { i.act.table_set = 2; }, field, 0, 0, 0x79},
      {"reduce command", NEURON_OP_ACTIVATE, [](I& i) { i.act.reduce_command = 4; }, op, 8, 0,
       0x7A},
      {"reduce op", NEURON_OP_ACTIVATE, [](I& i) { i.act.reduce = NEURON_ALU_MAX; }, op, 8, 0,
       0x7A},
      {"immediate bias", NEURON_OP_ACTIVATE, [](I& i) { i.scalar1 = number(1); },
       NEURON_FAULT_WRONG_GENERATION, 0, 0, 0x74},
  };
  for (const Case& c : cases) {
    Instruction i = sample(c.opcode);
    c.damage(i);
    expect(c, encoding(i), i);
  }
}

TEST(InstructionCheck, FindsAStrayBitInEveryByteThatAnOpcodeLeavesUnused) {
  for (unsigned byte = 0x20; byte < NEURON_INSTRUCTION_BYTES; ++byte) {
    auto bytes = raw(sample(NEURON_OP_NOP));
    bytes[byte] = std::byte{0x80};
    const Violation v = check_encoding(bytes, NEURON_ENGINE_SP, Limits{});
    EXPECT_EQ(v.code, NEURON_FAULT_ILLEGAL_FIELD);
    EXPECT_EQ(v.offset, byte);
    EXPECT_EQ(v.value, 0x80U);
  }
}

TEST(InstructionCheck, NamesADefinedOpcodeThatTheDeviceDoesNotExecute) {
  const Instruction i = make(0x30A, NEURON_ENGINE_DVE);
  const Violation v = encoding(i);
  EXPECT_EQ(v.code, NEURON_FAULT_WRONG_GENERATION);
  EXPECT_THAT(describe(v, i), ::testing::HasSubstr("range_select"));
  const Instruction never = make(0x402, NEURON_ENGINE_ACTIVATION);
  EXPECT_EQ(check_encoding(raw(never), NEURON_ENGINE_ACTIVATION, limits_of(4)).code,
            NEURON_FAULT_ILLEGAL_OPCODE);
}

TEST(InstructionCheck, AcceptsOnGeneration3WhatItAdds) {
  const Limits v3 = limits_of(3);
  for (const auto& s : testing::samples()) {
    if (s.generation > 3) continue;
    EXPECT_FALSE(check_encoding(raw(s.instruction), s.engine, v3));
    EXPECT_FALSE(check_operands(s.instruction, s.engine, v3));
  }
  Instruction tile = sample(NEURON_OP_MATMUL);
  tile.pe.rows = tile.pe.columns = 2;
  EXPECT_EQ(encoding(tile).code, NEURON_FAULT_OP_NOT_ALLOWED);
  EXPECT_FALSE(check_encoding(raw(tile), NEURON_ENGINE_PE, v3));

  Instruction wide = sample(NEURON_OP_MEMSET);
  wide.dst.base = NEURON_V2_SBUF_PARTITION_BYTES;
  const unsigned engine = engine_of(wide);
  EXPECT_EQ(operands(wide).code, NEURON_FAULT_OPERAND_RANGE);
  EXPECT_FALSE(check_operands(wide, engine, v3)) << "224 KiB in each partition";
  wide.dst.base = NEURON_V3_SBUF_PARTITION_BYTES;
  EXPECT_EQ(check_operands(wide, engine, v3).code, NEURON_FAULT_OPERAND_RANGE);
}

TEST(InstructionCheck, KnowsThePartOfTensorScalarOnTheScalarEngineOfGeneration3) {
  const Limits v3 = limits_of(3);
  Instruction i = sample(NEURON_OP_TENSOR_SCALAR);
  i.engines = 1u << NEURON_ENGINE_ACTIVATION;
  i.scalar0 = i.scalar1 = number(2);
  i.vector = {};
  i.vector.op0 = NEURON_ALU_MUL;
  i.vector.op1 = NEURON_ALU_ADD;
  EXPECT_EQ(check_encoding(raw(i), NEURON_ENGINE_ACTIVATION, Limits{}).code,
            NEURON_FAULT_WRONG_GENERATION);
  EXPECT_FALSE(check_encoding(raw(i), NEURON_ENGINE_ACTIVATION, v3));
  EXPECT_FALSE(check_operands(i, NEURON_ENGINE_ACTIVATION, v3));
  i.vector.op0 = NEURON_ALU_MAX;
  EXPECT_EQ(check_encoding(raw(i), NEURON_ENGINE_ACTIVATION, v3).code, NEURON_FAULT_OP_NOT_ALLOWED);
}

TEST(InstructionCheck, FindsEachBrokenOperandRule) {
  using I = Instruction;
  constexpr unsigned partition = NEURON_FAULT_OPERAND_PARTITION;
  constexpr unsigned range = NEURON_FAULT_OPERAND_RANGE;
  constexpr unsigned dtype = NEURON_FAULT_OPERAND_DTYPE;
  constexpr unsigned space = NEURON_FAULT_OPERAND_SPACE;
  constexpr unsigned shape = NEURON_FAULT_OPERAND_SHAPE;
  const Case cases[] = {
      {"start of 128", NEURON_OP_MATMUL, [](I& i) { i.src0.start = 32; }, partition, 1, 1, 0x3A},
      {"start of 64", NEURON_OP_TENSOR_COPY,
       [](I& i) {
         i.dst.parts = i.src0.parts = 64;
         i.src0.start = 32;
       },
       partition, 1, 1, 0x3A},
      {"start of 8", NEURON_OP_TENSOR_COPY,
       [](I& i) {
         i.dst.parts = i.src0.parts = 8;
         i.dst.start = 8;
       },
       partition, 1, 0, 0x22},
      {"no partitions", NEURON_OP_MEMSET, [](I& i) { i.dst.parts = 0; }, partition, 1, 0, 0x22},
      {"misaligned", NEURON_OP_MEMSET, [](I& i) { i.dst.base = 2; }, dtype, 2, 0, 0x20},
      {"empty dimension", NEURON_OP_MEMSET, [](I& i) { i.dst.size[0] = 0; }, shape, 2, 0, 0x28},
      {"beyond SBUF", NEURON_OP_MEMSET, [](I& i) { i.dst.base = 0x30000 - 63 * 4; }, range, 2, 0,
       0x20},
      {"before SBUF", NEURON_OP_MEMSET, [](I& i) { i.dst.step[0] = -1; }, range, 2, 0, 0x20},
      {"beyond PSUM", NEURON_OP_ACTIVATE, [](I& i) { i.src0.base = 0x4000 - 63 * 4; }, range, 2, 1,
       0x38},
      {"64-bit", NEURON_OP_MEMSET, [](I& i) { i.dst.dtype = NEURON_DTYPE_U64; }, dtype, 3, 0, 0x24},
      {"pool and PSUM", NEURON_OP_TENSOR_COPY, [](I& i) { i.src0.space = NEURON_SPACE_PSUM; },
       space, 5, 1, 0x3D},
      {"PE reads PSUM", NEURON_OP_LDWEIGHTS, [](I& i) { i.src0.space = NEURON_SPACE_PSUM; }, space,
       5, 1, 0x3D},
      {"PE writes SBUF", NEURON_OP_MATMUL, [](I& i) { i.dst.space = NEURON_SPACE_SBUF; }, space, 5,
       0, 0x25},
      {"integer weights", NEURON_OP_LDWEIGHTS, [](I& i) { i.src0.dtype = NEURON_DTYPE_I32; }, dtype,
       3, 1, 0x3C},
      {"129 weights", NEURON_OP_LDWEIGHTS, [](I& i) { i.src0.size[0] = 129; }, shape, 0, 1, 0x40},
      {"513 columns", NEURON_OP_MATMUL, [](I& i) { i.src0.size[0] = 513; }, shape, 0, 1, 0x40},
      {"bank crossing", NEURON_OP_MATMUL, [](I& i) { i.dst.base = 0x804; }, range, 2, 0, 0x20},
      {"bf16 PSUM", NEURON_OP_MATMUL, [](I& i) { i.dst.dtype = NEURON_DTYPE_BF16; }, dtype, 3, 0,
       0x24},
      {"elements", NEURON_OP_TENSOR_TENSOR, [](I& i) { i.src1.size[0] = 63; }, shape, 1, 2, 0x58},
      {"partitions", NEURON_OP_TENSOR_TENSOR, [](I& i) { i.src0.parts = 64; }, shape, 1, 1, 0x3B},
      {"two PSUM inputs", NEURON_OP_TENSOR_TENSOR, [](I& i) { i.src0.space = NEURON_SPACE_PSUM; },
       space, 5, 2, 0x55},
      {"bits of floats", NEURON_OP_TENSOR_TENSOR, [](I& i) { i.vector.op0 = NEURON_ALU_XOR; },
       dtype, 3, 0, 0x24},
      {"bits of two widths", NEURON_OP_TENSOR_TENSOR,
       [](I& i) {
         i.vector.op0 = NEURON_ALU_XOR;
         i.dst.dtype = i.src0.dtype = NEURON_DTYPE_U32;
         i.src1.dtype = NEURON_DTYPE_U16;
       },
       dtype, 3, 2, 0x54},
      {"reduced shape", NEURON_OP_TENSOR_REDUCE, [](I& i) { i.dst.size[0] = 2; }, shape, 0, 0,
       0x28},
      {"reduced axes", NEURON_OP_TENSOR_REDUCE, [](I& i) { i.vector.axes = 2; }, shape, 0, 1, 0x7B},
      {"read two", NEURON_OP_READ_ACC, [](I& i) { i.dst.size[0] = 2; }, shape, 8, 0, 0x28},
      {"pointer range", NEURON_OP_ACTIVATE, [](I& i) { i.scalar1.value = 0x30000; }, range, 2, 0,
       0x70},
      {"pointer start", NEURON_OP_ACTIVATE, [](I& i) { i.scalar1.start = 64; }, partition, 1, 0,
       0x75},
      {"integer immediate", NEURON_OP_TENSOR_SCALAR,
       [](I& i) { i.scalar0.dtype = NEURON_DTYPE_I32; }, dtype, 3, 0, 0x6C},
      {"tf32 bias", NEURON_OP_ACTIVATE, [](I& i) { i.scalar1.dtype = NEURON_DTYPE_TF32; }, dtype, 3,
       0, 0x74},
      {"iota pattern", NEURON_OP_IOTA, [](I& i) { i.pattern.size[0] = 63; }, shape, 0, 2, 0x60},
      {"write address", NEURON_OP_WRITE, [](I& i) { i.address.addr += 2; }, dtype, 0, 0, 0x20},
      {"doorbell", NEURON_OP_DMA_TRIGGER, [](I& i) { i.trigger.s2m += 1; }, dtype, 0, 0, 0x28},
  };
  for (const Case& c : cases) {
    Instruction i = sample(c.opcode);
    c.damage(i);
    expect(c, operands(i), i);
  }
}

TEST(InstructionCheck, SaysWhatWasFoundAndExpected) {
  Instruction i = sample(NEURON_OP_TENSOR_COPY);
  i.dst.parts = i.src0.parts = 64;
  i.src0.start = 40;
  EXPECT_EQ(describe(operands(i), i),
            "tensor_copy: src0: 33 to 64 partitions must start at 0 or 64; found 40 (0x28) at byte "
            "offset 0x3A, rule R1 [OPERAND_PARTITION]");
}

TEST(InstructionCheck, NamesTypesMemoriesAndEnginesInsteadOfTheirCodes) {
  Instruction i = sample(NEURON_OP_MATMUL);
  i.src0.dtype = NEURON_DTYPE_I32;
  EXPECT_THAT(describe(operands(i), i), ::testing::HasSubstr("; found i32 at"));
  i = sample(NEURON_OP_MATMUL);
  i.dst.space = NEURON_SPACE_SBUF;
  EXPECT_THAT(describe(operands(i), i), ::testing::HasSubstr("; found SBUF at"));
  i = sample(NEURON_OP_TENSOR_COPY);
  i.dst.base += 1;
  EXPECT_THAT(describe(operands(i), i),
              ::testing::HasSubstr("multiple of the element size; found"));
  i = sample(NEURON_OP_DMA_GATHER);
  i.dma.from_type = NEURON_DTYPE_BF16;
  i.dma.to_type = NEURON_DTYPE_F32;
  i.dma.operation = NEURON_DMA_COPY;
  EXPECT_THAT(describe(operands(i), i), ::testing::HasSubstr("keep the data type; found f32 at"));
  i = sample(NEURON_OP_MATMUL);
  i.engines = 1u << NEURON_ENGINE_SP;
  EXPECT_EQ(describe(encoding(i), i),
            "matmul: found it in a program of SP, expected one of PE, which executes it "
            "[WRONG_ENGINE]");
  // A program of SP with an instruction that names PE.
  i.engines = 1u << NEURON_ENGINE_PE;
  std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes{};
  encode(i, bytes);
  EXPECT_EQ(describe(check_encoding(bytes, NEURON_ENGINE_SP, limits_of(2)), i),
            "matmul: found it in a program of another engine, expected one of PE, which executes "
            "it [WRONG_ENGINE]");
}

TEST(Faults, HaveANameAndASentenceEach) {
  for (unsigned code : {0x00u, 0x01u, 0x06u, 0x08u, 0x0Fu, 0x13u, 0x1Du, 0x20u, 0x2Bu, 0x40u}) {
    EXPECT_STRNE(fault_name(code), "?") << code;
    EXPECT_GE(std::string(fault_text(code)).size(), 8U) << code;
  }
  EXPECT_STREQ(fault_name(0xEE), "?");
}

TEST(Faults, OfMemoryAdviseAResetOnlyWhereItRepairs) {
  EXPECT_NE(std::string(fault_text(NEURON_FAULT_HBM_UE_REPAIRABLE)).find("reset the device"),
            std::string::npos);
  const std::string lasting = fault_text(NEURON_FAULT_HBM_UE);
  EXPECT_EQ(lasting.find("reset the device"), std::string::npos) << lasting;
  EXPECT_NE(lasting.find("a reset does not repair"), std::string::npos) << lasting;
}

TEST(Names, CoverEveryListedValueAndOnlyThose) {
  EXPECT_STREQ(dtype_name(NEURON_DTYPE_F8E4FNX4), "f8e4fnx4");
  EXPECT_STREQ(dtype_name(22), "?");
  EXPECT_EQ(dtype_bytes(NEURON_DTYPE_BF16), 2U);
  EXPECT_EQ(dtype_bytes(NEURON_DTYPE_F32), 4U);
  EXPECT_EQ(dtype_bytes(NEURON_DTYPE_I64), 8U);
  EXPECT_EQ(dtype_bytes(99), 0U);
  EXPECT_STREQ(alu_name(NEURON_ALU_LOGICAL_XOR), "logical_xor");
  EXPECT_STREQ(alu_name(NEURON_ALU_AND), "and");
  EXPECT_STREQ(alu_name(NEURON_ALU_SHR_ARITH), "shr_arith");
  EXPECT_STREQ(alu_name(31), "?");
  EXPECT_STREQ(alu_name(NEURON_ALU_RECIPROCAL), "reciprocal");
  EXPECT_STREQ(activation_name(NEURON_ACT_RECIPROCAL), "reciprocal");
  EXPECT_STREQ(activation_name(NEURON_ACT_EXP), "exp");
  EXPECT_STREQ(activation_name(26), "?");
  EXPECT_STREQ(engine_name(NEURON_ENGINE_DVE), "DVE");
  EXPECT_STREQ(engine_name(7), "?");
}

}  // namespace
}  // namespace neuron::isa
