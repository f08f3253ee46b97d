// SPDX-License-Identifier: Apache-2.0
//
// Why a model is not compiled: one refusal for each node or tensor that stands in the way.
// Callers: importers and the lowering make them, programs print them. Values.
#ifndef TOOLS_COMPILER_GRAPH_REFUSAL_H
#define TOOLS_COMPILER_GRAPH_REFUSAL_H

#include <cstdint>
#include <string>
#include <vector>

namespace neuron::graph {

enum class RefusalClass : uint8_t {
  kInvalid,   // not a valid model
  kOperator,  // an operator that is not known
  kForm,      // a form of an operator, a type or a size that is not supported
  kShape,     // a dimension is free
  kBinding,   // an input decides a shape or the structure
  kEmpty,     // an array without elements
  kStrings,   // text or images
  kRandom,    // random values
  kGradient,  // derivatives of other nodes
  kMemory,    // more than a core has
};

const char* class_name(RefusalClass kind);  // "operator"

struct Refusal {
  RefusalClass kind = RefusalClass::kForm;
  std::string node;                 // its name in the model, or that of a tensor
  std::string operator_name;        // empty for a tensor
  std::string sentence;             // what is wrong, and what helps
  std::vector<std::string> inputs;  // which inputs to bind (kBinding)

  // "node "tok" (StringNormalizer): strings have ..."
  std::string text() const;
};

}  // namespace neuron::graph

#endif
