// SPDX-License-Identifier: Apache-2.0
// Compute packets: random ones against a plain second reading, what is malformed, model time.
#include <algorithm>
#include <functional>
#include <random>
#include <thread>

#include "tests/unit/driver/emulator/chip/compute_reference.h"
#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

struct Meta {
  unsigned operation = NEURON_DMA_CAST;
  unsigned from = NEURON_DTYPE_F32;
  unsigned to = NEURON_DTYPE_F32;
  bool accumulate = false;
  unsigned sources = 1;
  bool stochastic = false;
  uint32_t scale = 0;
  uint32_t rows = 0;
  uint32_t columns = 0;
  bool first = true;
};

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

uint32_t meta_of(unsigned operation) {
  return (NEURON_META_OP_COMPUTE << NEURON_META_OP_SHIFT) | 1u << 19 | 3u |
         operation << NEURON_META_TYPE_SHIFT;
}

// Writes packets at the rings' tails and rings them.
class ComputeMachine : public testing::Test {
 protected:
  ComputeMachine() : m(0) { m.init(0, kRing); }

  void metadata(const Meta& meta) {
    const uint64_t low = NEURON_DESC_META | (meta.first ? NEURON_DESC_FIRST : 0u) | id(m2s) |
                         uint64_t{meta.operation} << 32 | uint64_t{meta.from} << 36 |
                         uint64_t{meta.to} << 42 | uint64_t{meta.accumulate} << 48 |
                         uint64_t{meta.sources - 1} << 49 | uint64_t{meta.stochastic} << 53;
    const uint64_t high = meta.scale | uint64_t{meta.rows} << 32 | uint64_t{meta.columns} << 48;
    m.descriptor(Machine::kRingM2s, m2s++ % kRing, static_cast<uint32_t>(low),
                 static_cast<uint32_t>(low >> 32), high);
  }
  void data(unsigned operation, uint64_t address, uint32_t bytes, bool last) {
    m.descriptor(Machine::kRingM2s, m2s % kRing,
                 (bytes & 0xFFFF) | id(m2s) | (last ? NEURON_DESC_LAST : 0u), meta_of(operation),
                 address);
    ++m2s;
  }
  void result(uint64_t address, uint32_t bytes) {
    m.descriptor(Machine::kRingS2m, s2m % kRing, (bytes & 0xFFFF) | id(s2m), 0, address);
    ++s2m;
  }
  // The simplest packet: everything in one descriptor a side.
  void packet(const Meta& meta, uint32_t source_bytes, uint32_t result_bytes) {
    metadata(meta);
    data(meta.operation, kFrom, source_bytes, true);
    result(kTo, result_bytes);
  }
  static uint32_t id(uint32_t at) { return ((1 + at / kRing) & 3) << NEURON_DESC_RING_ID_SHIFT; }
  void run(Origin origin = Origin::kHost) {
    m.ring(0, s2m - s2m_rung, m2s - m2s_rung, origin);
    s2m_rung = s2m;
    m2s_rung = m2s;
  }
  template <class T>
  void put(uint64_t address, const std::vector<T>& values) {
    std::memcpy(m.memory(address, values.size() * sizeof(T)), values.data(),
                values.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> get(uint64_t address, size_t n) {
    std::vector<T> values(n);
    std::memcpy(values.data(), m.memory(address, n * sizeof(T)), n * sizeof(T));
    return values;
  }
  const char* fault() { return m.listener.faults.empty() ? "" : m.listener.faults[0].rule; }

  Machine m;
  uint32_t m2s = 0, s2m = 0, m2s_rung = 0, s2m_rung = 0;
};

// Bytes of a type that are mostly ordinary numbers, sometimes anything.
std::vector<std::byte> numbers(std::mt19937& random, unsigned dtype, size_t n) {
  const PlainType type = plain_type(dtype);
  std::vector<std::byte> bytes(n * type.bytes);
  for (size_t i = 0; i < n; ++i) {
    uint64_t bits = uint64_t{random()} << 32 | random();
    if (type.exponent_bits != 0 && random() % 16 != 0) {
      bool nan;
      plain_write(dtype, (static_cast<double>(random() % 2001) - 1000) / 64, &bytes[i * type.bytes],
                  nan);
    } else {
      if (random() % 2 != 0) bits %= 300;
      std::memcpy(&bytes[i * type.bytes], &bits, type.bytes);
    }
  }
  return bytes;
}

std::vector<uint32_t> cut(std::mt19937& random, uint32_t bytes, unsigned pieces) {
  std::vector<uint32_t> ends = {bytes};
  while (ends.size() < pieces) ends.push_back(1 + random() % bytes);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<uint32_t> sizes;
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    sizes.push_back(end - begin);
    begin = end;
  }
  return sizes;
}

TEST_F(ComputeMachine, RandomComputePacketsGiveTheBytesOfAPlainInterpreter) {
  std::mt19937 random(20);
  const auto below = [&](uint32_t bound) { return static_cast<uint32_t>(random() % bound); };
  const auto any_type = [&] {
    return plain_types()[below(static_cast<uint32_t>(plain_types().size()))];
  };
  for (int round = 0; round < 1500; ++round) {
    PlainCompute c;
    c.operation = NEURON_DMA_CAST + below(6);
    c.from = any_type();
    c.to = any_type();
    const bool combines = c.operation >= NEURON_DMA_FMA && c.operation <= NEURON_DMA_MAX;
    unsigned sources = combines ? 1 + below(16) : 1;
    c.accumulate = combines && below(2) != 0;
    size_t n = 1 + below(60);
    if (c.operation == NEURON_DMA_TRANSPOSE) {
      c.to = c.from;
      c.rows = 1 + below(9);
      c.columns = 1 + below(9);
      n = size_t{c.rows} * c.columns * (1 + below(3));
    }
    Meta meta{c.operation, c.from, c.to, c.accumulate, sources, false, 0, c.rows, c.columns, true};
    const bool scales = c.operation == NEURON_DMA_FMA;
    const bool constant = c.operation == NEURON_DMA_MIN || c.operation == NEURON_DMA_MAX;
    for (unsigned s = 0; s < sources; ++s) {
      // A scale that does not change needs no metadata.
      const bool changes = s == 0 || (scales && below(3) == 0);
      const float scale = (static_cast<float>(below(64)) - 32) / 8;
      c.scales.push_back(!changes ? c.scales.back() : scales || constant ? scale : 0);
      c.sources.push_back(numbers(random, c.from, n));
    }
    const uint32_t source_bytes = static_cast<uint32_t>(c.sources[0].size());
    const std::vector<std::byte> before = numbers(random, c.to, n);
    // Sources one behind the other, in pieces anywhere; pieces end where a scale changes.
    uint64_t at = kFrom;
    for (unsigned s = 0; s < sources; ++s) {
      meta.first = s == 0;
      meta.scale = bits_of(c.scales[s]);
      if (!scales && !constant) meta.scale = 0;
      if (s == 0 || (scales && c.scales[s] != c.scales[s - 1])) metadata(meta);
      uint32_t done = 0;
      const std::vector<uint32_t> pieces = cut(random, source_bytes, 1 + below(3));
      for (size_t p = 0; p < pieces.size(); ++p) {
        std::memcpy(m.memory(at, pieces[p]), &c.sources[s][done], pieces[p]);
        data(c.operation, at, pieces[p], s + 1 == sources && p + 1 == pieces.size());
        done += pieces[p];
        at += pieces[p] + below(7);
      }
    }
    // The last destination may have more room.
    std::vector<std::pair<uint64_t, uint32_t>> places;
    at = kTo;
    uint32_t done = 0;
    for (const uint32_t piece : cut(random, static_cast<uint32_t>(before.size()), 1 + below(8))) {
      std::memcpy(m.memory(at, piece), &before[done], piece);
      done += piece;
      const uint32_t more = done == before.size() ? below(9) : 0;
      result(at, piece + more);
      places.emplace_back(at, piece);
      at += piece + more + below(5);
    }
    if (round % 2 == 0) {
      run();
    } else {
      run(Origin::kEngine);
      ASSERT_EQ(m.engine.next_run(0, 8).packets, 1u);
      ASSERT_FALSE(m.engine.execute_run(0, 1, Access{}));
    }
    ASSERT_TRUE(m.listener.faults.empty()) << m.listener.faults[0].describe();
    std::vector<bool> nan;
    const std::vector<std::byte> expected = plain_compute(c, before, nan);
    std::vector<std::byte> found;
    for (const auto& [address, bytes] : places) {
      found.insert(found.end(), m.memory(address, bytes), m.memory(address, bytes) + bytes);
    }
    const size_t to_bytes = plain_type(c.to).bytes;
    for (size_t i = 0; i < n; ++i) {
      const std::byte* element = &found[i * to_bytes];
      if (nan[i]) {
        ASSERT_TRUE(std::isnan(plain_read(c.to, element))) << "round " << round;
        continue;
      }
      ASSERT_EQ(std::memcmp(element, &expected[i * to_bytes], to_bytes), 0)
          << "round " << round << " operation " << c.operation << " types " << c.from << " -> "
          << c.to << " element " << i << ": found " << plain_read(c.to, element) << ", expected "
          << plain_read(c.to, &expected[i * to_bytes]);
    }
  }
  EXPECT_EQ(m.engine.ring_id_mismatches(), 0u);
}

TEST_F(ComputeMachine, APacketReadsAllBeforeItWrites) {
  constexpr uint32_t kSide = 48;
  std::vector<uint16_t> matrix(kSide * kSide);
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<uint16_t>(i);
  put(kFrom, matrix);
  Meta meta{.operation = NEURON_DMA_TRANSPOSE, .from = NEURON_DTYPE_BF16, .to = NEURON_DTYPE_BF16};
  meta.rows = meta.columns = kSide;
  metadata(meta);
  data(NEURON_DMA_TRANSPOSE, kFrom, kSide * kSide * 2, true);
  for (uint32_t c = 0; c < kSide; ++c) result(kFrom + c * kSide * 2, kSide * 2);
  run();
  const auto found = get<uint16_t>(kFrom, matrix.size());
  for (uint32_t r = 0; r < kSide; ++r) {
    for (uint32_t c = 0; c < kSide; ++c) ASSERT_EQ(found[c * kSide + r], matrix[r * kSide + c]);
  }
}

TEST_F(ComputeMachine, MinAndMaxGiveNanWhenASourceIsNan) {
  put<float>(kFrom, {std::nanf(""), 2, 3, 1, std::nanf(""), 4});
  for (const unsigned operation : {NEURON_DMA_MIN, NEURON_DMA_MAX}) {
    packet({.operation = operation,
            .sources = 2,
            .scale = bits_of(operation == NEURON_DMA_MIN ? HUGE_VALF : -HUGE_VALF)},
           24, 12);
    run();
    const auto found = get<float>(kTo, 3);
    EXPECT_TRUE(std::isnan(found[0]));
    EXPECT_TRUE(std::isnan(found[1]));
    EXPECT_EQ(found[2], operation == NEURON_DMA_MIN ? 3.0f : 4.0f);
  }
}

TEST_F(ComputeMachine, TheConstantOfMinAndMaxTakesPartAndInfinityIsNeutral) {
  put<float>(kFrom, {-3, 5});
  packet({.operation = NEURON_DMA_MAX, .scale = bits_of(0.0f)}, 8, 8);  // relu
  run();
  EXPECT_EQ(get<float>(kTo, 2), (std::vector<float>{0, 5}));
  packet({.operation = NEURON_DMA_MAX, .scale = bits_of(-HUGE_VALF)}, 8, 8);
  run();
  EXPECT_EQ(get<float>(kTo, 2), (std::vector<float>{-3, 5}));
}

TEST_F(ComputeMachine, StochasticRoundingMovesTheMeanToTheTrueValue) {
  constexpr uint32_t kCount = 4096;
  put(kFrom, std::vector<float>(kCount, 1.0f + 1.0f / 512));  // a quarter of a bf16 step above 1
  const Meta meta{.from = NEURON_DTYPE_F32, .to = NEURON_DTYPE_BF16, .stochastic = true};
  m.engine.set_seed(7);
  packet(meta, 4 * kCount, 2 * kCount);
  run();
  const auto first = get<uint16_t>(kTo, kCount);
  const auto up = static_cast<double>(std::count(first.begin(), first.end(), 0x3F81)) / kCount;
  EXPECT_NEAR(up, 0.25, 0.03);
  EXPECT_EQ(std::count(first.begin(), first.end(), 0x3F80) + std::lround(up * kCount), kCount);
  packet(meta, 4 * kCount, 2 * kCount);
  run();
  EXPECT_NE(get<uint16_t>(kTo, kCount), first);  // other words
  // The host sets the queue up again: the same words.
  m.init(0, kRing);
  m2s = s2m = m2s_rung = s2m_rung = 0;
  packet(meta, 4 * kCount, 2 * kCount);
  run();
  EXPECT_EQ(get<uint16_t>(kTo, kCount), first);
}

TEST_F(ComputeMachine, PacketsOfTheLargestSizesAreExecuted) {
  // 64 data descriptors and metadata; 1,048,560 bytes.
  std::vector<uint16_t> numbers_in(1048560 / 2);
  for (size_t i = 0; i < numbers_in.size(); ++i) numbers_in[i] = static_cast<uint16_t>(i * 31);
  put(kFrom, numbers_in);
  metadata({.from = NEURON_DTYPE_U16, .to = NEURON_DTYPE_I16});
  for (uint32_t d = 0, at = 0; d < 64; ++d) {
    const uint32_t bytes = d == 63 ? 1048560 - at : 16384 - 2;
    data(NEURON_DMA_CAST, kFrom + at, bytes, d == 63);
    at += bytes;
  }
  for (uint32_t at = 0; at < 1048560; at += 65536) {
    result(kTo + at, std::min(65536u, 1048560 - at));
  }
  run();
  ASSERT_STREQ(fault(), "");
  const auto found = get<int16_t>(kTo, numbers_in.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i], std::min<int>(numbers_in[i], 32767)) << i;
  }
}

TEST_F(ComputeMachine, ResultsReachRegistersAsWords) {
  put<float>(kFrom, {3});
  metadata({.from = NEURON_DTYPE_F32, .to = NEURON_DTYPE_U32});
  data(NEURON_DMA_CAST, kFrom, 4, true);
  result(Machine::kSemaphores + NEURON_SEM_BLOCK_INC + 4 * 20, 4);
  run(Origin::kEngine);
  const DmaRun next = m.engine.next_run(0, 8);
  EXPECT_TRUE(next.registers);
  ASSERT_FALSE(m.engine.execute_run(0, next.packets, Access{}));
  EXPECT_EQ(m.semaphores.semaphore(20), 3u);
}

// --- model time ---

TEST_F(ComputeMachine, ComputeTakesTheTimeOfTheDocumentedShareOfACopy) {
  struct Case {
    Meta meta;
    uint32_t source, result;
    uint64_t bytes;
  };
  const uint64_t sbuf = NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(0);
  const Case cases[] = {
      {{.from = NEURON_DTYPE_BF16, .to = NEURON_DTYPE_F32}, 2048, 4096, 4096},
      {{.from = NEURON_DTYPE_F32, .to = NEURON_DTYPE_BF16}, 4096, 2048, 4096},
      {{.operation = NEURON_DMA_ADD, .sources = 4}, 4096, 1024, 8192},
      {{.operation = NEURON_DMA_ADD, .accumulate = true}, 1024, 1024, 4096},
      {{.operation = NEURON_DMA_TRANSPOSE, .rows = 16, .columns = 16}, 9216, 9216, 10240},
  };
  for (const Case& c : cases) {
    packet(c.meta, c.source, c.result);
    run(Origin::kEngine);
    const DmaRun next = m.engine.next_run(0, 1);
    EXPECT_EQ(next.packets, 1u);
    EXPECT_EQ(next.bytes, c.source);
    EXPECT_EQ(next.time_bytes, c.bytes);
    // One source, whose descriptor takes longer than the bytes; metadata takes none.
    EXPECT_EQ(m.engine.next_run(0, 1, 20'000).time_bytes, 20'000u);
    ASSERT_FALSE(m.engine.execute_run(0, 1, Access{}));
  }
  metadata({.operation = NEURON_DMA_TRANSPOSE, .rows = 16, .columns = 16});
  data(NEURON_DMA_TRANSPOSE, sbuf, 1024, true);
  result(sbuf + 0x10000, 1024);
  run(Origin::kEngine);
  EXPECT_EQ(m.engine.next_run(0, 1).time_bytes, 2048u);  // inside a core
}

// --- malformed packets ---

struct BrokenPacket {
  const char* name;
  std::function<void(std::vector<std::array<uint64_t, 2>>&)> change;  // of the M2S descriptors
  const char* rule;                                                   // part of the sentence
};

class BrokenCompute : public ComputeMachine, public testing::WithParamInterface<BrokenPacket> {};

TEST_P(BrokenCompute, FaultsWithASentenceAndWritesNothing) {
  // fma of two sources of 4 elements, each with its metadata.
  metadata({.operation = NEURON_DMA_FMA, .sources = 2, .scale = bits_of(2)});
  data(NEURON_DMA_FMA, kFrom, 16, false);
  metadata({.operation = NEURON_DMA_FMA, .sources = 2, .scale = bits_of(3), .first = false});
  data(NEURON_DMA_FMA, kFrom + 16, 16, true);
  result(kTo, 16);
  std::vector<std::array<uint64_t, 2>> ring(4);
  std::memcpy(ring.data(), m.memory(Machine::kRingM2s, 64), 64);
  GetParam().change(ring);
  std::memcpy(m.memory(Machine::kRingM2s, ring.size() * 16), ring.data(), ring.size() * 16);
  m2s = static_cast<uint32_t>(ring.size());
  m.fill(kTo, 64, 3);
  const auto before = get<uint8_t>(kTo, 64);
  run();
  ASSERT_EQ(m.listener.faults.size(), 1u);
  EXPECT_EQ(m.listener.faults[0].code, NEURON_FAULT_DMA_DESC);
  EXPECT_NE(m.listener.faults[0].describe().find(GetParam().rule), std::string::npos)
      << m.listener.faults[0].describe();
  EXPECT_EQ(get<uint8_t>(kTo, 64), before);
  EXPECT_EQ(m.read(m.base() + NEURON_UDMA_STATE), NEURON_UDMA_STATE_ABORT);
}

using Ring = std::vector<std::array<uint64_t, 2>>;
constexpr uint64_t kOperationMask = 15ull << 32, kFromMask = 63ull << 36, kToMask = 63ull << 42;

void set_operation(Ring& r, uint64_t operation) {
  for (const size_t d : {0, 2}) r[d][0] = (r[d][0] & ~kOperationMask) | operation << 32;
  for (const size_t d : {1, 3}) r[d][0] = (r[d][0] & ~(7ull << 52)) | operation << 52;
}

const BrokenPacket kBroken[] = {
    {"ReservedLow", [](Ring& r) { r[0][0] |= 1; }, "reserved bit"},
    {"ReservedHigh", [](Ring& r) { r[0][0] |= 1ull << 58; }, "reserved bit"},
    {"MetadataIsLast", [](Ring& r) { r[0][0] |= NEURON_DESC_LAST; }, "reserved bit"},
    {"OperationZero", [](Ring& r) { set_operation(r, 0); }, "the operation in the metadata"},
    {"OperationTen", [](Ring& r) { set_operation(r, 10); }, "the operation in the metadata"},
    {"TypeNone", [](Ring& r) { r[0][0] &= ~kFromMask; }, "a type in the metadata"},
    {"TypeOfGeneration4",
     [](Ring& r) { r[0][0] = (r[0][0] & ~kToMask) | uint64_t{NEURON_DTYPE_F8E4FN} << 42; },
     "a type in the metadata"},
    {"CastOfTwo",
     [](Ring& r) {
       set_operation(r, NEURON_DMA_CAST);
       r[0][1] = 0;
     },
     "one source and no accumulation"},
    {"ScaleOfAdd", [](Ring& r) { set_operation(r, NEURON_DMA_ADD); }, "must be zero"},
    {"RowsOfFma", [](Ring& r) { r[0][1] |= 4ull << 32; }, "only a transpose has rows"},
    {"TransposeWithoutColumns",
     [](Ring& r) {
       set_operation(r, NEURON_DMA_TRANSPOSE);
       r[0][0] &= ~(15ull << 49);
       r[0][1] = 4ull << 32;
     },
     "at least one row and one column"},
    {"TransposeOfTwoTypes",
     [](Ring& r) {
       set_operation(r, NEURON_DMA_TRANSPOSE);
       r[0][0] = (r[0][0] & ~(15ull << 49) & ~kToMask) | uint64_t{NEURON_DTYPE_BF16} << 42;
       r[0][1] = 2ull << 32 | 2ull << 48;
     },
     "keeps the data type"},
    {"TransposeThatRounds",
     [](Ring& r) {
       set_operation(r, NEURON_DMA_TRANSPOSE);
       r[0][0] = (r[0][0] & ~(15ull << 49)) | NEURON_DMA_META_STOCHASTIC;
       r[0][1] = 2ull << 32 | 2ull << 48;
     },
     "does not round"},
    {"TransposeOfHalfABlock",
     [](Ring& r) {
       set_operation(r, NEURON_DMA_TRANSPOSE);
       r[0][0] &= ~(15ull << 49);
       r[0][1] = 3ull << 32 | 3ull << 48;
       r = {r[0], r[1], r[3]};
     },
     "whole blocks"},
    {"TypeOfData", [](Ring& r) { r[1][0] ^= 1ull << 52; }, "the type in meta control"},
    {"CopyInside",
     [](Ring& r) { r[1][0] = (r[1][0] & 0xFFFFFFFF) | uint64_t{NEURON_META_DEFAULT} << 32; },
     "asks for something else"},
    {"Checksum", [](Ring& r) { r[1][0] |= 1ull << (32 + 14); }, "asks for something else"},
    {"DataWithoutMetadata",
     [](Ring& r) {
       r = {r[1], r[3]};
       r[0][0] |= NEURON_DESC_FIRST;
     },
     "no metadata descriptor opens"},
    {"SecondFirst", [](Ring& r) { r[2][0] |= NEURON_DESC_FIRST; }, "FIRST inside"},
    {"DataIsFirst", [](Ring& r) { r[1][0] |= NEURON_DESC_FIRST; }, "FIRST inside"},
    {"MetadataDiffers", [](Ring& r) { r[2][0] ^= NEURON_DMA_META_ACC; }, "more than the scale"},
    {"ScaleOfMaxChanges", [](Ring& r) { set_operation(r, NEURON_DMA_MAX); },
     "only the scale of fma"},
    {"MetadataInsideASource",
     [](Ring& r) {
       r[1][0] = (r[1][0] & ~0xFFFFull) | 8;
       r[3][0] = (r[3][0] & ~0xFFFFull) | 24;
     },
     "between two sources"},
    {"MetadataTwice",
     [](Ring& r) {
       const auto extra = r[2];
       r[0][0] |= 2ull << 49;  // 4 sources
       r[2][0] |= 2ull << 49;
       r.insert(r.begin() + 2, extra);
       r[2] = r[3];
     },
     "no data behind it"},
    {"MoreMetadataThanSources",
     [](Ring& r) {
       for (const size_t d : {0, 2}) r[d][0] &= ~(15ull << 49);
     },
     "more metadata descriptors than sources"},
    {"UnequalSources", [](Ring& r) { r[3][0] = (r[3][0] & ~0xFFFFull) | 12; }, "whole elements"},
    {"HalfAnElement",
     [](Ring& r) {
       r[1][0] = (r[1][0] & ~0xFFFFull) | 10;
       r[3][0] = (r[3][0] & ~0xFFFFull) | 10;
     },
     "whole elements"},
};

INSTANTIATE_TEST_SUITE_P(Rules, BrokenCompute, testing::ValuesIn(kBroken),
                         [](const auto& info) { return info.param.name; });

TEST_F(ComputeMachine, AResultBeyondAMebibyteIsRefused) {
  metadata({.from = NEURON_DTYPE_U8, .to = NEURON_DTYPE_F32});
  for (int d = 0; d < 5; ++d) data(NEURON_DMA_CAST, kFrom, 0, d == 4);  // 320 KiB become 1280
  for (int d = 0; d < 20; ++d) result(kTo, 0);
  run();
  EXPECT_NE(std::string(fault()).find("more than 1048575 bytes"), std::string::npos);
}

TEST_F(ComputeMachine, AnUnmappedSourceOrDestinationIsABusFaultOfItsDescriptor) {
  metadata({.operation = NEURON_DMA_ADD, .accumulate = true});
  data(NEURON_DMA_ADD, kFrom, 16, false);
  data(NEURON_DMA_ADD, uint64_t{Machine::kStack} * 4, 16, true);
  result(kTo, 32);
  run();
  ASSERT_EQ(m.listener.faults.size(), 1u);
  EXPECT_EQ(m.listener.faults[0].code, NEURON_FAULT_DMA_BUS);
  EXPECT_EQ(m.listener.faults[0].index, 2u);
  EXPECT_FALSE(m.listener.faults[0].s2m);
  m.init(0, kRing);
  m2s = s2m = m2s_rung = s2m_rung = 0;
  packet({.operation = NEURON_DMA_ADD, .accumulate = true}, 16, 8);
  result(uint64_t{Machine::kStack} * 4, 8);
  run();
  ASSERT_EQ(m.listener.faults.size(), 2u);
  EXPECT_EQ(m.listener.faults[1].code, NEURON_FAULT_DMA_BUS);
  EXPECT_TRUE(m.listener.faults[1].s2m);
  EXPECT_EQ(m.listener.faults[1].index, 1u);
}

TEST_F(ComputeMachine, ARefusedDestinationLeavesWhatLiesBeforeItWritten) {
  put<float>(kFrom, {1, 2});
  metadata({.operation = NEURON_DMA_ADD});
  data(NEURON_DMA_ADD, kFrom, 8, true);
  result(kTo, 4);
  result(uint64_t{Machine::kStack} * 4, 4);
  run();
  ASSERT_EQ(m.listener.faults.size(), 1u);
  EXPECT_EQ(get<float>(kTo, 1)[0], 1.0f);
}

TEST_F(ComputeMachine, AGroupIsToldThatAnotherThreadServesTheQueue) {
  // The host's packet reads a register whose read is the group's attempt to serve the same queue.
  struct Probe final : RegisterTarget {
    explicit Probe(UdmaEngine& of) : engine(of) {}
    bool accepts(uint64_t, uint64_t, bool, const Access&) override { return true; }
    uint32_t read_word(uint64_t, const Access&) override {
      std::thread([this] { refused = !engine.try_execute_run(0, 1, Access{}, 0); }).join();
      return 42;
    }
    void write_word(uint64_t, uint32_t, const Access&) override {}
    UdmaEngine& engine;
    bool refused = false;
  } probe(m.engine);
  constexpr uint64_t kProbe = NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(1);
  m.bus.attach(kProbe, 4, &probe, "probe");
  m.source(0, kProbe, 4);
  m.destination(0, kTo, 4);
  m.ring(0, 1, 1);
  EXPECT_TRUE(probe.refused);
  EXPECT_EQ(get<uint32_t>(kTo, 1)[0], 42u);
  EXPECT_TRUE(m.engine.try_execute_run(0, 1, Access{}, 0));  // nothing left, nobody serves
}

}  // namespace
}  // namespace neuron::chip
