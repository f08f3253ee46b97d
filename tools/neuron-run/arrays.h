// SPDX-License-Identifier: Apache-2.0
//
// Arrays of NumPy as a model's inputs and outputs: what fits, what is made, what is written.
// Callers: the run of neuron-run, tests; one thread. Values. Fails: with a sentence that names what
// was found, what was expected, and how NumPy makes the one of the other.
#ifndef TOOLS_NEURON_RUN_ARRAYS_H
#define TOOLS_NEURON_RUN_ARRAYS_H

#include <nrt/nrt.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/npy_file.h"

namespace neuron::run {

// What a tensor is, without the tensor.
struct Form {
  std::string name;
  nrt_dtype_t dtype = NRT_DTYPE_UNKNOWN;
  std::vector<uint64_t> shape;
  size_t bytes = 0;
};

// "float32 [120, 64]".
std::string text_of(const Form& form);

// Whether the array has the type and the shape of the tensor. Types of the same size whose bits
// NumPy cannot name (bfloat16, 8-bit floats) are taken as their bits.
runtime::Result<void> check_fits(const tools::NpyArray& array, const Form& form);

// The array that holds these bytes of the tensor.
tools::NpyArray array_of(const Form& form, std::vector<uint8_t> bytes);

// Numbers that depend on the seed, the tensor's name and its form alone. Floating-point numbers
// have any sign and are between 1/16 and 1 in magnitude (8-bit ones with 3 bits of exponent:
// between 1/4 and 1); whole numbers are 0 to 15.
std::vector<uint8_t> random_bytes(const Form& form, uint64_t seed);

}  // namespace neuron::run

#endif
