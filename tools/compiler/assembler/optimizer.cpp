// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/optimizer.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include "tools/compiler/assembler/assembly.h"

namespace neuron::assembler {

using runtime::Result;

namespace {

// Copies to device memory are fastest from whole cache lines.
constexpr size_t kAlignment = 64;
constexpr const char* kWeights = "weights.dat";
// Members about the program, which are never part of it.
constexpr std::string_view kDebugMembers[] = {"kernel_debug_info.json", "hlo_stats.json",
                                              "metrics.json"};
constexpr std::string_view kDebugDirectory = "debug_info/";

// True if several variables share bytes: merging would give each its own copy.
bool shares_bytes(const Assembly& assembly, const neff::Subgraph& subgraph) {
  uint64_t wanted = 0, held = 0;
  std::set<std::string> files;
  for (const neff::Variable& variable : subgraph.variables) {
    if (variable.kind != neff::VariableKind::kFile) continue;
    wanted += variable.contents.size();
    const auto member = assembly.members.find(variable.file_name);
    if (member == assembly.members.end() || !files.insert(variable.file_name).second) continue;
    held += member->second.size();
  }
  return wanted > held;
}

void merge_weights(Assembly& assembly, size_t index) {
  neff::Subgraph& subgraph = assembly.model.subgraphs[index];
  if (shares_bytes(assembly, subgraph)) return;
  SubgraphFiles& files = assembly.files[index];
  std::vector<uint8_t> merged;
  std::set<std::string> replaced;
  std::map<uint32_t, uint64_t> offsets;
  for (uint32_t v = 0; v < subgraph.variables.size(); ++v) {
    neff::Variable& variable = subgraph.variables[v];
    if (variable.kind != neff::VariableKind::kFile) continue;
    merged.resize((merged.size() + kAlignment - 1) / kAlignment * kAlignment);
    offsets[v] = merged.size();
    merged.insert(merged.end(), variable.contents.begin(), variable.contents.end());
    replaced.insert(variable.file_name);
  }
  if (offsets.size() < 2) return;
  // A table that an engine names does not belong to a variable alone.
  std::set<std::string> kept;
  for (const neff::EngineProgram& program : subgraph.engines) {
    for (const neff::DveTableFiles& tables : program.dve_tables) {
      kept.insert({tables.control, tables.datapath, tables.opcode});
    }
  }
  for (const std::string& name : replaced) {
    if (!kept.contains(name)) assembly.members.erase(name);
  }
  const std::string directory = subgraph.name + "/";
  std::string stem;
  while (assembly.members.contains(directory + stem + kWeights)) stem += '_';
  const std::string name = directory + stem + kWeights;
  for (const auto& [v, offset] : offsets) subgraph.variables[v].file_name = name;
  files.offsets = std::move(offsets);
  assembly.members[name] = std::move(merged);
}

void drop_debug_info(neff::EngineProgram& program) {
  program.lines.clear();
  for (size_t at = 0; at < program.code.size(); at += NEURON_INSTRUCTION_BYTES) {
    std::memset(program.code.data() + at + NEURON_INST_DEBUG, 0, sizeof(uint32_t));
  }
}

}  // namespace

Result<std::vector<uint8_t>> optimize(const neff::Container& container,
                                      const OptimizeOptions& options) {
  NEURON_TRY(assembly, read_assembly(container));
  if (options.drop_debug_info) {
    std::erase_if(assembly.members, [](const auto& member) {
      return member.first.starts_with(kDebugDirectory) ||
             std::find(std::begin(kDebugMembers), std::end(kDebugMembers), member.first) !=
                 std::end(kDebugMembers);
    });
  }
  for (size_t s = 0; s < assembly.model.subgraphs.size(); ++s) {
    neff::Subgraph& subgraph = assembly.model.subgraphs[s];
    if (options.drop_debug_info) {
      for (neff::EngineProgram& program : subgraph.engines) drop_debug_info(program);
      for (auto& collective : subgraph.collectives) drop_debug_info(collective.program);
    }
    if (options.merge_weights) merge_weights(assembly, s);
  }
  assembly.options.compress = false;
  return write(assembly);
}

}  // namespace neuron::assembler
