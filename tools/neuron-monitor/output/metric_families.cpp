// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/output/metric_families.h"

#include <algorithm>
#include <iterator>

#include "tools/neuron-monitor/model/tally.h"

namespace neuron::monitor {
namespace {

double seconds_of(std::chrono::system_clock::time_point at) {
  return std::chrono::duration<double>(at.time_since_epoch()).count();
}

std::string text(auto number) { return std::to_string(number); }

enum class Merge { kAdd, kLargest };

// Samples of one family, found by their labels.
class FamilyBuilder {
 public:
  FamilyBuilder(std::vector<Family>& families, Family family)
      : families_(families), family_(std::move(family)) {}
  ~FamilyBuilder() {
    if (!family_.samples.empty()) families_.push_back(std::move(family_));
  }
  FamilyBuilder(const FamilyBuilder&) = delete;
  FamilyBuilder& operator=(const FamilyBuilder&) = delete;

  void add(Labels labels, double value, Merge merge = Merge::kAdd, double created = 0) {
    std::string key;
    for (const auto& [name, content] : labels) key += content + '\xff';
    const auto [found, fresh] = index_.emplace(key, family_.samples.size());
    if (fresh) {
      family_.samples.push_back({std::move(labels), value, created});
      return;
    }
    Sample& sample = family_.samples[found->second];
    sample.value = merge == Merge::kAdd ? sample.value + value : std::max(sample.value, value);
  }

 private:
  std::vector<Family>& families_;
  Family family_;
  std::map<std::string, size_t> index_;
};

Labels with(Labels labels, const Labels& more) {
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

// Adds labels of pods only if there are pods.
Labels owner_labels(const std::array<std::string, 4>& owner) {
  static constexpr const char* kLabels[] = {"runtime_tag", "pod", "namespace", "container"};
  Labels out = {{kLabels[0], owner[0]}};
  for (size_t i = 1; i < owner.size(); ++i) {
    if (!owner[i].empty()) out.emplace_back(kLabels[i], owner[i]);
  }
  return out;
}

struct Owned {
  const RuntimeObservation* runtime;
  Labels labels;
};

void add_cores(std::vector<Family>& out, const std::vector<Owned>& all) {
  FamilyBuilder utilization(out,
                            {"neuroncore_utilization_ratio", "neuron.core.utilization", "1", false,
                             "Share of the period in which the core executed, from 0 to 1."});
  FamilyBuilder collectives(
      out, {"neuroncore_collectives_ratio", "neuron.core.collectives_utilization", "1", false,
            "Share of the period in which collective cores worked for the core, from 0 to 1."});
  FamilyBuilder flops(out, {"neuroncore_flops", "neuron.core.flops", "{operation}/s", false,
                            "Floating-point operations of the core's Tensor engine each second."});
  FamilyBuilder dma(out, {"neuroncore_dma_bytes_per_second", "neuron.core.dma", "By/s", false,
                          "Bytes that the core's DMA engines move each second."});
  FamilyBuilder link(out, {"neuroncore_link_bytes_per_second", "neuron.core.link", "By/s", false,
                           "Bytes of these that come from or go to other devices."});
  for (const auto& [runtime, labels] : all) {
    if (!runtime->cores) continue;
    for (const auto& [index, use] : runtime->cores->cores) {
      const Labels of = with({{"neuroncore", text(index)}}, labels);
      utilization.add(of, use.utilization / 100);
      collectives.add(of, use.collectives / 100);
      flops.add(of, use.flops);
      const double seconds = runtime->cores->period;
      dma.add(of, seconds > 0 ? static_cast<double>(use.dma_bytes) / seconds : 0);
      link.add(of, seconds > 0 ? static_cast<double>(use.link_bytes) / seconds : 0);
    }
  }
}

void add_memory(std::vector<Family>& out, const std::vector<Owned>& all) {
  using telemetry::CoreMemory;
  struct Category {
    Family family;
    uint64_t CoreMemory::*member;
  };
  const Category categories[] = {
      {{"neuroncore_memory_usage_constants", "neuron.core.memory.constants", "By", false,
        "Device memory of the core that holds constants, such as weights."},
       &CoreMemory::constants},
      {{"neuroncore_memory_usage_model_code", "neuron.core.memory.model_code", "By", false,
        "Device memory of the core that holds instructions and descriptors."},
       &CoreMemory::model_code},
      {{"neuroncore_memory_usage_model_shared_scratchpad",
        "neuron.core.memory.model_shared_scratchpad", "By", false,
        "Device memory of the core that models share for intermediate values."},
       &CoreMemory::model_shared_scratchpad},
      {{"neuroncore_memory_usage_runtime_memory", "neuron.core.memory.runtime_memory", "By", false,
        "Device memory of the core that the runtime uses for itself."},
       &CoreMemory::runtime_memory},
      {{"neuroncore_memory_usage_tensors", "neuron.core.memory.tensors", "By", false,
        "Device memory of the core that holds tensors."},
       &CoreMemory::tensors}};
  for (const Category& category : categories) {
    FamilyBuilder builder(out, category.family);
    for (const auto& [runtime, labels] : all) {
      if (!runtime->memory) continue;
      for (const auto& [index, memory] : runtime->memory->cores) {
        builder.add(with({{"memory_location", "None"}, {"neuroncore", text(index)}}, labels),
                    static_cast<double>(memory.*category.member));
      }
    }
  }
  FamilyBuilder used(out, {"neuron_runtime_memory_used_bytes", "neuron.runtime.memory.used", "By",
                           false, "Memory that processes use, of the host and of devices."});
  for (const auto& [runtime, labels] : all) {
    if (!runtime->memory) continue;
    used.add(with({{"memory_location", "host"}}, labels),
             static_cast<double>(runtime->memory->host.total()));
    used.add(with({{"memory_location", "neuron_device"}}, labels),
             static_cast<double>(runtime->memory->device_bytes));
  }
}

void add_runtime_gauges(std::vector<Family>& out, const std::vector<Owned>& all) {
  FamilyBuilder vcpu(out,
                     {"neuron_runtime_vcpu_usage_ratio", "neuron.vcpu.runtime_usage", "1", false,
                      "Share of the host's processors that processes use, from 0 to 1."});
  FamilyBuilder latency(
      out, {"execution_latency_seconds", "neuron.runtime.execution.latency", "s", false,
            "Time of executions as the runtime sees it, by percentile, in the last period."});
  FamilyBuilder device_latency(
      out, {"execution_device_latency_seconds", "neuron.runtime.execution.device_latency", "s",
            false, "Time of executions on the device alone, by percentile, in the last period."});
  for (const auto& [runtime, labels] : all) {
    if (runtime->vcpu) {
      vcpu.add(with({{"usage_type", "user"}}, labels), runtime->vcpu->user / 100);
      vcpu.add(with({{"usage_type", "system"}}, labels), runtime->vcpu->system / 100);
    }
    if (!runtime->execution) continue;
    for (size_t i = 0; i < kPercentiles.size(); ++i) {
      const Labels of = with({{"percentile", "p" + text(kPercentiles[i])}}, labels);
      if (runtime->execution->total_latency) {
        latency.add(of, (*runtime->execution->total_latency)[i], Merge::kLargest);
      }
      if (runtime->execution->device_latency) {
        device_latency.add(of, (*runtime->execution->device_latency)[i], Merge::kLargest);
      }
    }
  }
}

void add_hardware(std::vector<Family>& out, const HardwareGroup& group, double started) {
  FamilyBuilder events(out, {"hardware_ecc_events", "neuron.device.ecc_events", "{event}", true,
                             "Bits of device memory that were corrected or could not be."});
  FamilyBuilder used(out, {"neurondevice_memory_used_bytes", "neuron.device.memory.used", "By",
                           false, "Memory of the device that is allocated."});
  FamilyBuilder total(out, {"neurondevice_memory_total_bytes", "neuron.device.memory.total", "By",
                            false, "Memory that the device has."});
  FamilyBuilder power(out, {"neurondevice_power_ratio", "neuron.device.power", "1", false,
                            "Average power of the device as a share of its maximum."});
  FamilyBuilder links(out, {"neurondevice_links_down", "neuron.device.links_down", "{link}", false,
                            "Links of the device to its neighbours that are down."});
  FamilyBuilder healthy(out, {"neurondevice_healthy", "neuron.device.healthy", "1", false,
                              "1 if nothing keeps the device from working, else 0: it is ready "
                              "and answers, no engine hangs, no error is uncorrected, no link is "
                              "down."});
  for (const DeviceHardware& device : group.devices) {
    const Labels of = {{"neuron_device_index", text(device.index)}};
    const std::pair<const char*, uint64_t> kinds[] = {
        {"mem_ecc_corrected", device.total.mem_ecc_corrected},
        {"mem_ecc_uncorrected", device.total.mem_ecc_uncorrected},
        {"mem_ecc_repairable_uncorrected", device.total.mem_ecc_repairable_uncorrected},
        {"sram_ecc_corrected", device.total.sram_ecc_corrected},
        {"sram_ecc_uncorrected", device.total.sram_ecc_uncorrected}};
    const bool answers = device.error.empty();
    if (answers) {
      for (const auto& [kind, count] : kinds) {
        events.add(with({{"event_type", kind}}, of), static_cast<double>(count), Merge::kAdd,
                   started);
      }
      used.add(of, static_cast<double>(device.memory_used));
      total.add(of, static_cast<double>(device.memory_bytes));
      if (device.power_percent) power.add(of, *device.power_percent / 100);
      if (device.links_down) links.add(of, static_cast<double>(device.links_down->size()));
    }
    healthy.add(with(of, {{"state", answers ? telemetry::name(device.state) : "unreadable"}}),
                device.healthy ? 1 : 0);
  }
}

void add_host(std::vector<Family>& out, const Observation& of) {
  const auto gauge = [&](const char* name, const char* otlp, const char* unit, const char* help,
                         double value) {
    FamilyBuilder(out, {name, otlp, unit, false, help}).add({}, value);
  };
  if (of.vcpu) {
    gauge("system_vcpu_count", "neuron.vcpu.count", "{cpu}", "Processors of the host.",
          static_cast<double>(of.vcpu->processors.size()));
    FamilyBuilder usage(out, {"system_vcpu_usage_ratio", "neuron.vcpu.usage", "1", false,
                              "Share of the time of the host's processors, from 0 to 1."});
    for (size_t i = 0; i < kProcessorStates.size(); ++i) {
      usage.add({{"usage_type", kProcessorStates[i]}}, of.vcpu->average[i] / 100);
    }
  }
  if (!of.memory) return;
  const auto bytes = [](uint64_t count) { return static_cast<double>(count); };
  gauge("system_memory_total_bytes", "neuron.system.memory.total", "By", "Memory of the host.",
        bytes(of.memory->memory_total));
  gauge("system_memory_used_bytes", "neuron.system.memory.used", "By", "Memory of the host in use.",
        bytes(of.memory->memory_used));
  gauge("system_swap_total_bytes", "neuron.system.swap.total", "By", "Swap space of the host.",
        bytes(of.memory->swap_total));
  gauge("system_swap_used_bytes", "neuron.system.swap.used", "By", "Swap space of the host in use.",
        bytes(of.memory->swap_used));
}

void add_infos(std::vector<Family>& out, const Observation& of, bool instance_info) {
  if (instance_info) {
    FamilyBuilder(out, {"instance_info", nullptr, "1", false, "What is known of the instance."})
        .add({{"instance_availability_zone", of.instance.zone},
              {"instance_availability_zone_id", of.instance.zone_id},
              {"instance_region", of.instance.region},
              {"ami_id", of.instance.image}},
             1);
  }
  FamilyBuilder(out, {"neuron_hardware_info", nullptr, "1", false, "What the devices are."})
      .add({{"neuron_device_type", of.info.device_type},
            {"neuron_device_version", of.info.device_version},
            {"neuroncore_version", of.info.core_version},
            {"neuron_device_count", text(of.info.device_count)},
            {"neuron_device_memory_size", text(of.info.device_memory)},
            {"neuroncore_per_device_count", text(of.info.cores_per_device)},
            {"logical_neuroncore_config", text(of.info.logical_size)}},
           1);
}

}  // namespace

MetricFamilies::Owner MetricFamilies::owner_of(const RuntimeObservation& runtime) {
  return {runtime.tag, runtime.orchestration.pod_name, runtime.orchestration.pod_namespace,
          runtime.orchestration.container_name};
}

void MetricFamilies::merge(const RuntimeObservation& runtime, double now) {
  RuntimeObservation& known = runtimes_[runtime.key];
  known.key = runtime.key;
  known.tag = runtime.tag;
  known.error = runtime.error;
  known.orchestration = runtime.orchestration;
  if (runtime.cores) known.cores = runtime.cores;
  if (runtime.memory) known.memory = runtime.memory;
  if (runtime.vcpu) known.vcpu = runtime.vcpu;
  if (!runtime.execution) return;
  known.execution = runtime.execution;
  Account& account = accounts_[owner_of(runtime)];
  if (account.members.empty()) account.created = now;
  // Its work before it was first seen counts as well.
  const bool joins = account.members.insert(runtime.key).second;
  account.total += joins ? runtime.execution->total : runtime.execution->in_period;
}

void MetricFamilies::forget(const std::set<ProcessKey>& alive) {
  std::erase_if(runtimes_, [&](const auto& entry) { return alive.count(entry.first) == 0; });
  for (auto& [owner, account] : accounts_) {
    std::erase_if(account.members, [&](const ProcessKey& key) { return alive.count(key) == 0; });
  }
  std::erase_if(accounts_, [](const auto& entry) { return entry.second.members.empty(); });
}

void MetricFamilies::update(const Observation& observation) {
  const std::lock_guard lock(mutex_);
  ++version_;
  const double now = seconds_of(observation.at);
  if (started_ == 0) started_ = now;
  latest_.at = observation.at;
  latest_.instance = observation.instance;
  latest_.info = observation.info;
  if (observation.vcpu) latest_.vcpu = observation.vcpu;
  if (observation.memory) latest_.memory = observation.memory;
  if (observation.hardware) latest_.hardware = observation.hardware;
  for (const RuntimeObservation& runtime : observation.runtimes) merge(runtime, now);
  if (observation.alive) forget(*observation.alive);
}

uint64_t MetricFamilies::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

Exposition MetricFamilies::exposition() const {
  const std::lock_guard lock(mutex_);
  Exposition out;
  out.at = latest_.at;
  if (instance_info_) {
    out.instance = {
        {"availability_zone", latest_.instance.zone}, {"instance_id", latest_.instance.id},
        {"instance_name", latest_.instance.name},     {"instance_type", latest_.instance.type},
        {"region", latest_.instance.region},          {"subnet_id", latest_.instance.subnet}};
  }
  std::vector<Owned> all;
  for (const auto& [key, runtime] : runtimes_) {
    all.push_back({&runtime, owner_labels(owner_of(runtime))});
  }
  add_cores(out.families, all);
  add_memory(out.families, all);
  add_runtime_gauges(out.families, all);
  {
    FamilyBuilder errors(out.families,
                         {"execution_errors", "neuron.runtime.execution.errors", "{error}", true,
                          "Executions that failed, by kind of error."});
    FamilyBuilder ends(out.families, {"execution_status", "neuron.runtime.execution.status",
                                      "{execution}", true, "Executions, by how they ended."});
    for (const auto& [owner, account] : accounts_) {
      const Labels labels = owner_labels(owner);
      for (size_t i = 0; i < kErrorKinds.size(); ++i) {
        errors.add(with({{"error_type", kErrorKinds[i]}}, labels),
                   static_cast<double>(account.total.errors[i]), Merge::kAdd, account.created);
      }
      for (size_t i = 0; i < kStatusKinds.size(); ++i) {
        ends.add(with({{"status_type", kStatusKinds[i]}}, labels),
                 static_cast<double>(account.total.ends[i]), Merge::kAdd, account.created);
      }
    }
  }
  if (latest_.hardware) add_hardware(out.families, *latest_.hardware, started_);
  add_host(out.families, latest_);
  add_infos(out.families, latest_, instance_info_);
  return out;
}

}  // namespace neuron::monitor
