// SPDX-License-Identifier: Apache-2.0
//
// Buffers that lie in rows: how transfers are cut at them, and whole collectives over them.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ccom/device/ring_writer.h"
#include "ccom/plan/planner.h"
#include "tests/unit/ccom/device/device_model.h"
#include "tests/unit/ccom/proof/written_schedule.h"

namespace neuron::ccom {
namespace {

TEST(BufferPlace, PutsRowsOnePartitionAfterTheOtherAndFurtherBlocksBesideThem) {
  const BufferPlace place(0x100, 8, 3, 0x1000);
  EXPECT_EQ(place.at(0), 0x100u);
  EXPECT_EQ(place.at(7), 0x107u);
  EXPECT_EQ(place.at(8), 0x1100u);
  EXPECT_EQ(place.at(23), 0x2107u);
  EXPECT_EQ(place.at(24), 0x108u);  // behind row 0
  EXPECT_EQ(place.at(33), 0x1109u);
  EXPECT_EQ(place.run(0), 8u);
  EXPECT_EQ(place.run(13), 3u);
  EXPECT_EQ(BufferPlace(0x100, 8, 1, 0x1000).run(13), UINT64_MAX);
  EXPECT_EQ(BufferPlace(0x100, 8, 1, 0x1000).at(13), 0x10Du);
}

TEST(BufferPlace, GivesBytesOfRowsNumbersThatOverlapNothingElse) {
  RankBuffers buffers{{0x100, 8, 3, 0x1000}, {0x108, 8, 3, 0x1000}, 0x200};
  EXPECT_NE(buffers.number({Buffer::kInput, 8}), buffers.number({Buffer::kOutput, 0}));
  EXPECT_EQ(buffers.number({Buffer::kScratch, 4}), 0x204u);
  EXPECT_EQ(buffers.number({Buffer::kInput, 9}), buffers.number({Buffer::kInput, 0}) + 9);
  buffers.output = buffers.input;  // in place
  EXPECT_EQ(buffers.number({Buffer::kInput, 8}), buffers.number({Buffer::kOutput, 8}));
}

struct Random {
  std::mt19937_64 engine{4711};
  uint64_t below(uint64_t bound) { return engine() % bound; }
};

// A place of up to 4096 bytes behind `base`; addresses in it are unique.
BufferPlace random_place(Random& random, uint64_t base, uint64_t element) {
  if (random.below(3) == 0) return base + random.below(64);
  const uint64_t row = element * (1 + random.below(40));
  const uint64_t rows = 1 + random.below(9);
  const uint64_t blocks = 4096 / (row * rows) + 1;
  return {base + random.below(64), row, rows, row * blocks + random.below(100)};
}

uint64_t length_of(const Descriptor& d) {
  const uint64_t length = d.control & NEURON_DESC_LENGTH_MASK;
  return length == 0 ? 0x10000 : length;
}

struct Byte {
  uint64_t from = 0, to = 0;
  bool operator==(const Byte&) const = default;
};

constexpr uint64_t kOne = 0x10, kSemaphore = 0x20;

// What the copies in the rings do, byte by byte; words to semaphores are counted only.
std::vector<Byte> copied(const std::array<DescriptorRing, kDmaEngines>& rings, uint32_t& words) {
  std::vector<Byte> bytes;
  for (const DescriptorRing& ring : rings) {
    EXPECT_EQ(ring.m2s.size(), ring.s2m.size());
    for (size_t i = 0; i < ring.m2s.size(); ++i) {
      EXPECT_EQ(length_of(ring.m2s[i]), length_of(ring.s2m[i]));
      if (ring.m2s[i].address == kOne) {
        ++words;
        continue;
      }
      for (uint64_t b = 0; b < length_of(ring.m2s[i]); ++b) {
        bytes.push_back({ring.m2s[i].address + b, ring.s2m[i].address + b});
      }
    }
  }
  return bytes;
}

TEST(RingWriter, MovesEachByteOnceFromItsPlaceToItsPlaceWhateverTheRows) {
  Random random;
  for (int turn = 0; turn < 300; ++turn) {
    const Region from{random_place(random, 0x10000, 1), random.below(700)};
    const Region to{random_place(random, 0x900000, 1), random.below(700)};
    const uint64_t bytes = 1 + random.below(2500);
    std::array<DescriptorRing, kDmaEngines> rings;
    RingWriter writer(rings, 0x00FF, kOne);
    const TriggerCounts counts = writer.copy(from, to, bytes, std::array{kSemaphore});
    EXPECT_FALSE(writer.overflowed());
    uint32_t words = 0;
    const std::vector<Byte> found = copied(rings, words);
    EXPECT_EQ(words, writer.parts(bytes));
    ASSERT_EQ(found.size(), bytes) << turn;
    for (uint64_t b = 0; b < bytes; ++b) {
      ASSERT_EQ(found[b], (Byte{from.at(b), to.at(b)})) << turn << " byte " << b;
    }
    uint32_t counted = 0;
    for (const uint16_t n : counts.m2s) counted += n;
    size_t written = 0;
    for (const DescriptorRing& ring : rings) written += ring.m2s.size();
    EXPECT_EQ(counted, written);
  }
}

TEST(RingWriter, GivesEachPacketOfAReductionTheSameElementsOfAllOperands) {
  Random random;
  for (int turn = 0; turn < 200; ++turn) {
    constexpr struct {
      uint8_t type;
      uint32_t bytes;
    } kTypes[] = {
        {NEURON_DTYPE_I8, 1}, {NEURON_DTYPE_BF16, 2}, {NEURON_DTYPE_F32, 4}, {NEURON_DTYPE_I64, 8}};
    const auto [type, element] = kTypes[turn % 4];
    const auto sources_count = 1 + random.below(9);
    std::vector<Region> sources;
    for (uint64_t s = 0; s < sources_count; ++s) {
      sources.push_back(
          {random_place(random, 0x100000 * (s + 1), element), element * random.below(150)});
    }
    const Region to{random_place(random, 0x9000000, element), element * random.below(150)};
    const uint64_t bytes = element * (1 + random.below(500));
    std::array<DescriptorRing, kDmaEngines> rings;
    RingWriter writer(rings, 0xFFFF, kOne);
    writer.combine({NEURON_DMA_REDUCE_SUM, type, element, 0}, sources, to, bytes,
                   std::array{kSemaphore});
    uint64_t at = 0;
    const DescriptorRing& ring = rings[0];  // fewer bytes than a second engine would take
    size_t target = 0;
    for (size_t i = 0; ring.m2s[i].address != kOne; i += sources_count + 1) {
      ASSERT_NE(ring.m2s[i].control & NEURON_DESC_META, 0u);
      const uint64_t length = length_of(ring.s2m[target]);
      EXPECT_EQ(length % element, 0u);
      for (uint64_t s = 0; s < sources_count; ++s) {
        const Descriptor& d = ring.m2s[i + 1 + s];
        ASSERT_EQ(length_of(d), length);
        ASSERT_EQ(d.address, sources[s].at(at));
        ASSERT_GE(sources[s].run(at), length);
      }
      ASSERT_EQ(ring.s2m[target++].address, to.at(at));
      ASSERT_GE(to.run(at), length);
      at += length;
    }
    EXPECT_EQ(at, bytes);
  }
}

TEST(RingWriter, SaysThatRowsAreTooShortInsteadOfWritingMillionsOfDescriptors) {
  std::array<DescriptorRing, kDmaEngines> rings;
  RingWriter writer(rings, 0x0001, kOne);
  writer.copy({BufferPlace(0, 1, 128, 0x40000), 0}, {BufferPlace(0x10000000), 0}, 24u << 20,
              std::array{kSemaphore});
  EXPECT_TRUE(writer.overflowed());
  EXPECT_LT(rings[0].m2s.size(), 70000u);
}

// Collectives of four ranks over rows in the small memories of the model.
constexpr uint32_t kRanks = 4;

enum class Where { kHbm, kRows };

RankBuffers buffers_in(Rank rank, Where input, Where output, bool in_place) {
  const uint64_t base = base_of(rank);
  RankBuffers buffers = buffers_of(rank, in_place);
  // Interleaved: rows of the input and of the output in the same "partitions".
  if (input == Where::kRows) buffers.input = {base + kInputAt, 96, 16, 0x4000};
  if (output == Where::kRows) buffers.output = {base + kInputAt + 0x2000, 32, 11, 0x4000};
  if (in_place) buffers.output = buffers.input;
  return buffers;
}

struct Shape {
  ccom_operation_t operation;
  Where input, output;
  bool in_place = false;
};

class Rows : public testing::TestWithParam<Shape> {};

// The same collective with buffers in one piece is the truth; that one is proved elsewhere.
std::vector<std::vector<std::byte>> outputs(const Shape& shape, ccom_algorithm_t algorithm,
                                            uint64_t count, const Plan& plan, unsigned seed) {
  std::vector<DeviceProgram> programs;
  std::vector<RankBuffers> places;
  for (Rank r = 0; r < kRanks; ++r) {
    places.push_back(buffers_in(r, shape.input, shape.output, shape.in_place));
  }
  for (Rank r = 0; r < kRanks; ++r) {
    DeviceCollective collective;
    collective.schedule = plan.schedule.get();
    collective.window = plan.window;
    collective.name = "collective";
    collective.rank = r;
    for (Rank other = 0; other < kRanks; ++other) {
      collective.world.push_back(other);
      collective.places.push_back(place_of(other));
      collective.buffers.push_back(places[other]);
    }
    collective.done = {{base_of(r) + kDoneAt, 1}};
    const StreamPlace stream{place_of(r), kDoorbell, kDoorbell + 0x20000,
                             0x40000,     0xFFFF,    base_of(r) + kOneAt};
    auto program = compile_stream(stream, {collective});
    EXPECT_TRUE(program) << (program ? "" : program.error().sentence);
    if (!program) return {};
    programs.push_back(std::move(*program));
  }
  DeviceModel model(std::move(programs), seed);
  const auto byte_at = [&](Rank r, const BufferPlace& place, uint64_t b) -> std::byte& {
    return model.memory(r)[place.at(b) - base_of(r)];
  };
  for (Rank r = 0; r < kRanks; ++r) {
    for (uint64_t i = 0; i < count * kRanks; ++i) {
      const float value = static_cast<float>(r + 1) * 0.37f + static_cast<float>(i % 251) * 1.13f;
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      for (uint64_t b = 0; b < 4; ++b) byte_at(r, places[r].input, i * 4 + b) = bytes[b];
    }
  }
  for (Rank r = 0; r < kRanks; ++r) model.go(r);
  EXPECT_EQ(model.run(), "") << algorithm;
  EXPECT_EQ(model.check_rest(), "") << algorithm;
  std::vector<std::vector<std::byte>> result(kRanks);
  for (Rank r = 0; r < kRanks; ++r) {
    EXPECT_EQ(model.done(r), 1u);
    for (uint64_t b = 0; b < plan.schedule->output_bytes(r); ++b) {
      result[r].push_back(byte_at(r, places[r].output, b));
    }
  }
  return result;
}

TEST_P(Rows, GiveTheBytesOfBuffersInOnePiece) {
  constexpr uint64_t kCount = 149;  // no whole number of rows
  const Shape& shape = GetParam();
  Request request{.operation = shape.operation,
                  .type = CCOM_FP32,
                  .root = 2,
                  .in_place = shape.in_place,
                  .count = kCount};
  if (shape.operation == CCOM_PERMUTE) request.pairs = {{0, 3}, {3, 1}, {1, 0}};
  Group group{{}, Topology(*Topology::profile("trn1.32xlarge"), 1)};
  for (Rank r = 0; r < kRanks; ++r) group.places.push_back(group.topology.place(r));
  CostParameters costs;
  costs.medium = Medium::kDevice;
  const Planner planner(group, costs);
  unsigned compared = 0;
  unsigned number = 0;
  for (const ccom_algorithm_t algorithm : planner.candidates(request)) {
    // With one side in HBM every third is enough.
    if (shape.input != shape.output && number++ % 3 != 0) continue;
    request.algorithm = algorithm;
    auto plan = planner.plan(request);
    ASSERT_TRUE(plan) << plan.error().sentence;
    const Shape plain{shape.operation, Where::kHbm, Where::kHbm, shape.in_place};
    const auto wanted = outputs(plain, algorithm, kCount, *plan, 5);
    EXPECT_EQ(outputs(shape, algorithm, kCount, *plan, 6), wanted) << algorithm;
    ++compared;
  }
  EXPECT_GT(compared, 0u);
}

TEST(Compiler, WritesBothResultsOfADuplicateWhereverTheyLie) {
  constexpr uint64_t kCount = 365;
  const Shape rows{CCOM_ALL_GATHER, Where::kRows, Where::kRows};
  Request request{.operation = CCOM_ALL_GATHER, .type = CCOM_FP32, .count = kCount};
  Group group{{}, Topology(*Topology::profile("trn1.32xlarge"), 1)};
  for (Rank r = 0; r < kRanks; ++r) group.places.push_back(group.topology.place(r));
  CostParameters costs;
  costs.medium = Medium::kDevice;
  for (const auto algorithm : {CCOM_MESH, CCOM_RECURSIVE}) {
    request.algorithm = algorithm;
    auto plan = Planner(group, costs).plan(request);
    ASSERT_TRUE(plan) << plan.error().sentence;
    const auto wanted = outputs(rows, algorithm, kCount, *plan, 5);
    auto schedule = std::make_shared<WrittenSchedule>(*plan->schedule);
    ASSERT_GE(send_duplicates(*schedule), kRanks);
    plan->schedule = schedule;
    EXPECT_EQ(outputs(rows, algorithm, kCount, *plan, 7), wanted) << algorithm;
  }
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const ccom_operation_t operation :
       {CCOM_ALL_REDUCE, CCOM_ALL_GATHER, CCOM_REDUCE_SCATTER, CCOM_ALL_TO_ALL, CCOM_BROADCAST,
        CCOM_REDUCE, CCOM_GATHER, CCOM_SCATTER, CCOM_PERMUTE}) {
    all.push_back({operation, Where::kRows, Where::kRows});
    all.push_back({operation, Where::kRows, Where::kHbm});
    all.push_back({operation, Where::kHbm, Where::kRows});
    if (operation == CCOM_ALL_REDUCE || operation == CCOM_REDUCE_SCATTER) {
      all.push_back({operation, Where::kRows, Where::kRows, true});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Operations, Rows, testing::ValuesIn(shapes()));

}  // namespace
}  // namespace neuron::ccom
