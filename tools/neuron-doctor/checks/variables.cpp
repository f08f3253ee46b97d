// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-doctor/checks/variables.h"

#include <algorithm>
#include <vector>

#include "driver/base/nearest_name.h"
#include "runtime/base/environment_table.h"

namespace neuron::doctor {
namespace {

// What libnrt does not read; its own variables are those of runtime/base/environment_table.h.
constexpr std::string_view kNames[] = {
    "NEURON_CC_FLAGS",
    "NEURON_COMPILE_CACHE_URL",
    "NEURON_FRAMEWORK_DEBUG",
    "NEURON_GLOBAL_TOPOID",
    "NEURON_GLOBAL_TOPOID0_HOST",
    "NEURON_MAX_NUM_INFERS",
    "NEURON_NKI_CACHE",
    "NEURON_NKI_PYTHON",
    "NEURON_NKI_ROOT",
    "NEURON_NUM_DEVICES",
    "NEURON_PJRT_PROCESSES_NUM_DEVICES",
    "NEURON_PJRT_PROCESS_INDEX",
    "NEURON_PLATFORM_TARGET_OVERRIDE",
    "NEURON_PROFILE",
    "NEURON_RANK_ID",
    "NEURON_RTD_ADDRESS",
    "NEURON_RT_LOG_LEVEL_CCOM",
    "NEURON_RT_PROFILE_BUF",
    "NEURON_SCRATCHPAD_PAGE_SIZE",
    "NEURON_SERVE_ACCESS_LOG",
    "NEURON_SERVE_BATCHED",
    "NEURON_SERVE_CACHE",
    "NEURON_SERVE_CLIENT_TIMEOUT",
    "NEURON_SERVE_COMPILE_TIMEOUT",
    "NEURON_SERVE_CONFIG",
    "NEURON_SERVE_CONTROL",
    "NEURON_SERVE_CORES",
    "NEURON_SERVE_DRAIN_TIMEOUT",
    "NEURON_SERVE_GRPC_LISTEN",
    "NEURON_SERVE_HOST",
    "NEURON_SERVE_IDLE_TIMEOUT",
    "NEURON_SERVE_LATENCY_BUDGET",
    "NEURON_SERVE_LISTEN",
    "NEURON_SERVE_MAX_BODY",
    "NEURON_SERVE_MAX_CONNECTIONS",
    "NEURON_SERVE_MAX_HEADER",
    "NEURON_SERVE_MAX_HELD",
    "NEURON_SERVE_MODELS",
    "NEURON_SERVE_QUEUE_LIMIT",
    "NEURON_SERVE_REPLICAS",
    "NEURON_SERVE_REQUEST_TIMEOUT",
    "NEURON_SERVE_TLS_CERTIFICATE",
    "NEURON_SERVE_TLS_KEY",
    "NEURON_SERVE_TOKEN_FILE",
    "NEURON_SKIP_EFA_AFFINITY",
    "NEURON_ULTRASERVER_NODE_CONFIG",
    "NEURON_USE_DMABUF",
    "NEURON_VISIBLE_DEVICES",
};

// Families of variables, known by their prefix.
constexpr std::string_view kFamilies[] = {"NEURON_FRAMEWORK_", "NEURON_PJRT_", "NEURON_CC_",
                                          "NEURON_COMPILE_"};

}  // namespace

bool is_ours(std::string_view name) {
  return name.starts_with("NEURON_") || name.starts_with("CCOM_") ||
         name.starts_with("NEURONRT_") || name.starts_with("NUERON_") || name.starts_with("NEURN_");
}

bool is_known_variable(std::string_view name) {
  if (runtime::find_variable(name) != nullptr) return true;
  if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) return true;
  return std::any_of(std::begin(kFamilies), std::end(kFamilies),
                     [name](std::string_view family) { return name.starts_with(family); });
}

std::string similar_variable(std::string_view name) {
  std::vector<std::string_view> names(std::begin(kNames), std::end(kNames));
  for (const runtime::EnvironmentVariable& known : runtime::environment_table()) {
    names.push_back(known.name);
  }
  return std::string(base::nearest_name(name, names));
}

}  // namespace neuron::doctor
