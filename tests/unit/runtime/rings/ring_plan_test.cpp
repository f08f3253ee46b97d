// SPDX-License-Identifier: Apache-2.0
#include "runtime/rings/ring_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "hw/udma.h"
#include "tests/unit/runtime/rings/calling_program.h"
#include "tests/unit/runtime/rings/ring_sample.h"

namespace neuron::runtime {
namespace {

neff::Subgraph graph(const neff::DmaAccess& from, const neff::DmaAccess& to,
                     uint32_t engines = 16) {
  return test::one_transfer(from, to, engines);
}

neff::DmaAccess access(std::array<uint64_t, 4> sizes, std::array<int64_t, 4> steps,
                       uint64_t offset = 0) {
  neff::DmaAccess result;
  result.offset = offset;
  result.dimensions = 4;
  result.sizes = sizes;
  result.steps = steps;
  return result;
}

// The bytes that a side names, in order.
std::vector<uint64_t> bytes_of(const neff::DmaAccess& a) {
  std::vector<uint64_t> result;
  for (uint64_t i3 = 0; i3 < a.sizes[3]; ++i3) {
    for (uint64_t i2 = 0; i2 < a.sizes[2]; ++i2) {
      for (uint64_t i1 = 0; i1 < a.sizes[1]; ++i1) {
        for (uint64_t i0 = 0; i0 < a.sizes[0]; ++i0) {
          result.push_back(a.offset + i0 + i1 * a.steps[1] + i2 * a.steps[2] + i3 * a.steps[3]);
        }
      }
    }
  }
  return result;
}

TEST(RingPlan, MovesEveryByteOnceFromAndToWhereTheAccessPatternsSay) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const uint64_t a = 1 + random() % 6, b = 1 + random() % 5, c = 1 + random() % 4,
                   d = 1 + random() % 3;
    const auto from = access({a * b, c, d, 1}, {1, 100, -700, 0}, 5000);
    const auto to = access({a, b * c, d, 1}, {1, 40, 3000, 0}, 11);
    const auto plan = RingPlan::build(graph(from, to, 1 + random() % 16));
    ASSERT_TRUE(plan) << plan.error().sentence;
    std::vector<uint64_t> sources, targets;
    for (const RingPair& ring : plan->queues()[0].rings) {
      ASSERT_EQ(ring.m2s.size(), ring.s2m.size());
      for (size_t d = 0; d < ring.m2s.size(); ++d) {
        if (ring.m2s[d].base == plan->one_index()) continue;
        EXPECT_TRUE(ring.m2s[d].first && ring.m2s[d].last);
        for (uint32_t i = 0; i < ring.m2s[d].length; ++i) {
          sources.push_back(ring.m2s[d].offset + i);
          targets.push_back(ring.s2m[d].offset + i);
        }
      }
    }
    EXPECT_EQ(sources, bytes_of(from));
    EXPECT_EQ(targets, bytes_of(to));
  }
}

TEST(RingPlan, EveryEngineEndsWithTheSemaphoreBehindABarrier) {
  const auto rows = access({64, 20, 1, 1}, {1, 64, 0, 0});
  const neff::Subgraph subgraph = graph(rows, rows);
  const auto plan = RingPlan::build(subgraph);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->queues().size(), 1u);
  const QueuePlan& queue = plan->queues()[0];
  const neff::DmaTransfer& transfer = subgraph.engines[NEURON_ENGINE_SP].dma[0];
  uint32_t data = 0;
  for (uint32_t e = 0; e < kDmaEngines; ++e) {
    const RingPair& ring = queue.rings[e];
    ASSERT_FALSE(ring.m2s.empty());
    EXPECT_EQ(ring.m2s.back().base, plan->one_index());
    EXPECT_EQ(ring.s2m.back().base, plan->semaphore_index());
    EXPECT_EQ(ring.s2m.back().offset, 33u * 4);
    EXPECT_EQ(ring.m2s.back().length, 4u);
    EXPECT_TRUE(ring.m2s.size() == 1 ? ring.m2s.back().barrier
                                     : ring.m2s[ring.m2s.size() - 2].barrier);
    EXPECT_EQ(plan->counts(NEURON_ENGINE_SP, transfer).m2s[e], ring.m2s.size());
    EXPECT_EQ(plan->counts(NEURON_ENGINE_SP, transfer).s2m[e], ring.s2m.size());
    data += static_cast<uint32_t>(ring.m2s.size()) - 1;
  }
  EXPECT_EQ(data, 20u);
  EXPECT_EQ(plan->counts(NEURON_ENGINE_PE, transfer).m2s[0], 0) << "block ids belong to an engine";
}

TEST(RingPlan, CutsLongRunsAt64KiB) {
  const auto run = access({200'000, 1, 1, 1}, {1, 0, 0, 0});
  const auto plan = RingPlan::build(graph(run, run, 1));
  ASSERT_TRUE(plan);
  const auto& sources = plan->queues()[0].rings[0].m2s;
  ASSERT_EQ(sources.size(), 5u);
  EXPECT_EQ(sources[0].length, 65536u);
  EXPECT_EQ(sources[3].length, 200'000u - 3 * 65536);
}

TEST(RingPlan, RingsAreLongerThanWhatTheyHold) {
  for (const uint64_t rows : {1, 30, 31, 32, 47, 48, 1000}) {
    const auto access_rows = access({4, rows, 1, 1}, {1, 4, 0, 0});
    const auto plan = RingPlan::build(graph(access_rows, access_rows, 1));
    ASSERT_TRUE(plan);
    const RingPair& ring = plan->queues()[0].rings[0];
    EXPECT_GT(ring.m2s_length, ring.m2s.size());
    EXPECT_EQ(ring.m2s_length % 16, 0u);
    EXPECT_GE(ring.m2s_length, 32u);
    EXPECT_EQ(ring.s2m_length, ring.m2s_length);
  }
}

TEST(RingPlan, RefusesWhatOneTriggerCannotStandFor) {
  const auto few = access({4, 2, 1, 1}, {1, 4, 0, 0});
  const auto more = access({4, 300, 1, 1}, {1, 4, 0, 0});
  neff::Subgraph two = graph(few, few);
  neff::DmaTransfer other = two.engines[NEURON_ENGINE_SP].dma[0];
  other.from = {more};
  other.to.sizes = more.sizes;
  two.engines[NEURON_ENGINE_SP].dma.push_back(other);
  const auto plan = RingPlan::build(two);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().status, NRT_INVALID);
  EXPECT_NE(plan.error().sentence.find("id 7 of engine SP"), std::string::npos);
}

TEST(RingPlan, RefusesHugeTransfersBeforeItMakesThem) {
  const auto huge = access({1, 1u << 20, 1u << 10, 1}, {1, 2, 1 << 21, 0});
  const auto plan = RingPlan::build(graph(huge, huge));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().status, NRT_RESOURCE);
}

// Elements of three bytes are moved one by one: a billion of them, and a trigger pushes 65,535.
TEST(RingPlan, RefusesATransposeOfManyOddElementsBeforeItMakesThem) {
  const auto all = access({3ull << 30, 1, 1, 1}, {1, 0, 0, 0});
  neff::Subgraph g = graph(all, all);
  neff::DmaTransfer& transfer = g.engines[NEURON_ENGINE_SP].dma[0];
  transfer.operation = neff::DmaOperation::kTranspose;
  transfer.transpose_shape = {1, 1u << 15, 1u << 15, 3};
  transfer.transpose_element_bytes = 1;
  const auto plan = RingPlan::build(g);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().status, NRT_RESOURCE);
  EXPECT_NE(plan.error().sentence.find("needs more than 2097120 DMA descriptors"),
            std::string::npos)
      << plan.error().sentence;
}

TEST(RingPlan, RefusesRingsWhoseEmptySlotsNeedTooMuchMemory) {
  const auto row = access({4, 1, 1, 1}, {1, 0, 0, 0});
  const auto with_dynamic_sets = [&](int sets) {
    neff::Subgraph g = graph(row, row, 1);
    neff::QueueSet dynamic = g.queues[0];
    dynamic.kind = neff::QueueKind::kDynamic;
    dynamic.num_queues = 16;
    dynamic.ring_descriptors = 1u << 19;
    g.queues.insert(g.queues.end(), sets, dynamic);
    return RingPlan::build(g);
  };
  EXPECT_TRUE(with_dynamic_sets(1));
  const auto plan = with_dynamic_sets(2);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().status, NRT_INVALID);
  EXPECT_NE(plan.error().sentence.find("33554496 slots in all"), std::string::npos)
      << plan.error().sentence;
}

TEST(RingPlan, AnEventIsSetOnceBehindAllOfItsTransfer) {
  const auto rows = access({64, 20, 1, 1}, {1, 64, 0, 0});
  neff::Subgraph g = graph(rows, rows);
  g.engines[NEURON_ENGINE_SP].dma[0].event = 3;
  const auto plan = RingPlan::build(g);
  ASSERT_TRUE(plan) << plan.error().sentence;
  const QueuePlan& queue = plan->queues()[0];
  ASSERT_EQ(queue.rings[0].s2m.size(), 22u) << "all rows, the semaphore, the event";
  EXPECT_EQ(queue.rings[0].s2m.back().base, plan->event_index());
  EXPECT_EQ(queue.rings[0].s2m.back().offset, 12u);
  EXPECT_TRUE(queue.rings[0].m2s[19].barrier);
  for (uint32_t e = 1; e < kDmaEngines; ++e) EXPECT_EQ(queue.rings[e].s2m.size(), 1u);
}

TEST(RingPlan, ASectionStartGoesToTheFirstQueueOfItsSet) {
  const auto rows = access({64, 20, 1, 1}, {1, 64, 0, 0});
  neff::Subgraph g = graph(rows, rows);
  g.engines[NEURON_ENGINE_SP].dma[0].starts_section = true;
  const auto plan = RingPlan::build(g);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->queues()[0].rings[0].s2m.size(), 21u);
  EXPECT_EQ(plan->queues()[0].rings[1].s2m.size(), 1u) << "the semaphore is everyone's";
}

TEST(RingPlan, EveryPacketOfATransferHasItsClassOfService) {
  const auto rows = access({64, 20, 1, 1}, {1, 64, 0, 0});
  for (const bool computes : {false, true}) {
    neff::Subgraph g = graph(rows, rows);
    neff::DmaTransfer& transfer = g.engines[NEURON_ENGINE_SP].dma[0];
    transfer.priority = 3;
    if (computes) {
      transfer.operation = neff::DmaOperation::kCast;
      transfer.from[0].dtype = transfer.to.dtype = NEURON_DTYPE_F32;
    }
    const auto plan = RingPlan::build(g);
    ASSERT_TRUE(plan) << plan.error().sentence;
    for (const RingDescriptor& d : plan->queues()[0].rings[0].m2s) {
      EXPECT_EQ(d.priority, d.first ? 3 : 0) << "the semaphore's, too";
    }
  }
}

TEST(RingPlan, SemaphoresOfTheQueueSetServeTransfersThatNameNone) {
  const auto rows = access({64, 4, 1, 1}, {1, 64, 0, 0});
  neff::Subgraph g = graph(rows, rows, 2);
  g.engines[NEURON_ENGINE_SP].dma[0].semaphore.reset();
  EXPECT_EQ(RingPlan::build(g)->queues()[0].rings[0].s2m.size(), 2u) << "nobody is told";
  g.queues[0].semaphore = 40;
  EXPECT_EQ(RingPlan::build(g)->queues()[0].rings[1].s2m.back().offset, 160u);
  g.queues[0].semaphore.reset();
  g.queues[0].semaphore_set = {41, 42};
  EXPECT_EQ(RingPlan::build(g)->queues()[0].rings[0].s2m.back().offset, 164u);
  EXPECT_EQ(RingPlan::build(g)->queues()[0].rings[1].s2m.back().offset, 168u);
  g.engines[NEURON_ENGINE_SP].dma[0].semaphore = 50;
  EXPECT_EQ(RingPlan::build(g)->queues()[0].rings[1].s2m.back().offset, 200u);
}

TEST(RingPlan, InstancesAndFunctionsHaveHardwareQueuesOfTheirOwn) {
  const auto rows = access({64, 3, 1, 1}, {1, 64, 0, 0});
  neff::Subgraph g = graph(rows, rows, 2);
  neff::EngineProgram& sp = g.engines[NEURON_ENGINE_SP];
  sp.entries = {{"main", 0, 1, NEURON_ENTRY_MAIN}, {"late", 1, 1, NEURON_ENTRY_FUNCTION}};
  g.queues[0].name = "rows";
  g.queues[0].instances = {"other"};
  sp.dma.push_back(sp.dma[0]);
  sp.dma[1].instance = "other";
  sp.dma.push_back(sp.dma[0]);
  sp.dma[2].function = 1;
  g.queues.push_back(g.queues[0]);
  g.queues[1].kind = neff::QueueKind::kDynamic;
  g.queues[1].ring_descriptors = 2048;
  g.queues[1].num_queues = 16;
  const auto plan = RingPlan::build(g);
  ASSERT_TRUE(plan) << plan.error().sentence;
  ASSERT_EQ(plan->queues().size(), 4u);
  EXPECT_EQ(plan->number(0), 0);
  EXPECT_EQ(plan->number(1), 1);
  EXPECT_EQ(plan->number(NEURON_ENGINE_SP, sp.dma[0]), 0);
  EXPECT_EQ(plan->number(NEURON_ENGINE_SP, sp.dma[1]), 2);
  EXPECT_EQ(plan->number(NEURON_ENGINE_SP, sp.dma[2]), 3);
  EXPECT_TRUE(plan->queues()[1].dynamic);
  EXPECT_EQ(plan->queues()[1].rings[15].s2m_length, 2048u);
  EXPECT_EQ(plan->queues()[0].name, "rows");
  EXPECT_EQ(plan->queues()[2].name, "rows, instance other");
  EXPECT_EQ(plan->queues()[3].name, "rows, function late of SP");
}

TEST(RingPlan, AFunctionsRingEndsWhereACallEnds) {
  for (const uint64_t rows : {1, 2, 3, 8, 15, 31, 400}) {
    const auto side = access({4, rows, 1, 1}, {1, 8, 0, 0});
    neff::Subgraph g = graph(side, side, 1);
    g.engines[NEURON_ENGINE_SP].entries = {{"main", 0, 1, NEURON_ENTRY_MAIN},
                                           {"late", 1, 1, NEURON_ENTRY_FUNCTION}};
    g.engines[NEURON_ENGINE_SP].dma[0].function = 1;
    const auto plan = RingPlan::build(g);
    ASSERT_TRUE(plan);
    const RingPair& ring = plan->queues()[0].rings[0];
    EXPECT_EQ(ring.m2s_length, ring.m2s.size() * ring.m2s_copies);
    EXPECT_EQ(ring.m2s_length % 16, 0u);
    EXPECT_GE(ring.m2s_length, 32u);
    EXPECT_GE(ring.m2s_copies, 4u);
  }
}

// So many functions of SP with a transfer each, each with rows of its own; each calls the one
// before it if they are nested.
neff::Subgraph functions(uint32_t count, bool nested = false) {
  neff::Subgraph g;
  test::CallingProgram sample;
  for (uint32_t f = 1; f <= count; ++f) sample.call(f);
  sample.add(NEURON_OP_RET);
  for (uint32_t f = 1; f <= count; ++f) {
    sample.function("f" + std::to_string(f),
                    nested && f > 1 ? std::vector<uint32_t>{f - 1} : std::vector<uint32_t>{});
  }
  std::vector<neff::DmaTransfer> transfers;
  for (uint32_t f = 0; f <= count; ++f) {
    const auto rows = access({64, 1 + 7 * f, 1, 1}, {1, 64, 0, 0});
    g = graph(rows, rows, 16);
    transfers.push_back(g.engines[NEURON_ENGINE_SP].dma[0]);
    transfers.back().id = 100 + f;
    if (f != 0) transfers.back().function = f;
  }
  g.engines[NEURON_ENGINE_SP] = sample.take();
  g.engines[NEURON_ENGINE_SP].dma = std::move(transfers);
  for (uint8_t e = 0; e < NEURON_CORE_ENGINES; ++e) g.engines[e].engine = e;
  return g;
}

TEST(RingPlan, FunctionsShareAQueueOnlyIfACoreHasTooFew) {
  const auto plan = RingPlan::build(functions(13));
  ASSERT_TRUE(plan) << plan.error().sentence;
  EXPECT_EQ(plan->queues().size(), 14u);
  EXPECT_FALSE(plan->shares());
  const auto shared = RingPlan::build(functions(14));
  ASSERT_TRUE(shared) << shared.error().sentence;
  EXPECT_EQ(shared->queues().size(), 2u);
  EXPECT_TRUE(shared->shares());
}

TEST(RingPlan, ASharedQueueHasTheRingsOfItsFunctionsOneBehindTheOther) {
  const neff::Subgraph g = functions(40);
  const neff::EngineProgram& sp = g.engines[NEURON_ENGINE_SP];
  const auto plan = RingPlan::build(g);
  ASSERT_TRUE(plan) << plan.error().sentence;
  ASSERT_EQ(plan->queues().size(), 2u);
  const QueuePlan& queue = plan->queues()[1];
  EXPECT_TRUE(queue.shared);
  EXPECT_EQ(queue.name, "functions of SP");
  EXPECT_EQ(queue.number, 1);
  ASSERT_EQ(plan->sharing(NEURON_ENGINE_SP).size(), 40u);
  std::vector<std::pair<uint64_t, uint64_t>> taken;  // bytes of all rings
  for (uint32_t f = 0; f < 40; ++f) {
    const SharingFunction& function = plan->sharing(NEURON_ENGINE_SP)[f];
    const neff::DmaTransfer& transfer = sp.dma[f + 1];
    EXPECT_EQ(function.pc, sp.entries[f + 1].pc);
    EXPECT_EQ(function.calls, std::vector<uint32_t>{f}) << "in main";
    EXPECT_EQ(plan->number(NEURON_ENGINE_SP, transfer), 1);
    ASSERT_EQ(function.rings.size(), 1u);
    const SharedRing& ring = function.rings[0];
    EXPECT_EQ(ring.number, 1);
    EXPECT_EQ(ring.engines, 16);
    for (uint32_t e = 0; e < 16; ++e) {
      for (const uint32_t side : {0u, 1u}) {
        const uint64_t begin = ring.offset[e][side];
        EXPECT_EQ(begin % NEURON_UDMA_RING_ALIGN, 0u);
        const auto& all = side == 0 ? queue.rings[e].m2s : queue.rings[e].s2m;
        const uint64_t of_queue = side == 0 ? queue.rings[e].m2s_offset : queue.rings[e].s2m_offset;
        const uint64_t first = (begin - of_queue) / NEURON_DESC_BYTES;
        const uint16_t count = plan->counts(NEURON_ENGINE_SP, transfer).m2s[e];
        ASSERT_LE(first + count, all.size());
        for (uint64_t d = first; d < first + count; ++d) {
          EXPECT_NE(all[d].base, RingDescriptor::kEmpty);
        }
        EXPECT_EQ(all[first + count - 1].length, 4u) << "the semaphore's";
        taken.emplace_back(begin, begin + count * uint64_t{NEURON_DESC_BYTES});
      }
    }
  }
  std::sort(taken.begin(), taken.end());
  for (size_t i = 1; i < taken.size(); ++i) EXPECT_LE(taken[i - 1].second, taken[i].first);
  EXPECT_LE(taken.back().second, plan->m2s_bytes() + plan->s2m_bytes());
}

TEST(RingPlan, FunctionsThatCallEachOtherHaveDifferentQueues) {
  const neff::Subgraph g = functions(14, true);
  const auto refused = RingPlan::build(g);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().sentence.find("needs 15 DMA queues: 1 for"), std::string::npos)
      << refused.error().sentence;
  neff::Subgraph less = functions(40, true);
  // Every fifth calls nobody.
  test::CallingProgram sample;
  sample.add(NEURON_OP_RET);
  for (uint32_t f = 1; f <= 40; ++f) {
    sample.function("f", f % 5 != 0 ? std::vector<uint32_t>{f + 1} : std::vector<uint32_t>{});
  }
  auto transfers = std::move(less.engines[NEURON_ENGINE_SP].dma);
  less.engines[NEURON_ENGINE_SP] = sample.take();
  less.engines[NEURON_ENGINE_SP].dma = std::move(transfers);
  const auto plan = RingPlan::build(less);
  ASSERT_TRUE(plan) << plan.error().sentence;
  EXPECT_EQ(plan->queues().size(), 6u);
  for (uint32_t f = 1; f <= 40; ++f) {
    const auto& transfer = less.engines[NEURON_ENGINE_SP].dma[f];
    EXPECT_EQ(plan->number(NEURON_ENGINE_SP, transfer), 1 + (40 - f) % 5) << "function " << f;
  }
  EXPECT_EQ(plan->queues()[2].name, "functions of SP, queue 2");
}

TEST(RingPlan, AFunctionThatCallsItselfKeepsAQueueOfItsOwn) {
  neff::Subgraph g = functions(14);
  test::CallingProgram sample;
  sample.add(NEURON_OP_RET);
  for (uint32_t f = 1; f <= 14; ++f) {
    sample.function("f" + std::to_string(f),
                    f == 9 ? std::vector<uint32_t>{9} : std::vector<uint32_t>{});
  }
  auto transfers = std::move(g.engines[NEURON_ENGINE_SP].dma);
  g.engines[NEURON_ENGINE_SP] = sample.take();
  g.engines[NEURON_ENGINE_SP].dma = std::move(transfers);
  const auto plan = RingPlan::build(g);
  ASSERT_TRUE(plan) << plan.error().sentence;
  ASSERT_EQ(plan->queues().size(), 3u);
  EXPECT_EQ(plan->number(NEURON_ENGINE_SP, g.engines[NEURON_ENGINE_SP].dma[9]), 1);
  EXPECT_FALSE(plan->queues()[1].shared);
  EXPECT_NE(plan->queues()[1].name.find("function f9 of SP"), std::string::npos);
  EXPECT_GE(plan->queues()[1].rings[0].m2s_copies, 4u);
}

TEST(RingPlan, AFunctionWithTwoQueueSetsHasTwoRingsOnDifferentQueues) {
  neff::Subgraph g = functions(10);
  g.queues.push_back(g.queues[0]);
  g.queues[1].name = "second";
  g.queues[1].num_queues = 3;
  neff::EngineProgram& sp = g.engines[NEURON_ENGINE_SP];
  for (uint32_t f = 1; f <= 10; ++f) {
    sp.dma.push_back(sp.dma[f]);
    sp.dma.back().queue = 1;
    sp.dma.back().id = 200 + f;
  }
  const auto plan = RingPlan::build(g);
  ASSERT_TRUE(plan) << plan.error().sentence;
  ASSERT_EQ(plan->queues().size(), 3u);
  for (const SharingFunction& function : plan->sharing(NEURON_ENGINE_SP)) {
    ASSERT_EQ(function.rings.size(), 2u);
    EXPECT_EQ(function.rings[0].number, 1);
    EXPECT_EQ(function.rings[0].engines, 16);
    EXPECT_EQ(function.rings[1].number, 2);
    EXPECT_EQ(function.rings[1].engines, 3);
  }
  EXPECT_EQ(plan->queues()[2].engines, 3);
  EXPECT_EQ(plan->number(NEURON_ENGINE_SP, sp.dma.back()), 2);
}

TEST(RingPlan, SemaphoresOfTheOtherCoreComeBehindTheDataOfEveryEngine) {
  const auto rows = access({64, 20, 1, 1}, {1, 64, 0, 0});
  for (const bool has_own : {true, false}) {
    neff::Subgraph g = graph(rows, rows);
    neff::DmaTransfer& transfer = g.engines[NEURON_ENGINE_SP].dma[0];
    transfer.remote_semaphores = {9, 15};
    if (!has_own) transfer.semaphore.reset();
    const auto plan = RingPlan::build(g);
    ASSERT_TRUE(plan) << plan.error().sentence;
    for (const RingPair& ring : plan->queues()[0].rings) {
      const size_t words = has_own ? 3 : 2;
      ASSERT_GE(ring.s2m.size(), words);
      const size_t n = ring.s2m.size() - 2;
      EXPECT_EQ(ring.s2m[n].base, plan->peer_semaphore_index());
      EXPECT_EQ(ring.s2m[n].offset, 9u * 4);
      EXPECT_EQ(ring.s2m[n + 1].base, plan->peer_semaphore_index());
      EXPECT_EQ(ring.s2m[n + 1].offset, 15u * 4);
      // The last packet of the data is a barrier; an engine without data has one in its words.
      const size_t data = ring.m2s.size() - words;
      EXPECT_TRUE(ring.m2s[data == 0 ? 0 : data - 1].barrier);
    }
  }
}

TEST(RingPlan, NamesWhatItDoesNotRun) {
  const auto row = access({4, 1, 1, 1}, {1, 0, 0, 0});
  const auto refused = [&](auto&& change, NRT_STATUS status, const char* words) {
    neff::Subgraph g = graph(row, row);
    change(g, g.engines[NEURON_ENGINE_SP].dma[0]);
    const auto plan = RingPlan::build(g);
    ASSERT_FALSE(plan) << words;
    EXPECT_EQ(plan.error().status, status);
    EXPECT_NE(plan.error().sentence.find(words), std::string::npos) << plan.error().sentence;
  };
  refused([](auto& g, auto&) { g.queues[0].kind = neff::QueueKind::kDynamic; }, NRT_INVALID,
          "which is dynamic: the program makes its descriptors");
  refused(
      [](auto&, auto& t) {
        t.operation = neff::DmaOperation::kCast;
        t.from[0].dtype = NEURON_DTYPE_E8M0;
      },
      NRT_UNSUPPORTED_NEFF_VERSION, "transfer 7 of engine SP is of type float8e8m0");
  refused(
      [](auto&, auto& t) {
        t.operation = neff::DmaOperation::kMax;
        t.constant_dtype = NEURON_DTYPE_I32;
        t.constant = 0x7FFFFFFF;
      },
      NRT_UNSUPPORTED_NEFF_VERSION, "the constant 2147483647");
  refused([](auto& g, auto& t) { g.engines[NEURON_ENGINE_PE].dma.push_back(t); }, NRT_INVALID,
          "holds transfers of PE and of SP");
  refused(
      [](auto& g, auto&) {
        g.queues.resize(15, g.queues[0]);
        for (uint32_t q = 1; q < 15; ++q) {
          auto transfer = g.engines[NEURON_ENGINE_SP].dma[0];
          transfer.queue = q;
          transfer.id = 100 + q;
          g.engines[NEURON_ENGINE_SP].dma.push_back(transfer);
        }
      },
      NRT_INVALID, "needs 15 DMA rings");
}

}  // namespace
}  // namespace neuron::runtime
