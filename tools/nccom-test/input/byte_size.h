// SPDX-License-Identifier: Apache-2.0
// Sizes in bytes as people write them ("32M", "1gb", "64KiB"; powers of 1024), and the sizes of a
// sweep. Callers: reading of options, tests. Thread-safe: functions of their arguments. Fails with
// a sentence that shows what was given.
#ifndef TOOLS_NCCOM_TEST_INPUT_BYTE_SIZE_H
#define TOOLS_NCCOM_TEST_INPUT_BYTE_SIZE_H

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ccom/base/error.h"

namespace neuron::nccom {

inline constexpr uint64_t kLargestSize = 1ull << 44;
inline constexpr size_t kMostSizes = 100'000;

ccom::Result<uint64_t> parse_byte_size(std::string_view text);

struct Sweep {
  uint64_t minimum = 32u << 20;
  uint64_t maximum = 32u << 20;
  std::optional<uint64_t> step;  // default: a tenth of the range
  std::optional<double> factor;  // goes before step
};

// Ascending, each once. The maximum is included only if a step or the factor reaches it.
ccom::Result<std::vector<uint64_t>> sizes_of(const Sweep& sweep);

}  // namespace neuron::nccom

#endif
