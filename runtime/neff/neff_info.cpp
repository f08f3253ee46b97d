// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/neff_info.h"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>
#include <optional>
#include <vector>

#include "hw/neff_program.h"
#include "runtime/neff/generations.h"
#include "runtime/neff/graph_reader.h"
#include "runtime/neff/model_reader.h"
#include "runtime/neff/text.h"

namespace neuron::tools {

namespace json = boost::json;
using base::format;
using neff::printable;

namespace {

struct Facts {
  std::optional<neff::Graph> graph;  // Only of a file in the open format.
  std::string refusal;               // Empty: this runtime can run it, on some device.
  std::string devices;               // On which, and with which variables on others.
  std::vector<std::string> notes;
};

// What the loader asks of a device: it takes programs of its own generation, older ones by a
// variable, and logical cores as large as the program's.
std::string devices_of(const neff::Model& model) {
  std::string text =
      format("{}, logical cores of {}", neff::generation_words(model.generation), model.lnc);
  if (model.generation < 3 && model.lnc == 1) {
    text += "; trn2 with NEURON_RT_ALLOW_LEGACY_NEFF=1 and NEURON_LOGICAL_NC_CONFIG=1";
  }
  return text;
}

Facts examine(const neff::Container& container) {
  Facts facts;
  if (const auto model = neff::load_model(container, {}); model) {
    facts.notes = model->notes;
    facts.devices = devices_of(*model);
  } else {
    facts.refusal = model.error().sentence;
  }
  std::vector<std::string> ignored;
  if (const auto graph = neff::read_graph(container, {}, ignored); graph) facts.graph = *graph;
  return facts;
}

std::vector<std::string> feature_names(uint64_t bits) {
  std::vector<std::string> names;
  for (int bit = 0; bit < 64; ++bit) {
    if (!(bits >> bit & 1)) continue;
    // The mask has 64 bits; bits without a name are shown by the mask itself.
    if (1ull << bit == NEFF_FEATURE_OPEN_PROGRAM) names.push_back("open-program");
    if (1ull << bit == NEFF_FEATURE_CUSTOM_OPERATORS) names.push_back("custom-operators");
  }
  return names;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string hash_text(const neff::Header& header) {
  return neff::hexadecimal({header.hash.data(), header.pkg_version == 2 ? 16u : 32u});
}

std::string shape_text(const std::vector<uint32_t>& shape) {
  std::string text;
  for (uint32_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

constexpr size_t kColumns = 10;
using Row = std::array<std::string, kColumns>;

std::string table(const std::vector<Row>& rows) {
  std::array<size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i < kColumns; ++i) {
      text += row[i];
      if (i + 1 < kColumns) text.append(widths[i] - row[i].size() + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

std::string tensor_table(const neff::Graph& graph) {
  std::vector<Row> rows = {{"NODE", "Executor", "Name", "Variable", "Size", "Type", "Format",
                            "Shape", "DataType", "TimeSeries"}};
  auto add = [&](const std::vector<neff::GraphTensor>& tensors, const char* type) {
    for (const neff::GraphTensor& tensor : tensors) {
      const neff::TensorInfo& info = tensor.info;
      rows.push_back({std::to_string(info.subgraph + 1), "NeuronCore",
                      printable(graph.subgraphs[info.subgraph]), printable(info.name),
                      std::to_string(info.size), type,
                      info.format.empty() ? "-" : printable(info.format), shape_text(info.shape),
                      neff::dtype_name(info.dtype), info.timeseries ? "true" : "false"});
    }
  };
  add(graph.inputs, "IN");
  add(graph.outputs, "OUT");
  return table(rows);
}

json::array tensor_list(const neff::Graph& graph, const std::vector<neff::GraphTensor>& tensors) {
  json::array list;
  for (const neff::GraphTensor& tensor : tensors) {
    const neff::TensorInfo& info = tensor.info;
    list.push_back({{"node", graph.subgraphs[info.subgraph]},
                    {"executor", "NeuronCore"},
                    {"name", info.name},
                    {"size", info.size},
                    {"format", info.format},
                    {"shape", json::value_from(info.shape)},
                    {"dtype", neff::dtype_name(info.dtype)},
                    {"timeseries", info.timeseries}});
  }
  return list;
}

}  // namespace

std::string neff_info_text(const neff::Container& container) {
  const neff::Header& header = container.header();
  const Facts facts = examine(container);
  std::string text;
  auto line = [&text](const char* label, const std::string& value) {
    text += format("{:<19}{}\n", label, base::escaped(value));
  };
  line("Name:", printable(header.name));
  line("UUID:", neff::hexadecimal(header.uuid));
  line("Hash:", hash_text(header) + (header.pkg_version == 2 ? " (MD5)" : " (SHA-256)"));
  line("NEFF version:", format("{}.{}", header.version_major, header.version_minor));
  line("Packaging version:", std::to_string(header.pkg_version));
  line("Build version:", printable(header.build_version));
  const std::vector<std::string> known = feature_names(header.feature_bits);
  line("Features:",
       format("{:#x}{}", header.feature_bits, known.empty() ? "" : " (" + joined(known) + ")"));
  line("Cores:", format("{} (requested {})", header.num_tpb, header.requested_tpb_count));
  line("Logical core size:", std::to_string(header.effective_lnc()));
  line("Payload:", format("{} bytes {}, {} bytes unpacked, {} members", header.data_size,
                          container.compressed() ? "gzip" : "tar", container.unpacked_bytes(),
                          container.members().size()));
  line("Built for:", neff::describe_origin(container));
  line("Runs on:", facts.refusal.empty() ? facts.devices : "nothing here: " + facts.refusal);
  for (const std::string& note : facts.notes) line("Note:", note);
  if (facts.graph) text += "\n" + tensor_table(*facts.graph);
  return text;
}

std::string neff_info_json(const neff::Container& container) {
  const neff::Header& header = container.header();
  const Facts facts = examine(container);
  json::object out;
  out["name"] = printable(header.name);
  out["uuid"] = neff::hexadecimal(header.uuid);
  out["hash"] = hash_text(header);
  out["hash_type"] = header.pkg_version == 2 ? "md5" : "sha256";
  out["package_version"] = header.pkg_version;
  out["header_size"] = header.header_size;
  out["data_size"] = header.data_size;
  out["major_version"] = header.version_major;
  out["minor_version"] = header.version_minor;
  out["build_version"] = printable(header.build_version);
  out["feature_bits"] = header.feature_bits;
  out["enabled_features"] = json::value_from(feature_names(header.feature_bits));
  out["neuroncore_count"] = header.num_tpb;
  out["requested_neuroncore_count"] = header.requested_tpb_count;
  out["logical_neuroncore_count"] = header.effective_lnc();
  out["compressed"] = container.compressed();
  out["unpacked_size"] = container.unpacked_bytes();
  out["built_for"] = neff::describe_origin(container);
  out["runs_here"] = facts.refusal.empty();
  if (!facts.devices.empty()) out["runs_on"] = facts.devices;
  if (!facts.refusal.empty()) out["reason"] = facts.refusal;
  out["notes"] = json::value_from(facts.notes);
  json::array members;
  for (const neff::Member& member : container.members()) {
    members.push_back({{"name", member.name}, {"size", member.bytes.size()}});
  }
  out["members"] = std::move(members);
  if (facts.graph) {
    out["inputs"] = tensor_list(*facts.graph, facts.graph->inputs);
    out["outputs"] = tensor_list(*facts.graph, facts.graph->outputs);
  }
  return json::serialize(out);
}

}  // namespace neuron::tools
