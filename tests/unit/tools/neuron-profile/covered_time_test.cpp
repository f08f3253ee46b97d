// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/covered_time.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/files.h"
#include "tools/neuron-profile/analysis/summary.h"
#include "tools/neuron-profile/analysis/timeline.h"

namespace neuron::profile {
namespace {

TEST(CoveredTimeTest, CountsGapsAsGapsWhateverOrderTheIntervalsComeIn) {
  CoveredTime time;
  time.add(100, 110);
  time.add(200, 210);
  time.add(105, 107);  // within the first: what lies between the two stays a gap
  time.add(0, 0);
  time.add(50, 101);
  EXPECT_EQ(time.total(), 70u);
  EXPECT_EQ(time.error(), 0u);
}

TEST(CoveredTimeTest, AgreesWithAMapOfEveryPicosecondOnRandomIntervals) {
  std::mt19937 random(7);
  for (int turn = 0; turn < 20; ++turn) {
    CoveredTime time;
    std::vector<bool> covered(200'000);
    for (int n = 0; n < 12'000; ++n) {
      const size_t begin = random() % (covered.size() - 20), end = begin + random() % 16;
      time.add(begin, end);
      std::fill(covered.begin() + static_cast<ptrdiff_t>(begin),
                covered.begin() + static_cast<ptrdiff_t>(end), true);
    }
    ASSERT_EQ(time.total(),
              static_cast<uint64_t>(std::count(covered.begin(), covered.end(), true)));
  }
}

TEST(CoveredTimeTest, WithTooManyPiecesSaysHowMuchItMayBeWrong) {
  CoveredTime time(1000);
  for (uint64_t n = 0; n < 20'000; ++n) time.add(100 * n, 100 * n + 30);
  const uint64_t exact = 20'000 * 30;
  EXPECT_GT(time.total(), exact);
  EXPECT_LE(time.total(), exact + time.error());
}

// A profile with one execution on an engine of `of_ring[0]` instructions, on another one of
// `of_ring[1]`, whose entries come behind those of the first.
class ProfileOfRings : public ::testing::Test {
 protected:
  Profile make(const std::vector<std::vector<std::pair<uint64_t, uint64_t>>>& rings) {
    const std::string path = folder_.path("p.ntff");
    {
      auto file = ntff::TraceFileWriter::create(path);
      EXPECT_TRUE(file);
      EXPECT_TRUE(file->write(ntff::ChunkKind::kModel, {},
                              R"({"part":0,"name":"m","uuid":"","hash":1,"generation":2})"));
      for (uint32_t slot = 0; slot < rings.size(); ++slot) {
        std::vector<neuron_notification> entries;
        for (const auto& [begin, end] : rings[slot]) {
          neuron_notification entry{};
          entry.word = NEURON_NK_TRACE << NEURON_NW_KIND_SHIFT | NEURON_OP_TENSOR_COPY
                                                                     << NEURON_NW_OPCODE_SHIFT;
          entry.time = end;
          entry.info[0] = static_cast<uint32_t>(end - begin);
          entries.push_back(entry);
        }
        EXPECT_TRUE(file->write(ntff::ChunkKind::kEntries, {.part = 0, .index = slot},
                                {reinterpret_cast<const uint8_t*>(entries.data()),
                                 entries.size() * sizeof(entries[0])}));
      }
      EXPECT_TRUE(
          file->write(ntff::ChunkKind::kExecution, {}, R"({"exec_id":1,"device_ps":1000000000})"));
      EXPECT_TRUE(file->write(ntff::ChunkKind::kEnd, {}, "{}"));
    }
    auto profile = Profile::open(path);
    EXPECT_TRUE(profile) << (profile ? "" : profile.error().sentence);
    return std::move(*profile);
  }
  test::Folder folder_;
};

TEST_F(ProfileOfRings, TheActiveTimeOfAllEnginesIsThatOfTheirUnion) {
  Profile profile = make({{{1000, 2000}, {9000, 9500}}, {{1500, 2500}, {4000, 4100}}});
  const auto summary = summarize(profile, 0, 0);
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->active, 1500u + 100 + 500);
}

TEST_F(ProfileOfRings, AnExecutionThatIsSaidToBeLikeOneThatDoesNotExistIsRefused) {
  const std::string path = folder_.path("p.ntff");
  {
    auto file = ntff::TraceFileWriter::create(path);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(ntff::ChunkKind::kModel, {}, R"({"part":0,"generation":2})"));
    ASSERT_TRUE(file->write(ntff::ChunkKind::kExecution, {}, R"({"exec_id":1,"same_as":0})"));
  }
  const auto profile = Profile::open(path);
  ASSERT_FALSE(profile);
  EXPECT_NE(profile.error().sentence.find("is the same as execution 0"), std::string::npos)
      << profile.error().sentence;
}

TEST_F(ProfileOfRings, ATimelineHasNoMoreEventsThanAskedForAndKeepsTheNewest) {
  std::vector<std::pair<uint64_t, uint64_t>> many;
  for (uint64_t n = 1; n <= 5000; ++n) many.emplace_back(100 * n, 100 * n + 50);
  Profile profile = make({many, many, many});
  const auto timeline = Timeline::read(profile, 0, 0, 3000);
  ASSERT_TRUE(timeline);
  EXPECT_FALSE(timeline->whole);
  size_t kept = 0;
  for (const auto& list : timeline->instructions) {
    kept += list.size();
    if (!list.empty()) {
      EXPECT_EQ(list.back().end, 500'050u);
    }
  }
  EXPECT_LE(kept, 3000u);
  EXPECT_GT(kept, 500u);
  for (size_t slot = 0; slot < 3; ++slot) EXPECT_FALSE(timeline->instructions[slot].empty());
  const auto whole = Timeline::read(profile, 0, 0, 20'000);
  ASSERT_TRUE(whole);
  EXPECT_TRUE(whole->whole);
  EXPECT_EQ(whole->instructions[1].size(), 5000u);
}

}  // namespace
}  // namespace neuron::profile
