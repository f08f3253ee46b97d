// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/client_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "driver/emulator/service/shares.h"

namespace neuron::service {
namespace {

using ::testing::HasSubstr;

constexpr Client kOne = {100, 7, 1}, kOther = {200, 8, 2};

size_t lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(ClientLog, WritesALineThatNoControlCharacterBreaksAndThatEndsSomewhere) {
  ClientLog log;
  testing::internal::CaptureStderr();
  log.write(kOne, "two\nlines\r\x1b[2J\x07\x7f\xc2\x9b bad \xff");
  log.write(kOne, std::string(1'000'000, 'a'));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines(text), 2u);
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << int{c};
  EXPECT_THAT(text, HasSubstr("two\\x0alines\\x0d\\x1b[2J"));
  EXPECT_LT(text.size(), 2 * ClientLog::kLongest);
}

TEST(ClientLog, GivesAUserAFewLinesAndThenOneNowAndThenWhateverItsProcesses) {
  ClientLog log;
  const auto start = ClientLog::Clock::now();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; ++i) {
    log.write({i, kOne.user, static_cast<uint64_t>(i) + 1}, "again", start);
  }
  EXPECT_EQ(lines(testing::internal::GetCapturedStderr()), ClientLog::kAtOnce);
  testing::internal::CaptureStderr();
  log.write(kOther, "another user", start);
  EXPECT_EQ(lines(testing::internal::GetCapturedStderr()), 1u);
  testing::internal::CaptureStderr();
  log.write(kOne, "later", start + ClientLog::kPace);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "later (before it 990 lines about user 7 were left out)\n");
  // The process that the devices are in may say what it likes.
  testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) log.write({}, "own", start);
  EXPECT_EQ(lines(testing::internal::GetCapturedStderr()), 100u);
}

TEST(Shares, LeaveAsMuchForOthersAsOneUserHasWhateverItsProcesses) {
  Shares shares(64);
  unsigned first = 0;
  for (uint64_t process = 1; process <= 100; ++process) {
    const Client client = {1, 7, process};
    while (shares.has_share(client)) {
      shares.take(client);
      ++first;
    }
  }
  EXPECT_EQ(first, 32u);
  const Client other = {2, 8, 1000};
  EXPECT_TRUE(shares.has_share(other));
  unsigned second = 0;
  for (; shares.has_share(other); ++second) shares.take(other);
  EXPECT_GE(second, 8u);
  // What one process has taken, another of its user has had left to it.
  EXPECT_TRUE(shares.has_share({3, 8, 1001}));
  for (; second != 0; --second) shares.give_back(other);
  EXPECT_EQ(shares.taken(), first);
}

}  // namespace
}  // namespace neuron::service
