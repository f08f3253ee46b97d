// SPDX-License-Identifier: Apache-2.0
// rows.tsv is true: ours is what the emulated core gives, the errors follow from it, and every row
// says what class it has and why.
#include "tests/system/published/rows.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "driver/base/format.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace neuron::published {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Model times of a chip as model-times measures them now, in the order of the file.
std::string measured(const std::string& chip) {
  constexpr std::chrono::minutes kLimit{20};
  return test::run({test::built("tests/model-times"), chip}, {}, kLimit).output;
}

std::string expected(const std::string& chip) {
  std::string text;
  for (const Row& row : read_rows()) {
    if (row.chip == chip && row.measured()) text += row.name + "\t" + row.ours + "\n";
  }
  return text;
}

TEST(PublishedRows, OfTrn1HaveTheTimesOfTheEmulatedCore) {
  EXPECT_EQ(measured("trn1"), expected("trn1"));
}
TEST(PublishedRows, OfTrn2HaveTheTimesOfTheEmulatedCore) {
  EXPECT_EQ(measured("trn2"), expected("trn2"));
}

TEST(PublishedRows, OfTrn3HaveTheTimesOfTheEmulatedCore) {
  EXPECT_EQ(measured("trn3"), expected("trn3"));
}

TEST(PublishedRows, HaveTheErrorThatFollowsFromTheirNumbers) {
  for (const Row& row : read_rows()) {
    EXPECT_EQ(row.error, row.measured() ? error_text(row.published, row.ours) : "") << row.name;
  }
}

TEST(PublishedRows, SayWhatTheyAreAndWhy) {
  std::vector<std::string> names;
  for (const Row& row : read_rows()) {
    ASSERT_NE(row.name, "") << "a line does not have ten columns";
    names.push_back(row.name);
    EXPECT_THAT(row.kind, ::testing::AnyOf("fitted", "blind", "bound only", "excluded"));
    if (row.kind == "fitted") EXPECT_NE(row.note, "") << row.name;
    if (row.kind == "excluded") EXPECT_THAT(row.note, StartsWith("because ")) << row.name;
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(PublishedRows, HaveAtLeastTenBlindOnesAndSomeOfEachChip) {
  EXPECT_GE(summary_of(read_rows()).blind, 10U);
  for (const char* chip : {"trn1", "trn2", "trn3"}) {
    const std::vector<Row> rows = read_rows();
    EXPECT_GE(std::count_if(rows.begin(), rows.end(),
                            [&](const Row& r) { return r.chip == chip && r.kind == "blind"; }),
              3)
        << chip;
  }
}

TEST(PublishedRows, AreWithinPublishedBounds) {
  for (const Row& row : read_rows()) {
    if (row.kind != "bound only") continue;
    const bool at_least = row.what.ends_with("at least");
    EXPECT_TRUE(at_least || row.what.ends_with("at most")) << row.name;
    const double ours = std::stod(row.ours), bound = std::stod(row.published);
    EXPECT_TRUE(at_least ? ours >= bound : ours <= bound) << row.name << ": " << ours;
  }
}

TEST(PublishedRows, AreQuotedByTheReadmeWithTheErrorsOfTheBlindOnes) {
  const Summary s = summary_of(read_rows());
  EXPECT_THAT(test::read_file(test::source("README.md")),
              HasSubstr(base::format("median {:.1f} %, worst {:.1f} %", s.median, s.worst)));
  EXPECT_THAT(test::read_file(test::source("README.md")),
              HasSubstr(base::format("of programs alone {:.1f} %", s.of_programs)));
}

}  // namespace
}  // namespace neuron::published
