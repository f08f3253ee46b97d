// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what neuron-compile reads: the bytes of an ONNX model. Nothing may crash or hang,
// or take more memory than the limits allow.
#include <cstdint>

#include "tests/fuzz/compiled_graph.h"
#include "tools/compiler/onnx/importer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace neuron;  // NOLINT: this file is the target
  if (size > fuzz::kMostBytes) return 0;
  onnx::Bindings bindings;
  bindings.limits = fuzz::kLimits;
  const auto imported = onnx::import_model({data, size}, "fuzz", "", bindings);
  if (imported) fuzz::compile(imported->graph, imported->refusals);
  return 0;
}
