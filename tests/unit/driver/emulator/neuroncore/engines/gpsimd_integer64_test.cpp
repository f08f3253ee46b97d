// SPDX-License-Identifier: Apache-2.0
// 64-bit integers on Pool of generations 3 and 4, against plain C++ in 128 bits.
#include "driver/emulator/neuroncore/engines/gpsimd_integer64.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/unit/driver/emulator/neuroncore/short_names.h"
#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"

namespace neuron::core {
namespace {

using Wide = __int128;
using Row = std::vector<uint64_t>;

constexpr unsigned kI64 = NEURON_DTYPE_I64, kU64 = NEURON_DTYPE_U64;
constexpr uint64_t kAllOnes = ~uint64_t{0}, kSign = uint64_t{1} << 63;
constexpr unsigned kArithmetic[] = {
    NEURON_ALU_ADD,     NEURON_ALU_SUB, NEURON_ALU_MUL,     NEURON_ALU_MAX, NEURON_ALU_MIN,
    NEURON_ALU_ABS_MAX, NEURON_ALU_EQ,  NEURON_ALU_ABS_MIN, NEURON_ALU_NE,  NEURON_ALU_GT,
    NEURON_ALU_GE,      NEURON_ALU_LT,  NEURON_ALU_LE};
constexpr unsigned kBits[] = {NEURON_ALU_AND, NEURON_ALU_OR,          NEURON_ALU_XOR,
                              NEURON_ALU_SHL, NEURON_ALU_SHR_LOGICAL, NEURON_ALU_SHR_ARITH};

Wide wide_number(unsigned type, uint64_t bits) {
  return type == kI64 ? Wide{static_cast<int64_t>(bits)} : Wide{bits};
}
Wide magnitude(Wide value) { return value < 0 ? -value : value; }

// In 128 bits, of which the lower 64 are the result.
uint64_t reference(unsigned op, unsigned type, uint64_t a, uint64_t b) {
  const Wide x = wide_number(type, a), y = wide_number(type, b);
  const auto low = [](Wide value) { return static_cast<uint64_t>(value); };
  switch (op) {
    case NEURON_ALU_ADD:
      return low(x + y);
    case NEURON_ALU_SUB:
      return low(x - y);
    case NEURON_ALU_MUL:
      return low(
          static_cast<Wide>(static_cast<unsigned __int128>(x) * static_cast<unsigned __int128>(y)));
    case NEURON_ALU_MAX:
      return low(std::max(x, y));
    case NEURON_ALU_MIN:
      return low(std::min(x, y));
    case NEURON_ALU_ABS_MAX:
      return low(std::max(magnitude(x), magnitude(y)));
    case NEURON_ALU_ABS_MIN:
      return low(std::min(magnitude(x), magnitude(y)));
    case NEURON_ALU_EQ:
      return x == y;
    case NEURON_ALU_NE:
      return x != y;
    case NEURON_ALU_GT:
      return x > y;
    case NEURON_ALU_GE:
      return x >= y;
    case NEURON_ALU_LT:
      return x < y;
    case NEURON_ALU_LE:
      return x <= y;
    case NEURON_ALU_AND:
      return a & b;
    case NEURON_ALU_OR:
      return a | b;
    case NEURON_ALU_XOR:
      return a ^ b;
    case NEURON_ALU_NOT:
      return kAllOnes - a;
    case NEURON_ALU_SHL:
      return b > 63 ? 0 : low(static_cast<Wide>(static_cast<unsigned __int128>(a) << b));
    case NEURON_ALU_SHR_LOGICAL:
      return b > 63 ? 0 : low(Wide{a} >> b);
    default:  // shr_arith
      return low(Wide{static_cast<int64_t>(a)} >> std::min<uint64_t>(b, 100));
  }
}

class Integers64OnPool : public UnitOfAGeneration {
 protected:
  void pool(const Instruction& i) { run(kPool, i); }
  // Ends of both ranges, and numbers of every length.
  Row numbers(unsigned n) {
    constexpr uint64_t kEdges[] = {0,         1,         2,         kAllOnes,   kAllOnes - 1,
                                   kSign,     kSign - 1, kSign + 1, 0xFFFFFFFF, 0x100000000,
                                   0x80000000};
    Row row(n);
    for (uint64_t& each : row) {
      each =
          random_() % 3 == 0 ? kEdges[random_() % std::size(kEdges)] : random_() >> random_() % 64;
    }
    return row;
  }
  Row filled(const isa::Operand& at, unsigned part) {
    Row row = numbers(static_cast<unsigned>(at.elements()));
    put_raw(at, part, row);
    return row;
  }
  static isa::Scalar immediate(uint32_t bits, unsigned type) {
    return {bits, NEURON_SCALAR_IMMEDIATE, static_cast<uint8_t>(type), 0, 0};
  }

  std::mt19937_64 random_{46};
};

INSTANTIATE_TEST_SUITE_P(Generations, Integers64OnPool, ::testing::Values(3U, 4U));

TEST_P(Integers64OnPool, TensorTensorHasEveryOperationAndWrapsIn64Bits) {
  constexpr unsigned kParts = 3, kN = 400;
  for (const unsigned type : {kI64, kU64}) {
    const isa::Operand a = sbuf(kParts, 0, type, kN), b = sbuf(kParts, 0x2000, type, kN);
    const isa::Operand dst = sbuf(kParts, 0x4000, type, kN);
    std::vector<unsigned> operations(std::begin(kArithmetic), std::end(kArithmetic));
    operations.insert(operations.end(), std::begin(kBits), std::end(kBits));
    for (const unsigned op : operations) {
      std::vector<Row> x, y;
      for (unsigned p = 0; p < kParts; ++p) {
        x.push_back(filled(a, p));
        y.push_back(filled(b, p));
        if (op < NEURON_ALU_SHL || op > NEURON_ALU_SHR_ARITH) continue;
        for (size_t e = 0; e < kN; e += 2) y[p][e] %= 70;  // also beyond the width
        put_raw(b, p, y[p]);
      }
      Instruction i = make(NEURON_OP_TENSOR_TENSOR, dst, a, b);
      i.vector.op0 = static_cast<uint8_t>(op);
      pool(i);
      for (unsigned p = 0; p < kParts; ++p) {
        const Row found = get_raw<uint64_t>(dst, p);
        for (unsigned e = 0; e < kN; ++e) {
          ASSERT_EQ(found[e], reference(op, type, x[p][e], y[p][e]))
              << isa::alu_name(op) << " of " << isa::dtype_name(type) << " " << x[p][e] << " "
              << y[p][e];
        }
      }
    }
  }
}

TEST_P(Integers64OnPool, BitOperationsMixBothTypesOf64Bits) {
  const isa::Operand a = sbuf(1, 0, kI64, 2), b = sbuf(1, 64, kU64, 2), dst = sbuf(1, 128, kU64, 2);
  put_raw(a, 0, Row{kAllOnes, 5});
  put_raw(b, 0, Row{kSign + 1, 6});
  Instruction i = make(NEURON_OP_TENSOR_TENSOR, dst, a, b);
  i.vector.op0 = NEURON_ALU_XOR;
  pool(i);
  EXPECT_EQ(get_raw<uint64_t>(dst, 0), (Row{kSign - 2, 3}));
}

TEST_P(Integers64OnPool, PatternsRepeatAndWalkBackAndALongRowHasManyBlocks) {
  constexpr unsigned kN = 6000;
  isa::Operand backward = sbuf(2, 8 * (kN - 1), kI64, kN);
  backward.step[0] = -1;
  isa::Operand one = sbuf(2, 0x10000, kI64, kN);
  one.step[0] = 0;
  const isa::Operand dst = sbuf(2, 0x18000, kI64, kN);
  std::vector<Row> x;
  for (unsigned p = 0; p < 2; ++p) {
    x.push_back(filled(backward, p));
    put_raw(sbuf(2, 0x10000, kI64, 1), p, Row{kAllOnes - p});  // -1 - p
  }
  Instruction i = make(NEURON_OP_TENSOR_TENSOR, dst, backward, one);
  i.vector.op0 = NEURON_ALU_ADD;
  pool(i);
  for (unsigned p = 0; p < 2; ++p) {
    const Row found = get_raw<uint64_t>(dst, p);
    for (unsigned e = 0; e < kN; ++e) ASSERT_EQ(found[e], x[p][e] - 1 - p) << p << " " << e;
  }
}

TEST_P(Integers64OnPool, AnOverlappingDestinationIsWrittenElementByElement) {
  put_raw(sbuf(1, 0, kU64, 4), 0, Row{1, 2, 3, 4});
  Instruction i = make(NEURON_OP_TENSOR_SCALAR, sbuf(1, 8, kU64, 3), sbuf(1, 0, kU64, 3));
  i.vector.op0 = NEURON_ALU_ADD;
  i.scalar0 = immediate(10, NEURON_DTYPE_U32);
  pool(i);
  EXPECT_EQ(get_raw<uint64_t>(sbuf(1, 0, kU64, 4), 0), (Row{1, 11, 21, 31}));
}

TEST_P(Integers64OnPool, ScalarsAreExtendedByTheirOwnSign) {
  const isa::Operand a = sbuf(2, 0, kI64, 3), dst = sbuf(2, 64, kI64, 3);
  for (unsigned p = 0; p < 2; ++p) put_raw(a, p, Row{100, kAllOnes, kSign});
  const auto result = [&](unsigned op, isa::Scalar scalar, bool reverse = false) {
    Instruction i = make(NEURON_OP_TENSOR_SCALAR, dst, a);
    i.vector.op0 = static_cast<uint8_t>(op);
    i.vector.rev0 = reverse;
    i.scalar0 = scalar;
    pool(i);
    return get_raw<uint64_t>(dst, 1);
  };
  EXPECT_EQ(result(NEURON_ALU_ADD, immediate(0xFFFFFFFF, NEURON_DTYPE_I32)),
            (Row{99, kAllOnes - 1, kSign - 1}));
  EXPECT_EQ(result(NEURON_ALU_ADD, immediate(0xFFFFFFFF, NEURON_DTYPE_U32)),
            (Row{100 + 0xFFFFFFFFull, 0xFFFFFFFEull, kSign + 0xFFFFFFFFull}));
  EXPECT_EQ(result(NEURON_ALU_AND, immediate(0xFFFFFFFE, NEURON_DTYPE_I32)),
            (Row{100, kAllOnes - 1, kSign}));
  EXPECT_EQ(result(NEURON_ALU_SUB, immediate(1, NEURON_DTYPE_I16), true),
            (Row{uint64_t(-99), 2, kSign + 1}));
  EXPECT_EQ(result(NEURON_ALU_GT, immediate(0x80, NEURON_DTYPE_I8)), (Row{1, 1, 0}));
  EXPECT_EQ(result(NEURON_ALU_SHL, immediate(63, NEURON_DTYPE_U8)), (Row{0, kSign, 0}));
  // Behind a pointer each partition has its own, of any integer type.
  put_raw(sbuf(2, 256, kI64, 1), 0, Row{7});
  put_raw(sbuf(2, 256, kI64, 1), 1, Row{kSign});
  EXPECT_EQ(result(NEURON_ALU_ADD, pointer(256, kI64)), (Row{kSign + 100, kSign - 1, 0}));
  EXPECT_EQ(result(NEURON_ALU_MAX, pointer(256, kI64)), (Row{100, kAllOnes, kSign}));
  put_raw(sbuf(2, 264, NEURON_DTYPE_I16, 1), 1, std::vector<uint16_t>{0xFFF0});
  EXPECT_EQ(result(NEURON_ALU_MUL, pointer(264, NEURON_DTYPE_I16)), (Row{uint64_t(-1600), 16, 0}));
}

TEST_P(Integers64OnPool, TensorScalarHasTwoStepsAndNot) {
  const isa::Operand a = sbuf(1, 0, kU64, 2), dst = sbuf(1, 64, kU64, 2);
  put_raw(a, 0, Row{3, uint64_t{1} << 40});
  Instruction i = make(NEURON_OP_TENSOR_SCALAR, dst, a);
  i.vector.op0 = NEURON_ALU_MUL;
  i.vector.op1 = NEURON_ALU_SUB;
  i.vector.rev1 = true;
  i.scalar0 = immediate(1u << 31, NEURON_DTYPE_U32);
  i.scalar1 = immediate(5, NEURON_DTYPE_U32);
  pool(i);
  EXPECT_EQ(get_raw<uint64_t>(dst, 0), (Row{5 - 3 * (uint64_t{1} << 31), 5}));
  i = make(NEURON_OP_TENSOR_SCALAR, dst, a);
  i.vector.op0 = NEURON_ALU_NOT;
  pool(i);
  EXPECT_EQ(get_raw<uint64_t>(dst, 0), (Row{kAllOnes - 3, kAllOnes - (uint64_t{1} << 40)}));
}

TEST_P(Integers64OnPool, TensorReduceStaysInIntegers) {
  constexpr unsigned kParts = 2, kRows = 3, kN = 5000;
  for (const unsigned type : {kI64, kU64}) {
    const isa::Operand a = tile(NEURON_SPACE_SBUF, 0, kParts, 0, type, {kN, kRows});
    const isa::Operand dst = sbuf(kParts, 0x20000, type, kRows);
    std::vector<Row> x;
    for (unsigned p = 0; p < kParts; ++p) x.push_back(filled(a, p));
    for (const unsigned op : {NEURON_ALU_ADD, NEURON_ALU_SUB, NEURON_ALU_MUL, NEURON_ALU_MAX,
                              NEURON_ALU_MIN, NEURON_ALU_AND, NEURON_ALU_OR, NEURON_ALU_XOR}) {
      const bool bits = op >= NEURON_ALU_AND;
      for (const bool negate : {false, true}) {
        if (negate && bits) continue;
        Instruction i = make(NEURON_OP_TENSOR_REDUCE, dst, a);
        i.vector.reduce = static_cast<uint8_t>(op);
        i.vector.axes = 1;
        i.vector.negate = negate;
        pool(i);
        for (unsigned p = 0; p < kParts; ++p) {
          const Row found = get_raw<uint64_t>(dst, p);
          for (unsigned row = 0; row < kRows; ++row) {
            uint64_t total = x[p][row * kN];
            for (unsigned e = 1; e < kN; ++e) {
              total = reference(op, type, total, x[p][row * kN + e]);
            }
            ASSERT_EQ(found[row], negate ? 0 - total : total) << isa::alu_name(op);
          }
        }
      }
    }
  }
}

TEST_P(Integers64OnPool, MemsetExtendsItsImmediateByTheTypeOfTheDestination) {
  Instruction i = make(NEURON_OP_MEMSET, sbuf(128, 0, kI64, 9000));
  i.vector.imm = 0x80000001;
  pool(i);
  for (const unsigned p : {0U, 127U}) {
    EXPECT_EQ(get_raw<uint64_t>(i.dst, p), Row(9000, 0xFFFFFFFF80000001));
  }
  i.dst = sbuf(1, 0, kU64, 3);
  pool(i);
  EXPECT_EQ(get_raw<uint64_t>(sbuf(1, 0, kU64, 4), 0),
            (Row{0x80000001, 0x80000001, 0x80000001, 0xFFFFFFFF80000001}));
}

TEST_P(Integers64OnPool, CopiesBetweenIntegersClampAndLoseNothingElse) {
  struct Range {
    unsigned type;
    Wide lowest, highest;
  };
  const Range ranges[] = {{NEURON_DTYPE_I8, -128, 127},
                          {NEURON_DTYPE_U8, 0, 255},
                          {NEURON_DTYPE_I16, -32768, 32767},
                          {NEURON_DTYPE_U16, 0, 65535},
                          {NEURON_DTYPE_I32, -(Wide{1} << 31), (Wide{1} << 31) - 1},
                          {NEURON_DTYPE_U32, 0, (Wide{1} << 32) - 1},
                          {kI64, -(Wide{1} << 63), (Wide{1} << 63) - 1},
                          {kU64, 0, (Wide{1} << 64) - 1}};
  constexpr unsigned kN = 200;
  const auto read = [&](const isa::Operand& at, const Range& range, unsigned e) {
    const unsigned bytes = isa::dtype_bytes(range.type);
    uint64_t bits = 0;
    std::memcpy(&bits, memory_.sbuf(1) + at.base + e * bytes, bytes);
    const bool negative = range.lowest < 0 && (bits >> (8 * bytes - 1) & 1) != 0;
    return Wide{bits} - (negative ? Wide{1} << 8 * bytes : 0);
  };
  for (const Range& from : ranges) {
    for (const Range& to : ranges) {
      if (isa::dtype_bytes(from.type) < 8 && isa::dtype_bytes(to.type) < 8) continue;
      const isa::Operand a = sbuf(2, 0, from.type, kN), dst = sbuf(2, 0x1000, to.type, kN);
      for (unsigned p = 0; p < 2; ++p) {
        const Row bytes = numbers(kN);
        std::memcpy(memory_.sbuf(p), bytes.data(), kN * 8);
      }
      pool(make(NEURON_OP_TENSOR_COPY, dst, a));
      for (unsigned e = 0; e < kN; ++e) {
        const Wide exact = read(a, from, e);
        ASSERT_EQ(read(dst, to, e), std::clamp(exact, to.lowest, to.highest))
            << isa::dtype_name(from.type) << " to " << isa::dtype_name(to.type) << ", " << e;
      }
    }
  }
}

TEST_P(Integers64OnPool, CopiesToAndFromFloatsGoThroughFp32Once) {
  const isa::Operand integers = sbuf(1, 0, kI64, 6), floats = sbuf(1, 64, NEURON_DTYPE_F32, 6);
  put_raw(integers, 0,
          Row{uint64_t(-5), (1u << 24) + 1, (1u << 24) + 3, kSign, kSign - 1, 1000000007});
  pool(make(NEURON_OP_TENSOR_COPY, floats, integers));
  EXPECT_EQ(get(floats, 0),
            (std::vector<float>{-5, 0x1p24F, 0x1p24F + 4, -0x1p63F, 0x1p63F, 1000000000.0F}));
  put(floats, 0, {2.5F, -1.5F, NAN, INFINITY, -1e30F, 0x1p40F});
  pool(make(NEURON_OP_TENSOR_COPY, integers, floats));
  EXPECT_EQ(get_raw<uint64_t>(integers, 0),
            (Row{2, uint64_t(-2), 0, kSign - 1, kSign, uint64_t{1} << 40}));
  const isa::Operand naturals = sbuf(1, 128, kU64, 6);
  pool(make(NEURON_OP_TENSOR_COPY, naturals, floats));
  EXPECT_EQ(get_raw<uint64_t>(naturals, 0), (Row{2, 0, 0, kAllOnes, 0, uint64_t{1} << 40}));
  // Two roundings into a narrower float: as for 32-bit integers.
  const isa::Operand halves = sbuf(1, 192, NEURON_DTYPE_BF16, 6);
  put_raw(integers, 0, Row{257, 300, uint64_t(-3), 0x7F80, kAllOnes, 0});
  pool(make(NEURON_OP_TENSOR_COPY, halves, integers));
  EXPECT_EQ(get(halves, 0), (std::vector<float>{256, 300, -3, 0x7F80, -1, 0}));
}

TEST_P(Integers64OnPool, IotaCountsIn64Bits) {
  Instruction i = make(NEURON_OP_IOTA, sbuf(4, 0, kI64, 6));
  i.pattern = {{1 << 30, -7, 0, 0}, {3, 2, 0, 0}};
  i.scalar0 = immediate(0xFFFFFFFE, NEURON_DTYPE_I32);
  i.vector.imm = 0x7FFFFFFF;
  pool(i);
  const auto expected = [](int64_t offset, int64_t p, int64_t e) {
    return static_cast<uint64_t>(offset + p * 0x7FFFFFFF + e % 3 * (int64_t{1} << 30) - e / 3 * 7);
  };
  for (unsigned p = 0; p < 4; ++p) {
    const Row found = get_raw<uint64_t>(i.dst, p);
    for (unsigned e = 0; e < 6; ++e) EXPECT_EQ(found[e], expected(-2, p, e)) << p << " " << e;
  }
  for (unsigned p = 0; p < 4; ++p) put_raw(sbuf(4, 64, kI64, 1), p, Row{uint64_t(p) << 40});
  i.scalar0 = pointer(64, kI64);
  pool(i);
  for (unsigned p = 0; p < 4; ++p) {
    EXPECT_EQ(get_raw<uint64_t>(i.dst, p)[5], expected(int64_t{p} << 40, p, 5));
  }
  i.scalar0 = real(2.5F);  // rounded, as for all other types
  i.dst.dtype = kU64;
  i.vector.imm = 0xFFFFFFFF;  // -1
  pool(i);
  EXPECT_EQ(get_raw<uint64_t>(i.dst, 3)[0], kAllOnes);
}

TEST_P(Integers64OnPool, AffineSelectKeepsElementsAndHasAnIntegerAsTheOther) {
  const isa::Operand a = sbuf(2, 0, kI64, 4), dst = sbuf(2, 64, kI64, 4);
  for (unsigned p = 0; p < 2; ++p) put_raw(a, p, Row{kSign, 2, kAllOnes, uint64_t{1} << 50});
  Instruction i = make(NEURON_OP_AFFINE_SELECT, dst, a);
  i.pattern = {{1, 0, 0, 0}, {4, 0, 0, 0}};
  i.vector.op0 = NEURON_ALU_GE;
  i.vector.imm = 1;
  i.scalar0 = immediate(0x80000000, NEURON_DTYPE_I32);
  i.scalar1 = immediate(0xFFFFFFFE, NEURON_DTYPE_I32);  // from element 2 - p on
  pool(i);
  constexpr uint64_t kOther = 0xFFFFFFFF80000000;
  EXPECT_EQ(get_raw<uint64_t>(dst, 0), (Row{kOther, kOther, kAllOnes, uint64_t{1} << 50}));
  EXPECT_EQ(get_raw<uint64_t>(dst, 1), (Row{kOther, 2, kAllOnes, uint64_t{1} << 50}));
  put_raw(sbuf(2, 128, kI64, 1), 0, Row{kSign + 3});
  i.scalar0 = pointer(128, kI64);
  pool(i);
  EXPECT_EQ(get_raw<uint64_t>(dst, 0)[1], kSign + 3);
}

TEST_P(Integers64OnPool, PartitionReduceAddsAndComparesAndCombinesBits) {
  constexpr unsigned kParts = 100, kN = 5000;
  for (const unsigned type : {kI64, kU64}) {
    const isa::Operand a = sbuf(kParts, 0, type, kN), dst = sbuf(1, 0x10000, type, kN);
    std::vector<Row> x;
    for (unsigned p = 0; p < kParts; ++p) x.push_back(filled(a, p));
    for (const unsigned op : {NEURON_ALU_ADD, NEURON_ALU_MAX, NEURON_ALU_AND, NEURON_ALU_OR}) {
      Instruction i = make(NEURON_OP_PARTITION_REDUCE, dst, a);
      i.vector.op0 = static_cast<uint8_t>(op);
      pool(i);
      const Row found = get_raw<uint64_t>(dst, 0);
      for (unsigned e = 0; e < kN; ++e) {
        uint64_t total = x[0][e];
        for (unsigned p = 1; p < kParts; ++p) total = reference(op, type, total, x[p][e]);
        ASSERT_EQ(found[e], total) << isa::alu_name(op) << " " << e;
      }
    }
  }
}

TEST_P(Integers64OnPool, GathersMoveEightBytesAnElement) {
  const isa::Operand a = sbuf(16, 0, kU64, 50);
  std::vector<Row> x;
  for (unsigned p = 0; p < 16; ++p) x.push_back(filled(a, p));
  const isa::Operand index = sbuf(16, 0x1000, NEURON_DTYPE_U32, 3), dst = sbuf(16, 0x2000, kU64, 3);
  for (unsigned p = 0; p < 16; ++p) put_raw(index, p, std::vector<uint32_t>{49, p, 0});
  pool(make(NEURON_OP_N_GATHER, dst, a, index));
  for (unsigned p = 0; p < 16; ++p) {
    EXPECT_EQ(get_raw<uint64_t>(dst, p), (Row{x[p][49], x[p][p], x[p][0]}));
  }
  const isa::Operand places = sbuf(16, 0x1000, NEURON_DTYPE_U16, 1),
                     run = sbuf(16, 0x2000, kU64, 4);
  for (unsigned p = 0; p < 16; ++p) {
    put_raw(places, p, std::vector<uint16_t>{static_cast<uint16_t>(p == 0 ? 7 : 40)});
  }
  Instruction i = make(NEURON_OP_LOCAL_GATHER, run, a, places);
  i.pool.elements = 1;
  i.pool.count = 2;
  pool(i);
  EXPECT_EQ(get_raw<uint64_t>(run, 5), (Row{x[5][7], x[5][8], x[5][40], x[5][41]}));
}

TEST_P(Integers64OnPool, IndirectOperandsGatherAndScatterInGeneration4) {
  isa::Operand a = sbuf(16, 0, kI64, 16), dst = sbuf(16, 0x1000, kI64, 16);
  std::vector<Row> x;
  for (unsigned p = 0; p < 16; ++p) {
    x.push_back(filled(sbuf(16, 0, kI64, 64), p));
    put_raw(sbuf(16, 0x3000, NEURON_DTYPE_U16, 1), p,
            std::vector<uint16_t>{static_cast<uint16_t>(63 - p)});
    put_raw(sbuf(16, 0x4000, NEURON_DTYPE_U16, 1), p,
            std::vector<uint16_t>{static_cast<uint16_t>(2 * p)});
  }
  a.set_index({0x3000, 0, NEURON_DTYPE_U16});
  dst.set_index({0x4000, 0, NEURON_DTYPE_U16});
  Instruction i = make(NEURON_OP_TENSOR_SCALAR, dst, a);
  i.vector.op0 = NEURON_ALU_ADD;
  i.scalar0 = immediate(1, NEURON_DTYPE_U32);
  if (GetParam() < 4) {
    EXPECT_TRUE(attempt(kPool, i));
    return;
  }
  pool(i);
  for (unsigned p = 0; p < 16; ++p) {
    const Row found = get_raw<uint64_t>(sbuf(16, 0x1000, kI64, 32), p);
    for (unsigned e = 0; e < 16; ++e) EXPECT_EQ(found[2 * e], x[p][63 - e] + 1) << p << " " << e;
  }
}

TEST_P(Integers64OnPool, OtherEnginesAndGeneration2RefuseThem) {
  Instruction i = make(NEURON_OP_TENSOR_COPY, sbuf(1, 0, kI64, 2), sbuf(1, 64, kI64, 2));
  for (const unsigned engine : {NEURON_ENGINE_DVE, NEURON_ENGINE_ACTIVATION}) {
    EXPECT_EQ(attempt(engine, i).code, NEURON_FAULT_OPERAND_DTYPE);
    EXPECT_THAT(refusal_, ::testing::HasSubstr("only Pool computes on i64 and u64, from generation "
                                               "3 on; found i64"));
  }
  EXPECT_FALSE(attempt(kPool, i));
  limits_ = isa::limits_of(2);
  EXPECT_EQ(attempt(kPool, i).code, NEURON_FAULT_OPERAND_DTYPE);
}

}  // namespace
}  // namespace neuron::core
