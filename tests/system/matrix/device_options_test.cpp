// SPDX-License-Identifier: Apache-2.0
// nccom-test on emulated devices: files of streams and of counts, buffers, reductions, virtual
// cores, calibration; what the device cannot do is refused with a sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace neuron::matrix {
namespace {

using testing::HasSubstr;

class DeviceOptions : public testing::Test {
 protected:
  DeviceOptions() {
    std::string name = (std::filesystem::temp_directory_path() / "nccom-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~DeviceOptions() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ + "/" + name) << content;
    return folder_ + "/" + name;
  }
  // Exit status; both outputs are in text_.
  int run(const std::string& options, const std::string& profile = "trn1.32xlarge") {
    const auto own = std::filesystem::read_symlink("/proc/self/exe");
    const auto program = own.parent_path().parent_path() / "bin" / "nccom-test";
    const std::string log = folder_ + "/log";
    const int status =
        std::system(("NEURON_RT_LOG_LEVEL=QUIET NEURON_EMULATOR=" + profile + " timeout 60 " +
                     program.string() + " --backend device -w 0 " + options + " > " + log + " 2>&1")
                        .c_str());
    std::ifstream stream(log);
    text_.assign(std::istreambuf_iterator<char>(stream), {});
    return status;
  }

  std::string folder_, text_;
};

TEST_F(DeviceOptions, StreamsRunBesideEachOtherUntilTheLongestSweepEnds) {
  const std::string streams = file("streams.json", R"({"streams": [
      {"operation": "allr", "datatype": "int32", "minbytes": "1K", "maxbytes": "4K",
       "stepfactor": 2, "ops_per_iter": 2},
      {"operation": "allg", "datatype": "bf16", "minbytes": "2K", "maxbytes": "2K"}]})");
  EXPECT_EQ(run("-r 2 -n 2 --seed 3 --check --streams-json " + streams), 0) << text_;
  EXPECT_THAT(text_, HasSubstr("stream 0: all_reduce"));
  EXPECT_THAT(text_, HasSubstr("stream 1: all_gather"));
}

TEST_F(DeviceOptions, CountsOfAFileSayWhatEachRankSends) {
  const std::string all_to_all = file("alltoallv.json", R"({"metadata": [
      {"send_counts": [1, 5, 0], "send_displs": [0, 1, 6]},
      {"send_counts": [7, 2, 3], "send_displs": [0, 7, 9]},
      {"send_counts": [0, 4, 6], "send_displs": [0, 0, 4]}]})");
  EXPECT_EQ(run("-r 3 -n 1 --seed 3 --check -d fp32 --variable-size-op-metadata " + all_to_all +
                " alltoallv"),
            0)
      << text_;
  const std::string gather = file("gatherv.json", R"({"metadata": [
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

TEST_F(DeviceOptions, CoalescedOperationsShareNoOutput) {
  EXPECT_EQ(run("-r 2 -n 1 -b 4K -e 4K --seed 3 --check --coalesced-cc-size-ratio [1,2,1] allr"), 0)
      << text_;
  EXPECT_NE(run("-r 2 -n 1 -b 4K -e 4K --coalesced-cc-size-ratio [1,1] --shared-output-buff allr"),
            0);
  EXPECT_THAT(text_, HasSubstr("--shared-output-buff: on the device"));
}

TEST_F(DeviceOptions, VirtualCoresOfTwoAreRanks) {
  EXPECT_EQ(run("-r 4 -n 1 -b 4K -e 4K --seed 3 --check -d fp32 allr alltoall", "trn2.48xlarge"), 0)
      << text_;
  EXPECT_EQ(::setenv("NEURON_LOGICAL_NC_CONFIG", "1", 1), 0);
  EXPECT_EQ(run("-r 8 -n 1 -b 4K -e 4K --seed 3 --check -d fp32 allr", "trn2.48xlarge"), 0)
      << text_;
  ::unsetenv("NEURON_LOGICAL_NC_CONFIG");
}

TEST_F(DeviceOptions, CalibrationWritesPricesThatALaterRunTakes) {
  const std::string prices = folder_ + "/prices.json";
  EXPECT_EQ(run("-r 4 -n 1 -e 64K --calibrate " + prices), 0) << text_;
  EXPECT_THAT(text_, HasSubstr("calibration of the device"));
  ASSERT_TRUE(std::filesystem::exists(prices));
  ::setenv("CCOM_CALIBRATION", prices.c_str(), 1);
  EXPECT_EQ(run("-r 4 -n 1 -b 4K -e 4K --seed 3 --check -d fp32 allr allg"), 0) << text_;
  ::unsetenv("CCOM_CALIBRATION");
}

}  // namespace
}  // namespace neuron::matrix
