// SPDX-License-Identifier: Apache-2.0
//
// The measurements of neuron-bench: executions of a NEFF, memory, matrix products. Each gives
// records with the device's model time beside the host's time.
// Callers: main(), one thread; exec starts one for each instance. Fails: with a sentence.
#ifndef TOOLS_NEURON_BENCH_COMMANDS_H
#define TOOLS_NEURON_BENCH_COMMANDS_H

#include "tools/common/format.h"
#include "tools/execution/session.h"
#include "tools/execution/statistics.h"

namespace neuron::bench {

using execution::failure;
using execution::Fill;
using execution::Model;
using execution::percentile;
using execution::Result;
using execution::Session;
using execution::Tensor;

struct ExecOptions {
  std::string file;
  unsigned executions = 1000, warmup = 10;
  unsigned fixed_cores = 0;      // 0: one core, then all of them
  unsigned fixed_instances = 0;  // of the model on each core; 0: one
  bool only_latency = false;     // one core only
  bool collectives = false;
  bool random = false;
  std::string directory;  // of info.json, latency_data.json, nc_latency_data.json
};
Result<tools::Records> run_exec(const Session& session, const ExecOptions& options);

struct MemoryOptions {
  std::vector<size_t> sizes;
  unsigned repetitions = 20;
};
Result<tools::Records> run_memory(const Session& session, const MemoryOptions& options);

struct MatmulOptions {
  std::vector<std::string> types;
  std::vector<unsigned> sizes;
  unsigned repetitions = 3;
};
Result<tools::Records> run_matmul(const Session& session, const MatmulOptions& options);

}  // namespace neuron::bench

#endif
