// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/graph_reader.h"

#include <algorithm>
#include <unordered_set>

#include "runtime/neff/json_document.h"
#include "runtime/neff/json_object.h"
#include "runtime/neff/text.h"

namespace neuron::neff {

using runtime::Result;

namespace {

namespace json = boost::json;

constexpr uint64_t kFormatVersion = 1;
constexpr size_t kMostDimensions = 16;

class Reader {
 public:
  Reader(const Container& container, const ModelLimits& limits, std::vector<std::string>& notes)
      : container_(container), limits_(limits), checker_(kGraphMember, notes) {}

  Result<Graph> read();

 private:
  void read_nodes(JsonObject& top);
  void read_tensors(JsonObject& top, const char* key, std::vector<GraphTensor>& tensors);
  GraphTensor read_tensor(JsonObject& field);

  const Container& container_;
  const ModelLimits& limits_;
  Checker checker_;
  Graph graph_;
};

Result<Graph> Reader::read() {
  const JsonLimits json_limits{limits_.json_bytes, limits_.json_depth, limits_.json_values};
  NEURON_TRY(document, read_json_object(container_, kGraphMember, json_limits));
  {
    JsonObject top(checker_, document, nullptr, "");
    const std::string format = top.text("format");
    const uint64_t version = top.number("version", 0, UINT32_MAX);
    if (checker_.ok() && (format != NEFF_FORMAT || version != kFormatVersion)) {
      checker_.unsupported(top.path(),
                           "format \"{}\" of version {}, supported: \"{}\" of version {}",
                           printable(format), version, NEFF_FORMAT, kFormatVersion);
    }
    graph_.target = top.text("target");
    graph_.generation = generation_of(graph_.target);
    if (checker_.ok() && graph_.generation == 0) {
      checker_.unsupported(top.at("target"), "found \"{}\", known are trn1, inf2, trn2 and trn3",
                           printable(graph_.target));
    }
    graph_.lnc = static_cast<uint32_t>(top.number_or("lnc", 1, 1, 2));
    read_nodes(top);
    read_tensors(top, "inputs", graph_.inputs);
    read_tensors(top, "outputs", graph_.outputs);
  }
  NEURON_CHECK(checker_.result());
  return std::move(graph_);
}

void Reader::read_nodes(JsonObject& top) {
  top.require("nodes");
  const json::array* nodes = top.list("nodes", limits_.subgraphs);
  if (!nodes) return;
  const JsonPath where = top.at("nodes");
  for (size_t i = 0; i < nodes->size() && checker_.ok(); ++i) {
    JsonObject node(checker_, (*nodes)[i], &where, i);
    const std::string name = node.text("name");
    const std::string executor = node.text("executor");
    if (!checker_.ok()) return;
    if (executor != "NeuronCore") {
      checker_.unsupported(node.at("executor"),
                           "found \"{}\", only nodes on a NeuronCore can be run",
                           printable(executor));
    }
    if (!container_.find(name + "/def.json")) {
      checker_.fail(node.at("name"), "the file has no member \"{}/def.json\"", printable(name));
    }
    if (std::find(graph_.subgraphs.begin(), graph_.subgraphs.end(), name) !=
        graph_.subgraphs.end()) {
      checker_.fail(node.at("name"), "subgraph \"{}\" stands twice", printable(name));
    }
    graph_.subgraphs.push_back(name);
  }
  // A file has more than one subgraph only if a logical core has several physical ones.
  if (checker_.ok() && graph_.subgraphs.size() != graph_.lnc) {
    checker_.fail(where, "{} subgraphs, but the logical core size is {}", graph_.subgraphs.size(),
                  graph_.lnc);
  }
}

void Reader::read_tensors(JsonObject& top, const char* key, std::vector<GraphTensor>& tensors) {
  top.require(key);
  const json::array* list = top.list(key, limits_.tensors);
  if (!list) return;
  const JsonPath where = top.at(key);
  std::unordered_set<std::string> names;
  for (size_t i = 0; i < list->size() && checker_.ok(); ++i) {
    JsonObject field(checker_, (*list)[i], &where, i);
    GraphTensor tensor = read_tensor(field);
    if (!checker_.ok()) return;
    if (!names.insert(tensor.info.name).second) {
      checker_.fail(field.at("name"), "\"{}\" stands twice among the {}",
                    printable(tensor.info.name), key);
    }
    tensors.push_back(std::move(tensor));
  }
}

GraphTensor Reader::read_tensor(JsonObject& field) {
  GraphTensor tensor;
  TensorInfo& info = tensor.info;
  info.name = field.text("name", 255);
  tensor.variable = field.text("variable", 255);
  const std::string subgraph =
      field.text_or("subgraph", graph_.subgraphs.empty() ? "sg00" : graph_.subgraphs[0], 255);
  const std::string dtype = field.text("dtype");
  field.require("shape");
  const auto shape = field.numbers("shape", kMostDimensions, 1, UINT32_MAX);
  info.size = field.number("size", 1, limits_.variable_bytes);
  info.format = field.text_or("format", "", 64);
  info.timeseries = field.boolean_or("timeseries", false);
  if (!checker_.ok()) return tensor;
  const auto place = std::find(graph_.subgraphs.begin(), graph_.subgraphs.end(), subgraph);
  if (place == graph_.subgraphs.end()) {
    checker_.fail(field.at("subgraph"), "\"{}\" is not among the nodes", printable(subgraph));
  }
  info.subgraph = static_cast<uint32_t>(place - graph_.subgraphs.begin());
  info.dtype = dtype_from_name(dtype);
  if (info.dtype == NEURON_DTYPE_NONE) {
    checker_.fail(field.at("dtype"), "found \"{}\", which is no data type", printable(dtype));
  }
  uint64_t bytes = dtype_bytes(info.dtype);
  for (uint64_t size : shape) {
    info.shape.push_back(static_cast<uint32_t>(size));
    if (__builtin_mul_overflow(bytes, size, &bytes)) bytes = 0;
    if (bytes == 0) break;
  }
  if (checker_.ok() && bytes != info.size) {
    checker_.fail(field.at("size"), "found {}, but the shape in {} has {} bytes", info.size, dtype,
                  bytes);
  }
  return tensor;
}

}  // namespace

Result<std::string> graph_format(const Container& container) {
  if (!container.find(kGraphMember)) return std::string();
  NEURON_TRY(document, read_json_object(container, kGraphMember, JsonLimits()));
  const json::value* format = document.get_object().if_contains("format");
  return format && format->is_string() ? std::string(format->get_string().c_str()) : std::string();
}

Result<Graph> read_graph(const Container& container, const ModelLimits& limits,
                         std::vector<std::string>& notes) {
  return Reader(container, limits, notes).read();
}

}  // namespace neuron::neff
