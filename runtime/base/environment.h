// SPDX-License-Identifier: Apache-2.0
//
// Typed reading of environment variables.
// Callers: nrt_init and what it starts; not on hot paths. Thread-safe as far as getenv is: no
// thread may change the environment meanwhile. An unset or empty variable gives the fallback.
// Fails: NRT_INVALID for a value that cannot be read; the sentence names the variable, the value
// and what is allowed.
#ifndef RUNTIME_BASE_ENVIRONMENT_H
#define RUNTIME_BASE_ENVIRONMENT_H

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::runtime {

// Empty if unset.
std::string environment_text(const char* name);

bool environment_is_set(const char* name);

// Decimal, or hexadecimal with 0x.
Result<uint64_t> environment_unsigned(const char* name, uint64_t fallback, uint64_t minimum,
                                      uint64_t maximum);

// 1, 0, true, false, yes, no, on, off; case does not matter.
Result<bool> environment_boolean(const char* name, bool fallback);

// Index in `choices`; case does not matter.
Result<size_t> environment_choice(const char* name, size_t fallback,
                                  std::initializer_list<const char*> choices);

// "3", "0-3", "0,2,4-6": ascending, each once, at most `limit` numbers below `limit`. Empty if
// unset.
Result<std::vector<uint32_t>> environment_ranges(const char* name, uint32_t limit);

}  // namespace neuron::runtime

#endif
