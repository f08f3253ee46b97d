// SPDX-License-Identifier: Apache-2.0
// The JSON of the original: an array, four-space indent, numa_node a string, connected_to null
// without neighbours.
#include "driver/base/json_text.h"
#include "tools/neuron-ls/view/inventory.h"

namespace neuron::ls {
namespace {

using base::json_string;

template <typename Values, typename Text>
std::string array(const Values& values, const std::string& indent, Text text) {
  if (values.empty()) return "[]";
  std::string out = "[\n";
  size_t i = 0;
  for (const auto& value : values) {
    out += indent + "    " + text(value) + (++i < values.size() ? ",\n" : "\n");
  }
  return out + indent + "]";
}

std::string process_json(const Process& process) {
  const std::string indent(16, ' ');
  return "{\n" + indent + "\"pid\": " + std::to_string(process.pid) + ",\n" + indent +
         "\"command\": " + json_string(process.command) + ",\n" + indent +
         "\"neuron_runtime_version\": " + json_string(process.runtime_version) + "\n" +
         std::string(12, ' ') + "}";
}

std::string device_json(const Device& device) {
  const std::string indent(8, ' ');
  const auto number = [](auto value) { return std::to_string(value); };
  std::vector<unsigned> cores;
  for (unsigned i = 0; i < device.cores; ++i) cores.push_back(device.first_core + i);
  std::string out = "{\n";
  out += indent + "\"neuron_device\": " + number(device.index) + ",\n";
  out += indent + "\"bdf\": " + json_string(device.bdf) + ",\n";
  out += indent + "\"cpu_affinity\": " + json_string(device.cpu_affinity) + ",\n";
  out += indent + "\"numa_node\": " + json_string(number(device.numa_node)) + ",\n";
  out += indent + "\"connected_to\": " +
         (device.connected.empty() ? "null" : array(device.connected, indent, number)) + ",\n";
  out += indent + "\"nc_count\": " + number(device.cores) + ",\n";
  if (device.logical_size != 0) {
    out += indent + "\"logical_neuroncore_config\": " + number(device.logical_size) + ",\n";
  }
  out += indent + "\"memory_size\": " + number(device.memory_bytes) + ",\n";
  out += indent + "\"neuroncore_ids\": " + array(cores, indent, number) + ",\n";
  out += indent + "\"neuron_processes\": " + array(device.processes, indent, process_json) + "\n";
  return out + "    }";
}

}  // namespace

std::string format_json(const Inventory& inventory) {
  return array(inventory.devices, "", device_json) + "\n";
}

}  // namespace neuron::ls
