// SPDX-License-Identifier: Apache-2.0
// The text format of Prometheus (version 0.0.4) and OpenMetrics (1.0.0). They differ in how a
// counter's family and the time of its creation are written, and in the last line.
#include <cstring>

#include "tools/neuron-monitor/output/exposition.h"
#include "tools/neuron-monitor/output/json_writer.h"

namespace neuron::monitor {
namespace {

void append_value(std::string& out, const std::string& text) {
  std::string quoted;
  append_json_string(quoted, text);
  // A label's value knows three of JSON's escapes; the other control characters become spaces.
  for (size_t i = 0; i < quoted.size(); ++i) {
    if (quoted[i] != '\\') {
      out += quoted[i];
      continue;
    }
    const char kind = quoted[++i];
    if (kind == 'n' || quoted.compare(i, 5, "u000a") == 0) {
      out += "\\n";
    } else if (kind == '\\' || kind == '"') {
      out += '\\';
      out += kind;
    } else {
      out += ' ';
    }
    if (kind == 'u') i += 4;
  }
}

// `common` is "name="value",..." and may be empty.
void append_sample(std::string& out, const char* name, const char* suffix, const Labels& labels,
                   const std::string& common, double value) {
  out += name;
  out += suffix;
  if (!labels.empty() || !common.empty()) {
    char separator = '{';
    for (const auto& [label, text] : labels) {
      out += separator;
      out += label;
      out += '=';
      append_value(out, text);
      separator = ',';
    }
    if (!common.empty()) {
      out += separator;
      out += common;
    }
    out += '}';
  }
  out += ' ';
  append_number(out, value);
  out += '\n';
}

void append_head(std::string& out, const char* name, const char* suffix, const char* help,
                 const char* type) {
  for (const auto& [what, text] : {std::pair{"# HELP ", help}, std::pair{"# TYPE ", type}}) {
    out += what;
    out += name;
    out += suffix;
    out += ' ';
    out += text;
    out += '\n';
  }
}

}  // namespace

std::string format_prometheus(const Exposition& exposition, bool openmetrics) {
  std::string common, out;
  for (const auto& [label, text] : exposition.instance) {
    if (!common.empty()) common += ',';
    common += label;
    common += '=';
    append_value(common, text);
  }
  out.reserve(16384);
  for (const Family& family : exposition.families) {
    const char* suffix = family.counter ? "_total" : "";
    append_head(out, family.name, openmetrics ? "" : suffix, family.help,
                family.counter ? "counter" : "gauge");
    for (const Sample& sample : family.samples) {
      append_sample(out, family.name, suffix, sample.labels, common, sample.value);
      if (family.counter && openmetrics)
        append_sample(out, family.name, "_created", sample.labels, common, sample.created);
    }
    if (!family.counter || openmetrics) continue;
    append_head(out, family.name, "_created", family.help, "gauge");
    for (const Sample& sample : family.samples)
      append_sample(out, family.name, "_created", sample.labels, common, sample.created);
  }
  if (openmetrics) out += "# EOF\n";
  return out;
}

}  // namespace neuron::monitor
