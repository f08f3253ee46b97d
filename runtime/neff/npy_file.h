// SPDX-License-Identifier: Apache-2.0
//
// Arrays in .npy files: C order, numeric, little endian.
// Callers: tools and tests. Thread-safe: values. Reading checks the file completely
// (runtime/neff/npy.h); bfloat16 has no NumPy name and is written as uint16 ("<u2").
#ifndef RUNTIME_NEFF_NPY_FILE_H
#define RUNTIME_NEFF_NPY_FILE_H

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/header.h"

namespace neuron::tools {

struct NpyArray {
  std::string type = "<f4";  // NumPy's name.
  std::vector<uint64_t> shape;
  std::vector<uint8_t> data;

  uint64_t elements() const;
};

runtime::Result<NpyArray> read_npy(neff::Bytes file);
runtime::Result<NpyArray> read_npy_file(const std::string& path);
std::vector<uint8_t> write_npy(const NpyArray& array);

}  // namespace neuron::tools

#endif
