// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/host_collective_cache.h"

#include <gtest/gtest.h>

#include "runtime/exec/host_driven.h"

namespace neuron::runtime {
namespace {

// The cache never looks at what it keeps.
std::shared_ptr<HostCollective> collective() {
  auto* memory = new char;
  return {reinterpret_cast<HostCollective*>(memory), [memory](HostCollective*) { delete memory; }};
}

TEST(HostCollectiveCache, FindsWhatWasKeptUnderTheKeyLast) {
  HostCollectiveCache cache;
  EXPECT_EQ(cache.find({1}), nullptr);
  const auto first = collective(), second = collective();
  cache.keep({1}, first);
  EXPECT_EQ(cache.find({1}), first);
  EXPECT_EQ(cache.find({1, 0}), nullptr);
  cache.keep({1}, second);
  EXPECT_EQ(cache.find({1}), second);
  EXPECT_EQ(first.use_count(), 1);
}

TEST(HostCollectiveCache, TheLeastRecentlyUsedGoes) {
  HostCollectiveCache cache;
  for (uint64_t i = 0; i < HostCollectiveCache::kMost; ++i) cache.keep({i}, collective());
  EXPECT_NE(cache.find({0}), nullptr) << "used again: now 1 is the oldest";
  cache.keep({2}, collective());
  EXPECT_NE(cache.find({1}), nullptr) << "a known key needs no room; now 3 is the oldest";
  cache.keep({1000}, collective());
  EXPECT_EQ(cache.find({3}), nullptr);
  for (const uint64_t there : {0, 1, 2, 4, 63, 1000}) EXPECT_NE(cache.find({there}), nullptr);
}

}  // namespace
}  // namespace neuron::runtime
