// SPDX-License-Identifier: Apache-2.0
// Whole outputs that are compared with files in tests/unit/tools/golden. A change of an output that
// is meant is written there by NEURON_UPDATE_GOLDEN=1 and read by whoever reviews the change.
// Callers: tests. Thread-safe: no. Fails: as an expectation that names the first line that differs.
#ifndef TESTS_UNIT_TOOLS_GOLDEN_H
#define TESTS_UNIT_TOOLS_GOLDEN_H

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace neuron::testing {

// Times are shown in the zone of the process.
inline const bool kInUtc = (::setenv("TZ", "UTC", 1), ::tzset(), true);

inline void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(NEURON_SOURCE_DIR) + "/tests/unit/tools/golden/" + name;
  if (std::getenv("NEURON_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string expected{std::istreambuf_iterator<char>(file),
                             std::istreambuf_iterator<char>()};
  if (text == expected) return;
  std::istringstream now(text), before(expected);
  std::string line, old;
  int number = 0;
  do {
    ++number;
    line.clear();
    old.clear();
    std::getline(now, line);
    std::getline(before, old);
  } while (line == old && now && before);
  ADD_FAILURE() << name << ":" << number << ": found \"" << line << "\", expected \"" << old
                << "\"";
}

}  // namespace neuron::testing

#endif
