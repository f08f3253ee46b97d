// SPDX-License-Identifier: Apache-2.0
#include "tools/assembler/assembly.h"

#include "tools/common/engine_binary_writer.h"

namespace neuron::assembler {

using runtime::Result;

Result<tools::NeffMembers> all_members(const Assembly& assembly) {
  tools::NeffMembers members;
  members["neff.json"] = tools::bytes_of(graph_json(assembly.model));
  for (std::size_t s = 0; s < assembly.model.subgraphs.size(); ++s) {
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
    for (std::size_t e = 0; e < files.engines.size(); ++e) {
      if (files.engines[e].used) NEURON_CHECK(add(subgraph.engines[e], files.engines[e]));
    }
    for (std::size_t i = 0; i < files.collectives.size(); ++i) {
      NEURON_CHECK(add(subgraph.collectives[i].program, files.collectives[i]));
    }
  }
  for (const auto& [name, contents] : assembly.members) members[name] = contents;
  return members;
}

Result<std::vector<std::uint8_t>> write(const Assembly& assembly) {
  NEURON_TRY(members, all_members(assembly));
  NEURON_TRY(file, tools::write_neff(members, assembly.options));
  NEURON_TRY(container, neff::Container::open(file));
  NEURON_CHECK(neff::load_model(container, {}));
  return std::move(file);
}

}  // namespace neuron::assembler
