// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/message/model_spec.h"

#include <algorithm>

namespace neuron::serve {

std::string name_of(std::string_view key) { return std::string(key.substr(0, key.find('/'))); }

std::string version_of(std::string_view key) {
  const size_t slash = key.find('/');
  return slash == std::string_view::npos ? "1" : std::string(key.substr(slash + 1));
}

std::string ModelSpec::other_rows(const ModelSpec& other) const {
  for (const auto* sides : {&inputs, &outputs}) {
    const auto& theirs = sides == &inputs ? other.inputs : other.outputs;
    if (sides->size() != theirs.size()) return sides == &inputs ? "its inputs" : "its outputs";
    for (size_t i = 0; i < theirs.size(); ++i) {
      const TensorSpec &a = (*sides)[i], &b = theirs[i];
      const bool same = a.name == b.name && a.dtype == b.dtype && a.row_bytes == b.row_bytes &&
                        a.shape.size() == b.shape.size() &&
                        std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1);
      if (!same) return "tensor '" + a.name + "'";
    }
  }
  return "";
}

bool ModelSpec::set_tensors(const nrt_tensor_info_array_t& info, std::string& error) {
  inputs.clear();
  outputs.clear();
  input_row_bytes = output_row_bytes = 0;
  batch = 1;
  for (uint64_t i = 0; i < info.tensor_count; ++i) {
    const nrt_tensor_info_t& from = info.tensor_array[i];
    TensorSpec to{.name = from.name,
                  .dtype = from.dtype,
                  .shape = std::vector<uint32_t>(from.shape, from.shape + from.ndim),
                  .bytes = from.size,
                  .item_bytes = dtype_bytes(from.dtype)};
    if (to.bytes == 0 || to.bytes % to.item_bytes != 0) {
      error = "model '" + name + "': tensor '" + to.name + "' has " + std::to_string(to.bytes) +
              " bytes, which is no number of elements of type " + dtype_name(to.dtype);
      return false;
    }
    if (batched) {
      const uint32_t rows = to.shape.empty() ? 0 : to.shape[0];
      if (i == 0) batch = rows;
      if (rows == 0 || rows != batch || to.bytes % rows != 0) {
        error = "model '" + name + "' is said to be batched, but tensor '" + to.name + "' has " +
                std::to_string(rows) + " rows where '" + info.tensor_array[0].name + "' has " +
                std::to_string(batch) + "; all inputs and outputs need the same first dimension";
        return false;
      }
    }
    to.row_bytes = to.bytes / batch;
    to.row_items = to.row_bytes / to.item_bytes;
    const bool input = from.usage == NRT_TENSOR_USAGE_INPUT;
    (input ? input_row_bytes : output_row_bytes) += to.row_bytes;
    (input ? inputs : outputs).push_back(std::move(to));
  }
  return true;
}

}  // namespace neuron::serve
