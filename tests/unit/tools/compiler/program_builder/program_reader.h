// SPDX-License-Identifier: Apache-2.0
// Reads a NEFF that the builder wrote back into instructions, with the loader's own reader.
// Callers: tests. Thread-safe: no state. Fails the test with the reader's sentence.
#ifndef TESTS_UNIT_TOOLS_COMPILER_PROGRAM_BUILDER_PROGRAM_READER_H
#define TESTS_UNIT_TOOLS_COMPILER_PROGRAM_BUILDER_PROGRAM_READER_H

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "driver/isa/instruction.h"
#include "runtime/neff/model_reader.h"

namespace neuron::builder::testing {

struct Loaded {
  std::vector<uint8_t> file;
  // The model's contents lead into it. Behind a pointer: a copy of this has the same ones.
  std::shared_ptr<neff::Container> container;
  neff::Model model;
  std::array<std::vector<isa::Instruction>, NEURON_CORE_ENGINES> code;
  const neff::Subgraph& graph() const { return model.subgraphs[0]; }
};

inline Loaded load(const runtime::Result<std::vector<uint8_t>>& neff, uint8_t generation = 2) {
  Loaded loaded;
  if (!neff) {
    ADD_FAILURE() << neff.error().sentence;
    return loaded;
  }
  loaded.file = *neff;
  auto container = neff::Container::open(loaded.file);
  if (!container) {
    ADD_FAILURE() << container.error().sentence;
    return loaded;
  }
  loaded.container = std::make_shared<neff::Container>(std::move(*container));
  auto model = neff::load_model(*loaded.container, {generation, 1, false});
  if (!model) {
    ADD_FAILURE() << model.error().sentence;
    return loaded;
  }
  EXPECT_TRUE(model->notes.empty());
  loaded.model = std::move(*model);
  for (auto& engine : loaded.model.subgraphs[0].engines) {
    for (size_t at = 0; at < engine.code.size(); at += NEURON_INSTRUCTION_BYTES) {
      const isa::Bytes bytes(reinterpret_cast<const std::byte*>(engine.code.data()) + at,
                             NEURON_INSTRUCTION_BYTES);
      const auto v = isa::check_encoding(bytes, engine.engine, isa::limits_of(generation));
      const isa::Instruction instruction = isa::decode(bytes);
      EXPECT_FALSE(v) << isa::describe(v, instruction);
      loaded.code[engine.engine].push_back(instruction);
    }
  }
  return loaded;
}

}  // namespace neuron::builder::testing

#endif
