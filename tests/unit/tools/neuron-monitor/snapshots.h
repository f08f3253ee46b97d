// SPDX-License-Identifier: Apache-2.0
// Snapshots made by hand: a host with two devices of two cores, and processes on them.
// Callers: the tests of this folder. Values.
#ifndef TESTS_UNIT_TOOLS_NEURON_MONITOR_SNAPSHOTS_H
#define TESTS_UNIT_TOOLS_NEURON_MONITOR_SNAPSHOTS_H

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/neuron-monitor/model/observer.h"

namespace neuron::monitor {

using telemetry::Snapshot;

inline Snapshot host_at(double seconds) {
  using namespace std::chrono;
  Snapshot out;
  const auto since = duration_cast<steady_clock::duration>(duration<double>(seconds));
  out.monotonic = steady_clock::time_point(since);
  out.at = system_clock::time_point(1'700'000'000s + duration_cast<system_clock::duration>(since));
  out.instance = {"trn1.32xlarge", "i-0123", "host \"a\"", "eu-1a", "z1",
                  "eu-1",          "ami-1",  "sub-1",      ""};
  out.versions.driver = "2.24.7";
  out.versions.backend = "shared";
  for (unsigned index = 0; index < 2; ++index) {
    telemetry::Device& device = out.devices.emplace_back();
    device.index = index;
    device.name = "Trainium1";
    device.architecture = "NDv2";
    device.core_architecture = "NCv2";
    device.state = telemetry::DeviceState::kReady;
    device.memory_bytes = 32ull << 30;
    for (unsigned core = 0; core < 2; ++core) {
      telemetry::Core& entry = device.cores.emplace_back();
      entry.physical_core = core;
      entry.logical_core = 2 * index + core;
    }
  }
  return out;
}

inline telemetry::Process process(int pid, std::vector<unsigned> cores, std::string tag = "") {
  telemetry::Process out;
  out.pid = pid;
  out.started = std::chrono::system_clock::time_point(std::chrono::seconds(1'600'000'000 + pid));
  out.tag = tag.empty() ? std::to_string(pid) : tag;
  out.runtime_version = "2.0.0";
  for (const unsigned core : cores) {
    telemetry::ProcessOnCore& entry = out.cores.emplace_back();
    entry.device = core / 2;
    entry.physical_core = core % 2;
    entry.logical_core = core;
    if (out.devices.empty() || out.devices.back() != core / 2) out.devices.push_back(core / 2);
  }
  return out;
}

inline SnapshotPointer shared(Snapshot snapshot) {
  return std::make_shared<const Snapshot>(std::move(snapshot));
}

// As many executions on the process's first core, each of 100 us, `failed` of them with an error.
inline void execute(telemetry::Process& on, unsigned times, unsigned failed = 0) {
  telemetry::CoreCounters& counters = on.cores.front().counters;
  counters.completed += times - failed;
  counters.completed_with_err += failed;
  counters.hardware += failed;
  counters.executions += times;
  counters.busy_us += 100ull * times;
  counters.multiply_accumulates += 1000ull * times;
  counters.dma_bytes += 640ull * times;
  counters.link_bytes += 64ull * times;
  counters.device_latency[27] += times;  // from 2^6.5 to 2^6.75 us
  counters.total_latency[31] += times;
}

}  // namespace neuron::monitor

#endif
