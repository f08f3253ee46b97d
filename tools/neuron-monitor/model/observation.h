// SPDX-License-Identifier: Apache-2.0
//
// The contents of one report, independent of its format: the changes since the groups were last
// reported, and the present state. The stream, Prometheus and OTLP are made from it.
//
// A group that is not due is absent. Rates and tallies are of the group's own period; totals are
// since the process opened its devices. Callers: Observer makes it, output/ reads it. Values.
#ifndef TOOLS_NEURON_MONITOR_MODEL_OBSERVATION_H
#define TOOLS_NEURON_MONITOR_MODEL_OBSERVATION_H

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/telemetry/snapshot.h"

namespace neuron::monitor {

struct GroupState {
  double period = 0;  // seconds that really passed
  std::string error;
};

// Logical cores among all of the host, as the report numbers them.
struct CoreUse {
  double utilization = 0;  // percent; of more than one physical core, their mean
  double flops = 0;        // per second
  double collectives = 0;  // percent of the time in which collective cores worked
  // Bytes that the core's DMA engines moved in the period, and of these the bytes from or to other
  // devices.
  uint64_t dma_bytes = 0, link_bytes = 0;
  std::map<unsigned, double> physical;  // utilisation of each, if more than one; index in the host
};
struct CoreUseGroup : GroupState {
  std::map<unsigned, CoreUse> cores;
};

struct MemoryGroup : GroupState {
  telemetry::HostMemory host;
  uint64_t device_bytes = 0;
  std::map<unsigned, telemetry::CoreMemory> cores;
  std::vector<telemetry::LoadedModel> models;
  unsigned logical_size = 1;  // physical cores of a logical one, for the models' cores
};

struct RuntimeVcpuGroup : GroupState {
  double user = 0, system = 0;  // percent of the host's processors
};

// In the order of the report; kErrorKinds and kStatusKinds are its names.
inline constexpr std::array kErrorKinds = {"generic", "numerical", "transient",
                                           "model",   "runtime",   "hardware"};
inline constexpr std::array kStatusKinds = {
    "completed", "completed_with_err", "completed_with_num_err",
    "timed_out", "incorrect_input",    "failed_to_queue"};
struct Tally {
  std::array<uint64_t, kErrorKinds.size()> errors{};
  std::array<uint64_t, kStatusKinds.size()> ends{};
};

inline constexpr std::array<unsigned, 7> kPercentiles = {0, 1, 25, 50, 75, 99, 100};
using Latencies = std::array<double, kPercentiles.size()>;  // seconds

struct ExecutionGroup : GroupState {
  Tally in_period, total;
  std::optional<Latencies> total_latency, device_latency;  // none: nothing ran
};

struct Orchestration {
  std::string pod_name, pod_namespace, container_name, container_id;
};

// Identifies a process: pids are used again, start times are not.
using ProcessKey = std::pair<int, int64_t>;  // pid, start in nanoseconds

struct RuntimeObservation {
  ProcessKey key{};
  std::string tag, error;
  Orchestration orchestration;
  std::optional<CoreUseGroup> cores;
  std::optional<MemoryGroup> memory;
  std::optional<RuntimeVcpuGroup> vcpu;
  std::optional<ExecutionGroup> execution;
};

// Percent of the time, in the report's order.
inline constexpr std::array kProcessorStates = {"user",    "nice", "system",  "idle",
                                                "io_wait", "irq",  "soft_irq"};
using ProcessorUse = std::array<double, kProcessorStates.size()>;
struct HostVcpuGroup : GroupState {
  ProcessorUse average{};
  std::vector<ProcessorUse> processors;
  uint64_t context_switches = 0;  // in the period
};
struct HostMemoryGroup : GroupState {
  uint64_t memory_total = 0, memory_used = 0, swap_total = 0, swap_used = 0;
};

struct DeviceHardware {
  unsigned index = 0;
  telemetry::HardwareCounters in_period, total;
  telemetry::DeviceState state = telemetry::DeviceState::kUnknown;
  uint64_t memory_bytes = 0, memory_used = 0;
  std::optional<double> power_percent;
  // The neighbours whose link is down; none: not known, because the state could not be read.
  std::optional<std::vector<unsigned>> links_down;
  // As neuron-ls --check and neuron-doctor judge it.
  bool healthy = false;
  std::string error;
};
struct HardwareGroup : GroupState {
  std::vector<DeviceHardware> devices;
};

struct Placement {  // which pod has a core or a device
  std::string pod_name, pod_namespace;
  std::vector<std::string> containers;
};
struct K8sGroup : GroupState {
  std::map<unsigned, Placement> cores, devices;
};

struct HardwareInfo {
  std::string device_type, device_version, core_version;
  unsigned device_count = 0, cores_per_device = 0, logical_size = 0;
  uint64_t device_memory = 0;
  std::string driver_version, backend, error;
};

struct Observation {
  std::chrono::system_clock::time_point at;
  std::vector<RuntimeObservation> runtimes;
  // All processes that hold devices, also those for which nothing is due; none: not asked for.
  std::optional<std::set<ProcessKey>> alive;
  std::optional<HostVcpuGroup> vcpu;
  std::optional<HostMemoryGroup> memory;
  std::optional<HardwareGroup> hardware;
  std::optional<K8sGroup> k8s;
  telemetry::Instance instance;
  HardwareInfo info;
};

}  // namespace neuron::monitor

#endif
