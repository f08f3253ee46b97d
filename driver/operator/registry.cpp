// SPDX-License-Identifier: Apache-2.0
#include "driver/operator/registry.h"

namespace neuron::operators {

bool& is_multicore() {
  static bool multicore = false;
  return multicore;
}

// Made by the first registration, which happens before main().
std::vector<Operator>& all_operators() {
  static std::vector<Operator> operators;
  return operators;
}

std::vector<std::pair<std::string, Function>>& all_kernels() {
  static std::vector<std::pair<std::string, Function>> kernels;
  return kernels;
}

}  // namespace neuron::operators
