// SPDX-License-Identifier: Apache-2.0
//
// The last sentence of each thread: why the thread's most recent failing call failed.
// Callers: the C interface (writes), nrt_open_last_error (reads). Thread-safe: the text is the
// thread's own and stays until its next failure. Cannot fail; a longer sentence is cut.
#ifndef RUNTIME_OBSERVE_LAST_ERROR_H
#define RUNTIME_OBSERVE_LAST_ERROR_H

#include <string_view>

namespace neuron::runtime {

void set_last_error(std::string_view sentence) noexcept;

// Empty before the first failure.
const char* last_error() noexcept;

}  // namespace neuron::runtime

#endif
