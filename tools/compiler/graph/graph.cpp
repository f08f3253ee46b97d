// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/graph/graph.h"

namespace neuron::graph {

const char* function_name(Function function) {
  constexpr const char* kNames[] = {
      "cast",     "negate",    "absolute", "exp",           "log",        "sqrt",
      "floor",    "ceil",      "round",    "sign",          "sin",        "cos",
      "tan",      "asin",      "acos",     "atan",          "sinh",       "cosh",
      "tanh",     "asinh",     "acosh",    "atanh",         "erf",        "sigmoid",
      "softplus", "not",       "is_nan",   "is_inf",        "add",        "subtract",
      "multiply", "divide",    "modulo",   "remainder",     "power",      "maximum",
      "minimum",  "and",       "or",       "xor",           "shift_left", "shift_right",
      "equal",    "not_equal", "less",     "less_or_equal", "greater",    "greater_or_equal",
      "select"};
  return kNames[static_cast<size_t>(function)];
}

bool gives_bool(Function function) {
  return function == Function::kIsNan || function == Function::kIsInf ||
         (function >= Function::kEqual && function <= Function::kGreaterOrEqual);
}

std::vector<bool> needed(const Graph& graph) {
  std::vector<bool> marks(graph.nodes.size(), false);
  for (const Output& output : graph.outputs) marks[static_cast<size_t>(output.value)] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    if (!marks[i]) continue;
    for (const Value operand : graph.nodes[i].operands) marks[static_cast<size_t>(operand)] = true;
  }
  return marks;
}

bool renames(const Node& node, const Graph& graph) {
  return node.kind == Kind::kMove && node.operands.size() == 1 &&
         renames(node, elements_of(graph.nodes[static_cast<size_t>(node.operands[0])].shape));
}

bool renames(const Node& node, int64_t elements) {
  if (node.kind != Kind::kMove || node.operands.size() != 1 || node.regions.size() != 1) {
    return false;
  }
  const Region& region = node.regions[0];
  const int64_t count = elements_of(node.shape);
  if (elements != count || region.to != 0 || region.from != 0) return false;
  return region.dimensions.empty()
             ? count == 1
             : region.dimensions.size() == 1 && region.dimensions[0].size == count &&
                   region.dimensions[0].to_step == 1 && region.dimensions[0].from_step == 1;
}

}  // namespace neuron::graph
