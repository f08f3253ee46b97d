// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/debug_info.h"

#include "runtime/neff/json_document.h"
#include "runtime/neff/json_object.h"
#include "runtime/neff/model.h"
#include "runtime/neff/text.h"

namespace neuron::neff {
namespace {

namespace json = boost::json;

constexpr const char* kMember = "kernel_debug_info.json";
constexpr size_t kMostNames = 1u << 20;
constexpr size_t kMostShown = 4;

DebugRange read_range(JsonObject& field) {
  DebugRange range;
  range.name = field.text("name");
  const auto ids = field.numbers("debug", 2, 1, UINT32_MAX);
  range.shape = field.numbers("shape", 16, 0, UINT64_MAX);
  if (field.checker().ok() && (ids.size() != 2 || ids[0] > ids[1])) {
    field.checker().fail(field.at("debug"), "expected the first and the last debug id");
    return range;
  }
  if (!field.checker().ok()) return range;
  range.first = static_cast<uint32_t>(ids[0]);
  range.last = static_cast<uint32_t>(ids[1]);
  return range;
}

void read_functions(JsonObject& top, DebugInfo& info) {
  const json::array* list = top.list("functions", kMostNames);
  if (!list) return;
  const JsonPath where = top.at("functions");
  for (size_t i = 0; i < list->size() && top.checker().ok(); ++i) {
    if ((*list)[i].is_string()) {
      info.function_names.push_back(json_text(top.checker(), {&where, {}, i}, (*list)[i], 255));
      continue;
    }
    JsonObject field(top.checker(), (*list)[i], &where, i);
    info.functions.push_back(read_range(field));
    info.function_names.push_back(info.functions.back().name);
  }
}

void read_tensors(JsonObject& top, DebugInfo& info) {
  const json::array* list = top.list("tensors", kMostNames);
  if (!list) return;
  const JsonPath where = top.at("tensors");
  for (size_t i = 0; i < list->size() && top.checker().ok(); ++i) {
    JsonObject field(top.checker(), (*list)[i], &where, i);
    info.tensors.push_back(read_range(field));
  }
}

bool covers(const DebugRange& range, uint32_t debug) {
  return range.first <= debug && debug <= range.last;
}

}  // namespace

DebugInfo read_debug_info(const Container& container, const std::string& directory,
                          const ModelLimits& limits, std::vector<std::string>& notes) {
  std::string member = directory + "/" + kMember;
  if (!container.find(member)) member = kMember;
  if (!container.find(member)) return {};
  const auto document = read_json_object(
      container, member, {limits.json_bytes, limits.json_depth, limits.json_values});
  if (!document) {
    notes.push_back(document.error().sentence + "; reports will not name tensors");
    return {};
  }
  DebugInfo info;
  Checker checker(member, notes);
  {
    JsonObject top(checker, *document, nullptr, "");
    info.files = top.texts("files", kMostNames);
    read_functions(top, info);
    read_tensors(top, info);
  }
  if (const auto result = checker.result(); !result) {
    notes.push_back(result.error().sentence + "; reports will not name tensors");
    return {};
  }
  return info;
}

std::string DebugInfo::describe(uint32_t debug) const {
  std::string text;
  if (debug == 0) return text;
  for (const DebugRange& function : functions) {
    if (!covers(function, debug)) continue;
    text = "in " + printable(function.name);
    break;
  }
  size_t shown = 0;
  for (const DebugRange& tensor : tensors) {
    if (!covers(tensor, debug) || shown == kMostShown) continue;
    text += (shown++ ? " and " : text.empty() ? "on " : ", on ") + printable(tensor.name);
    std::string shape;
    for (const uint64_t size : tensor.shape) {
      shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    }
    if (!shape.empty()) text += " [" + shape + "]";
  }
  return text;
}

}  // namespace neuron::neff
