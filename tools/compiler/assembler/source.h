// SPDX-License-Identifier: Apache-2.0
//
// State that the assembler's passes share: the program so far, and the lines kept for a later pass.
// Callers: assembler.cpp, directives.cpp, engine_pass.cpp, transfer_parser.cpp. Thread-safe: no.
// Borrows the text. Errors are collected here.
#ifndef TOOLS_COMPILER_ASSEMBLER_SOURCE_H
#define TOOLS_COMPILER_ASSEMBLER_SOURCE_H

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hw/custom_operator.h"
#include "tools/compiler/assembler/assembler.h"
#include "tools/compiler/assembler/cursor.h"

namespace neuron::assembler {

// Where in the text a part of the file was declared.
struct Place {
  uint32_t line = 1;
  uint32_t column = 1;
};

struct SourceLine {
  uint32_t number = 0;
  std::string_view text;
  bool checked = true;  // Not below ".check off"
};

// One engine's part of a subgraph.
struct ProgramText {
  uint32_t subgraph = 0;
  uint8_t engine = 0;
  uint32_t collective = 0;  // Index, for the CC engine
  Place place;              // Of the .engine
  std::vector<SourceLine> lines;
};

// A reference to a variable that may be declared further down.
struct Reference {
  uint32_t subgraph = 0;
  uint32_t variable = 0;
  uint32_t line = 0;
  uint32_t column = 0;
  std::string name;
};

struct Source {
  const AssembleOptions& options;
  Assembled result;
  Constants constants;
  std::vector<ProgramText> programs;
  std::vector<Reference> references;
  std::vector<Reference> tensors;  // Variable of inputs, then outputs: by index, resolved last
  std::vector<Reference> constant_files;  // Variables whose size is that of a member
  // By the beginning of what a reader of the file would say about it: "sg00/SP.json: dma[0]".
  std::map<std::string, Place> places;

  Assembly& assembly() { return result.assembly; }
  neff::Model& model() { return result.assembly.model; }
  neff::Subgraph& subgraph(uint32_t index) { return model().subgraphs[index]; }
  neff::EngineProgram& program_of(const ProgramText& text) {
    neff::Subgraph& s = subgraph(text.subgraph);
    return text.engine == NEURON_ENGINE_CC ? s.collectives[text.collective].program
                                           : s.engines[text.engine];
  }
  EngineFiles& files_of(const ProgramText& text) {
    SubgraphFiles& files = assembly().files[text.subgraph];
    return text.engine == NEURON_ENGINE_CC ? files.collectives[text.collective]
                                           : files.engines[text.engine];
  }

  // The error of a reader of the file, at the longest of `places` that it begins with. One that
  // concerns no line stands at the beginning of the text.
  void add_of_reader(const std::string& sentence);

  bool full() const { return result.errors.size() >= kMostErrors; }
  void add(const Diagnostic& error) {
    if (!full()) result.errors.push_back(error);
  }
  void add(const Cursor& cursor) {
    if (cursor.error()) add(*cursor.error());
  }
};

// Index of the variable; size of the list if there is none.
inline uint32_t variable_named(const neff::Subgraph& subgraph, std::string_view name) {
  uint32_t i = 0;
  while (i < subgraph.variables.size() && subgraph.variables[i].name != name) ++i;
  return i;
}

// Parses directives of the whole file and of a subgraph. parse() is false for any other directive.
class Directives {
 public:
  explicit Directives(Source& source) : source_(source) {}

  // The cursor stands behind the directive's name.
  bool parse(std::string_view directive, Cursor& cursor);
  uint32_t current_subgraph();
  void finish();

 private:
  struct Shape {
    uint8_t dtype = NEURON_DTYPE_NONE;
    std::vector<uint32_t> shape;
    uint64_t bytes = 0;
  };

  void file_header(Cursor& cursor);
  void target(Cursor& cursor);
  void subgraph(Cursor& cursor);
  void semaphores(Cursor& cursor);
  void variable(Cursor& cursor);
  void variable_keys(Cursor& cursor, neff::Variable& variable, neff::TensorInfo* tensor);
  void constant(Cursor& cursor);
  void tensor(Cursor& cursor, bool output);
  void queue(Cursor& cursor);
  void collective(Cursor& cursor);       // collective_directive.cpp
  void custom_operator(Cursor& cursor);  // operator_directive.cpp
  void operator_tensor(Cursor& cursor, uint32_t table, neuron_operator_argument& argument);
  void file_variable(const std::string& name, std::vector<uint8_t> contents);
  void number_constant(Cursor& cursor);
  Shape parse_shape(Cursor& cursor);
  bool tensor_key(Cursor& cursor, std::string_view key, neff::TensorInfo& info);
  void add_tensor(neff::TensorInfo info, const Reference& variable, bool output);
  void resolve_constants();

  Source& source_;
  bool have_subgraph_ = false;
};

// ".dma" lines of one engine.
neff::DmaTransfer parse_transfer(Cursor& cursor, const neff::Subgraph& subgraph,
                                 std::string& block_name, std::string& function);
// All lines of one engine.
void assemble_engine(Source& source, const ProgramText& program);

}  // namespace neuron::assembler

#endif
