// SPDX-License-Identifier: Apache-2.0
// Reduce packets: the kernels against a plain second reading on every SIMD path, packets through
// the rings, and what is malformed.
#include "driver/emulator/chip/udma_reduce.h"

#include <algorithm>
#include <random>

#include "driver/emulator/numerics/simd_path.h"
#include "tests/unit/driver/emulator/chip/compute_reference.h"
#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

using numerics::SimdPath;

constexpr unsigned kTypes[] = {
    NEURON_DTYPE_U8,  NEURON_DTYPE_I8,   NEURON_DTYPE_U16,  NEURON_DTYPE_I16, NEURON_DTYPE_U32,
    NEURON_DTYPE_I32, NEURON_DTYPE_U64,  NEURON_DTYPE_I64,  NEURON_DTYPE_F32, NEURON_DTYPE_BF16,
    NEURON_DTYPE_F16, NEURON_DTYPE_F8E3, NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5};

std::vector<std::vector<std::byte>> random_sources(std::mt19937& random, unsigned dtype,
                                                   uint32_t count, size_t elements) {
  std::vector<std::vector<std::byte>> sources(count);
  for (auto& source : sources) {
    source.resize(elements * plain_type(dtype).bytes);
    // Any bits at all: infinities, NaNs and subnormals come along.
    for (std::byte& byte : source) byte = static_cast<std::byte>(random());
  }
  return sources;
}

void expect_bits(unsigned dtype, const std::vector<std::byte>& found,
                 const std::vector<std::byte>& expected, const std::vector<bool>& nan,
                 const std::string& what) {
  const size_t width = plain_type(dtype).bytes;
  for (size_t i = 0; i < nan.size(); ++i) {
    if (nan[i]) {
      const PlainType type = plain_type(dtype);
      // The positive quiet one of the type.
      const uint64_t quiet = ((uint64_t{1} << (type.exponent_bits + 1)) - 1)
                             << (type.mantissa_bits - 1);
      uint64_t bits = 0;
      std::memcpy(&bits, &found[i * width], width);
      ASSERT_EQ(bits, quiet) << what << " element " << i;
    } else {
      ASSERT_EQ(std::memcmp(&found[i * width], &expected[i * width], width), 0)
          << what << " element " << i;
    }
  }
}

class Reduce : public testing::TestWithParam<SimdPath> {
 protected:
  void SetUp() override {
    if (!numerics::select_simd_path(GetParam())) GTEST_SKIP() << "not on this processor";
  }
  void TearDown() override { numerics::select_simd_path(best_); }

 private:
  SimdPath best_ = numerics::simd_path();
};
INSTANTIATE_TEST_SUITE_P(Paths, Reduce,
                         testing::Values(SimdPath::kScalar, SimdPath::kAvx2, SimdPath::kAvx512));

TEST_P(Reduce, GivesTheBitsOfAPlainInterpreterForEveryTypeAndReduction) {
  std::mt19937 random(5);
  for (const unsigned dtype : kTypes) {
    for (unsigned reduction = 0; reduction < 4; ++reduction) {
      for (const uint32_t count : {1u, 2u, 3u, 64u}) {
        for (const uint32_t divisor : {0u, 1u, 3u, 64u, 1000003u}) {
          if (divisor != 0 && reduction != NEURON_DMA_REDUCE_SUM) continue;
          const size_t elements = 1 + random() % 150;
          const auto sources = random_sources(random, dtype, count, elements);
          std::vector<const std::byte*> from;
          for (const auto& source : sources) from.push_back(source.data());
          std::vector<std::byte> found(sources[0].size());
          reduce({dtype, reduction, divisor}, from.data(), count, found.data(), elements);
          std::vector<bool> nan;
          const auto expected = plain_reduce(dtype, reduction, divisor, sources, nan);
          expect_bits(dtype, found, expected, nan,
                      "type " + std::to_string(dtype) + " reduction " + std::to_string(reduction) +
                          " sources " + std::to_string(count) + " divisor " +
                          std::to_string(divisor));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(Reduce, GivesTheBitsOfEveryPairOfFp8Codes) {
  constexpr size_t kPairs = 256 * 256;
  std::vector<std::vector<std::byte>> sources(2, std::vector<std::byte>(kPairs));
  for (size_t i = 0; i < kPairs; ++i) {
    sources[0][i] = static_cast<std::byte>(i / 256);
    sources[1][i] = static_cast<std::byte>(i);
  }
  const std::byte* from[] = {sources[0].data(), sources[1].data()};
  for (const unsigned dtype : {NEURON_DTYPE_F8E3, NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5}) {
    for (unsigned reduction = 0; reduction < 4; ++reduction) {
      std::vector<std::byte> found(kPairs);
      reduce({dtype, reduction, 0}, from, 2, found.data(), kPairs);
      std::vector<bool> nan;
      const auto expected = plain_reduce(dtype, reduction, 0, sources, nan);
      expect_bits(dtype, found, expected, nan,
                  "type " + std::to_string(dtype) + " reduction " + std::to_string(reduction));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Reduce, WritesOverAnyOfItsSources) {
  std::mt19937 random(6);
  for (const unsigned dtype : kTypes) {
    for (uint32_t place = 0; place < 3; ++place) {
      auto sources = random_sources(random, dtype, 3, 300);
      std::vector<bool> nan;
      const auto expected = plain_reduce(dtype, NEURON_DMA_REDUCE_SUM, 0, sources, nan);
      const std::byte* from[] = {sources[0].data(), sources[1].data(), sources[2].data()};
      reduce({dtype, NEURON_DMA_REDUCE_SUM, 0}, from, 3, sources[place].data(), 300);
      expect_bits(dtype, sources[place], expected, nan, "type " + std::to_string(dtype));
      if (HasFatalFailure()) return;
    }
  }
}

// --- packets ---

struct Header {
  unsigned operation = NEURON_DMA_REDUCE;
  unsigned from = NEURON_DTYPE_I32;
  unsigned to = NEURON_DTYPE_I32;
  uint32_t sources = 2;
  unsigned reduction = NEURON_DMA_REDUCE_SUM;
  uint32_t divisor = 0;
  uint64_t more = 0;  // bits of the low word
};

class ReduceMachine : public testing::Test {
 protected:
  ReduceMachine() : m(0) { m.init(0, 256); }

  void metadata(const Header& h, bool first = true) {
    const uint64_t low = NEURON_DESC_META | (first ? NEURON_DESC_FIRST : 0u) |
                         1u << NEURON_DESC_RING_ID_SHIFT | uint64_t{h.operation} << 32 |
                         uint64_t{h.from} << 36 | uint64_t{h.to} << 42 |
                         uint64_t{(h.sources - 1) % 16} << 49 | uint64_t{h.reduction} << 54 |
                         uint64_t{(h.sources - 1) / 16} << 56 | h.more;
    m.descriptor(Machine::kRingM2s, m2s++, static_cast<uint32_t>(low),
                 static_cast<uint32_t>(low >> 32), h.divisor);
  }
  void source(const Header& h, uint64_t address, uint32_t bytes, bool last) {
    m.descriptor(Machine::kRingM2s, m2s++,
                 bytes | 1u << NEURON_DESC_RING_ID_SHIFT | (last ? NEURON_DESC_LAST : 0u),
                 NEURON_META_OP_COMPUTE << NEURON_META_OP_SHIFT | 1u << 19 | 3u |
                     h.operation << NEURON_META_TYPE_SHIFT,
                 address);
  }
  void result(uint64_t address, uint32_t bytes) {
    m.descriptor(Machine::kRingS2m, s2m++, bytes | 1u << NEURON_DESC_RING_ID_SHIFT, 0, address);
  }
  void run() { m.ring(0, s2m, m2s, Origin::kHost); }
  std::vector<int32_t> words(uint64_t address, size_t n) {
    std::vector<int32_t> values(n);
    std::memcpy(values.data(), m.memory(address, n * 4), n * 4);
    return values;
  }
  void put(uint64_t address, const std::vector<int32_t>& values) {
    std::memcpy(m.memory(address, values.size() * 4), values.data(), values.size() * 4);
  }
  std::string fault() { return m.listener.faults.empty() ? "" : m.listener.faults[0].rule; }

  Machine m;
  uint32_t m2s = 0, s2m = 0;
};

TEST_F(ReduceMachine, SixtyFourSourcesWrapAndAreDividedTowardsZero) {
  const Header h{.sources = 64, .divisor = 64};
  metadata(h);
  for (int32_t s = 0; s < 64; ++s) {
    put(kFrom + static_cast<uint64_t>(s) * 64, {s, -s, INT32_MIN, 1});
    source(h, kFrom + static_cast<uint64_t>(s) * 64, 16, s == 63);
  }
  result(kTo, 16);
  run();
  EXPECT_EQ(fault(), "");
  EXPECT_EQ(words(kTo, 4), (std::vector<int32_t>{2016 / 64, -2016 / 64, 0, 1}));
}

TEST_F(ReduceMachine, AResultInPlaceOfASourceAndOneThatOverlapsReadAllBefore) {
  for (const uint64_t to : {kFrom, kFrom + 400, kFrom + 200}) {
    std::vector<int32_t> a(100), b(100), sum(100);
    for (int32_t i = 0; i < 100; ++i) {
      a[i] = i;
      b[i] = 1000 * i;
      sum[i] = 1001 * i;
    }
    put(kFrom, a);
    put(kFrom + 400, b);
    const Header h;
    metadata(h);
    source(h, kFrom, 400, false);
    source(h, kFrom + 400, 400, true);
    result(to, 400);
    run();
    s2m = m2s = 0;
    m.init(0, 256);
    ASSERT_EQ(fault(), "");
    EXPECT_EQ(words(to, 100), sum);
  }
}

struct BrokenReduce {
  Header header;
  const char* rule;
};

TEST_F(ReduceMachine, MalformedMetadataIsNamed) {
  const BrokenReduce cases[] = {
      {{.from = NEURON_DTYPE_TF32, .to = NEURON_DTYPE_TF32}, "a reduce has integers"},
      {{.to = NEURON_DTYPE_F32}, "keeps the data type"},
      {{.more = NEURON_DMA_META_ACC}, "does not accumulate"},
      {{.more = NEURON_DMA_META_STOCHASTIC}, "does not accumulate"},
      {{.reduction = NEURON_DMA_REDUCE_MAX, .divisor = 2}, "only a sum has a divisor"},
      {{.more = uint64_t{1} << 58}, "a reserved bit"},
      {{.operation = NEURON_DMA_ADD, .reduction = NEURON_DMA_REDUCE_MIN}, "only a reduce has"},
      {{.operation = NEURON_DMA_ADD, .sources = 20}, "only a reduce has"},
  };
  for (const BrokenReduce& broken : cases) {
    m.init(0, 256);
    m.listener.faults.clear();
    m2s = s2m = 0;
    metadata(broken.header);
    source(broken.header, kFrom, 80, true);
    result(kTo, 80);
    run();
    EXPECT_NE(fault().find(broken.rule), std::string::npos) << fault();
  }
}

TEST_F(ReduceMachine, SecondMetadataIsRefusedWhateverTheNumberOfSources) {
  const Header h{.sources = 40};
  metadata(h);
  for (uint32_t s = 0; s < 40; ++s) {
    source(h, kFrom, 16, s == 39);
    if (s == 30) metadata(h, false);
  }
  result(kTo, 16);
  run();
  EXPECT_NE(fault().find("one metadata descriptor"), std::string::npos) << fault();
}

}  // namespace
}  // namespace neuron::chip
