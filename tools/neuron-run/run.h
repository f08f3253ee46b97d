// SPDX-License-Identifier: Apache-2.0
//
// One run: arrays read, the model loaded and executed, outputs written.
// Callers: main(), one thread. Owns the process's runtime while it runs. Fails: with a sentence
// that names the file or the tensor; outputs that were written before stay.
#ifndef TOOLS_NEURON_RUN_RUN_H
#define TOOLS_NEURON_RUN_RUN_H

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "tools/common/format.h"

namespace neuron::run {

// A tensor and its file: NAME=FILE of the command line.
struct Binding {
  std::string name, file;
};

struct Wishes {
  std::string model;
  std::vector<Binding> inputs, outputs;
  bool random = false;  // inputs without a file get numbers
  uint64_t seed = 0;
  uint32_t executions = 1;
};

runtime::Result<tools::Records> run(const Wishes& wishes);

}  // namespace neuron::run

#endif
