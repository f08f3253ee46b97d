// SPDX-License-Identifier: Apache-2.0
//
// The list "collectives" of def.json: what it means, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/neff/model_reader.h"
#include "tests/unit/runtime/neff/sample_program.h"

namespace neuron::neff {
namespace {

using test::SampleProgram;
using testing::HasSubstr;

runtime::Result<Model> load(const std::string& list) {
  SampleProgram sample;
  sample.edit("sg00/def.json", "\"engines\": {", "\"collectives\": " + list + ", \"engines\": {");
  const test::Buffer file = sample.pack();
  NEURON_TRY(container, Container::open(file));
  return load_model(container, Target{});
}

TEST(CollectiveList, SaysWhoDoesWhatWithWhichBuffers) {
  const auto model = load(
      R"([{"operation": "all_reduce", "type": "bfloat16", "reduction": "max", "count": 64,
           "input": "scratch", "output": "scratch", "output_offset": 128, "stream": 2,
           "algorithm": "ring", "replica_groups": [[0, 2], [3, 1]], "semaphore": 22,
           "semaphore_add": 16},
          {"operation": "barrier"},
          {"operation": "permute", "count": 8, "input": "scratch", "output": "scratch",
           "pairs": [[0, 1], [1, 0]]}])");
  ASSERT_TRUE(model) << model.error().sentence;
  EXPECT_EQ(model->notes, std::vector<std::string>());
  const auto& list = model->subgraphs[0].operations;
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].operation, CCOM_ALL_REDUCE);
  EXPECT_EQ(list[0].type, CCOM_BF16);
  EXPECT_EQ(list[0].reduction, CCOM_MAX);
  EXPECT_EQ(list[0].algorithm, CCOM_RING);
  EXPECT_EQ(list[0].count, 64U);
  EXPECT_EQ(list[0].output_offset, 128U);
  EXPECT_EQ(list[0].stream, 2U);
  EXPECT_EQ(list[0].groups, (std::vector<std::vector<uint32_t>>{{0, 2}, {3, 1}}));
  EXPECT_EQ(list[0].semaphore, 22);
  EXPECT_EQ(list[0].semaphore_add, 16);
  EXPECT_EQ(model->subgraphs[0].variables[list[0].input].name, "scratch");
  EXPECT_EQ(list[1].input, kNoTarget);
  EXPECT_EQ(list[2].type, CCOM_UINT8);
  ASSERT_EQ(list[2].pairs.size(), 2U);
  EXPECT_EQ(list[2].pairs[1].source, 1U);
}

using Numbers = std::vector<uint64_t>;

TEST(CollectiveList, PutsBlocksOfDifferentLengthsOneBehindTheOther) {
  const auto model = load(
      R"([{"operation": "all_gather_v", "type": "float32", "counts": [3, 0, 5],
           "input": "scratch", "output": "scratch", "output_offset": 1024},
          {"operation": "all_to_all_v", "counts": [1, 2, 3, 4], "input": "scratch",
           "output": "scratch", "output_offset": 1024}])");
  ASSERT_TRUE(model) << model.error().sentence;
  const auto& list = model->subgraphs[0].operations;
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].counts, (Numbers{3, 0, 5}));
  EXPECT_EQ(list[0].displacements, (Numbers{0, 3, 3}));
  EXPECT_EQ(list[0].receive_displacements, Numbers{});
  EXPECT_EQ(collective_bytes(list[0], 3).input, 5U * 4);
  EXPECT_EQ(collective_bytes(list[0], 3).output, 8U * 4);
  // Sent: by sender; received: by receiver.
  EXPECT_EQ(list[1].displacements, (Numbers{0, 1, 0, 3}));
  EXPECT_EQ(list[1].receive_displacements, (Numbers{0, 1, 0, 2}));
  EXPECT_EQ(collective_bytes(list[1], 2).input, 7U);
  EXPECT_EQ(collective_bytes(list[1], 2).output, 6U);
}

TEST(CollectiveList, PutsBlocksOfDifferentLengthsWhereItIsTold) {
  const auto model = load(
      R"([{"operation": "reduce_scatter_v", "type": "int16", "counts": [2, 4],
           "displacements": [8, 0], "replica_groups": [[1, 0]], "input": "scratch",
           "output": "scratch", "output_offset": 1024},
          {"operation": "all_to_all_v", "counts": [1, 2, 3, 4], "displacements": [9, 0, 0, 3],
           "receive_displacements": [0, 20, 6, 0], "input": "scratch", "output": "scratch",
           "output_offset": 1024}])");
  ASSERT_TRUE(model) << model.error().sentence;
  const auto& list = model->subgraphs[0].operations;
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].displacements, (Numbers{8, 0}));
  EXPECT_EQ(collective_bytes(list[0], 2).input, 10U * 2);
  EXPECT_EQ(collective_bytes(list[0], 2).output, 4U * 2);
  EXPECT_EQ(list[1].displacements, (Numbers{9, 0, 0, 3}));
  EXPECT_EQ(list[1].receive_displacements, (Numbers{0, 20, 6, 0}));
  EXPECT_EQ(collective_bytes(list[1], 2).input, 10U);
  EXPECT_EQ(collective_bytes(list[1], 2).output, 23U);
}

TEST(CollectiveList, PutsBuffersIntoRowsOfSbuf) {
  const auto model = load(
      R"([{"operation": "all_gather", "type": "float32", "count": 512, "input": "sbuf",
           "input_offset": 524352, "input_row_bytes": 128, "input_partitions": 16,
           "output": "sbuf", "output_row_bytes": 128, "output_partitions": 16,
           "output_offset": 525312, "replica_groups": [[0, 1, 2]]},
          {"operation": "all_reduce", "type": "int8", "count": 999, "input": "sbuf",
           "input_row_bytes": 8, "input_offset": 262144, "output": "scratch"}])");
  ASSERT_TRUE(model) << model.error().sentence;
  EXPECT_EQ(model->notes, std::vector<std::string>());
  const auto& list = model->subgraphs[0].operations;
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].input_rows.row_bytes, 128U);
  EXPECT_EQ(list[0].input_rows.partitions, 16U);
  EXPECT_EQ(list[0].input_rows.first_partition(), 2U);
  EXPECT_EQ(list[0].input_rows.first_byte(), 64U);
  EXPECT_EQ(list[0].output_rows.first_byte(), 1024U);
  EXPECT_EQ(list[1].input_rows.partitions, 127U) << "to the last one, unless it is said";
  EXPECT_FALSE(list[1].output_rows.present());
}

struct Refusal {
  const char* list;
  const char* sentence;
};
class CollectiveListRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(CollectiveListRefuses, WhatNoDeviceCouldExecute) {
  const auto model = load(GetParam().list);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().status, NRT_INVALID);
  EXPECT_THAT(model.error().sentence, HasSubstr("collectives"));
  EXPECT_THAT(model.error().sentence, HasSubstr(GetParam().sentence));
}

#define VARIABLE(operation, rest) \
  R"([{"operation": ")" operation \
  R"(", "type": "float32", "input": "scratch", "output": "scratch", )" rest "}]"
#define REDUCE(rest) \
  R"([{"operation": "all_reduce", "type": "float32", "count": 8, "output": "scratch", )" rest "}]"

#define ROWS(count, input, output)                                     \
  R"([{"operation": "all_reduce", "type": "float32", "count": )" count \
  R"(, "input": "sbuf", "input_row_bytes": )" input                    \
  R"(, "output": "sbuf", "output_offset": )" output "}]"

INSTANTIATE_TEST_SUITE_P(
    Rows, CollectiveListRefuses,
    testing::Values(
        Refusal{REDUCE(R"("input": "sbuf")"), "expected is a \"input_row_bytes\""},
        Refusal{REDUCE(R"("input": "scratch", "input_row_bytes": 64)"), "\"scratch\" is in HBM"},
        Refusal{REDUCE(R"("input": "scratch", "output_partitions": 64)"), "\"scratch\" is in HBM"},
        Refusal{REDUCE(R"("input": "sbuf", "input_row_bytes": 0)"), "input_row_bytes"},
        Refusal{REDUCE(R"("input": "sbuf", "input_row_bytes": 6)"), "no element lies in two rows"},
        Refusal{REDUCE(R"("input": "sbuf", "input_row_bytes": 8, "input_offset": 2)"),
                "from byte 2 of a partition"},
        Refusal{REDUCE(R"("input": "sbuf", "input_row_bytes": 8, "input_partitions": 129)"),
                "input_partitions"},
        Refusal{REDUCE(R"("input": "sbuf", "input_row_bytes": 8, "input_partitions": 128,
                         "input_offset": 262144)"),
                "128 partitions from partition 1 on of \"sbuf\"; SBUF has 128"},
        Refusal{REDUCE(R"("input": "sbuf", "input_row_bytes": 8, "input_offset": 33554432)"),
                "PSUM"},
        Refusal{REDUCE(R"("input": "sbuf", "input_row_bytes": 8, "input_offset": 1099511627776)"),
                "PSUM"},
        // 128 rows of 192 KiB are all that there is.
        Refusal{ROWS("6291457", "196608", R"(0, "output_row_bytes": 196608)"),
                "take 393216 bytes of each from byte 0 on of \"sbuf\"; a partition has 196608"},
        Refusal{ROWS("64", R"(64, "input_partitions": 4)",
                     R"(262192, "output_row_bytes": 64, "output_partitions": 4)"),
                "the input (partitions 0 to 3, bytes 0 to 63) and the output (partitions 1 to 4, "
                "bytes 48 to 111) overlap"},
        Refusal{ROWS("64", R"(64, "input_partitions": 4)", R"(0, "output_row_bytes": 64)"),
                "in place from byte 0 of partition 0 on, with 4 rows of 64 bytes and 128 rows"}));

INSTANTIATE_TEST_SUITE_P(
    Lists, CollectiveListRefuses,
    testing::Values(
        Refusal{R"([{"operation": "all_reduce_v"}])", "operation"}, Refusal{R"([7])", "object"},
        Refusal{REDUCE(R"("input": "x")"), "is no tmp-buf"},
        Refusal{REDUCE(R"("input": "absent")"), "no variable has the name"},
        Refusal{REDUCE(R"("input": "scratch", "stream": 4)"), "stream"},
        Refusal{REDUCE(R"("input": "scratch", "input_offset": 4080)"), "32 bytes at 4080"},
        Refusal{REDUCE(R"("input": "scratch", "replica_groups": [[0, 1], [1, 2]])"), "twice"},
        Refusal{REDUCE(R"("input": "scratch", "replica_groups": [[0, 1], [2]])"), "equally large"},
        Refusal{REDUCE(R"("input": "scratch", "replica_groups": [[]])"), "1 to 128 ranks"},
        Refusal{REDUCE(R"("input": "scratch", "replica_groups": [0])"), "1 to 128 ranks"},
        Refusal{REDUCE(R"("input": "scratch", "pairs": [[0]])"), "a pair of ranks"},
        Refusal{REDUCE(R"("input": "scratch", "semaphore": 240)"), "semaphore"},
        Refusal{R"([{"operation": "all_gather", "type": "float32", "count": 512, "input": "scratch",
                     "output": "scratch", "replica_groups": [[0, 1, 2]]}])",
                "6144 bytes at 0"},
        Refusal{R"([{"operation": "all_gather", "type": "int64", "count": 1099511627777,
                     "input": "scratch", "output": "scratch"}])",
                "count"},
        Refusal{VARIABLE("all_gather_v", R"("count": 8)"), "one for each rank of the group"},
        Refusal{VARIABLE("all_gather_v", R"("counts": [])"), "has 0 entries"},
        Refusal{VARIABLE("all_gather_v", R"("counts": [1, -1])"), "counts"},
        Refusal{VARIABLE("all_gather_v", R"("counts": [1, 1.5])"), "counts"},
        Refusal{VARIABLE("all_gather_v", R"("counts": [1, 2, 3], "replica_groups": [[0, 1]])"),
                "has 3 entries"},
        Refusal{VARIABLE("all_gather_v", R"("counts": [512, 513])"), "4100 bytes at 0"},
        Refusal{VARIABLE("all_gather_v", R"("counts": [1, 1], "displacements": [0, 1024])"),
                "4100 bytes at 0"},
        Refusal{VARIABLE("reduce_scatter_v", R"("counts": [1, 1], "displacements": [0])"),
                "has 1 entries, \"counts\" has 2"},
        Refusal{VARIABLE("reduce_scatter_v", R"("counts": [18446744073709551615, 1])"), "counts"},
        Refusal{VARIABLE("all_to_all_v", R"("counts": [1, 1, 1])"),
                "one for each pair of ranks of the group"},
        Refusal{VARIABLE("all_to_all_v", R"("counts": [1, 1, 1, 1], "displacements": [0, 1])"),
                "displacements"},
        Refusal{VARIABLE("all_to_all_v", R"("counts": [1, 1, 1, 1],
                                           "receive_displacements": [0, 1, 0])"),
                "receive_displacements"},
        Refusal{VARIABLE("all_to_all_v", R"("counts": [1, 1, 1, 1],
                                           "receive_displacements": [0, 1, 0, 1024])"),
                "4100 bytes at 0"}));

}  // namespace
}  // namespace neuron::neff
