// SPDX-License-Identifier: Apache-2.0
// What each operation moves, as include/ccom/ccom.h says it: sizes of buffers, where one lies in
// the other, and what stands where in the output. Numbers are written down, not computed.
#include "tools/nccom-test/run/case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/base/format.h"

namespace neuron::nccom {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kRanks = 3;
constexpr uint32_t kRoot = 1;

BlockOptions options_of(ccom_operation_t operation) {
  BlockOptions options;
  options.operation = operation;
  options.type = CCOM_UINT16;
  options.root = kRoot;
  return options;
}

Work work_of(const BlockOptions& options, uint64_t bytes, uint32_t place,
             const PairConfig& pairs = {}) {
  auto made = make_case(options, pairs, bytes, kRanks, place);
  EXPECT_TRUE(made) << (made ? "" : made.error().sentence);
  if (!made || made->works.empty()) return {};
  return made->works[0];
}

// "begin+length<rank@source" of a copy, "begin+length=all@source" of a reduction.
std::vector<std::string> texts_of(const std::vector<Segment>& segments) {
  std::vector<std::string> texts;
  for (const Segment& s : segments) {
    texts.push_back(s.origin == Origin::kReduced
                        ? base::format("{}+{}=all@{}", s.begin, s.length, s.source)
                        : base::format("{}+{}<{}@{}", s.begin, s.length, s.place, s.source));
  }
  return texts;
}
std::vector<std::string> output_of(const Work& work, uint32_t place) {
  return texts_of(expected_output(work, place));
}

// Of rank 2, for 24 bytes: 12 elements, or 4 for each rank where the ranks share them.
struct Meaning {
  ccom_operation_t operation;
  uint64_t input, output, root_input, root_output;
  std::vector<std::string> contents;
};

TEST(Case, BuffersAndContentsOfEveryOperationAreWhatItMeans) {
  const std::vector<Meaning> meanings = {
      {CCOM_ALL_REDUCE, 12, 12, 12, 12, {"0+12=all@0"}},
      {CCOM_REDUCE, 12, 0, 12, 12, {}},
      {CCOM_BROADCAST, 0, 12, 12, 12, {"0+12<1@0"}},
      {CCOM_ALL_GATHER, 4, 12, 4, 12, {"0+4<0@0", "4+4<1@0", "8+4<2@0"}},
      {CCOM_GATHER, 4, 0, 4, 12, {}},
      {CCOM_SCATTER, 0, 4, 12, 4, {"0+4<1@8"}},
      {CCOM_REDUCE_SCATTER, 12, 4, 12, 4, {"0+4=all@8"}},
      {CCOM_ALL_TO_ALL, 12, 12, 12, 12, {"0+4<0@8", "4+4<1@8", "8+4<2@8"}},
      {CCOM_BARRIER, 0, 0, 0, 0, {}}};
  for (const Meaning& m : meanings) {
    const Work work = work_of(options_of(m.operation), 24, 2);
    const std::string name = "operation " + std::to_string(m.operation);
    EXPECT_EQ(work.input_elements(2), m.input) << name;
    EXPECT_EQ(work.output_elements(2), m.output) << name;
    EXPECT_EQ(work.input_elements(kRoot), m.root_input) << name;
    EXPECT_EQ(work.output_elements(kRoot), m.root_output) << name;
    EXPECT_EQ(output_of(work, 2), m.contents) << name;
    // Every element of an output comes from somewhere.
    for (uint32_t place = 0; place < kRanks; ++place) {
      uint64_t told = 0;
      for (const Segment& segment : expected_output(work, place)) told += segment.length;
      EXPECT_EQ(told, work.output_elements(place)) << name << " of rank " << place;
    }
  }
  EXPECT_THAT(output_of(work_of(options_of(CCOM_REDUCE), 24, kRoot), kRoot),
              ElementsAre("0+12=all@0"));
  EXPECT_THAT(output_of(work_of(options_of(CCOM_GATHER), 24, kRoot), kRoot),
              ElementsAre("0+4<0@0", "4+4<1@0", "8+4<2@0"));
}

TEST(Case, OfPairsOnlyTheirRanksSendAndReceive) {
  for (const ccom_operation_t operation : {CCOM_SEND_RECEIVE, CCOM_PERMUTE}) {
    const Work work = work_of(options_of(operation), 10, 0, {{0, 2}});
    EXPECT_EQ(work.input_elements(0), 5u);
    EXPECT_EQ(work.input_elements(1), 0u);
    EXPECT_EQ(work.input_elements(2), 0u);
    EXPECT_EQ(work.output_elements(0), 0u);
    EXPECT_EQ(work.output_elements(2), 5u);
    EXPECT_THAT(output_of(work, 2), ElementsAre("0+5<0@0"));
    EXPECT_THAT(output_of(work, 1), IsEmpty());
    const ccom_collective_t call = collective_of(work);
    ASSERT_EQ(call.pair_count, 1u);
    EXPECT_EQ(call.pairs[0].target, 2u);
  }
}

// 12 elements in shares of 1, 2 and 3 parts.
TEST(Case, UnevenSharesGrowWithTheRank) {
  const Work gather = work_of(options_of(CCOM_ALL_GATHER_V), 24, 1);
  EXPECT_THAT(gather.counts, ElementsAre(2, 4, 6));
  EXPECT_THAT(gather.displacements, ElementsAre(0, 2, 6));
  EXPECT_EQ(gather.input_elements(2), 6u);
  EXPECT_EQ(gather.output_elements(0), 12u);
  EXPECT_THAT(output_of(gather, 0), ElementsAre("0+2<0@0", "2+4<1@0", "6+6<2@0"));

  const Work scatter = work_of(options_of(CCOM_REDUCE_SCATTER_V), 24, 1);
  EXPECT_EQ(scatter.input_elements(0), 12u);
  EXPECT_EQ(scatter.output_elements(1), 4u);
  EXPECT_THAT(output_of(scatter, 1), ElementsAre("0+4=all@2"));

  // Rank 1 sends 4, 6 and 2, and receives what stands in the second place of each rank's list.
  const Work exchange = work_of(options_of(CCOM_ALL_TO_ALL_V), 24, 1);
  EXPECT_THAT(exchange.matrix, ElementsAre(2, 4, 6, 4, 6, 2, 6, 2, 4));
  EXPECT_THAT(exchange.matrix_displacements, ElementsAre(0, 2, 6, 0, 4, 10, 0, 6, 8));
  EXPECT_THAT(exchange.counts, ElementsAre(4, 6, 2));
  EXPECT_THAT(exchange.displacements, ElementsAre(0, 4, 10));
  EXPECT_THAT(exchange.receive_counts, ElementsAre(4, 6, 2));
  EXPECT_THAT(exchange.receive_displacements, ElementsAre(0, 4, 10));
  EXPECT_EQ(exchange.input_elements(1), 12u);
  EXPECT_EQ(exchange.output_elements(1), 12u);
  EXPECT_THAT(output_of(exchange, 1), ElementsAre("0+4<0@2", "4+6<1@4", "10+2<2@6"));
}

TEST(Case, CountsAndPlacesOfTheUserAreTakenWithTheirGaps) {
  BlockOptions options = options_of(CCOM_ALL_TO_ALL_V);
  // What ranks send, from where; what they receive, and to where.
  options.metadata = {{{1, 0, 2}, {5, 0, 9}, {1, 3, 1}, {0, 4, 20}},
                      {{3, 1, 1}, {}, {}, {}},
                      {{1, 1, 1}, {}, {}, {}}};
  const Work work = work_of(options, 24, 0);
  EXPECT_EQ(work.input_elements(0), 11u) << "two elements from place 9 on";
  EXPECT_EQ(work.output_elements(0), 21u) << "one element at place 20";
  EXPECT_THAT(output_of(work, 0), ElementsAre("0+1<0@5", "4+3<1@0", "20+1<2@0"));

  BlockOptions gather = options_of(CCOM_ALL_GATHER_V);
  gather.metadata = {{{4}, {}, {}, {1, 10, 6}}, {{2}, {}, {}, {}}, {{3}, {}, {}, {}}};
  const Work gathered = work_of(gather, 24, 2);
  EXPECT_EQ(gathered.output_elements(2), 12u) << "two elements at place 10 are the last";
  EXPECT_THAT(output_of(gathered, 0), ElementsAre("1+4<0@0", "10+2<1@0", "6+3<2@0"));

  BlockOptions scatter = options_of(CCOM_REDUCE_SCATTER_V);
  scatter.metadata = {{{4, 0, 1}, {2, 30, 8}, {}, {}}};
  const Work scattered = work_of(scatter, 24, 2);
  EXPECT_EQ(scattered.input_elements(0), 9u) << "a rank without elements has no place";
  EXPECT_THAT(output_of(scattered, 2), ElementsAre("0+1=all@8"));
}

TEST(Case, CountsThatContradictEachOtherAreRefused) {
  const auto refused = [](ccom_operation_t operation, std::vector<VariableEntry> metadata) {
    BlockOptions options = options_of(operation);
    options.metadata = std::move(metadata);
    const auto made = make_case(options, {}, 24, kRanks, 0);
    return made ? "" : made.error().sentence;
  };
  EXPECT_THAT(refused(CCOM_ALL_GATHER_V, {{{1, 2}, {}, {}, {}}}),
              HasSubstr("metadata of rank 0: send_counts has 2 entries, expected 1"));
  EXPECT_THAT(refused(CCOM_ALL_GATHER_V, {{{1}, {}, {1, 1, 2}, {}}}),
              HasSubstr("metadata of rank 0: recv_counts do not match what the ranks send"));
  EXPECT_EQ(refused(CCOM_ALL_GATHER_V, {{{1}, {}, {1, 1, 1}, {}}}), "");
  EXPECT_THAT(refused(CCOM_ALL_GATHER_V, {{{1}, {}, {}, {0, 1}}}),
              HasSubstr("metadata has 3 counts for a group of 3 ranks"));
  EXPECT_THAT(refused(CCOM_REDUCE_SCATTER_V, {{{1, 2}, {}, {}, {}}}),
              HasSubstr("metadata has 2 counts for a group of 3 ranks"));
  EXPECT_THAT(refused(CCOM_ALL_TO_ALL_V, {{{1, 2, 3}, {}, {1, 2, 3}, {}}}),
              HasSubstr("recv_counts do not match what the others send it"));
  EXPECT_EQ(refused(CCOM_ALL_TO_ALL_V, {{{1, 2, 3}, {}, {1, 1, 1}, {}}}), "");
}

TEST(Case, InPlaceOneBufferLiesWhereItsShareIs) {
  struct Place {
    ccom_operation_t operation;
    bool possible;
    uint64_t offset;  // of rank 2
    bool output_is_larger;
  };
  for (const Place& expected :
       {Place{CCOM_ALL_REDUCE, true, 0, true}, Place{CCOM_BROADCAST, true, 0, true},
        Place{CCOM_REDUCE, true, 0, true}, Place{CCOM_ALL_GATHER, true, 8, true},
        Place{CCOM_GATHER, true, 0, true}, Place{CCOM_ALL_GATHER_V, true, 6, true},
        Place{CCOM_REDUCE_SCATTER, true, 8, false}, Place{CCOM_SCATTER, true, 0, false},
        Place{CCOM_REDUCE_SCATTER_V, true, 6, false}, Place{CCOM_ALL_TO_ALL, false, 0, true},
        Place{CCOM_ALL_TO_ALL_V, false, 0, true}, Place{CCOM_BARRIER, false, 0, true}}) {
    const Work work = work_of(options_of(expected.operation), 24, 2);
    uint64_t offset = 99;
    bool larger = false;
    const std::string name = "operation " + std::to_string(expected.operation);
    EXPECT_EQ(work.in_place_offset(2, offset, larger), expected.possible) << name;
    EXPECT_EQ(offset, expected.offset) << name;
    EXPECT_EQ(larger, expected.output_is_larger) << name;
  }
  uint64_t offset = 0;
  bool larger = false;
  EXPECT_TRUE(work_of(options_of(CCOM_GATHER), 24, kRoot).in_place_offset(kRoot, offset, larger));
  EXPECT_EQ(offset, 4u);
  EXPECT_TRUE(work_of(options_of(CCOM_SCATTER), 24, kRoot).in_place_offset(kRoot, offset, larger));
  EXPECT_EQ(offset, 4u);
}

TEST(Case, SizesAreRoundedUpToWhatTheGroupCanShare) {
  const auto made = make_case(options_of(CCOM_ALL_GATHER), {}, 25, kRanks, 0);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->count, 15u) << "13 elements of two bytes, five for each rank";
  EXPECT_EQ(made->size, 30u);
  EXPECT_EQ(made->total_input, 10u);
  EXPECT_EQ(made->total_output, 30u);
  const auto uneven = make_case(options_of(CCOM_ALL_TO_ALL_V), {}, 26, kRanks, 0);
  ASSERT_TRUE(uneven);
  EXPECT_EQ(uneven->count, 15u) << "3, 5 and 7 elements";
  EXPECT_EQ(make_case(options_of(CCOM_BARRIER), {}, 26, kRanks, 0)->size, 0u);
}

TEST(Case, PartsOfACoalescedOperationShareItsElements) {
  BlockOptions options = options_of(CCOM_ALL_REDUCE);
  options.coalesced = {1, 3};
  const auto made = make_case(options, {}, 24, kRanks, 0);
  ASSERT_TRUE(made);
  ASSERT_EQ(made->works.size(), 2u);
  EXPECT_EQ(made->works[0].count, 3u);
  EXPECT_EQ(made->works[1].count, 9u);
  EXPECT_EQ(made->count, 12u);
  EXPECT_EQ(made->total_input, 24u);
  EXPECT_EQ(made->total_output, 24u);
}

TEST(Case, TheCallAndTheRequestSayTheSameAsTheWork) {
  BlockOptions options = options_of(CCOM_ALL_TO_ALL_V);
  options.algorithm = CCOM_RING;
  const Work work = work_of(options, 24, 1);
  const ccom_collective_t call = collective_of(work);
  EXPECT_EQ(call.size_of, sizeof call);
  EXPECT_EQ(call.operation, CCOM_ALL_TO_ALL_V);
  EXPECT_EQ(call.type, CCOM_UINT16);
  EXPECT_EQ(call.algorithm, CCOM_RING);
  EXPECT_EQ(call.root, kRoot);
  EXPECT_EQ(call.counts, work.counts.data());
  EXPECT_EQ(call.displacements, work.displacements.data());
  EXPECT_EQ(call.receive_counts, work.receive_counts.data());
  EXPECT_EQ(call.receive_displacements, work.receive_displacements.data());
  EXPECT_EQ(call.pairs, nullptr);

  const ccom::Request request = request_of(work, true);
  EXPECT_TRUE(request.in_place);
  EXPECT_EQ(request.send_counts, work.matrix);
  EXPECT_EQ(request.send_displacements, work.matrix_displacements);
  // What rank r receives lies one behind the other: of rank 0: 2, 4, 6; of rank 1: 4, 6, 2.
  EXPECT_THAT(request.receive_displacements, ElementsAre(0, 2, 6, 0, 4, 10, 0, 6, 8));

  options = options_of(CCOM_REDUCE_SCATTER_V);
  options.reduction = CCOM_MAX;
  const Work scatter = work_of(options, 24, 1);
  const ccom::Request other = request_of(scatter, false);
  EXPECT_EQ(other.operation, CCOM_REDUCE_SCATTER_V);
  EXPECT_EQ(other.reduction, CCOM_MAX);
  EXPECT_EQ(collective_of(scatter).reduction, CCOM_MAX);
  EXPECT_FALSE(other.in_place);
  EXPECT_EQ(other.counts, scatter.counts);
  EXPECT_EQ(other.displacements, scatter.displacements);
  EXPECT_EQ(request_of(work_of(options_of(CCOM_ALL_GATHER), 24, 1), false).count, 4u);
  EXPECT_EQ(collective_of(work_of(options_of(CCOM_ALL_GATHER), 24, 1)).count, 4u);
}

}  // namespace
}  // namespace neuron::nccom
