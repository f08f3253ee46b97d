// SPDX-License-Identifier: Apache-2.0
#include "driver/base/error.h"

#include <cstring>

namespace neuron::base {

std::string with_errno_meaning(std::string text, int errno_value) {
  char buffer[128] = "";
  // The GNU strerror_r may return a constant instead of filling the buffer.
  const char* meaning = strerror_r(errno_value, buffer, sizeof(buffer));
  return std::move(text) + ": " + meaning;
}

}  // namespace neuron::base
