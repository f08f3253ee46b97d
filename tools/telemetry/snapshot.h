// SPDX-License-Identifier: Apache-2.0
//
// The state of a host at one moment, for operator tools: devices, cores, links, processes,
// counters.
//
// Callers: neuron-ls, neuron-top, neuron-monitor, neuron-doctor and others; values, copied and
// compared freely, any thread. Counters grow from an unknown start: take two snapshots and
// subtract (rates.h). Gauges hold for the moment `at`.
// A value that could not be read is empty or std::nullopt; the reason is a sentence in the `error`
// of the device or process concerned. A hung device never hides the others.
#ifndef TOOLS_TELEMETRY_SNAPSHOT_H
#define TOOLS_TELEMETRY_SNAPSHOT_H

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace neuron::telemetry {

// Bytes in use, by what they hold. The names are the originals' categories.
struct HostMemory {
  uint64_t application_memory = 0, constants = 0, dma_buffers = 0, tensors = 0;
  uint64_t total() const { return application_memory + constants + dma_buffers + tensors; }
};
struct CoreMemory {
  uint64_t constants = 0, model_code = 0, model_shared_scratchpad = 0, runtime_memory = 0,
           tensors = 0;
  uint64_t total() const {
    return constants + model_code + model_shared_scratchpad + runtime_memory + tensors;
  }
};

// Latencies in a histogram: bucket i counts those below 2^(i/4) microseconds that no smaller bucket
// has (about 19 % wide); the last has the rest.
inline constexpr unsigned kLatencyBuckets = 128;
using LatencyHistogram = std::array<uint64_t, kLatencyBuckets>;

// One process's counters on one physical core, since the process opened the device.
struct CoreCounters {
  // Ends of executions.
  uint64_t completed = 0, completed_with_err = 0, completed_with_num_err = 0, timed_out = 0,
           incorrect_input = 0, failed_to_queue = 0;
  // Errors by kind.
  uint64_t generic = 0, numerical = 0, transient = 0, model = 0, runtime = 0, hardware = 0;
  // By cause; names of the driver's attributes ("oob_error", "hw_dma_abort_error" ...).
  std::map<std::string, uint64_t> causes;
  uint64_t busy_us = 0;         // model time in which the core executed
  uint64_t collectives_us = 0;  // model time of its collective cores
  uint64_t multiply_accumulates = 0;
  uint64_t executions = 0, model_loads = 0;
  // Model time by engine (pe, act, pool, dve, sp) and bytes that its DMA engines moved.
  std::array<uint64_t, 5> engine_busy_us{};
  uint64_t dma_bytes = 0, link_bytes = 0;
  uint64_t device_latency_us = 0, total_latency_us = 0;  // sums
  LatencyHistogram device_latency{}, total_latency{};
};

struct LoadedModel {
  std::string name;
  std::string uuid;  // 32 hexadecimal digits
  uint32_t model_id = 0;
  bool running = false;
  unsigned device = 0, physical_core = 0, subgraph = 0;
  HostMemory host;
  CoreMemory core;
};

struct ProcessOnCore {
  unsigned device = 0, physical_core = 0;  // the core within its device
  unsigned logical_core = 0;               // among all of the host, as NEURON_RT_VISIBLE_CORES
  CoreCounters counters;
  CoreMemory memory;
};

struct Process {
  int pid = 0;          // as this process's namespace knows it
  std::string command;  // whole command line, a space between arguments; never cut
  std::string user;
  std::string tag;                                               // NEURON_PROCESS_TAG, or the pid
  std::string runtime_version;                                   // empty: keeps no record (a tool)
  std::optional<std::chrono::system_clock::time_point> started;  // the process
  std::optional<std::chrono::system_clock::time_point> since;    // holds the device
  std::string container_id, pod_uid, pod_name, pod_namespace, container_name;  // empty if none
  std::vector<unsigned> devices;
  std::vector<ProcessOnCore> cores;  // those that it holds
  std::vector<LoadedModel> models;
  HostMemory host_memory;
  uint64_t device_bytes = 0;
  uint64_t user_us = 0, system_us = 0;  // processor time
  std::string error;
};

enum class DeviceState { kReady, kResetting, kInvalid, kOff, kUnknown };
const char* name(DeviceState state);

struct HardwareCounters {
  uint64_t mem_ecc_corrected = 0, mem_ecc_uncorrected = 0, mem_ecc_repairable_uncorrected = 0,
           sram_ecc_corrected = 0, sram_ecc_uncorrected = 0;
};

struct Core {
  unsigned physical_core = 0, logical_core = 0;  // as in ProcessOnCore
  int holder = 0;                                // pid; 0: free
  std::vector<std::string> hung_engines;
  uint64_t resets = 0, failed_resets = 0;
};

struct Link {
  unsigned device = 0;  // the neighbour
  bool up = true;
  std::string kind;                         // "NeuronLink-v2", "switch", "host"
  double theoretical_bytes_per_second = 0;  // each direction
};

struct Device {
  unsigned index = 0;
  std::string name, architecture, core_architecture;  // Trainium1, NDv2, NCv2
  std::string serial_number, bdf, cpu_affinity;
  int numa_node = -1;
  DeviceState state = DeviceState::kUnknown;
  unsigned logical_size = 1;  // physical cores of a logical one
  std::vector<Core> cores;    // physical
  std::vector<Link> links;    // north, west, south, east, as the driver lists them
  uint64_t memory_bytes = 0, memory_used = 0;
  HardwareCounters hardware;
  std::optional<double> power_percent;  // average, of the maximum
  std::vector<std::string> faults;      // planted ones, of an emulated device
  std::string error;
};

struct ProcessorTimes {  // microseconds since boot
  uint64_t user = 0, nice = 0, system = 0, idle = 0, io_wait = 0, irq = 0, soft_irq = 0;
};

struct HostState {
  ProcessorTimes all;
  std::vector<ProcessorTimes> processors;
  uint64_t context_switches = 0;
  uint64_t memory_total = 0, memory_used = 0, swap_total = 0, swap_used = 0;
};

struct Instance {
  std::string type, id, name, zone, zone_id, region, image, subnet, error;
};

struct NetworkDevice {  // EFA and what stands in for it
  std::string name, bdf;
  int numa_node = -1;
};

struct Versions {
  std::string driver;   // of the module or the daemon
  std::string backend;  // "kernel", "shared", "embedded"
  std::string runtime, collectives, tools;
};

struct Snapshot {
  std::chrono::system_clock::time_point at;
  std::chrono::steady_clock::time_point monotonic;
  Instance instance;
  Versions versions;
  HostState host;
  std::vector<Device> devices;
  std::vector<Process> processes;
  std::vector<NetworkDevice> network;
  std::string error;  // why there is no device at all: what is missing and how to get it
};

}  // namespace neuron::telemetry

#endif
