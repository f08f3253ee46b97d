// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/configuration/json_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neuron::monitor {
namespace {

using ::testing::HasSubstr;

JsonNode parsed_json(std::string_view text) {
  std::string error;
  auto node = parse_json(text, error);
  EXPECT_TRUE(node) << text << ": " << error;
  return node ? std::move(*node) : JsonNode{};
}
std::string json_error(std::string_view text) {
  std::string error;
  return parse_json(text, error) ? "accepted" : error;
}

TEST(JsonTree, NumbersKeepTheirSpelling) {
  for (const char* text :
       {"0", "-0", "12", "-7.25", "1e5", "1E5", "1e+5", "1e-5", "0.5E-10", "10.0e0"}) {
    const JsonNode node = parsed_json(text);
    EXPECT_EQ(node.kind, JsonNode::Kind::kNumber) << text;
    EXPECT_EQ(node.text, text);
  }
}

TEST(JsonTree, NumbersThatAreNoneAreRefusedWhereTheyBreak) {
  EXPECT_THAT(json_error("01"), HasSubstr("a number must not begin with 0"));
  EXPECT_THAT(json_error("-01"), HasSubstr("a number must not begin with 0"));
  EXPECT_THAT(json_error("1."), HasSubstr("1:3: a digit must follow the decimal point"));
  EXPECT_THAT(json_error("1e"), HasSubstr("1:3: a digit must follow the exponent"));
  EXPECT_THAT(json_error("1e+"), HasSubstr("1:4: a digit must follow the exponent"));
  EXPECT_THAT(json_error("-"), HasSubstr("1:2: expected a value"));
  EXPECT_THAT(json_error("+1"), HasSubstr("1:1: expected a value"));
}

TEST(JsonTree, ValuesKnowTheirPlaces) {
  const JsonNode node = parsed_json("{\n  \"a\": [true,\n 2],\n  \"\xc3\xa9\": null\n}");
  ASSERT_EQ(node.kind, JsonNode::Kind::kObject);
  ASSERT_EQ(node.members.size(), 2u);
  EXPECT_EQ(node.members[0].key, "a");
  EXPECT_EQ(node.members[0].line, 2u);
  EXPECT_EQ(node.members[0].column, 3u);
  const JsonNode& list = node.members[0].value;
  ASSERT_EQ(list.elements.size(), 2u);
  EXPECT_EQ(list.column, 8u);
  EXPECT_EQ(list.elements[0].kind, JsonNode::Kind::kBoolean);
  EXPECT_TRUE(list.elements[0].boolean);
  EXPECT_EQ(list.elements[1].line, 3u);
  EXPECT_EQ(list.elements[1].column, 2u);
  EXPECT_EQ(node.members[1].key, "\xc3\xa9");
  EXPECT_EQ(node.members[1].value.column, 8u) << "columns count characters";
  EXPECT_EQ(node.members[1].value.kind, JsonNode::Kind::kNull);
}

TEST(JsonTree, TextsAreWithoutTheirEscapes) {
  EXPECT_EQ(parsed_json(R"("\"\\\/\b\f\n\r\t")").text, "\"\\/\b\f\n\r\t");
  EXPECT_EQ(parsed_json(R"("\u0041\u00e9\u20AC")").text, "A\xc3\xa9\xe2\x82\xac");
  EXPECT_EQ(parsed_json(R"("\ud83d\ude00")").text, "\xf0\x9f\x98\x80") << "a pair";
}

TEST(JsonTree, WhatIsNoJsonIsRefused) {
  for (const char* text : {"", "{", "[1,", "[1 2]", "{\"a\"}", "{\"a\":1,}", "tru", "\"abc",
                           "\"\\x\"", "[1] 2", "{1: 2}", "nul"}) {
    EXPECT_NE(json_error(text), "accepted") << text;
  }
  EXPECT_THAT(json_error("{\"a\": 1,\n\"a\": 2}"), HasSubstr("2:1: "));
  EXPECT_EQ(json_error(std::string(63, '[') + std::string(63, ']')), "accepted");
  EXPECT_NE(json_error(std::string(70, '[') + std::string(70, ']')), "accepted");
}

TEST(JsonTree, ValuesAreDescribedForSentences) {
  EXPECT_EQ(parsed_json("{}").description(), "an object");
  EXPECT_THAT(parsed_json("\"5s\"").description(), HasSubstr("\"5s\""));
  EXPECT_THAT(parsed_json("17").description(), HasSubstr("17"));
}

}  // namespace
}  // namespace neuron::monitor
