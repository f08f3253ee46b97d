// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/last_error.h"

#include <algorithm>
#include <cstring>

namespace neuron::runtime {
namespace {

// A fixed array: recording an error must work when memory has run out.
thread_local char last_sentence[4096] = "";

}  // namespace

void set_last_error(std::string_view sentence) noexcept {
  const size_t size = std::min(sentence.size(), sizeof(last_sentence) - 1);
  std::memcpy(last_sentence, sentence.data(), size);
  last_sentence[size] = '\0';
}

const char* last_error() noexcept { return last_sentence; }

}  // namespace neuron::runtime
