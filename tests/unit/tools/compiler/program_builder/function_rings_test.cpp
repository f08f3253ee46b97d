// SPDX-License-Identifier: Apache-2.0
// Queue sets and semaphores of programs with many functions.
#include "tools/compiler/program_builder/function_rings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "tests/unit/tools/compiler/program_builder/program_reader.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::builder {
namespace {

using ::testing::Contains;
using ::testing::Not;

constexpr uint32_t kRows = 32, kColumns = 8;
constexpr uint8_t kType = NEURON_DTYPE_U32;

// `functions` of SP, each with a transfer in and one out; each calls the one before it if they are
// nested, but only `nested` of them inside of each other. Main has both kinds, too, and `more`
// transfers out at once.
runtime::Result<std::vector<uint8_t>> program_of(uint32_t functions, uint32_t nested = 1,
                                                 uint32_t more = 0, bool generates = false) {
  Program program("many");
  ControlFlow control = program.control();
  const Buffer x = program.input("x", kType, {kRows, kColumns});
  const Buffer y = program.output("y", kType, {kRows, kColumns});
  const Buffer memory =
      program.temporary("memory", kType, {(functions + more + 1) * kRows, kColumns});
  const Tile tile = program.sbuf("tile", kRows, kColumns, kType);
  const auto block = [&](uint32_t number) {
    return memory.block(uint64_t{number} * kRows, kRows, 0, kColumns);
  };
  program.dma(Engine::kSp, tile.all(), x.all());
  for (uint32_t i = 0; i < more; ++i) program.dma(Engine::kSp, block(functions + i), tile.all());
  if (generates) program.dma_generate(tile.all(), block(functions));
  std::vector<Function> made;
  for (uint32_t f = 0; f < functions; ++f) {
    made.push_back(control.function("f" + std::to_string(f), [&] {
      program.dma(Engine::kSp, tile.all(), block(f));
      program.tensor_tensor(Engine::kDve, tile.all(), tile.all(), NEURON_ALU_XOR, tile.all());
      if (f % nested != 0) control.call(made[f - 1]);
      program.tensor_tensor(Engine::kPool, tile.all(), tile.all(), NEURON_ALU_XOR, tile.all());
      program.dma(Engine::kSp, block(f), tile.all());
    }));
  }
  for (const Function& function : made) control.call(function);
  program.dma(Engine::kSp, y.all(), tile.all());
  return program.build();
}

std::set<std::string> queue_sets(const runtime::Result<std::vector<uint8_t>>& neff) {
  const auto loaded = testing::load(neff);
  std::set<std::string> names;
  if (loaded.model.subgraphs.empty()) return names;
  for (const neff::QueueSet& set : loaded.graph().queues) names.insert(set.name);
  return names;
}

TEST(FunctionRings, AreThoseOfTheQueueSetsIfTheyHaveEnoughQueues) {
  EXPECT_THAT(queue_sets(program_of(6)), Not(Contains("qSP_functions"))) << "twelve and two";
  EXPECT_THAT(queue_sets(program_of(6, 1, 1, true)), Contains("qSP_functions"))
      << "and those that Pool generates";
}

TEST(FunctionRings, AreOneForEachEngineIfTheyAreTooMany) {
  const auto names = queue_sets(program_of(7));
  EXPECT_EQ(names, (std::set<std::string>{"qSP_functions", "qSP_in", "qSP_out"}));
}

TEST(FunctionRings, OfMainAreOneForEachEngineIfFunctionsThatCallEachOtherLeaveTooFew) {
  Program program("many");
  ControlFlow control = program.control();
  constexpr Engine kEngines[] = {Engine::kSp, Engine::kActivation, Engine::kPool, Engine::kDve};
  const Buffer memory = program.temporary("memory", kType, {kRows, kColumns});
  const Tile tile = program.sbuf("tile", kRows, kColumns, kType);
  program.memset(Engine::kDve, tile.all(), 0);
  const auto move = [&] {
    for (const Engine engine : kEngines) {
      program.dma(engine, memory.all(), tile.all());
      program.dma(engine, tile.all(), memory.all());
    }
  };
  control.once([&] { program.dma(Engine::kSp, memory.all(), tile.all()); });
  move();
  Function last;
  for (const char* name : {"inner", "outer"}) {
    last = control.function(name, [&] {
      move();
      if (last.present()) control.call(last);
    });
  }
  control.call(last);
  EXPECT_EQ(queue_sets(program.build()),
            (std::set<std::string>{"qSP_main", "qActivation_main", "qPool_main", "qDVE_main",
                                   "qSP_functions", "qActivation_functions", "qPool_functions",
                                   "qDVE_functions", "qSP_out_once"}))
      << "four, eight of two levels, and one";
}

TEST(FunctionRings, FunctionsThatDoNotCallEachOtherUseTheSameSemaphores) {
  for (const uint32_t more : {0u, 150u}) {
    const auto neff = program_of(100, 3, more);
    ASSERT_TRUE(neff) << neff.error().sentence;
    const auto loaded = testing::load(neff);
    // Those of functions that call each other are different: what a function waits for is not
    // what the one that it calls counts.
    std::map<uint32_t, std::set<uint8_t>> used;
    for (const neff::DmaTransfer& transfer : loaded.graph().engines[NEURON_ENGINE_SP].dma) {
      if (transfer.function) used[*transfer.function].insert(*transfer.semaphore);
    }
    ASSERT_EQ(used.size(), 100u);
    const auto& entries = loaded.graph().engines[NEURON_ENGINE_SP].entries;
    std::map<std::string, std::set<uint8_t>> named;
    for (const auto& [entry, semaphores] : used) named[entries[entry].name] = semaphores;
    for (uint32_t f = 0; f < 100; ++f) {
      for (uint32_t inner = f; inner % 3 != 0; --inner) {
        std::vector<uint8_t> both;
        const auto& a = named["f" + std::to_string(f)];
        const auto& b = named["f" + std::to_string(inner - 1)];
        std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
        EXPECT_TRUE(both.empty()) << "functions " << f << " and " << inner - 1;
      }
    }
  }
}

}  // namespace
}  // namespace neuron::builder
