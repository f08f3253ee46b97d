// SPDX-License-Identifier: Apache-2.0
//
// Collectives whose buffers lie in SBUF: what comes out has the bits of buffers in HBM.
#include "tests/system/api/collectives_support.h"

namespace neuron::test {
namespace {

constexpr uint32_t kParts = 128;

enum class Place { kHbm, kSbuf };

// y = collective(x * 3) + 1, with `columns` a partition; the engines work in SBUF, the collective
// where it is told.
Bytes between_engines(ccom_operation_t operation, Place in, Place out, uint32_t columns_in,
                      uint32_t columns_out, const CollectiveOptions& options,
                      uint8_t generation = 2, bool clears = true) {
  Program program("sbuf", generation);
  const auto x = program.input("x", NEURON_DTYPE_F32, {kParts, columns_in});
  const auto y = program.output("y", NEURON_DTYPE_F32, {kParts, columns_out});
  const auto from = program.sbuf("from", kParts, columns_in, NEURON_DTYPE_F32);
  const auto to = program.sbuf("to", kParts, columns_out, NEURON_DTYPE_F32);
  program.dma(Engine::kSp, from.all(), x.all());
  program.tensor_scalar(Engine::kDve, from.all(), from.all(), NEURON_ALU_MUL, 3.0F);
  const uint32_t row =
      options.row_columns != 0 ? options.row_columns : std::min(columns_in, columns_out);
  // Buffers in HBM hold the elements in the order in which the rows of SBUF are counted.
  const auto in_hbm = program.temporary("in_hbm", NEURON_DTYPE_F32, {kParts, columns_in});
  const auto out_hbm = program.temporary("out_hbm", NEURON_DTYPE_F32, {kParts, columns_out});
  const auto blocks = [&](const builder::Buffer& buffer, uint32_t columns) {
    return buffer.pattern(0, {row, columns / row, kParts},
                          {1, static_cast<int64_t>(row) * kParts, row});
  };
  // What the operation does not write is the same everywhere, too.
  if (clears) {
    program.memset(Engine::kDve, to.all(), 0);
    if (out == Place::kHbm) program.dma(Engine::kSp, blocks(out_hbm, columns_out), to.all());
  }
  if (in == Place::kHbm) {
    program.dma(Engine::kSp, blocks(in_hbm, columns_in), from.all());
  }
  program.collective(Engine::kPool, operation,
                     out == Place::kHbm ? builder::Side(out_hbm.all()) : builder::Side(to.all()),
                     in == Place::kHbm ? builder::Side(in_hbm.all()) : builder::Side(from.all()),
                     options);
  if (out == Place::kHbm) {
    program.dma(Engine::kSp, to.all(), blocks(out_hbm, columns_out));
  }
  program.tensor_scalar(Engine::kDve, to.all(), to.all(), NEURON_ALU_ADD, 1.0F);
  program.dma(Engine::kSp, y.all(), to.all());
  return bytes_of(program.build());
}

class SbufCollectives : public Collectives {
 protected:
  using Results = std::vector<std::vector<float>>;

  static Results run(const Bytes& neff, uint32_t ranks, uint64_t* device_ps = nullptr) {
    Results results(ranks);
    on_ranks(ranks, [&](uint32_t rank) {
      RankModel model(neff, rank, ranks);
      ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
      for (int i = 0; i < 2; ++i) {
        results[rank] = model.run();
        ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
      }
      if (rank == 0 && device_ps != nullptr) *device_ps = model.device_ps();
    });
    return results;
  }

  static void expect_equal(const Results& found, const Results& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t r = 0; r < found.size(); ++r) {
      EXPECT_TRUE(found[r] == wanted[r] && !found[r].empty()) << "rank " << r;
    }
  }
};

TEST_F(SbufCollectives, ComputeAllReduceComputeHasTheSumsOnTwoCoresOfAChip) {
  const auto found =
      run(between_engines(CCOM_ALL_REDUCE, Place::kSbuf, Place::kSbuf, 30, 30, {}), 2);
  for (const auto& y : found) {
    ASSERT_EQ(y.size(), kParts * 30);
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], value_of(0, i) * 3.0F + value_of(1, i) * 3.0F + 1.0F) << i;
    }
  }
}

struct Case {
  const char* name;
  ccom_operation_t operation;
  uint32_t columns_in, columns_out;
};

// 4 cores of two chips, with buffers on either side.
class EveryOperation : public SbufCollectives, public testing::WithParamInterface<Case> {};

TEST_P(EveryOperation, HasTheBitsOfBuffersInHbm) {
  const Case& c = GetParam();
  CollectiveOptions options;
  options.group_size = 4;
  options.root = 1;
  if (c.operation == CCOM_PERMUTE) options.pairs = {{0, 2}, {2, 3}, {3, 0}};
  if (c.operation == CCOM_SEND_RECEIVE) options.pairs = {{0, 2}};
  options.row_columns = 9;
  const uint64_t one = kParts * 9;  // elements of a rank, or of a pair
  if (c.operation == CCOM_ALL_GATHER_V || c.operation == CCOM_REDUCE_SCATTER_V) {
    options.counts = {one, one - 77, 5, one};
    options.displacements = {one, 0, 3 * one, 2 * one};
  }
  if (c.operation == CCOM_ALL_TO_ALL_V) {
    for (uint64_t i = 0; i < 16; ++i) {
      options.counts.push_back(i * 13 % one);
      options.displacements.push_back(i % 4 * one);
      options.receive_displacements.push_back((3 - i % 4) * one);
    }
  }
  const auto build = [&](Place in, Place out) {
    return run(between_engines(c.operation, in, out, c.columns_in, c.columns_out, options), 4);
  };
  const Results wanted = build(Place::kHbm, Place::kHbm);
  expect_equal(build(Place::kSbuf, Place::kSbuf), wanted);
  expect_equal(build(Place::kSbuf, Place::kHbm), wanted);
  expect_equal(build(Place::kHbm, Place::kSbuf), wanted);
}

INSTANTIATE_TEST_SUITE_P(Operations, EveryOperation,
                         testing::Values(Case{"all_reduce", CCOM_ALL_REDUCE, 9, 9},
                                         Case{"all_gather", CCOM_ALL_GATHER, 9, 36},
                                         Case{"reduce_scatter", CCOM_REDUCE_SCATTER, 36, 9},
                                         Case{"all_to_all", CCOM_ALL_TO_ALL, 36, 36},
                                         Case{"broadcast", CCOM_BROADCAST, 9, 9},
                                         Case{"reduce", CCOM_REDUCE, 9, 9},
                                         Case{"gather", CCOM_GATHER, 9, 36},
                                         Case{"scatter", CCOM_SCATTER, 36, 9},
                                         Case{"permute", CCOM_PERMUTE, 9, 9},
                                         Case{"send_receive", CCOM_SEND_RECEIVE, 9, 9},
                                         Case{"all_gather_v", CCOM_ALL_GATHER_V, 9, 36},
                                         Case{"reduce_scatter_v", CCOM_REDUCE_SCATTER_V, 36, 9},
                                         Case{"all_to_all_v", CCOM_ALL_TO_ALL_V, 36, 36}),
                         [](const auto& info) { return std::string(info.param.name); });

// Short rows cost descriptors, long ones save the way through HBM.
TEST_F(SbufCollectives, EightCoresOfFourChipsAddUpWithTheBitsOfHbmAndLongRowsInLessTime) {
  for (const uint32_t columns : {100U, 4096U}) {
    uint64_t in_sbuf = 0, in_hbm = 0;
    const auto with = [&](Place place, uint64_t& device_ps) {
      return run(between_engines(CCOM_ALL_REDUCE, place, place, columns, columns, {}, 2, false), 8,
                 &device_ps);
    };
    expect_equal(with(Place::kSbuf, in_sbuf), with(Place::kHbm, in_hbm));
    RecordProperty("columns_" + std::to_string(columns) + "_sbuf_ps", std::to_string(in_sbuf));
    RecordProperty("columns_" + std::to_string(columns) + "_hbm_ps", std::to_string(in_hbm));
    EXPECT_GT(in_sbuf, 0U);
    if (columns == 4096) {
      EXPECT_LT(in_sbuf, in_hbm);
    }
  }
}

TEST_F(SbufCollectives, ATileIsReducedInPlaceByARing) {
  Program program("in place");
  const auto x = program.input("x", NEURON_DTYPE_F32, {64, 50});
  const auto y = program.output("y", NEURON_DTYPE_F32, {64, 50});
  const auto tile = program.sbuf("tile", 64, 80, NEURON_DTYPE_F32);
  const auto used = tile.column_range(7, 50);
  program.dma(Engine::kSp, used, x.all());
  CollectiveOptions options;
  options.algorithm = CCOM_RING;
  program.collective(Engine::kPool, CCOM_ALL_REDUCE, used, used, options);
  program.dma(Engine::kSp, y.all(), used);
  for (const auto& found : run(bytes_of(program.build()), 2)) expect_sums(found, 2);
}

TEST_F(SbufCollectives, RanksOfGenerationThreeReachTheSbufOfEachOther) {
  nrt_close();
  const Setting instance("NEURON_EMULATOR", "trn2.48xlarge");
  const Setting cores("NEURON_RT_VISIBLE_CORES", "0-9");  // of chips that a sanitizer has room for
  const Setting physical("NEURON_LOGICAL_NC_CONFIG", "1");
  init();
  const auto with = [&](Place place) {
    return run(between_engines(CCOM_ALL_REDUCE, place, place, 8, 8, {}, 3), 10);
  };
  expect_equal(with(Place::kSbuf), with(Place::kHbm));
  nrt_close();
}

TEST_F(SbufCollectives, AProgramForFewerRanksIsToldWhichBufferDoesNotHoldTheirs) {
  CollectiveOptions two;
  two.group_size = 2;
  // 2 x 90 KiB fit the 192 KiB of a partition, 8 x 90 KiB do not.
  const Bytes neff =
      between_engines(CCOM_ALL_GATHER, Place::kHbm, Place::kSbuf, 23040 / 4, 2 * 23040 / 4, two);
  on_ranks(2, [&](uint32_t rank) {
    RankModel model(neff, rank, 2);
    EXPECT_EQ(model.status, NRT_SUCCESS) << model.sentence;
  });
  on_ranks(12, [&](uint32_t rank) {
    RankModel model(neff, rank, 12);
    EXPECT_EQ(model.status, NRT_INVALID);
    EXPECT_THAT(model.sentence, HasSubstr("all_gather of 12 ranks: "));
    EXPECT_THAT(model.sentence, HasSubstr("of \"output\"; a partition has 196608"));
  });
}

TEST_F(SbufCollectives, RowsOfAFewBytesAreRefusedWhereTheyHaveTooManyDescriptors) {
  Program program("short rows");
  const auto x = program.input("x", NEURON_DTYPE_F32, {kParts, 16384});
  const auto tile = program.sbuf("tile", kParts, 16384, NEURON_DTYPE_F32);
  program.dma(Engine::kSp, tile.all(), x.all());
  CollectiveOptions options;
  options.row_columns = 1;
  program.collective(Engine::kPool, CCOM_ALL_REDUCE, tile.all(), tile.all(), options);
  const Bytes neff = bytes_of(program.build());
  on_ranks(2, [&](uint32_t rank) {
    RankModel model(neff, rank, 2);
    ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
    EXPECT_EQ(nrt_barrier(static_cast<int>(rank), rank, 2), NRT_RESOURCE);
    EXPECT_THAT(std::string(nrt_open_last_error()), HasSubstr("rows in SBUF are short"));
  });
}

}  // namespace
}  // namespace neuron::test
