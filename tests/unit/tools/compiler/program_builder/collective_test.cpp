// SPDX-License-Identifier: Apache-2.0
//
// Collectives of a Program: where their buffers lie in the file, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hw/address_map.h"
#include "tests/unit/tools/compiler/program_builder/program_reader.h"
#include "tests/unit/tools/compiler/program_builder/short_names.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::builder {
namespace {

using ::testing::HasSubstr;

TEST(Collective, TilesBecomeRowsOfTheNarrowerOne) {
  Program program("rows");
  const Tile from = program.sbuf("from", 128, 8, kF32);
  const Tile beside = program.sbuf("beside", 128, 32, kF32);
  const Tile below = program.sbuf("below", 128, 2, kF32);
  program.memset(Engine::kDve, from.all(), 0);
  CollectiveOptions options;
  options.group_size = 4;
  program.collective(Engine::kPool, CCOM_ALL_GATHER, beside.all(), from.all(), options);
  program.collective(Engine::kPool, CCOM_ALL_GATHER, below.all(), from.at(0, 32, 0, 2), options);
  const auto loaded = testing::load(program.build());
  const auto& list = loaded.graph().operations;
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].count, 128U * 8);
  EXPECT_EQ(list[0].input_rows.row_bytes, 32U);
  EXPECT_EQ(list[0].input_rows.partitions, 128U);
  EXPECT_EQ(list[0].output_rows.row_bytes, 32U) << "four tiles beside each other";
  EXPECT_EQ(list[0].output_rows.core_offset, beside.base);
  EXPECT_EQ(list[1].input_rows.partitions, 32U);
  EXPECT_EQ(list[1].input_rows.row_bytes, 8U);
  EXPECT_EQ(list[1].output_rows.partitions, 128U) << "one under the other";
}

TEST(Collective, APartOfATemporaryHasAnOffset) {
  Program program("part");
  const Buffer all = program.temporary("all", kF32, {4, 16});
  const Tile tile = program.sbuf("tile", 16, 4, kF32);
  program.collective(Engine::kPool, CCOM_BROADCAST, tile.column_range(1, 2),
                     all.block(2, 2, 0, 16));
  const auto loaded = testing::load(program.build());
  const auto& operation = loaded.graph().operations.at(0);
  EXPECT_EQ(operation.input_offset, 128U);
  EXPECT_FALSE(operation.input_rows.present());
  EXPECT_EQ(operation.count, 32U);
  EXPECT_EQ(operation.output_rows.row_bytes, 8U);
  EXPECT_EQ(operation.output_rows.first_byte(), tile.base + 4U);
}

void expect_error(const Side& to, const Side& from, Program& program,
                  const CollectiveOptions& options, const char* sentence) {
  program.collective(Engine::kPool, CCOM_ALL_REDUCE, to, from, options);
  const auto result = program.build();
  ASSERT_FALSE(result) << sentence;
  EXPECT_THAT(result.error().sentence, HasSubstr(sentence));
}

TEST(Collective, RefusesWhatIsNoRowsOfSbufOrPieceOfHbm) {
  {
    Program program("runs");
    const Tile tile = program.sbuf("tile", 16, 8, kF32);
    expect_error(tile.strided(0, 4, 2), tile.strided(1, 4, 2), program, {},
                 "names 4 runs of \"tile\" in a partition; expected is one");
  }
  {
    Program program("psum");
    const Tile tile = program.psum("tile", 16, 8);
    expect_error(tile.all(), tile.all(), program, {}, "SBUF only");
  }
  {
    Program program("columns");
    const Buffer rows = program.temporary("rows", kF32, {4, 16});
    expect_error(rows.block(0, 4, 0, 8), rows.block(0, 4, 8, 8), program, {},
                 "a part of \"rows\" that is not contiguous");
  }
  {
    Program program("uneven");
    const Tile from = program.sbuf("from", 16, 8, kF32), to = program.sbuf("to", 16, 12, kF32);
    expect_error(to.all(), from.all(), program, {}, "rows of 8 columns, and a tile of 12");
  }
  {
    Program program("overlap");
    const Tile tile = program.sbuf("tile", 16, 8, kF32);
    expect_error(tile.column_range(1, 4), tile.column_range(0, 4), program, {}, "overlap");
  }
  {
    Program program("small");
    const Tile from = program.sbuf("from", 16, 8, kF32), to = program.sbuf("to", 8, 8, kF32);
    expect_error(to.all(), from.all(), program, {},
                 "all_reduce reads 512 bytes and writes 512; the buffers have 512 and 256");
  }
  {
    Program program("input");
    const Buffer x = program.input("x", kF32, {64});
    const Tile to = program.sbuf("to", 8, 8, kF32);
    expect_error(to.all(), x.all(), program, {}, "\"x\", which is no temporary");
  }
}

// Engines drain the queues that they rang where a loop of the device begins; no queue of theirs
// holds a collective, which one of them must have waited for.
TEST(Collective, IsCompleteWhereALoopOfTheDeviceBegins) {
  for (bool collective : {false, true}) {
    Program program("loop");
    const Buffer shared = program.temporary("shared", kF32, {64});
    const Tile word = program.sbuf("word", 1, 1, NEURON_DTYPE_U32);
    program.memset(Engine::kDve, word.all(), 0);
    if (collective) program.collective(Engine::kPool, CCOM_ALL_REDUCE, shared, shared);
    Schedule& schedule = program.parts().schedule;
    schedule.begin_while({NEURON_ADDRESS_ADDR, Transfer::kOnChip,
                          word.start * uint64_t{NEURON_SBUF_PARTITION_STRIDE} + word.base});
    program.memset(Engine::kDve, word.all(), 0);
    schedule.end_while();
    for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
      const auto& steps = schedule.steps()[e];
      const auto loop = std::find_if(steps.begin(), steps.end(), [](const Step& step) {
        return step.control == Control::kWhile;
      });
      const auto met = std::find_if(
          steps.begin(), loop, [](const Step& step) { return step.control == Control::kMeet; });
      ASSERT_NE(loop, steps.end());
      EXPECT_EQ(met != loop, collective) << e;
      if (met == loop || e != NEURON_ENGINE_POOL) continue;
      ASSERT_EQ(met->waits.size(), 1U);
      EXPECT_GE(met->waits[0].agent, kFirstDmaAgent) << "the semaphore of the collective";
    }
    const auto built = program.build();
    EXPECT_TRUE(built) << built.error().sentence;
  }
}

}  // namespace
}  // namespace neuron::builder
