// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/wrapper.h"

#include <gmock/gmock.h>
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

// As text, with what the text does not say of a wait: its slot.
std::vector<std::string> lines_of(const std::vector<isa::Instruction>& code) {
  std::vector<std::string> lines;
  for (const isa::Instruction& instruction : code) {
    lines.push_back(isa::disassemble(instruction));
    if (instruction.wait[1].condition != NEURON_WAIT_NONE) lines.back() += " (second slot)";
  }
  return lines;
}

TEST(Wrapper, SpPreparesALaunchLetsTheEnginesGoAndWaitsForAll) {
  const auto plan = RingPlan::build(graph_with_one_transfer());
  ASSERT_TRUE(plan);
  const std::vector<StreamUse> streams = {{0, 0x003F, 3}, {2, 0xF800, 1}};
  const auto code = make_wrapper({.engine = NEURON_ENGINE_SP,
                                  .main = 5,
                                  .core = {.number = 1},
                                  .launch_record = 0x100000000040,
                                  .semaphores = {20},
                                  .events = {9},
                                  .rings = &*plan,
                                  .streams = streams});
  EXPECT_THAT(
      lines_of(code),
      ::testing::ElementsAre(
          "event engines=SP  wait(s7 >= 1)  then(s7--!)", "load r0, at=0x100000000048, engines=SP",
          "alu r1 = r0 and, s0=0x1 u32, engines=SP", "branch eq, r1, s0=0x0 u32, +10, engines=SP",
          "load r2, at=0x10000000004C, engines=SP", "load r4, at=0x100000000050, engines=SP",
          "load r5, at=0x100000000054, engines=SP",
          "loop r6, start=0x0 u32, end=r2 u32, step=1, length=5, engines=SP",
          "load r8, at=0x0, bind0(dst.base += r4:pair), engines=SP",
          "load r9, at=0x4, bind0(dst.base += r4:pair), engines=SP",
          "load r10, at=0x8, bind0(dst.base += r4:pair), engines=SP",
          "store r10, at=0x0, bind0(dst.base += r8:pair), engines=SP",
          "alu r4 = r4 add, s0=0x10 u32, engines=SP",
          "write at=0xFFFC6701450, stride=4, s0=0x0 u32, engines=SP",
          "load r10, at=0xFFFC6700024, engines=SP", "branch eq, r10, s0=0x0 u32, +2, engines=SP",
          "write at=0xFFFC6700024, stride=4, s0=0x0 u32, engines=SP",
          "write at=0xFFFF07100B0, count=6, stride=262144, s0=0x100 u32, engines=SP",
          "write at=0xFFFF0730064, count=6, stride=262144, s0=0x100 u32, engines=SP",
          "write at=0xFFFF09D00B0, count=5, stride=262144, s0=0x100 u32, engines=SP",
          "write at=0xFFFF09F0064, count=5, stride=262144, s0=0x100 u32, engines=SP",
          "write at=0xFFFF07010B0, count=16, stride=262144, s0=0x100 u32, engines=SP",
          "write at=0xFFFF0721064, count=16, stride=262144, s0=0x100 u32, engines=SP",
          "event engines=SP  then(s0++, s1++)", "event engines=SP  then(s2++, s3++)",
          "call +11, engines=SP", "event engines=SP  wait(s5 >= 4)  then(s5 -= 4!)",
          "event engines=SP  wait(s240 >= 3)  then(s240 -= 3!)",
          "event engines=SP  wait(s242 >= 1)  then(s242 -= 1!)", "complete s0=0x0 u32, engines=SP",
          "branch always, -30, engines=SP"));
}

TEST(Wrapper, EveryOtherEngineWaitsForItsGoAndSaysThatItIsDone) {
  const auto code = make_wrapper({.engine = NEURON_ENGINE_POOL, .main = 1, .core = {}});
  EXPECT_THAT(lines_of(code),
              ::testing::ElementsAre(
                  "event engines=Pool  wait(s2 >= 1)  then(s2--!)", "call +4, engines=Pool",
                  "event drain, engines=Pool  then(s5++)", "branch always, -3, engines=Pool"));
}

}  // namespace
}  // namespace neuron::runtime
