// SPDX-License-Identifier: Apache-2.0
#include "tools/execution/quiet_runtime.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "runtime/base/environment_table.h"

namespace neuron::execution {

void quiet_runtime(const char* program) {
  constexpr char kLevel[] = "NEURON_RT_LOG_LEVEL_NRT";
  if (std::getenv(kLevel) != nullptr) return;
  const char* level = std::getenv("NEURON_RT_LOG_LEVEL");
  const std::string_view chosen = level == nullptr ? "" : level;
  if (chosen != "ERROR" && chosen != "QUIET") {
    for (const std::string& sentence : runtime::unknown_variables(environ)) {
      std::fprintf(stderr, "%s: %s\n", program, sentence.c_str());
    }
  }
  ::setenv(kLevel, "QUIET", 1);
}

}  // namespace neuron::execution
