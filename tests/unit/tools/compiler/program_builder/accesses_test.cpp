// SPDX-License-Identifier: Apache-2.0
// Accesses, which finds what overlaps by place and size, gives the points that a list of all
// accesses gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tools/compiler/program_builder/ordering.h"

namespace neuron::builder {
namespace {

class ListOfAll {
 public:
  std::vector<uint64_t> conflicts(const Region& region, bool write) const {
    std::vector<uint64_t> issues;
    for (const Entry& entry : entries_) {
      if ((write || entry.write) && entry.region.overlaps(region)) {
        issues.push_back(entry.point.issue);
      }
    }
    return issues;
  }
  void record(const Region& region, bool write, const Point& point) {
    std::erase_if(entries_, [&](const Entry& entry) {
      if (!region.contains(entry.region)) return false;
      return write || (!entry.write && entry.point.agent == point.agent);
    });
    entries_.push_back({region, write, point});
  }

 private:
  struct Entry {
    Region region;
    bool write = false;
    Point point;
  };
  std::vector<Entry> entries_;
};

Region some_region(std::mt19937& random) {
  const auto below = [&](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  Region region;
  region.space = static_cast<uint8_t>(1 + below(3));
  const bool on_chip = region.space != Region::kHbm;
  region.start = on_chip ? below(4) * 32 : below(3);
  region.parts = on_chip ? 32 * (1 + below(4 - region.start / 32)) : 1;
  region.first = 200 + below(2000);
  region.end = region.first + 1 + (random() % 8 == 0 ? below(2000) : below(64));
  if (random() % 6 == 0) {
    region.pitch = 256;
    region.run = 1 + below(128);
    region.end = region.first + 256ull * (1 + below(6)) + region.run;
  }
  if (random() % 6 == 0) {
    region.motions.add({.index = 1 + below(2), .bytes = 64});
    region.below = below(200);
    region.above = below(300);
  }
  return region;
}

TEST(Accesses, FindsWhatAListOfAllFinds) {
  std::mt19937 random(5);
  for (unsigned trial = 0; trial < 20; ++trial) {
    Accesses accesses;
    ListOfAll all;
    for (uint32_t i = 1; i <= 600; ++i) {
      const Region region = some_region(random);
      const bool write = random() % 2 == 0;
      std::vector<Point> points;
      accesses.conflicts(region, write, points);
      std::vector<uint64_t> found;
      for (const Point& point : points) found.push_back(point.issue);
      std::vector<uint64_t> expected = all.conflicts(region, write);
      std::sort(found.begin(), found.end());
      std::sort(expected.begin(), expected.end());
      ASSERT_EQ(found, expected) << "access " << i << " of trial " << trial;
      const Point point{static_cast<Agent>(random() % 9), i, i};
      accesses.record(region, write, point);
      all.record(region, write, point);
    }
  }
}

}  // namespace
}  // namespace neuron::builder
