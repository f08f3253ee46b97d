// SPDX-License-Identifier: Apache-2.0
// A snapshot in which every field has a value of its own: four devices in different states, a ring
// of links with one that is down, processes with and without records, network devices.
// Callers: tests of outputs. Values.
#ifndef TESTS_UNIT_TOOLS_RICH_HOST_H
#define TESTS_UNIT_TOOLS_RICH_HOST_H

#include <string>

#include "tools/telemetry/snapshot.h"

namespace neuron::testing {

inline void count(telemetry::CoreCounters& counters, uint64_t base, uint64_t rounds) {
  counters.completed = base + 100 * rounds;
  counters.completed_with_err = base / 7 + 2 * rounds;
  counters.completed_with_num_err = base / 11 + rounds;
  counters.timed_out = base / 13 + rounds;
  counters.incorrect_input = base / 17;
  counters.failed_to_queue = base / 19;
  counters.generic = base / 23;
  counters.numerical = base / 29 + rounds;
  counters.transient = base / 31;
  counters.model = base / 37;
  counters.runtime = base / 41;
  counters.hardware = base / 43 + 2 * rounds;
  counters.causes = {{"hw_dma_abort_error", base / 5 + rounds}, {"oob_error", 3}};
  counters.busy_us = base * 10 + 437'000 * rounds;
  counters.collectives_us = base * 2 + 51'000 * rounds;
  counters.multiply_accumulates = base * 1000 + 7'654'321'000 * rounds;
  counters.executions = base + 104 * rounds;
  counters.model_loads = 2 + base / 500;
  for (unsigned engine = 0; engine < 5; ++engine) {
    counters.engine_busy_us[engine] = base + (50'000 + 61'000 * engine) * rounds;
  }
  counters.dma_bytes = base * 64 + 12'345'678 * rounds;
  counters.link_bytes = base * 8 + 2'345'678 * rounds;
  counters.device_latency_us = base * 9 + 5'100 * rounds;
  counters.total_latency_us = base * 12 + 7'300 * rounds;
  counters.device_latency[20] = base;
  counters.device_latency[27] = 60 * rounds;
  counters.device_latency[31] = 40 * rounds;
  counters.total_latency[24] = base;
  counters.total_latency[30] = 70 * rounds;
  counters.total_latency[45] = 30 * rounds;
}

inline telemetry::Process rich_process(int pid, const std::string& tag, unsigned device,
                                       uint64_t rounds) {
  telemetry::Process out;
  out.pid = pid;
  out.command = "/usr/bin/python3 serve.py --model \"" + tag + "\" --port " + std::to_string(pid);
  out.user = pid % 2 == 0 ? "alice" : "bob";
  out.tag = tag;
  out.runtime_version = "2.0." + std::to_string(pid);
  out.started = std::chrono::system_clock::time_point(std::chrono::seconds(1'600'000'000 + pid));
  out.since = std::chrono::system_clock::time_point(std::chrono::seconds(1'600'000'100 + pid));
  out.devices = {device};
  for (unsigned core = 0; core < 2; ++core) {
    telemetry::ProcessOnCore& place = out.cores.emplace_back();
    place.device = device;
    place.physical_core = core;
    place.logical_core = device * 2 + core;
    count(place.counters, static_cast<uint64_t>(pid) + 10 * core, rounds);
    place.memory = {1111u + core, 22'222, 333'333, 4'444'444, 55'555'555};
    telemetry::LoadedModel& model = out.models.emplace_back();
    model.name = "/models/" + tag + std::to_string(core) + ".neff";
    model.uuid = std::string(31, 'a') + std::to_string(core);
    model.model_id = 10'001 + core;
    model.running = core == 0;
    model.device = device;
    model.physical_core = core;
    model.subgraph = core;
    model.host = {10, 200, 3000, 40'000};
    model.core = {5, 60, 700, 8000, 90'000};
  }
  out.host_memory = {1'000'001, 2'000'002, 3'000'003, 4'000'004};
  out.device_bytes = 120'000'000;
  out.user_us = 1'000'000 + 300'000 * rounds;
  out.system_us = 500'000 + 100'000 * rounds;
  return out;
}

// As it is `rounds` seconds after the first look.
inline telemetry::Snapshot rich_host(uint64_t rounds = 0) {
  using namespace std::chrono;
  telemetry::Snapshot out;
  out.at = system_clock::time_point(seconds(1'700'000'000 + rounds));
  out.monotonic = steady_clock::time_point(seconds(5000 + rounds));
  out.instance = {"trn1.32xlarge", "i-0123456789", "host \"a\"", "eu-1a", "euc1-az1",
                  "eu-1",          "ami-77",       "subnet-9",   ""};
  out.versions = {"2.24.7", "kernel", "2.0.1", "2.0.2", "0.1.0"};
  out.host.all = {1000 + 2'000'000 * rounds,
                  10,
                  500 + 900'000 * rounds,
                  9000 + 13'000'000 * rounds,
                  70 + 100'000 * rounds,
                  3,
                  5};
  out.host.processors.resize(16);
  for (telemetry::ProcessorTimes& one : out.host.processors) {
    one = {60 + 125'000 * rounds, 1, 30 + 56'250 * rounds, 500 + 812'500 * rounds, 4, 1, 1};
  }
  out.host.context_switches = 123'456 + 1000 * rounds;
  out.host.memory_total = 64ull << 30;
  out.host.memory_used = 17ull << 30;
  out.host.swap_total = 2ull << 30;
  out.host.swap_used = 5ull << 20;
  for (unsigned index = 0; index < 4; ++index) {
    telemetry::Device& device = out.devices.emplace_back();
    device.index = index;
    device.name = "Trainium1";
    device.architecture = "NDv2";
    device.core_architecture = "NCv2";
    device.serial_number = "00112233445566" + std::to_string(70 + index);
    device.bdf = "0000:00:1" + std::to_string(index) + ".0";
    device.cpu_affinity = index < 2 ? "0-7" : "8-15";
    device.numa_node = static_cast<int>(index / 2);
    device.state = telemetry::DeviceState::kReady;
    device.memory_bytes = 32ull << 30;
    device.memory_used = (1ull << 30) * index + 4096;
    for (unsigned core = 0; core < 2; ++core) {
      telemetry::Core& entry = device.cores.emplace_back();
      entry.physical_core = core;
      entry.logical_core = index * 2 + core;
      entry.resets = index + core;
    }
    for (const unsigned step : {1u, 3u}) {
      device.links.push_back({.device = (index + step) % 4,
                              .up = !(index == 2 && step == 1) && !(index == 3 && step == 3),
                              .kind = "NeuronLink-v2",
                              .theoretical_bytes_per_second = 48e9});
    }
  }
  out.devices[0].power_percent = 41.5;
  out.devices[0].cores[0].holder = 100;
  out.devices[0].cores[1].holder = 100;
  out.devices[0].hardware = {3, 0, 0, 1, 0};
  out.devices[1].cores[0].holder = 201;
  out.devices[1].cores[0].hung_engines = {"pe", "sp"};
  out.devices[1].hardware = {0, 2, 1, 0, 4};
  out.devices[1].faults = {"hbm uncorrectable at 0x1000"};
  out.devices[2].state = telemetry::DeviceState::kResetting;
  out.devices[2].cores[1].failed_resets = 2;
  out.devices[3].state = telemetry::DeviceState::kOff;
  out.devices[3].error = "device 3 does not answer";
  out.processes.push_back(rich_process(100, "resnet", 0, rounds));
  out.processes.push_back(rich_process(201, "llm", 1, rounds));
  out.processes[1].container_id = std::string(64, 'c');
  out.processes[1].pod_uid = "11111111-2222-3333-4444-555555555555";
  out.processes[1].pod_name = "llm-0";
  out.processes[1].pod_namespace = "prod";
  out.processes[1].container_name = "serve";
  telemetry::Process& bare = out.processes.emplace_back();
  bare.pid = 302;
  bare.command = "nccom-test allr";
  bare.devices = {0, 1};
  bare.error = "its record cannot be read";
  out.network = {{"efa0", "0000:00:06.0", 0}, {"efa1", "0000:00:07.0", 1}};
  return out;
}

}  // namespace neuron::testing

#endif
