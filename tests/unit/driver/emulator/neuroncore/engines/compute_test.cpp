// SPDX-License-Identifier: Apache-2.0
// Compute instructions against values worked out by hand or in double precision, and their times.
#include <bit>
#include <cmath>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

class Compute : public EveryGeneration {
 protected:
  void compute(unsigned engine, std::vector<Instruction> program) {
    program.push_back(inst(NEURON_OP_HALT));
    load_and_run(engine, program);
    ASSERT_EQ(state(engine), NEURON_STATE_HALTED) << chip_->describe_core(0);
  }
  // data[p][i] = f(p, i) at `base` of SBUF.
  template <class F>
  void fill(unsigned parts, unsigned n, uint32_t base, F f) {
    for (unsigned p = 0; p < parts; ++p) {
      for (unsigned i = 0; i < n; ++i) set_sbuf(p, base + 4 * i, f(p, i));
    }
  }
  static Instruction binary(unsigned op, isa::Operand dst, isa::Operand a, isa::Operand b) {
    Instruction i = inst(NEURON_OP_TENSOR_TENSOR);
    i.dst = dst;
    i.src0 = a;
    i.src1 = b;
    i.vector.op0 = static_cast<uint8_t>(op);
    return i;
  }
  static Instruction unary(unsigned opcode, isa::Operand dst, isa::Operand a) {
    Instruction i = inst(opcode);
    i.dst = dst;
    i.src0 = a;
    return i;
  }
  static isa::Scalar pointer(uint32_t at) { return {at, NEURON_SCALAR_POINTER, kF32, kSbuf, 0}; }
};

INSTANTIATE_TEST_SUITE_P(Generations, Compute, kGenerations);

TEST_P(Compute, MultipliesIntoPsumAndAccumulates) {
  constexpr unsigned kK = 5;
  constexpr unsigned kM = 3;
  constexpr unsigned kN = 4;
  const auto st = [](unsigned k, unsigned m) { return static_cast<float>(k + 10 * m); };
  const auto mv = [](unsigned k, unsigned n) { return static_cast<float>(k) - 2.0f * n; };
  fill(kK, kM, 0, st);
  fill(kK, kN, 256, mv);
  Instruction weights = inst(NEURON_OP_LDWEIGHTS);
  weights.src0 = sbuf(kK, 0, kF32, kM);
  Instruction matmul = inst(NEURON_OP_MATMUL);
  matmul.dst = psum(kM, 0x800, kF32, kN);
  matmul.src0 = sbuf(kK, 256, kF32, kN);
  matmul.pe.swap = true;
  Instruction again = matmul;
  again.pe.swap = false;
  again.pe.accumulate = true;
  compute(kPe, {weights, matmul, again});
  for (unsigned m = 0; m < kM; ++m) {
    for (unsigned n = 0; n < kN; ++n) {
      float sum = 0;
      for (unsigned k = 0; k < kK; ++k) sum += st(k, m) * mv(k, n);
      EXPECT_EQ(psum_float(m, 0x800 + 4 * n), 2 * sum) << m << "," << n;
    }
  }
}

TEST_P(Compute, KeepsTheShadowWeightsUntilTheSwap) {
  fill(1, 2, 0, [](unsigned, unsigned i) { return i == 0 ? 3.0f : 5.0f; });
  Instruction first = inst(NEURON_OP_LDWEIGHTS);
  first.src0 = sbuf(1, 0, kF32, 1);
  Instruction second = first;
  second.src0 = sbuf(1, 4, kF32, 1);
  Instruction matmul = inst(NEURON_OP_MATMUL);
  matmul.src0 = sbuf(1, 0, kF32, 1);
  const auto at = [&](uint32_t where, bool swap) {
    Instruction m = matmul;
    m.dst = psum(1, where, kF32, 1);
    m.pe.swap = swap;
    return m;
  };
  compute(kPe, {first, at(0, true), second, at(4, false), at(8, true)});
  EXPECT_EQ(psum_float(0, 0), 9.0f);
  EXPECT_EQ(psum_float(0, 4), 9.0f);
  EXPECT_EQ(psum_float(0, 8), 15.0f);
}

TEST_P(Compute, GathersMatricesFromStridedAndNestedPatterns) {
  fill(2, 12, 0, [](unsigned p, unsigned i) { return static_cast<float>(i + 100 * p); });
  Instruction weights = inst(NEURON_OP_LDWEIGHTS);
  weights.src0 = tile(kSbuf, 0, 2, 0, kF32, {2, 2}, {3, 4});  // elements 0 3 4 7
  Instruction matmul = inst(NEURON_OP_MATMUL);
  matmul.src0 = tile(kSbuf, 0, 2, 0, kF32, {2, 3}, {1, 5});  // elements 0 1 5 6 10 11
  matmul.dst = tile(NEURON_SPACE_PSUM, 0, 4, 0, kF32, {2, 3}, {1, 4});
  matmul.pe.swap = true;
  compute(kPe, {weights, matmul});
  const int columns[] = {0, 3, 4, 7};
  const int rows[] = {0, 1, 5, 6, 10, 11};
  for (unsigned m = 0; m < 4; ++m) {
    for (unsigned n = 0; n < 6; ++n) {
      const float expected =
          static_cast<float>(columns[m] * rows[n] + (columns[m] + 100) * (rows[n] + 100));
      EXPECT_EQ(psum_float(m, 4 * (n % 2 + 4 * (n / 2))), expected);
    }
  }
}

TEST_P(Compute, TransposesBits) {
  fill(3, 5, 0, [](unsigned p, unsigned i) { return static_cast<float>(10 * p + i); });
  compute(kPe, {unary(NEURON_OP_TRANSPOSE, psum(5, 0, kF32, 3), sbuf(3, 0, kF32, 5))});
  for (unsigned i = 0; i < 5; ++i) {
    for (unsigned p = 0; p < 3; ++p) EXPECT_EQ(psum_float(i, 4 * p), 10.0f * p + i);
  }
}

TEST_P(Compute, ActivatesWithScaleBiasAndSum) {
  constexpr unsigned kN = 7;
  fill(4, kN, 0, [](unsigned p, unsigned i) { return 0.25f * i - 0.5f * p; });
  fill(4, 1, 512, [](unsigned p, unsigned) { return 0.125f * p; });
  Instruction exp = unary(NEURON_OP_ACTIVATE, sbuf(4, 1024, kF32, kN), sbuf(4, 0, kF32, kN));
  exp.act.function = NEURON_ACT_EXP;
  exp.act.reduce = NEURON_ALU_ADD;
  exp.act.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
  exp.scalar0 = real(-2.0f);
  exp.scalar1 = pointer(512);
  Instruction sum = inst(NEURON_OP_READ_ACC);
  sum.dst = sbuf(4, 2048, kF32, 1);
  Instruction more = exp;
  more.act.reduce_command = NEURON_REDUCE_ACCUMULATE;
  Instruction twice = sum;
  twice.dst = sbuf(4, 2052, kF32, 1);
  twice.vector.negate = true;
  compute(kAct, {exp, sum, more, twice});
  for (unsigned p = 0; p < 4; ++p) {
    double total = 0;
    for (unsigned i = 0; i < kN; ++i) {
      const double x = std::exp(-2.0 * (0.25 * i - 0.5 * p) + 0.125 * p);
      EXPECT_NEAR(sbuf_float(p, 1024 + 4 * i), x, 1e-6 * x);
      total += x;
    }
    EXPECT_NEAR(sbuf_float(p, 2048), total, 1e-5 * total);
    EXPECT_NEAR(sbuf_float(p, 2052), -2 * total, 2e-5 * total);
  }
}

TEST_P(Compute, AddsTensorsWithBroadcastAndRoundsIntoBf16) {
  fill(2, 6, 0, [](unsigned p, unsigned i) { return 1.0f + i + 100 * p; });
  fill(2, 2, 256, [](unsigned, unsigned i) { return i == 0 ? 0.5f : 0.001f; });
  // b repeats each of its two elements three times.
  const isa::Operand b = tile(kSbuf, 0, 2, 256, kF32, {3, 2}, {0, 1});
  compute(kDve, {binary(NEURON_ALU_ADD, sbuf(2, 512, kBf16, 6), sbuf(2, 0, kF32, 6), b),
                 unary(NEURON_OP_TENSOR_COPY, sbuf(2, 1024, kF32, 6), sbuf(2, 512, kBf16, 6))});
  EXPECT_EQ(sbuf_float(0, 1024), 1.5f);
  EXPECT_EQ(sbuf_float(0, 1024 + 8), 3.5f);
  EXPECT_EQ(sbuf_float(0, 1024 + 12), 4.0f) << "4.001 rounds to 4 in bf16";
  EXPECT_EQ(sbuf_float(1, 1024), 101.5f);
}

TEST_P(Compute, ChainsTwoScalarOperationsEitherWayRound) {
  fill(2, 3, 0, [](unsigned p, unsigned i) { return static_cast<float>(i + 1 + 4 * p); });
  fill(2, 1, 64, [](unsigned p, unsigned) { return 10.0f + p; });
  Instruction i = unary(NEURON_OP_TENSOR_SCALAR, sbuf(2, 128, kF32, 3), sbuf(2, 0, kF32, 3));
  i.vector.op0 = NEURON_ALU_SUB;
  i.vector.rev0 = true;  // pointer - x
  i.scalar0 = pointer(64);
  i.vector.op1 = NEURON_ALU_MUL;
  i.scalar1 = real(3.0f);
  compute(kDve, {i});
  EXPECT_EQ(sbuf_float(0, 128), 27.0f);
  EXPECT_EQ(sbuf_float(1, 136), 3.0f * (11.0f - 7.0f));
}

TEST_P(Compute, ReducesTrailingDimensionsAndWholeRows) {
  fill(3, 12, 0, [](unsigned p, unsigned i) { return static_cast<float>((i * 7 + p) % 12); });
  Instruction rows = unary(NEURON_OP_TENSOR_REDUCE, sbuf(3, 256, kF32, 1), sbuf(3, 0, kF32, 12));
  rows.vector.reduce = NEURON_ALU_MAX;
  rows.vector.axes = 1;
  rows.vector.negate = true;
  Instruction groups =
      unary(NEURON_OP_TENSOR_REDUCE, sbuf(3, 512, kF32, 3), tile(kSbuf, 0, 3, 0, kF32, {4, 3}));
  groups.vector.reduce = NEURON_ALU_SUB;
  groups.vector.axes = 1;
  compute(kDve, {rows, groups});
  for (unsigned p = 0; p < 3; ++p) {
    EXPECT_EQ(sbuf_float(p, 256), -11.0f);
    for (unsigned g = 0; g < 3; ++g) {
      const auto x = [&](unsigned i) { return static_cast<float>(((4 * g + i) * 7 + p) % 12); };
      EXPECT_EQ(sbuf_float(p, 512 + 4 * g), x(0) - x(1) - x(2) - x(3));
    }
  }
}

TEST_P(Compute, OverlappingPatternsBehaveLikeAStream) {
  fill(1, 5, 0, [](unsigned, unsigned i) { return static_cast<float>(i); });
  // Each element is read after the one before it was written: the first value runs through.
  compute(kDve, {unary(NEURON_OP_TENSOR_COPY, sbuf(1, 4, kF32, 4), sbuf(1, 0, kF32, 4))});
  for (unsigned i = 0; i < 5; ++i) EXPECT_EQ(sbuf_float(0, 4 * i), 0.0f) << i;
}

TEST_P(Compute, PoolIsExactOnIntegersWhereVectorRounds) {
  const float big = std::bit_cast<float>((1 << 24) + 1);
  const float one = std::bit_cast<float>(1);
  fill(1, 1, 0, [&](unsigned, unsigned) { return big; });
  fill(1, 1, 4, [&](unsigned, unsigned) { return one; });
  const Instruction vector =
      binary(NEURON_ALU_ADD, sbuf(1, 64, kI32, 1), sbuf(1, 0, kI32, 1), sbuf(1, 4, kI32, 1));
  Instruction pool = vector;
  pool.engines = 1 << kPool;
  pool.dst = sbuf(1, 68, kI32, 1);
  compute(kDve, {vector});
  compute(kPool, {pool});
  EXPECT_EQ(std::bit_cast<int>(sbuf_float(0, 64)), 1 << 24) << "fp32 cannot hold 2^24 + 1";
  EXPECT_EQ(std::bit_cast<int>(sbuf_float(0, 68)), (1 << 24) + 2);
}

TEST_P(Compute, BitOperationsWorkOnRawIntegers) {
  fill(1, 2, 0, [](unsigned, unsigned i) { return std::bit_cast<float>(i == 0 ? 0x0F0F00FF : 1); });
  Instruction shift = unary(NEURON_OP_TENSOR_SCALAR, sbuf(1, 64, kI32, 2), sbuf(1, 0, kI32, 2));
  shift.vector.op0 = NEURON_ALU_SHL;
  shift.scalar0 = number(4);
  shift.vector.op1 = NEURON_ALU_XOR;
  shift.scalar1 = number(0xF);
  compute(kDve, {shift});
  EXPECT_EQ(std::bit_cast<uint32_t>(sbuf_float(0, 64)), 0xF0F00FFFu);
  EXPECT_EQ(std::bit_cast<uint32_t>(sbuf_float(0, 68)), 0x1Fu);
}

TEST_P(Compute, IotaCountsOverPatternAndPartitions) {
  Instruction i = inst(NEURON_OP_IOTA);
  i.dst = sbuf(3, 0, kI32, 4);
  i.pattern.size = {2, 2, 0, 0};
  i.pattern.step = {1, -10, 0, 0};
  i.scalar0 = number(5);
  i.vector.imm = 100;
  compute(kPool, {i});
  for (int p = 0; p < 3; ++p) {
    const int expected[] = {5, 6, -5, -4};
    for (unsigned e = 0; e < 4; ++e) {
      EXPECT_EQ(std::bit_cast<int>(sbuf_float(p, 4 * e)), expected[e] + 100 * p);
    }
  }
}

TEST_P(Compute, RegistersMoveOperandsAndScalars) {
  fill(1, 8, 0, [](unsigned, unsigned i) { return static_cast<float>(i); });
  Instruction i = unary(NEURON_OP_TENSOR_SCALAR, sbuf(1, 256, kF32, 2), sbuf(1, 0, kF32, 2));
  i.vector.op0 = NEURON_ALU_MUL;
  i.scalar0 = {7, NEURON_SCALAR_REGISTER, kF32, 0, 0};
  i.bind[0] = {6, NEURON_BIND_BASE, 1, NEURON_BIND_ADD_ELEMENTS};
  Instruction factor = mov(7, std::bit_cast<uint32_t>(0.5f));
  factor.engines = 0x1F;
  compute(kDve, {mov(6, 5), factor, i});
  EXPECT_EQ(sbuf_float(0, 256), 2.5f);
  EXPECT_EQ(sbuf_float(0, 260), 3.0f);
}

TEST_P(Compute, LongRowsAreCutIntoPieces) {
  constexpr unsigned kN = 20'000;
  Instruction set = inst(NEURON_OP_MEMSET);
  set.dst = sbuf(128, 0, kF32, kN);
  set.vector.imm = std::bit_cast<uint32_t>(1.5f);
  Instruction square = binary(NEURON_ALU_MUL, sbuf(128, 4 * kN, kF32, kN), sbuf(128, 0, kF32, kN),
                              sbuf(128, 0, kF32, kN));
  compute(kDve, {set, square});
  for (const unsigned p : {0u, 127u}) {
    for (const unsigned i : {0u, 8191u, 8192u, kN - 1}) {
      EXPECT_EQ(sbuf_float(p, 4 * (kN + i)), 2.25f);
    }
  }
}

TEST_P(Compute, StochasticRoundingDependsOnTheSeedOnly) {
  fill(1, 64, 0, [](unsigned, unsigned) { return 1.0f + 1.0f / 512; });  // half way in bf16
  Instruction copy = unary(NEURON_OP_TENSOR_COPY, sbuf(1, 512, kBf16, 64), sbuf(1, 0, kF32, 64));
  copy.rounding = 2;
  const auto bits = [&](uint32_t seed) {
    set_core(window_ + NEURON_CORE_CONTROL + NEURON_CORE_COMMAND, NEURON_CMD_RESET);
    fill(1, 64, 0, [](unsigned, unsigned) { return 1.0f + 1.0f / 512; });
    set_core(window_ + NEURON_CORE_CONTROL + NEURON_CORE_SEED, seed);
    compute(kDve, {copy});
    std::vector<uint32_t> out;
    for (unsigned i = 0; i < 32; ++i) {
      out.push_back(std::bit_cast<uint32_t>(sbuf_float(0, 512 + 4 * i)));
    }
    return out;
  };
  const auto first = bits(1);
  EXPECT_EQ(first, bits(1));
  EXPECT_NE(first, bits(2));
  EXPECT_NE(first, std::vector<uint32_t>(32, first[0])) << "neither always up nor always down";
}

class ComputeOfGeneration2 : public Compute {};
INSTANTIATE_TEST_SUITE_P(Alone, ComputeOfGeneration2, ::testing::Values(2U));

// Times of the cost model, in ps; the tables of README.md.
TEST_P(ComputeOfGeneration2, TakesTheTimeOfTheCostModel) {
  fill_sbuf(128, 2048);
  // Until the last result is visible; the halt behind it takes 64 cycles of 1.4 GHz meanwhile.
  const auto duration = [&](unsigned engine, const std::vector<Instruction>& program) {
    compute(engine, program);
    return uint64_t{get(engine, NEURON_ENG_BUSY_LO)};
  };
  const uint64_t visible = 60 * 6250 / 7;
  EXPECT_EQ(duration(kDve, {unary(NEURON_OP_TENSOR_COPY, sbuf(1, 4096, kF32, 512),
                                  sbuf(1, 0, kF32, 512))}),
            512 * 6250 / 7u + visible);
  EXPECT_EQ(duration(kDve, {unary(NEURON_OP_RECIPROCAL, sbuf(1, 4096, kF32, 512),
                                  sbuf(1, 0, kF32, 512))}),
            8 * 512 * 6250 / 7u + visible);
  EXPECT_EQ(
      duration(kAct, {unary(NEURON_OP_ACTIVATE, sbuf(1, 4096, kF32, 16), sbuf(1, 0, kF32, 16))}),
      64 * 5000 / 7u + 45'714);
  Instruction weights = inst(NEURON_OP_LDWEIGHTS);
  weights.src0 = sbuf(128, 0, kBf16, 128);
  Instruction matmul = inst(NEURON_OP_MATMUL);
  matmul.src0 = sbuf(128, 256, kBf16, 512);
  matmul.dst = psum(128, 0, kF32, 512);
  matmul.pe.swap = true;
  // The second load hides behind the first multiplication.
  EXPECT_EQ(duration(kPe, {weights, matmul, weights, matmul}),
            32 * 2500 / 7 + 2 * (512 * 2500 / 7u) + 64 * 2500 / 7);
}

TEST_P(Compute, AnUpdateBehindAMultiplicationWaitsForItsResult) {
  fill_sbuf(128, 4096);
  Instruction weights = inst(NEURON_OP_LDWEIGHTS);
  weights.src0 = sbuf(128, 0, kF32, 128);
  Instruction matmul = inst(NEURON_OP_MATMUL);
  matmul.src0 = sbuf(128, 512, kF32, 512);
  matmul.dst = psum(128, 0, kF32, 512);
  matmul.pe.swap = true;
  Instruction signal = inst(NEURON_OP_EVENT);
  signal.update[0] = update(NEURON_UPDATE_INC, 20);
  Instruction when = inst(NEURON_OP_TIME);
  when.wait[0] = wait_ge(20, 1);
  when.flow.rd = 2;
  load(kPe, {weights, matmul, signal, inst(NEURON_OP_HALT)});
  load(NEURON_ENGINE_SP, {when, inst(NEURON_OP_HALT)});
  run();
  // fp32: four passes of 512 cycles and 64 until the last result is visible.
  EXPECT_GE(register_of(NEURON_ENGINE_SP, 2), (4 * 512 + 64) * 2500 / 7u);
}

}  // namespace
}  // namespace neuron::core
