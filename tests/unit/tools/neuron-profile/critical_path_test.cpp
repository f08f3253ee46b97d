// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/critical_path.h"

#include <ccom/ccom_device.h>
#include <gtest/gtest.h>

#include "tools/neuron-profile/analysis/busy_time.h"
#include "tools/neuron-profile/analysis/findings.h"

namespace neuron::profile {
namespace {

constexpr uint8_t kSync = NEURON_ENGINE_SP, kVector = NEURON_ENGINE_DVE, kTensor = NEURON_ENGINE_PE;

InstructionEvent run(uint8_t engine, uint32_t pc, uint64_t begin, uint64_t end,
                     uint16_t opcode = NEURON_OP_TENSOR_COPY) {
  return {.begin = begin, .end = end, .pc = pc, .opcode = opcode, .engine = engine};
}
InstructionEvent waited(InstructionEvent event, uint64_t wait, uint32_t cell) {
  event.wait = wait;
  event.wait_end = event.begin;
  event.wait_cell = cell;
  return event;
}

// A load, a copy on Vector that waits for it, a product on Tensor that waits for the copy, and the
// end on Sync. Another copy on Vector runs beside and is on no path.
Timeline chain() {
  Timeline t;
  auto& sync = t.instructions[kSync];
  sync.push_back(run(kSync, 0, 0, 100, NEURON_OP_DMA_TRIGGER));
  t.transfers[3].push_back({.begin = 1400,
                            .end = 2400,
                            .bytes = 4096,
                            .pc = 0,
                            .opcode = NEURON_OP_DMA_TRIGGER,
                            .trigger = kSync,
                            .dma_engine = 3,
                            .queue = 1,
                            .descriptors = 2,
                            .reads = 1,
                            .writes = 2});
  t.updates[20].push_back({.time = 2400,
                           .cell = 20,
                           .before = 0,
                           .after = 16,
                           .source = NEURON_ENGINE_DMA,
                           .dma_engine = 3,
                           .queue = 1});
  t.instructions[kVector].push_back(waited(run(kVector, 5, 2450, 3450), 2000, 20));
  t.updates[21].push_back(
      {.time = 3450, .cell = 21, .before = 0, .after = 1, .pc = 5, .source = kVector});
  t.instructions[kVector].push_back(run(kVector, 6, 3450, 3460));
  t.instructions[kTensor].push_back(waited(run(kTensor, 7, 3500, 4000), 3400, 21));
  t.updates[5].push_back(
      {.time = 4000, .cell = 5, .before = 0, .after = 1, .pc = 7, .source = kTensor});
  sync.push_back(waited(run(kSync, 1, 4050, 4100, NEURON_OP_COMPLETE), 3900, 5));
  return t;
}

uint64_t of(const CriticalPath& path, StepKind kind) {
  return path.by_kind[static_cast<size_t>(kind)];
}

TEST(CriticalPathTest, FollowsSemaphoresAndTransfersToTheBeginningAndSharesOutEveryPicosecond) {
  const CriticalPath path = critical_path(chain(), Program{}, {}, 4100);
  EXPECT_EQ(path.unexplained, 0u);
  EXPECT_EQ(of(path, StepKind::kTransfer), 1000u);
  EXPECT_EQ(of(path, StepKind::kDmaStart), 1400u);
  EXPECT_EQ(of(path, StepKind::kSemaphore), 150u);
  EXPECT_EQ(path.by_engine[kVector], 1000u) << "the second copy is not on the path";
  EXPECT_EQ(path.by_engine[kTensor], 500u);
  EXPECT_EQ(of(path, StepKind::kIssue), 50u);
  uint64_t sum = 0, at = 0;
  for (const Step& step : path.steps) {
    EXPECT_EQ(step.begin, at);
    at = step.end;
    sum += step.time();
  }
  EXPECT_EQ(sum, 4100u);
  EXPECT_EQ(path.steps.front().kind, StepKind::kDmaStart);
}

TEST(CriticalPathTest, ATransferBehindAnotherOfItsEngineWaitsForThatOne) {
  Timeline t = chain();
  // Until 1400 the DMA engine worked for another trigger, which rang at 50.
  t.instructions[kVector].insert(t.instructions[kVector].begin(),
                                 run(kVector, 2, 50, 60, NEURON_OP_DMA_TRIGGER));
  TransferEvent before = t.transfers[3][0];
  before.begin = 1350;
  before.end = 1400;
  before.pc = 2;
  before.trigger = kVector;
  before.queue = 2;
  t.transfers[3].insert(t.transfers[3].begin(), before);
  const CriticalPath path = critical_path(t, Program{}, {}, 4100);
  EXPECT_EQ(of(path, StepKind::kTransfer), 1050u);
  EXPECT_EQ(of(path, StepKind::kDmaStart), 1300u);
  EXPECT_EQ(path.unexplained, 50u) << "nothing is known before the first instruction of Vector";
}

TEST(CriticalPathTest, EndsWhereAnEventIsMissingAndSaysHowMuchIsUnexplained) {
  Timeline t = chain();
  t.transfers[3].clear();
  const CriticalPath path = critical_path(t, Program{}, {}, 4100);
  EXPECT_EQ(path.unexplained, 2400u);
}

TEST(CriticalPathTest, AWaitThatACollectiveCoreEndsIsNoTimeOfTheEngineIfNothingIsKnownOfThatCore) {
  Timeline t = chain();
  t.updates[21][0].source = NEURON_ENGINE_CC;
  t.instructions[kTensor].insert(t.instructions[kTensor].begin(), run(kTensor, 6, 100, 200));
  const CriticalPath path = critical_path(t, Program{}, {}, 4100);
  EXPECT_EQ(of(path, StepKind::kOutside), 3250u);
  EXPECT_EQ(path.by_engine[kTensor], 600u);
  EXPECT_EQ(path.by_engine[kVector], 0u);
  EXPECT_EQ(path.unexplained, 100u);
}

// A CC core whose collective Sync begins with pc 8 at 2400: it sends to rank 3, waits for data of
// rank 3 until 3000, reduces it by DMA until 3600, and tells Tensor at 3700.
struct OfCollective {
  Timeline timeline = chain();
  Program program;
  Collectives collectives;

  OfCollective() {
    using ntff::StreamNote;
    using ntff::StreamWait;
    Stream stream;
    stream.collectives.push_back({.name = "all_reduce", .ranks = {0, 3}});
    const StreamWait none, go{.wait = CCOM_DEVICE_WAIT_GO, .semaphore = 0},
        arrival{.wait = CCOM_DEVICE_WAIT_ARRIVAL, .peer = 3, .semaphore = 32, .bytes = 512},
        own{.wait = CCOM_DEVICE_WAIT_TRANSFER, .semaphore = 16};
    stream.notes = {StreamNote{.action = CCOM_DEVICE_SEND, .wait = CCOM_DEVICE_WAIT_GO, .peer = 3},
                    StreamNote{.action = CCOM_DEVICE_REDUCE, .wait = CCOM_DEVICE_WAIT_ARRIVAL},
                    // It waits for rank 3, too, but that held long before.
                    StreamNote{.action = CCOM_DEVICE_DONE, .wait = CCOM_DEVICE_WAIT_ARRIVAL}};
    stream.waits = {go, none, arrival, none, arrival, own};
    program.streams.push_back(std::move(stream));
    timeline.instructions[kSync].insert(timeline.instructions[kSync].begin() + 1,
                                        run(kSync, 8, 2400, 2440, NEURON_OP_CC_TRIGGER));
    timeline.streams[0] = {
        {.begin = 2450, .end = 2460, .wait = 2450, .wait_end = 2450, .wait_cell = 0, .pc = 0},
        {.begin = 3000, .end = 3010, .wait = 540, .wait_end = 3000, .wait_cell = 32, .pc = 1},
        {.begin = 3650, .end = 3700, .wait = 640, .wait_end = 3650, .wait_cell = 16, .pc = 2}};
    timeline.transfers[5].push_back({.begin = 3100,
                                     .end = 3600,
                                     .bytes = 512,
                                     .pc = 1,
                                     .trigger = NEURON_ENGINE_CC,
                                     .dma_engine = 5,
                                     .queue = 15,
                                     .descriptors = 1,
                                     .writes = 1,
                                     .stream = 0});
    timeline.updates[21][0] = {
        .time = 3690, .cell = 21, .before = 0, .after = 1, .source = NEURON_ENGINE_CC};
    timeline.instructions[kTensor][0] = waited(run(kTensor, 7, 3740, 4000), 3640, 21);
    timeline.updates[5][0].time = 4000;
    collectives.runs.push_back(
        {.stream = 0, .begin = 2450, .end = 3700, .trigger = Trigger{kSync, 8, 2400}});
    collectives.runs_of_stream[0] = {0};
  }
  CriticalPath path() const { return critical_path(timeline, program, collectives, 4100); }
};

TEST(CriticalPathTest, GoesThroughACollectiveToTheInstructionThatBeganIt) {
  const CriticalPath path = OfCollective().path();
  EXPECT_EQ(of(path, StepKind::kPeer), 540u);
  EXPECT_EQ(of(path, StepKind::kTransfer), 500u) << "the reduction, and nothing in front of 2400";
  EXPECT_EQ(of(path, StepKind::kDmaStart), 100u);
  EXPECT_EQ(of(path, StepKind::kCollective), 40u + 50u + 10u);
  EXPECT_EQ(of(path, StepKind::kOutside), 0u);
  EXPECT_EQ(path.by_engine[kSync], 40u + 2400u) << "the trigger, and the instruction before it";
  std::vector<std::pair<StepKind, uint64_t>> of_rank;
  for (const Step& step : path.steps) {
    if (step.peer == 3) of_rank.emplace_back(step.kind, step.bytes);
  }
  EXPECT_EQ(of_rank, (std::vector<std::pair<StepKind, uint64_t>>{{StepKind::kPeer, 512}}));
  uint64_t at = path.unexplained;
  for (const Step& step : path.steps) {
    EXPECT_EQ(step.begin, at);
    at = step.end;
  }
  EXPECT_EQ(at, 4100u);
}

TEST(CriticalPathTest, SaysOfACollectiveWhoseTriggerIsNotKnownThatSomebodyElseBeganIt) {
  OfCollective one;
  one.collectives.runs[0].trigger.reset();
  const CriticalPath path = one.path();
  EXPECT_EQ(of(path, StepKind::kPeer), 540u);
  EXPECT_EQ(of(path, StepKind::kOutside), 2450u);
}

TEST(CriticalPathTest, WithoutTheSemaphoreOfAWaitTakesWhatTheNoteOfTheInstructionSays) {
  OfCollective one;
  one.program.streams[0].waits.clear();  // as of a file of an earlier version
  const CriticalPath path = one.path();
  EXPECT_EQ(of(path, StepKind::kPeer), 540u + 640u);
  EXPECT_EQ(of(path, StepKind::kTransfer), 0u);
}

TEST(CriticalPathTest, OfAnEmptyExecutionIsEmpty) {
  const CriticalPath path = critical_path({}, Program{}, {}, 0);
  EXPECT_TRUE(path.steps.empty());
  EXPECT_EQ(find_bottlenecks(Program{}, Summary{}, {}, path).bottleneck, "Nothing was executed.");
}

TEST(CriticalPathTest, NamesTheLargestPartAsTheBottleneck) {
  const Timeline t = chain();
  Summary summary;
  summary.total = 4100;
  const CriticalPath path = critical_path(t, Program{}, {}, 4100);
  const Findings found = find_bottlenecks(Program{}, summary, t, path);
  EXPECT_NE(found.bottleneck.find("The latency of DMA limits"), std::string::npos)
      << found.bottleneck;
  EXPECT_NE(found.bottleneck.find("34.1 %"), std::string::npos) << found.bottleneck;
  ASSERT_FALSE(found.places.empty());
  EXPECT_EQ(found.places[0].where, "Sync pc 0");
  EXPECT_EQ(found.places[0].on_path, 2400u) << "the start and the transfer are one place";
}

TEST(BusyTimeTest, CountsOverlappingIntervalsOnceInTheOrderOfTheirEnds) {
  BusyTime busy;
  EXPECT_EQ(busy.add(0, 10), 10u);
  EXPECT_EQ(busy.add(5, 12), 2u);
  EXPECT_EQ(busy.add(20, 30), 10u);
  EXPECT_EQ(busy.add(11, 31), 9u) << "it fills the gap between two";
  EXPECT_EQ(busy.add(0, 40), 9u);
  EXPECT_EQ(busy.add(33, 33), 0u);
  EXPECT_EQ(busy.total(), 40u);
}

TEST(BusyTimeTest, KeepsABoundedNumberOfGaps) {
  BusyTime busy;
  for (uint64_t n = 0; n < 100'000; ++n) busy.add(10 * n, 10 * n + 5);
  EXPECT_EQ(busy.total(), 500'000u);
  // Gaps that are forgotten cannot be filled any more.
  EXPECT_LT(busy.add(0, 1'000'000), 500'000u);
}

}  // namespace
}  // namespace neuron::profile
