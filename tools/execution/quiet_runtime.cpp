// SPDX-License-Identifier: Apache-2.0
#include "tools/execution/quiet_runtime.h"

#include <strings.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/base/environment_table.h"

namespace neuron::execution {

void quiet_runtime(const char* program) {
  if (std::getenv("NEURON_RT_LOG_LEVEL_NRT") != nullptr) return;
  const char* level = std::getenv("NEURON_RT_LOG_LEVEL");
  const bool silent = level != nullptr && (::strcasecmp(level, "ERROR") == 0 ||  //
                                           ::strcasecmp(level, "QUIET") == 0);
  if (!silent) {
    for (const std::string& sentence : runtime::unknown_variables(environ)) {
      std::fprintf(stderr, "%s: %s\n", program, sentence.c_str());
    }
  }
  ::setenv("NEURON_OPEN_PROGRAM_TELLS", "1", 0);
}

}  // namespace neuron::execution
