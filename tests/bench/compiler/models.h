// SPDX-License-Identifier: Apache-2.0
//
// The models whose compiled programs are timed: their shapes are those of real ones, their weights
// come from a seed.
// Callers: compiler-times, tests. Thread-safe: no state. Cannot fail.
#ifndef TESTS_BENCH_COMPILER_MODELS_H
#define TESTS_BENCH_COMPILER_MODELS_H

#include <string>
#include <vector>

#include "tests/unit/tools/compiler/onnx/model_writer.h"

namespace neuron::bench {

struct Model {
  std::string name;
  onnx::ModelWriter (*write)();
  bool large = false;      // its reference takes minutes
  double most_us = 0;      // of model time on trn1
  double least_share = 0;  // of the model time in which the busiest resource works; 0: no goal
};

const std::vector<Model>& models();

}  // namespace neuron::bench

#endif
