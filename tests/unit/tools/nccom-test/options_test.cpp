// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/input/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/files.h"
#include "tools/nccom-test/input/operation.h"

namespace neuron::nccom {
namespace {

using test::Folder;
using ::testing::HasSubstr;

ccom::Result<Options> parsed(const std::vector<std::string>& arguments) {
  Usage usage;
  return parse_options(arguments, usage);
}

std::string complaint(const std::vector<std::string>& arguments) {
  Usage usage;
  const auto options = parse_options(arguments, usage);
  EXPECT_FALSE(options) << "it was accepted";
  EXPECT_NE(usage.status, 0);
  return options ? "" : options.error().sentence;
}

TEST(ByteSize, SuffixesArePowersOf1024InEverySpelling) {
  for (const char* text : {"32M", "32MB", "32mb", "32MiB", "33554432", "33554432B", "32768kb"}) {
    const auto size = parse_byte_size(text);
    ASSERT_TRUE(size) << text;
    EXPECT_EQ(*size, 33554432u) << text;
  }
  EXPECT_EQ(*parse_byte_size("1gb"), 1u << 30);
  EXPECT_EQ(*parse_byte_size("1.5k"), 1536u);
  EXPECT_EQ(*parse_byte_size("0"), 0u);
}

TEST(ByteSize, WhatIsNoSizeIsShownInTheSentence) {
  for (const char* text : {"", "M", "12Q", "-4", "nan", "1.3", "99999T", "4 M"}) {
    const auto size = parse_byte_size(text);
    ASSERT_FALSE(size) << text;
    EXPECT_THAT(size.error().sentence, HasSubstr("\"" + std::string(text) + "\""));
  }
}

TEST(Sweep, StepsAreATenthOfTheRangeUnlessSaid) {
  EXPECT_EQ(sizes_of({100, 200, {}, {}})->size(), 11u);
  EXPECT_EQ(*sizes_of({8, 64, {}, 2.0}), (std::vector<uint64_t>{8, 16, 32, 64}));
  EXPECT_EQ(*sizes_of({8, 30, 10, {}}), (std::vector<uint64_t>{8, 18, 28}));
  EXPECT_EQ(*sizes_of({5, 5, {}, {}}), (std::vector<uint64_t>{5}));
}

TEST(Sweep, OneThatDoesNotEndIsRefused) {
  EXPECT_FALSE(sizes_of({64, 8, {}, {}}));
  EXPECT_FALSE(sizes_of({8, 64, {}, 1.0}));
  EXPECT_FALSE(sizes_of({8, 64, 0, {}}));
  EXPECT_FALSE(sizes_of({1, 1u << 30, 1, {}}));
}

TEST(Options, DefaultsAreThoseOfTheOriginal) {
  const auto options = parsed({"all_reduce", "-r", "32"});
  ASSERT_TRUE(options) << options.error().sentence;
  EXPECT_EQ(options->operations, std::vector<ccom_operation_t>{CCOM_ALL_REDUCE});
  EXPECT_EQ(options->ranks, 32u);
  EXPECT_EQ(options->nodes, 1u);
  EXPECT_EQ(options->block.sweep.minimum, 32u << 20);
  EXPECT_EQ(options->iterations, 20u);
  EXPECT_EQ(options->warmup, 5u);
  EXPECT_EQ(options->block.type, CCOM_UINT8);
  EXPECT_EQ(options->check, Check::kNone);
  ASSERT_EQ(options->statistics.size(), 1u);
  EXPECT_EQ(options->statistics[0].name, "avg");
}

TEST(Options, EveryFlagOfTheOriginalIsUnderstood) {
  const Folder folder;
  const std::string hosts = folder.write("hosts", "a\nb # the second\n");
  const auto options = parsed({"--nworkers",
                               "4",
                               "-N",
                               "2",
                               "-b",
                               "4",
                               "-e",
                               "1gb",
                               "-f",
                               "16",
                               "-n",
                               "15",
                               "-w",
                               "5",
                               "-I",
                               "10",
                               "-W",
                               "5",
                               "-d",
                               "bf16",
                               "-c",
                               "all_ones",
                               "--seed",
                               "7",
                               "--unique-buff",
                               "--hosts-file",
                               hosts,
                               "--mpi-log-dir",
                               "/tmp",
                               "-S",
                               "-u",
                               "64",
                               "--slurm-job-id",
                               "12",
                               "--non-interactive",
                               "--report-to-json-file",
                               "x.json",
                               "-t",
                               "avg",
                               "p50",
                               "p99",
                               "--show-algorithm",
                               "--show-input-output-size",
                               "--debug",
                               "--data-collector-port",
                               "60006",
                               "allr"});
  ASSERT_TRUE(options) << options.error().sentence;
  EXPECT_EQ(options->hosts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(options->statistics.size(), 3u);
  EXPECT_EQ(options->check, Check::kAllOnes);
  EXPECT_EQ(options->program_iterations, 10u);
  EXPECT_THAT(options->launch, HasSubstr("srun"));
  EXPECT_THAT(options->launch, HasSubstr("--jobid 12"));
}

TEST(Options, OfThePlaceOfRanksAreUnderstoodAndTheLastOneCounts) {
  const auto options = parsed({"--root-comm-id", "10.0.0.1:1", "--root-comm-id", "10.0.0.2:45000",
                               "--providers", "tcp,verbs", "--timeout", "1234", "--fast-order",
                               "--no-shared-memory", "-r", "2", "allr"});
  ASSERT_TRUE(options) << options.error().sentence;
  EXPECT_EQ(options->root, "10.0.0.2:45000");
  EXPECT_EQ(options->providers, "tcp,verbs");
  EXPECT_EQ(options->timeout_ms, 1234u);
  EXPECT_TRUE(options->fast_order);
  EXPECT_TRUE(options->no_shared_memory);
  const auto silent = parsed({"-r", "2", "allr"});
  ASSERT_TRUE(silent) << silent.error().sentence;
  EXPECT_EQ(silent->root, "");
  EXPECT_FALSE(silent->fast_order);
}

TEST(Options, CheckWithoutAValueMayStandBeforeTheOperation) {
  for (const auto& words : {std::vector<std::string>{"-r", "2", "-c", "allr"},
                            std::vector<std::string>{"allr", "-r", "2", "-c"},
                            std::vector<std::string>{"allr", "-r", "2", "-c", "random"}}) {
    const auto options = parsed(words);
    ASSERT_TRUE(options) << options.error().sentence;
    EXPECT_EQ(options->check, Check::kRandom);
    EXPECT_EQ(options->operations.size(), 1u);
  }
}

TEST(Options, BadArgumentsGetOneSentenceThatSaysWhatWouldDo) {
  EXPECT_THAT(complaint({"-r", "2"}), HasSubstr("which operation?"));
  EXPECT_THAT(complaint({"allr"}), HasSubstr("Give -r"));
  EXPECT_THAT(complaint({"allreduce", "-r", "2"}), HasSubstr("it is one of all_reduce"));
  EXPECT_THAT(complaint({"allr", "-r", "2", "-d", "float"}), HasSubstr("fp32"));
  EXPECT_THAT(complaint({"allr", "-r", "2", "-c", "zeros"}), HasSubstr("random or all_ones"));
  EXPECT_THAT(complaint({"allr", "-r", "3", "-N", "2", "-s", "a", "b"}), HasSubstr("evenly"));
  EXPECT_THAT(complaint({"allr", "-r", "4", "-N", "4", "-s", "a"}), HasSubstr("need 4 hosts"));
  EXPECT_THAT(complaint({"allr", "-r", "2", "-t", "p101"}), HasSubstr("--stats p101"));
  EXPECT_THAT(complaint({"bcast", "-r", "2", "--root", "2"}), HasSubstr("--root 2"));
  EXPECT_THAT(complaint({"allr", "-r", "2", "--backend", "gpu"}), HasSubstr("device, host"));
  EXPECT_THAT(complaint({"allr", "-r", "2", "--tolerance", "x"}), HasSubstr("5%"));
  EXPECT_THAT(complaint({"allr", "-r", "2", "--expected", "1 mile"}), HasSubstr("12.5GB/s"));
  EXPECT_THAT(complaint({"allr", "-r", "2", "--chips", "4"}), HasSubstr("--simulate"));
  EXPECT_THAT(complaint({"allr", "-r", "6", "--data-parallel-dimension", "4"}),
              HasSubstr("does not divide"));
}

TEST(Options, AnOperationBehindAListOfStatisticsOrHostsIsTheOperation) {
  auto options = parsed({"-r", "2", "-t", "avg", "p50", "allr"});
  ASSERT_TRUE(options) << options.error().sentence;
  EXPECT_EQ(options->operations, std::vector<ccom_operation_t>{CCOM_ALL_REDUCE});
  ASSERT_EQ(options->statistics.size(), 2u);
  EXPECT_EQ(options->statistics[1].name, "p50");
  options = parsed({"-r", "2", "-s", "n1", "n2", "allg"});
  ASSERT_TRUE(options) << options.error().sentence;
  EXPECT_EQ(options->operations, std::vector<ccom_operation_t>{CCOM_ALL_GATHER});
  EXPECT_EQ(options->hosts, (std::vector<std::string>{"n1", "n2"}));
  options = parsed({"allg", "-r", "2", "-s", "n1", "reduce"});
  ASSERT_TRUE(options) << options.error().sentence;
  EXPECT_EQ(options->hosts, (std::vector<std::string>{"n1", "reduce"})) << "a host of that name";
  EXPECT_THAT(complaint({"-r", "2", "-t", "avg", "allr", "fast"}), HasSubstr("--stats allr"));
  options = parsed({"--simulate", "trn1.32xlarge", "-r", "32", "--fail", "0/0-1", "0/1-2", "allr"});
  ASSERT_TRUE(options) << options.error().sentence;
  EXPECT_EQ(options->operations, std::vector<ccom_operation_t>{CCOM_ALL_REDUCE});
  EXPECT_EQ(options->failed, (std::vector<std::string>{"0/0-1", "0/1-2"}));
}

TEST(Options, AnOperationInPlaceOfTheFileToCompareWithIsNamed) {
  EXPECT_THAT(complaint({"-r", "2", "--compare", "allr"}), HasSubstr("--compare FILE allr"));
  const auto options = parsed({"allg", "-r", "2", "--compare", "allr"});
  ASSERT_TRUE(options) << options.error().sentence;
  EXPECT_EQ(options->compare, "allr") << "a file of that name";
}

TEST(Options, AFirstSizeAboveTheDefaultOfTheLastIsOneSize) {
  const auto options = parsed({"allr", "-r", "2", "-b", "64M"});
  ASSERT_TRUE(options) << options.error().sentence;
  EXPECT_EQ(options->block.sweep.minimum, 64u << 20);
  EXPECT_EQ(options->block.sweep.maximum, 64u << 20);
  EXPECT_THAT(complaint({"allr", "-r", "2", "-b", "64M", "-e", "1M"}), HasSubstr("less than"));
}

TEST(Options, OptionsOfASimulationNeedOne) {
  EXPECT_THAT(complaint({"allr", "-r", "2", "--costs", "none"}), HasSubstr("--costs belongs to"));
  EXPECT_THAT(complaint({"allr", "-r", "2", "--fail", "0/0-1"}), HasSubstr("--fail belongs to"));
}

TEST(Options, AFactorOrADimensionOfZeroIsRefused) {
  EXPECT_THAT(complaint({"allr", "-r", "2", "-f", "0"}),
              HasSubstr("--stepfactor 0 does not grow; give more than 1"));
  EXPECT_THAT(complaint({"allr", "-r", "2", "-b", "8", "-e", "64", "-f", "0"}),
              HasSubstr("--stepfactor 0 does not grow"));
  Usage usage;
  EXPECT_FALSE(parse_options({"allr", "-r", "2", "--data-parallel-dimension", "0"}, usage));
  EXPECT_THAT(usage.text, HasSubstr("--data-parallel-dimension"));
}

TEST(Options, OnlyOneOptionMayChooseWhatIsOnStandardOutput) {
  EXPECT_THAT(complaint({"allr", "-r", "2", "--format", "json", "--csv", "-"}),
              HasSubstr("--format and --csv - both choose"));
  EXPECT_TRUE(parsed({"allr", "-r", "2", "--format", "ndjson", "--json", "report.json"}));
  EXPECT_TRUE(prints_for_programs(*parsed({"allr", "-r", "2", "--format", "csv"})));
  EXPECT_FALSE(prints_for_programs(*parsed({"allr", "-r", "2", "--format", "text"})));
}

TEST(Options, AnExpectedRateMayBeInAnyOfThreeUnits) {
  EXPECT_DOUBLE_EQ(*parsed({"allr", "-r", "2", "--expected", "8Gbps"})->expected, 1e9);
  EXPECT_DOUBLE_EQ(*parsed({"allr", "-r", "2", "--expected", "1GiB/s"})->expected, 1073741824.0);
  EXPECT_DOUBLE_EQ(*parsed({"allr", "-r", "2", "--expected", "1"})->expected, 1e9);
  EXPECT_DOUBLE_EQ(*parsed({"allr", "-r", "2", "--gib", "--expected", "1"})->expected,
                   1073741824.0);
}

TEST(Options, RanksOfASimulatedSystemFollowFromItsChips) {
  const auto options = parsed({"allr", "--simulate", "trn1.32xlarge", "--chips", "64"});
  ASSERT_TRUE(options) << options.error().sentence;
  EXPECT_EQ(options->ranks, 128u);
  EXPECT_EQ(options->backend, Backend::kSimulated);
  EXPECT_THAT(complaint({"allr", "--simulate", "trn9.huge", "--chips", "4"}),
              HasSubstr("trn9.huge"));
}

TEST(InputFiles, GroupsThatOverlapOrDifferInSizeAreNamedByTheirPlace) {
  EXPECT_EQ(
      parse_replica_groups(R"({"replica_groups":[[[0,1],[2,3]],[[0,2],[1,3]]]})", "f", 4)->size(),
      2u);
  const auto sentence = [](const char* text) {
    const auto groups = parse_replica_groups(text, "groups.json", 4);
    return groups ? std::string("accepted") : groups.error().sentence;
  };
  EXPECT_THAT(sentence(R"({"replica_groups":[[[0,1],[1,2]]]})"),
              HasSubstr("rank 1 is named twice"));
  EXPECT_THAT(sentence(R"({"replica_groups":[[[0,1],[2]]]})"), HasSubstr("replica_groups[0][1]"));
  EXPECT_THAT(sentence(R"({"replica_groups":[[[0,9]]]})"), HasSubstr("replica_groups[0][0][1]"));
  EXPECT_THAT(sentence(R"({"replica_groups":[]})"), HasSubstr("empty"));
  EXPECT_THAT(sentence(R"({"groups":[]})"), HasSubstr("replica_groups"));
  EXPECT_THAT(sentence(R"({"replica_groups":[[[0,1]])"), HasSubstr("groups.json"));
  EXPECT_THAT(sentence("[]"), HasSubstr("groups.json"));
}

TEST(InputFiles, APairNamesARankOnceAsSourceAndOnceAsTarget) {
  EXPECT_EQ(parse_pairs(R"({"src_target_pairs":[[[0,1],[1,0]]]})", "f", 2)->front().size(), 2u);
  const auto twice = parse_pairs(R"({"src_target_pairs":[[[0,1],[0,2]]]})", "f", 3);
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().sentence, HasSubstr("rank 0 is a source twice"));
  EXPECT_FALSE(parse_pairs(R"({"src_target_pairs":[[[0,1,2]]]})", "f", 3));
}

TEST(InputFiles, MetadataComesOnceOrForEachRank) {
  EXPECT_EQ(
      parse_metadata(R"({"metadata":[{"send_counts":[1,2],"send_displs":[0,1]}]})", "f", 4)->size(),
      1u);
  const auto two =
      parse_metadata(R"({"metadata":[{"send_counts":[1]},{"send_counts":[1]}]})", "f", 4);
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().sentence, HasSubstr("2 entries"));
  const auto short_list =
      parse_metadata(R"({"metadata":[{"send_counts":[1,2],"send_displs":[0]}]})", "f", 4);
  ASSERT_FALSE(short_list);
  EXPECT_THAT(short_list.error().sentence, HasSubstr("metadata[0].send_displs"));
}

TEST(InputFiles, AStreamTakesWhatItDoesNotSayFromTheCommandLine) {
  BlockOptions defaults;
  defaults.type = CCOM_FP32;
  defaults.sweep.minimum = 8;
  const auto streams = parse_streams(
      R"({"streams":[{"operation":"allg","maxbytes":"1M","stepfactor":2},
                     {"operation":"allr","ops_per_iter":3,"minbytes":16,"maxbytes":16}]})",
      "s.json", defaults, 4);
  ASSERT_TRUE(streams) << streams.error().sentence;
  EXPECT_EQ((*streams)[0].operation, CCOM_ALL_GATHER);
  EXPECT_EQ((*streams)[0].type, CCOM_FP32);
  EXPECT_EQ((*streams)[0].sweep.minimum, 8u);
  EXPECT_EQ((*streams)[0].sweep.maximum, 1u << 20);
  EXPECT_EQ((*streams)[1].operations_per_iteration, 3u);
  const auto wrong =
      parse_streams(R"({"streams":[{"operation":"allr","maxbites":8}]})", "s.json", defaults, 4);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().sentence, HasSubstr("maxbites"));
}

TEST(InputFiles, ARatioIsAListOfWholeNumbers) {
  EXPECT_EQ(*parse_ratio("[1,2,1]"), (std::vector<uint32_t>{1, 2, 1}));
  EXPECT_EQ(*parse_ratio("3"), (std::vector<uint32_t>{3}));
  EXPECT_FALSE(parse_ratio("[]"));
  EXPECT_FALSE(parse_ratio("[1,0]"));
  EXPECT_FALSE(parse_ratio("[a]"));
}

TEST(BusFactor, FollowsTheSizeOfTheGroup) {
  EXPECT_DOUBLE_EQ(bus_factor(CCOM_ALL_REDUCE, 16), 1.875);
  EXPECT_DOUBLE_EQ(bus_factor(CCOM_ALL_GATHER, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(CCOM_PERMUTE, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(CCOM_ALL_REDUCE, 1), 0);
}

}  // namespace
}  // namespace neuron::nccom
