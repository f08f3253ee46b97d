// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/names.h"

#include <gtest/gtest.h>

namespace neuron::assembler {
namespace {

TEST(Names, StringsComeBackWhateverIsInThem) {
  for (const std::string& text :
       {std::string(), std::string("a\"b\\c\n\td"), std::string("\x01\x7f\x80\xff\0z", 6),
        std::string("größer"), std::string("r5")}) {
    EXPECT_EQ(unquoted(in_quotes(text)), text);
  }
  EXPECT_EQ(unquoted("\"\\q\""), std::nullopt);
  EXPECT_EQ(unquoted("\"\\x4\""), std::nullopt);
}

TEST(Names, WhatReadsAsANumberOrAsSyntaxIsQuoted) {
  EXPECT_EQ(spelled("weights.0"), "weights.0");
  EXPECT_EQ(spelled("2x"), "\"2x\"");
  EXPECT_EQ(spelled(".L1"), "\".L1\"");
  EXPECT_EQ(spelled("a..b"), "\"a..b\"");
  EXPECT_EQ(spelled(""), "\"\"");
  EXPECT_EQ(spelled_semaphore("s20"), "\"s20\"");
  EXPECT_EQ(spelled_semaphore("s20a"), "s20a");
}

TEST(Names, Base64ComesBackAndRefusesOtherText) {
  std::vector<uint8_t> bytes;
  for (unsigned i = 0; i < 300; ++i) {
    EXPECT_EQ(from_base64(base64(bytes)), bytes);
    bytes.push_back(static_cast<uint8_t>(i * 37));
  }
  EXPECT_EQ(from_base64("AA=A"), std::nullopt);
  EXPECT_EQ(from_base64("A"), std::nullopt);
  EXPECT_EQ(from_base64("AB"), std::nullopt);  // Bits behind the last byte
}

}  // namespace
}  // namespace neuron::assembler
