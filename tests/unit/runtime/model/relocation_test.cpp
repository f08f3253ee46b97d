// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/relocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "hw/address_map.h"
#include "hw/isa.h"
#include "hw/udma.h"

namespace neuron::runtime {
namespace {

using ::testing::HasSubstr;

// A program of four instructions with one relocation in instruction 1, and what it may name.
struct Bench {
  Bench() {
    program.engine = NEURON_ENGINE_SP;
    program.code.resize(4 * NEURON_INSTRUCTION_BYTES);
    program.entries = {{"main", 0, 3, NEURON_ENTRY_MAIN}, {"late", 3, 1, NEURON_ENTRY_FUNCTION}};
    graph.variables.resize(3);
    graph.variables[0].kind = neff::VariableKind::kInput;
    graph.variables[1].kind = neff::VariableKind::kTmpBuf;
    graph.variables[2].kind = neff::VariableKind::kOutput;
    graph.semaphores = {{"ready", 20}};
    graph.queues.resize(1);
    graph.queues[0].name = "q";
    graph.queues[0].num_queues = 3;
    neff::DmaTransfer transfer;
    transfer.id = 5;
    transfer.semaphore = 20;
    transfer.from.resize(1);
    transfer.from[0].variable = 1;
    transfer.from[0].sizes = {65536, 2, 1, 1};
    transfer.from[0].steps = {1, 65536, 0, 0};
    transfer.to = transfer.from[0];
    program.dma.push_back(transfer);
    graph.engines[NEURON_ENGINE_SP] = program;
  }

  Result<void> run(uint8_t kind, uint8_t width, const char* symbol, uint32_t target,
                   int64_t addend = 0, uint16_t field = 8) {
    program.relocations = {{1, field, kind, width, symbol, addend, target}};
    auto plan = RingPlan::build(graph);
    if (!plan) return plan.error();
    rings = std::move(*plan);
    code.assign(program.code.size(), std::byte{0});
    return relocate(program, {graph, rings, addresses, core, peer}, code);
  }
  template <class T>
  T at(uint64_t offset) const {
    T value;
    std::memcpy(&value, code.data() + NEURON_INSTRUCTION_BYTES + offset, sizeof(value));
    return value;
  }
  // Whether all bytes but [from, from + size) of instruction 1 are still zero.
  bool untouched_but(uint64_t from, uint64_t size) const {
    for (size_t i = 0; i < code.size(); ++i) {
      const bool inside =
          i >= NEURON_INSTRUCTION_BYTES + from && i < NEURON_INSTRUCTION_BYTES + from + size;
      if (!inside && code[i] != std::byte{0}) return false;
    }
    return true;
  }

  neff::EngineProgram program;
  neff::Subgraph graph;
  RingPlan rings;
  std::vector<uint64_t> addresses = {0, 0x1122334455, 0};
  CorePlace core{find_chip_table(2), 1};
  const neff::Subgraph* peer = nullptr;
  std::vector<std::byte> code;
};

TEST(Relocation, AVariableIsItsAddressAndTheAddend) {
  Bench bench;
  ASSERT_TRUE(bench.run(NEURON_RELOC_VAR_ADDR, 8, "t", 1, 3));
  EXPECT_EQ(bench.at<uint64_t>(8), 0x1122334458u);
  EXPECT_TRUE(bench.untouched_but(8, 8));
  ASSERT_TRUE(bench.run(NEURON_RELOC_VAR_ADDR, 4, "t", 1, -1));
  EXPECT_EQ(bench.at<uint32_t>(8), 0x22334454u);
  EXPECT_TRUE(bench.untouched_but(8, 4));
}

TEST(Relocation, AnInputOrOutputHasNoAddressYet) {
  for (const uint32_t variable : {0u, 2u}) {
    Bench bench;
    const auto refused = bench.run(NEURON_RELOC_VAR_ADDR, 8, "x", variable);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, NRT_INVALID);
    EXPECT_EQ(refused.error().sentence,
              "engine SP pc 1: the address of 'x' changes with the tensors of an execution; only "
              "transfers may name it");
  }
}

TEST(Relocation, ASemaphoreIsItsNumberOrItsIncrementAlias) {
  Bench bench;
  ASSERT_TRUE(bench.run(NEURON_RELOC_SEMAPHORE, 1, "ready", 0, 2));
  EXPECT_EQ(bench.at<uint8_t>(8), 22);
  EXPECT_TRUE(bench.untouched_but(8, 1));
  ASSERT_TRUE(bench.run(NEURON_RELOC_SEM_ADDR, 8, "ready", 0, 4));
  EXPECT_EQ(bench.at<uint64_t>(8),
            bench.core.window() + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + 20 * 4 + 4);
}

TEST(Relocation, AnEntryIsADistance) {
  Bench bench;
  ASSERT_TRUE(bench.run(NEURON_RELOC_PC, 4, "late", 1));
  EXPECT_EQ(bench.at<int32_t>(8), 2);
  ASSERT_TRUE(bench.run(NEURON_RELOC_PC, 4, "main", 0));
  EXPECT_EQ(bench.at<int32_t>(8), -1);
}

TEST(Relocation, TheCoreIsItsWindow) {
  Bench bench;
  ASSERT_TRUE(bench.run(NEURON_RELOC_CORE, 8, "self", neff::kNoTarget, 16));
  EXPECT_EQ(bench.at<uint64_t>(8), bench.core.window() + 16);
  const auto none = bench.run(NEURON_RELOC_CORE, 8, "peer", neff::kNoTarget);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().status, NRT_INVALID);
  EXPECT_THAT(none.error().sentence,
              HasSubstr("'peer' is on the other core, which a virtual core of one has not"));
  const auto rank = bench.run(NEURON_RELOC_PEER, 8, "rank:1", neff::kNoTarget);
  ASSERT_FALSE(rank);
  EXPECT_EQ(rank.error().status, NRT_UNSUPPORTED_NEFF_VERSION);
}

TEST(Relocation, TheOtherCoreOfAVirtualCoreOfTwoIsItsNeighbour) {
  Bench bench;
  neff::Subgraph other;
  other.semaphores = {{"unused", 20}, {"told", 9}};
  bench.peer = &other;
  for (const uint32_t core : {2u, 3u}) {
    bench.core = CorePlace{find_chip_table(3), core};
    const CorePlace neighbour{bench.core.chip, core == 2 ? 3u : 2u};
    ASSERT_TRUE(bench.run(NEURON_RELOC_CORE, 8, "peer", neff::kNoTarget, 16));
    EXPECT_EQ(bench.at<uint64_t>(8), neighbour.window() + 16);
    ASSERT_TRUE(bench.run(NEURON_RELOC_SEM_ADDR, 8, "peer:told", 1));
    EXPECT_EQ(bench.at<uint64_t>(8),
              neighbour.window() + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + 9 * 4);
    ASSERT_TRUE(bench.run(NEURON_RELOC_SEMAPHORE, 1, "peer:told", 1));
    EXPECT_EQ(bench.at<uint8_t>(8), 9);
    ASSERT_TRUE(bench.run(NEURON_RELOC_SEM_ADDR, 8, "ready", 0));
    EXPECT_EQ(bench.at<uint64_t>(8),
              bench.core.window() + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + 20 * 4);
  }
}

TEST(Relocation, ACollectiveCoreIsThatOfItsStream) {
  Bench bench;
  bench.graph.operations.resize(2);
  bench.graph.operations[1].stream = 2;
  ASSERT_TRUE(bench.run(NEURON_RELOC_CORE, 8, "cc:2", neff::kNoTarget, 8));
  EXPECT_EQ(bench.at<uint64_t>(8), bench.core.cc_window(2) + 8);
  ASSERT_TRUE(bench.run(NEURON_RELOC_CORE, 8, "cc:0", neff::kNoTarget));
  EXPECT_EQ(bench.at<uint64_t>(8), bench.core.cc_window(0));
  const auto none = bench.run(NEURON_RELOC_CORE, 8, "cc:1", neff::kNoTarget);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().status, NRT_INVALID);
  EXPECT_THAT(none.error().sentence, HasSubstr("on which the program has no collective"));
}

TEST(Relocation, ATriggerSaysForEachEngineHowManyDescriptorsItPushes) {
  Bench bench;
  ASSERT_TRUE(bench.run(NEURON_RELOC_DMA_BLOCK, 0, "5", 0));
  const TriggerCounts& counts = bench.rings.counts(NEURON_ENGINE_SP, bench.program.dma[0]);
  const uint8_t queue = *bench.rings.number(0);
  EXPECT_EQ(bench.at<uint64_t>(NEURON_DMA_TRIGGER_M2S),
            bench.core.queue_register(0, NEURON_UDMA_M2S, queue, NEURON_UDMAQ_TAIL_INC));
  EXPECT_EQ(bench.at<uint64_t>(NEURON_DMA_TRIGGER_S2M),
            bench.core.queue_register(0, NEURON_UDMA_S2M, queue, NEURON_UDMAQ_TAIL_INC));
  EXPECT_EQ(bench.at<uint32_t>(NEURON_DMA_TRIGGER_STRIDE), bench.core.chip->dma_stride);
  EXPECT_EQ(bench.at<uint8_t>(NEURON_DMA_TRIGGER_QUEUE), queue);
  EXPECT_EQ(bench.at<uint32_t>(NEURON_DMA_TRIGGER_BLOCK), 5u);
  uint16_t mask = 0;
  for (uint32_t e = 0; e < kDmaEngines; ++e) {
    EXPECT_EQ(bench.at<uint16_t>(NEURON_DMA_TRIGGER_M2S_COUNT + 2 * e), counts.m2s[e]);
    EXPECT_EQ(bench.at<uint16_t>(NEURON_DMA_TRIGGER_S2M_COUNT + 2 * e), counts.s2m[e]);
    if (counts.m2s[e] != 0) mask = static_cast<uint16_t>(mask | 1u << e);
  }
  EXPECT_NE(mask, 0);
  EXPECT_EQ(bench.at<uint16_t>(NEURON_DMA_TRIGGER_MASK), mask);
}

TEST(Relocation, AQueueIsItsNumberOrTheDoorbellOfOneSide) {
  Bench bench;
  ASSERT_TRUE(bench.run(NEURON_RELOC_QUEUE, 1, "q", 0));
  const uint8_t queue = *bench.rings.number(0);
  EXPECT_EQ(bench.at<uint8_t>(8), queue);
  ASSERT_TRUE(bench.run(NEURON_RELOC_QUEUE, 8, "q", 0, 0));
  EXPECT_EQ(bench.at<uint64_t>(8),
            bench.core.queue_register(0, NEURON_UDMA_M2S, queue, NEURON_UDMAQ_TAIL_INC));
  ASSERT_TRUE(bench.run(NEURON_RELOC_QUEUE, 8, "q", 0, 1));
  EXPECT_EQ(bench.at<uint64_t>(8),
            bench.core.queue_register(0, NEURON_UDMA_S2M, queue, NEURON_UDMAQ_TAIL_INC));
}

TEST(Relocation, AQueueWithoutTransfersHasNoRing) {
  Bench bench;
  bench.graph.queues.resize(2);
  bench.graph.queues[1].name = "idle";
  const auto refused = bench.run(NEURON_RELOC_QUEUE, 1, "idle", 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, NRT_INVALID);
  EXPECT_THAT(refused.error().sentence, HasSubstr("so it has no ring"));
}

TEST(Relocation, RefusesAKindThatItDoesNotKnow) {
  Bench bench;
  const auto refused = bench.run(200, 8, "t", 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, NRT_UNSUPPORTED_NEFF_VERSION);
  EXPECT_THAT(refused.error().sentence, HasSubstr("has a relocation kind that is not known"));
}

}  // namespace
}  // namespace neuron::runtime
