// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/model_spec.h"

namespace neuron::serve {
namespace {

struct DtypeRow {
  nrt_dtype_t dtype;
  const char* name;
  size_t bytes;
};
constexpr DtypeRow kDtypes[] = {
    {NRT_DTYPE_FLOAT32, "float32", 4},   {NRT_DTYPE_FP32R, "float32r", 4},
    {NRT_DTYPE_BFLOAT16, "bfloat16", 2}, {NRT_DTYPE_FLOAT16, "float16", 2},
    {NRT_DTYPE_FP8_E3, "float8e3", 1},   {NRT_DTYPE_FP8_E4, "float8e4", 1},
    {NRT_DTYPE_FP8_E5, "float8e5", 1},   {NRT_DTYPE_UINT8, "uint8", 1},
    {NRT_DTYPE_UINT16, "uint16", 2},     {NRT_DTYPE_UINT32, "uint32", 4},
    {NRT_DTYPE_UINT64, "uint64", 8},     {NRT_DTYPE_INT8, "int8", 1},
    {NRT_DTYPE_INT16, "int16", 2},       {NRT_DTYPE_INT32, "int32", 4},
    {NRT_DTYPE_INT64, "int64", 8},
};

const DtypeRow* row_of(nrt_dtype_t dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

}  // namespace

const char* dtype_name(nrt_dtype_t dtype) {
  const DtypeRow* row = row_of(dtype);
  return row != nullptr ? row->name : "bytes";
}

size_t dtype_bytes(nrt_dtype_t dtype) {
  const DtypeRow* row = row_of(dtype);
  return row != nullptr ? row->bytes : 1;
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
