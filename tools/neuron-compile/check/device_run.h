// SPDX-License-Identifier: Apache-2.0
//
// Executions of a compiled graph on NeuronCores, with arrays of the compiler.
// Callers: --check of neuron-compile, the runner of the node tests; one thread, with an open
// execution::Session. Fails: with the runtime's own sentence.
#ifndef TOOLS_NEURON_COMPILE_CHECK_DEVICE_RUN_H
#define TOOLS_NEURON_COMPILE_CHECK_DEVICE_RUN_H

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/base/error.h"
#include "tools/compiler/graph/interpreter.h"

namespace neuron::compile {

struct DeviceRun {
  std::vector<graph::SharedTensor> outputs;  // in the order of the graph
  double device_us = 0;                      // of the second execution, which has its rings ready
  // PE, Activation, Pool, DVE and SP: how long each worked in that execution
  std::array<double, 5> busy_us{};
};

// `inputs` in the order of the graph.
runtime::Result<DeviceRun> run_on_device(const std::vector<uint8_t>& neff,
                                         const graph::Graph& graph,
                                         const std::vector<graph::SharedTensor>& inputs,
                                         bool timed = false);

// The same for every rank, each on a core of its own; `inputs` of every rank. The first error of a
// rank, if one has any.
runtime::Result<std::vector<DeviceRun>> run_ranks_on_device(
    const std::vector<uint8_t>& neff, const graph::Graph& graph,
    const std::vector<std::vector<graph::SharedTensor>>& inputs);

}  // namespace neuron::compile

#endif
