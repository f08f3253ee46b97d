// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/output/json_report.h"

#include <cstdio>
#include <ctime>
#include <tuple>

#include "tools/neuron-monitor/output/json_writer.h"

namespace neuron::monitor {
namespace {

// Increases when a field changes its meaning or is removed, not when one is added.
constexpr unsigned kSchemaVersion = 1;

void write_cores(JsonWriter& json, const CoreUseGroup& group, const std::string& core_version) {
  json.open_object("neuroncore_counters");
  json.member("period", group.period);
  json.open_object("neuroncores_in_use");
  // "v3d" is the name of pairs of v3 cores.
  const std::string physical =
      "nc_" + core_version.substr(0, core_version.find_last_not_of('d') + 1) + ".";
  for (const auto& [index, use] : group.cores) {
    json.open_object(std::to_string(index));
    json.member("neuroncore_utilization", use.utilization);
    json.member("flops", static_cast<uint64_t>(use.flops));
    json.member("effective_flops", static_cast<uint64_t>(use.flops));
    json.member("collectives_utilization", use.collectives);
    json.member("dma_bytes", use.dma_bytes);
    json.member("link_bytes", use.link_bytes);
    if (!use.physical.empty()) {
      json.open_object("v3d");
      for (const auto& [core, utilization] : use.physical) {
        json.open_object(physical + std::to_string(core));
        json.member("neuroncore_utilization", utilization);
        json.close_object();
      }
      json.close_object();
    }
    json.close_object();
  }
  json.close_object();
  json.member("error", group.error);
  json.close_object();
}

template <typename Values>
void write_latencies(JsonWriter& json, const char* key, const Values& values) {
  json.key(key);
  if (!values) return json.null();
  json.open_object();
  for (size_t i = 0; i < kPercentiles.size(); ++i) {
    json.member("p" + std::to_string(kPercentiles[i]), (*values)[i]);
  }
  json.close_object();
}

void write_execution(JsonWriter& json, const ExecutionGroup& group) {
  json.open_object("execution_stats");
  json.member("period", group.period);
  json.open_object("error_summary");
  for (size_t i = 0; i < kErrorKinds.size(); ++i) {
    json.member(kErrorKinds[i], group.in_period.errors[i]);
  }
  json.close_object();
  json.open_object("execution_summary");
  for (size_t i = 0; i < kStatusKinds.size(); ++i) {
    json.member(kStatusKinds[i], group.in_period.ends[i]);
  }
  json.close_object();
  json.open_object("latency_stats");
  write_latencies(json, "total_latency", group.total_latency);
  write_latencies(json, "device_latency", group.device_latency);
  json.close_object();
  json.member("error", group.error);
  json.close_object();
}

void write_host_memory(JsonWriter& json, const telemetry::HostMemory& memory) {
  json.open_object("host");
  json.member("application_memory", memory.application_memory);
  json.member("constants", memory.constants);
  json.member("dma_buffers", memory.dma_buffers);
  json.member("tensors", memory.tensors);
  json.close_object();
}

void write_models(JsonWriter& json, const MemoryGroup& group) {
  // The subgraphs of one model stand together.
  std::map<std::tuple<uint32_t, std::string, std::string>,
           std::vector<const telemetry::LoadedModel*>>
      models;
  for (const telemetry::LoadedModel& model : group.models) {
    models[{model.model_id, model.uuid, model.name}].push_back(&model);
  }
  json.open_array("loaded_models");
  for (const auto& [identity, parts] : models) {
    const auto& [model_id, uuid, name] = identity;
    bool running = false;
    for (const telemetry::LoadedModel* part : parts) running |= part->running;
    json.open_object();
    json.member("name", name);
    json.member("uuid", uuid);
    json.member("model_id", model_id);
    json.member("is_running", running);
    json.open_object("subgraphs");
    std::map<std::string, const telemetry::LoadedModel*> subgraphs;
    for (const telemetry::LoadedModel* part : parts) {
      char key[16];
      unsigned number = part->subgraph;
      do {
        std::snprintf(key, sizeof key, "sg_%02u", number++);
      } while (subgraphs.count(key) != 0);  // one on each of several cores
      subgraphs[key] = part;
    }
    for (const auto& [key, part] : subgraphs) {
      json.open_object(key);
      json.open_object("memory_used_bytes");
      json.member("host", part->host.total());
      json.member("neuron_device", part->core.total());
      json.open_object("usage_breakdown");
      write_host_memory(json, part->host);
      json.open_object("neuron_device");
      json.member("constants", part->core.constants);
      json.member("model_code", part->core.model_code);
      json.member("model_shared_scratchpad", part->core.model_shared_scratchpad);
      json.member("runtime_memory", part->core.runtime_memory);
      json.member("tensors", part->core.tensors);
      json.close_object();
      json.close_object();
      json.close_object();
      json.member("neuroncore_index", part->physical_core / group.logical_size);
      json.member("neuron_device_index", part->device);
      json.close_object();
    }
    json.close_object();
    json.close_object();
  }
  json.close_array();
}

void write_memory(JsonWriter& json, const MemoryGroup& group) {
  json.open_object("memory_used");
  json.member("period", group.period);
  json.open_object("neuron_runtime_used_bytes");
  json.member("host", group.host.total());
  json.member("neuron_device", group.device_bytes);
  json.open_object("usage_breakdown");
  write_host_memory(json, group.host);
  json.open_object("neuroncore_memory_usage");
  for (const auto& [index, memory] : group.cores) {
    json.open_object(std::to_string(index));
    json.member("constants", memory.constants);
    json.member("model_code", memory.model_code);
    json.member("model_shared_scratchpad", memory.model_shared_scratchpad);
    json.member("runtime_memory", memory.runtime_memory);
    json.member("tensors", memory.tensors);
    json.close_object();
  }
  json.close_object();
  json.close_object();
  json.close_object();
  write_models(json, group);
  json.member("error", group.error);
  json.close_object();
}

void write_runtime(JsonWriter& json, const RuntimeObservation& runtime,
                   const std::string& core_version) {
  json.open_object();
  json.member("pid", runtime.key.first);
  json.member("address", "");
  json.member("neuron_runtime_tag", runtime.tag);
  json.member("error", runtime.error);
  json.open_object("report");
  if (runtime.cores) write_cores(json, *runtime.cores, core_version);
  if (runtime.execution) write_execution(json, *runtime.execution);
  if (runtime.memory) write_memory(json, *runtime.memory);
  if (runtime.vcpu) {
    json.open_object("neuron_runtime_vcpu_usage");
    json.member("period", runtime.vcpu->period);
    json.open_object("vcpu_usage");
    json.member("user", runtime.vcpu->user);
    json.member("system", runtime.vcpu->system);
    json.close_object();
    json.member("error", runtime.vcpu->error);
    json.close_object();
  }
  json.close_object();
  json.close_object();
}

void write_processor(JsonWriter& json, std::string_view key, const ProcessorUse& use) {
  json.open_object(key);
  for (size_t i = 0; i < use.size(); ++i) json.member(kProcessorStates[i], use[i]);
  json.close_object();
}

void write_hardware_counters(JsonWriter& json, const telemetry::HardwareCounters& counters) {
  json.member("mem_ecc_corrected", counters.mem_ecc_corrected);
  json.member("mem_ecc_uncorrected", counters.mem_ecc_uncorrected);
  json.member("mem_ecc_repairable_uncorrected", counters.mem_ecc_repairable_uncorrected);
  json.member("sram_ecc_uncorrected", counters.sram_ecc_uncorrected);
  json.member("sram_ecc_corrected", counters.sram_ecc_corrected);
}

void write_links_down(JsonWriter& json, const std::optional<std::vector<unsigned>>& neighbours) {
  json.key("links_down");
  if (!neighbours) return json.null();
  json.open_array();
  for (const unsigned neighbour : *neighbours) json.value(neighbour);
  json.close_array();
}

void write_hardware(JsonWriter& json, const HardwareGroup& group) {
  json.open_object("neuron_hw_counters");
  json.member("period", group.period);
  json.open_array("neuron_devices");
  for (const DeviceHardware& device : group.devices) {
    json.open_object();
    json.member("neuron_device_index", device.index);
    write_hardware_counters(json, device.in_period);
    json.open_object("total");
    write_hardware_counters(json, device.total);
    json.close_object();
    json.member("state", telemetry::name(device.state));
    json.member("memory_bytes", device.memory_bytes);
    json.member("memory_used_bytes", device.memory_used);
    json.key("power_percent");
    device.power_percent ? json.value(*device.power_percent) : json.null();
    write_links_down(json, device.links_down);
    json.member("error", device.error);
    json.close_object();
  }
  json.close_array();
  json.member("error", group.error);
  json.close_object();
}

void write_system(JsonWriter& json, const Observation& of) {
  json.open_object("system_data");
  if (of.memory) {
    json.open_object("memory_info");
    json.member("period", of.memory->period);
    json.member("memory_total_bytes", of.memory->memory_total);
    json.member("memory_used_bytes", of.memory->memory_used);
    json.member("swap_total_bytes", of.memory->swap_total);
    json.member("swap_used_bytes", of.memory->swap_used);
    json.member("error", of.memory->error);
    json.close_object();
  }
  if (of.hardware) write_hardware(json, *of.hardware);
  if (of.vcpu) {
    json.open_object("vcpu_usage");
    json.member("period", of.vcpu->period);
    write_processor(json, "average_usage", of.vcpu->average);
    json.open_object("usage_data");
    for (size_t i = 0; i < of.vcpu->processors.size(); ++i) {
      write_processor(json, std::to_string(i), of.vcpu->processors[i]);
    }
    json.close_object();
    json.member("context_switch_count", of.vcpu->context_switches);
    json.member("error", of.vcpu->error);
    json.close_object();
  }
  json.close_object();
}

void write_instance(JsonWriter& json, const telemetry::Instance& instance, bool shown) {
  static const telemetry::Instance nothing;
  const telemetry::Instance& of = shown ? instance : nothing;
  json.open_object("instance_info");
  json.member("instance_name", of.name);
  json.member("instance_id", of.id);
  json.member("instance_type", of.type);
  json.member("instance_availability_zone", of.zone);
  json.member("instance_availability_zone_id", of.zone_id);
  json.member("instance_region", of.region);
  json.member("ami_id", of.image);
  json.member("subnet_id", of.subnet);
  json.member("error", of.error);
  json.close_object();
}

void write_hardware_info(JsonWriter& json, const HardwareInfo& info) {
  json.open_object("neuron_hardware_info");
  json.member("neuron_device_type", info.device_type);
  json.member("neuron_device_version", info.device_version);
  json.member("neuroncore_version", info.core_version);
  json.member("neuron_device_count", info.device_count);
  json.member("neuron_device_memory_size", info.device_memory);
  json.member("neuroncore_per_device_count", info.cores_per_device);
  json.member("logical_neuroncore_config", info.logical_size);
  json.member("neuron_driver_version", info.driver_version);
  json.member("neuron_driver_backend", info.backend);
  json.member("error", info.error);
  json.close_object();
}

void write_placements(JsonWriter& json, const char* key,
                      const std::map<unsigned, Placement>& placements) {
  json.open_object(key);
  for (const auto& [index, placement] : placements) {
    json.open_object(std::to_string(index));
    json.member("pod_name", placement.pod_name);
    json.member("namespace", placement.pod_namespace);
    json.open_array("container_name");
    for (const std::string& container : placement.containers) json.value(container);
    json.close_array();
    json.close_object();
  }
  json.close_object();
}

std::string utc(std::chrono::system_clock::time_point at) {
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch());
  const std::time_t seconds = since.count() / 1000;
  std::tm parts{};
  char text[40];
  const size_t length =
      std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &parts));
  std::snprintf(text + length, sizeof text - length, ".%03uZ",
                static_cast<unsigned>(since.count() % 1000));
  return text;
}

}  // namespace

std::string format_report(const Observation& observation, const ReportStyle& style) {
  std::string out;
  out.reserve(8192);
  JsonWriter json(out, style.pretty);
  json.open_object();
  json.open_array("neuron_runtime_data");
  for (const RuntimeObservation& runtime : observation.runtimes) {
    write_runtime(json, runtime, observation.info.core_version);
  }
  json.close_array();
  write_system(json, observation);
  write_instance(json, observation.instance, style.instance_info);
  write_hardware_info(json, observation.info);
  if (observation.k8s) {
    json.open_object("neuron_k8s_info");
    json.member("period", observation.k8s->period);
    write_placements(json, "neuroncores_k8s_info", observation.k8s->cores);
    write_placements(json, "neurondevices_k8s_info", observation.k8s->devices);
    json.member("error", observation.k8s->error);
    json.close_object();
  }
  json.member("timestamp", utc(observation.at));
  json.member("schema", "neuron-monitor");
  json.member("schema_version", kSchemaVersion);
  json.close_object();
  out += '\n';
  return out;
}

}  // namespace neuron::monitor
