// SPDX-License-Identifier: Apache-2.0
//
// What clients must know of a model: names, types and shapes of its tensors, and its rows.
// Concept: a row is what one question needs of every tensor. In a batched model it is what one
// index of the first dimension holds, and up to `batch` rows of several requests run at once; in
// any other model it is the whole tensor, and batch is 1.
// Callers: all of this program. Thread-safe: values. Fails: from() with a sentence.
#ifndef TOOLS_NEURON_SERVE_MESSAGE_MODEL_SPEC_H
#define TOOLS_NEURON_SERVE_MESSAGE_MODEL_SPEC_H

#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/execution/dtype.h"

namespace neuron::serve {

using execution::dtype_bytes;
using execution::dtype_name;

// "NAME" and "2" of the key "NAME/2"; a model without versions has the version "1".
std::string name_of(std::string_view key);
std::string version_of(std::string_view key);

struct TensorSpec {
  std::string name;
  nrt_dtype_t dtype = NRT_DTYPE_UNKNOWN;
  std::vector<uint32_t> shape;  // as the NEFF has it
  size_t bytes = 0;
  size_t item_bytes = 0;
  size_t row_bytes = 0;
  size_t row_items = 0;
  bool operator==(const TensorSpec&) const = default;
};

struct ModelSpec {
  std::string name;  // the key: "digits", or "digits/2" for a version
  std::string file;  // as the folder of models has it
  // What is loaded: `file`, or what it was compiled to, for ascending batch sizes.
  std::vector<std::string> neffs;
  bool batched = false;
  bool warm_up = true;
  uint32_t batch = 1;  // the largest
  std::vector<TensorSpec> inputs, outputs;
  size_t input_row_bytes = 0, output_row_bytes = 0;

  bool same_tensors(const ModelSpec& other) const {
    return batched == other.batched && inputs == other.inputs && outputs == other.outputs;
  }
  // Of two batched ones: the first tensor whose rows are not those of `other`, "" if all are.
  std::string other_rows(const ModelSpec& other) const;
  // Takes the tensors of one NEFF. False: `error` says why they cannot be served so.
  bool set_tensors(const nrt_tensor_info_array_t& info, std::string& error);
};

}  // namespace neuron::serve

#endif
