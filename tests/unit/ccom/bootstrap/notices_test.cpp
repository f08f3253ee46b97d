// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/notices.h"

#include <ccom/ccom.h>
#include <gtest/gtest.h>

#include "ccom/bootstrap/message.h"

namespace neuron::ccom {
namespace {

TEST(Notices, OfANumberTheFirstCounts) {
  Notices notices;
  EXPECT_TRUE(notices.keep({3, 10, "the cause"}));
  EXPECT_FALSE(notices.keep({1, 10, "what came of it"}));
  EXPECT_TRUE(notices.keep({1, 11, "another"}));
  EXPECT_EQ(notices.since(0)->sentence, "the cause");
  EXPECT_EQ(notices.since(10)->rank, 3u);
  EXPECT_EQ(notices.since(11)->sentence, "another");
  EXPECT_FALSE(notices.since(12));
}

TEST(Notices, OnlyTheHighestNumbersAreKept) {
  Notices notices;
  for (uint64_t number = 1; number <= 3 * CCOM_NOTICES; ++number) {
    EXPECT_TRUE(notices.keep({0, number, "news"}));
  }
  EXPECT_EQ(notices.since(0)->number, 2u * CCOM_NOTICES + 1);
  EXPECT_FALSE(notices.keep({0, 2 * CCOM_NOTICES, "too old"}));
  EXPECT_EQ(notices.since(0)->number, 2u * CCOM_NOTICES + 1);
}

TEST(Notices, ASentenceIsCutBetweenCharacters) {
  EXPECT_EQ(notice_text("short"), "short");
  const std::string fits(CCOM_NOTICE_BYTES, 'x');
  EXPECT_EQ(notice_text(fits), fits);
  EXPECT_EQ(notice_text(fits + "x"), fits);
  const std::string almost(CCOM_NOTICE_BYTES - 1, 'x');
  EXPECT_EQ(notice_text(almost + "\xC3\xA9"), almost);
}

TEST(Notices, AMessageIsReadAsItWasWritten) {
  const Notice said{5, 1ull << 40, "rank 5 found a NaN"};
  Notice heard;
  ASSERT_TRUE(decode(encode(said), heard));
  EXPECT_EQ(heard.rank, said.rank);
  EXPECT_EQ(heard.number, said.number);
  EXPECT_EQ(heard.sentence, said.sentence);
}

TEST(Notices, AMessageThatIsTooLongOrCutIsNone) {
  Notice heard;
  Notice said{5, 7, std::string(CCOM_NOTICE_BYTES, 'x')};
  EXPECT_TRUE(decode(encode(said), heard));
  said.sentence += "x";
  EXPECT_FALSE(decode(encode(said), heard));
  const Bytes whole = encode(Notice{5, 7, "news"});
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(decode(std::span(whole).first(length), heard)) << length;
  }
  Bytes more = whole;
  more.push_back(std::byte{0});
  EXPECT_FALSE(decode(more, heard));
}

}  // namespace
}  // namespace neuron::ccom
