// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/message.h"

#include <charconv>
#include <cstdio>

namespace neuron::nccom {

namespace {

constexpr std::string_view kMark = "#nccom ";

std::string_view word(std::string_view& line) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string_view result = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return result;
}

template <class T>
bool number(std::string_view text, T& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string to_line(const Message& message) {
  std::string line(kMark);
  const uint64_t numbers[] = {static_cast<uint64_t>(message.kind),
                              message.rank,
                              message.phase,
                              message.block,
                              message.step,
                              message.compared,
                              message.size,
                              message.count,
                              message.total_input,
                              message.total_output,
                              message.times_us.size()};
  for (const uint64_t value : numbers) line += std::to_string(value) + " ";
  for (const double time : message.times_us) {
    char text[40];
    std::snprintf(text, sizeof text, "%.3f ", time);
    line += text;
  }
  for (const char c : message.text) line += c == '\n' || c == '\r' ? ' ' : c;
  return line;
}

std::optional<Message> from_line(std::string_view line) {
  if (line.substr(0, kMark.size()) != kMark) return {};
  line.remove_prefix(kMark.size());
  uint64_t numbers[11];
  for (uint64_t& value : numbers) {
    if (!number(word(line), value)) return {};
  }
  Message message;
  if (numbers[0] > static_cast<uint64_t>(Message::Kind::kGetsOn) || numbers[10] > line.size()) {
    return {};
  }
  message.kind = static_cast<Message::Kind>(numbers[0]);
  message.rank = static_cast<uint32_t>(numbers[1]);
  message.phase = static_cast<uint32_t>(numbers[2]);
  message.block = static_cast<uint32_t>(numbers[3]);
  message.step = static_cast<uint32_t>(numbers[4]);
  message.compared = numbers[5];
  message.size = numbers[6];
  message.count = numbers[7];
  message.total_input = numbers[8];
  message.total_output = numbers[9];
  message.times_us.resize(numbers[10]);
  for (double& time : message.times_us) {
    if (!number(word(line), time)) return {};
  }
  message.text = line;
  return message;
}

}  // namespace neuron::nccom
