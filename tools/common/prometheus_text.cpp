// SPDX-License-Identifier: Apache-2.0
#include "tools/common/prometheus_text.h"

#include "driver/base/json_text.h"

namespace neuron::tools {
namespace {

void append_value(std::string& out, const std::string& text) {
  const std::string quoted = base::json_string(text);
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

void append_labels(std::string& out, const Labels& labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (i != 0) out += ',';
    out += labels[i].first;
    out += '=';
    append_value(out, labels[i].second);
  }
}

}  // namespace

PrometheusText::PrometheusText(const Labels& common) { append_labels(common_, common); }

void PrometheusText::family(std::string name, std::string_view type, std::string_view help) {
  family_ = std::move(name);
  text_ += "# HELP " + family_ + " ";
  text_ += help;
  text_ += "\n# TYPE " + family_ + " ";
  text_ += type;
  text_ += '\n';
}

void PrometheusText::append_name(std::string_view suffix, const Labels& labels) {
  text_ += family_;
  text_ += suffix;
  if (!labels.empty() || !common_.empty()) {
    text_ += '{';
    append_labels(text_, labels);
    if (!labels.empty() && !common_.empty()) text_ += ',';
    text_ += common_;
    text_ += '}';
  }
  text_ += ' ';
}

void PrometheusText::line(std::string_view text) {
  text_ += text;
  text_ += '\n';
}

}  // namespace neuron::tools
