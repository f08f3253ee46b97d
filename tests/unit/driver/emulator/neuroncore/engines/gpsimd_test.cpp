// SPDX-License-Identifier: Apache-2.0
// Instructions that only Pool has, against their documented semantics in plain loops.
#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "driver/emulator/neuroncore/engines/gpsimd_custom.h"
#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

constexpr uint32_t kGpsimdIn = 0x1000, kGpsimdOut = 0x4000, kIndex = 0x8000;

class Gpsimd : public EveryGeneration {
 protected:
  template <class T>
  void put(unsigned partition, uint32_t at, const std::vector<T>& values) {
    ASSERT_TRUE(
        chip_->bus().write(sbuf_address(partition, at), std::as_bytes(std::span(values)), {}));
  }
  template <class T>
  std::vector<T> get_row(unsigned partition, uint32_t at, size_t n) {
    std::vector<T> values(n);
    EXPECT_TRUE(chip_->bus().read(sbuf_address(partition, at),
                                  std::as_writable_bytes(std::span(values)), {}));
    return values;
  }
  void execute(const Instruction& i) {
    load_and_run(kPool, {i, inst(NEURON_OP_HALT)});
    ASSERT_EQ(fault(kPool), NEURON_FAULT_NONE) << chip_->describe_core(0);
    ASSERT_EQ(state(kPool), NEURON_STATE_HALTED) << chip_->describe_core(0);
  }
  unsigned faulted(const Instruction& i) {
    load(kPool, {i, inst(NEURON_OP_HALT)});
    EXPECT_EQ(run(), chip::RunResult::kQuiescent);
    return fault(kPool);
  }
  static Instruction pool(unsigned opcode, isa::Operand dst, isa::Operand a, isa::Operand b = {}) {
    Instruction i = inst(opcode);
    i.dst = dst;
    i.src0 = a;
    i.src1 = b;
    return i;
  }
  std::mt19937 random_{11};
};

float from_bf16(uint16_t bits) {
  const uint32_t word = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}
uint16_t to_bf16(float value) {  // of values that bf16 holds
  uint32_t word;
  std::memcpy(&word, &value, 4);
  return static_cast<uint16_t>(word >> 16);
}

// --- iota, affine_select ---

int32_t affine(const isa::Pattern& pattern, int64_t offset, int64_t partition, int64_t multiplier,
               uint64_t element) {
  int64_t value = offset + partition * multiplier;
  for (int d = 0; d < 4; ++d) {
    const uint64_t size = pattern.size[d] == 0 ? 1 : pattern.size[d];
    value += static_cast<int64_t>(element % size) * pattern.step[d];
    element /= size;
  }
  return static_cast<int32_t>(value);
}

INSTANTIATE_TEST_SUITE_P(Generations, Gpsimd, kGenerations);

TEST_P(Gpsimd, IotaCountsInEveryTypeThatHoldsTheNumbers) {
  const isa::Pattern pattern{{1, -5, 7, 0}, {3, 2, 2, 0}};
  const auto expect = [&](unsigned p, unsigned e) { return affine(pattern, 20, p, 3, e); };
  for (const unsigned dtype :
       {NEURON_DTYPE_I8, NEURON_DTYPE_U8, NEURON_DTYPE_I16, NEURON_DTYPE_U16, NEURON_DTYPE_I32,
        NEURON_DTYPE_U32, NEURON_DTYPE_BF16, NEURON_DTYPE_F16, NEURON_DTYPE_F32, NEURON_DTYPE_F32R,
        NEURON_DTYPE_TF32}) {
    Instruction i = inst(NEURON_OP_IOTA);
    i.dst = sbuf(8, kGpsimdOut, dtype, 12);
    i.pattern = pattern;
    i.scalar0 = number(20);
    i.vector.imm = 3;
    execute(i);
    for (unsigned p = 0; p < 8; ++p) {
      for (unsigned e = 0; e < 12; ++e) {
        const uint32_t at = kGpsimdOut + e * isa::dtype_bytes(dtype);
        double found = 0;
        switch (dtype) {
          case NEURON_DTYPE_I8:
            found = get_row<int8_t>(p, at, 1)[0];
            break;
          case NEURON_DTYPE_U8:
            found = get_row<uint8_t>(p, at, 1)[0];
            break;
          case NEURON_DTYPE_I16:
          case NEURON_DTYPE_U16:
            found = get_row<uint16_t>(p, at, 1)[0];
            break;
          case NEURON_DTYPE_I32:
          case NEURON_DTYPE_U32:
            found = get_row<int32_t>(p, at, 1)[0];
            break;
          case NEURON_DTYPE_BF16:
            found = from_bf16(get_row<uint16_t>(p, at, 1)[0]);
            break;
          case NEURON_DTYPE_F16: {
            const uint16_t bits = get_row<uint16_t>(p, at, 1)[0];
            found = std::ldexp(1024 + (bits & 1023), (bits >> 10) - 25);
            break;
          }
          default:
            found = get_row<float>(p, at, 1)[0];
            break;
        }
        ASSERT_EQ(found, expect(p, e)) << isa::dtype_name(dtype) << " " << p << " " << e;
      }
    }
  }
}

TEST_P(Gpsimd, IotaWrapsIn32BitsAndRoundsIntoF8) {
  Instruction i = inst(NEURON_OP_IOTA);
  i.dst = sbuf(1, kGpsimdOut, NEURON_DTYPE_I32, 2);
  i.pattern = {{1, 0, 0, 0}, {2, 0, 0, 0}};
  i.scalar0 = number(0x7FFFFFFF);
  execute(i);
  EXPECT_EQ(get_row<int32_t>(0, kGpsimdOut, 2), (std::vector<int32_t>{0x7FFFFFFF, INT32_MIN}));
  i.dst = sbuf(1, kGpsimdOut, NEURON_DTYPE_F8E4, 2);
  i.scalar0 = number(16);  // 17 lies between 16 and 18: to even
  execute(i);
  EXPECT_EQ(get_row<uint8_t>(0, kGpsimdOut, 2), (std::vector<uint8_t>{0x58, 0x58}));
}

TEST_P(Gpsimd, AffineSelectKeepsWhereTheComparisonHoldsAndElseWritesTheConstant) {
  const isa::Pattern pattern{{-1, 0, 0, 0}, {10, 0, 0, 0}};
  struct Op {
    unsigned op;
    bool (*holds)(int32_t);
  };
  const Op ops[] = {{NEURON_ALU_EQ, [](int32_t v) { return v == 0; }},
                    {NEURON_ALU_NE, [](int32_t v) { return v != 0; }},
                    {NEURON_ALU_GT, [](int32_t v) { return v > 0; }},
                    {NEURON_ALU_GE, [](int32_t v) { return v >= 0; }}};
  for (unsigned p = 0; p < 10; ++p) {
    std::vector<float> row(10);
    for (unsigned e = 0; e < 10; ++e) row[e] = static_cast<float>(p * 10 + e + 1);
    put(p, kGpsimdIn, row);
  }
  for (const Op& op : ops) {
    Instruction i = pool(NEURON_OP_AFFINE_SELECT, sbuf(10, kGpsimdOut, NEURON_DTYPE_F32, 10),
                         sbuf(10, kGpsimdIn, NEURON_DTYPE_F32, 10));
    i.pattern = pattern;
    i.scalar0 = real(-9984.0f);
    i.scalar1 = number(2);
    i.vector.imm = 1;
    i.vector.op0 = static_cast<uint8_t>(op.op);
    execute(i);
    for (unsigned p = 0; p < 10; ++p) {
      const auto row = get_row<float>(p, kGpsimdOut, 10);
      for (unsigned e = 0; e < 10; ++e) {
        const bool kept = op.holds(affine(pattern, 2, p, 1, e));
        ASSERT_EQ(row[e], kept ? static_cast<float>(p * 10 + e + 1) : -9984.0f);
      }
    }
  }
}

TEST_P(Gpsimd, AffineSelectConvertsBetweenTypesAndKeepsTheBitsOfEqualOnes) {
  Instruction i = pool(NEURON_OP_AFFINE_SELECT, sbuf(1, kGpsimdOut, NEURON_DTYPE_I32, 2),
                       sbuf(1, kGpsimdIn, NEURON_DTYPE_I32, 2));
  i.pattern = {{1, 0, 0, 0}, {2, 0, 0, 0}};
  i.scalar0 = real(2.5f);
  i.vector.op0 = NEURON_ALU_EQ;
  put<int32_t>(0, kGpsimdIn, {16777217, 5});  // does not fit fp32
  execute(i);
  EXPECT_EQ(get_row<int32_t>(0, kGpsimdOut, 2), (std::vector<int32_t>{16777217, 2}));
  i.dst = sbuf(1, kGpsimdOut, NEURON_DTYPE_BF16, 2);
  put<int32_t>(0, kGpsimdIn, {257, 5});
  execute(i);
  EXPECT_EQ(get_row<uint16_t>(0, kGpsimdOut, 2),
            (std::vector<uint16_t>{to_bf16(256), to_bf16(2.5f)}));
}

TEST_P(Gpsimd, AffineSelectConvertsBetweenExponentBiases) {
  Instruction i = pool(NEURON_OP_AFFINE_SELECT, sbuf(1, kGpsimdOut, NEURON_DTYPE_F8E4, 2),
                       sbuf(1, kGpsimdIn, NEURON_DTYPE_F8E4, 2));
  i.dst.bias = 8;
  i.pattern = {{0, 0, 0, 0}, {2, 0, 0, 0}};
  i.scalar0 = real(0.0f);
  i.vector.op0 = NEURON_ALU_EQ;
  put<uint8_t>(0, kGpsimdIn, {0x38, 0x40});  // 1 and 2
  execute(i);
  EXPECT_EQ(get_row<uint8_t>(0, kGpsimdOut, 2), (std::vector<uint8_t>{0x40, 0x48}));
}

// --- partition_reduce ---

TEST_P(Gpsimd, PartitionReduceIntoItsOwnSourceReadsWhatItHasWritten) {
  put<float>(0, kGpsimdIn, {1, 0, 0, 0, 0});
  put<float>(1, kGpsimdIn, {1, 2, 3, 4, 0});
  Instruction i = pool(NEURON_OP_PARTITION_REDUCE, sbuf(1, kGpsimdIn + 4, NEURON_DTYPE_F32, 4),
                       sbuf(2, kGpsimdIn, NEURON_DTYPE_F32, 4));
  i.vector.op0 = NEURON_ALU_ADD;
  execute(i);
  EXPECT_EQ(get_row<float>(0, kGpsimdIn, 5), (std::vector<float>{1, 2, 4, 7, 11}));
}

TEST_P(Gpsimd, PartitionReduceAddsAveragesAndFindsTheLargestOfAllPartitions) {
  std::vector<float> sum(6, 0), largest(6, -HUGE_VALF);
  for (unsigned p = 0; p < 100; ++p) {
    std::vector<float> row(6);
    for (unsigned e = 0; e < 6; ++e) {
      row[e] = (static_cast<float>(random_() % 1000) - 500) / 16;
      sum[e] += row[e];
      largest[e] = std::max(largest[e], row[e]);
    }
    put(p, kGpsimdIn, row);
  }
  Instruction i = pool(NEURON_OP_PARTITION_REDUCE, sbuf(1, kGpsimdOut, NEURON_DTYPE_F32, 6),
                       sbuf(100, kGpsimdIn, NEURON_DTYPE_F32, 6));
  i.vector.op0 = NEURON_ALU_ADD;
  execute(i);
  EXPECT_EQ(get_row<float>(0, kGpsimdOut, 6), sum);
  i.vector.op0 = NEURON_ALU_MAX;
  execute(i);
  EXPECT_EQ(get_row<float>(0, kGpsimdOut, 6), largest);
  i.vector.op0 = NEURON_ALU_AVERAGE;
  execute(i);
  for (unsigned e = 0; e < 6; ++e) EXPECT_EQ(get_row<float>(0, kGpsimdOut, 6)[e], sum[e] / 100.0f);
}

TEST_P(Gpsimd, PartitionReduceIsExactForIntegersAndWorksOnBits) {
  std::vector<uint32_t> all_and(3, ~0u), all_or(3, 0), sum(3, 0);
  std::vector<int32_t> largest(3, INT32_MIN);
  for (unsigned p = 0; p < 32; ++p) {
    std::vector<uint32_t> row(3);
    for (unsigned e = 0; e < 3; ++e) {
      row[e] = random_() | 0x1000;
      all_and[e] &= row[e];
      all_or[e] |= row[e];
      sum[e] += row[e];
      largest[e] = std::max(largest[e], static_cast<int32_t>(row[e]));
    }
    put(p, kGpsimdIn, row);
  }
  Instruction i = pool(NEURON_OP_PARTITION_REDUCE, sbuf(1, kGpsimdOut, NEURON_DTYPE_I32, 3),
                       sbuf(32, kGpsimdIn, NEURON_DTYPE_I32, 3));
  i.vector.op0 = NEURON_ALU_AND;
  execute(i);
  EXPECT_EQ(get_row<uint32_t>(0, kGpsimdOut, 3), all_and);
  i.vector.op0 = NEURON_ALU_OR;
  execute(i);
  EXPECT_EQ(get_row<uint32_t>(0, kGpsimdOut, 3), all_or);
  i.vector.op0 = NEURON_ALU_ADD;
  execute(i);
  EXPECT_EQ(get_row<uint32_t>(0, kGpsimdOut, 3), sum);
  i.vector.op0 = NEURON_ALU_MAX;
  execute(i);
  EXPECT_EQ(get_row<int32_t>(0, kGpsimdOut, 3), largest);
}

// --- gathers ---

TEST_P(Gpsimd, LocalGatherFlattensTheIndicesOf16PartitionsColumnByColumn) {
  constexpr unsigned kParts = 32, kColumns = 5, kValid = 70, kWidth = 40;
  for (const unsigned log2 : {0u, 2u}) {
    const unsigned run = 1u << log2;
    std::vector<std::vector<uint16_t>> index(kParts, std::vector<uint16_t>(kColumns));
    for (unsigned p = 0; p < kParts; ++p) {
      std::vector<uint16_t> row(kWidth);
      for (unsigned e = 0; e < kWidth; ++e) row[e] = static_cast<uint16_t>(p * 1000 + e);
      put(p, kGpsimdIn, row);
      for (auto& value : index[p]) {
        value = static_cast<uint16_t>(random_() % (kWidth / run) * run);
      }
      put(p, kIndex, index[p]);
    }
    // Beyond the valid ones nothing is looked at.
    put<uint16_t>(kValid % 16, kIndex + 2 * (kValid / 16), {0xFFFF});
    Instruction i = pool(NEURON_OP_LOCAL_GATHER,
                         sbuf(kParts, kGpsimdOut, NEURON_DTYPE_U16, static_cast<int>(kValid * run)),
                         sbuf(kParts, kGpsimdIn, NEURON_DTYPE_U16, kWidth),
                         sbuf(kParts, kIndex, NEURON_DTYPE_U16, kColumns));
    i.pool = {static_cast<uint8_t>(log2), kValid};
    execute(i);
    for (unsigned p = 0; p < kParts; ++p) {
      const auto row = get_row<uint16_t>(p, kGpsimdOut, kValid * run);
      for (unsigned n = 0; n < kValid; ++n) {
        const uint16_t first = index[p / 16 * 16 + n % 16][n / 16];
        for (unsigned r = 0; r < run; ++r) ASSERT_EQ(row[n * run + r], p * 1000 + first + r);
      }
    }
  }
}

TEST_P(Gpsimd, LocalGatherFaultsWithTheIndexThatIsOutOfBoundsAndWritesNothing) {
  for (unsigned p = 0; p < 32; ++p) {
    put(p, kGpsimdIn, std::vector<uint16_t>(8, 1));
    put<uint16_t>(p, kIndex, {0, static_cast<uint16_t>(p == 20 ? 5 : 4)});
    put(p, kGpsimdOut, std::vector<uint16_t>(128, 9));
  }
  Instruction i =
      pool(NEURON_OP_LOCAL_GATHER, sbuf(32, kGpsimdOut, NEURON_DTYPE_U16, 128),
           sbuf(32, kGpsimdIn, NEURON_DTYPE_U16, 8), sbuf(32, kIndex, NEURON_DTYPE_U16, 2));
  i.pool = {2, 32};  // 4 elements from 5 on are one too many
  EXPECT_EQ(faulted(i), NEURON_FAULT_INDEX_OOB);
  EXPECT_EQ(get(kPool, NEURON_ENG_EXC_INFO), 5u);
  EXPECT_EQ(get(kPool, NEURON_ENG_EXC_ADDR_LO), 20u << 20 | (kIndex + 2));
  EXPECT_EQ(get_row<uint16_t>(0, kGpsimdOut, 1)[0], 9);
}

TEST_P(Gpsimd, NGatherPicksElementsOfItsOwnPartition) {
  for (unsigned p = 0; p < 128; ++p) {
    std::vector<float> row(50);
    std::vector<uint32_t> index(30);
    for (unsigned e = 0; e < 50; ++e) row[e] = static_cast<float>(p * 50 + e);
    for (auto& value : index) value = random_() % 50;
    put(p, kGpsimdIn, row);
    put(p, kIndex, index);
  }
  execute(pool(NEURON_OP_N_GATHER, sbuf(128, kGpsimdOut, NEURON_DTYPE_F32, 30),
               sbuf(128, kGpsimdIn, NEURON_DTYPE_F32, 50),
               sbuf(128, kIndex, NEURON_DTYPE_U32, 30)));
  for (unsigned p = 0; p < 128; ++p) {
    const auto index = get_row<uint32_t>(p, kIndex, 30);
    const auto row = get_row<float>(p, kGpsimdOut, 30);
    for (unsigned e = 0; e < 30; ++e) {
      ASSERT_EQ(row[e], static_cast<float>(p * 50 + index[e]));
    }
  }
}

TEST_P(Gpsimd, NGatherTakesIndicesThatItOverwritesAsTheyWere) {
  std::vector<std::vector<uint32_t>> indices(64, std::vector<uint32_t>(30));
  for (unsigned p = 0; p < 64; ++p) {
    std::vector<float> row(50);
    for (unsigned e = 0; e < 50; ++e) row[e] = static_cast<float>(p * 50 + e);
    for (auto& value : indices[p]) value = random_() % 50;
    put(p, kGpsimdIn, row);
    put(p, kIndex, indices[p]);
  }
  execute(pool(NEURON_OP_N_GATHER, sbuf(64, kIndex, NEURON_DTYPE_F32, 30),
               sbuf(64, kGpsimdIn, NEURON_DTYPE_F32, 50), sbuf(64, kIndex, NEURON_DTYPE_U32, 30)));
  for (unsigned p = 0; p < 64; ++p) {
    const auto row = get_row<float>(p, kIndex, 30);
    for (unsigned e = 0; e < 30; ++e) {
      ASSERT_EQ(row[e], static_cast<float>(p * 50 + indices[p][e])) << "partition " << p;
    }
  }
}

TEST_P(Gpsimd, NGatherFaultsWithTheIndexFoundAndItsPlace) {
  put(0, kGpsimdIn, std::vector<float>(50, 1));
  put<uint32_t>(0, kIndex, {3, 50});
  EXPECT_EQ(
      faulted(pool(NEURON_OP_N_GATHER, sbuf(1, kGpsimdOut, NEURON_DTYPE_F32, 2),
                   sbuf(1, kGpsimdIn, NEURON_DTYPE_F32, 50), sbuf(1, kIndex, NEURON_DTYPE_U32, 2))),
      NEURON_FAULT_INDEX_OOB);
  EXPECT_EQ(get(kPool, NEURON_ENG_EXC_INFO), 50u);
  EXPECT_EQ(get(kPool, NEURON_ENG_EXC_ADDR_LO), kIndex + 4);
}

TEST_P(Gpsimd, SequenceBoundsGivesEachElementTheStartAndEndOfItsSegment) {
  const std::vector<int32_t> segments = {0, 1, 1, 2, 2, 2, 0, 3, 3, 1};
  const std::vector<int32_t> starts = {10, 1, 1, 3, 3, 3, 10, 7, 7, 9};
  const std::vector<int32_t> ends = {-1, 3, 3, 6, 6, 6, -1, 9, 9, 10};
  put(0, kGpsimdIn, segments);
  execute(pool(NEURON_OP_SEQUENCE_BOUNDS,
               tile(NEURON_SPACE_SBUF, 0, 1, kGpsimdOut, NEURON_DTYPE_I32, {10, 2}),
               sbuf(1, kGpsimdIn, NEURON_DTYPE_I32, 10)));
  EXPECT_EQ(get_row<int32_t>(0, kGpsimdOut, 10), starts);
  EXPECT_EQ(get_row<int32_t>(0, kGpsimdOut + 40, 10), ends);
  put(0, kGpsimdIn, std::vector<float>(segments.begin(), segments.end()));
  execute(pool(NEURON_OP_SEQUENCE_BOUNDS,
               tile(NEURON_SPACE_SBUF, 0, 1, kGpsimdOut, NEURON_DTYPE_F32, {10, 2}),
               sbuf(1, kGpsimdIn, NEURON_DTYPE_F32, 10)));
  EXPECT_EQ(get_row<float>(0, kGpsimdOut, 10), std::vector<float>(starts.begin(), starts.end()));
  EXPECT_EQ(get_row<float>(0, kGpsimdOut + 40, 10), std::vector<float>(ends.begin(), ends.end()));
}

TEST_P(Gpsimd, SequenceBoundsStartsASegmentWhereANumberComesAgainAndAtEveryNan) {
  const float nan = std::nanf("");
  put<float>(0, kGpsimdIn, {5, -0.0f, 5, 5, nan, nan});
  execute(pool(NEURON_OP_SEQUENCE_BOUNDS,
               tile(NEURON_SPACE_SBUF, 0, 1, kGpsimdOut, NEURON_DTYPE_I32, {6, 2}),
               sbuf(1, kGpsimdIn, NEURON_DTYPE_F32, 6)));
  EXPECT_EQ(get_row<int32_t>(0, kGpsimdOut, 6), (std::vector<int32_t>{0, 6, 2, 2, 4, 5}));
  EXPECT_EQ(get_row<int32_t>(0, kGpsimdOut + 24, 6), (std::vector<int32_t>{1, -1, 4, 4, 5, 6}));
}

// --- topk ---

TEST_P(Gpsimd, TopkFindsTheLargestOfASequenceAcross16PartitionsAscending) {
  constexpr unsigned kN = 1003, kK = 37;
  constexpr int kColumns = 63, kResults = 3;
  for (const unsigned places_type : {NEURON_DTYPE_U16, NEURON_DTYPE_U32}) {
    std::vector<std::vector<float>> sequence(2);
    for (unsigned group = 0; group < 2; ++group) {
      for (unsigned p = 0; p < 16; ++p) {
        std::vector<uint16_t> row;
        for (int c = 0; c < kColumns; ++c) {
          row.push_back(to_bf16(static_cast<float>(static_cast<int>(random_() % 400) - 200)));
        }
        put(group * 16 + p, kGpsimdIn, row);
      }
      for (unsigned j = 0; j < kN; ++j) {
        sequence[group].push_back(
            from_bf16(get_row<uint16_t>(group * 16 + j % 16, kGpsimdIn + 2 * (j / 16), 1)[0]));
      }
    }
    Instruction i = pool(NEURON_OP_TOPK, sbuf(32, kGpsimdOut, NEURON_DTYPE_BF16, kResults),
                         sbuf(32, kGpsimdIn, NEURON_DTYPE_BF16, kColumns),
                         sbuf(32, kIndex, places_type, kResults));
    i.pool.count = kK;
    i.vector.imm = kN;
    execute(i);
    for (unsigned group = 0; group < 2; ++group) {
      const std::vector<float>& all = sequence[group];
      std::vector<float> sorted = all;
      std::sort(sorted.begin(), sorted.end());
      std::set<uint32_t> seen;
      for (unsigned j = 0; j < kK; ++j) {
        const unsigned partition = group * 16 + j % 16;
        const float value =
            from_bf16(get_row<uint16_t>(partition, kGpsimdOut + 2 * (j / 16), 1)[0]);
        ASSERT_EQ(value, sorted[kN - kK + j]);
        const uint32_t place = places_type == NEURON_DTYPE_U16
                                   ? get_row<uint16_t>(partition, kIndex + 2 * (j / 16), 1)[0]
                                   : get_row<uint32_t>(partition, kIndex + 4 * (j / 16), 1)[0];
        ASSERT_LT(place, kN);
        ASSERT_EQ(all[place], value);
        ASSERT_TRUE(seen.insert(place).second);
      }
    }
  }
}

TEST_P(Gpsimd, TopkPrefersTheFirstOfEqualsAndPutsNanOnTop) {
  for (unsigned p = 0; p < 16; ++p) {
    put<uint16_t>(p, kGpsimdIn, {to_bf16(p == 3 ? 2.0f : 1.0f)});
    put<uint16_t>(p, kGpsimdOut, {0x1234});
  }
  put<uint16_t>(9, kGpsimdIn, {0x7FC0});
  Instruction i =
      pool(NEURON_OP_TOPK, sbuf(16, kGpsimdOut, NEURON_DTYPE_BF16, 1),
           sbuf(16, kGpsimdIn, NEURON_DTYPE_BF16, 1), sbuf(16, kIndex, NEURON_DTYPE_U16, 1));
  i.pool.count = 4;
  i.vector.imm = 16;
  execute(i);
  const uint16_t places[] = {1, 0, 3, 9};  // 1.0 at 1, 1.0 at 0, 2.0, NaN
  for (unsigned j = 0; j < 4; ++j) EXPECT_EQ(get_row<uint16_t>(j, kIndex, 1)[0], places[j]);
  EXPECT_EQ(get_row<uint16_t>(3, kGpsimdOut, 1)[0], 0x7FC0);
  EXPECT_EQ(get_row<uint16_t>(4, kGpsimdOut, 1)[0], 0x1234);  // what K leaves stays
}

// --- custom operators ---

TEST_P(Gpsimd, CustomOperatorsDoWhatTheirRegistrySays) {
  for (unsigned p = 0; p < 3; ++p) {
    put<float>(p, kGpsimdIn, {3.5f, -1, 2, static_cast<float>(p), 2});
  }
  Instruction i = pool(NEURON_OP_CUSTOM, sbuf(3, kGpsimdOut, NEURON_DTYPE_F32, 5),
                       sbuf(3, kGpsimdIn, NEURON_DTYPE_F32, 5));
  i.vector.imm = 1;
  execute(i);
  for (unsigned p = 0; p < 3; ++p) {
    EXPECT_EQ(get_row<float>(p, kGpsimdOut, 5), (std::vector<float>{10.5f, -3, 6, 3, 6}));
  }
  i.vector.imm = 2;
  execute(i);
  EXPECT_EQ(get_row<float>(1, kGpsimdOut, 5), (std::vector<float>{-1, 1, 2, 2, 3.5f}));
  i.vector.imm = 3;
  i.dst = sbuf(3, kGpsimdOut, NEURON_DTYPE_I32, 4);
  execute(i);
  EXPECT_EQ(get_row<int32_t>(0, kGpsimdOut, 4), (std::vector<int32_t>{1, 0, 2, 1}));
}

TEST_P(Gpsimd, ACustomOperatorThatIsNotRegisteredFaultsWithItsNumber) {
  put<float>(0, kGpsimdIn, {1});
  Instruction i = pool(NEURON_OP_CUSTOM, sbuf(1, kGpsimdOut, NEURON_DTYPE_F32, 1),
                       sbuf(1, kGpsimdIn, NEURON_DTYPE_F32, 1));
  i.vector.imm = 77;
  EXPECT_EQ(faulted(i), NEURON_FAULT_ILLEGAL_FIELD);
  EXPECT_EQ(get(kPool, NEURON_ENG_EXC_INFO), 77u);
  EXPECT_EQ(get(kPool, NEURON_ENG_EXC_FIELD) & 0xFF, NEURON_INST_OP + 4u);
  i.vector.imm = 1;
  i.dst = sbuf(1, kGpsimdOut, NEURON_DTYPE_F32, 2);
  EXPECT_EQ(faulted(i), NEURON_FAULT_OPERAND_SHAPE);
}

TEST(CustomOperators, HaveNumbersAndNamesOfTheirOwn) {
  std::set<uint32_t> numbers;
  std::set<std::string> names;
  for (const CustomOperator& op : custom_operators()) {
    EXPECT_TRUE(numbers.insert(op.number).second);
    EXPECT_TRUE(names.insert(op.name).second);
    EXPECT_EQ(find_custom_operator(op.number), &op);
  }
  EXPECT_EQ(find_custom_operator(0), nullptr);
}

}  // namespace
}  // namespace neuron::core
