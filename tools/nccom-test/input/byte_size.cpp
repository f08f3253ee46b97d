// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/input/byte_size.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

namespace neuron::nccom {

using ccom::fail;
using ccom::Result;

Result<uint64_t> parse_byte_size(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto bad = [&] {
    return fail(CCOM_INVALID,
                "\"{}\" is no size: give a number with an optional suffix B, K, M, G or T (also "
                "KB, kib, ...; powers of 1024)",
                text);
  };
  if (error != std::errc() || !(number >= 0)) return bad();
  std::string suffix;
  for (const char* at = end; at != text.data() + text.size(); ++at) {
    suffix += static_cast<char>(std::tolower(static_cast<unsigned char>(*at)));
  }
  if (suffix.size() > 1 && suffix.back() == 'b') suffix.pop_back();
  if (suffix.size() == 2 && suffix.back() == 'i') suffix.pop_back();
  double unit = 1;
  if (suffix == "k") {
    unit = 1024.0;
  } else if (suffix == "m") {
    unit = 1024.0 * 1024;
  } else if (suffix == "g") {
    unit = 1024.0 * 1024 * 1024;
  } else if (suffix == "t") {
    unit = 1024.0 * 1024 * 1024 * 1024;
  } else if (!suffix.empty() && suffix != "b") {
    return bad();
  }
  const double bytes = number * unit;
  if (bytes > static_cast<double>(kLargestSize)) {
    return fail(CCOM_INVALID, "size \"{}\" is more than 16T", text);
  }
  if (bytes != std::floor(bytes)) {
    return fail(CCOM_INVALID, "size \"{}\" is no whole number of bytes", text);
  }
  return static_cast<uint64_t>(bytes);
}

Result<std::vector<uint64_t>> sizes_of(const Sweep& sweep) {
  if (sweep.maximum < sweep.minimum) {
    return fail(CCOM_INVALID, "--maxbytes {} is less than --minbytes {}", sweep.maximum,
                sweep.minimum);
  }
  if (sweep.factor && !(*sweep.factor > 1)) {
    return fail(CCOM_INVALID, "--stepfactor {} does not grow; give more than 1", *sweep.factor);
  }
  std::vector<uint64_t> sizes;
  const uint64_t step = sweep.step.value_or((sweep.maximum - sweep.minimum) / 10);
  if (!sweep.factor && step == 0 && sweep.maximum > sweep.minimum) {
    if (sweep.step) return fail(CCOM_INVALID, "--stepbytes is 0; give at least 1 or --stepfactor");
  }
  uint64_t size = sweep.minimum;
  while (size <= sweep.maximum) {
    sizes.push_back(size);
    if (sizes.size() > kMostSizes) {
      return fail(CCOM_INVALID, "the sweep from {} to {} has more than {} sizes; step wider",
                  sweep.minimum, sweep.maximum, kMostSizes);
    }
    if (sweep.factor) {
      const double next = static_cast<double>(size) * *sweep.factor;
      size = std::max(size + 1, static_cast<uint64_t>(next));
    } else {
      size += std::max<uint64_t>(step, 1);
    }
  }
  return sizes;
}

}  // namespace neuron::nccom
