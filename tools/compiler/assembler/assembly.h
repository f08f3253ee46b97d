// SPDX-License-Identifier: Apache-2.0
//
// A NEFF between text and file: the model, and the other contents of the file. Callers: assembler.h
// (makes it from text), disassembler.h (makes it from a file). Thread-safe: values. Owns
// everything; Variable::contents is not used, constants are among `members`.
// Fails: write() with the sentence of the reader that refuses the result.
#ifndef TOOLS_COMPILER_ASSEMBLER_ASSEMBLY_H
#define TOOLS_COMPILER_ASSEMBLER_ASSEMBLY_H

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/model.h"
#include "runtime/neff/neff_writer.h"

namespace neuron::assembler {

// Members of one engine, without the subgraph's directory.
struct EngineFiles {
  bool used = false;
  std::string bin;
  std::string json;  // Empty: none
};

struct SubgraphFiles {
  // By variable: where its bytes begin in a file that also holds the bytes of others.
  std::map<uint32_t, uint64_t> offsets;
  std::array<EngineFiles, NEURON_CORE_ENGINES> engines;
  std::vector<EngineFiles> collectives;
};

struct Assembly {
  neff::Model model;
  std::vector<SubgraphFiles> files;  // By subgraph
  // Constants and other members. A member here replaces the one that would be written under its
  // name.
  tools::NeffMembers members;
  tools::NeffOptions options;
};

// Reads a file. A member that the model does not describe goes to `members`.
runtime::Result<Assembly> read_assembly(const neff::Container& container);
// Names of the members that the model describes.
std::set<std::string> described_members(const Assembly& assembly);

// neff.json, def.json, engine JSON and binaries, and `members`.
runtime::Result<tools::NeffMembers> all_members(const Assembly& assembly);
// The file, which a loader accepts.
runtime::Result<std::vector<uint8_t>> write(const Assembly& assembly);

// The JSON members, in the form that the project's writers give them.
std::string graph_json(const neff::Model& model);
std::string definition_json(const neff::Model& model, const neff::Subgraph& subgraph,
                            const SubgraphFiles& files);
std::string engine_json(const neff::Subgraph& subgraph, const neff::EngineProgram& program);

}  // namespace neuron::assembler

#endif
