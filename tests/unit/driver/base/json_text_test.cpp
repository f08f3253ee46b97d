// SPDX-License-Identifier: Apache-2.0
// JSON strings of any bytes, and what is UTF-8.
#include "driver/base/json_text.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <random>

#include "driver/base/utf8.h"

namespace neuron::base {
namespace {

TEST(JsonString, KeepsUtf8AndEscapesQuotesAndControlCharacters) {
  EXPECT_EQ(json_string("é \"a\\b\"\n\x7F"), "\"é \\\"a\\\\b\\\"\\u000a\\u007f\"");
}

TEST(JsonString, ReplacesOnlyTheBytesThatAreNoUtf8) {
  EXPECT_EQ(json_string("é\xFF\xC3z"), "\"é\xEF\xBF\xBD\xEF\xBF\xBDz\"");
  EXPECT_EQ(json_string("\xED\xA0\x80"),
            "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");  // a surrogate
}

// Boost.JSON is the independent reader.
TEST(JsonString, IsReadBackFromAnyBytes) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 12, '\0');
    for (char& c : text) c = static_cast<char>(random() % 4 == 0 ? random() : random() % 128);
    boost::system::error_code error;
    const boost::json::value read = boost::json::parse(json_string(text), error);
    ASSERT_FALSE(error) << testing::PrintToString(text);
    if (is_utf8(text)) {
      EXPECT_EQ(read.get_string(), text);
    }
  }
}

TEST(Utf8, TellsTheLengthAndTheCodePointOfACharacter) {
  EXPECT_EQ(first_character("z").code, 'z');
  EXPECT_EQ(first_character("€uro").bytes, 3u);
  EXPECT_EQ(first_character("€uro").code, 0x20ACu);
  EXPECT_EQ(first_character("\xF0\x9F\x98\x80").code, 0x1F600u);
  for (const char* bad : {"", "\x80", "\xC0\x80", "\xE2\x82", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    EXPECT_EQ(first_character(bad).bytes, 0u) << testing::PrintToString(bad);
  }
}

}  // namespace
}  // namespace neuron::base
