// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/peer_environment.h"

#include <cstdlib>
#include <cstring>

namespace neuron::bench {

bool set_peer_environment(const char* core_type) {
  const struct {
    const char* name;
    const char* value;
  } wanted[] = {
      {"OPENBLAS_CORETYPE", core_type}, {"OPENBLAS_NUM_THREADS", "1"}, {"OMP_NUM_THREADS", "1"}};
  bool changed = false;
  for (const auto& [name, value] : wanted) {
    const char* found = std::getenv(name);
    if (found != nullptr && std::strcmp(found, value) == 0) continue;
    setenv(name, value, 1);
    changed = true;
  }
  return changed;
}

}  // namespace neuron::bench
