// SPDX-License-Identifier: Apache-2.0
//
// The kernels that come with the project, each as a function that writes its NEFF.
//
// Callers: the program neuron-kernels, tests, benchmarks. Thread-safe: no state. Each call with the
// same arguments gives the same bytes. Fails with a sentence: a shape that the kernel does not
// take, a missing weight file, a tile that does not fit.
#ifndef TOOLS_KERNELS_KERNELS_H_
#define TOOLS_KERNELS_KERNELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "hw/isa.h"
#include "runtime/base/error.h"

namespace neuron::kernels {

using Neff = runtime::Result<std::vector<std::uint8_t>>;

// All five engines return at once; no inputs, no outputs.
Neff empty();

// result [m, n] = transpose(lhs_t [k, m]) * rhs [k, n]; f32 or bf16, the sums in f32. m and k are
// multiples of 128, n of 512.
struct MatmulShape {
  std::uint64_t m = 0, k = 0, n = 0;
};
Neff matmul(const std::string& name, std::uint8_t dtype, const MatmulShape& shape);

// y [rows, columns] = softmax of each row of x; f32 or bf16, computed in f32.
Neff softmax(const std::string& name, std::uint8_t dtype, std::uint64_t rows,
             std::uint64_t columns);

// sum [rows, columns] = a + b.
Neff tensor_add(const std::string& name, std::uint8_t dtype, std::uint64_t rows,
                std::uint64_t columns);

// probabilities [120, 10] of the digits x [120, 64], f32.
struct DigitsWeights {
  std::vector<float> w1;  // [64, 128]
  std::vector<float> b1;  // [128]
  std::vector<float> w2;  // [128, 10]
  std::vector<float> b2;  // [10]
};
runtime::Result<DigitsWeights> read_digits_weights(const std::string& directory);
Neff digits(const DigitsWeights& weights);

// The kernels that build/neff holds, by name; `data` is the folder of the digits' weights.
std::vector<std::string> names();
Neff build(const std::string& name, const std::string& data);

}  // namespace neuron::kernels

#endif  // TOOLS_KERNELS_KERNELS_H_
