// SPDX-License-Identifier: Apache-2.0
#include "driver/base/last_error.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace neuron::base {
namespace {

constexpr unsigned kSentence = 1024;

thread_local char sentence[kSentence];

}  // namespace

const char* last_error() { return sentence; }

void clear_error() { sentence[0] = '\0'; }

int fail(int error, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(sentence, kSentence, format, arguments);
  va_end(arguments);
  errno = -error;
  return error;
}

int explain(int error, const char* format, ...) {
  char below[kSentence];
  std::memcpy(below, sentence, kSentence);
  va_list arguments;
  va_start(arguments, format);
  int length = std::vsnprintf(sentence, kSentence, format, arguments);
  va_end(arguments);
  if (length < 0) length = 0;
  if (static_cast<unsigned>(length) < kSentence) {
    char buffer[128];
    const char* reason = below[0] != '\0' ? below : strerror_r(-error, buffer, sizeof(buffer));
    // The result is checked to tell the compiler that truncation is intended.
    if (std::snprintf(sentence + length, kSentence - length, ": %s", reason) < 0) {
      sentence[length] = '\0';
    }
  }
  errno = -error;
  return error;
}

}  // namespace neuron::base
