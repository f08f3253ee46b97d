// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/message/model_spec.h"

namespace neuron::serve {

std::string name_of(std::string_view key) { return std::string(key.substr(0, key.find('/'))); }

std::string version_of(std::string_view key) {
  const size_t slash = key.find('/');
  return slash == std::string_view::npos ? "1" : std::string(key.substr(slash + 1));
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
