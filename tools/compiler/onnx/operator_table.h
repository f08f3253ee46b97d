// SPDX-License-Identifier: Apache-2.0
//
// Which function imports an operator of a model, and why some operators never are.
// Callers: the importer. Thread-safe: constants. Cannot fail: null stands for an operator that is
// not known.
#ifndef TOOLS_COMPILER_ONNX_OPERATOR_TABLE_H
#define TOOLS_COMPILER_ONNX_OPERATOR_TABLE_H

#include <string>

#include "tools/compiler/onnx/call.h"

namespace neuron::onnx {

struct RefusedOperator {
  const char* name;
  graph::RefusalClass kind;
  const char* sentence;
};

// The name has the domain before it if that is not ONNX's own.
Import import_of(const std::string& name);
// Of operators whose class of refusal is known although they are not imported.
const RefusedOperator* refused_operator(const std::string& name);

}  // namespace neuron::onnx

#endif
