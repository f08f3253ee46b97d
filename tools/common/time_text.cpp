// SPDX-License-Identifier: Apache-2.0
#include "tools/common/time_text.h"

#include <cstdio>
#include <ctime>

namespace neuron::tools {

std::string utc_text(std::chrono::system_clock::time_point when) {
  const auto since =
      std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch()).count();
  const std::time_t seconds = static_cast<std::time_t>(since / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64], whole[80];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(whole, sizeof whole, "%s.%03dZ", text, static_cast<int>(since % 1000));
  return whole;
}

std::string local_text(std::chrono::system_clock::time_point when) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

}  // namespace neuron::tools
