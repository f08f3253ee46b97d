// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/error.h"

#include <cstdarg>
#include <cstdio>

namespace neuron::service {
namespace {
thread_local char sentence[640];
}

int fail(int error, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(sentence, sizeof(sentence), format, arguments);
  va_end(arguments);
  return error;
}

const char* last_error() { return sentence; }

}  // namespace neuron::service
