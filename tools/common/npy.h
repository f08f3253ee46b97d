// SPDX-License-Identifier: Apache-2.0
//
// Arrays in .npy files: C order, numeric, little endian.
// Callers: tools and tests. Thread-safe: values. Reading checks the file completely
// (runtime/neff/npy.h); bfloat16 has no NumPy name and is written as uint16 ("<u2").
#ifndef TOOLS_COMMON_NPY_H_
#define TOOLS_COMMON_NPY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/header.h"

namespace neuron::tools {

struct NpyArray {
  std::string type = "<f4";  // NumPy's name.
  std::vector<std::uint64_t> shape;
  std::vector<std::uint8_t> data;

  std::uint64_t elements() const;
};

runtime::Result<NpyArray> read_npy(neff::Bytes file);
runtime::Result<NpyArray> read_npy_file(const std::string& path);
std::vector<std::uint8_t> write_npy(const NpyArray& array);

}  // namespace neuron::tools

#endif  // TOOLS_COMMON_NPY_H_
