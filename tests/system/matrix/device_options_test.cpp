// SPDX-License-Identifier: Apache-2.0
// nccom-test on emulated devices: files of streams and of counts, buffers, reductions, virtual
// cores, calibration; what the device cannot do is refused with a sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/setting.h"

namespace neuron::matrix {
namespace {

using testing::HasSubstr;

class DeviceOptions : public testing::Test {
 protected:
  // Both outputs are in text_.
  test::Ending run(const std::string& options, const std::string& profile = "trn1.32xlarge") {
    const test::Run run =
        test::shell(test::built("bin/nccom-test --backend device -w 0 ") + options,
                    {{"NEURON_RT_LOG_LEVEL", "QUIET"}, {"NEURON_EMULATOR", profile}});
    text_ = run.output;
    return run.ending;
  }

  const test::Folder folder_;
  std::string text_;
};

TEST_F(DeviceOptions, StreamsRunBesideEachOtherUntilTheLongestSweepEnds) {
  const std::string streams = folder_.write("streams.json", R"({"streams": [
      {"operation": "allr", "datatype": "int32", "minbytes": "1K", "maxbytes": "4K",
       "stepfactor": 2, "ops_per_iter": 2},
      {"operation": "allg", "datatype": "bf16", "minbytes": "2K", "maxbytes": "2K"}]})");
  EXPECT_EQ(run("-r 2 -n 2 --seed 3 --check --streams-json " + streams), 0) << text_;
  EXPECT_THAT(text_, HasSubstr("stream 0: all_reduce"));
  EXPECT_THAT(text_, HasSubstr("stream 1: all_gather"));
}

TEST_F(DeviceOptions, CountsOfAFileSayWhatEachRankSends) {
  const std::string all_to_all = folder_.write("alltoallv.json", R"({"metadata": [
      {"send_counts": [1, 5, 0], "send_displs": [0, 1, 6]},
      {"send_counts": [7, 2, 3], "send_displs": [0, 7, 9]},
      {"send_counts": [0, 4, 6], "send_displs": [0, 0, 4]}]})");
  EXPECT_EQ(run("-r 3 -n 1 --seed 3 --check -d fp32 --variable-size-op-metadata " + all_to_all +
                " alltoallv"),
            0)
      << text_;
  const std::string gather = folder_.write("gatherv.json", R"({"metadata": [
      {"send_counts": [4]}, {"send_counts": [0]}, {"send_counts": [9]}]})");
  EXPECT_EQ(run("-r 3 -n 1 --seed 3 --check -d int8 --variable-size-op-metadata " + gather +
                " all_gatherv"),
            0)
      << text_;
}

TEST_F(DeviceOptions, ReducesInTypesAndWaysThatFp32DoesNotHave) {
  for (const char* how : {"-d int64 --reduction product", "-d uint8 --reduction average",
                          "-d bf16 --reduction average", "-d int16 --reduction add"}) {
    EXPECT_EQ(run(std::string("-r 3 -n 1 -b 3K -e 3K --seed 3 --check ") + how + " allr redsct"), 0)
        << text_;
  }
}

TEST_F(DeviceOptions, IterationsTakeBuffersOfTheirOwnInTurn) {
  EXPECT_EQ(run("-r 2 -n 3 -b 1K -e 1K --seed 3 --check --unique-buff -d fp32 allr permute"), 0)
      << text_;
}

TEST_F(DeviceOptions, CoalescedOperationsHaveOutputsOfTheirOwnOrShareOne) {
  EXPECT_EQ(run("-r 2 -n 1 -b 4K -e 4K --seed 3 --check --coalesced-cc-size-ratio [1,2,1] allr"), 0)
      << text_;
  for (const char* operation : {"allr", "allg", "redsct", "alltoall"}) {
    EXPECT_EQ(run(std::string("-r 2 -n 2 -b 4K -e 8K --coalesced-cc-size-ratio [1,3,2] "
                              "--shared-output-buff ") +
                  operation),
              0)
        << text_;
    EXPECT_THAT(text_, HasSubstr("Avg bus bandwidth")) << operation;
  }
}

TEST_F(DeviceOptions, TilesOfTheStateBufferAreGatheredBesideOrBelowOneAnother) {
  for (const char* layout :
       {"", "--cc-dim 1", "--input-shape [1,1][16,32]", "--cc-dim 1 --input-shape [1,1][32,32]",
        "--input-shape [1,1][64,16] --output-shape [1,1][64,48]"}) {
    EXPECT_EQ(run(std::string("-r 4 -n 2 -b 16K -e 16K --seed 3 --check random -d fp32 --sb2sb ") +
                  layout + " allg"),
              0)
        << layout << text_;
    EXPECT_THAT(text_, HasSubstr("results compared, all right")) << layout;
  }
  EXPECT_EQ(run("-r 4 -n 1 -b 16K -e 16K --seed 3 --check -d bf16 --sb2sb --cc-dim 1 redsct"), 0)
      << text_;
  EXPECT_EQ(run("-r 4 -n 1 -b 4K -e 64K --seed 3 --check -d bf16 --sb2sb allr alltoall permute"), 0)
      << text_;
}

TEST_F(DeviceOptions, LayoutsThatTilesCannotHaveAreRefusedWithASentence) {
  const auto refuses = [&](const std::string& options, const std::string& sentence) {
    EXPECT_NE(run("-r 4 -n 1 -b 16K -e 16K -d fp32 " + options), 0) << options;
    EXPECT_THAT(text_, HasSubstr(sentence)) << options;
  };
  refuses("--sb2sb --input-shape [1,2][16,32] allg", "expected [1,1][elements,partitions]");
  refuses("--sb2sb --input-shape [1,1][16,256] allg", "at most 128 partitions");
  refuses("--sb2sb --input-shape [1,1][16,32] --output-shape [1,1][8,32] allg",
          "rows of 16 and of 8 elements");
  refuses("--sb2sb --cc-dim 1 --input-shape [1,1][16,64] allg", "--cc-dim 1: 4 blocks");
  refuses("--cc-dim 1 allg", "--cc-dim belongs to --sb2sb");
  refuses("--sb2sb --backend host allg", "only devices have state buffers");
}

TEST_F(DeviceOptions, VirtualCoresOfTwoAreRanks) {
  EXPECT_EQ(run("-r 4 -n 1 -b 4K -e 4K --seed 3 --check -d fp32 allr alltoall", "trn2.48xlarge"), 0)
      << text_;
  const test::Setting single("NEURON_LOGICAL_NC_CONFIG", "1");
  EXPECT_EQ(run("-r 8 -n 1 -b 4K -e 4K --seed 3 --check -d fp32 allr", "trn2.48xlarge"), 0)
      << text_;
}

TEST_F(DeviceOptions, CalibrationWritesPricesThatALaterRunTakes) {
  const std::string prices = folder_.path("prices.json");
  EXPECT_EQ(run("-r 4 -n 1 -e 64K --calibrate " + prices), 0) << text_;
  EXPECT_THAT(text_, HasSubstr("calibration of the device"));
  ASSERT_TRUE(std::filesystem::exists(prices));
  const test::Setting calibration("CCOM_CALIBRATION", prices);
  EXPECT_EQ(run("-r 4 -n 1 -b 4K -e 4K --seed 3 --check -d fp32 allr allg"), 0) << text_;
}

}  // namespace
}  // namespace neuron::matrix
