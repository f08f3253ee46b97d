// SPDX-License-Identifier: Apache-2.0
//
// Every environment variable that means something to this runtime or to libccom, and those that the
// original has and that mean nothing here. neuron-environment(7) is made from it, and nrt_init
// names variables that nobody reads. Callers: nrt_init, the page's generator, tests. Thread-safe:
// constants. Cannot fail.
#ifndef RUNTIME_BASE_ENVIRONMENT_TABLE_H
#define RUNTIME_BASE_ENVIRONMENT_TABLE_H

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace neuron::runtime {

struct EnvironmentVariable {
  std::string_view name;
  std::string_view values;        // "1, 2"; with what unset means: "seconds (600)"
  std::string_view meaning;       // empty: of the original; has no effect here
  std::string_view group;         // heading of the page
  std::string_view why_not = {};  // it has no effect here
};
std::span<const EnvironmentVariable> environment_table();

// Null for a name that is not in the table.
const EnvironmentVariable* find_variable(std::string_view name);

// A sentence for each variable of `environment` ("NAME=value") that begins as those of this runtime
// and of libccom do (NEURON_RT_, NEURON_OPEN_, NEURON_EMULATOR_, CCOM_), or differs from one of
// them in two letters at most, and is not in the table, with the nearest name that is.
std::vector<std::string> unknown_variables(const char* const* environment);

// neuron-environment(7), in the language of man.
std::string environment_page(std::string_view version);

}  // namespace neuron::runtime

#endif
