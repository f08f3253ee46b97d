// SPDX-License-Identifier: Apache-2.0
// Random rings against a byte-by-byte interpreter: same memory, same heads, whether the host or an
// execution group takes them, in whatever runs.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

constexpr uint64_t kArena = 0x1000000;
constexpr uint32_t kArenaBytes = 0x40000;
constexpr uint32_t kShortRing = 96;

struct Copy {
  std::vector<std::pair<uint32_t, uint32_t>> sources;  // offset in the arena, bytes
  std::vector<std::pair<uint32_t, uint32_t>> destinations;
};

// What the rings mean, with nothing clever in it. Pieces end where either side's descriptor ends
// and each is read before it is written.
void interpret(const Copy& copy, std::vector<std::byte>& memory) {
  size_t s = 0, d = 0;
  uint32_t in_source = 0, in_destination = 0;
  while (s < copy.sources.size()) {
    const uint32_t bytes =
        std::min(copy.sources[s].second - in_source, copy.destinations[d].second - in_destination);
    std::vector<std::byte> piece(bytes);
    for (uint32_t i = 0; i < bytes; ++i) piece[i] = memory[copy.sources[s].first + in_source + i];
    for (uint32_t i = 0; i < bytes; ++i) {
      memory[copy.destinations[d].first + in_destination + i] = piece[i];
    }
    in_source += bytes;
    in_destination += bytes;
    if (in_source == copy.sources[s].second) ++s, in_source = 0;
    if (in_destination == copy.destinations[d].second) ++d, in_destination = 0;
  }
}

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}
  uint32_t below(uint32_t bound) { return random_() % bound; }

  Copy next() {
    Copy copy;
    if (below(4) != 0) {  // one descriptor each side, often continuing the last
      const uint32_t bytes = below(8) == 0 ? 4 : 1 + below(3000);
      if (below(3) == 0 || from_ + bytes > kArenaBytes || to_ + bytes > kArenaBytes) {
        from_ = below(kArenaBytes - bytes);
        to_ = below(kArenaBytes - bytes);
      }
      copy.sources = {{from_, bytes}};
      copy.destinations = {{to_, bytes + (below(10) == 0 ? below(50) : 0)}};
      from_ += bytes;
      to_ += bytes;
    } else {
      uint32_t total = 0;
      for (uint32_t i = 1 + below(8); i != 0; --i) {
        const uint32_t bytes = 1 + below(500);
        copy.sources.emplace_back(below(kArenaBytes - bytes), bytes);
        total += bytes;
      }
      for (uint32_t room = 0; room < total;) {
        const uint32_t bytes = 1 + below(1000);
        copy.destinations.emplace_back(below(kArenaBytes - bytes), bytes);
        room += bytes;
      }
    }
    return copy;
  }

 private:
  std::mt19937 random_;
  uint32_t from_ = 0;
  uint32_t to_ = kArenaBytes / 2;
};

class UdmaDifferential : public testing::TestWithParam<bool> {};

TEST_P(UdmaDifferential, RandomRingsGiveTheBytesOfTheInterpreter) {
  const bool by_group = GetParam();
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    Machine m(by_group ? 0 : 32);
    m.init(0, kShortRing);
    m.fill(kArena, kArenaBytes, seed);
    std::vector<std::byte> expected(m.memory(kArena, kArenaBytes),
                                    m.memory(kArena, kArenaBytes) + kArenaBytes);
    Generator random(seed);
    uint32_t m2s = 0, s2m = 0;
    for (int batch = 0; batch < 20; ++batch) {
      uint32_t new_m2s = 0, new_s2m = 0;
      while (true) {
        const Copy copy = random.next();
        if (new_m2s + copy.sources.size() > kShortRing ||
            new_s2m + copy.destinations.size() > kShortRing) {
          break;
        }
        interpret(copy, expected);
        for (size_t i = 0; i < copy.sources.size(); ++i, ++new_m2s) {
          const uint32_t at = m2s + new_m2s;
          m.source(at % kShortRing, kArena + copy.sources[i].first, copy.sources[i].second,
                   (i == 0 ? NEURON_DESC_FIRST : 0u) |
                       (i + 1 == copy.sources.size() ? NEURON_DESC_LAST : 0u),
                   (1 + at / kShortRing) & 3);
        }
        for (size_t i = 0; i < copy.destinations.size(); ++i, ++new_s2m) {
          const uint32_t at = s2m + new_s2m;
          m.destination(at % kShortRing, kArena + copy.destinations[i].first,
                        copy.destinations[i].second, 0, (1 + at / kShortRing) & 3);
        }
      }
      m.ring(0, new_s2m, new_m2s, by_group ? Origin::kEngine : Origin::kHost);
      while (by_group) {
        const DmaRun run = m.engine.next_run(0, 1 + random.below(40));
        if (run.packets == 0) break;
        ASSERT_FALSE(m.engine.execute_run(0, run.packets, Access{}));
      }
      m2s += new_m2s;
      s2m += new_s2m;
      ASSERT_EQ(m.get(0, false, NEURON_UDMAQ_HEAD), m2s % kShortRing | ((1 + m2s / kShortRing) & 3)
                                                                           << 30);
      ASSERT_EQ(m.get(0, true, NEURON_UDMAQ_HEAD), s2m % kShortRing | ((1 + s2m / kShortRing) & 3)
                                                                          << 30);
      ASSERT_EQ(0, std::memcmp(expected.data(), m.memory(kArena, kArenaBytes), kArenaBytes))
          << "seed " << seed << " batch " << batch;
    }
    ASSERT_TRUE(m.listener.faults.empty()) << m.listener.faults[0].describe();
    ASSERT_EQ(m.engine.ring_id_mismatches(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Executors, UdmaDifferential, testing::Bool(),
                         [](const auto& info) { return info.param ? "Group" : "Host"; });

// One piece of 50 MiB with odd ends, through the copy that large pieces take.
TEST(UdmaLargeCopy, GivesEveryByteWhateverTheAlignment) {
  for (const uint32_t shift : {0u, 3u}) {
    Machine m(32);
    m.init(0, 1024);
    const uint64_t from = 0x800000 + 1;
    const uint64_t to = NEURON_V2_HBM_STRIDE + shift;
    constexpr uint32_t kDescriptors = 800;  // 50 MiB
    m.fill(from, size_t{kDescriptors} << 16, shift);
    for (uint32_t i = 0; i < kDescriptors; ++i) {
      m.copy(i, from + (uint64_t{i} << 16), to + (uint64_t{i} << 16), 0x10000);
    }
    m.ring(0, kDescriptors, kDescriptors);
    EXPECT_TRUE(m.equal(from, to, size_t{kDescriptors} << 16));
    EXPECT_EQ(*m.memory(to + (uint64_t{kDescriptors} << 16)), std::byte{0});
  }
}

}  // namespace
}  // namespace neuron::chip
