// SPDX-License-Identifier: Apache-2.0
// Writes neuron-environment(7) to standard output, while the project is built.
#include <cstdio>

#include "runtime/base/environment_table.h"
#include "tools/common/version.h"

int main() {
  const std::string page = neuron::runtime::environment_page(neuron::tools::version());
  return std::fputs(page.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? 1 : 0;
}
