// SPDX-License-Identifier: Apache-2.0
// Structured sparsity against the product of the dense matrix, in double.
#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <vector>

#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"
#include "tests/unit/driver/isa/small_values.h"
#include "tests/unit/driver/isa/type_probe.h"

namespace neuron::core {
namespace {

struct Ratio {
  unsigned mode, compressed, dense;
};
constexpr Ratio kRatios[] = {{NEURON_SPARSE_4_OF_16, 4, 16}, {NEURON_SPARSE_4_OF_12, 4, 12},
                             {NEURON_SPARSE_4_OF_8, 4, 8},   {NEURON_SPARSE_2_OF_8, 2, 8},
                             {NEURON_SPARSE_2_OF_4, 2, 4},   {NEURON_SPARSE_1_OF_4, 1, 4},
                             {NEURON_SPARSE_1_OF_2, 1, 2}};

class Sparse : public UnitOfAGeneration {
 protected:
  Instruction load(const Ratio& r, isa::Operand w, isa::Operand positions) {
    Instruction i = make(NEURON_OP_LDWEIGHTS_SPARSE, {}, w, positions);
    i.pe.mode = static_cast<uint8_t>(r.mode);
    return i;
  }
  Instruction product(const Ratio& r, isa::Operand dst, isa::Operand x) {
    Instruction i = make(NEURON_OP_MATMUL_SPARSE, dst, x);
    i.pe.mode = static_cast<uint8_t>(r.mode);
    i.pe.swap = true;
    return i;
  }
  // Those that the checks accept in weights.
  std::vector<unsigned> types() const {
    std::vector<unsigned> legal;
    for (const uint8_t type : isa::testing::types_of(GetParam())) {
      Instruction i = make(NEURON_OP_LDWEIGHTS_SPARSE, {}, sbuf(32, 0, type, 32),
                           sbuf(32, 0x1000, NEURON_DTYPE_U16, 8));
      i.engines = 1u << NEURON_ENGINE_PE;
      if (isa::testing::accepted(i, NEURON_ENGINE_PE, GetParam())) legal.push_back(type);
    }
    EXPECT_GE(legal.size(), GetParam() == 3 ? 6U : 7U);
    return legal;
  }
};

INSTANTIATE_TEST_SUITE_P(Generations, Sparse, ::testing::Values(3U, 4U));

TEST_P(Sparse, ProductsOfEveryRatioAndTypeAreThoseOfTheDenseMatrix) {
  std::mt19937 random(17);
  constexpr unsigned kM = 32, kN = 45;
  for (const Ratio& r : kRatios) {
    for (const unsigned type : types()) {
      const unsigned k = type == NEURON_DTYPE_BF16 ? 128 : 32, slots = r.dense / r.compressed;
      const isa::Operand w = sbuf(k, 0, type, kM);
      const isa::Operand positions = sbuf(k, 0x1000, NEURON_DTYPE_U16, kM / 4);
      const isa::Operand x =
          tile(NEURON_SPACE_SBUF, 0, k, 0x2000, type, {kN, static_cast<int>(slots)});
      // The dense matrix: row d of group g is partition g x compressed + d / slots, slot d % slots.
      std::vector<std::vector<double>> dense(k * slots, std::vector<double>(kM));
      std::vector<std::vector<uint16_t>> words(k, std::vector<uint16_t>(kM / 4));
      std::vector<std::vector<float>> weights(k, std::vector<float>(kM));
      for (unsigned group = 0; group < k; group += r.compressed) {
        for (unsigned m = 0; m < kM; ++m) {
          std::vector<unsigned> places(r.dense);
          std::iota(places.begin(), places.end(), 0U);
          std::shuffle(places.begin(), places.end(), random);
          for (unsigned c = 0; c < r.compressed; ++c) {
            const float value = static_cast<float>(random() % 7) - 3;
            weights[group + c][m] = value;
            words[group + c][m / 4] =
                static_cast<uint16_t>(words[group + c][m / 4] | places[c] << (4 * (m % 4)));
            dense[group * slots + places[c]][m] = value;
          }
        }
      }
      std::vector<std::vector<float>> moving(k);
      for (unsigned p = 0; p < k; ++p) {
        for (unsigned e = 0; e < slots * kN; ++e) {
          moving[p].push_back(static_cast<float>(random() % 9) - 4);
        }
        put(w, p, weights[p]);
        put_raw(positions, p, words[p]);
        put(x, p, moving[p]);
      }
      run(NEURON_ENGINE_PE, load(r, w, positions));
      const isa::Operand dst = psum(kM, 0, NEURON_DTYPE_F32, kN);
      Instruction i = product(r, dst, x);
      run(NEURON_ENGINE_PE, i);
      i.pe.swap = false;
      i.pe.accumulate = true;
      run(NEURON_ENGINE_PE, i);
      const isa::Operand narrow = psum(kM, 0x800, NEURON_DTYPE_BF16, kN);
      if (GetParam() >= 4) {
        i.dst = narrow;
        i.pe.accumulate = false;
        run(NEURON_ENGINE_PE, i);
      }
      for (unsigned m = 0; m < kM; ++m) {
        const std::vector<float> found = get(dst, m), rounded = get(narrow, m);
        for (unsigned n = 0; n < kN; ++n) {
          double sum = 0;
          for (unsigned row = 0; row < dense.size(); ++row) {
            // Dense rows of a group lie partition by partition, slot by slot.
            sum += dense[row][m] * moving[row / slots][row % slots * kN + n];
          }
          ASSERT_EQ(found[n], 2 * sum) << r.mode << " " << isa::dtype_name(type) << " " << m;
          if (GetParam() < 4) continue;
          ASSERT_EQ(rounded[n], isa::testing::rounded_to(NEURON_DTYPE_BF16, sum)) << sum;
        }
      }
    }
  }
}

TEST_P(Sparse, RefusesPositionsThatAreNoneOrTwice) {
  for (const Ratio& r : kRatios) {
    const isa::Operand w = sbuf(32, 0, NEURON_DTYPE_BF16, 4);
    const isa::Operand positions = sbuf(32, 0x1000, NEURON_DTYPE_U16, 1);
    fill(w, [](unsigned, unsigned) { return 1.0F; });
    const auto set = [&](unsigned partition, unsigned value) {
      for (unsigned p = 0; p < 32; ++p) {
        const unsigned own = p % r.compressed;
        put_raw(positions, p, std::vector<uint16_t>{static_cast<uint16_t>(own * 0x1111)});
      }
      // Column 2 alone.
      const unsigned own = partition % r.compressed * 0x1011;
      put_raw(positions, partition, std::vector<uint16_t>{static_cast<uint16_t>(own | value << 8)});
      Instruction i = load(r, w, positions);
      return attempt(NEURON_ENGINE_PE, i);
    };
    EXPECT_EQ(set(9, r.dense - 1).code, NEURON_FAULT_NONE) << r.mode;
    if (r.dense < 16) {
      const Fault beyond = set(9, r.dense);
      EXPECT_EQ(beyond.code, NEURON_FAULT_INDEX_OOB) << r.mode;
      EXPECT_EQ(beyond.info, r.dense);
      EXPECT_EQ(beyond.detail, r.dense) << "the bound";
      EXPECT_EQ(beyond.address, uint64_t{9} << NEURON_STRICT_PARTITION_SHIFT | 0x1000)
          << "the word of columns 0 to 3";
    }
    if (r.compressed > 1) {
      const Fault twice = set(9, 0);
      EXPECT_EQ(twice.code, NEURON_FAULT_INDEX_OOB) << "row 8 has position 0, too";
      EXPECT_LT(twice.info, twice.detail) << "by which the sentence tells it from one beyond";
    }
  }
}

TEST_P(Sparse, RefusesShapesAndModesThatDoNotFit) {
  const isa::Operand dst = psum(32, 0, NEURON_DTYPE_F32, 16);
  Instruction moving =
      product(kRatios[2], dst, tile(NEURON_SPACE_SBUF, 0, 32, 0, NEURON_DTYPE_BF16, {16, 4}));
  EXPECT_EQ(attempt(NEURON_ENGINE_PE, moving).code, NEURON_FAULT_OPERAND_SHAPE)
      << "4:8 has 2 slots";
  Instruction wide =
      product(kRatios[2], dst, tile(NEURON_SPACE_SBUF, 0, 32, 0, NEURON_DTYPE_F32, {16, 2}));
  EXPECT_EQ(attempt(NEURON_ENGINE_PE, wide).code, NEURON_FAULT_OPERAND_DTYPE);
  Instruction seventh = moving;
  seventh.pe.mode = 7;
  EXPECT_EQ(attempt(NEURON_ENGINE_PE, seventh).code, NEURON_FAULT_ILLEGAL_FIELD);
  Instruction few =
      load(kRatios[0], sbuf(30, 0, NEURON_DTYPE_BF16, 32), sbuf(30, 0x1000, NEURON_DTYPE_U16, 8));
  EXPECT_EQ(attempt(NEURON_ENGINE_PE, few).code, NEURON_FAULT_OPERAND_SHAPE);
  Instruction words =
      load(kRatios[0], sbuf(32, 0, NEURON_DTYPE_BF16, 32), sbuf(32, 0x1000, NEURON_DTYPE_U16, 32));
  EXPECT_EQ(attempt(NEURON_ENGINE_PE, words).code, NEURON_FAULT_OPERAND_SHAPE);
  // Weights of another ratio.
  const isa::Operand zeros = sbuf(32, 0x4000, NEURON_DTYPE_U16, 8);
  for (unsigned p = 0; p < 32; ++p) put_raw(zeros, p, std::vector<uint16_t>(8));
  run(NEURON_ENGINE_PE, load(kRatios[5], sbuf(32, 0, NEURON_DTYPE_BF16, 32), zeros));
  Instruction other =
      product(kRatios[6], dst, tile(NEURON_SPACE_SBUF, 0, 32, 0, NEURON_DTYPE_BF16, {16, 2}));
  EXPECT_EQ(attempt(NEURON_ENGINE_PE, other).code, NEURON_FAULT_WEIGHTS);
}

}  // namespace
}  // namespace neuron::core
