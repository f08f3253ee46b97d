// SPDX-License-Identifier: Apache-2.0
//
// The settings of a session, from the environment. Read by nrt_init, once per session, and by the
// functions that may be called before it. Thread-safe: values. Fails: NRT_INVALID with a sentence
// that names the variable, its value and what is allowed.
#ifndef RUNTIME_SESSION_CONFIGURATION_H
#define RUNTIME_SESSION_CONFIGURATION_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::runtime {

// Which cores a process wants: a contiguous range, or a number of them, or all.
struct CoreSelection {
  std::vector<uint32_t> visible;  // NEURON_RT_VISIBLE_CORES; beats count
  uint32_t count = 0;             // NEURON_RT_NUM_CORES; 0 = all
};

// Physical cores of a virtual one: 1, 2, or 0 for what the chip's generation has.
struct LogicalCores {
  uint32_t size = 0;
  const char* variable = "NEURON_LOGICAL_NC_CONFIG";  // that sets it
};

struct Configuration {
  CoreSelection cores;
  LogicalCores logical_cores;
  bool allow_older_programs = false;      // NEURON_RT_ALLOW_LEGACY_NEFF
  uint64_t exec_timeout_s = 600;          // NEURON_RT_EXEC_TIMEOUT
  uint64_t model_time_limit_ps = 0;       // NEURON_OPEN_MODEL_TIME_LIMIT_US; 0 = none
  bool validate_hash = false;             // NEURON_RT_VALIDATE_HASH
  bool reset_cores = true;                // NEURON_RT_RESET_CORES
  bool fail_on_nan = false;               // NEURON_FAIL_ON_NAN
  bool stochastic_rounding = false;       // NEURON_RT_STOCHASTIC_ROUNDING_EN
  std::optional<uint32_t> rounding_seed;  // NEURON_RT_STOCHASTIC_ROUNDING_SEED
  uint32_t async_queue_depth = 1024;      // NEURON_OPEN_ASYNC_QUEUE_DEPTH; a power of two
  std::string process_tag;                // NEURON_PROCESS_TAG
  // For every wait for other ranks, except in executions.
  uint64_t collectives_timeout_s = 60;  // NEURON_OPEN_COLLECTIVES_TIMEOUT
  std::string root;                     // NEURON_RT_ROOT_COMM_ID
};

// Reads the selection alone, for queries before nrt_init.
Result<CoreSelection> read_core_selection();
Result<LogicalCores> read_logical_cores();
Result<Configuration> read_configuration();

}  // namespace neuron::runtime

#endif
