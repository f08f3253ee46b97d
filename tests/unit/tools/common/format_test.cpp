// SPDX-License-Identifier: Apache-2.0
// One list of records in four formats, and JSON that any reader takes.
#include "tools/common/format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <limits>

#include "driver/base/json_text.h"
#include "tools/common/json_text.h"
#include "tools/common/time_text.h"

namespace neuron::tools {
namespace {

namespace json = boost::json;

Records sample() {
  Records records{"sample",
                  3,
                  "things",
                  {{"name", "NAME"},
                   {"used_bytes", "USED", Unit::kBytes},
                   {"share_percent", "SHARE", Unit::kPercent},
                   {"ids", "IDS"}},
                  {},
                  {}};
  records.rows.push_back({"a, \"b\"", 1536u, 12.5, json::array{1, 2}});
  records.rows.push_back({"plain", nullptr, nullptr, json::array{}});
  return records;
}

TEST(Format, TextHasUnitsAndHeadings) {
  EXPECT_EQ(render(sample(), Format::kText, {}),
            "NAME    USED     SHARE   IDS\n"
            "a, \"b\"  1.5 KiB  12.5 %  1, 2\n"
            "plain   -        -\n");
}

TEST(Format, CsvQuotesWhatNeedsItAndLeavesTheUnknownEmpty) {
  EXPECT_EQ(render(sample(), Format::kCsv, {}),
            "name,used_bytes,share_percent,ids\n"
            "\"a, \"\"b\"\"\",1536,12.5,1 2\n"
            "plain,,,\n");
}

TEST(Format, JsonIsOneDocumentThatNamesItsSchemaAndHasNumbersWithoutUnits) {
  const json::value whole = json::parse(render(sample(), Format::kJson, {}));
  EXPECT_EQ(whole.at("schema").as_string(), "sample");
  EXPECT_EQ(whole.at("schema_version").to_number<int>(), 3);
  const json::array& things = whole.at("things").as_array();
  ASSERT_EQ(things.size(), 2u);
  EXPECT_EQ(things[0].at("used_bytes").to_number<int>(), 1536);
  EXPECT_TRUE(things[1].at("used_bytes").is_null());
}

TEST(Format, NdjsonIsAnObjectALineEachWithTheSchema) {
  const std::string text = render(sample(), Format::kNdjson, {});
  const size_t end = text.find('\n');
  const json::value first = json::parse(text.substr(0, end));
  EXPECT_EQ(first.at("schema_version").to_number<int>(), 3);
  EXPECT_EQ(first.at("name").as_string(), "a, \"b\"");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

TEST(JsonText, KeepsWholeNumbersWithoutExponentAndTurnsInfinityIntoNull) {
  EXPECT_EQ(json_text(json::value(4.8e10)), "48000000000");
  EXPECT_EQ(json_text(json::value(0.1)), "0.1");
  EXPECT_EQ(json_text(json::value(std::numeric_limits<double>::infinity())), "null");
  EXPECT_EQ(json_text(json::value(std::numeric_limits<uint64_t>::max())), "18446744073709551615");
}

TEST(JsonText, StaysUtf8WhateverAProcessCallsItself) {
  EXPECT_EQ(base::json_string("a\xFFz\n\x7F\""), "\"a\xEF\xBF\xBDz\\u000a\\u007f\\\"\"");
  EXPECT_EQ(base::json_string("é"), "\"é\"");
}

TEST(JsonText, IndentsMembersBelowEachOther) {
  EXPECT_EQ(json_text(json::parse(R"({"a":[1],"b":{},"c":[]})"), 2),
            "{\n  \"a\": [\n    1\n  ],\n  \"b\": {},\n  \"c\": []\n}");
  EXPECT_EQ(json_text(json::parse(R"({"a":[1,2]})")), R"({"a":[1,2]})");
}

TEST(TimeText, IsInUtcWithMilliseconds) {
  const std::chrono::system_clock::time_point when(std::chrono::milliseconds(1'000'000'000'250));
  EXPECT_EQ(utc_text(when), "2001-09-09T01:46:40.250Z");
}

TEST(Format, InASeriesADocumentIsALineAndHeadingsComeOnce) {
  const auto lines = [](Format format, Place place) {
    const std::string text = render(sample(), format, {}, place);
    return std::count(text.begin(), text.end(), '\n');
  };
  const auto records = static_cast<ptrdiff_t>(sample().rows.size());
  EXPECT_GT(lines(Format::kJson, Place::kAlone), 1);
  for (const Place place : {Place::kFirst, Place::kLater}) {
    EXPECT_EQ(lines(Format::kJson, place), 1);
    EXPECT_EQ(lines(Format::kNdjson, place), records);
    EXPECT_EQ(json::parse(render(sample(), Format::kJson, {}, place)),
              json::parse(render(sample(), Format::kJson, {})));
  }
  EXPECT_EQ(lines(Format::kCsv, Place::kFirst), records + 1);
  EXPECT_EQ(render(sample(), Format::kCsv, {}, Place::kFirst),
            render(sample(), Format::kCsv, {}, Place::kAlone));
  EXPECT_EQ(lines(Format::kCsv, Place::kLater), records);
}

}  // namespace
}  // namespace neuron::tools
