// SPDX-License-Identifier: Apache-2.0
#include "driver/base/format.h"

#include <gtest/gtest.h>

namespace neuron::base {
namespace {

TEST(Escape, KeepsTextAndShowsControlCharactersAsNumbers) {
  EXPECT_EQ(escaped("tensor 'größe' \"x\" \\"), "tensor 'größe' \"x\" \\");
  EXPECT_EQ(escaped("a\n\x1b[31mred\x7f"), "a\\x0a\\x1b[31mred\\x7f");
}

TEST(Escape, ShowsBytesThatAreNoUtf8AndControlCharactersBehindAscii) {
  EXPECT_EQ(escaped("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(escaped("\x9b"
                    "31m"),
            "\\x9b31m");
  EXPECT_EQ(escaped("\xc2\x9b"
                    "31m"),
            "\\xc2\\x9b31m")
      << "the same in UTF-8";
  EXPECT_EQ(escaped("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(escaped("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80");
}

TEST(Escape, CutsBetweenCharacters) {
  char out[8];
  EXPECT_EQ(escape_into(out, 5, "ab\n\n"), 2u) << "an escape needs four bytes";
  EXPECT_EQ(escape_into(out, 6, "ab\n\n"), 6u);
  EXPECT_EQ(escape_into(out, 1, "ö"), 0u);
}

}  // namespace
}  // namespace neuron::base
