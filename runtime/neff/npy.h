// SPDX-License-Identifier: Apache-2.0
//
// Arrays of .npy files: format versions 1 to 3, C order, numbers, little endian.
// Callers: constants of a model, tools. Thread-safe: no state. `data` borrows the file's bytes.
// Fails: NRT_INVALID; the sentence quotes the wrong part of the header and says what is expected.
#ifndef RUNTIME_NEFF_NPY_H
#define RUNTIME_NEFF_NPY_H

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/header.h"

namespace neuron::neff {

struct NpyView {
  std::string
      type;  // NumPy's name, "<f4". "V" types are kept as they are (bfloat16 is saved as "<V2").
  uint32_t item_bytes = 0;
  std::vector<uint64_t> shape;  // Empty: one number.
  Bytes data;                   // Exactly the product of the shape times item_bytes.
};

runtime::Result<NpyView> parse_npy(Bytes file);

}  // namespace neuron::neff

#endif
