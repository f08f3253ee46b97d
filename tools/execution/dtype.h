// SPDX-License-Identifier: Apache-2.0
//
// The types of a model's tensors as people and NumPy name them.
// Callers: neuron-run, neuron-serve. Thread-safe: constants. Cannot fail: a type without a name is
// "bytes", one byte each.
#ifndef TOOLS_EXECUTION_DTYPE_H
#define TOOLS_EXECUTION_DTYPE_H

#include <nrt/nrt.h>

#include <cstddef>
#include <string>
#include <vector>

namespace neuron::execution {

const char* dtype_name(nrt_dtype_t dtype);  // "float32"
size_t dtype_bytes(nrt_dtype_t dtype);      // of one number

// How a .npy file has such numbers: kind and bytes, "f4" or "u2". The first one is what is written;
// the others have the same bits. NumPy has no bfloat16 and no 8-bit float: they are their bits as
// unsigned numbers, or "V2", "V1" and "f1" as the packages that add them save them.
const std::vector<std::string>& npy_kinds(nrt_dtype_t dtype);

// The bits of a floating-point type, for who makes such numbers; no mantissa for other types.
struct FloatFormat {
  int mantissa_bits = 0, exponent_bits = 0;
};
FloatFormat float_format(nrt_dtype_t dtype);

}  // namespace neuron::execution

#endif
