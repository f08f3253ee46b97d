// SPDX-License-Identifier: Apache-2.0
// Records, metrics, numbers and terminals as text, to the letter.
#include <boost/json/array.hpp>
#include <limits>

#include "tests/unit/tools/golden.h"
#include "tools/common/format.h"
#include "tools/common/json_text.h"
#include "tools/common/prometheus_text.h"
#include "tools/common/terminal.h"

namespace neuron::tools {
namespace {

namespace json = boost::json;
using neuron::testing::expect_golden;

Records records() {
  Records out;
  out.schema = "neuron-sample";
  out.version = 3;
  out.list = "rows";
  out.columns = {{"name", "NAME"},
                 {"bytes", "BYTES", Unit::kBytes},
                 {"rate", "RATE", Unit::kBytesPerSecond},
                 {"share", "SHARE", Unit::kPercent},
                 {"time", "TIME", Unit::kMicroseconds},
                 {"list", "LIST"}};
  const double numbers[] = {0,      1,    9.94,   99.96,   100,       999.9, 1000,
                            1023,   1024, 1025.5, 99999.9, 1048576.0, 1.5e9, 5e12,
                            1.2e15, 3e18, -12.25, 0.05,    0.5,       1e-7,  123456.789};
  for (const double number : numbers) {
    const std::string name = "row, \"" + std::to_string(out.rows.size()) + "\"";
    out.rows.push_back(
        {json::value(name), number, number, number, number, json::array{1, "two", nullptr}});
  }
  out.rows.push_back({"none\n\t\xff", nullptr, nullptr, nullptr, nullptr, json::array{}});
  out.rows.push_back({true, 7u, -3, 18446744073709551615u, std::numeric_limits<double>::infinity(),
                      json::object{{"a", 1}}});
  out.about = {{"host", "h"}, {"count", 2}};
  return out;
}

TEST(Format, OfEveryUnitAndValueIsAsBefore) {
  std::string text;
  for (const Format format : {Format::kText, Format::kJson, Format::kNdjson, Format::kCsv}) {
    for (const Place place : {Place::kAlone, Place::kFirst, Place::kLater}) {
      text += render(records(), format, {}, place) + "----\n";
    }
  }
  text += render(records(), Format::kText, {.color = true, .unicode = true, .width = 40});
  Records none = records();
  none.rows.clear();
  for (const Format format : {Format::kText, Format::kJson, Format::kNdjson, Format::kCsv}) {
    text += render(none, format, {}) + "----\n";
  }
  expect_golden("format.txt", text);
}

TEST(JsonText, OfNestedValuesIsAsBefore) {
  const json::value value = {{"empty", json::object{}},
                             {"list", json::array{1, -2, 3.5, 1e300, json::array{}, nullptr}},
                             {"deep", {{"a", {{"b", true}}}}},
                             {"text", "a\"b\\c\n\xc3\xa9\xff"}};
  expect_golden("json.txt",
                json_text(value) + "\n" + json_text(value, 2) + "\n" + json_text(value, 4) + "\n");
}

TEST(PrometheusText, HasHeadsSamplesLabelsAndEscapes) {
  PrometheusText text(Labels{{"instance", "a\"b"}});
  text.family("queue", "gauge", "Rows that wait.");
  text.sample("", {}, 3);
  text.sample("", {{"model", "line\nbreak\ttab\\end"}, {"core", "1"}}, 0.25);
  text.sample("_sum", {{"le", "+Inf"}}, uint64_t{18446744073709551615u});
  text.line("# EOF");
  EXPECT_EQ(text.take(),
            "# HELP queue Rows that wait.\n# TYPE queue gauge\n"
            "queue{instance=\"a\\\"b\"} 3\n"
            "queue{model=\"line\\nbreak tab\\\\end\",core=\"1\",instance=\"a\\\"b\"} 0.25\n"
            "queue_sum{le=\"+Inf\",instance=\"a\\\"b\"} 18446744073709551615\n# EOF\n");
  PrometheusText plain;
  plain.family("up", "counter", "x");
  plain.sample("", {}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(plain.take(), "# HELP up x\n# TYPE up counter\nup 0\n");
}

TEST(TerminalStyle, PaintsEachMeaningInItsColour) {
  const Style color{.color = true};
  std::string text;
  for (const Paint paint :
       {Paint::kGood, Paint::kWarning, Paint::kBad, Paint::kFaint, Paint::kStrong}) {
    text += painted(color, paint, "x") + painted({}, paint, "y") + "\n";
  }
  EXPECT_EQ(text,
            "\033[38;5;36mx\033[0my\n\033[38;5;214mx\033[0my\n\033[1;38;5;202mx\033[0my\n"
            "\033[2mx\033[0my\n\033[1mx\033[0my\n");
}

TEST(TerminalStyle, HasTheWidthThatTheEnvironmentSays) {
  ::setenv("COLUMNS", "123", 1);
  EXPECT_EQ(style_of(-1, ColorMode::kNever).width, 123u);
  ::setenv("COLUMNS", "-1", 1);
  EXPECT_EQ(style_of(-1, ColorMode::kNever).width, 80u);
  ::unsetenv("COLUMNS");
  EXPECT_EQ(style_of(-1, ColorMode::kNever).width, 80u);
  EXPECT_EQ(columns_of(""), 0u);
  EXPECT_EQ(columns_of("\x7f"
                       "a"),
            2u);
  EXPECT_EQ(printable("\x7f"
                      "a\x1f"),
            "?a ");
}

}  // namespace
}  // namespace neuron::tools
