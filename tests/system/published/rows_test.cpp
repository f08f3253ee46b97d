// SPDX-License-Identifier: Apache-2.0
// rows.tsv is true: ours is what the emulated core gives, the errors follow from it, and every row
// says what class it has and why.
#include "tests/system/published/rows.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "driver/base/format.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace neuron::published {
namespace {

using ::testing::AnyOf;
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
    if (row.chip == chip && row.measured()) {
      text += row.name + "\t" + row.ours + "\t" + row.how + "\n";
    }
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
    ASSERT_NE(row.name, "") << "a line does not have thirteen columns";
    names.push_back(row.name);
    EXPECT_THAT(row.kind, AnyOf("fitted", "blind", "bound only", "excluded"));
    if (row.kind == "fitted") {
      EXPECT_NE(row.note, "") << row.name;
    }
    if (row.kind == "excluded") {
      EXPECT_THAT(row.note, StartsWith("because ")) << row.name;
    }
    EXPECT_THAT(row.classed, row.blind() ? ::testing::Matcher<std::string>(AnyOf("before", "after"))
                                         : ::testing::Matcher<std::string>(""))
        << row.name;
    EXPECT_THAT(row.numbers, ::testing::MatchesRegex("[0-9]")) << row.name;
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(PublishedRows, OfOneCoreTimesEightAreNotBlind) {
  for (const Row& row : read_rows()) {
    if (row.name.find("-chip-trn") != std::string::npos) {
      EXPECT_FALSE(row.blind()) << row.name;
    }
  }
}

TEST(PublishedRows, WithANumberOfARowBeforeThemAreOfNkisProgramForIt) {
  const std::string kNki = "nki-";
  std::set<std::string> before;
  for (const Row& row : read_rows()) {
    if (row.numbers == "0") {
      ASSERT_THAT(row.name, StartsWith(kNki));
      EXPECT_TRUE(before.contains(row.name.substr(kNki.size()) + "=" + row.published)) << row.name;
    }
    before.insert(row.name + "=" + row.published);
  }
}

TEST(PublishedRows, HaveAtLeastTenBlindOnes) { EXPECT_GE(summary_of(read_rows()).all.rows, 10U); }

TEST(PublishedRows, AreWithinPublishedBounds) {
  for (const Row& row : read_rows()) {
    if (row.kind != "bound only") continue;
    const bool at_least = row.what.ends_with("at least");
    EXPECT_TRUE(at_least || row.what.ends_with("at most")) << row.name;
    const double ours = std::stod(row.ours), bound = std::stod(row.published);
    EXPECT_TRUE(at_least ? ours >= bound : ours <= bound) << row.name << ": " << ours;
  }
}

// A README without its ends of lines.
std::string text_of(const std::string& folder) {
  std::string text = test::read_file(test::source(folder + "README.md"));
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Of the rows that `use` is true of: how many they are, and how many published numbers they have.
struct Counts {
  size_t rows = 0, numbers = 0;
};
Counts count(const std::function<bool(const Row&)>& use) {
  Counts counts;
  for (const Row& row : read_rows()) {
    if (!use(row)) continue;
    ++counts.rows;
    counts.numbers += std::stoul(row.numbers);
  }
  return counts;
}

TEST(PublishedRows, AreQuotedByBothReadmesWithTheErrorsOfTheBlindOnes) {
  const Summary s = summary_of(read_rows());
  const auto [rows, numbers] = count([](const Row& row) { return row.blind(); });
  for (const std::string folder : {"", "tests/system/published/"}) {
    const std::string text = text_of(folder);
    EXPECT_THAT(text, HasSubstr(base::format("{} rows ({} numbers)", rows, numbers)));
    EXPECT_THAT(text, HasSubstr(base::format("median {:.1f} %, worst {:.1f} % off {}", s.all.median,
                                             s.worst, verdict(s))));
    EXPECT_THAT(text, HasSubstr(base::format("of programs alone {:.1f} %", s.of_programs.median)));
    EXPECT_THAT(text, HasSubstr(base::format("{} rows that were classed before the model was last "
                                             "changed {:.1f} %, of the {} classed after {:.1f} %",
                                             s.before.rows, s.before.median, s.after.rows,
                                             s.after.median)));
  }
}

TEST(PublishedRows, AreCountedByTheirReadme) {
  const std::string text = text_of("tests/system/published/");
  const Summary s = summary_of(read_rows());
  const auto [rows, numbers] = count([](const Row&) { return true; });
  EXPECT_THAT(text, HasSubstr(base::format("{} rows for {} published numbers", rows, numbers)));
  for (const char* kind : {"fitted", "blind", "bound only", "excluded"}) {
    const size_t of_kind = count([&](const Row& row) { return row.kind == kind; }).rows;
    EXPECT_THAT(text, HasSubstr(base::format("| {} | {} |", kind, of_kind)));
  }
  const auto of_rounds = [](const Row& row) { return row.how == "rounds"; };
  const auto blind_of_rounds = [](const Row& row) { return row.blind() && row.how == "rounds"; };
  EXPECT_THAT(text, HasSubstr(base::format("{} rows are of rounds, {} of them blind",
                                           count(of_rounds).rows, count(blind_of_rounds).rows)));
  const auto twice = [](const Row& row) { return row.blind() && row.numbers == "0"; };
  EXPECT_THAT(text, HasSubstr(base::format("{} published numbers are met by two programs each",
                                           count(twice).rows)));
  EXPECT_THAT(text, HasSubstr(base::format(
                        "plain programs alone {:.1f} %, with NKI's in their place {:.1f} %",
                        s.plain.median, s.in_nki.median)));
}

TEST(PublishedRows, ThatAreSharesNearTheWholeAreLeftOutOnceByTheirReadme) {
  constexpr double kNear = 98;
  std::vector<Row> rows = read_rows();
  const size_t shares = std::erase_if(rows, [](const Row& row) {
    return row.blind() && row.unit == "%" && std::stod(row.published) >= kNear;
  });
  EXPECT_THAT(text_of("tests/system/published/"),
              HasSubstr(base::format("{} rows are shares from {:.0f} % up, which cannot be far too "
                                     "high: without them the median is {:.1f} %",
                                     shares, kNear, summary_of(rows).all.median)));
}

TEST(PublishedRows, ThatWereFittedAndAreFarOffAreNamedByTheReadme) {
  constexpr double kFar = 90;
  for (const Row& row : read_rows()) {
    if (row.kind != "fitted" || std::fabs(std::stod(row.error)) < kFar) continue;
    EXPECT_THAT(text_of(""), HasSubstr(base::format("{} {} %", row.name, row.error)));
  }
}

}  // namespace
}  // namespace neuron::published
