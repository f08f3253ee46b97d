// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-doctor/checks/variables.h"

#include <algorithm>
#include <vector>

namespace neuron::doctor {
namespace {

// In alphabetical order, for binary search.
constexpr std::string_view kNames[] = {
    "CCOM_ALGORITHM",
    "CCOM_CALIBRATION",
    "CCOM_DUMP_PATH",
    "CCOM_GROUPING",
    "CCOM_HEARTBEAT_MS",
    "CCOM_MEMORY",
    "CCOM_ORDER",
    "CCOM_PROVIDERS",
    "CCOM_ROUGH_SEED",
    "CCOM_SECRET",
    "CCOM_SHARED_MEMORY",
    "CCOM_TIMEOUT_MS",
    "CCOM_TOPOLOGY",
    "NEURON_CCOM_LIBRARY",
    "NEURON_CC_FLAGS",
    "NEURON_COMPILE_CACHE_URL",
    "NEURON_EMULATOR",
    "NEURON_EMULATOR_COPY",
    "NEURON_EMULATOR_CUSTOM_OPERATORS",
    "NEURON_EMULATOR_CUSTOM_OPERATOR_SECONDS",
    "NEURON_EMULATOR_FAULTS",
    "NEURON_EMULATOR_LIBRARY",
    "NEURON_EMULATOR_MEMORY_LIMIT",
    "NEURON_EMULATOR_SIMD",
    "NEURON_EMULATOR_STRICT",
    "NEURON_FAIL_ON_NAN",
    "NEURON_FRAMEWORK_DEBUG",
    "NEURON_GLOBAL_TOPOID",
    "NEURON_GLOBAL_TOPOID0_HOST",
    "NEURON_LOGICAL_NC_CONFIG",
    "NEURON_MAX_NUM_INFERS",
    "NEURON_NUM_DEVICES",
    "NEURON_OPEN_ASYNC_QUEUE_DEPTH",
    "NEURON_OPEN_COLLECTIVES_TIMEOUT",
    "NEURON_OPEN_DUMP_PROGRAM",
    "NEURON_OPEN_MODEL_TIME_LIMIT_US",
    "NEURON_OPEN_PROFILE_FILES",
    "NEURON_PJRT_PROCESSES_NUM_DEVICES",
    "NEURON_PJRT_PROCESS_INDEX",
    "NEURON_PLATFORM_TARGET_OVERRIDE",
    "NEURON_PROCESS_TAG",
    "NEURON_PROFILE",
    "NEURON_RANK_ID",
    "NEURON_RTD_ADDRESS",
    "NEURON_RT_ALLOW_LEGACY_NEFF",
    "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS",
    "NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT",
    "NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED",
    "NEURON_RT_CONTIGUOUS_SCRATCHPAD",
    "NEURON_RT_DBG_CC_DMA_PACKET_SIZE",
    "NEURON_RT_DBG_DMA_PACKETIZATION_SIZE",
    "NEURON_RT_DBG_DUMP_INPUTS_ON_ERR",
    "NEURON_RT_DBG_INTRA_RDH_CHANNEL_BUFFER_SIZE",
    "NEURON_RT_DBG_NDET_FLUSH_USEC",
    "NEURON_RT_DBG_NDET_LOG_LOCATION",
    "NEURON_RT_DBG_NDET_NUM_ENTRIES",
    "NEURON_RT_DEBUG_MEMLOG_MAX_SIZE",
    "NEURON_RT_DEBUG_OUTPUT_DIR",
    "NEURON_RT_DEBUG_STREAM_BUFFER_SIZE",
    "NEURON_RT_ENABLE_DEVICE_MEMORY_OOM_LOG",
    "NEURON_RT_ENABLE_DGE_NOTIFICATIONS",
    "NEURON_RT_EXEC_TIMEOUT",
    "NEURON_RT_GPSIMD_STDOUT_QUEUE_SIZE_BYTES",
    "NEURON_RT_INSPECT_CPU_UTIL",
    "NEURON_RT_INSPECT_DEVICE_PROFILE",
    "NEURON_RT_INSPECT_DURATION_NSEC",
    "NEURON_RT_INSPECT_ENABLE",
    "NEURON_RT_INSPECT_EVENT_FILTER_NC",
    "NEURON_RT_INSPECT_EVENT_FILTER_TYPE",
    "NEURON_RT_INSPECT_HOST_MEMORY",
    "NEURON_RT_INSPECT_ON_FAIL",
    "NEURON_RT_INSPECT_OUTPUT_DIR",
    "NEURON_RT_INSPECT_PRECACHE_ENABLE",
    "NEURON_RT_INSPECT_START_OFFSET_NSEC",
    "NEURON_RT_INSPECT_SYSTEM_PROFILE",
    "NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC",
    "NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY",
    "NEURON_RT_LOG_LEVEL",
    "NEURON_RT_LOG_LEVEL_CCOM",
    "NEURON_RT_LOG_LEVEL_NRT",
    "NEURON_RT_LOG_LOCATION",
    "NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY",
    "NEURON_RT_MULTI_INSTANCE_SHARED_WEIGHTS",
    "NEURON_RT_NUMERICAL_ERRORS_VERBOSITY",
    "NEURON_RT_NUM_CORES",
    "NEURON_RT_ONE_THREAD_PER_CORE",
    "NEURON_RT_PROFILE_BUF",
    "NEURON_RT_RANKS_PER_NETWORK_PROXY",
    "NEURON_RT_RESET_CORES",
    "NEURON_RT_ROOT_COMM_ID",
    "NEURON_RT_S3_CORE_DUMP_PREFIX",
    "NEURON_RT_STOCHASTIC_ROUNDING_EN",
    "NEURON_RT_STOCHASTIC_ROUNDING_SEED",
    "NEURON_RT_ULTRASERVER_MODE",
    "NEURON_RT_ULTRASERVER_NODE_ID",
    "NEURON_RT_ULTRASERVER_SERVER_ID",
    "NEURON_RT_VALIDATE_HASH",
    "NEURON_RT_VIRTUAL_CORE_SIZE",
    "NEURON_RT_VISIBLE_CORES",
    "NEURON_SCRATCHPAD_PAGE_SIZE",
    "NEURON_SKIP_EFA_AFFINITY",
    "NEURON_ULTRASERVER_NODE_CONFIG",
    "NEURON_USE_DMABUF",
    "NEURON_VISIBLE_DEVICES",
};

// Families of variables, known by their prefix.
constexpr std::string_view kFamilies[] = {"NEURON_SERVE_",     "NEURON_RT_LOG_LEVEL_",
                                          "NEURON_FRAMEWORK_", "NEURON_PJRT_",
                                          "NEURON_CC_",        "NEURON_COMPILE_"};

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
  if (std::binary_search(std::begin(kNames), std::end(kNames), name)) return true;
  return std::any_of(std::begin(kFamilies), std::end(kFamilies),
                     [name](std::string_view family) { return name.starts_with(family); });
}

std::string similar_variable(std::string_view name) {
  constexpr size_t kMost = 3;
  size_t least = kMost + 1;
  std::string_view found;
  for (const std::string_view known : kNames) {
    const size_t now = distance(name, known);
    if (now < least) {
      least = now;
      found = known;
    }
  }
  return std::string(found);
}

}  // namespace neuron::doctor
