// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-doctor/checks/variables.h"

#include <algorithm>
#include <vector>

#include "runtime/base/environment_table.h"

namespace neuron::doctor {
namespace {

// What libnrt does not read; its own variables are those of runtime/base/environment_table.h.
constexpr std::string_view kNames[] = {
    "CCOM_ALGORITHM",
    "CCOM_CALIBRATION",
    "CCOM_DUMP_PATH",
    "CCOM_GROUPING",
    "CCOM_HEARTBEAT_MS",
    "CCOM_MEMORY",
    "CCOM_ORDER",
    "CCOM_PROVIDERS",
    "CCOM_REQUIRE_SECRET",
    "CCOM_ROUGH_SEED",
    "CCOM_SECRET",
    "CCOM_SHARED_MEMORY",
    "CCOM_TIMEOUT_MS",
    "CCOM_TOPOLOGY",
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

// The edit distance: letters to change, insert or delete.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

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
  constexpr size_t kMost = 3;
  size_t least = kMost + 1;
  std::string_view found;
  const auto judge = [&](std::string_view known) {
    const size_t now = distance(name, known);
    if (now >= least) return;
    least = now;
    found = known;
  };
  for (const std::string_view known : kNames) judge(known);
  for (const runtime::EnvironmentVariable& known : runtime::environment_table()) judge(known.name);
  return std::string(found);
}

}  // namespace neuron::doctor
