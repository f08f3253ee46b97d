// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/model/observer.h"

#include <algorithm>
#include <array>
#include <boost/regex.hpp>
#include <cctype>
#include <optional>
#include <thread>

#include "tools/neuron-monitor/model/tally.h"
#include "tools/telemetry/generation.h"
#include "tools/telemetry/health.h"
#include "tools/telemetry/rates.h"

namespace neuron::monitor {
namespace {

using telemetry::growth;
using telemetry::Process;
using telemetry::ProcessOnCore;
using telemetry::Snapshot;

constexpr std::chrono::seconds kSecond{1};

double percent(double part, double whole) { return telemetry::share(part, whole) * 100; }

ProcessKey key_of(const Process& process) {
  using std::chrono::nanoseconds;
  if (!process.started) return {process.pid, 0};
  return {process.pid,
          std::chrono::duration_cast<nanoseconds>(process.started->time_since_epoch()).count()};
}

// True if a process that is missing from the snapshot did not exist.
bool complete(const Snapshot& snapshot) {
  return snapshot.error.empty() &&
         std::all_of(snapshot.devices.begin(), snapshot.devices.end(),
                     [](const telemetry::Device& device) { return device.error.empty(); });
}

const ProcessOnCore* find_core(const Process* process, const ProcessOnCore& core) {
  if (process == nullptr) return nullptr;
  for (const ProcessOnCore& other : process->cores) {
    if (other.device == core.device && other.physical_core == core.physical_core) return &other;
  }
  return nullptr;
}

// Values of a process that could not be read are zero, with a sentence: differences must not start
// there.
bool readable(const Process& process) {
  return process.error.empty() ||
         std::any_of(process.cores.begin(), process.cores.end(),
                     [](const ProcessOnCore& core) { return core.counters.executions != 0; });
}

const telemetry::Device* find_device(const Snapshot& snapshot, unsigned index) {
  for (const telemetry::Device& device : snapshot.devices) {
    if (device.index == index) return &device;
  }
  return nullptr;
}

unsigned logical_size(const Snapshot& snapshot) {
  return snapshot.devices.empty() ? 1 : std::max(1u, snapshot.devices.front().logical_size);
}

// The index of a physical core among all cores of the host.
unsigned host_wide(const Snapshot& snapshot, unsigned device, unsigned physical_core) {
  unsigned before = 0;
  for (const telemetry::Device& other : snapshot.devices) {
    if (other.index == device) break;
    before += static_cast<unsigned>(other.cores.size());
  }
  return before + physical_core;
}

CoreUseGroup core_use(const Snapshot& now, const Process& process, const Process* before,
                      double seconds) {
  CoreUseGroup out;
  const telemetry::CoreCounters zero;
  std::map<unsigned, unsigned> sizes;
  for (const ProcessOnCore& core : process.cores) {
    const ProcessOnCore* old = find_core(before, core);
    const telemetry::CoreCounters grown = growth(old ? old->counters : zero, core.counters);
    const telemetry::CoreRates rates = telemetry::rates(grown, seconds);
    CoreUse& use = out.cores[core.logical_core];
    use.utilization += rates.busy * 100;
    use.collectives += rates.collectives * 100;
    use.dma_bytes += grown.dma_bytes;
    use.link_bytes += grown.link_bytes;
    use.flops += rates.flops;
    use.physical[host_wide(now, core.device, core.physical_core)] = rates.busy * 100;
    ++sizes[core.logical_core];
  }
  const unsigned whole = logical_size(now);
  for (auto& [logical, use] : out.cores) {
    const unsigned size = std::max(whole, sizes[logical]);
    use.utilization /= size;
    use.collectives /= size;
    if (size == 1) use.physical.clear();
  }
  return out;
}

MemoryGroup memory_used(const Snapshot& now, const Process& process) {
  MemoryGroup out;
  out.host = process.host_memory;
  out.device_bytes = process.device_bytes;
  for (const ProcessOnCore& core : process.cores) {
    telemetry::CoreMemory& sum = out.cores[core.logical_core];
    sum.constants += core.memory.constants;
    sum.model_code += core.memory.model_code;
    sum.model_shared_scratchpad += core.memory.model_shared_scratchpad;
    sum.runtime_memory += core.memory.runtime_memory;
    sum.tensors += core.memory.tensors;
  }
  out.models = process.models;
  out.logical_size = logical_size(now);
  return out;
}

RuntimeVcpuGroup runtime_vcpu(const Process& process, const Process* before, double seconds) {
  RuntimeVcpuGroup out;
  if (before == nullptr) return out;
  static const unsigned kProcessors = std::max(1u, std::thread::hardware_concurrency());
  const double whole = seconds * 1e6 * kProcessors;
  out.user = percent(static_cast<double>(growth(before->user_us, process.user_us)), whole);
  out.system = percent(static_cast<double>(growth(before->system_us, process.system_us)), whole);
  return out;
}

ExecutionGroup execution(const Process& process, const Process* before) {
  ExecutionGroup out;
  const telemetry::CoreCounters zero;
  telemetry::LatencyHistogram total{}, device{};
  for (const ProcessOnCore& core : process.cores) {
    const ProcessOnCore* old = find_core(before, core);
    const telemetry::CoreCounters grown = growth(old ? old->counters : zero, core.counters);
    out.total += tally(core.counters);
    out.in_period += tally(grown);
    for (size_t i = 0; i < total.size(); ++i) {
      total[i] += grown.total_latency[i];
      device[i] += grown.device_latency[i];
    }
  }
  out.total_latency = percentiles(total);
  out.device_latency = percentiles(device);
  return out;
}

ProcessorUse processor_use(const telemetry::ProcessorTimes& before,
                           const telemetry::ProcessorTimes& now) {
  ProcessorUse use = processor_shares(before, now);
  for (double& value : use) value *= 100;
  return use;
}

HostVcpuGroup host_vcpu(const telemetry::HostState& before, const telemetry::HostState& now) {
  HostVcpuGroup out;
  out.average = processor_use(before.all, now.all);
  const telemetry::ProcessorTimes zero;
  for (size_t i = 0; i < now.processors.size(); ++i) {
    out.processors.push_back(processor_use(
        i < before.processors.size() ? before.processors[i] : zero, now.processors[i]));
  }
  out.context_switches = growth(before.context_switches, now.context_switches);
  return out;
}

// Devices behind one daemon fail with one sentence.
void add_sentence(std::string& all, const std::string& sentence) {
  if (sentence.empty() || all.find(sentence) != std::string::npos) return;
  all += (all.empty() ? "" : "; ") + sentence;
}

HardwareGroup hardware(const Snapshot* before, const Snapshot& now) {
  HardwareGroup out;
  out.error = now.error;
  for (const telemetry::Device& device : now.devices) {
    const telemetry::Device* old = before ? find_device(*before, device.index) : nullptr;
    DeviceHardware& entry = out.devices.emplace_back();
    entry.index = device.index;
    entry.total = device.hardware;
    // A device that was not readable before has no known start.
    if (old != nullptr && old->error.empty() && device.error.empty()) {
      entry.in_period = growth(old->hardware, device.hardware);
    }
    entry.state = device.state;
    entry.memory_bytes = device.memory_bytes;
    entry.memory_used = device.memory_used;
    entry.power_percent = device.power_percent;
    entry.links_down = telemetry::links_down(device);
    entry.error = device.error;
    entry.healthy = telemetry::is_healthy(device);
    add_sentence(out.error, device.error);
  }
  return out;
}

void place(const Process& process, Placement& placement) {
  if (placement.pod_name.empty()) {
    placement.pod_name = process.pod_name.empty() ? process.pod_uid : process.pod_name;
    placement.pod_namespace = process.pod_namespace;
  }
  const std::string& name =
      process.container_name.empty() ? process.container_id : process.container_name;
  auto& all = placement.containers;
  if (!name.empty() && std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
}

K8sGroup k8s(const Snapshot& now) {
  K8sGroup out;
  for (const Process& process : now.processes) {
    if (process.pod_name.empty() && process.pod_uid.empty()) continue;
    for (const ProcessOnCore& core : process.cores) place(process, out.cores[core.logical_core]);
    for (const unsigned device : process.devices) place(process, out.devices[device]);
  }
  return out;
}

// "NDv3" and "NCv2" have their number behind a "v".
std::string version_of(const std::string& architecture) {
  const size_t at = architecture.rfind('v');
  return at == std::string::npos ? "" : architecture.substr(at);
}

std::string device_version_of(const telemetry::Device& device) {
  const char* version = telemetry::generation_of_cores(device.core_architecture).device_version;
  return version != nullptr ? version : version_of(device.architecture);
}

HardwareInfo hardware_info(const Snapshot& now) {
  HardwareInfo out;
  out.error = now.error;
  out.driver_version = now.versions.driver;
  out.backend = now.versions.backend;
  out.device_count = static_cast<unsigned>(now.devices.size());
  // All devices of a host are alike, but one that does not answer may not give its type.
  const telemetry::Device* first = nullptr;
  for (const telemetry::Device& device : now.devices) {
    if (first == nullptr || (first->name.empty() && !device.name.empty())) first = &device;
  }
  if (first == nullptr) return out;
  if (first->name.empty()) add_sentence(out.error, first->error);
  out.device_type = first->name;
  for (char& c : out.device_type) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  out.device_version = device_version_of(*first);
  out.core_version = version_of(first->core_architecture);
  out.logical_size = std::max(1u, first->logical_size);
  // "v3d": pairs of physical cores act as one.
  if (out.logical_size == 2 && !out.core_version.empty()) out.core_version += "d";
  out.cores_per_device = static_cast<unsigned>(first->cores.size()) / out.logical_size;
  out.device_memory = first->memory_bytes;
  return out;
}

}  // namespace

struct Observer::TagFilter {
  explicit TagFilter(const std::string& text)
      : everything(text == ".*" || text.empty()),
        expression(text, boost::regex::perl | boost::regex::optimize) {}
  bool matches(const std::string& tag) const {
    if (everything) return true;
    try {
      return boost::regex_search(tag, expression);
    } catch (const std::exception&) {
      return false;  // the tag makes the expression try too many ways
    }
  }
  bool everything;
  boost::regex expression;
};

struct Observer::Item {
  static constexpr int kOfHost = -1, kK8s = -2;
  int selection = kOfHost;  // index of the tag filter
  Group group = Group::kVcpuUsage;
  Duration period{};
  SnapshotPointer last = {};  // nothing before start()
  // The counters of each process when the item last saw it.
  struct Seen {
    std::shared_ptr<const Process> process;
    std::chrono::steady_clock::time_point at;
  };
  std::map<ProcessKey, Seen> seen = {};

  bool of_processes() const { return selection != kOfHost; }

  // The state from which the process's differences start; null: from zero.
  const Process* before(const Process& process, const Snapshot& now, double& seconds) const {
    seconds = std::chrono::duration<double>(now.monotonic - last->monotonic).count();
    if (const auto found = seen.find(key_of(process)); found != seen.end()) {
      seconds = std::chrono::duration<double>(now.monotonic - found->second.at).count();
      return found->second.process.get();
    }
    // Work done while the process could not be seen has no known time: the process counts as new,
    // or starts from now. Drivers give the start of a process in whole seconds.
    const bool is_new = complete(*last) || (process.since && *process.since + kSecond > last->at);
    return is_new ? nullptr : &process;
  }
};

Observer::Observer(const Configuration& configuration) {
  for (const RuntimeSelection& selection : configuration.runtimes) {
    const int index = static_cast<int>(filters_.size());
    filters_.emplace_back(selection.tag_filter);
    for (const Metric& metric : selection.metrics) {
      items_.push_back({index, metric.group, metric.period});
    }
  }
  for (const Metric& metric : configuration.system_metrics) {
    items_.push_back({Item::kOfHost, metric.group, metric.period});
  }
  if (configuration.k8s_period) {
    items_.push_back({Item::kK8s, Group::kMemoryUsed, *configuration.k8s_period});
  }
}

Observer::~Observer() = default;

std::vector<Duration> Observer::periods() const {
  std::vector<Duration> out;
  for (const Item& item : items_) out.push_back(item.period);
  return out;
}

telemetry::Wanted Observer::wanted(const std::vector<size_t>& due) const {
  telemetry::Wanted out;
  out.processes = out.hardware = out.host = false;
  for (const size_t index : due) {
    const Item& item = items_[index];
    out.processes |= item.of_processes();
    out.hardware |= !item.of_processes() && item.group == Group::kHardwareCounters;
    out.host |= !item.of_processes() && item.group != Group::kHardwareCounters;
  }
  return out;
}

void Observer::remember(Item& item, const SnapshotPointer& snapshot) {
  item.last = snapshot;
  if (item.selection < 0) return;
  std::map<ProcessKey, Item::Seen> seen;
  // Processes that are missing from an incomplete snapshot may still live.
  if (!complete(*snapshot)) seen = item.seen;
  for (const Process& process : snapshot->processes) {
    const auto known = item.seen.find(key_of(process));
    if (!readable(process) && known != item.seen.end()) {
      seen.insert_or_assign(known->first, known->second);
      continue;
    }
    seen.insert_or_assign(key_of(process), Item::Seen{{snapshot, &process}, snapshot->monotonic});
  }
  item.seen = std::move(seen);
}

void Observer::start(SnapshotPointer snapshot) {
  for (Item& item : items_) remember(item, snapshot);
}

// The first selection that names the group and matches the tag gets the process.
const Observer::Item* Observer::item_for(const Process& process, Group group,
                                         const std::vector<const Item*>& due) const {
  int owner = -1;
  for (const Item& item : items_) {
    if (item.selection < 0 || item.group != group) continue;
    if (!filters_[static_cast<size_t>(item.selection)].matches(process.tag)) continue;
    owner = item.selection;
    break;
  }
  if (owner < 0) return nullptr;
  for (const Item* item : due) {
    if (item->selection == owner && item->group == group) return item;
  }
  return nullptr;
}

void Observer::observe_process(const Snapshot& now, const Process& process,
                               const std::vector<const Item*>& due, Observation& out) const {
  RuntimeObservation entry;
  bool any = false;
  const auto with = [&](Group group, auto make) {
    const Item* item = item_for(process, group, due);
    if (item == nullptr) return;
    any = true;
    double seconds = 0;
    const Process* before = item->before(process, now, seconds);
    make(before, seconds);
  };
  const auto in_period = [](auto group, double seconds) {
    group.period = seconds;
    return group;
  };
  with(Group::kNeuroncoreCounters, [&](const Process* before, double seconds) {
    entry.cores = in_period(core_use(now, process, before, seconds), seconds);
  });
  with(Group::kMemoryUsed, [&](const Process*, double seconds) {
    entry.memory = in_period(memory_used(now, process), seconds);
  });
  with(Group::kRuntimeVcpuUsage, [&](const Process* before, double seconds) {
    entry.vcpu = in_period(runtime_vcpu(process, before, seconds), seconds);
  });
  with(Group::kExecutionStats, [&](const Process* before, double seconds) {
    entry.execution = in_period(execution(process, before), seconds);
  });
  if (!any) return;
  entry.key = key_of(process);
  entry.tag = process.tag.empty() ? std::to_string(process.pid) : process.tag;
  entry.error = process.error;
  entry.orchestration = {process.pod_name, process.pod_namespace, process.container_name,
                         process.container_id};
  out.runtimes.push_back(std::move(entry));
}

Observation Observer::observe(SnapshotPointer snapshot, const std::vector<size_t>& due) {
  const Snapshot& now = *snapshot;
  Observation out;
  out.at = now.at;
  out.instance = now.instance;
  out.info = hardware_info(now);
  std::vector<const Item*> runtime_items;
  for (const size_t index : due) {
    const Item& item = items_[index];
    const double seconds =
        std::chrono::duration<double>(now.monotonic - item.last->monotonic).count();
    if (item.selection >= 0) {
      runtime_items.push_back(&item);
    } else if (item.selection == Item::kK8s) {
      out.k8s = k8s(now);
      out.k8s->period = seconds;
      out.k8s->error = now.error;
    } else if (item.group == Group::kVcpuUsage) {
      out.vcpu = host_vcpu(item.last->host, now.host);
      out.vcpu->period = seconds;
    } else if (item.group == Group::kMemoryInfo) {
      HostMemoryGroup& memory = out.memory.emplace();
      memory.period = seconds;
      memory.memory_total = now.host.memory_total;
      memory.memory_used = now.host.memory_used;
      memory.swap_total = now.host.swap_total;
      memory.swap_used = now.host.swap_used;
    } else {
      out.hardware = hardware(item.last.get(), now);
      out.hardware->period = seconds;
    }
  }
  if (!runtime_items.empty()) {
    out.alive.emplace();
    for (const Process& process : now.processes) {
      out.alive->insert(key_of(process));
      observe_process(now, process, runtime_items, out);
    }
  }
  for (const size_t index : due) remember(items_[index], snapshot);
  return out;
}

}  // namespace neuron::monitor
