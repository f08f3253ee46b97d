// SPDX-License-Identifier: Apache-2.0
//
// How far roundings carry the outputs of a graph. Some graphs make much of little: the mean and the
// variance of values that are almost equal, say, leave nothing but their last bits.
// Callers: the property test of random graphs. Thread-safe: no state. Cannot fail.
#ifndef TESTS_PROPERTY_COMPILER_ROUNDING_SPREAD_H
#define TESTS_PROPERTY_COMPILER_ROUNDING_SPREAD_H

#include <vector>

#include "tools/compiler/graph/graph.h"
#include "tools/compiler/graph/interpreter.h"

namespace neuron::property {

// Of each element of each output of real numbers the largest distance from `expected` that was
// found when every value that is computed was off, at random, by up to four units of its last
// place, and every sum by up to half a unit for each of its terms; of 32 evaluations.
std::vector<std::vector<double>> rounding_spread(const graph::Graph& graph,
                                                 const std::vector<graph::SharedTensor>& inputs,
                                                 const std::vector<graph::SharedTensor>& expected);

}  // namespace neuron::property

#endif
