// SPDX-License-Identifier: Apache-2.0
#include "tools/telemetry/record.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <type_traits>

namespace neuron::telemetry {
namespace {

namespace json = boost::json;
using SystemTime = std::chrono::system_clock::time_point;
using SteadyTime = std::chrono::steady_clock::time_point;

// The fields of each struct, once for both directions: `visit` is a Writer or a Reader.
template <typename V>
void fields(V& visit, HostMemory& m) {
  visit("application_memory", m.application_memory);
  visit("constants", m.constants);
  visit("dma_buffers", m.dma_buffers);
  visit("tensors", m.tensors);
}

template <typename V>
void fields(V& visit, CoreMemory& m) {
  visit("constants", m.constants);
  visit("model_code", m.model_code);
  visit("model_shared_scratchpad", m.model_shared_scratchpad);
  visit("runtime_memory", m.runtime_memory);
  visit("tensors", m.tensors);
}

template <typename V>
void fields(V& visit, CoreCounters& c) {
  visit("completed", c.completed);
  visit("completed_with_err", c.completed_with_err);
  visit("completed_with_num_err", c.completed_with_num_err);
  visit("timed_out", c.timed_out);
  visit("incorrect_input", c.incorrect_input);
  visit("failed_to_queue", c.failed_to_queue);
  visit("generic", c.generic);
  visit("numerical", c.numerical);
  visit("transient", c.transient);
  visit("model", c.model);
  visit("runtime", c.runtime);
  visit("hardware", c.hardware);
  visit("causes", c.causes);
  visit("busy_us", c.busy_us);
  visit("collectives_us", c.collectives_us);
  visit("multiply_accumulates", c.multiply_accumulates);
  visit("executions", c.executions);
  visit("model_loads", c.model_loads);
  visit("engine_busy_us", c.engine_busy_us);
  visit("dma_bytes", c.dma_bytes);
  visit("link_bytes", c.link_bytes);
  visit("device_latency_us", c.device_latency_us);
  visit("total_latency_us", c.total_latency_us);
  visit("device_latency", c.device_latency);
  visit("total_latency", c.total_latency);
}

template <typename V>
void fields(V& visit, LoadedModel& m) {
  visit("name", m.name);
  visit("uuid", m.uuid);
  visit("model_id", m.model_id);
  visit("running", m.running);
  visit("device", m.device);
  visit("physical_core", m.physical_core);
  visit("subgraph", m.subgraph);
  visit("host", m.host);
  visit("core", m.core);
}

template <typename V>
void fields(V& visit, ProcessOnCore& c) {
  visit("device", c.device);
  visit("physical_core", c.physical_core);
  visit("logical_core", c.logical_core);
  visit("counters", c.counters);
  visit("memory", c.memory);
}

template <typename V>
void fields(V& visit, Process& p) {
  visit("pid", p.pid);
  visit("command", p.command);
  visit("user", p.user);
  visit("tag", p.tag);
  visit("runtime_version", p.runtime_version);
  visit("started", p.started);
  visit("since", p.since);
  visit("container_id", p.container_id);
  visit("pod_uid", p.pod_uid);
  visit("pod_name", p.pod_name);
  visit("pod_namespace", p.pod_namespace);
  visit("container_name", p.container_name);
  visit("devices", p.devices);
  visit("cores", p.cores);
  visit("models", p.models);
  visit("host_memory", p.host_memory);
  visit("device_bytes", p.device_bytes);
  visit("user_us", p.user_us);
  visit("system_us", p.system_us);
  visit("error", p.error);
}

template <typename V>
void fields(V& visit, HardwareCounters& h) {
  visit("mem_ecc_corrected", h.mem_ecc_corrected);
  visit("mem_ecc_uncorrected", h.mem_ecc_uncorrected);
  visit("mem_ecc_repairable_uncorrected", h.mem_ecc_repairable_uncorrected);
  visit("sram_ecc_corrected", h.sram_ecc_corrected);
  visit("sram_ecc_uncorrected", h.sram_ecc_uncorrected);
}

template <typename V>
void fields(V& visit, Core& c) {
  visit("physical_core", c.physical_core);
  visit("logical_core", c.logical_core);
  visit("holder", c.holder);
  visit("hung_engines", c.hung_engines);
  visit("resets", c.resets);
  visit("failed_resets", c.failed_resets);
}

template <typename V>
void fields(V& visit, Link& l) {
  visit("device", l.device);
  visit("up", l.up);
  visit("kind", l.kind);
  visit("theoretical_bytes_per_second", l.theoretical_bytes_per_second);
}

template <typename V>
void fields(V& visit, Device& d) {
  visit("index", d.index);
  visit("name", d.name);
  visit("architecture", d.architecture);
  visit("core_architecture", d.core_architecture);
  visit("serial_number", d.serial_number);
  visit("bdf", d.bdf);
  visit("cpu_affinity", d.cpu_affinity);
  visit("numa_node", d.numa_node);
  visit("state", d.state);
  visit("logical_size", d.logical_size);
  visit("cores", d.cores);
  visit("links", d.links);
  visit("memory_bytes", d.memory_bytes);
  visit("memory_used", d.memory_used);
  visit("hardware", d.hardware);
  visit("power_percent", d.power_percent);
  visit("faults", d.faults);
  visit("error", d.error);
}

template <typename V>
void fields(V& visit, ProcessorTimes& t) {
  visit("user", t.user);
  visit("nice", t.nice);
  visit("system", t.system);
  visit("idle", t.idle);
  visit("io_wait", t.io_wait);
  visit("irq", t.irq);
  visit("soft_irq", t.soft_irq);
}

template <typename V>
void fields(V& visit, HostState& h) {
  visit("all", h.all);
  visit("processors", h.processors);
  visit("context_switches", h.context_switches);
  visit("memory_total", h.memory_total);
  visit("memory_used", h.memory_used);
  visit("swap_total", h.swap_total);
  visit("swap_used", h.swap_used);
}

template <typename V>
void fields(V& visit, Instance& i) {
  visit("type", i.type);
  visit("id", i.id);
  visit("name", i.name);
  visit("zone", i.zone);
  visit("zone_id", i.zone_id);
  visit("region", i.region);
  visit("image", i.image);
  visit("subnet", i.subnet);
  visit("error", i.error);
}

template <typename V>
void fields(V& visit, NetworkDevice& n) {
  visit("name", n.name);
  visit("bdf", n.bdf);
  visit("numa_node", n.numa_node);
}

template <typename V>
void fields(V& visit, Versions& v) {
  visit("driver", v.driver);
  visit("backend", v.backend);
  visit("runtime", v.runtime);
  visit("collectives", v.collectives);
  visit("tools", v.tools);
}

template <typename V>
void fields(V& visit, Snapshot& s) {
  visit("at", s.at);
  visit("monotonic", s.monotonic);
  visit("instance", s.instance);
  visit("versions", s.versions);
  visit("host", s.host);
  visit("devices", s.devices);
  visit("processes", s.processes);
  visit("network", s.network);
  visit("error", s.error);
}

struct Writer;
template <typename T>
json::value write(T& value);

struct Writer {
  json::object object;
  template <typename T>
  void operator()(const char* name, T& value) {
    object[name] = write(value);
  }
};

template <typename T>
json::value write_list(T& list, size_t size) {
  json::array array;
  for (size_t i = 0; i < size; ++i) array.push_back(write(list[i]));
  return array;
}

template <typename T>
json::value write(T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return json::value(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return json::value(value);
  } else if constexpr (std::is_same_v<T, DeviceState>) {
    return json::value(static_cast<int>(value));
  } else if constexpr (std::is_same_v<T, SystemTime> || std::is_same_v<T, SteadyTime>) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(value.time_since_epoch()).count();
  } else if constexpr (std::is_same_v<T, std::optional<double>> ||
                       std::is_same_v<T, std::optional<SystemTime>>) {
    return value ? write(*value) : json::value(nullptr);
  } else if constexpr (std::is_same_v<T, std::map<std::string, uint64_t>>) {
    json::object object;
    for (auto& [name, count] : value) object[name] = count;
    return object;
  } else if constexpr (requires { value.size(); }) {
    size_t size = value.size();
    if constexpr (std::is_same_v<T, LatencyHistogram>) {
      // Most buckets behind the last one in use are empty: they are left out.
      while (size > 0 && value[size - 1] == 0) --size;
    }
    return write_list(value, size);
  } else {
    Writer writer;
    fields(writer, value);
    return std::move(writer.object);
  }
}

struct Reader {
  const json::object& object;
  std::string& error;
  std::string path;

  template <typename T>
  void operator()(const char* name, T& value) {
    const json::value* found = object.if_contains(name);
    if (found != nullptr && error.empty()) read(*found, value, path + name);
  }

  bool wrong(const std::string& where, const char* expected) {
    error = "the field " + where + " is not " + expected;
    return false;
  }

  template <typename T>
  bool read(const json::value& from, T& value, const std::string& where);
};

template <typename T>
bool read_number(const json::value& from, T& value) {
  boost::system::error_code failure;
  const T number = from.to_number<T>(failure);
  if (failure) return false;
  value = number;
  return true;
}

template <typename T>
bool Reader::read(const json::value& from, T& value, const std::string& where) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!from.is_bool()) return wrong(where, "true or false");
    value = from.get_bool();
  } else if constexpr (std::is_arithmetic_v<T>) {
    if (!read_number(from, value)) return wrong(where, "a number of its range");
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!from.is_string()) return wrong(where, "a text");
    value = std::string(from.get_string());
  } else if constexpr (std::is_same_v<T, DeviceState>) {
    int number = 0;
    if (!read_number(from, number) || number < 0 ||
        number > static_cast<int>(DeviceState::kUnknown)) {
      return wrong(where, "the number of a state");
    }
    value = static_cast<DeviceState>(number);
  } else if constexpr (std::is_same_v<T, SystemTime> || std::is_same_v<T, SteadyTime>) {
    int64_t count = 0;
    if (!read_number(from, count)) return wrong(where, "a time in nanoseconds");
    value = T(std::chrono::duration_cast<typename T::duration>(std::chrono::nanoseconds(count)));
  } else if constexpr (std::is_same_v<T, std::optional<double>> ||
                       std::is_same_v<T, std::optional<SystemTime>>) {
    value.reset();
    if (from.is_null()) return true;
    return read(from, value.emplace(), where);
  } else if constexpr (std::is_same_v<T, std::map<std::string, uint64_t>>) {
    if (!from.is_object()) return wrong(where, "an object");
    for (const auto& member : from.get_object()) {
      const std::string name(member.key());
      if (!read(member.value(), value[name], where + "." + name)) return false;
    }
  } else if constexpr (requires { value.size(); }) {
    if (!from.is_array()) return wrong(where, "a list");
    const json::array& list = from.get_array();
    if constexpr (requires { value.resize(0); }) {
      value.resize(list.size());
    } else if (list.size() > value.size()) {
      return wrong(where, "a list as short as it has to be");
    }
    for (size_t i = 0; i < list.size(); ++i) {
      if (!read(list[i], value[i], where + "[" + std::to_string(i) + "]")) return false;
    }
  } else {
    if (!from.is_object()) return wrong(where, "an object");
    Reader reader{from.get_object(), error, where + "."};
    fields(reader, value);
    return error.empty();
  }
  return true;
}

}  // namespace

std::string to_record(const Snapshot& snapshot) {
  Writer writer;
  writer.object["schema"] = "neuron-snapshot";
  writer.object["schema_version"] = kRecordVersion;
  Snapshot copy = snapshot;  // the visitors are the same for both directions, and not const
  fields(writer, copy);
  return json::serialize(writer.object);
}

bool from_record(std::string_view line, Snapshot& snapshot, std::string& error) {
  error.clear();
  boost::system::error_code failure;
  const json::value parsed = json::parse({line.data(), line.size()}, failure);
  if (failure) {
    error = "no JSON: " + failure.message();
    return false;
  }
  const json::object* object = parsed.if_object();
  const json::value* schema = object != nullptr ? object->if_contains("schema") : nullptr;
  if (schema == nullptr || !schema->is_string() || schema->get_string() != "neuron-snapshot") {
    error = "not a snapshot: the field schema is not \"neuron-snapshot\"";
    return false;
  }
  snapshot = {};
  unsigned version = 0;
  Reader reader{*object, error, ""};
  reader("schema_version", version);
  if (error.empty() && (version == 0 || version > kRecordVersion)) {
    error = "the record is of version " + std::to_string(version) + "; this program knows " +
            std::to_string(kRecordVersion);
  }
  fields(reader, snapshot);
  return error.empty();
}

}  // namespace neuron::telemetry
