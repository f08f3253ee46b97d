// SPDX-License-Identifier: Apache-2.0
//
// Whether an array is what it should be, within the bound of real numbers.
// Callers: --check of neuron-compile, the runner of the node tests. Thread-safe: no state.
#ifndef TOOLS_NEURON_COMPILE_CHECK_COMPARISON_H
#define TOOLS_NEURON_COMPILE_CHECK_COMPARISON_H

#include <string>

#include "tools/compiler/graph/tensor.h"

namespace neuron::compile {

// |found - expected| <= absolute + relative * |expected|, or, of the whole array,
// <= of_largest * the largest |expected|. NaN equals NaN; whole numbers must be equal.
struct Bound {
  double absolute = 1e-7, relative = 1e-3, of_largest = 0;
};

// Of one operation in f32 and wider types; of whole models in f32, where an element that is small
// among its neighbours is a sum of larger terms and has the errors of these: sixteen units of the
// last place of the largest; of results with 16-bit operands.
inline constexpr Bound kExactBound{};
inline constexpr Bound kModelBound{1e-7, 1e-3, 2e-6};
inline constexpr Bound kNarrowBound{1e-7, 1e-3, 2e-2};

// Empty if it is; else where and how it is not.
std::string difference(const graph::Tensor& found, const graph::Tensor& expected,
                       const Bound& bound);

}  // namespace neuron::compile

#endif
