// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/input/byte_rate.h"

#include <cstdlib>

namespace neuron::nccom {

using ccom::fail;
using ccom::Result;

Result<double> parse_byte_rate(const std::string& text, bool gibibytes) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  if (end != text.c_str() && value >= 0 && value < 1e9) {
    if (unit.empty()) return value * (gibibytes ? 1073741824.0 : 1e9);
    if (unit == "GB/s" || unit == "GB") return value * 1e9;
    if (unit == "GiB/s" || unit == "GiB") return value * 1073741824.0;
    if (unit == "Gbps" || unit == "Gb/s") return value * 1e9 / 8;
  }
  return fail(CCOM_INVALID, "--expected \"{}\": give a rate as in 12.5, 12.5GB/s, 11GiB/s, 100Gbps",
              text);
}

}  // namespace neuron::nccom
