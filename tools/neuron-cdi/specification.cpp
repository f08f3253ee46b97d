// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-cdi/specification.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cctype>
#include <charconv>
#include <string_view>

namespace neuron::cdi {
namespace {

namespace json = boost::json;
using runtime::fail;
using runtime::Result;

bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool alphanumeric(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// A vendor or class: a letter, then letters, digits and what `inside` has, a letter or digit last.
bool well_formed(std::string_view word, std::string_view inside) {
  return !word.empty() && letter(word.front()) && alphanumeric(word.back()) &&
         std::all_of(word.begin(), word.end(), [inside](char c) {
           return alphanumeric(c) || inside.find(c) != std::string_view::npos;
         });
}

Result<void> check_kind(std::string_view kind) {
  const size_t slash = kind.find('/');
  if (slash == std::string_view::npos || !well_formed(kind.substr(0, slash), "_-.") ||
      !well_formed(kind.substr(slash + 1), "_-")) {
    return fail(NRT_INVALID,
                "\"{}\" is no kind of devices: expected VENDOR/CLASS, each a letter, then letters, "
                "digits, _ and - (VENDOR also .), and no sign at its end",
                kind);
  }
  return {};
}

std::string node(unsigned index) { return "/dev/neuron" + std::to_string(index); }

std::string visible(unsigned first, unsigned count) {
  std::string text = "NEURON_RT_VISIBLE_CORES=" + std::to_string(first);
  if (count > 1) text += "-" + std::to_string(first + count - 1);
  return text;
}

json::object mount(const std::string& host, const std::string& container, bool writable) {
  json::array options{writable ? "rw" : "ro", "nosuid", "nodev", "bind"};
  return {{"hostPath", host}, {"containerPath", container}, {"options", std::move(options)}};
}

class Writer {
 public:
  explicit Writer(const Wishes& wishes) : wishes_(wishes) {}

  Result<json::object> write() {
    NEURON_CHECK(check_kind(wishes_.kind));
    if (wishes_.devices.empty()) return fail(NRT_INVALID, "there is no device to describe");
    for (const HostDevice& device : wishes_.devices) {
      add(name(device), &device, &device + 1);
      for (unsigned core = 0; core < device.cores; ++core) add_core(device, core);
    }
    for (const auto& [first, last] : wishes_.groups) NEURON_CHECK(add_group(first, last));
    add("all", wishes_.devices.data(), wishes_.devices.data() + wishes_.devices.size());
    // The oldest version that has the fields used, so that older engines read it too.
    json::object specification{{"cdiVersion", wishes_.group_id ? "0.7.0" : "0.5.0"},
                               {"kind", wishes_.kind},
                               {"devices", std::move(devices_)}};
    json::object common = common_edits();
    if (!common.empty()) specification["containerEdits"] = std::move(common);
    return specification;
  }

 private:
  static std::string name(const HostDevice& device) {
    return "neuron" + std::to_string(device.index);
  }

  void add(const std::string& name, const HostDevice* begin, const HostDevice* end) {
    json::object edits;
    if (wishes_.socket.empty()) {
      // Within the container, cores are counted from 0 over the nodes that it has, so all are
      // visible.
      edits["deviceNodes"] = nodes(begin, end);
    } else {
      // The socket leads to every device, so the variable selects the devices.
      const HostDevice& last = end[-1];
      edits["env"] =
          json::array{visible(begin->first_core, last.first_core + last.cores - begin->first_core)};
    }
    devices_.push_back(json::object{{"name", name}, {"containerEdits", std::move(edits)}});
  }

  void add_core(const HostDevice& device, unsigned core) {
    json::object edits;
    if (wishes_.socket.empty()) edits["deviceNodes"] = nodes(&device, &device + 1);
    edits["env"] =
        json::array{visible(wishes_.socket.empty() ? core : device.first_core + core, 1)};
    devices_.push_back(json::object{{"name", name(device) + "core" + std::to_string(core)},
                                    {"containerEdits", std::move(edits)}});
  }

  Result<void> add_group(unsigned first, unsigned last) {
    const auto& devices = wishes_.devices;
    const auto begin = std::find_if(devices.begin(), devices.end(),
                                    [first](const HostDevice& d) { return d.index == first; });
    const auto end = std::find_if(devices.begin(), devices.end(),
                                  [last](const HostDevice& d) { return d.index == last; });
    if (begin == devices.end() || end == devices.end() || end - begin != last - first) {
      return fail(NRT_INVALID,
                  "--group {}-{} asks for devices that this host has not: it has {} to {}, {} "
                  "in all",
                  first, last, devices.front().index, devices.back().index, devices.size());
    }
    add("neuron" + std::to_string(first) + "-" + std::to_string(last), &*begin, &*end + 1);
    return {};
  }

  static json::array nodes(const HostDevice* begin, const HostDevice* end) {
    json::array list;
    for (; begin != end; ++begin) {
      list.push_back(
          json::object{{"path", node(begin->index)}, {"type", "c"}, {"permissions", "rw"}});
    }
    return list;
  }

  json::object common_edits() const {
    json::object edits;
    json::array environment, mounts;
    if (!wishes_.socket.empty()) {
      environment.push_back(json::string("NEURON_EMULATOR=unix:" + wishes_.socket));
      mounts.push_back(mount(wishes_.socket, wishes_.socket, true));
    }
    for (const std::string& line : wishes_.environment) environment.push_back(json::string(line));
    for (const Mount& one : wishes_.mounts) {
      mounts.push_back(mount(one.host_path, one.container_path, false));
    }
    if (!environment.empty()) edits["env"] = std::move(environment);
    if (!mounts.empty()) edits["mounts"] = std::move(mounts);
    if (wishes_.group_id) edits["additionalGids"] = json::array{*wishes_.group_id};
    return edits;
  }

  const Wishes& wishes_;
  json::array devices_;
};

}  // namespace

Result<json::object> make_specification(const Wishes& wishes) { return Writer(wishes).write(); }

Result<std::pair<unsigned, unsigned>> parse_group(const std::string& text) {
  unsigned first = 0, last = 0;
  const char* const end = text.data() + text.size();
  const auto low = std::from_chars(text.data(), end, first);
  if (low.ec == std::errc() && low.ptr != end && *low.ptr == '-') {
    const auto high = std::from_chars(low.ptr + 1, end, last);
    if (high.ec == std::errc() && high.ptr == end && first < last) return std::pair(first, last);
  }
  return fail(NRT_INVALID,
              "--group {}: expected the first and the last of several devices, for example 0-3",
              text);
}

tools::Records names_in(const json::object& specification) {
  tools::Records records;
  records.schema = "neuron-cdi-names";
  records.list = "devices";
  records.columns = {{"device", "DEVICE"}, {"nodes", "NODES"}, {"environment", "ENVIRONMENT"}};
  const std::string kind(specification.at("kind").as_string());
  for (const json::value& device : specification.at("devices").as_array()) {
    const json::object& edits = device.at("containerEdits").as_object();
    std::string nodes, variables;
    if (const json::value* list = edits.if_contains("deviceNodes")) {
      for (const json::value& node : list->as_array()) {
        nodes += (nodes.empty() ? "" : " ") + std::string(node.at("path").as_string());
      }
    }
    if (const json::value* list = edits.if_contains("env")) {
      for (const json::value& variable : list->as_array()) {
        variables += (variables.empty() ? "" : " ") + std::string(variable.as_string());
      }
    }
    records.rows.push_back({json::value(kind + "=" + std::string(device.at("name").as_string())),
                            json::value(nodes), json::value(variables)});
  }
  return records;
}

}  // namespace neuron::cdi
