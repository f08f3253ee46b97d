// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/graph/refusal.h"

#include <cstddef>

#include "driver/base/format.h"

namespace neuron::graph {

const char* class_name(RefusalClass kind) {
  constexpr const char* kNames[] = {"invalid", "operator", "form",   "shape",    "binding",
                                    "empty",   "strings",  "random", "gradient", "memory"};
  return kNames[static_cast<size_t>(kind)];
}

std::string Refusal::text() const {
  // Names come from a file and may hold anything.
  const std::string what = operator_name.empty() ? "" : " (" + base::escaped(operator_name) + ")";
  if (node.empty() && what.empty()) return sentence;
  return (operator_name.empty() ? "tensor \"" : "node \"") + base::escaped(node) + "\"" + what +
         ": " + sentence;
}

}  // namespace neuron::graph
