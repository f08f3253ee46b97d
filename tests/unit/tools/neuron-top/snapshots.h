// SPDX-License-Identifier: Apache-2.0
// Snapshots made by hand: hosts with devices, and processes on their cores.
// Callers: the tests of this folder. Values.
#ifndef TESTS_UNIT_TOOLS_NEURON_TOP_SNAPSHOTS_H
#define TESTS_UNIT_TOOLS_NEURON_TOP_SNAPSHOTS_H

#include <string>
#include <vector>

#include "tools/neuron-top/model/view.h"

namespace neuron::top {

using telemetry::Snapshot;

// Devices of `cores` physical cores, `logical_size` of which are a logical one.
inline Snapshot host_at(double seconds, unsigned devices = 2, unsigned cores = 2,
                        unsigned logical_size = 1) {
  using namespace std::chrono;
  Snapshot out;
  const auto since = duration_cast<steady_clock::duration>(duration<double>(seconds));
  out.monotonic = steady_clock::time_point(since);
  out.at = system_clock::time_point(1'700'000'000s + duration_cast<system_clock::duration>(since));
  out.instance.type = "trn1.32xlarge";
  out.instance.id = "i-0123";
  out.versions.tools = "2.0.0";
  out.host.processors.resize(8);
  for (unsigned index = 0; index < devices; ++index) {
    telemetry::Device& device = out.devices.emplace_back();
    device.index = index;
    device.core_architecture = "NCv2";
    device.state = telemetry::DeviceState::kReady;
    device.logical_size = logical_size;
    device.memory_bytes = 32ull << 30;
    for (unsigned core = 0; core < cores; ++core) {
      telemetry::Core& entry = device.cores.emplace_back();
      entry.physical_core = core;
      entry.logical_core = (index * cores + core) / logical_size;
    }
  }
  return out;
}

inline telemetry::ProcessOnCore& add_core(telemetry::Process& process, unsigned device,
                                          unsigned core) {
  telemetry::ProcessOnCore& place = process.cores.emplace_back();
  place.device = device;
  place.physical_core = core;
  place.logical_core = 2 * device + core;
  return place;
}

inline telemetry::Process& add_process(Snapshot& host, int pid, std::string tag = "") {
  telemetry::Process& process = host.processes.emplace_back();
  process.pid = pid;
  process.tag = tag.empty() ? std::to_string(pid) : tag;
  process.user = "ana";
  process.command = "serve --model " + process.tag;
  process.runtime_version = "2.0.0";
  return process;
}

inline telemetry::LoadedModel& add_model(telemetry::Process& process, const std::string& name,
                                         unsigned device, unsigned core) {
  telemetry::LoadedModel& model = process.models.emplace_back();
  model.name = name;
  model.model_id = 10'000 + static_cast<unsigned>(process.models.size());
  model.running = true;
  model.device = device;
  model.physical_core = core;
  return model;
}

// Two processes: 100 on both cores of device 0, with a model each, 200 on a core of device 1.
inline Snapshot busy_host(double seconds, unsigned devices = 2) {
  Snapshot host = host_at(seconds, devices);
  telemetry::Process& first = add_process(host, 100, "first");
  for (unsigned core = 0; core < 2; ++core) {
    telemetry::ProcessOnCore& place = add_core(first, 0, core);
    place.memory.tensors = 3u << 20;
    place.memory.model_code = 2u << 20;
    telemetry::LoadedModel& model = add_model(first, "resnet", 0, core);
    model.core.model_code = 2u << 20;
    model.core.tensors = 1u << 20;
    model.host.dma_buffers = 4096;
  }
  telemetry::Process& second = add_process(host, 200, "second");
  add_core(second, 1, 0).memory.tensors = 1u << 20;
  return host;
}

inline View view_of(const Snapshot& host, const State& state = {}, const Interval& interval = {}) {
  return build_view(host, interval, state, {});
}

template <typename Row>
const Row* row_of(const std::vector<Row>& rows, const std::string& key) {
  for (const Row& row : rows) {
    if (row.key == key) return &row;
  }
  return nullptr;
}

}  // namespace neuron::top

#endif
