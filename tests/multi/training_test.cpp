// SPDX-License-Identifier: Apache-2.0
// `neuron-digits train --parallel`: several cores of one instance and of several, processes that
// are killed meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>

#include "tests/support/daemon.h"
#include "tests/support/free_port.h"
#include "tests/support/sanitized.h"

namespace neuron::multi {
namespace {

using test::Daemon;
using test::Folder;
using test::Process;
using test::Words;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A sanitizer makes all of it twenty times as slow.
const std::string kCores = test::kSanitized ? "2" : "4";
const int kEpochs = test::kSanitized ? 10 : 20;

// Processes of a job, each with the devices of one daemon. The variables are those of MPICH.
class Job {
 public:
  Job(const Folder& folder, const std::vector<std::string>& emulators, Words arguments) {
    Words command = {test::built("bin/neuron-digits"), "train", "--parallel", "--data",
                     test::source("tools/compiler/kernels/digits/digits.csv.gz")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const std::string root = "127.0.0.1:" + std::to_string(test::free_port());
    for (size_t i = 0; i < emulators.size(); ++i) {
      logs_.push_back(folder.path() + "/process-" + std::to_string(i) + "-of-" +
                      std::to_string(emulators.size()) + ".log");
      test::Environment environment = {{"NEURON_EMULATOR", emulators[i]},
                                       {"NEURON_RT_LOG_LEVEL", "QUIET"},
                                       {"NEURON_RT_EXEC_TIMEOUT", "40"},
                                       {"CCOM_ALGORITHM", "mesh"}};
      if (emulators.size() > 1) {
        environment.insert({{"NEURON_RT_ROOT_COMM_ID", root},
                            {"PMI_RANK", std::to_string(i)},
                            {"PMI_SIZE", std::to_string(emulators.size())}});
      }
      processes_.push_back(std::make_unique<Process>(command, environment, logs_.back()));
    }
  }
  Process& operator[](size_t process) { return *processes_[process]; }
  // The line of a process that begins so; "" if it ends without one.
  std::string line_of(size_t process, const std::string& beginning) {
    for (std::string line = processes_[process]->line(); !line.empty();
         line = processes_[process]->line()) {
      if (line.starts_with(beginning)) return line;
    }
    return "";
  }
  std::string log(size_t process) const { return test::read_file(logs_[process]); }

 private:
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::string> logs_;
};

Daemon instance(const Folder& folder, const std::string& name) {
  return Daemon(folder, "trn1.32xlarge", {.name = name, .before = {}, .arguments = {}});
}

double accuracy_in(const std::string& line) {
  const std::string before = "accuracy on unseen digits ";
  const size_t at = line.find(before);
  return at == std::string::npos ? 0 : std::stod(line.substr(at + before.size()));
}

TEST(ParallelTraining, OfTwoInstancesGivesTheBitsOfOneWithAsManyRanks) {
  const Folder folder;
  const Daemon first = instance(folder, "first"), second = instance(folder, "second");
  Job one(folder, {first.emulator()},
          {"--cores", test::kSanitized ? "4" : "16", "--epochs", "2", "--rate", "0.8"});
  const std::string expected = one.line_of(0, "weights ");
  EXPECT_EQ(one[0].wait(), 0) << one.log(0);
  Job two(folder, {first.emulator(), second.emulator()},
          {"--cores", test::kSanitized ? "2" : "8", "--epochs", "2", "--rate", "0.8"});
  EXPECT_THAT(two.line_of(0, "training"), HasSubstr("ranks of 2 processes"));
  EXPECT_EQ(two.line_of(0, "weights "), expected);
  EXPECT_EQ(two[0].wait(), 0) << two.log(0);
  EXPECT_EQ(two[1].wait(), 0) << two.log(1);
  EXPECT_THAT(expected, HasSubstr("the same on all ranks"));
}

TEST(ParallelTraining, GoesOnWithoutAProcessThatIsKilledAndLearnsToReadDigits) {
  const Folder folder;
  const Daemon first = instance(folder, "first"), second = instance(folder, "second");
  for (const size_t killed : {0U, 1U}) {
    Job job(folder, {first.emulator(), second.emulator()},
            {"--cores", kCores, "--epochs", std::to_string(kEpochs), "--rate", "0.8",
             "--on-failure", "go-on"});
    ASSERT_NE(job.line_of(0, "epoch"), "") << job.log(0);
    job[killed].signal(SIGKILL);
    const size_t left = 1 - killed;
    const std::string goes_on =
        job.line_of(left, kCores + " ranks of 1 processes go on behind epoch ");
    ASSERT_NE(goes_on, "") << job.log(left);
    EXPECT_GE(std::stoi(goes_on.substr(goes_on.rfind(' ') + 1)), kEpochs / 10 - 1) << goes_on;
    EXPECT_GE(accuracy_in(job.line_of(left, "loss ")), test::kSanitized ? 0.6 : 0.90);
    EXPECT_EQ(job[left].wait(), 0) << job.log(left);
    // Ranks of the killed process are 0 to 3, or 4 to 7.
    EXPECT_THAT(job.log(left),
                testing::ContainsRegex(killed == 0 ? "rank [0-3] \\(.*died: killed by signal 9"
                                                   : "rank [2-7] \\(.*died: killed by signal 9"));
  }
}

TEST(ParallelTraining, StopsWithTheNameOfTheRankThatWasKilled) {
  const Folder folder;
  const Daemon first = instance(folder, "first"), second = instance(folder, "second");
  Job job(folder, {first.emulator(), second.emulator()},
          {"--cores", kCores, "--epochs", "20", "--rate", "0.8"});
  ASSERT_NE(job.line_of(0, "epoch"), "") << job.log(0);
  job[1].signal(SIGKILL);
  EXPECT_EQ(job[0].wait(), 1);
  EXPECT_THAT(job.log(0),
              AllOf(HasSubstr("neuron-digits: executing a step: "),
                    testing::ContainsRegex("rank [2-7] \\(.*died: killed by signal 9")));
}

TEST(ParallelTraining, TellsWhatItCannotDo) {
  const Folder folder;
  const auto told = [&](const Words& arguments, const test::Environment& environment) {
    Words command = {test::built("bin/neuron-digits"), "train", "--parallel", "--data",
                     test::source("tools/compiler/kernels/digits/digits.csv.gz")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const test::Run run = test::run(command, environment);
    EXPECT_EQ(run.ending, 1) << run.output;
    return run.output;
  };
  EXPECT_THAT(told({"--cores", "100"}, {{"NEURON_EMULATOR", "trn1.2xlarge"},
                                        {"PMI_RANK", "0"},
                                        {"PMI_SIZE", "2"},
                                        {"NEURON_RT_ROOT_COMM_ID", "127.0.0.1:4000"}}),
              HasSubstr("200 ranks (2 processes with 100 cores) are more than the 120 digits"));
  EXPECT_THAT(told({}, {{"NEURON_EMULATOR", "trn1.2xlarge"},
                        {"PMI_RANK", "0"},
                        {"PMI_SIZE", "2"},
                        {"NEURON_RT_ROOT_COMM_ID", "nowhere"}}),
              HasSubstr("NEURON_RT_ROOT_COMM_ID is \"nowhere\"; expected IPV4:PORT"));
  EXPECT_THAT(told({"--cores", "8"}, {{"NEURON_EMULATOR", "trn1.2xlarge"}}), HasSubstr("core"));
}

}  // namespace
}  // namespace neuron::multi
