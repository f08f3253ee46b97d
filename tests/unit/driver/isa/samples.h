// SPDX-License-Identifier: Apache-2.0
// Instructions that the tests of this folder start from: one accepted form of every opcode.
// Callers: tests. Thread-safe: no state.
#ifndef TESTS_UNIT_DRIVER_ISA_SAMPLES_H
#define TESTS_UNIT_DRIVER_ISA_SAMPLES_H

#include <bit>
#include <vector>

#include "driver/isa/instruction.h"
#include "driver/isa/opcode_table.h"

namespace neuron::isa::testing {

using Raw = std::array<std::byte, NEURON_INSTRUCTION_BYTES>;

inline Raw raw(const Instruction& instruction) {
  Raw bytes{};
  encode(instruction, bytes);
  return bytes;
}

inline Operand tile(uint8_t space, uint8_t start, uint8_t parts, uint32_t base, uint8_t dtype,
                    std::initializer_list<uint16_t> innermost_first) {
  Operand operand;
  operand.space = space;
  operand.start = start;
  operand.parts = parts;
  operand.base = base;
  operand.dtype = dtype;
  int step = 1;
  for (uint16_t size : innermost_first) {
    operand.size[operand.ndim] = size;
    operand.step[operand.ndim] = static_cast<int16_t>(step);
    step *= size;
    ++operand.ndim;
  }
  return operand;
}
inline Operand sbuf(uint32_t base, uint16_t n, uint8_t dtype = NEURON_DTYPE_F32,
                    uint8_t parts = 128) {
  return tile(NEURON_SPACE_SBUF, 0, parts, base, dtype, {n});
}
inline Operand psum(uint32_t base, uint16_t n, uint8_t dtype = NEURON_DTYPE_F32,
                    uint8_t parts = 128) {
  return tile(NEURON_SPACE_PSUM, 0, parts, base, dtype, {n});
}
inline Scalar immediate(uint32_t bits, uint8_t dtype) {
  return {bits, NEURON_SCALAR_IMMEDIATE, dtype, 0, 0};
}
inline Scalar number(float value) {
  return immediate(std::bit_cast<uint32_t>(value), NEURON_DTYPE_F32);
}
inline Scalar pointer(uint32_t base, uint8_t dtype = NEURON_DTYPE_F32) {
  return {base, NEURON_SCALAR_POINTER, dtype, NEURON_SPACE_SBUF, 0};
}

inline Instruction make(uint16_t opcode, unsigned engine) {
  Instruction i;
  i.opcode = opcode;
  i.engines = static_cast<uint8_t>(1u << engine);
  return i;
}

struct Sample {
  Instruction instruction;
  unsigned engine;
  unsigned generation = 2;    // the first that executes it
  bool keeps_engine = false;  // its forms are for this engine only
};

template <class Add>
void add_vector_samples(Add&& add) {
  constexpr unsigned dve = NEURON_ENGINE_DVE;
  const auto two = [](Instruction& i) {
    i.dst = sbuf(0, 64);
    i.src0 = sbuf(0x400, 64);
  };
  add(NEURON_OP_TENSOR_SCALAR_REDUCE, dve, [&](Instruction& i) {
    two(i);
    i.scalar0 = number(2);
    i.vector.op0 = NEURON_ALU_MUL;
    i.vector.reduce = NEURON_ALU_ADD;
    i.vector.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
  });
  add(NEURON_OP_TENSOR_SCALAR_CUMULATIVE, dve, [&](Instruction& i) {
    two(i);
    i.scalar0 = number(1);
    i.scalar1 = pointer(0x1000);
    i.vector.op0 = NEURON_ALU_MUL;
    i.vector.op1 = NEURON_ALU_ADD;
    i.vector.reduce_command = NEURON_REDUCE_LOAD_ACCUMULATE;
  });
  add(NEURON_OP_TENSOR_TENSOR_SCAN, dve, [&](Instruction& i) {
    two(i);
    i.src1 = psum(0, 64);
    i.scalar0 = number(0.5F);
    i.vector.op0 = NEURON_ALU_MUL;
    i.vector.op1 = NEURON_ALU_ADD;
  });
  add(NEURON_OP_COPY_PREDICATED, dve, [&](Instruction& i) {
    two(i);
    i.src1 = sbuf(0x800, 64, NEURON_DTYPE_U8);
    i.vector.invert = true;
  });
  add(NEURON_OP_BN_STATS, dve, [](Instruction& i) {
    i.dst = sbuf(0, 6);
    i.src0 = sbuf(0x400, 512, NEURON_DTYPE_BF16);
  });
  add(NEURON_OP_BN_AGGR, dve, [](Instruction& i) {
    i.dst = sbuf(0, 2);
    i.src0 = sbuf(0x400, 12);
  });
  add(NEURON_OP_MAX8, dve, [](Instruction& i) {
    i.dst = sbuf(0, 8);
    i.src0 = sbuf(0x400, 64);
  });
  add(NEURON_OP_FIND_INDEX8, dve, [](Instruction& i) {
    i.dst = sbuf(0, 8, NEURON_DTYPE_U16);
    i.src0 = sbuf(0x400, 64);
    i.src1 = sbuf(0x800, 8);
  });
  add(NEURON_OP_MATCH_REPLACE8, dve, [&](Instruction& i) {
    two(i);
    i.scalar0 = pointer(0x1000);
    i.scalar1 = pointer(0x1100, NEURON_DTYPE_U32);
    i.vector.imm = 0xFF7FFFFF;
  });
  add(NEURON_OP_STREAM_SHUFFLE, dve, [&](Instruction& i) {
    two(i);
    for (unsigned r = 0; r < NEURON_SHUFFLE_ROWS; ++r) {
      i.shuffle[r] = static_cast<uint8_t>(NEURON_SHUFFLE_ROWS - 1 - r);
    }
    i.shuffle[3] = NEURON_SHUFFLE_KEEP;
  });
  add(NEURON_OP_TRANSPOSE32, dve, two);
  add(NEURON_OP_DROPOUT, dve, [&](Instruction& i) {
    two(i);
    i.scalar0 = number(0.25F);
  });
  add(NEURON_OP_RNG, dve, [](Instruction& i) { i.dst = sbuf(0, 64, NEURON_DTYPE_U32); });
  add(NEURON_OP_SET_RNG_SEED, dve,
      [](Instruction& i) { i.src0 = sbuf(0x40, 1, NEURON_DTYPE_U32, 1); });
}

template <class Add>
void add_pool_samples(Add&& add) {
  constexpr unsigned pool = NEURON_ENGINE_POOL;
  add(NEURON_OP_AFFINE_SELECT, pool, [](Instruction& i) {
    i.dst = sbuf(0, 64);
    i.src0 = sbuf(0x400, 64);
    i.pattern.step[0] = -1;
    i.pattern.size[0] = 64;
    i.scalar0 = number(-1e30F);
    i.scalar1 = immediate(5, NEURON_DTYPE_I32);
    i.vector.op0 = NEURON_ALU_GE;
    i.vector.imm = 1;
  });
  add(NEURON_OP_PARTITION_REDUCE, pool, [](Instruction& i) {
    i.dst = sbuf(0, 64, NEURON_DTYPE_F32, 1);
    i.src0 = sbuf(0x400, 64);
    i.vector.op0 = NEURON_ALU_AVERAGE;
  });
  add(NEURON_OP_LOCAL_GATHER, pool, [](Instruction& i) {
    i.dst = sbuf(0, 80);
    i.src0 = sbuf(0x400, 64);
    i.src1 = sbuf(0x800, 4, NEURON_DTYPE_U16);
    i.pool.elements = 1;
    i.pool.count = 40;
  });
  add(NEURON_OP_N_GATHER, pool, [](Instruction& i) {
    i.dst = sbuf(0, 16);
    i.src0 = sbuf(0x400, 64);
    i.src1 = sbuf(0x800, 16, NEURON_DTYPE_U32);
  });
  add(NEURON_OP_SEQUENCE_BOUNDS, pool, [](Instruction& i) {
    i.dst = tile(NEURON_SPACE_SBUF, 0, 1, 0, NEURON_DTYPE_I32, {64, 2});
    i.src0 = sbuf(0x400, 64, NEURON_DTYPE_F32, 1);
  });
  add(NEURON_OP_TOPK, pool, [](Instruction& i) {
    i.dst = sbuf(0, 2, NEURON_DTYPE_BF16, 16);
    i.src0 = sbuf(0x400, 63, NEURON_DTYPE_BF16, 16);
    i.src1 = sbuf(0x800, 2, NEURON_DTYPE_U32, 16);
    i.pool.count = 20;
    i.vector.imm = 1000;
  });
  add(NEURON_OP_CUSTOM, pool, [](Instruction& i) {
    i.dst = sbuf(0, 64);
    i.src0 = sbuf(0x400, 64);
    i.vector.imm = 1;
  });
}

template <class Add>
void add_dma_samples(Add&& add) {
  constexpr unsigned pool = NEURON_ENGINE_POOL;
  add(NEURON_OP_DMA_GENERATE, pool, [](Instruction& i) {
    i.generate.to = 0xFFFC0000000;
    i.generate.to_dims = {{{512, 2}, {128, 0x40000}}};
    i.generate.from = 0x10000;
    i.generate.from_dims = {{{512, 4}, {128, 2048}}};
    i.generate.limit = 0x40000;
    i.dma.operation = NEURON_DMA_CAST;
    i.dma.from_type = NEURON_DTYPE_F32;
    i.dma.to_type = NEURON_DTYPE_BF16;
    i.dma.queue = 3;
    i.dma.mask = 0xFFFF;
    i.dma.semaphore = 40;
    i.dma.signal = true;
  });
  const auto rows = [](Instruction& i) {
    i.dst = sbuf(0, 64);
    i.src0 = sbuf(0x400, 1, NEURON_DTYPE_U32);
    i.indirect = {0x20000, 256, 512, 1000};
    i.dma.from_type = i.dma.to_type = NEURON_DTYPE_F32;
    i.dma.mask = 0x00FF;
    i.dma.skip = true;
  };
  add(NEURON_OP_DMA_GATHER, pool, rows);
  add(NEURON_OP_DMA_SCATTER, pool, [&](Instruction& i) {
    rows(i);
    i.dma.operation = NEURON_DMA_ADD;
    i.dma.accumulate = true;
  });
}

template <class Add>
void add_samples_of_generation_3(Add&& add) {
  constexpr unsigned dve = NEURON_ENGINE_DVE, pool = NEURON_ENGINE_POOL;
  const auto meets = [](Instruction& i) {
    i.scalar0 = immediate(9, NEURON_DTYPE_U32);
    i.wait[1] = {9, NEURON_WAIT_GE, false, false, 1};
    i.update[1] = {9, NEURON_UPDATE_DEC, true, false, 0};
  };
  add(NEURON_OP_BARRIER, NEURON_ENGINE_SP, meets);
  add(NEURON_OP_SENDRECV, pool, [&](Instruction& i) {
    meets(i);
    i.dst = sbuf(0, 64);
    i.src0 = sbuf(0x400, 64);
  });
  add(NEURON_OP_LDWEIGHTS_SPARSE, NEURON_ENGINE_PE, [](Instruction& i) {
    i.src0 = sbuf(0, 128, NEURON_DTYPE_BF16);
    i.src1 = sbuf(0x1000, 32, NEURON_DTYPE_U16);
    i.pe.mode = NEURON_SPARSE_1_OF_4;
  });
  add(NEURON_OP_MATMUL_SPARSE, NEURON_ENGINE_PE, [](Instruction& i) {
    i.dst = psum(0x800, 512);
    i.src0 = tile(NEURON_SPACE_SBUF, 0, 128, 0x4000, NEURON_DTYPE_BF16, {512, 4});
    i.pe.mode = NEURON_SPARSE_1_OF_4;
    i.pe.swap = true;
  });
  add(NEURON_OP_SELECT_REDUCE, dve, [](Instruction& i) {
    i.dst = sbuf(0, 64);
    i.src0 = sbuf(0x400, 64);
    i.src1 = sbuf(0x800, 64, NEURON_DTYPE_U8);
    i.scalar0 = number(-1e30F);
    i.vector.invert = true;
    i.vector.reduce = NEURON_ALU_MAX;
    i.vector.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
  });
  add(NEURON_OP_RANGE_SELECT, dve, [](Instruction& i) {
    i.dst = sbuf(0, 64);
    i.src0 = sbuf(0x400, 64);
    i.scalar0 = pointer(0x1000);
    i.scalar1 = number(50);
    i.vector.op0 = NEURON_ALU_GE;
    i.vector.op1 = NEURON_ALU_LT;
    i.vector.imm = std::bit_cast<uint32_t>(3.0F);
    i.vector.reduce = NEURON_ALU_MAX;
    i.vector.reduce_command = NEURON_REDUCE_ACCUMULATE;
  });
  add(NEURON_OP_RAND_SET_STATE, pool,
      [](Instruction& i) { i.src0 = sbuf(0x40, 6, NEURON_DTYPE_U32); });
  add(NEURON_OP_RAND_GET_STATE, pool,
      [](Instruction& i) { i.dst = sbuf(0x40, 6, NEURON_DTYPE_U32); });
  add(NEURON_OP_NONZERO_WITH_COUNT, pool, [](Instruction& i) {
    i.dst = sbuf(0, 65, NEURON_DTYPE_I32);
    i.src0 = sbuf(0x400, 64);
    i.scalar0 = immediate(100, NEURON_DTYPE_I32);
    i.vector.imm = 0xFFFFFFFF;
  });
}

template <class Add>
void add_samples_of_generation_4(Add&& add) {
  constexpr unsigned dve = NEURON_ENGINE_DVE, pe = NEURON_ENGINE_PE;
  add(NEURON_OP_EXPONENTIAL, dve, [](Instruction& i) {
    i.dst = sbuf(0, 64);
    i.src0 = sbuf(0x400, 64);
    i.scalar0 = pointer(0x1000);
    i.vector.reduce = NEURON_ALU_ADD;
    i.vector.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
  });
  add(NEURON_OP_RAND2, dve, [](Instruction& i) {
    i.dst = sbuf(0, 64, NEURON_DTYPE_BF16);
    i.scalar0 = number(-1);
    i.scalar1 = number(1);
  });
  add(NEURON_OP_QUANTIZE_MX, dve, [](Instruction& i) {
    i.dst = sbuf(0, 64, NEURON_DTYPE_F8E4FNX4);
    i.src0 = sbuf(0x400, 256, NEURON_DTYPE_BF16);
    i.src1 = sbuf(0x800, 64, NEURON_DTYPE_U8);
    i.vector.imm = 2;
  });
  add(NEURON_OP_ACTIVATE2, NEURON_ENGINE_ACTIVATION, [](Instruction& i) {
    i.dst = sbuf(0, 64);
    i.src0 = psum(0, 64);
    i.scalar0 = number(0.125F);
    i.scalar1 = pointer(0x1000);
    i.act.function = NEURON_ACT_EXP;
    i.act.pre = NEURON_PRE_MUL_SUB;
    i.act.rev1 = true;
    i.act.reduce = NEURON_ALU_ABS_MAX;
    i.act.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
  });
  add(NEURON_OP_LDWEIGHTS_MX, pe, [](Instruction& i) {
    i.src0 = sbuf(0, 128, NEURON_DTYPE_F8E5X4);
    i.src1 = sbuf(0x1000, 128, NEURON_DTYPE_U8);
    i.pe.quarter = 1;
  });
  add(NEURON_OP_MATMUL_MX, pe, [](Instruction& i) {
    i.dst = psum(0x800, 512);
    i.src0 = sbuf(0x4000, 512, NEURON_DTYPE_F4X4);
    i.src1 = sbuf(0x8000, 512, NEURON_DTYPE_E8M0);
    i.pe.swap = true;
    i.pe.quarter = 3;
  });
}

// One accepted instruction of every opcode that the device executes.
inline std::vector<Sample> samples() {
  std::vector<Sample> all;
  const auto add = [&](uint16_t opcode, unsigned engine, auto&& fill) {
    Instruction i = make(opcode, engine);
    fill(i);
    all.push_back({i, engine, first_generation(*find_opcode(opcode), engine)});
  };
  const auto nothing = [](Instruction&) {};
  constexpr unsigned sp = NEURON_ENGINE_SP, pe = NEURON_ENGINE_PE, dve = NEURON_ENGINE_DVE;
  constexpr unsigned act = NEURON_ENGINE_ACTIVATION, pool = NEURON_ENGINE_POOL;
  for (uint16_t opcode : {NEURON_OP_NOP, NEURON_OP_HALT, NEURON_OP_DRAIN, NEURON_OP_EVENT,
                          NEURON_OP_COMPLETE, NEURON_OP_BRK, NEURON_OP_RET, NEURON_OP_NOTIFY}) {
    add(opcode, sp, nothing);
  }
  const auto address = [](Instruction& i) { i.address = {0xFFF00000100, 0, 1}; };
  add(NEURON_OP_WRITE, sp, [&](Instruction& i) {
    address(i);
    i.address.count = 16;
    i.address.stride = 0x40000;
    i.scalar0 = immediate(256, NEURON_DTYPE_U32);
  });
  add(NEURON_OP_MODE, sp, [](Instruction& i) {
    i.scalar0 = immediate(1, NEURON_DTYPE_U32);
    i.scalar1 = immediate(3, NEURON_DTYPE_U32);
  });
  add(NEURON_OP_ORDER, sp, [](Instruction& i) { i.scalar0 = immediate(1, 0); });
  add(NEURON_OP_MOV, sp, [](Instruction& i) {
    i.scalar0 = immediate(77, NEURON_DTYPE_I32);
    i.flow.rd = 9;
  });
  add(NEURON_OP_ALU, sp, [](Instruction& i) {
    i.flow.rd = 1;
    i.flow.ra = 2;
    i.flow.rb = 3;
    i.flow.alu = NEURON_ALU_ADD;
  });
  add(NEURON_OP_LOAD, sp, address);
  add(NEURON_OP_STORE, sp, address);
  add(NEURON_OP_BRANCH, sp, [](Instruction& i) {
    i.flow.condition = NEURON_BRANCH_LT;
    i.flow.imm = true;
    i.flow.target = -3;
    i.scalar0 = immediate(5, NEURON_DTYPE_I32);
  });
  add(NEURON_OP_LOOP, sp, [](Instruction& i) {
    i.loop = {1, 4};
    i.scalar0 = immediate(0, NEURON_DTYPE_I32);
    i.scalar1 = immediate(10, NEURON_DTYPE_I32);
  });
  add(NEURON_OP_CALL, sp, [](Instruction& i) { i.flow.target = 8; });
  add(NEURON_OP_SEM, sp, [](Instruction& i) { i.scalar0 = immediate(20, NEURON_DTYPE_U32); });
  add(NEURON_OP_TIME, sp, [](Instruction& i) { i.flow.rd = 4; });
  add(NEURON_OP_IDENT, sp, [](Instruction& i) { i.scalar0 = immediate(3, NEURON_DTYPE_U32); });
  add(NEURON_OP_LDWEIGHTS, pe, [](Instruction& i) { i.src0 = sbuf(0, 128); });
  add(NEURON_OP_MATMUL, pe, [](Instruction& i) {
    i.dst = psum(0x800, 512);
    i.src0 = sbuf(0x4000, 512);
    i.pe.swap = true;
  });
  add(NEURON_OP_TRANSPOSE, pe, [](Instruction& i) {
    i.dst = psum(0, 128, NEURON_DTYPE_F32, 64);
    i.src0 = sbuf(0, 64);
  });
  add(NEURON_OP_TENSOR_TENSOR, dve, [](Instruction& i) {
    i.dst = sbuf(0, 64);
    i.src0 = sbuf(0x400, 64);
    i.src1 = psum(0, 64);
    i.vector.op0 = NEURON_ALU_ADD;
  });
  add(NEURON_OP_TENSOR_SCALAR, dve, [](Instruction& i) {
    i.dst = sbuf(0, 64);
    i.src0 = sbuf(0x400, 64);
    i.scalar0 = number(0.0625F);
    i.scalar1 = pointer(0x1000);
    i.vector.op0 = NEURON_ALU_MUL;
    i.vector.op1 = NEURON_ALU_ADD;
  });
  add(NEURON_OP_SCALAR_TENSOR_TENSOR, dve, [](Instruction& i) {
    i.dst = sbuf(0, 64);
    i.src0 = sbuf(0x400, 64);
    i.src1 = sbuf(0x800, 64);
    i.scalar0 = number(2);
    i.vector.op0 = NEURON_ALU_MUL;
    i.vector.op1 = NEURON_ALU_ADD;
  });
  add(NEURON_OP_TENSOR_REDUCE, dve, [](Instruction& i) {
    i.dst = sbuf(0, 1);
    i.src0 = sbuf(0x400, 64);
    i.vector.reduce = NEURON_ALU_MAX;
    i.vector.axes = 1;
    i.vector.negate = true;
  });
  add(NEURON_OP_TENSOR_COPY, pool, [](Instruction& i) {
    i.dst = sbuf(0, 64, NEURON_DTYPE_BF16);
    i.src0 = sbuf(0x400, 64);
  });
  add(NEURON_OP_RECIPROCAL, dve, [](Instruction& i) {
    i.dst = sbuf(0, 64);
    i.src0 = sbuf(0x400, 64);
  });
  add(NEURON_OP_MEMSET, pool, [](Instruction& i) {
    i.dst = sbuf(0, 64);
    i.vector.imm = 0x3F800000;
  });
  add(NEURON_OP_READ_ACC, act, [](Instruction& i) { i.dst = sbuf(0, 1); });
  add(NEURON_OP_ACTIVATE, act, [](Instruction& i) {
    i.dst = sbuf(0, 64);
    i.src0 = psum(0, 64);
    i.scalar0 = number(0.125F);
    i.scalar1 = pointer(0x1000);
    i.act.function = NEURON_ACT_EXP;
    i.act.reduce = NEURON_ALU_ADD;
    i.act.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
  });
  add(NEURON_OP_IOTA, pool, [](Instruction& i) {
    i.dst = sbuf(0, 64, NEURON_DTYPE_I32);
    i.pattern.step[0] = 1;
    i.pattern.size[0] = 64;
    i.vector.imm = 64;
  });
  add_vector_samples(add);
  add_pool_samples(add);
  add_dma_samples(add);
  add_samples_of_generation_3(add);
  add_samples_of_generation_4(add);
  add(NEURON_OP_LOAD_TABLE, act, [&](Instruction& i) {
    address(i);
    i.act.table_set = 2;
  });
  add(NEURON_OP_CUSTOM_OPERATOR, NEURON_ENGINE_POOL, address);
  add(NEURON_OP_CC_TRIGGER, sp, [&](Instruction& i) {
    address(i);
    i.scalar0 = immediate(1, NEURON_DTYPE_U32);
  });
  add(NEURON_OP_CC_ADVANCE, NEURON_ENGINE_CC, [](Instruction& i) {
    i.scalar0 = immediate(3, 0);
    i.scalar1 = immediate(1, NEURON_DTYPE_U32);
  });
  add(NEURON_OP_DMA_TRIGGER, sp, [](Instruction& i) {
    i.trigger.m2s = 0xFFFF0003038;
    i.trigger.s2m = 0xFFFF0023038;
    i.trigger.stride = 0x40000;
    i.trigger.mask = 0xFFFF;
    i.trigger.queue = 2;
    i.trigger.block = 3;
    i.trigger.m2s_count.fill(9);
    i.trigger.s2m_count.fill(9);
  });
  return all;
}

}  // namespace neuron::isa::testing

#endif
