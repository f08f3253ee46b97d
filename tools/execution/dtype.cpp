// SPDX-License-Identifier: Apache-2.0
#include "tools/execution/dtype.h"

namespace neuron::execution {
namespace {

struct Row {
  nrt_dtype_t dtype;
  const char* name;
  size_t bytes;
  std::vector<std::string> npy;
  FloatFormat format = {};
};

const Row& row_of(nrt_dtype_t dtype) {
  static const std::vector<std::string> kByte = {"u1", "V1", "f1"};
  static const Row kRows[] = {
      {NRT_DTYPE_FLOAT32, "float32", 4, {"f4"}, {23, 8}},
      {NRT_DTYPE_FP32R, "float32r", 4, {"f4"}, {23, 8}},
      {NRT_DTYPE_BFLOAT16, "bfloat16", 2, {"u2", "V2"}, {7, 8}},
      {NRT_DTYPE_FLOAT16, "float16", 2, {"f2"}, {10, 5}},
      {NRT_DTYPE_FP8_E3, "float8e3", 1, kByte, {4, 3}},
      {NRT_DTYPE_FP8_E4, "float8e4", 1, kByte, {3, 4}},
      {NRT_DTYPE_FP8_E5, "float8e5", 1, kByte, {2, 5}},
      {NRT_DTYPE_UINT8, "uint8", 1, {"u1", "b1"}},
      {NRT_DTYPE_UINT16, "uint16", 2, {"u2"}},
      {NRT_DTYPE_UINT32, "uint32", 4, {"u4"}},
      {NRT_DTYPE_UINT64, "uint64", 8, {"u8"}},
      {NRT_DTYPE_INT8, "int8", 1, {"i1"}},
      {NRT_DTYPE_INT16, "int16", 2, {"i2"}},
      {NRT_DTYPE_INT32, "int32", 4, {"i4"}},
      {NRT_DTYPE_INT64, "int64", 8, {"i8"}},
  };
  static const Row kOther{NRT_DTYPE_UNKNOWN, "bytes", 1, kByte};
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row;
  }
  return kOther;
}

}  // namespace

const char* dtype_name(nrt_dtype_t dtype) { return row_of(dtype).name; }
size_t dtype_bytes(nrt_dtype_t dtype) { return row_of(dtype).bytes; }
const std::vector<std::string>& npy_kinds(nrt_dtype_t dtype) { return row_of(dtype).npy; }
FloatFormat float_format(nrt_dtype_t dtype) { return row_of(dtype).format; }

}  // namespace neuron::execution
