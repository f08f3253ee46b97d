// SPDX-License-Identifier: Apache-2.0
#include "tools/telemetry/source.h"

#include <ndl/ndl.h>
#include <nrt/nrt_open.h>
#include <nrt/nrt_version.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <tuple>

#include "driver/base/pci_address.h"
#include "tools/telemetry/device_reading.h"
#include "tools/telemetry/generation.h"
#include "tools/telemetry/proc.h"
#include "tools/telemetry/side_thread.h"

namespace neuron::telemetry {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTogetherPart = 4;

std::string environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

// Physical cores that make one core of NEURON_RT_VISIBLE_CORES, in this environment.
unsigned logical_size(const Generation& generation) {
  if (generation.logical_size == 1) return 1;
  std::string size = environment("NEURON_LOGICAL_NC_CONFIG");
  if (size.empty()) size = environment("NEURON_RT_VIRTUAL_CORE_SIZE");
  return size == "1" ? 1 : generation.logical_size;
}

std::string bdf_of(const ndl_observation_t& seen) {
  return base::pci_address(seen.pci_domain & 0xFFFF, seen.pci_bus & 0xFF, seen.pci_slot & 0xFF,
                           seen.pci_function & 0xF);
}

DeviceState state_of(const ndl_observation_t& seen) {
  switch (seen.state) {
    case NDL_DEVICE_READY:
      return DeviceState::kReady;
    case NDL_DEVICE_RESETTING:
      return DeviceState::kResetting;
    case NDL_DEVICE_INVALID:
      return DeviceState::kInvalid;
    case NDL_DEVICE_OFF:
      return DeviceState::kOff;
    default:
      return DeviceState::kUnknown;
  }
}

std::vector<std::string> engine_names(uint32_t map) {
  constexpr const char* kNames[] = {"pe", "act", "pool", "dve", "sp"};
  std::vector<std::string> names;
  for (unsigned engine = 0; engine < std::size(kNames); ++engine) {
    if ((map >> engine & 1) != 0) names.emplace_back(kNames[engine]);
  }
  return names;
}

Device device_of(int index, const DeviceReading& reading, const std::string& online) {
  Device device;
  const ndl_observation_t& seen = reading.observation;
  device.index = static_cast<unsigned>(index);
  device.error = reading.error;
  if (!reading.answered) return device;
  const Generation& generation = generation_of(seen.architecture);
  device.name = reading.identity.name;
  device.architecture = reading.identity.architecture;
  device.core_architecture = reading.identity.core_architecture;
  device.serial_number = reading.identity.serial_number;
  device.bdf = bdf_of(seen);
  device.numa_node = seen.numa_node;
  // The place of an emulated device is not read: the host may have another device at that address.
  if (seen.emulated == 0) read_place(device.bdf, device.numa_node, device.cpu_affinity);
  if (device.cpu_affinity.empty()) device.cpu_affinity = online;
  device.state = state_of(seen);
  device.logical_size = logical_size(generation);
  device.memory_bytes = seen.memory_bytes;
  device.memory_used = seen.memory_used;
  device.hardware = reading.hardware;
  device.power_percent = reading.power_percent;
  device.faults = reading.faults;
  for (uint32_t i = 0; i < seen.connected_count; ++i) {
    Link link;
    link.device = seen.connected[i];
    link.up = (seen.links_down >> i & 1) == 0;
    link.kind = generation.link_kind;
    link.theoretical_bytes_per_second = seen.link_bytes_per_second != 0
                                            ? static_cast<double>(seen.link_bytes_per_second)
                                            : generation.link_bytes_per_second;
    device.links.push_back(std::move(link));
  }
  for (uint32_t i = 0; i < seen.cores; ++i) {
    Core core;
    core.physical_core = i;
    core.hung_engines = engine_names(seen.hung_engines[i]);
    core.resets = seen.resets[i];
    core.failed_resets = seen.failed_resets[i];
    for (uint32_t h = 0; h < seen.holder_count; ++h) {
      if ((seen.holders[h].cores >> i & 1) != 0) core.holder = seen.holders[h].pid;
    }
    device.cores.push_back(std::move(core));
  }
  return device;
}

bool has_worked(const CoreCounters& counters, const CoreMemory& memory) {
  return counters.executions != 0 || counters.model_loads != 0 || memory.total() != 0;
}

void append_sentence(std::string& text, const std::string& sentence) {
  if (sentence.empty() || text.find(sentence) != text.npos) return;
  text += (text.empty() ? "" : "; ") + sentence;
}

class HostSource final : public Source {
 public:
  Snapshot take(const Wanted& wanted, std::chrono::milliseconds per_device) override;

 private:
  struct Asked {
    int index = 0;
    SideThread thread;
    DeviceIdentity identity;
    bool begun = false;
    std::shared_ptr<DeviceReading> reading;
  };

  std::vector<int> find_devices(const Wanted& wanted, std::chrono::milliseconds per_device,
                                Snapshot& snapshot);
  void begin_readings(const Wanted& wanted, const std::vector<int>& devices, uint32_t timeout_ms);
  Asked& asked(int index);
  void add_processes(const Wanted& wanted, const Device& device, const DeviceReading& reading,
                     Snapshot& snapshot);
  void add_holder(const Device& device, const HolderReading& held, Process& process);
  bool ran_since(int pid, const Device& device, unsigned core, uint64_t executions);

  SideThread list_thread_;  // for questions that are not about one device
  // The readings of the last take(); null: each device must be asked.
  std::shared_ptr<const DeviceReadings> together_;
  std::vector<std::unique_ptr<Asked>> asked_;
  std::map<std::tuple<int, unsigned, unsigned>, uint64_t> executions_;  // of the last take
  std::map<std::tuple<int, unsigned, unsigned>, uint64_t> seen_;        // of this one
};

// The result of one thread: which devices the host has, and what they answer together.
struct HostAnswer {
  std::vector<int> devices;
  std::string driver, type, error;
  std::atomic<bool> listed{false};  // the above is complete
  bool complete = false;            // and these
  DeviceReadings readings;
};

void list_devices(HostAnswer& answer) {
  int indexes[MAX_NEURON_DEVICE_COUNT];
  const int count = ndl_available_devices(indexes, MAX_NEURON_DEVICE_COUNT);
  if (count <= 0) {
    answer.error = count < 0 ? ndl_last_error() : "there is no Neuron device on this host";
    return;
  }
  answer.devices.assign(indexes, indexes + std::min(count, MAX_NEURON_DEVICE_COUNT));
  ndl_version_info_t version{};
  if (ndl_get_version(&version) == 0) answer.driver = version.driver_full_version;
  char type[256] = "";
  if (nrt_open_get_instance_type(type, sizeof(type)) == NRT_SUCCESS) answer.type = type;
}

// One device must not cost the others their answers: if the common answer does not come in a part
// of the time, the devices are asked one by one.
std::vector<int> HostSource::find_devices(const Wanted& wanted,
                                          std::chrono::milliseconds per_device,
                                          Snapshot& snapshot) {
  DeviceIdentities known;
  for (const auto& asked : asked_) {
    if (asked->identity.known) known[asked->index] = asked->identity;
  }
  const auto answer = std::make_shared<HostAnswer>();
  const bool ended = list_thread_.run(
      [answer, wanted, per_device, known]() mutable {
        list_devices(*answer);
        // Release: pairs with the acquire of a thread that stopped waiting.
        answer->listed.store(true, std::memory_order_release);
        if (answer->devices.empty()) return;
        const bool all_known =
            std::all_of(answer->devices.begin(), answer->devices.end(),
                        [&](int index) { return known.find(index) != known.end(); });
        if (!all_known) known.clear();
        answer->complete = read_devices(wanted, Clock::now() + per_device / kTogetherPart, known,
                                        answer->readings);
      },
      Clock::now() + per_device);
  together_ = ended && answer->complete
                  ? std::shared_ptr<const DeviceReadings>(answer, &answer->readings)
                  : nullptr;
  if (!answer->listed.load(std::memory_order_acquire)) {
    snapshot.error =
        "the driver did not answer which devices there are before the deadline; is the daemon that "
        "NEURON_EMULATOR names stopped?";
    return {};
  }
  snapshot.error = answer->error;
  snapshot.versions.driver = answer->driver;
  if (snapshot.instance.type.empty()) snapshot.instance.type = presentable(answer->type);
  return answer->devices;
}

HostSource::Asked& HostSource::asked(int index) {
  for (const auto& known : asked_) {
    if (known->index == index) return *known;
  }
  asked_.push_back(std::make_unique<Asked>());
  asked_.back()->index = index;
  return *asked_.back();
}

// Begins to read each device in a thread of its own.
void HostSource::begin_readings(const Wanted& wanted, const std::vector<int>& devices,
                                uint32_t timeout_ms) {
  for (const int index : devices) {
    Asked& device = asked(index);
    auto reading = std::make_shared<DeviceReading>();
    device.reading = reading;
    device.begun =
        device.thread.begin([index, wanted, timeout_ms, reading, identity = device.identity] {
          *reading = read_device(index, wanted, timeout_ms, identity);
        });
  }
}

bool HostSource::ran_since(int pid, const Device& device, unsigned core, uint64_t executions) {
  const std::tuple key(pid, device.index, core);
  seen_[key] = executions;
  const auto before = executions_.find(key);
  return before == executions_.end() ? executions != 0 : executions != before->second;
}

void HostSource::add_holder(const Device& device, const HolderReading& held, Process& process) {
  const ndl_holder_t& holder = held.holder;
  const DatastoreRecord& record = held.record;
  process.devices.push_back(device.index);
  process.device_bytes += holder.device_bytes;
  if (holder.since != 0) {
    auto since = std::chrono::system_clock::from_time_t(static_cast<std::time_t>(holder.since));
    // Drivers give whole seconds, so in its first second a process would seem to hold the device
    // too early.
    if (process.started && since < *process.started &&
        *process.started - since < std::chrono::seconds(1)) {
      since = *process.started;
    }
    if (!process.since || since < *process.since) process.since = since;
  }
  if (process.command.empty()) {
    process.command = presentable({holder.command, ::strnlen(holder.command, 16)});
  }
  append_sentence(process.error, record.error);
  if (process.runtime_version.empty()) process.runtime_version = record.runtime_version;
  if (!record.tag.empty()) process.tag = record.tag;
  HostMemory& memory = process.host_memory;
  memory.application_memory += record.host_memory.application_memory;
  memory.constants += record.host_memory.constants;
  memory.dma_buffers += record.host_memory.dma_buffers;
  memory.tensors += record.host_memory.tensors;
  for (const Core& core : device.cores) {
    const unsigned number = core.physical_core;
    const bool recorded = number < record.counters.size();
    const bool marked = (holder.cores >> number & 1) != 0;
    if (!marked && !(recorded && has_worked(record.counters[number], record.memory[number]))) {
      continue;
    }
    ProcessOnCore entry;
    entry.device = device.index;
    entry.physical_core = number;
    entry.logical_core = core.logical_core;
    if (recorded) {
      entry.counters = record.counters[number];
      entry.memory = record.memory[number];
    }
    process.cores.push_back(std::move(entry));
  }
  for (LoadedModel model : record.models) {
    model.device = device.index;
    model.running = ran_since(process.pid, device, model.physical_core,
                              record.counters[model.physical_core].executions);
    process.models.push_back(std::move(model));
  }
}

void HostSource::add_processes(const Wanted& wanted, const Device& device,
                               const DeviceReading& reading, Snapshot& snapshot) {
  for (const HolderReading& held : reading.holders) {
    const bool recorded = !held.record.runtime_version.empty() || !held.record.error.empty();
    if (!recorded && !wanted.all_processes) continue;
    auto found = std::find_if(snapshot.processes.begin(), snapshot.processes.end(),
                              [&](const Process& p) { return p.pid == held.holder.pid; });
    if (found == snapshot.processes.end()) {
      Process process;
      process.pid = held.holder.pid;
      process.tag = std::to_string(process.pid);
      if (!describe(process)) {
        process.error = "it has ended, or this PID namespace does not show it";
      }
      snapshot.processes.push_back(std::move(process));
      found = snapshot.processes.end() - 1;
    }
    add_holder(device, held, *found);
  }
}

Snapshot HostSource::take(const Wanted& wanted, std::chrono::milliseconds per_device) {
  Snapshot snapshot;
  snapshot.at = std::chrono::system_clock::now();
  snapshot.monotonic = Clock::now();
  const std::string emulator = environment("NEURON_EMULATOR");
  snapshot.versions.backend = emulator.empty()                ? "kernel"
                              : emulator.starts_with("unix:") ? "shared"
                                                              : "embedded";
  if (wanted.instance) snapshot.instance = read_instance(!emulator.empty());
  if (wanted.host) snapshot.host = read_host_state();
  if (wanted.network) snapshot.network = read_network();
  nrt_version_t version{};
  if (nrt_get_version(&version, sizeof(version)) == NRT_SUCCESS) {
    snapshot.versions.runtime = std::to_string(version.rt_major) + "." +
                                std::to_string(version.rt_minor) + "." +
                                std::to_string(version.rt_patch);
  }
  const std::vector<int> devices = find_devices(wanted, per_device, snapshot);

  const auto deadline = Clock::now() + per_device;
  const auto timeout = static_cast<uint32_t>(std::max<int64_t>(1, per_device.count()));
  const bool alone = together_ == nullptr;
  if (alone) begin_readings(wanted, devices, timeout);
  const std::string online = first_line("/sys/devices/system/cpu/online");
  unsigned first_core = 0;
  seen_.clear();
  for (const int index : devices) {
    Asked& asked_device = asked(index);
    DeviceReading late;
    late.error = "it has not answered within " + std::to_string(per_device.count()) +
                 " ms; is it being reset, or is its driver stuck?";
    const auto told = alone ? DeviceReadings::const_iterator{} : together_->find(index);
    const bool in_time = alone ? asked_device.begun && asked_device.thread.ended_by(deadline)
                               : told != together_->end();
    const DeviceReading& reading = !in_time ? late : alone ? *asked_device.reading : told->second;
    if (reading.answered) asked_device.identity = reading.identity;
    Device device = device_of(index, reading, online);
    for (Core& core : device.cores) {
      const unsigned place = reading.observation.logical[core.physical_core];
      core.logical_core = first_core + place / device.logical_size;
    }
    // A device that does not answer is assumed to have as many cores as the others.
    const size_t cores = device.cores.empty() && !snapshot.devices.empty()
                             ? snapshot.devices.front().cores.size()
                             : device.cores.size();
    first_core += static_cast<unsigned>(cores) / std::max(device.logical_size, 1u);
    if (wanted.processes) add_processes(wanted, device, reading, snapshot);
    snapshot.devices.push_back(std::move(device));
  }
  executions_.swap(seen_);
  std::sort(snapshot.processes.begin(), snapshot.processes.end(),
            [](const Process& a, const Process& b) { return a.pid < b.pid; });
  return snapshot;
}

}  // namespace

std::unique_ptr<Source> open_host_source() { return std::make_unique<HostSource>(); }

}  // namespace neuron::telemetry
