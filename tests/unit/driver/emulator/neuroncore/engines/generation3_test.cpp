// SPDX-License-Identifier: Apache-2.0
// The instructions that generation 3 adds to Vector and Pool, against plain C++ in double.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"

namespace neuron::core {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Generation3 : public UnitMachine {
 protected:
  Generation3() { limits_ = isa::limits_of(3); }

  std::vector<float> accumulators(unsigned parts, uint32_t at = 0x8000) {
    const isa::Operand out = sbuf(parts, at, NEURON_DTYPE_F32, 1);
    dve(make(NEURON_OP_READ_ACC, out));
    std::vector<float> all;
    for (unsigned p = 0; p < parts; ++p) all.push_back(get(out, p)[0]);
    return all;
  }
  Instruction select(isa::Operand dst, isa::Operand a, isa::Operand predicate, float other) {
    Instruction i = make(NEURON_OP_SELECT_REDUCE, dst, a, predicate);
    i.scalar0 = real(other);
    return i;
  }
  Instruction range(isa::Operand dst, isa::Operand a, unsigned op0, unsigned op1, float start) {
    Instruction i = make(NEURON_OP_RANGE_SELECT, dst, a);
    i.vector.op0 = static_cast<uint8_t>(op0);
    i.vector.op1 = static_cast<uint8_t>(op1);
    i.vector.imm = std::bit_cast<uint32_t>(start);
    i.scalar0 = pointer(0x9000);
    i.scalar1 = pointer(0x9004);
    return i;
  }
};

TEST_F(Generation3, SelectReduceTakesTheSourceWhereThePredicateSaysAndKeepsTheMaximum) {
  constexpr unsigned kParts = 40, kN = 700;
  std::mt19937 random(3);
  const isa::Operand a = tile(NEURON_SPACE_SBUF, 0, kParts, 0, NEURON_DTYPE_F32, {kN});
  const isa::Operand dst = tile(NEURON_SPACE_SBUF, 0, kParts, 0x4000, NEURON_DTYPE_F32, {kN});
  for (const unsigned type :
       {NEURON_DTYPE_U8, NEURON_DTYPE_I8, NEURON_DTYPE_U16, NEURON_DTYPE_I16}) {
    for (const bool invert : {false, true}) {
      const isa::Operand mask = tile(NEURON_SPACE_SBUF, 0, kParts, 0x2000, type, {kN});
      std::vector<std::vector<float>> values(kParts);
      std::vector<std::vector<bool>> chosen(kParts);
      for (unsigned p = 0; p < kParts; ++p) {
        std::vector<uint8_t> narrow(kN);
        std::vector<uint16_t> wide(kN);
        for (unsigned e = 0; e < kN; ++e) {
          values[p].push_back(static_cast<float>(random() % 2000) - 1000.0F);
          // 0x0100 is not zero, though its low byte is.
          wide[e] = random() % 2 ? 0 : random() % 2 ? 0x0100 : 0xFFFF;
          narrow[e] = wide[e] == 0 ? 0 : 0x80;
          chosen[p].push_back((wide[e] != 0) != invert);
        }
        put(a, p, values[p]);
        if (isa::dtype_bytes(type) == 1) {
          put_raw(mask, p, narrow);
        } else {
          put_raw(mask, p, wide);
        }
      }
      Instruction i = select(dst, a, mask, -5000.0F);
      i.vector.invert = invert;
      i.vector.reduce = NEURON_ALU_MAX;
      i.vector.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
      dve(i);
      const std::vector<float> most = accumulators(kParts);
      for (unsigned p = 0; p < kParts; ++p) {
        float largest = -kInfinity;
        const std::vector<float> found = get(dst, p);
        for (unsigned e = 0; e < kN; ++e) {
          const float expected = chosen[p][e] ? values[p][e] : -5000.0F;
          ASSERT_EQ(found[e], expected) << p << ", " << e;
          largest = std::max(largest, expected);
        }
        EXPECT_EQ(most[p], largest) << p;
      }
    }
  }
}

TEST_F(Generation3, SelectReduceRefusesTheTypesThatTheDocumentsRefuse) {
  const isa::Operand a = sbuf(32, 0, NEURON_DTYPE_F32, 8);
  for (const unsigned type : {NEURON_DTYPE_U32, NEURON_DTYPE_F32, NEURON_DTYPE_BF16}) {
    Instruction i = select(a, a, sbuf(32, 0x100, type, 8), 0);
    EXPECT_EQ(attempt(NEURON_ENGINE_DVE, i).code, NEURON_FAULT_OPERAND_DTYPE);
    EXPECT_NE(refusal_.find("i8, u8, i16 or u16"), std::string::npos) << refusal_;
  }
  for (const unsigned type : {NEURON_DTYPE_TF32, NEURON_DTYPE_I32, NEURON_DTYPE_U32}) {
    Instruction i = select(a, sbuf(32, 0x200, type, 8), sbuf(32, 0x100, NEURON_DTYPE_U8, 8), 0);
    EXPECT_EQ(attempt(NEURON_ENGINE_DVE, i).code, NEURON_FAULT_OPERAND_DTYPE);
  }
  Instruction sum = select(a, a, sbuf(32, 0x100, NEURON_DTYPE_U8, 8), 0);
  sum.vector.reduce = NEURON_ALU_ADD;
  EXPECT_EQ(attempt(NEURON_ENGINE_DVE, sum).code, NEURON_FAULT_OP_NOT_ALLOWED);
  limits_ = isa::limits_of(2);
  Instruction early = select(a, a, sbuf(32, 0x100, NEURON_DTYPE_U8, 8), 0);
  EXPECT_EQ(attempt(NEURON_ENGINE_DVE, early).code, NEURON_FAULT_WRONG_GENERATION);
}

bool compare(unsigned op, double x, double y) {
  switch (op) {
    case NEURON_ALU_EQ:
      return x == y;
    case NEURON_ALU_GT:
      return x > y;
    case NEURON_ALU_GE:
      return x >= y;
    case NEURON_ALU_LT:
      return x < y;
    default:
      return x <= y;
  }
}

TEST_F(Generation3, RangeSelectKeepsTheElementsWhoseNumbersLieBetweenTheBounds) {
  constexpr unsigned kParts = 64, kN = 500;
  const isa::Operand a = tile(NEURON_SPACE_SBUF, 0, kParts, 0, NEURON_DTYPE_F32, {kN});
  const isa::Operand dst = tile(NEURON_SPACE_SBUF, 0, kParts, 0x4000, NEURON_DTYPE_F32, {kN});
  const isa::Operand bounds = sbuf(kParts, 0x9000, NEURON_DTYPE_F32, 2);
  fill(a, [](unsigned p, unsigned e) { return static_cast<float>((p * 37 + e * 11) % 401) - 200; });
  fill(bounds, [](unsigned p, unsigned e) { return static_cast<float>(e ? 300 + p : p * 5); });
  constexpr unsigned kOps[] = {NEURON_ALU_EQ, NEURON_ALU_GT, NEURON_ALU_GE, NEURON_ALU_LT,
                               NEURON_ALU_LE};
  for (const unsigned op0 : kOps) {
    for (const unsigned op1 : kOps) {
      Instruction i = range(dst, a, op0, op1, 7.0F);
      i.vector.reduce = NEURON_ALU_MAX;
      i.vector.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
      dve(i);
      const std::vector<float> most = accumulators(kParts);
      for (unsigned p = 0; p < kParts; ++p) {
        const std::vector<float> found = get(dst, p);
        float largest = kLowest;
        for (unsigned e = 0; e < kN; ++e) {
          const double number = 7.0 + e;
          const bool inside = compare(op0, number, p * 5.0) && compare(op1, number, 300.0 + p);
          const float value = static_cast<float>((p * 37 + e * 11) % 401) - 200;
          ASSERT_EQ(found[e], inside ? value : kLowest)
              << op0 << " " << op1 << " " << p << " " << e;
          if (inside) largest = std::max(largest, value);
        }
        EXPECT_EQ(most[p], largest);
      }
    }
  }
}

// The lowest finite f32 is beyond the range of narrower types: their conversion makes it -inf.
TEST_F(Generation3, RangeSelectGivesMinusInfinityInNarrowTypes) {
  const isa::Operand a = sbuf(1, 0, NEURON_DTYPE_F32, 4);
  put(a, 0, {1, 2, 3, 4});
  put(sbuf(1, 0x9000, NEURON_DTYPE_F32, 2), 0, {1, 3});
  for (const unsigned type :
       {NEURON_DTYPE_F16, NEURON_DTYPE_BF16, NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5}) {
    const isa::Operand dst = sbuf(1, 0x4000, type, 4);
    dve(range(dst, a, NEURON_ALU_GE, NEURON_ALU_LT, 0));
    EXPECT_EQ(get(dst, 0), (std::vector<float>{-kInfinity, 2, 3, -kInfinity}))
        << isa::dtype_name(type);
  }
}

TEST_F(Generation3, NonzeroWithCountListsPlacesThenPaddingThenTheirNumber) {
  constexpr unsigned kN = 300;
  std::mt19937 random(5);
  for (const unsigned type : {NEURON_DTYPE_F32, NEURON_DTYPE_I32}) {
    const isa::Operand a = sbuf(128, 0, type, kN);
    const isa::Operand dst = sbuf(128, 0x4000, NEURON_DTYPE_I32, kN + 1);
    std::vector<std::vector<uint32_t>> rows(128);
    for (unsigned p = 0; p < 128; ++p) {
      for (unsigned e = 0; e < kN; ++e) {
        const bool negative_zero = type == NEURON_DTYPE_F32 && random() % 5 == 0;
        rows[p].push_back(random() % 3 != 0 ? 0 : negative_zero ? 0x80000000U : 0x40000000U + e);
      }
      put_raw(a, p, rows[p]);
      put_raw(dst, p, std::vector<uint32_t>(kN + 1, 0x7777));
    }
    Instruction i = make(NEURON_OP_NONZERO_WITH_COUNT, dst, a);
    i.scalar0 = number(1000);
    i.vector.imm = 0xFFFFFFFF;
    run(NEURON_ENGINE_POOL, i);
    for (unsigned p = 0; p < 128; ++p) {
      std::vector<uint32_t> expected;
      for (unsigned e = 0; e < kN; ++e) {
        if (rows[p][e] << 1 != 0) expected.push_back(1000 + e);
      }
      const auto count = static_cast<uint32_t>(expected.size());
      expected.resize(kN, 0xFFFFFFFF);
      expected.push_back(count);
      if (p % 16 != 0) expected.assign(kN + 1, 0x7777);  // not a GpSimd core's first partition
      EXPECT_EQ(get_raw<uint32_t>(dst, p), expected) << isa::dtype_name(type) << ", " << p;
    }
  }
}

// Marsaglia's program, with names of its own.
struct Published {
  uint32_t x, y, z, w, v, d;
  uint32_t next() {
    const uint32_t t = x ^ (x >> 2);
    x = y;
    y = z;
    z = w;
    w = v;
    v = (v ^ (v << 4)) ^ (t ^ (t << 1));
    d = d + 362437;
    return d + v;
  }
};

class XorwowOnPool : public UnitOfAGeneration {};
INSTANTIATE_TEST_SUITE_P(Generations, XorwowOnPool, ::testing::Values(3U, 4U));

TEST_P(XorwowOnPool, DrawsFromTheStatesThatAreSetAndGivesThemBack) {
  const isa::Operand states = sbuf(128, 0, NEURON_DTYPE_U32, 6);
  const isa::Operand words = sbuf(128, 0x1000, NEURON_DTYPE_U32, 5000);
  const isa::Operand back = sbuf(128, 0x8000, NEURON_DTYPE_U32, 6);
  std::vector<Published> expected;
  for (unsigned p = 0; p < 128; ++p) {
    // Marsaglia's own start for partition 0.
    expected.push_back({123456789 + p, 362436069, 521288629, 88675123, 5783321, 6615241});
    const Published& s = expected[p];
    put_raw(states, p, std::vector<uint32_t>{s.x, s.y, s.z, s.w, s.v, s.d});
  }
  run(NEURON_ENGINE_POOL, make(NEURON_OP_RAND_SET_STATE, {}, states));
  for (unsigned round = 0; round < 2; ++round) {
    run(NEURON_ENGINE_POOL, make(NEURON_OP_RNG, words));
    for (unsigned p = 0; p < 128; ++p) {
      const std::vector<uint32_t> found = get_raw<uint32_t>(words, p);
      for (unsigned e = 0; e < 5000; ++e) ASSERT_EQ(found[e], expected[p].next()) << p << " " << e;
    }
  }
  run(NEURON_ENGINE_POOL, make(NEURON_OP_RAND_GET_STATE, back));
  for (unsigned p = 0; p < 128; ++p) {
    const Published& s = expected[p];
    EXPECT_EQ(get_raw<uint32_t>(back, p), (std::vector<uint32_t>{s.x, s.y, s.z, s.w, s.v, s.d}));
  }
}

TEST_F(Generation3, PoolsStatesThatNobodySetFollowTheSeedAndDifferByPartition) {
  const isa::Operand back = sbuf(128, 0, NEURON_DTYPE_U32, 6);
  seed_ = 77;
  run(NEURON_ENGINE_POOL, make(NEURON_OP_RAND_GET_STATE, back));
  std::vector<std::vector<uint32_t>> all;
  for (unsigned p = 0; p < 128; ++p) {
    const std::vector<uint32_t> state = get_raw<uint32_t>(back, p);
    EXPECT_EQ(std::count(all.begin(), all.end(), state), 0);
    all.push_back(state);
  }
  pool_.states.seeded = false;
  run(NEURON_ENGINE_POOL, make(NEURON_OP_RAND_GET_STATE, back));
  EXPECT_EQ(get_raw<uint32_t>(back, 9), all[9]);
  pool_.states.seeded = false;
  seed_ = 78;
  run(NEURON_ENGINE_POOL, make(NEURON_OP_RAND_GET_STATE, back));
  EXPECT_NE(get_raw<uint32_t>(back, 9), all[9]);
}

TEST_F(Generation3, RandomStatesOfVectorNeedGeneration4) {
  Instruction i = make(NEURON_OP_RAND_SET_STATE, {}, sbuf(128, 0, NEURON_DTYPE_U32, 24));
  EXPECT_EQ(attempt(NEURON_ENGINE_DVE, i).code, NEURON_FAULT_WRONG_GENERATION);
  Instruction wrong = make(NEURON_OP_RAND_SET_STATE, {}, sbuf(128, 0, NEURON_DTYPE_U32, 24));
  EXPECT_EQ(attempt(NEURON_ENGINE_POOL, wrong).code, NEURON_FAULT_OPERAND_SHAPE);
}

// f8e4 (240 at most), f8e4fn (448) and f8e5 from their bits, by the formula of the formats.
double f8_value(unsigned type, unsigned code) {
  const unsigned mantissa_bits = type == NEURON_DTYPE_F8E5 ? 2 : 3;
  const int bias = type == NEURON_DTYPE_F8E5 ? 15 : 7;
  const unsigned mantissa = code & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>((code & 0x7F) >> mantissa_bits);
  const double fraction = mantissa / static_cast<double>(1u << mantissa_bits);
  const double size =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return (code & 0x80) != 0 ? -size : size;
}
// Codes that are numbers.
bool is_number(unsigned type, unsigned code) {
  const unsigned above = type == NEURON_DTYPE_F8E5 ? 0x7C : type == NEURON_DTYPE_F8E4 ? 0x78 : 0x7F;
  return (code & 0x7F) < above;
}

class DoubleRow : public Generation3 {
 protected:
  struct Case {
    int k, m, n, gap;
    unsigned stationary, moving;
  };
  void compare(std::initializer_list<Case> cases);
  Instruction two_rows(unsigned opcode, isa::Operand dst, isa::Operand a) {
    Instruction i = make(opcode, dst, a);
    i.pe.mode = NEURON_PE_DOUBLE_ROW;
    return i;
  }
};

// K rows of 2 x `columns` codes, with gaps between the planes if `gap` is not 0.
void DoubleRow::compare(std::initializer_list<Case> cases) {
  std::mt19937 random(11);
  for (const Case& c : cases) {
    const auto matrix = [&](uint32_t base, unsigned type, int columns) {
      return tile(NEURON_SPACE_SBUF, 0, static_cast<unsigned>(c.k), base, type, {columns, 2},
                  {1, columns + c.gap});
    };
    const isa::Operand w = matrix(0, c.stationary, c.m), x = matrix(0x1000, c.moving, c.n);
    std::vector<std::vector<uint8_t>> weights, moving;
    const auto codes = [&](unsigned type, int columns) {
      std::vector<uint8_t> row;
      while (row.size() < 2 * static_cast<size_t>(columns)) {
        const auto code = static_cast<uint8_t>(random());
        // Middle exponents: every product and sum is exact in fp32, in any order.
        if (is_number(type, code) && std::fabs(f8_value(type, code)) <= 16 &&
            std::fabs(f8_value(type, code)) >= 0.25) {
          row.push_back(code);
        }
      }
      return row;
    };
    for (int p = 0; p < c.k; ++p) {
      weights.push_back(codes(c.stationary, c.m));
      moving.push_back(codes(c.moving, c.n));
      put_raw(w, static_cast<unsigned>(p), weights.back());
      put_raw(x, static_cast<unsigned>(p), moving.back());
    }
    run(NEURON_ENGINE_PE, two_rows(NEURON_OP_LDWEIGHTS, {}, w));
    const isa::Operand dst = psum(static_cast<unsigned>(c.m), 0, NEURON_DTYPE_F32, c.n);
    Instruction product = two_rows(NEURON_OP_MATMUL, dst, x);
    product.pe.swap = true;
    run(NEURON_ENGINE_PE, product);
    product.pe.swap = false;
    product.pe.accumulate = true;
    run(NEURON_ENGINE_PE, product);  // twice the sum
    for (int m = 0; m < c.m; ++m) {
      const std::vector<float> found = get(dst, static_cast<unsigned>(m));
      for (int n = 0; n < c.n; ++n) {
        double sum = 0;
        for (int p = 0; p < c.k; ++p) {
          for (int j = 0; j < 2; ++j) {
            sum += f8_value(c.stationary, weights[p][j * c.m + m]) *
                   f8_value(c.moving, moving[p][j * c.n + n]);
          }
        }
        ASSERT_EQ(found[n], 2 * sum) << c.k << ": " << m << ", " << n;
      }
    }
  }
}

TEST_F(DoubleRow, IsTheSumOverBothRowsOfEveryPartition) {
  compare({{128, 128, 512, 0, NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E4},
           {128, 64, 100, 12, NEURON_DTYPE_F8E5, NEURON_DTYPE_F8E4},
           {40, 17, 33, 3, NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5}});
}

TEST_F(DoubleRow, OfF8e4fnIsTheSumOverBothRowsToo) {
  limits_ = isa::limits_of(4);
  compare({{128, 128, 512, 0, NEURON_DTYPE_F8E4FN, NEURON_DTYPE_F8E4FN},
           {100, 64, 100, 12, NEURON_DTYPE_F8E5, NEURON_DTYPE_F8E4FN},
           {40, 17, 33, 3, NEURON_DTYPE_F8E4FN, NEURON_DTYPE_F8E5},
           {128, 32, 64, 0, NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5}});
  // Never against the other f8 with four bits of exponent.
  const isa::Operand w = tile(NEURON_SPACE_SBUF, 0, 128, 0, NEURON_DTYPE_F8E4, {32, 2});
  fill(w, [](unsigned, unsigned) { return 1.0F; });
  run(NEURON_ENGINE_PE, two_rows(NEURON_OP_LDWEIGHTS, {}, w));
  isa::Operand x = w;
  x.dtype = NEURON_DTYPE_F8E4FN;
  Instruction product = two_rows(NEURON_OP_MATMUL, psum(32, 0, NEURON_DTYPE_F32, 32), x);
  product.pe.swap = true;
  EXPECT_EQ(attempt(NEURON_ENGINE_PE, product).code, NEURON_FAULT_OPERAND_DTYPE);
}

// Every code, NaN and infinity too, in the lower byte of 16 bits.
TEST_F(Generation3, TransposesF8IntoSlotsOf16Bits) {
  const isa::Operand a = sbuf(128, 0, NEURON_DTYPE_F8E4, 100);
  const isa::Operand dst = psum(100, 0, NEURON_DTYPE_U16, 128);
  for (unsigned p = 0; p < 128; ++p) {
    std::vector<uint8_t> row(100);
    for (unsigned e = 0; e < 100; ++e) row[e] = static_cast<uint8_t>(p * 3 + e * 2);
    put_raw(a, p, row);
  }
  run(NEURON_ENGINE_PE, make(NEURON_OP_TRANSPOSE, dst, a));
  for (unsigned e = 0; e < 100; ++e) {
    const std::vector<uint16_t> found = get_raw<uint16_t>(dst, e);
    for (unsigned p = 0; p < 128; ++p) ASSERT_EQ(found[p], (p * 3 + e * 2) & 0xFF) << p << " " << e;
  }
  Instruction wrong = make(NEURON_OP_TRANSPOSE, psum(100, 0, NEURON_DTYPE_F8E4, 128), a);
  EXPECT_EQ(attempt(NEURON_ENGINE_PE, wrong).code, NEURON_FAULT_OPERAND_DTYPE);
  limits_ = isa::limits_of(2);
  Instruction early = make(NEURON_OP_TRANSPOSE, dst, a);
  EXPECT_EQ(attempt(NEURON_ENGINE_PE, early).code, NEURON_FAULT_OPERAND_DTYPE);
}

TEST_F(DoubleRow, RefusesOtherTypesShapesTilesAndWeights) {
  const isa::Operand dst = psum(64, 0, NEURON_DTYPE_F32, 32);
  const isa::Operand good = tile(NEURON_SPACE_SBUF, 0, 128, 0, NEURON_DTYPE_F8E4, {32, 2});
  const auto refused = [&](isa::Operand a, unsigned code, const char* words) {
    Instruction i = two_rows(NEURON_OP_MATMUL, dst, a);
    EXPECT_EQ(attempt(NEURON_ENGINE_PE, i).code, code);
    EXPECT_NE(refusal_.find(words), std::string::npos) << refusal_;
  };
  refused(tile(NEURON_SPACE_SBUF, 0, 128, 0, NEURON_DTYPE_BF16, {32, 2}),
          NEURON_FAULT_OPERAND_DTYPE, "f8e4, f8e5");
  refused(tile(NEURON_SPACE_SBUF, 0, 128, 0, NEURON_DTYPE_F8E4, {32, 3}),
          NEURON_FAULT_OPERAND_SHAPE, "outermost free dimension of 2");
  refused(sbuf(128, 0, NEURON_DTYPE_F8E4, 64), NEURON_FAULT_OPERAND_SHAPE, "outermost");
  Instruction narrow = two_rows(NEURON_OP_MATMUL, dst, good);
  narrow.pe.columns = 1;
  EXPECT_EQ(attempt(NEURON_ENGINE_PE, narrow).code, NEURON_FAULT_OP_NOT_ALLOWED);
  // Weights of the other mode.
  const isa::Operand w = tile(NEURON_SPACE_SBUF, 0, 128, 0, NEURON_DTYPE_F8E4, {64});
  fill(w, [](unsigned, unsigned) { return 1.0F; });
  run(NEURON_ENGINE_PE, make(NEURON_OP_LDWEIGHTS, {}, w));
  Instruction i = two_rows(NEURON_OP_MATMUL, dst, good);
  i.pe.swap = true;
  EXPECT_EQ(attempt(NEURON_ENGINE_PE, i).code, NEURON_FAULT_WEIGHTS);
  limits_ = isa::limits_of(2);
  Instruction early = two_rows(NEURON_OP_MATMUL, dst, good);
  EXPECT_EQ(attempt(NEURON_ENGINE_PE, early).code, NEURON_FAULT_WRONG_GENERATION);
}

}  // namespace
}  // namespace neuron::core
