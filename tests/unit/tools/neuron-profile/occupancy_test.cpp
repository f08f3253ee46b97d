// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/occupancy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neuron::profile {
namespace {

struct Stayed {
  uint32_t begin, end;
  uint64_t from, to, writer;
  unsigned partition;
  bool operator==(const Stayed&) const = default;
};
void PrintTo(const Stayed& one, std::ostream* out) {
  *out << "[" << one.begin << ", " << one.end << ") of " << one.partition << " from " << one.from
       << " to " << one.to << " by " << one.writer;
}

class OccupancyOfSbuf : public ::testing::Test {
 protected:
  void write(uint32_t begin, uint32_t end, uint64_t from, uint64_t writer) {
    occupancy_.add(
        {.space = NEURON_SPACE_SBUF, .parts = 32, .write = true, .begin = begin, .end = end}, from,
        from + 10, writer);
  }
  void read(uint32_t begin, uint32_t end, uint64_t from) {
    occupancy_.add({.space = NEURON_SPACE_SBUF, .parts = 32, .begin = begin, .end = end}, from,
                   from + 10, Occupancy::kNobody);
  }
  std::vector<Stayed> all() {
    occupancy_.finish();
    return stays_;
  }
  std::vector<Stayed> stays_;
  Occupancy occupancy_{[this](const Occupancy::Stay& one) {
    stays_.push_back({one.begin, one.end, one.from, one.to, one.writer, one.partition});
  }};
};

TEST_F(OccupancyOfSbuf, LastsFromTheWriteToTheLastReadBeforeTheNextWrite) {
  write(0, 100, 1000, 1);
  read(0, 50, 2000);
  read(0, 100, 3000);
  write(0, 100, 4000, 2);
  EXPECT_THAT(stays_, ::testing::ElementsAre(Stayed{0, 100, 1000, 3010, 1, 0}));
  EXPECT_EQ(all().back(), (Stayed{0, 100, 4000, 4010, 2, 0})) << "what nobody reads: the write";
}

TEST_F(OccupancyOfSbuf, EndsOnlyForTheBytesThatAreWrittenAgain) {
  write(0, 100, 1000, 1);
  write(40, 60, 2000, 2);
  EXPECT_THAT(stays_, ::testing::ElementsAre(Stayed{40, 60, 1000, 1010, 1, 0}));
  read(0, 100, 3000);
  EXPECT_THAT(all(), ::testing::ElementsAre(
                         Stayed{40, 60, 1000, 1010, 1, 0}, Stayed{0, 40, 1000, 3010, 1, 0},
                         Stayed{40, 60, 2000, 3010, 2, 0}, Stayed{60, 100, 1000, 3010, 1, 0}));
}

TEST_F(OccupancyOfSbuf, OfBytesThatNobodyIsKnownToHaveWrittenBeginsWithTheirFirstRead) {
  write(20, 40, 1000, 1);
  read(0, 60, 2000);
  read(0, 10, 3000);
  EXPECT_THAT(all(), ::testing::ElementsAre(Stayed{0, 20, 2000, 3010, Occupancy::kNobody, 0},
                                            Stayed{20, 40, 1000, 2010, 1, 0},
                                            Stayed{40, 60, 2000, 2010, Occupancy::kNobody, 0}));
}

TEST_F(OccupancyOfSbuf, IsLookedAtInEveryThirtySecondPartition) {
  occupancy_.add(
      {.space = NEURON_SPACE_SBUF, .start = 33, .parts = 95, .write = true, .begin = 0, .end = 8},
      0, 1, 7);
  EXPECT_THAT(all(), ::testing::ElementsAre(Stayed{0, 8, 0, 1, 7, 64}, Stayed{0, 8, 0, 1, 7, 96}));
}

// An accumulation in PSUM adds to what is there.
TEST_F(OccupancyOfSbuf, GoesOnWhileWritesAddToIt) {
  const auto add = [&](uint64_t from, bool keeps) {
    occupancy_.add({.space = NEURON_SPACE_PSUM,
                    .parts = 1,
                    .write = true,
                    .keeps = keeps,
                    .begin = 0,
                    .end = 64},
                   from, from + 10, from);
  };
  add(100, false);
  add(200, true);
  add(300, true);
  EXPECT_THAT(all(), ::testing::ElementsAre(Stayed{0, 64, 100, 310, 100, 0}));
}

}  // namespace
}  // namespace neuron::profile
