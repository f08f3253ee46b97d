// SPDX-License-Identifier: Apache-2.0
#include "runtime/rings/binding_cache.h"

#include <gtest/gtest.h>

namespace neuron::runtime {
namespace {

std::shared_ptr<const MatchedTensors> matched(uint64_t inputs, uint64_t outputs, uint64_t epoch) {
  auto tensors = std::make_shared<MatchedTensors>();
  tensors->inputs = inputs;
  tensors->outputs = outputs;
  tensors->epoch = epoch;
  return tensors;
}

std::unique_ptr<Binding> binding(std::vector<uint64_t> ports) {
  auto made = std::make_unique<Binding>();
  made->ports = std::move(ports);
  return made;
}

Resolution resolution(uint64_t inputs, uint64_t outputs = 0, uint64_t epoch = 0,
                      Binding* of = nullptr) {
  Resolution made;
  made.inputs = inputs;
  made.outputs = outputs;
  made.epoch = epoch;
  made.binding = of;
  return made;
}

TEST(MatchMemo, KnowsAMatchByBothSetsAndTheEpoch) {
  MatchMemo memo;
  const auto tensors = matched(1, 2, 3);
  EXPECT_EQ(memo.find(1, 2, 3), nullptr);
  memo.keep(tensors);
  EXPECT_EQ(memo.find(1, 2, 3), tensors);
  EXPECT_EQ(memo.find(9, 2, 3), nullptr);
  EXPECT_EQ(memo.find(1, 9, 3), nullptr);
  EXPECT_EQ(memo.find(1, 2, 9), nullptr);
}

TEST(MatchMemo, KeepsNothingAlive) {
  MatchMemo memo;
  auto tensors = matched(1, 2, 3);
  memo.keep(tensors);
  tensors.reset();
  EXPECT_EQ(memo.find(1, 2, 3), nullptr);
}

TEST(MatchMemo, ReplacesTheSamePairAndElseTheOldestOfFour) {
  MatchMemo memo;
  std::vector<std::shared_ptr<const MatchedTensors>> all;
  for (uint64_t i = 1; i <= 4; ++i) memo.keep(all.emplace_back(matched(i, i, 1)));
  memo.keep(all.emplace_back(matched(1, 1, 2)));
  EXPECT_EQ(memo.find(1, 1, 1), nullptr);
  EXPECT_NE(memo.find(1, 1, 2), nullptr);
  for (uint64_t i = 2; i <= 4; ++i) EXPECT_NE(memo.find(i, i, 1), nullptr);
  memo.keep(all.emplace_back(matched(5, 5, 1)));
  EXPECT_EQ(memo.find(1, 1, 2), nullptr) << "its place was the first";
  EXPECT_NE(memo.find(5, 5, 1), nullptr);
}

TEST(BindingCache, FindsAResolutionByBothSetsAndTheEpoch) {
  BindingCache cache;
  Resolution* kept = cache.keep(resolution(1, 2, 3));
  EXPECT_EQ(cache.find(1, 2, 3), kept);
  EXPECT_EQ(cache.find(2, 2, 3), nullptr);
  EXPECT_EQ(cache.find(1, 1, 3), nullptr);
  EXPECT_EQ(cache.find(1, 2, 4), nullptr);
}

TEST(BindingCache, TheLeastRecentlyUsedResolutionGoes) {
  BindingCache cache;
  for (uint64_t i = 0; i < BindingCache::kResolutions; ++i) cache.keep(resolution(i));
  EXPECT_NE(cache.find(0, 0, 0), nullptr) << "used again: now 1 is the oldest";
  cache.keep(resolution(100));
  EXPECT_EQ(cache.find(1, 0, 0), nullptr);
  for (const uint64_t there : {0, 2, 15, 100}) EXPECT_NE(cache.find(there, 0, 0), nullptr) << there;
}

TEST(BindingCache, FindsABindingByItsAddressesAndNumbersBindingsFromOne) {
  BindingCache cache;
  const Binding* evicted = nullptr;
  Binding* first = cache.keep_binding(binding({1, 2}), evicted);
  Binding* second = cache.keep_binding(binding({2, 1}), evicted);
  EXPECT_EQ(evicted, nullptr);
  EXPECT_EQ(first->number, 1u);
  EXPECT_EQ(second->number, 2u);
  EXPECT_EQ(cache.find_binding({1, 2}), first);
  EXPECT_EQ(cache.find_binding({2, 1}), second);
  EXPECT_EQ(cache.find_binding({1}), nullptr);
}

TEST(BindingCache, ABindingTakesItsResolutionsAlongWhenItGoes) {
  BindingCache cache;
  const Binding* evicted = nullptr;
  std::vector<Binding*> bindings;
  for (uint64_t i = 0; i < BindingCache::kBindings; ++i) {
    bindings.push_back(cache.keep_binding(binding({i}), evicted));
    EXPECT_EQ(evicted, nullptr);
  }
  cache.keep(resolution(7, 0, 0, bindings[1]));
  cache.keep(resolution(8, 0, 0, bindings[2]));
  EXPECT_EQ(cache.find_binding({0}), bindings[0]) << "used again: now 1 is the oldest";
  const Binding* oldest = bindings[1];
  cache.keep_binding(binding({100}), evicted);
  EXPECT_EQ(evicted, oldest);
  EXPECT_EQ(cache.find_binding({1}), nullptr);
  EXPECT_EQ(cache.find(7, 0, 0), nullptr);
  EXPECT_NE(cache.find(8, 0, 0), nullptr);
}

TEST(BindingCache, ForgetsEverythingAtOnce) {
  BindingCache cache;
  const Binding* evicted = nullptr;
  Binding* made = cache.keep_binding(binding({1}), evicted);
  cache.keep(resolution(1, 0, 0, made));
  cache.forget();
  EXPECT_EQ(cache.find(1, 0, 0), nullptr);
  EXPECT_EQ(cache.find_binding({1}), nullptr);
  EXPECT_EQ(cache.keep_binding(binding({1}), evicted)->number, 2u) << "numbers are not used again";
}

}  // namespace
}  // namespace neuron::runtime
