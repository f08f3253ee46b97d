// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/assembly.h"

#include "runtime/neff/definition_reader.h"
#include "runtime/neff/engine_binary_writer.h"
#include "runtime/neff/model_reader.h"
#include "runtime/neff/npy.h"

namespace neuron::assembler {

using runtime::Result;

Result<Assembly> read_assembly(const neff::Container& container) {
  Assembly out;
  NEURON_TRY(model, neff::load_model(container, {}));
  out.model = std::move(model);
  std::vector<std::string> notes;
  for (const neff::Subgraph& subgraph : out.model.subgraphs) {
    NEURON_TRY(definition, neff::read_definition(container, subgraph.name, {}, notes));
    const size_t directory = subgraph.name.size() + 1;
    const auto names = [&](const neff::EngineFiles& paths) {
      const auto local = [&](const std::string& path) {
        return path.empty() ? path : path.substr(directory);
      };
      return EngineFiles{true, local(paths.bin), local(paths.json)};
    };
    SubgraphFiles files;
    for (size_t e = 0; e < definition.engines.size(); ++e) {
      if (!definition.engines[e].bin.empty()) files.engines[e] = names(definition.engines[e]);
    }
    for (const auto& paths : definition.collectives) files.collectives.push_back(names(paths));
    for (uint32_t v = 0; v < subgraph.variables.size(); ++v) {
      const neff::Variable& variable = subgraph.variables[v];
      if (variable.kind != neff::VariableKind::kFile) continue;
      neff::Bytes data = container.find(variable.file_name)->bytes;
      if (variable.file_name.ends_with(".npy")) {
        NEURON_TRY(array, neff::parse_npy(data));
        data = array.data;
      }
      if (data.size() == variable.contents.size()) continue;
      files.offsets[v] = static_cast<uint64_t>(variable.contents.data() - data.data());
    }
    out.files.push_back(std::move(files));
  }
  const std::set<std::string> described = described_members(out);
  for (const neff::Member& member : container.members()) {
    if (described.contains(member.name)) continue;
    out.members[member.name].assign(member.bytes.begin(), member.bytes.end());
  }
  const neff::Header& header = container.header();
  out.options.name = header.name;
  out.options.build_version = header.build_version;
  out.options.version_major = header.version_major;
  out.options.version_minor = header.version_minor;
  out.options.feature_bits = header.feature_bits;
  out.options.lnc_size = header.lnc_size;
  out.options.cores = header.num_tpb;
  out.options.header_version = header.pkg_version;
  out.options.compress = container.compressed();
  return out;
}

std::set<std::string> described_members(const Assembly& assembly) {
  std::set<std::string> names{"neff.json"};
  for (size_t s = 0; s < assembly.model.subgraphs.size(); ++s) {
    const std::string directory = assembly.model.subgraphs[s].name + "/";
    names.insert(directory + "def.json");
    const auto add = [&](const EngineFiles& files) {
      if (!files.used) return;
      names.insert(directory + files.bin);
      if (!files.json.empty()) names.insert(directory + files.json);
    };
    for (const EngineFiles& files : assembly.files[s].engines) add(files);
    for (const EngineFiles& files : assembly.files[s].collectives) add(files);
  }
  return names;
}

Result<tools::NeffMembers> all_members(const Assembly& assembly) {
  tools::NeffMembers members;
  members["neff.json"] = tools::bytes_of(graph_json(assembly.model));
  for (size_t s = 0; s < assembly.model.subgraphs.size(); ++s) {
    const neff::Subgraph& subgraph = assembly.model.subgraphs[s];
    const SubgraphFiles& files = assembly.files[s];
    const std::string directory = subgraph.name + "/";
    members[directory + "def.json"] =
        tools::bytes_of(definition_json(assembly.model, subgraph, files));
    const auto add = [&](const neff::EngineProgram& program,
                         const EngineFiles& names) -> Result<void> {
      NEURON_TRY(binary, tools::write_engine_binary(program));
      members[directory + names.bin] = std::move(binary);
      if (!names.json.empty()) {
        members[directory + names.json] = tools::bytes_of(engine_json(subgraph, program));
      }
      return {};
    };
    for (size_t e = 0; e < files.engines.size(); ++e) {
      if (files.engines[e].used) NEURON_CHECK(add(subgraph.engines[e], files.engines[e]));
    }
    for (size_t i = 0; i < files.collectives.size(); ++i) {
      NEURON_CHECK(add(subgraph.collectives[i].program, files.collectives[i]));
    }
  }
  for (const auto& [name, contents] : assembly.members) members[name] = contents;
  return members;
}

Result<std::vector<uint8_t>> write(const Assembly& assembly) {
  NEURON_TRY(members, all_members(assembly));
  NEURON_TRY(file, tools::write_neff(members, assembly.options));
  NEURON_TRY(container, neff::Container::open(file));
  NEURON_CHECK(neff::load_model(container, {}));
  return std::move(file);
}

}  // namespace neuron::assembler
