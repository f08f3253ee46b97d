// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/wrapper.h"

#include <gtest/gtest.h>

#include "hw/udma.h"
#include "runtime/rings/descriptor_rings.h"

namespace neuron::runtime {
namespace {

neff::Subgraph graph_with_one_transfer() {
  neff::Subgraph graph;
  graph.variables.resize(2);
  graph.queues.resize(1);
  graph.queues[0].num_queues = 16;
  neff::DmaTransfer transfer;
  transfer.id = 3;
  transfer.semaphore = 20;
  transfer.from.resize(1);
  transfer.from[0].sizes = {512, 1, 1, 1};
  transfer.to = transfer.from[0];
  transfer.to.variable = 1;
  graph.engines[NEURON_ENGINE_SP].dma.push_back(transfer);
  return graph;
}

TEST(Wrapper, IsValidCodeForEveryEngineWithAndWithoutAProgram) {
  const auto plan = RingPlan::build(graph_with_one_transfer());
  ASSERT_TRUE(plan);
  for (uint8_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    for (const bool has_main : {false, true}) {
      WrapperRequest request{.engine = engine,
                             .main = std::nullopt,
                             .core = {.number = 1},
                             .launch_record = 0x100000000040,
                             .semaphores = {20, 21, 40},
                             .rings = &*plan};
      if (has_main) request.main = 2;
      const auto code = make_wrapper(request);
      bool calls = false;
      for (size_t pc = 0; pc < code.size(); ++pc) {
        std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
        isa::encode(code[pc], bytes);
        const isa::Violation violation = isa::check_encoding(bytes, engine, {});
        EXPECT_FALSE(violation) << "engine " << int{engine} << " pc " << pc << ": "
                                << isa::disassemble(code[pc]) << ": " << violation.what;
        if (code[pc].opcode != NEURON_OP_CALL) continue;
        calls = true;
        EXPECT_EQ(pc + code[pc].flow.target, code.size() + 2) << "main is behind the wrapper";
      }
      EXPECT_EQ(calls, has_main);
    }
  }
}

TEST(Wrapper, SpClearsRunsOfSemaphoresAndRewindsBothSidesOfEachQueue) {
  const auto plan = RingPlan::build(graph_with_one_transfer());
  ASSERT_TRUE(plan);
  const auto code = make_wrapper({.engine = NEURON_ENGINE_SP,
                                  .main = std::nullopt,
                                  .core = {},
                                  .launch_record = 0x100000000040,
                                  .semaphores = {20, 21, 40},
                                  .rings = &*plan});
  std::vector<std::pair<uint64_t, int>> writes;
  for (const auto& i : code) {
    if (i.opcode == NEURON_OP_WRITE) writes.emplace_back(i.address.addr, i.address.count);
  }
  const uint64_t set = 0xFFFC0000000ull + 0x2700000 + 0x1400;
  const std::vector<std::pair<uint64_t, int>> expected = {
      {set + 80, 2}, {set + 160, 1}, {0xFFFF00010B0ull, 16}, {0xFFFF0021064ull, 16}};
  EXPECT_EQ(writes, expected);
}

TEST(Wrapper, SpOfAModelWithoutTransfersDoesNoMoreThanNeeded) {
  const RingPlan none;
  const auto code = make_wrapper({.engine = NEURON_ENGINE_SP,
                                  .main = std::nullopt,
                                  .core = {},
                                  .launch_record = 64,
                                  .semaphores = {},
                                  .rings = &none});
  EXPECT_EQ(code.size(), 6u) << "wait, two go, done, complete, branch";
}

}  // namespace
}  // namespace neuron::runtime
