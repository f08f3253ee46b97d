// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/stream_use.h"

#include <gtest/gtest.h>

namespace neuron::runtime {
namespace {

std::vector<neff::Collective> on_streams(std::initializer_list<uint32_t> streams) {
  std::vector<neff::Collective> operations;
  for (const uint32_t stream : streams) operations.emplace_back().stream = stream;
  return operations;
}

TEST(StreamUse, AStreamAloneHasAllDmaEnginesOfTheCore) {
  const CorePlace core{find_chip_table(2), 0};
  EXPECT_TRUE(streams_of({}, core)->empty());
  const auto streams = streams_of(on_streams({1, 1, 1}), core);
  ASSERT_EQ(streams->size(), 1u);
  EXPECT_EQ((*streams)[0].stream, 1u);
  EXPECT_EQ((*streams)[0].engines, 0xFFFF);
  EXPECT_EQ((*streams)[0].count, 3u);
}

TEST(StreamUse, SeveralStreamsShareTheEngines) {
  const ChipTable& chip = *find_chip_table(2);
  const auto streams = streams_of(on_streams({2, 0, 2}), {&chip, 1});
  ASSERT_EQ(streams->size(), 2u);
  EXPECT_EQ((*streams)[0].stream, 0u);
  EXPECT_EQ((*streams)[0].count, 1u);
  EXPECT_EQ((*streams)[0].engines, chip.cc_engines(0));
  EXPECT_EQ((*streams)[1].stream, 2u);
  EXPECT_EQ((*streams)[1].count, 2u);
  EXPECT_EQ((*streams)[1].engines, chip.cc_engines(2));
}

TEST(StreamUse, RefusesTheStreamBehindTheLast) {
  for (const uint32_t generation : {2u, 3u}) {
    const ChipTable& chip = *find_chip_table(generation);
    EXPECT_TRUE(streams_of(on_streams({chip.cc_cores - 1}), {&chip, 0}));
    const auto refused = streams_of(on_streams({0, chip.cc_cores}), {&chip, 0});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, NRT_UNSUPPORTED_NEFF_VERSION);
    EXPECT_EQ(refused.error().sentence,
              base::format("a collective is on stream {}; a core of generation {} has {} "
                           "collective cores: use streams 0 to {}",
                           chip.cc_cores, generation, chip.cc_cores, chip.cc_cores - 1));
  }
}

}  // namespace
}  // namespace neuron::runtime
