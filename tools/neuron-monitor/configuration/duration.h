// SPDX-License-Identifier: Apache-2.0
//
// Durations as configuration files of the original spell them: "5s", "1.5h", "2h45m", "500ms".
// Callers: the configuration reader and main(). Thread-safe: no state.
// Fails: nothing returned, and a sentence that says what is wrong and what is expected.
#ifndef TOOLS_NEURON_MONITOR_CONFIGURATION_DURATION_H
#define TOOLS_NEURON_MONITOR_CONFIGURATION_DURATION_H

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace neuron::monitor {

using Duration = std::chrono::nanoseconds;

// Shorter ones would measure the monitor itself.
inline constexpr Duration kShortestPeriod = std::chrono::milliseconds(10);
inline constexpr Duration kLongestPeriod = std::chrono::hours(366 * 24);

// Parses any duration: signs, fractions, the units ns, us, µs, ms, s, m and h in any number.
std::optional<Duration> parse_duration(std::string_view text, std::string& error);

// Parses a duration that can be a period: from kShortestPeriod to kLongestPeriod.
std::optional<Duration> parse_period(std::string_view text, std::string& error);

}  // namespace neuron::monitor

#endif
