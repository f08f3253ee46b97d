// SPDX-License-Identifier: Apache-2.0
// The oracle of these tests is alive: it sees one bit, and it does not pass for want of a truth.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/system/serve/served.h"

namespace neuron::serve_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Oracle, SaysWhichRowAndElementDifferInWhicheverBitWasFlipped) {
  const Served served;
  ASSERT_NE(served.port(), 0) << served.log();
  const std::vector<Row> rows = random_rows(3, 1);
  const std::vector<Probabilities> truth = Truth::get().of(rows);
  const Answer answer = served.infer(rows);
  ASSERT_EQ(verdict(answer, truth), "");
  for (size_t bit = 0; bit < answer.body.size() * 8; ++bit) {
    Answer flipped = answer;
    flipped.body[bit / 8] = static_cast<char>(flipped.body[bit / 8] ^ 1 << bit % 8);
    const size_t row = bit / 8 / sizeof(Probabilities);
    const size_t element = bit / 8 % sizeof(Probabilities) / sizeof(float);
    ASSERT_THAT(verdict(flipped, truth),
                AllOf(HasSubstr(base::format("row {} of 3 differs from element {} on, in 1 of 10",
                                             row, element)),
                      HasSubstr("batch of 3 rows"), HasSubstr("; expected [0..]")));
  }
}

TEST(Oracle, NamesTheRowWhoseAnswerCameInsteadAndSeesAnswersThatAreShortOrLong) {
  const std::vector<Row> rows = random_rows(4, 2);
  const std::vector<Probabilities> truth = Truth::get().of(rows);
  Answer answer;
  answer.status = 200;
  answer.body = binary(std::vector<Probabilities>{truth[0], truth[3]});
  EXPECT_THAT(verdict(answer, std::vector<Probabilities>{truth[0], truth[1]}, truth),
              AllOf(HasSubstr("row 1 of 2"), HasSubstr("the answer to row 3 of those")));
  EXPECT_THAT(verdict(answer, truth), HasSubstr("80 bytes were answered, expected 160"));
  EXPECT_THAT(verdict(answer, std::vector<Probabilities>()), HasSubstr("no truth"));
  answer.status = 500;
  EXPECT_THAT(verdict(answer, truth), HasSubstr("status 500"));
  EXPECT_THAT(verdict(Answer(), truth), HasSubstr("status 0"));
}

TEST(Oracle, ThrowsInsteadOfHavingAnEmptyTruth) {
  EXPECT_THROW((void)Truth("/nowhere/digits.neff").of(random_rows(1, 1)), std::runtime_error);
  EXPECT_THROW((void)Truth::get().of({}), std::runtime_error);
  EXPECT_NO_THROW((void)Truth::get().of(random_rows(1, 1)));
}

}  // namespace
}  // namespace neuron::serve_test
