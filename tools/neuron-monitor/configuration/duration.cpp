// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/configuration/duration.h"

#include <array>
#include <cstdint>
#include <limits>

namespace neuron::monitor {
namespace {

struct Unit {
  std::string_view name;
  int64_t nanoseconds;
};
// Longer names first: "ms" must not be read as "m". The two spellings of micro are two code points.
constexpr std::array<Unit, 8> kUnits = {{{"ns", 1},
                                         {"us", 1'000},
                                         {"\u00b5s", 1'000},
                                         {"\u03bcs", 1'000},
                                         {"ms", 1'000'000},
                                         {"s", 1'000'000'000},
                                         {"m", 60'000'000'000},
                                         {"h", 3'600'000'000'000}}};

constexpr char kExpected[] =
    "expected numbers with units such as \"500ms\", \"1s\", \"1.5m\" or \"1h30m\"";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string quoted(std::string_view text) {
  return "\"" + std::string(text.substr(0, 64)) + (text.size() > 64 ? "...\"" : "\"");
}

// Takes one number with its unit from the front of `rest` and adds it to `nanoseconds`.
bool take_term(std::string_view& rest, __int128& nanoseconds, std::string& what) {
  __int128 whole = 0;
  size_t digits = 0;
  bool too_long = false;
  for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1), ++digits) {
    if (whole <= std::numeric_limits<int64_t>::max()) whole = whole * 10 + (rest.front() - '0');
    too_long = too_long || whole > std::numeric_limits<int64_t>::max();
  }
  // Eighteen places are finer than a nanosecond of an hour; further ones are read and dropped.
  __int128 fraction = 0, scale = 1;
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1), ++digits) {
      if (scale >= 1'000'000'000'000'000'000) continue;
      fraction = fraction * 10 + (rest.front() - '0');
      scale *= 10;
    }
  }
  if (digits == 0) return what = "a number is missing", false;
  for (const Unit& unit : kUnits) {
    if (rest.substr(0, unit.name.size()) != unit.name) continue;
    // "m" is also how "ms" begins.
    if (unit.name == "m" && rest.substr(0, 2) == "ms") continue;
    rest.remove_prefix(unit.name.size());
    if (too_long) return what = "it is longer than 292 years", false;
    nanoseconds += whole * unit.nanoseconds + fraction * unit.nanoseconds / scale;
    return true;
  }
  what = rest.empty() || rest.front() == '.' ? "a unit is missing" : "the unit is unknown";
  return false;
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text, std::string& error) {
  const auto refuse = [&](std::string_view what) {
    error = quoted(text) + " is no duration: " + std::string(what) + "; " + kExpected;
    return std::nullopt;
  };
  std::string_view rest = text;
  const bool negative = !rest.empty() && rest.front() == '-';
  if (!rest.empty() && (rest.front() == '-' || rest.front() == '+')) rest.remove_prefix(1);
  if (rest == "0") return Duration(0);
  if (rest.empty()) return refuse("it is empty");
  __int128 nanoseconds = 0;
  std::string what;
  while (!rest.empty()) {
    if (!take_term(rest, nanoseconds, what)) return refuse(what);
    if (nanoseconds > std::numeric_limits<int64_t>::max()) {
      return refuse("it is longer than 292 years");
    }
  }
  return Duration(static_cast<int64_t>(negative ? -nanoseconds : nanoseconds));
}

std::optional<Duration> parse_period(std::string_view text, std::string& error) {
  const auto duration = parse_duration(text, error);
  if (!duration || (*duration >= kShortestPeriod && *duration <= kLongestPeriod)) return duration;
  error = quoted(text) + " is no period: expected \"10ms\" to \"8784h\"";
  return std::nullopt;
}

}  // namespace neuron::monitor
