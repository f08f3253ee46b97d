// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/environment.h"

#include <strings.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace neuron::runtime {
namespace {

std::optional<uint64_t> parse_unsigned(std::string_view text) {
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    base = 16;
    text.remove_prefix(2);
  }
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return value;
}

}  // namespace

std::string environment_text(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool environment_is_set(const char* name) {
  const char* value = std::getenv(name);
  return value && *value;
}

Result<uint64_t> environment_unsigned(const char* name, uint64_t fallback, uint64_t minimum,
                                      uint64_t maximum) {
  const std::string text = environment_text(name);
  if (text.empty()) return fallback;
  const auto value = parse_unsigned(text);
  if (!value || *value < minimum || *value > maximum) {
    return fail(NRT_INVALID, "{} is \"{}\"; give a whole number from {} to {}, or unset it", name,
                text, minimum, maximum);
  }
  return *value;
}

Result<bool> environment_boolean(const char* name, bool fallback) {
  const std::string text = environment_text(name);
  if (text.empty()) return fallback;
  for (const char* word : {"1", "true", "yes", "on"}) {
    if (strcasecmp(text.c_str(), word) == 0) return true;
  }
  for (const char* word : {"0", "false", "no", "off"}) {
    if (strcasecmp(text.c_str(), word) == 0) return false;
  }
  return fail(NRT_INVALID, "{} is \"{}\"; give 1 or 0 (true or false), or unset it", name, text);
}

Result<size_t> environment_choice(const char* name, size_t fallback,
                                  std::initializer_list<const char*> choices) {
  const std::string text = environment_text(name);
  if (text.empty()) return fallback;
  std::string allowed;
  size_t index = 0;
  for (const char* choice : choices) {
    if (strcasecmp(text.c_str(), choice) == 0) return index;
    allowed += (index++ ? ", " : "") + std::string(choice);
  }
  return fail(NRT_INVALID, "{} is \"{}\"; give one of {}, or unset it", name, text, allowed);
}

Result<std::vector<uint32_t>> environment_ranges(const char* name, uint32_t limit) {
  const std::string text = environment_text(name);
  std::vector<uint32_t> numbers;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    const size_t dash = item.find('-');
    const auto first = parse_unsigned(item.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : parse_unsigned(item.substr(dash + 1));
    const bool trailing_comma = comma != std::string_view::npos && rest.empty();
    if (!first || !last || *first > *last || *last >= limit || trailing_comma ||
        (!numbers.empty() && *first <= numbers.back())) {
      return fail(
          NRT_INVALID,
          "{} is \"{}\"; give ascending numbers below {}, such as 0-3 or 0,2,4-6, or unset it",
          name, text, limit);
    }
    for (uint64_t number = *first; number <= *last; ++number) {
      numbers.push_back(static_cast<uint32_t>(number));
    }
  }
  return numbers;
}

}  // namespace neuron::runtime
