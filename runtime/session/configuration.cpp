// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/configuration.h"

#include <strings.h>

#include <bit>
#include <climits>

#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/session/session.h"

namespace neuron::runtime {
namespace {

constexpr uint32_t kHostCores = 512;  // 64 devices of 8 cores

std::string cores_of_host() {
  const auto host = host_cores();
  if (!host) return "how many cores this host has cannot be found out: " + host.error().sentence;
  return format("this host has cores 0-{}", host->total() - 1);
}

}  // namespace

Result<CoreSelection> read_core_selection() {
  CoreSelection selection;
  const auto visible = environment_ranges("NEURON_RT_VISIBLE_CORES", kHostCores);
  if (!visible) {
    return fail(
        NRT_INVALID,
        "NEURON_RT_VISIBLE_CORES is \"{}\"; give one core (0) or cores in a row (0-1 or 0,1), "
        "ascending, or unset it; {}",
        environment_text("NEURON_RT_VISIBLE_CORES"), cores_of_host());
  }
  selection.visible = *visible;
  for (size_t i = 1; i < selection.visible.size(); ++i) {
    if (selection.visible[i] != selection.visible[i - 1] + 1) {
      return fail(NRT_INVALID,
                  "NEURON_RT_VISIBLE_CORES={}: core {} follows core {}, but the cores must be "
                  "contiguous and ascending, for example 0-3; {}",
                  environment_text("NEURON_RT_VISIBLE_CORES"), selection.visible[i],
                  selection.visible[i - 1], cores_of_host());
    }
  }
  NEURON_TRY(count, environment_unsigned("NEURON_RT_NUM_CORES", 0, 0, kHostCores));
  selection.count = static_cast<uint32_t>(count);
  return selection;
}

Result<LogicalCores> read_logical_cores() {
  LogicalCores cores;
  if (!environment_is_set(cores.variable)) cores.variable = "NEURON_RT_VIRTUAL_CORE_SIZE";
  if (!environment_is_set(cores.variable)) return LogicalCores();
  NEURON_TRY(size, environment_unsigned(cores.variable, 1, 1, 2));
  cores.size = static_cast<uint32_t>(size);
  return cores;
}

Result<Configuration> read_configuration() {
  Configuration configuration;
  NEURON_TRY(cores, read_core_selection());
  configuration.cores = cores;
  NEURON_TRY(logical, read_logical_cores());
  configuration.logical_cores = logical;
  NEURON_TRY(older, environment_boolean("NEURON_RT_ALLOW_LEGACY_NEFF", false));
  configuration.allow_older_programs = older;
  NEURON_TRY(timeout, environment_unsigned("NEURON_RT_EXEC_TIMEOUT", 600, 0, INT_MAX));
  // Zero means the default. It cannot mean "no wait" (nothing would ever finish) nor "for ever".
  configuration.exec_timeout_s = timeout == 0 ? 600 : timeout;
  NEURON_TRY(limit_us,
             environment_unsigned("NEURON_OPEN_MODEL_TIME_LIMIT_US", 0, 0, UINT64_MAX / 1'000'000));
  configuration.model_time_limit_ps = limit_us * 1'000'000;
  NEURON_TRY(hash, environment_boolean("NEURON_RT_VALIDATE_HASH", false));
  configuration.validate_hash = hash;
  NEURON_TRY(reset, environment_boolean("NEURON_RT_RESET_CORES", true));
  configuration.reset_cores = reset;
  NEURON_TRY(nan, environment_boolean("NEURON_FAIL_ON_NAN", false));
  const std::string errors = environment_text("NEURON_RT_NUMERICAL_ERRORS_VERBOSITY");
  configuration.fail_on_nan = nan || strcasecmp(errors.c_str(), "critical") == 0;
  NEURON_TRY(stochastic, environment_boolean("NEURON_RT_STOCHASTIC_ROUNDING_EN", false));
  configuration.stochastic_rounding = stochastic;
  if (environment_is_set("NEURON_RT_STOCHASTIC_ROUNDING_SEED")) {
    NEURON_TRY(seed, environment_unsigned("NEURON_RT_STOCHASTIC_ROUNDING_SEED", 0, 0, UINT32_MAX));
    configuration.rounding_seed = static_cast<uint32_t>(seed);
  }
  NEURON_TRY(depth, environment_unsigned("NEURON_OPEN_ASYNC_QUEUE_DEPTH", 1024, 1, 65536));
  configuration.async_queue_depth = std::bit_ceil(static_cast<uint32_t>(depth));
  const std::string implicit = environment_text("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS");
  if (!implicit.empty() && implicit != "0") {
    log_notice(LogComponent::kNrt,
               "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS={} has no effect: nrt_execute is "
               "synchronous; use nrta_execute_schedule, and NEURON_OPEN_ASYNC_QUEUE_DEPTH for "
               "the depth of its queue",
               implicit);
  }
  configuration.process_tag = environment_text("NEURON_PROCESS_TAG");
  NEURON_TRY(collectives, environment_unsigned("NEURON_OPEN_COLLECTIVES_TIMEOUT", 60, 1, 86400));
  configuration.collectives_timeout_s = collectives;
  configuration.root = environment_text("NEURON_RT_ROOT_COMM_ID");
  return configuration;
}

}  // namespace neuron::runtime
