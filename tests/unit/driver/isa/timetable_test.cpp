// SPDX-License-Identifier: Apache-2.0
// When a link is taken: transfers take the first gap that is long enough.
#include "driver/isa/timetable.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <tuple>
#include <vector>

namespace neuron::isa {
namespace {

TEST(Timetable, GivesTransfersThatBeginLaterThePlaceBehind) {
  Timetable table;
  EXPECT_EQ(table.fit(100, 50), 100U);
  table.take(100, 150);
  EXPECT_EQ(table.fit(100, 10), 150U);
  EXPECT_EQ(table.fit(150, 10), 150U);
  EXPECT_EQ(table.fit(200, 10), 200U);
}

TEST(Timetable, LetsATransferThatBeginsEarlierTakeAGapThatIsLongEnough) {
  Timetable table;
  table.take(100, 150);
  table.take(300, 400);
  EXPECT_EQ(table.fit(20, 80), 20U);
  EXPECT_EQ(table.fit(20, 81), 150U);
  EXPECT_EQ(table.fit(20, 151), 400U);
}

TEST(Timetable, KeepsTheLinkUntilBytesOfASlowerOneAreThere) {
  Timetable table;
  table.take(100, 150);
  EXPECT_EQ(table.fit(20, 10, 100), 20U);
  EXPECT_EQ(table.fit(20, 10, 101), 150U);
}

TEST(Timetable, PutsNothingInFrontOfWhatItHasForgotten) {
  Timetable table;
  for (ModelTime n = 0; n <= Timetable::kSpans; ++n) table.take(100 * n + 10, 100 * n + 20);
  EXPECT_EQ(table.fit(0, 5), 20U) << "the first of one span more than it keeps";
  table.clear();
  EXPECT_EQ(table.fit(0, 5), 0U);
}

// What fit() promises, by looking at every time.
ModelTime first_fit(const std::vector<bool>& taken, ModelTime at, ModelTime takes) {
  for (;; ++at) {
    bool free = true;
    for (ModelTime t = at; t < at + takes; ++t) free = free && !(t < taken.size() && taken[t]);
    if (free) return at;
  }
}

RC_GTEST_PROP(Timetable, FindsWhatALookAtEveryTimeFinds, ()) {
  // As many as it keeps, so that nothing is forgotten.
  const auto transfers = *rc::gen::resize(
      static_cast<int>(Timetable::kSpans),
      rc::gen::container<std::vector<std::pair<ModelTime, ModelTime>>>(
          rc::gen::pair(rc::gen::inRange<ModelTime>(0, 100), rc::gen::inRange<ModelTime>(1, 12))));
  Timetable table;
  std::vector<bool> taken(1000);
  for (size_t n = 0; n < std::min(transfers.size(), Timetable::kSpans); ++n) {
    const auto [at, takes] = transfers[n];
    const ModelTime begin = table.fit(at, takes);
    RC_ASSERT(begin == first_fit(taken, at, takes));
    for (ModelTime t = begin; t < begin + takes; ++t) taken[t] = true;
    table.take(begin, begin + takes);
  }
}

}  // namespace
}  // namespace neuron::isa
