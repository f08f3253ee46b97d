// SPDX-License-Identifier: Apache-2.0
// The same calls give the same answers on every host of the chip: here in the process and in a
// daemon; the guest of the virtual machine compares its trace with the same file. NEFFs of the
// build give the same outputs and model times in the process and in a daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>

#include "tests/support/daemon.h"

namespace neuron {
namespace {

class Hosts : public ::testing::Test {
 protected:
  // Nobody leaves a file behind that is not known here.
  void TearDown() override {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.insert(entry.path().filename());
    }
    EXPECT_THAT(std::set<std::string>({"socket", "socket.control", "socket.log", "trace.log"}),
                ::testing::IsSupersetOf(names));
  }

  std::string trace(const std::string& emulator) const {
    test::Process process({test::built("tests/ioctl-trace")},
                          {{"NEURON_EMULATOR", emulator},
                           {"NEURON_EMULATOR_LIBRARY", test::built("lib/libneuron-emulator.so.1")}},
                          folder_.path("trace.log"));
    const std::string text = process.rest();
    EXPECT_EQ(process.wait(), 0) << "ioctl-trace on " << emulator << folder_.read("trace.log");
    return text;
  }

  const std::string expected_ =
      test::read_file(test::source("tests/differential/hosts/ioctl_trace.txt"));
  const test::Folder folder_;
};

TEST_F(Hosts, AnEmbeddedDeviceAnswersAsTheTraceSays) {
  ASSERT_FALSE(expected_.empty());
  EXPECT_EQ(trace("trn1.2xlarge"), expected_);
}

TEST_F(Hosts, ASharedDeviceAnswersAsTheTraceSays) {
  const test::Daemon daemon(folder_);
  EXPECT_EQ(trace(daemon.emulator()), expected_);
}

struct Executed {
  std::string times;   // of the first of three executions, and of the median
  std::string output;  // the bytes of its file
};

// `neff` is a file of build/neff without its ending, with made-up inputs.
Executed executed(const std::string& neff, const std::string& output, const std::string& emulator) {
  const test::Folder folder;
  const test::Run run =
      test::shell(test::built("bin/neuron-run") + " " + test::built("neff/" + neff + ".neff") +
                      " --random --repeat 3 --format ndjson -o " + output + "=" +
                      folder.path("output.npy") + " 2>&1",
                  {{"NEURON_EMULATOR", emulator},
                   {"NEURON_LOGICAL_NC_CONFIG", "1"},
                   {"NEURON_RT_LOG_LEVEL", "QUIET"}});
  EXPECT_EQ(run.ending, 0) << run.output;
  std::smatch times;
  const std::regex wanted(R"("device_time_p50_us":[0-9.]+,"device_time_p99_us":[0-9.]+)");
  EXPECT_TRUE(std::regex_search(run.output, times, wanted)) << run.output;
  return {times.str(), folder.read("output.npy")};
}

struct OfProfile {
  const char* profile;
  std::vector<std::pair<const char*, const char*>> programs;  // and their outputs
};

TEST(Programs, TwelveGiveTheSameOutputsAndModelTimesInTheProcessAndInADaemon) {
  const OfProfile all[] = {
      {"trn1.2xlarge",
       {{"attention", "y"},
        {"convolution", "y"},
        {"digits", "probabilities"},
        {"digits_training_f32", "loss"},
        {"gelu_mlp", "y"},
        {"layer_norm_bf16", "y"},
        {"mamba_v3", "y"},
        {"matmul_f32_256", "result"},
        {"softmax_f32", "y"},
        {"transpose_dma", "y"}}},
      {"trn2.3xlarge", {{"trn2/rms_norm_quant_bf16", "y"}}},
      {"trn3pd98.3xlarge", {{"trn3/mx_matmul", "result"}}},
  };
  for (const auto& [profile, programs] : all) {
    const test::Folder folder;
    const test::Daemon daemon(folder, profile);
    for (const auto& [neff, output] : programs) {
      const Executed here = executed(neff, output, profile);
      EXPECT_FALSE(here.output.empty()) << neff;
      const Executed there = executed(neff, output, daemon.emulator());
      EXPECT_EQ(here.times, there.times) << neff;
      EXPECT_TRUE(here.output == there.output) << neff << ": the outputs differ";
    }
  }
}

}  // namespace
}  // namespace neuron
