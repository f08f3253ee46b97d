// SPDX-License-Identifier: Apache-2.0
//
// Model times of collectives whose host threads are held up at random: they are those of the first
// run, to the picosecond, whatever order the host gives the cores.
//
// NEURON_TEST_RUNS says how often each operation runs: 12 unless it is set, 1,000 by hand.
#include <array>
#include <atomic>
#include <cstdlib>

#include "tests/support/disturbance.h"
#include "tests/system/api/collectives_support.h"

namespace neuron::test {
namespace {

unsigned runs() {
  const char* text = std::getenv("NEURON_TEST_RUNS");
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : 12;
}

struct TimedCase {
  const char* name;
  ccom_operation_t operation;
  bool whole_input, whole_output;  // the size of all blocks, else of one
};
constexpr std::array kCases = {
    TimedCase{"all_reduce", CCOM_ALL_REDUCE, false, false},
    TimedCase{"all_gather", CCOM_ALL_GATHER, false, true},
    TimedCase{"reduce_scatter", CCOM_REDUCE_SCATTER, true, false},
    TimedCase{"all_to_all", CCOM_ALL_TO_ALL, true, true},
    TimedCase{"broadcast", CCOM_BROADCAST, false, false},
    TimedCase{"reduce", CCOM_REDUCE, false, false},
    TimedCase{"gather", CCOM_GATHER, false, true},
    TimedCase{"scatter", CCOM_SCATTER, true, false},
    TimedCase{"send_receive", CCOM_SEND_RECEIVE, false, false},
    TimedCase{"permute", CCOM_PERMUTE, false, false},
    TimedCase{"all_gather_v", CCOM_ALL_GATHER_V, false, true},
    TimedCase{"reduce_scatter_v", CCOM_REDUCE_SCATTER_V, true, false},
    TimedCase{"all_to_all_v", CCOM_ALL_TO_ALL_V, true, true},
};

struct Shape {
  uint32_t ranks;
  uint64_t count;      // elements of one block
  unsigned times = 1;  // collectives behind one another
};
// The last one moves blocks of 128 KiB between all chips of eight ranks, three times. There the
// transfers of a rank meet on links, and a rank that waits for another one is woken late while
// others of its transfers are on their way.
constexpr std::array kShapes = {Shape{2, 100}, Shape{2, 16384}, Shape{8, 100}, Shape{8, 16384},
                                Shape{8, 32768, 3}};

Bytes model_of(const TimedCase& of, const Shape& shape) {
  const uint32_t ranks = shape.ranks;
  const uint64_t count = shape.count;
  CollectiveOptions options;
  options.group_size = ranks;
  options.count = count;
  if (of.operation == CCOM_SEND_RECEIVE) options.pairs = {{0, ranks - 1}};
  if (of.operation == CCOM_PERMUTE) {
    for (uint32_t r = 0; r < ranks; ++r) options.pairs.push_back({r, (r + 1) % ranks});
  }
  const bool varies = of.operation >= CCOM_ALL_GATHER_V;
  if (varies) {
    const uint64_t blocks = of.operation == CCOM_ALL_TO_ALL_V ? uint64_t{ranks} * ranks : ranks;
    for (uint64_t i = 0; i < blocks; ++i) {
      options.counts.push_back(count);
      options.displacements.push_back(i % ranks * count);
      if (of.operation == CCOM_ALL_TO_ALL_V) {
        options.receive_displacements.push_back(i % ranks * count);
      }
    }
    options.count = 0;
  }
  return through(of.name, of.operation, of.whole_input ? ranks * count : count,
                 of.whole_output ? ranks * count : count, options, shape.times);
}

class CollectiveTimes : public Collectives, public testing::WithParamInterface<TimedCase> {};

TEST_P(CollectiveTimes, AreEqualFromRunToRunWhenHostThreadsAreHeldUp) {
  for (const Shape& shape : kShapes) {
    const uint32_t ranks = shape.ranks;
    const Bytes neff = model_of(GetParam(), shape);
    std::vector<uint64_t> first(ranks);
    std::vector<std::unique_ptr<RankModel>> models(ranks);
    on_ranks(ranks, [&](uint32_t rank) {
      models[rank] = std::make_unique<RankModel>(neff, rank, ranks);
      if (models[rank]->status != NRT_SUCCESS) return;
      models[rank]->run();  // which also tells the queues where the tensors are
      models[rank]->run();
      first[rank] = models[rank]->device_ps();
    });
    for (const auto& model : models) ASSERT_EQ(model->status, NRT_SUCCESS) << model->sentence;
    const Disturbance disturbance;
    std::atomic<unsigned> others{0};
    disturbance.during([&] {
      on_ranks(ranks, [&](uint32_t rank) {
        for (unsigned run = 0; run < runs(); ++run) {
          models[rank]->run();
          const uint64_t found = models[rank]->device_ps();
          if (models[rank]->status == NRT_SUCCESS && found == first[rank]) continue;
          if (others.fetch_add(1) > 3) continue;
          ADD_FAILURE() << "run " << run << " of rank " << rank << " of " << ranks << ", "
                        << shape.count << " elements: " << found << " ps, first " << first[rank]
                        << " ps " << models[rank]->sentence;
        }
      });
    });
    EXPECT_EQ(others.load(), 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, CollectiveTimes, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace neuron::test
