// SPDX-License-Identifier: Apache-2.0
// Recurrences and accumulators of Vector against plain loops.
#include <cmath>
#include <limits>

#include "tests/unit/driver/emulator/neuroncore/short_names.h"
#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"

namespace neuron::core {
namespace {

class VectorScan : public UnitMachine {
 protected:
  static float a_of(unsigned p, unsigned e) { return 0.5f + 0.001f * ((7 * p + 13 * e) % 401); }
  static float b_of(unsigned p, unsigned e) { return 0.25f * ((5 * p + 3 * e) % 17) - 2.0f; }
};

TEST_F(VectorScan, RunsTheRecurrenceStrictlyInOrder) {
  for (const unsigned n : {1u, 63u, 64u, 65u, 300u}) {
    for (const unsigned parts : {128u, 33u, 3u}) {
      const auto a = sbuf(parts, 0, kF32, n), b = sbuf(parts, 4096, kF32, n);
      const auto dst = sbuf(parts, 8192, kF32, n);
      fill(a, a_of);
      fill(b, b_of);
      Instruction scan = make(NEURON_OP_TENSOR_TENSOR_SCAN, dst, a, b);
      scan.vector.op0 = NEURON_ALU_MUL;
      scan.vector.op1 = NEURON_ALU_ADD;
      scan.scalar0 = real(3.0f);
      dve(scan);
      for (unsigned p = 0; p < parts; ++p) {
        const auto found = get(dst, p);
        float state = 3.0f;
        for (unsigned e = 0; e < n; ++e) {
          state = a_of(p, e) * state;
          state = state + b_of(p, e);
          ASSERT_EQ(found[e], state) << p << "," << e << " of " << n;
        }
      }
    }
  }
}

TEST_F(VectorScan, StartsFromOneValuePerPartition) {
  const auto a = sbuf(4, 0, kF32, 3), dst = sbuf(4, 4096, kF32, 3);
  fill(a, [](unsigned, unsigned) { return 2.0f; });
  fill(sbuf(4, 8192, kF32, 1), [](unsigned p, unsigned) { return 1.0f + p; });
  Instruction scan = make(NEURON_OP_TENSOR_TENSOR_SCAN, dst, a, a);
  scan.vector.op0 = NEURON_ALU_MUL;
  scan.vector.op1 = NEURON_ALU_MAX;
  scan.scalar0 = pointer(8192);
  dve(scan);
  EXPECT_EQ(get(dst, 3), (std::vector<float>{8, 16, 32}));
}

TEST_F(VectorScan, ReversesEitherStep) {
  const auto a = sbuf(33, 0, kF32, 4), b = sbuf(33, 4096, kF32, 4), dst = sbuf(33, 8192, kF32, 4);
  fill(a, a_of);
  fill(b, b_of);
  for (unsigned reverse = 0; reverse < 4; ++reverse) {
    Instruction scan = make(NEURON_OP_TENSOR_TENSOR_SCAN, dst, a, b);
    scan.vector.op0 = scan.vector.op1 = NEURON_ALU_SUB;
    scan.vector.rev0 = reverse & 1;
    scan.vector.rev1 = reverse & 2;
    scan.scalar0 = real(10.0f);
    dve(scan);
    for (const unsigned p : {0u, 15u, 32u}) {
      float s = 10.0f;
      const auto found = get(dst, p);
      for (unsigned e = 0; e < 4; ++e) {
        s = reverse & 1 ? s - a_of(p, e) : a_of(p, e) - s;
        s = reverse & 2 ? b_of(p, e) - s : s - b_of(p, e);
        EXPECT_EQ(found[e], s) << "reverse " << reverse << ", partition " << p;
      }
    }
  }
}

TEST_F(VectorScan, TakesComparisonsAsWell) {
  const auto a = sbuf(20, 0, kF32, 5), b = sbuf(20, 4096, kF32, 5), dst = sbuf(20, 8192, kF32, 5);
  fill(a, [](unsigned, unsigned e) { return static_cast<float>(e % 2); });
  fill(b, [](unsigned, unsigned) { return 1.0f; });
  Instruction scan = make(NEURON_OP_TENSOR_TENSOR_SCAN, dst, a, b);
  scan.vector.op0 = NEURON_ALU_EQ;  // state = (a == state) + 1
  scan.vector.op1 = NEURON_ALU_ADD;
  scan.scalar0 = real(0.0f);
  dve(scan);
  EXPECT_EQ(get(dst, 19), (std::vector<float>{2, 1, 1, 2, 1}));
}

TEST_F(VectorScan, KeepsTheStateInFp32WhateverTheDestination) {
  const auto one = sbuf(2, 0, kBf16, 600), dst = sbuf(2, 4096, kBf16, 600);
  fill(one, [](unsigned, unsigned) { return 1.0f; });
  Instruction scan = make(NEURON_OP_TENSOR_TENSOR_SCAN, dst, one, one);
  scan.vector.op0 = NEURON_ALU_MUL;
  scan.vector.op1 = NEURON_ALU_ADD;
  scan.scalar0 = real(0.0f);
  dve(scan);
  // A bf16 state would stay at 256.
  EXPECT_EQ(get(dst, 1)[599], 600.0f);
}

TEST_F(VectorScan, ReadsAnOverlappedSourceBeforeItIsOverwritten) {
  const auto a = sbuf(2, 4, kF32, 4), dst = sbuf(2, 0, kF32, 4);  // one element behind
  const auto b = sbuf(2, 4096, kF32, 4);
  fill(sbuf(2, 0, kF32, 5), [](unsigned, unsigned e) { return 1.0f + e; });
  fill(b, [](unsigned, unsigned) { return 0.0f; });
  Instruction scan = make(NEURON_OP_TENSOR_TENSOR_SCAN, dst, a, b);
  scan.vector.op0 = scan.vector.op1 = NEURON_ALU_ADD;
  scan.scalar0 = real(0.0f);
  dve(scan);
  EXPECT_EQ(get(dst, 1), (std::vector<float>{2, 5, 9, 14}));
}

TEST_F(VectorScan, MakesNanCanonicalAndKeepsIt) {
  const auto a = sbuf(16, 0, kF32, 3), dst = sbuf(16, 8192, kF32, 3);
  for (unsigned p = 0; p < 16; ++p) put_raw<uint32_t>(a, p, {0x3F800000, 0xFFC12345, 0x3F800000});
  Instruction scan = make(NEURON_OP_TENSOR_TENSOR_SCAN, dst, a, a);
  scan.vector.op0 = NEURON_ALU_MUL;
  scan.vector.op1 = NEURON_ALU_MIN;
  scan.scalar0 = real(1.0f);
  dve(scan);
  EXPECT_EQ(get_raw<uint32_t>(dst, 15),
            (std::vector<uint32_t>{0x3F800000, 0x7FC00000, 0x7FC00000}));
}

class VectorAccumulator : public UnitMachine {
 protected:
  std::vector<float> accumulator(unsigned parts, bool negate = false) {
    Instruction read = make(NEURON_OP_READ_ACC, sbuf(parts, 0x20000, kF32, 1));
    read.vector.negate = negate;
    dve(read);
    std::vector<float> values;
    for (unsigned p = 0; p < parts; ++p) values.push_back(get(sbuf(parts, 0x20000, kF32, 1), p)[0]);
    return values;
  }
  Instruction reduce(unsigned operation, unsigned command) {
    const auto a = sbuf(3, 0, kF32, 4);
    fill(a, [](unsigned p, unsigned e) { return 1.0f + p + e; });
    Instruction i = make(NEURON_OP_TENSOR_SCALAR_REDUCE, sbuf(3, 4096, kF32, 4), a);
    i.vector.op0 = NEURON_ALU_MUL;
    i.scalar0 = real(2.0f);
    i.vector.reduce = static_cast<uint8_t>(operation);
    i.vector.reduce_command = static_cast<uint8_t>(command);
    return i;
  }
};

TEST_F(VectorAccumulator, ReducesResultsFromEachIdentity) {
  const struct {
    unsigned op;
    std::vector<float> sums;
  } cases[] = {{NEURON_ALU_ADD, {20, 28, 36}},
               {NEURON_ALU_MUL, {384, 1920, 5760}},
               {NEURON_ALU_MAX, {8, 10, 12}},
               {NEURON_ALU_MIN, {2, 4, 6}}};
  for (const auto& c : cases) {
    dve(reduce(c.op, NEURON_REDUCE_RESET_ACCUMULATE));
    EXPECT_EQ(accumulator(3), c.sums) << isa::alu_name(c.op);
    EXPECT_EQ(get(sbuf(3, 4096, kF32, 4), 0), (std::vector<float>{2, 4, 6, 8}));
  }
}

TEST_F(VectorAccumulator, ResetsWithoutAddingAndAddsWithoutResetting) {
  dve(reduce(NEURON_ALU_ADD, NEURON_REDUCE_RESET_ACCUMULATE));
  dve(reduce(NEURON_ALU_ADD, NEURON_REDUCE_ACCUMULATE));
  EXPECT_EQ(accumulator(3), (std::vector<float>{40, 56, 72}));
  EXPECT_EQ(accumulator(3, true), (std::vector<float>{-40, -56, -72}));
  dve(reduce(NEURON_ALU_MAX, NEURON_REDUCE_RESET));
  EXPECT_EQ(accumulator(3)[2], -INFINITY);
}

TEST_F(VectorAccumulator, IsUnknownBehindAnIdleCommand) {
  dve(reduce(NEURON_ALU_ADD, NEURON_REDUCE_RESET_ACCUMULATE));
  dve(reduce(NEURON_ALU_ADD, NEURON_REDUCE_IDLE));
  for (const float value : accumulator(3)) EXPECT_TRUE(std::isnan(value));
}

TEST_F(VectorAccumulator, StaysWhereTheDestinationHasNoPartition) {
  dve(reduce(NEURON_ALU_ADD, NEURON_REDUCE_RESET_ACCUMULATE));
  Instruction one = reduce(NEURON_ALU_ADD, NEURON_REDUCE_ACCUMULATE);
  one.dst.parts = one.src0.parts = 1;
  dve(one);
  EXPECT_EQ(accumulator(3), (std::vector<float>{40, 28, 36}));
}

class VectorCumulative : public UnitMachine {
 protected:
  Instruction cumulative(unsigned op0, unsigned op1, unsigned command, unsigned n = 5) {
    const auto a = sbuf(34, 0, kF32, n);
    fill(a, [](unsigned p, unsigned e) { return static_cast<float>((p + 3 * e) % 7); });
    Instruction i = make(NEURON_OP_TENSOR_SCALAR_CUMULATIVE, sbuf(34, 4096, kF32, n), a);
    i.vector.op0 = static_cast<uint8_t>(op0);
    i.vector.op1 = static_cast<uint8_t>(op1);
    i.vector.reduce_command = static_cast<uint8_t>(command);
    i.scalar0 = real(1.0f);
    return i;
  }
};

TEST_F(VectorCumulative, WritesTheRunningValue) {
  const unsigned n = 150;
  for (const unsigned op :
       {NEURON_ALU_ADD, NEURON_ALU_SUB, NEURON_ALU_MUL, NEURON_ALU_MAX, NEURON_ALU_MIN}) {
    dve(cumulative(NEURON_ALU_ADD, op, NEURON_REDUCE_RESET_ACCUMULATE, n));
    for (const unsigned p : {0u, 1u, 33u}) {
      float reg = op == NEURON_ALU_MUL   ? 1.0f
                  : op == NEURON_ALU_MAX ? -INFINITY
                  : op == NEURON_ALU_MIN ? INFINITY
                                         : 0.0f;
      const auto found = get(sbuf(34, 4096, kF32, n), p);
      for (unsigned e = 0; e < n; ++e) {
        const float x = static_cast<float>((p + 3 * e) % 7) + 1.0f;
        reg = op == NEURON_ALU_ADD   ? x + reg
              : op == NEURON_ALU_SUB ? x - reg
              : op == NEURON_ALU_MUL ? x * reg
              : op == NEURON_ALU_MAX ? std::fmax(x, reg)
                                     : std::fmin(x, reg);
        ASSERT_EQ(found[e], reg) << isa::alu_name(op) << " " << p << "," << e;
      }
    }
  }
}

TEST_F(VectorCumulative, ContinuesWhereTheLastOneEndedOrFromALoadedValue) {
  dve(cumulative(NEURON_ALU_MUL, NEURON_ALU_ADD, NEURON_REDUCE_RESET_ACCUMULATE));
  const float end = get(sbuf(34, 4096, kF32, 5), 2)[4];
  dve(cumulative(NEURON_ALU_MUL, NEURON_ALU_ADD, NEURON_REDUCE_ACCUMULATE));
  EXPECT_EQ(get(sbuf(34, 4096, kF32, 5), 2)[4], 2 * end);
  Instruction loaded = cumulative(NEURON_ALU_MUL, NEURON_ALU_ADD, NEURON_REDUCE_LOAD_ACCUMULATE);
  loaded.scalar1 = real(100.0f);
  dve(loaded);
  EXPECT_EQ(get(sbuf(34, 4096, kF32, 5), 2)[4], 100.0f + end);
}

}  // namespace
}  // namespace neuron::core
