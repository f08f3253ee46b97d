// SPDX-License-Identifier: Apache-2.0
// rng, dropout, set_rng_seed, and stochastic rounding as the documents describe it.
#include <algorithm>
#include <cmath>
#include <set>

#include "tests/unit/driver/emulator/neuroncore/short_names.h"
#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"
#include "tests/unit/driver/isa/type_probe.h"

namespace neuron::core {
namespace {

constexpr uint32_t kSeed = 0x20000;

class VectorRandom : public UnitOfAGeneration {
 protected:
  void seed(uint32_t value) {
    put_raw<uint32_t>(sbuf(1, kSeed, kU32, 1), 0, {value});
    dve(make(NEURON_OP_SET_RNG_SEED, {}, sbuf(1, kSeed, kU32, 1)));
  }
  std::vector<uint32_t> words(unsigned part = 0, unsigned n = 16) {
    const auto dst = sbuf(4, 0, kU32, static_cast<int>(n));
    dve(make(NEURON_OP_RNG, dst));
    return get_raw<uint32_t>(dst, part);
  }
  Instruction drop(unsigned type, unsigned n, float probability) {
    Instruction i = make(NEURON_OP_DROPOUT, sbuf(128, 0x8000, type, n), sbuf(128, 0, type, n));
    i.scalar0 = real(probability);
    return i;
  }
  double zeros(const isa::Operand& at) {
    size_t count = 0;
    for (unsigned p = 0; p < at.parts; ++p) {
      const auto row = get(at, p);
      count += static_cast<size_t>(std::count(row.begin(), row.end(), 0.0f));
    }
    return static_cast<double>(count) / static_cast<double>(at.parts * at.elements());
  }
};

INSTANTIATE_TEST_SUITE_P(Generations, VectorRandom, kGenerations);

TEST_P(VectorRandom, RepeatsAfterTheSameSeedAndDiffersOtherwise) {
  seed(7);
  const auto first = words();
  const auto second = words();
  EXPECT_NE(first, second);
  seed(7);
  EXPECT_EQ(words(), first);
  EXPECT_EQ(words(), second);
  seed(8);
  EXPECT_NE(words(), first);
  seed(7);
  EXPECT_NE(words(1), first) << "partitions must not share a stream";
}

TEST_P(VectorRandom, DoesNotDependOnHowTheElementsAreCut) {
  seed(7);
  const auto whole = words(3, 32);
  seed(7);
  auto halves = words(3, 16);
  const auto rest = words(3, 16);
  halves.insert(halves.end(), rest.begin(), rest.end());
  EXPECT_EQ(halves, whole);
}

// On both engines, in every type that the checks accept: the bytes of each word that fit.
TEST_P(VectorRandom, WritesTheLowBitsOfTheWord) {
  constexpr int kN = 12;
  unsigned count = 0;
  for (const unsigned engine : {NEURON_ENGINE_DVE, NEURON_ENGINE_POOL}) {
    const auto draw = [&](unsigned type) {
      for (UnitContext* unit : {&dve_, &pool_}) {
        unit->random_numbers = {};
        unit->states.seeded = false;
      }
      Instruction i = make(NEURON_OP_RNG, sbuf(4, 0, type, kN));
      i.engines = static_cast<uint8_t>(1u << engine);
      const bool legal = isa::testing::accepted(i, engine, GetParam());
      if (legal) run(engine, i);
      return legal;
    };
    if (!draw(kU32)) continue;  // Pool of generation 2
    std::vector<std::vector<uint32_t>> words;
    for (unsigned p = 0; p < 4; ++p) words.push_back(get_raw<uint32_t>(sbuf(4, 0, kU32, kN), p));
    EXPECT_NE(words[0], words[1]);
    // Without XORWOW, the stream of (seed, engine, partition), apart from that of rounding; with
    // it, the published words (XorwowOnPool, Generation4).
    if (engine == NEURON_ENGINE_DVE && GetParam() < 4) {
      for (unsigned p = 0; p < 4; ++p) {
        const numerics::RandomStream stream(seed_, 1u << 16 | NEURON_ENGINE_DVE << 8 | p);
        for (unsigned e = 0; e < kN; ++e) ASSERT_EQ(words[p][e], stream.at(e)) << p << ", " << e;
      }
    }
    for (const uint8_t type : isa::testing::types_of(GetParam())) {
      if (!draw(type)) continue;
      ++count;
      const size_t width = isa::dtype_bytes(type);
      for (unsigned p = 0; p < 4; ++p) {
        const auto* row = memory_.sbuf(p);
        for (unsigned e = 0; e < kN; ++e) {
          uint32_t found = 0, expected = words[p][e];
          std::memcpy(&found, row + e * width, width);
          if (width < 4) expected &= (1u << 8 * width) - 1;
          ASSERT_EQ(found, expected) << isa::dtype_name(type) << " " << p << ", " << e;
        }
      }
    }
  }
  EXPECT_EQ(count, GetParam() == 2 ? 6U : 12U) << "integers of 1, 2 and 4 bytes";
}

TEST_P(VectorRandom, TakesTheSeedRegisterUntilASeedIsSet) {
  seed_ = 5;
  const auto first = words();
  dve_.random_numbers = {};
  seed_ = 6;
  EXPECT_NE(words(), first);
}

TEST_P(VectorRandom, DropsTheStatedShareOfElements) {
  const auto a = sbuf(128, 0, kF32, 400);
  fill(a, [](unsigned, unsigned) { return 2.0f; });
  for (const float p : {0.1f, 0.5f, 0.9f}) {
    dve(drop(kF32, 400, p));
    // Five standard deviations of 51,200 draws.
    EXPECT_NEAR(zeros(sbuf(128, 0x8000, kF32, 400)), p, 5 * std::sqrt(p * (1 - p) / 51200)) << p;
  }
}

TEST_P(VectorRandom, KeepsInsteadOfDroppingWhenInverted) {
  const auto a = sbuf(128, 0, kF32, 400);
  fill(a, [](unsigned, unsigned) { return 2.0f; });
  Instruction i = drop(kF32, 400, 0.9f);
  i.vector.invert = true;
  dve(i);
  EXPECT_NEAR(zeros(sbuf(128, 0x8000, kF32, 400)), 0.1, 0.007);
}

TEST_P(VectorRandom, DropsNothingAtZeroAndEverythingAtOne) {
  for (const unsigned type : {NEURON_DTYPE_BF16, NEURON_DTYPE_F8E4, NEURON_DTYPE_I8}) {
    fill(sbuf(128, 0, type, 100), [](unsigned, unsigned) { return 3.0f; });
    dve(drop(type, 100, 0.0f));
    EXPECT_EQ(zeros(sbuf(128, 0x8000, type, 100)), 0.0);
    EXPECT_EQ(get(sbuf(128, 0x8000, type, 100), 5)[99], 3.0f);
    dve(drop(type, 100, 1.0f));
    EXPECT_EQ(zeros(sbuf(128, 0x8000, type, 100)), 1.0);
  }
}

TEST_P(VectorRandom, TakesAProbabilityPerPartition) {
  fill(sbuf(128, 0, kF32, 10), [](unsigned, unsigned) { return 2.0f; });
  fill(sbuf(128, 0x10000, kF32, 1), [](unsigned p, unsigned) { return p == 5 ? 1.0f : 0.0f; });
  Instruction i = drop(kF32, 10, 0);
  i.scalar0 = pointer(0x10000);
  dve(i);
  EXPECT_EQ(get(i.dst, 5), std::vector<float>(10, 0.0f));
  EXPECT_EQ(get(i.dst, 6), std::vector<float>(10, 2.0f));
}

TEST_P(VectorRandom, IsNotDisturbedByStochasticRounding) {
  seed(7);
  const auto first = words();
  seed(7);
  Instruction copy =
      make(NEURON_OP_TENSOR_COPY, sbuf(4, 0x1000, NEURON_DTYPE_BF16, 16), sbuf(4, 0, kF32, 16));
  copy.rounding = 2;
  dve(copy);
  EXPECT_EQ(words(), first);
}

// ---- Stochastic rounding ----

class StochasticRounding : public UnitMachine {
 protected:
  Instruction accumulate(unsigned type, unsigned rounding) {
    Instruction i = make(NEURON_OP_TENSOR_SCALAR, sbuf(128, 0, type, 1), sbuf(128, 0, type, 1));
    i.vector.op0 = NEURON_ALU_ADD;
    i.scalar0 = real(0.5f);
    i.rounding = static_cast<uint8_t>(rounding);
    return i;
  }
};

// The published test: 1024 in fp16, plus 0.5, 2048 times. The spacing there is 1.
TEST_F(StochasticRounding, ReachesTheSumThatNearestEvenNeverLeaves) {
  const auto at = sbuf(128, 0, NEURON_DTYPE_F16, 1);
  fill(at, [](unsigned, unsigned) { return 1024.0f; });
  for (unsigned n = 0; n < 2048; ++n) dve(accumulate(NEURON_DTYPE_F16, 1));
  for (unsigned p = 0; p < 128; ++p) ASSERT_EQ(get(at, p)[0], 1024.0f);
  for (unsigned n = 0; n < 2048; ++n) dve(accumulate(NEURON_DTYPE_F16, 2));
  double mean = 0;
  for (unsigned p = 0; p < 128; ++p) {
    const float sum = get(at, p)[0];
    // 2048 coins of 0 or 1: standard deviation 22.6 around 2048, a published run ended at 2056.
    EXPECT_NEAR(sum, 2048.0f, 5 * 22.7f) << p;
    mean += sum / 128;
  }
  EXPECT_NEAR(mean, 2048.0, 5 * 22.7 / std::sqrt(128.0));
}

// E[SR(x)] = x and Var[SR(x)] = f (1 - f) spacing^2, for every type and many fractions f.
TEST_F(StochasticRounding, HasTheMeanAndVarianceOfItsDefinition) {
  const struct {
    unsigned type;
    float low, spacing;  // neighbours low and low + spacing
  } cases[] = {{NEURON_DTYPE_BF16, 1.0f, 0x1p-7f}, {NEURON_DTYPE_BF16, -200.0f, -1.0f},
               {NEURON_DTYPE_F16, 3.0f, 0x1p-9f},  {NEURON_DTYPE_F16, 0x1p-20f, 0x1p-24f},
               {NEURON_DTYPE_F8E3, 1.0f, 0x1p-4f}, {NEURON_DTYPE_F8E4, -8.0f, -1.0f},
               {NEURON_DTYPE_F8E4, 0.0f, 0x1p-9f}, {NEURON_DTYPE_F8E5, 4.0f, 1.0f},
               {NEURON_DTYPE_TF32, 1.0f, 0x1p-10f}};
  constexpr unsigned kN = 256;
  for (const auto& c : cases) {
    for (const float fraction : {0.0f, 0.0625f, 0.25f, 0.5f, 0.8125f}) {
      const float x = c.low + fraction * c.spacing;
      const auto from = sbuf(128, 0, kF32, kN), to = sbuf(128, 4096, c.type, kN);
      fill(from, [x](unsigned, unsigned) { return x; });
      Instruction copy = make(NEURON_OP_TENSOR_COPY, to, from);
      copy.rounding = 2;
      dve(copy);
      double ups = 0;
      for (unsigned p = 0; p < 128; ++p) {
        for (const float found : get(to, p)) {
          ASSERT_TRUE(found == c.low || found == c.low + c.spacing)
              << isa::dtype_name(c.type) << ": " << x << " became " << found;
          ups += found != c.low;
        }
      }
      const double draws = 128.0 * kN;
      const double sigma = std::sqrt(fraction * (1 - fraction) / draws);
      EXPECT_NEAR(ups / draws, fraction, 5 * sigma) << isa::dtype_name(c.type) << " at " << x;
    }
  }
}

TEST_F(StochasticRounding, IsIndependentBetweenNeighbours) {
  constexpr unsigned kN = 512;
  const auto from = sbuf(128, 0, kF32, kN), to = sbuf(128, 4096, NEURON_DTYPE_BF16, kN);
  fill(from, [](unsigned, unsigned) { return 1.0f + 0x1p-8f; });
  Instruction copy = make(NEURON_OP_TENSOR_COPY, to, from);
  copy.rounding = 2;
  dve(copy);
  double along = 0, across = 0;  // products of +-1
  std::vector<std::vector<float>> rows;
  for (unsigned p = 0; p < 128; ++p) rows.push_back(get(to, p));
  const auto sign = [&](unsigned p, unsigned e) { return rows[p][e] > 1.0f ? 1.0 : -1.0; };
  for (unsigned p = 0; p + 1 < 128; ++p) {
    for (unsigned e = 0; e + 1 < kN; ++e) {
      along += sign(p, e) * sign(p, e + 1);
      across += sign(p, e) * sign(p + 1, e);
    }
  }
  const double draws = 127.0 * (kN - 1);
  EXPECT_NEAR(along / draws, 0.0, 5 / std::sqrt(draws));
  EXPECT_NEAR(across / draws, 0.0, 5 / std::sqrt(draws));
}

TEST_F(StochasticRounding, LeavesExactValuesNanAndInfinity) {
  const auto from = sbuf(1, 0, kF32, 4), to = sbuf(1, 4096, NEURON_DTYPE_F16, 4);
  put(from, 0, {1.5f, INFINITY, -INFINITY, NAN});
  Instruction copy = make(NEURON_OP_TENSOR_COPY, to, from);
  copy.rounding = 2;
  dve(copy);
  EXPECT_EQ(get_raw<uint16_t>(to, 0), (std::vector<uint16_t>{0x3E00, 0x7C00, 0xFC00, 0x7E00}));
}

TEST_F(StochasticRounding, DoesNotTouchIntegers) {
  const auto from = sbuf(1, 0, kF32, 3), to = sbuf(1, 4096, NEURON_DTYPE_I16, 3);
  for (unsigned n = 0; n < 20; ++n) {
    put(from, 0, {0.4f, 0.5f, 1.5f});
    Instruction copy = make(NEURON_OP_TENSOR_COPY, to, from);
    copy.rounding = 2;
    dve(copy);
    EXPECT_EQ(get(to, 0), (std::vector<float>{0, 0, 2}));
  }
}

}  // namespace
}  // namespace neuron::core
