// SPDX-License-Identifier: Apache-2.0
// The JSON encoding of an export request for metrics of OTLP: 64-bit integers are strings.
#include <cstring>

#include "tools/neuron-monitor/output/exposition.h"
#include "tools/neuron-monitor/output/json_writer.h"

namespace neuron::monitor {
namespace {

struct Renamed {
  const char* label;
  const char* attribute;
};
// Labels for which OpenTelemetry has a name.
constexpr Renamed kRenamed[] = {{"pod", "k8s.pod.name"},
                                {"namespace", "k8s.namespace.name"},
                                {"container", "k8s.container.name"},
                                {"availability_zone", "cloud.availability_zone"},
                                {"region", "cloud.region"},
                                {"instance_id", "host.id"},
                                {"instance_name", "host.name"},
                                {"instance_type", "host.type"}};

void write_attribute(JsonWriter& json, const char* label, const std::string& text) {
  for (const Renamed& renamed : kRenamed) {
    if (std::strcmp(label, renamed.label) == 0) label = renamed.attribute;
  }
  json.open_object();
  json.member("key", label);
  json.open_object("value");
  json.member("stringValue", text);
  json.close_object();
  json.close_object();
}

std::string nanoseconds(std::chrono::system_clock::time_point at) {
  return std::to_string(
      std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count());
}

void write_points(JsonWriter& json, const Family& family, const std::string& now) {
  json.open_array("dataPoints");
  for (const Sample& sample : family.samples) {
    json.open_object();
    json.open_array("attributes");
    for (const auto& [label, text] : sample.labels) write_attribute(json, label, text);
    json.close_array();
    if (family.counter) {
      json.member("startTimeUnixNano", std::to_string(static_cast<int64_t>(sample.created * 1e9)));
    }
    json.member("timeUnixNano", now);
    json.member("asDouble", sample.value);
    json.close_object();
  }
  json.close_array();
}

}  // namespace

std::string format_otlp(const Exposition& exposition) {
  std::string out;
  out.reserve(32768);
  const std::string now = nanoseconds(exposition.at);
  JsonWriter json(out, false);
  json.open_object();
  json.open_array("resourceMetrics");
  json.open_object();
  json.open_object("resource");
  json.open_array("attributes");
  write_attribute(json, "service.name", "neuron-monitor");
  for (const auto& [label, text] : exposition.instance) {
    if (!text.empty()) write_attribute(json, label, text);
  }
  json.close_array();
  json.close_object();
  json.open_array("scopeMetrics");
  json.open_object();
  json.open_object("scope");
  json.member("name", "neuron-monitor");
  json.close_object();
  json.open_array("metrics");
  for (const Family& family : exposition.families) {
    if (family.otlp == nullptr) continue;
    json.open_object();
    json.member("name", family.otlp);
    json.member("description", family.help);
    json.member("unit", family.unit);
    json.open_object(family.counter ? "sum" : "gauge");
    if (family.counter) {
      json.member("aggregationTemporality", 2);  // cumulative
      json.member("isMonotonic", true);
    }
    write_points(json, family, now);
    json.close_object();
    json.close_object();
  }
  json.close_array();
  json.close_object();
  json.close_array();
  json.close_object();
  json.close_array();
  json.close_object();
  return out;
}

}  // namespace neuron::monitor
