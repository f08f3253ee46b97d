// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/model_json.h"

#include "driver/base/json_text.h"

namespace neuron::serve {
namespace {

void append_tensors(const std::vector<TensorSpec>& tensors, std::string& text) {
  text += '[';
  for (const TensorSpec& tensor : tensors) {
    if (&tensor != &tensors[0]) text += ',';
    text += "{\"name\":";
    base::append_json_string(text, tensor.name);
    text += ",\"dtype\":\"" + std::string(dtype_name(tensor.dtype)) + "\",\"shape\":[";
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      text += (d != 0 ? "," : "") + std::to_string(tensor.shape[d]);
    }
    text += "]}";
  }
  text += ']';
}

}  // namespace

const char* state_name(State state) {
  switch (state) {
    case State::kStarting:
      return "starting";
    case State::kReady:
      return "ready";
    case State::kRecovering:
      return "recovering";
  }
  return "";
}

void append_model(const Model& model, bool ready, std::string& text) {
  text += "{\"name\":";
  base::append_json_string(text, model.spec.name);
  text += ",\"state\":\"" + std::string(ready ? "ready" : "unavailable") + "\",\"batched\":";
  text += model.spec.batched ? "true" : "false";
  text += ",\"batch\":" + std::to_string(model.spec.batch) + ",\"cores\":[";
  for (size_t i = 0; i < model.counters.size(); ++i) {
    text += (i != 0 ? "," : "") + std::to_string(model.counters[i]->core);
  }
  text += "],\"queue\":{\"rows\":" + std::to_string(model.queue.waiting_rows()) +
          ",\"limit\":" + std::to_string(model.queue.limit()) + "},\"inputs\":";
  append_tensors(model.spec.inputs, text);
  text += ",\"outputs\":";
  append_tensors(model.spec.outputs, text);
  text += '}';
}

std::string models_json(const Catalog& catalog) {
  std::string text = "{\"state\":\"" + std::string(state_name(catalog.state)) + "\",\"models\":[";
  bool first = true;
  for (const auto& [name, model] : catalog.models) {
    if (!first) text += ',';
    first = false;
    append_model(*model, catalog.state == State::kReady, text);
  }
  text += "],\"failed\":[";
  first = true;
  for (const auto& [name, why] : catalog.failed) {
    text += first ? "{\"name\":" : ",{\"name\":";
    first = false;
    base::append_json_string(text, name);
    text += ",\"message\":";
    base::append_json_string(text, why);
    text += '}';
  }
  return text + "]}\n";
}

std::string reload_json(const ReloadReport& report) {
  std::string text = "{\"good\":" + std::string(report.good ? "true" : "false");
  if (!report.error.empty()) {
    text += ",\"error\":";
    base::append_json_string(text, report.error);
  }
  text += ",\"models\":{";
  bool first = true;
  for (const auto& [name, what] : report.models) {
    if (!first) text += ',';
    first = false;
    base::append_json_string(text, name);
    text += ':';
    base::append_json_string(text, what);
  }
  return text + "}}\n";
}

}  // namespace neuron::serve
