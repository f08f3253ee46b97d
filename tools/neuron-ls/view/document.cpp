// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-ls/view/document.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <map>
#include <set>

#include "tools/common/time_text.h"
#include "tools/common/version.h"
#include "tools/telemetry/health.h"

namespace neuron::ls {
namespace {

namespace json = boost::json;
using telemetry::Snapshot;

json::value text_or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

json::value moment(const std::optional<std::chrono::system_clock::time_point>& when) {
  return when ? json::value(tools::utc_text(*when)) : json::value(nullptr);
}

json::value node_or_null(int node) { return node < 0 ? json::value(nullptr) : json::value(node); }

// Logical cores with the physical ones of each.
json::array cores_of(const telemetry::Device& device) {
  std::map<unsigned, json::object> cores;
  for (const telemetry::Core& core : device.cores) {
    json::object& logical = cores[core.logical_core];
    if (logical.empty()) {
      logical["neuroncore"] = core.logical_core;
      logical["physical_cores"] = json::array{};
      logical["holder_pid"] = nullptr;
      logical["hung_engines"] = json::array{};
      logical["resets"] = 0u;
    }
    logical["physical_cores"].as_array().emplace_back(core.physical_core);
    if (core.holder != 0) logical["holder_pid"] = core.holder;
    for (const std::string& engine : core.hung_engines) {
      logical["hung_engines"].as_array().emplace_back(engine);
    }
    logical["resets"] = logical["resets"].to_number<uint64_t>() + core.resets;
  }
  json::array list;
  for (auto& entry : cores) list.push_back(std::move(entry.second));
  return list;
}

json::array links_of(const telemetry::Device& device, const std::vector<Measured>& measured) {
  json::array links;
  for (const telemetry::Link& link : device.links) {
    json::object object;
    object["neuron_device"] = link.device;
    object["kind"] = text_or_null(link.kind);
    object["up"] = link.up;
    object["theoretical_bytes_per_second"] = link.theoretical_bytes_per_second > 0
                                                 ? json::value(link.theoretical_bytes_per_second)
                                                 : json::value(nullptr);
    object["measured_bytes_per_second"] = nullptr;
    for (const Measured& one : measured) {
      if (one.from == device.index && one.to == link.device) {
        object["measured_bytes_per_second"] = one.bytes_per_second;
      }
    }
    links.push_back(std::move(object));
  }
  return links;
}

json::object counters_of(const telemetry::HardwareCounters& counters) {
  json::object object;
  object["mem_ecc_corrected"] = counters.mem_ecc_corrected;
  object["mem_ecc_uncorrected"] = counters.mem_ecc_uncorrected;
  object["mem_ecc_repairable_uncorrected"] = counters.mem_ecc_repairable_uncorrected;
  object["sram_ecc_corrected"] = counters.sram_ecc_corrected;
  object["sram_ecc_uncorrected"] = counters.sram_ecc_uncorrected;
  return object;
}

json::array ailments_of(const telemetry::Device& device) {
  json::array list;
  for (const telemetry::Ailment& ailment : telemetry::ailments(device)) {
    json::object object;
    object["what"] = ailment.what;
    object["action"] = ailment.action;
    object["fatal"] = ailment.fatal;
    list.push_back(std::move(object));
  }
  return list;
}

json::object device_of(const telemetry::Device& device, const std::vector<Measured>& measured) {
  json::object object;
  object["neuron_device"] = device.index;
  object["name"] = text_or_null(device.name);
  object["architecture"] = text_or_null(device.architecture);
  object["core_architecture"] = text_or_null(device.core_architecture);
  object["serial_number"] = text_or_null(device.serial_number);
  object["bdf"] = text_or_null(device.bdf);
  object["cpu_affinity"] = text_or_null(device.cpu_affinity);
  object["numa_node"] = node_or_null(device.numa_node);
  object["state"] = telemetry::name(device.state);
  object["healthy"] = telemetry::is_healthy(device);
  object["ailments"] = ailments_of(device);
  object["memory_total_bytes"] = device.memory_bytes;
  object["memory_used_bytes"] = device.memory_used;
  object["power_percent"] =
      device.power_percent ? json::value(*device.power_percent) : json::value(nullptr);
  object["logical_neuroncore_config"] = std::max(1u, device.logical_size);
  object["neuroncores"] = cores_of(device);
  object["links"] = links_of(device, measured);
  object["hardware_counters"] = counters_of(device.hardware);
  object["planted_faults"] = json::array(device.faults.begin(), device.faults.end());
  object["error"] = text_or_null(device.error);
  return object;
}

json::object process_of(const telemetry::Process& process) {
  json::object object;
  object["pid"] = process.pid;
  object["command"] = process.command;
  object["user"] = text_or_null(process.user);
  object["tag"] = text_or_null(process.tag);
  object["neuron_runtime_version"] = text_or_null(process.runtime_version);
  object["started_at"] = moment(process.started);
  object["holds_since"] = moment(process.since);
  object["container_id"] = text_or_null(process.container_id);
  object["container_name"] = text_or_null(process.container_name);
  object["pod_name"] = text_or_null(process.pod_name);
  object["pod_namespace"] = text_or_null(process.pod_namespace);
  object["pod_uid"] = text_or_null(process.pod_uid);
  object["neuron_devices"] = json::array(process.devices.begin(), process.devices.end());
  std::set<unsigned> cores;
  for (const telemetry::ProcessOnCore& core : process.cores) cores.insert(core.logical_core);
  object["neuroncores"] = json::array(cores.begin(), cores.end());
  object["device_memory_bytes"] = process.device_bytes;
  object["host_memory_bytes"] = process.host_memory.total();
  std::set<std::string> models;
  for (const telemetry::LoadedModel& model : process.models) models.insert(model.name);
  object["models"] = json::array(models.begin(), models.end());
  object["error"] = text_or_null(process.error);
  return object;
}

struct Field {
  const char* name;
  const char* heading;
  tools::Unit unit;
  json::value (*value)(const telemetry::Device&, const Snapshot&);
};

json::array pids_on(const telemetry::Device& device, const Snapshot& snapshot) {
  json::array pids;
  for (const telemetry::Process& process : snapshot.processes) {
    if (std::find(process.devices.begin(), process.devices.end(), device.index) !=
        process.devices.end()) {
      pids.emplace_back(process.pid);
    }
  }
  return pids;
}

json::array ids_of(const telemetry::Device& device) {
  std::set<unsigned> ids;
  for (const telemetry::Core& core : device.cores) ids.insert(core.logical_core);
  return json::array(ids.begin(), ids.end());
}

constexpr auto kNone = tools::Unit::kNone;
const Field kFields[] = {
    {"neuron_device", "DEVICE", kNone,
     [](const telemetry::Device& d, const Snapshot&) { return json::value(d.index); }},
    {"name", "NAME", kNone,
     [](const telemetry::Device& d, const Snapshot&) { return text_or_null(d.name); }},
    {"state", "STATE", kNone,
     [](const telemetry::Device& d, const Snapshot&) {
       return json::value(telemetry::name(d.state));
     }},
    {"healthy", "HEALTHY", kNone,
     [](const telemetry::Device& d, const Snapshot&) {
       return json::value(telemetry::is_healthy(d));
     }},
    {"architecture", "ARCHITECTURE", kNone,
     [](const telemetry::Device& d, const Snapshot&) { return text_or_null(d.architecture); }},
    {"serial_number", "SERIAL NUMBER", kNone,
     [](const telemetry::Device& d, const Snapshot&) { return text_or_null(d.serial_number); }},
    {"bdf", "PCI BDF", kNone,
     [](const telemetry::Device& d, const Snapshot&) { return text_or_null(d.bdf); }},
    {"numa_node", "NUMA", kNone,
     [](const telemetry::Device& d, const Snapshot&) { return node_or_null(d.numa_node); }},
    {"cpu_affinity", "CPU AFFINITY", kNone,
     [](const telemetry::Device& d, const Snapshot&) { return text_or_null(d.cpu_affinity); }},
    {"nc_count", "CORES", kNone,
     [](const telemetry::Device& d, const Snapshot&) { return json::value(ids_of(d).size()); }},
    {"neuroncore_ids", "CORE IDS", kNone,
     [](const telemetry::Device& d, const Snapshot&) { return json::value(ids_of(d)); }},
    {"logical_neuroncore_config", "LNC", kNone,
     [](const telemetry::Device& d, const Snapshot&) {
       return json::value(std::max(1u, d.logical_size));
     }},
    {"memory_total_bytes", "MEMORY", tools::Unit::kBytes,
     [](const telemetry::Device& d, const Snapshot&) { return json::value(d.memory_bytes); }},
    {"memory_used_bytes", "MEMORY USED", tools::Unit::kBytes,
     [](const telemetry::Device& d, const Snapshot&) { return json::value(d.memory_used); }},
    {"power_percent", "POWER", tools::Unit::kPercent,
     [](const telemetry::Device& d, const Snapshot&) {
       return d.power_percent ? json::value(*d.power_percent) : json::value(nullptr);
     }},
    {"connected_to", "CONNECTED TO", kNone,
     [](const telemetry::Device& d, const Snapshot&) {
       json::array devices;
       for (const telemetry::Link& link : d.links) devices.emplace_back(link.device);
       return json::value(std::move(devices));
     }},
    {"mem_ecc_corrected", "MEM ECC CORRECTED", kNone,
     [](const telemetry::Device& d, const Snapshot&) {
       return json::value(d.hardware.mem_ecc_corrected);
     }},
    {"mem_ecc_uncorrected", "MEM ECC UNCORRECTED", kNone,
     [](const telemetry::Device& d, const Snapshot&) {
       return json::value(d.hardware.mem_ecc_uncorrected);
     }},
    {"mem_ecc_repairable_uncorrected", "MEM ECC REPAIRABLE", kNone,
     [](const telemetry::Device& d, const Snapshot&) {
       return json::value(d.hardware.mem_ecc_repairable_uncorrected);
     }},
    {"sram_ecc_corrected", "SRAM ECC CORRECTED", kNone,
     [](const telemetry::Device& d, const Snapshot&) {
       return json::value(d.hardware.sram_ecc_corrected);
     }},
    {"sram_ecc_uncorrected", "SRAM ECC UNCORRECTED", kNone,
     [](const telemetry::Device& d, const Snapshot&) {
       return json::value(d.hardware.sram_ecc_uncorrected);
     }},
    {"pids", "PIDS", kNone,
     [](const telemetry::Device& d, const Snapshot& s) { return json::value(pids_on(d, s)); }},
    {"instance_type", "INSTANCE TYPE", kNone,
     [](const telemetry::Device&, const Snapshot& s) { return text_or_null(s.instance.type); }},
    {"driver_version", "DRIVER", kNone,
     [](const telemetry::Device&, const Snapshot& s) { return text_or_null(s.versions.driver); }},
    {"error", "ERROR", kNone,
     [](const telemetry::Device& d, const Snapshot&) {
       return text_or_null(d.error.empty() ? illness_of(d) : d.error);
     }},
};

constexpr const char* kUsual[] = {"neuron_device",
                                  "name",
                                  "state",
                                  "healthy",
                                  "bdf",
                                  "numa_node",
                                  "neuroncore_ids",
                                  "memory_total_bytes",
                                  "memory_used_bytes",
                                  "connected_to",
                                  "pids",
                                  "error"};

}  // namespace

std::string illness_of(const telemetry::Device& device) {
  std::string text;
  for (const telemetry::Ailment& ailment : telemetry::ailments(device)) {
    if (ailment.fatal) text += (text.empty() ? "" : "; ") + ailment.what;
  }
  return text;
}

// The table has the columns of earlier tools, in which a device without power looks like any other.
std::string format_illnesses(const Snapshot& snapshot) {
  constexpr size_t kMost = 4;  // devices that are told one by one
  std::string text;
  size_t ill = 0;
  for (const auto& device : snapshot.devices) {
    const std::string why = illness_of(device);
    if (why.empty() || ++ill > kMost) continue;
    text += "device " + std::to_string(device.index) + ": " + why + "\n";
  }
  if (ill > kMost) text += std::to_string(ill - kMost) + " more devices are not healthy\n";
  return ill == 0 ? text : text + "neuron-doctor says what to do\n";
}

boost::json::object make_document(const Snapshot& snapshot, const std::vector<Measured>& measured) {
  json::object whole = tools::document("neuron-ls", 2);
  whole["at"] = tools::utc_text(snapshot.at);
  whole["instance_type"] = text_or_null(snapshot.instance.type);
  whole["instance_id"] = text_or_null(snapshot.instance.id);
  json::object versions;
  versions["backend"] = text_or_null(snapshot.versions.backend);
  versions["driver"] = text_or_null(snapshot.versions.driver);
  versions["runtime"] = text_or_null(snapshot.versions.runtime);
  versions["collectives"] = text_or_null(snapshot.versions.collectives);
  versions["tools"] = tools::version();
  whole["versions"] = std::move(versions);
  json::array devices, processes, network;
  for (const telemetry::Device& device : snapshot.devices) {
    devices.push_back(device_of(device, measured));
  }
  for (const telemetry::Process& process : snapshot.processes) {
    processes.push_back(process_of(process));
  }
  for (const telemetry::NetworkDevice& device : snapshot.network) {
    json::object object;
    object["name"] = device.name;
    object["bdf"] = text_or_null(device.bdf);
    object["numa_node"] = node_or_null(device.numa_node);
    network.push_back(std::move(object));
  }
  whole["neuron_devices"] = std::move(devices);
  whole["neuron_processes"] = std::move(processes);
  whole["network_devices"] = std::move(network);
  whole["error"] = text_or_null(snapshot.error);
  return whole;
}

std::vector<std::string> query_fields() {
  std::vector<std::string> names;
  for (const Field& field : kFields) names.emplace_back(field.name);
  return names;
}

bool query_devices(const Snapshot& snapshot, const std::vector<std::string>& fields,
                   tools::Records& records, std::string& error) {
  std::vector<std::string> wanted = fields;
  if (wanted.empty()) wanted.assign(std::begin(kUsual), std::end(kUsual));
  std::vector<const Field*> chosen;
  for (const std::string& name : wanted) {
    const Field* found = std::find_if(std::begin(kFields), std::end(kFields),
                                      [&](const Field& field) { return name == field.name; });
    if (found == std::end(kFields)) {
      error = "--query: there is no field \"" + tools::printable(name) + "\"; there are";
      for (const Field& field : kFields) error += std::string(" ") + field.name;
      return false;
    }
    chosen.push_back(found);
  }
  records = {"neuron-ls", 2, "neuron_devices", {}, {}, {}};
  records.about["at"] = tools::utc_text(snapshot.at);
  for (const Field* field : chosen) {
    records.columns.push_back({field->name, field->heading, field->unit});
  }
  for (const telemetry::Device& device : snapshot.devices) {
    records.rows.emplace_back();
    for (const Field* field : chosen) {
      records.rows.back().push_back(field->value(device, snapshot));
    }
  }
  return true;
}

}  // namespace neuron::ls
