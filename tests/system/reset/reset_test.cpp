// SPDX-License-Identifier: Apache-2.0
// neuron-reset beside a daemon: what it says and with what it ends, of devices that are in order,
// held, broken, hung or gone, and of a daemon that is killed in the middle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "tests/support/daemon.h"

namespace neuron::reset {
namespace {

using test::Daemon;
using test::Ending;
using test::Folder;
using test::Process;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
namespace json = boost::json;

const std::string kProgram = test::built("bin/neuron-reset");

class Reset : public testing::Test {
 protected:
  explicit Reset(const std::string& profile = "trn1.2xlarge") : daemon_(folder_, profile) {}

  std::unique_ptr<Process> start(test::Words options) {
    options.insert(options.begin(), {kProgram, "--format", "ndjson"});
    return std::make_unique<Process>(
        options, test::Environment{{"NEURON_EMULATOR", daemon_.emulator()}}, log_);
  }
  // Its next state, and what it says of it; false at the end.
  bool next(Process& process) {
    const std::string line = process.line();
    if (line == "(end)" || line == "(nothing)") return false;
    json::error_code error;
    const json::value value = json::parse(line, error);
    EXPECT_FALSE(error) << line;
    if (error) return false;
    states_.emplace_back(value.at("state").as_string());
    const json::value& detail = value.at("detail");
    details_.push_back(detail.is_string() ? std::string(detail.as_string()) : "");
    return true;
  }
  Ending end(Process& process) {
    while (next(process)) continue;
    return process.wait();
  }
  Ending run(const std::vector<std::string>& options) {
    states_.clear();
    details_.clear();
    return end(*start(options));
  }
  std::string said() const { return details_.empty() ? test::read_file(log_) : details_.back(); }
  Ending inject(const std::string& fault) { return daemon_.control({"inject", fault}); }

  Folder folder_;
  Daemon daemon_;
  const std::string log_ = folder_.path("reset.log");
  std::vector<std::string> states_, details_;
};

TEST_F(Reset, OfADeviceInOrderEndsReadyAfterProgramsOnEachCore) {
  EXPECT_EQ(run({"--device", "0"}), 0) << said();
  EXPECT_THAT(states_, ElementsAre("looking", "resetting", "returning", "verifying", "verifying",
                                   "verifying", "ready"));
  EXPECT_THAT(said(), HasSubstr("programs on core 0, 1 give the right results"));
}

TEST_F(Reset, OfADeviceThatHungEndsReady) {
  ASSERT_EQ(inject(R"({"at": "engine.instruction", "kind": "hang", "core": 1, "engine": "DVE"})"),
            0);
  test::Worker worker(folder_, daemon_.emulator(), 1, "matmul_f32_256.neff");
  EXPECT_THAT(worker.line(), HasSubstr("failed"));
  worker.process().kill();
  EXPECT_EQ(run({"--device", "0"}), 0) << said();
}

TEST_F(Reset, IsRefusedWhileSomebodyHoldsTheDeviceAndNamesThem) {
  test::Worker holder(folder_, daemon_.emulator(), 1, "empty.neff");
  ASSERT_EQ(holder.line(), "ready") << holder.log();
  EXPECT_EQ(run({"--device", "0"}), 4);
  EXPECT_THAT(states_, ElementsAre("looking", "refused"));
  EXPECT_THAT(said(), HasSubstr("pid " + std::to_string(holder.process().pid()) + " ("));
  EXPECT_THAT(said(), HasSubstr("--force"));
  EXPECT_FALSE(holder.process().ended());

  // By force it is reset, but a core that is held cannot be tried: that is no success.
  EXPECT_EQ(run({"--device", "0", "--force"}), 4) << said();
  EXPECT_EQ(states_.back(), "unverified");
  EXPECT_THAT(said(), HasSubstr("core 1"));
  EXPECT_FALSE(holder.process().ended());

  holder.process().kill();
  Ending ending;
  test::eventually([&] { return (ending = run({"--device", "0"})) != 4; });
  EXPECT_EQ(ending, 0) << said();
}

TEST_F(Reset, FailsWhenTheChipGoesOffInTheMiddle) {
  ASSERT_EQ(run({"--device", "0"}), 0) << said();
  ASSERT_EQ(inject(R"({"at": "chip", "kind": "off", "n": 5})"), 0);
  EXPECT_EQ(run({"--device", "0", "--timeout", "3"}), 1);
  ASSERT_FALSE(states_.empty()) << said();
  EXPECT_EQ(states_.back(), "failed");
  for (const std::string& state : states_) EXPECT_NE(state, "ready");
}

TEST_F(Reset, IsFaultyWhenMemoryStaysBad) {
  ASSERT_EQ(inject(R"({"at": "hbm", "kind": "uncorrectable", "n": 5})"), 0);
  EXPECT_EQ(run({"--device", "0"}), 5) << said();
  EXPECT_EQ(states_.back(), "faulty");
  EXPECT_THAT(said(), MatchesRegex(".*HBM [01] .*0x[0-9a-f]+: 64 bytes cannot be read.*"));
  EXPECT_THAT(said(), HasSubstr("replace_instance"));
}

TEST_F(Reset, IsFaultyWhenAnEngineHangsAgain) {
  ASSERT_EQ(
      inject(
          R"({"at": "engine.instruction", "kind": "hang", "core": 0, "engine": "Pool", "n": 3})"),
      0);
  EXPECT_EQ(run({"--device", "0"}), 5) << said();
  EXPECT_THAT(said(), HasSubstr("core 0 Pool"));
}

TEST_F(Reset, GivesADeviceUpWhoseDriverDoesNotAnswer) {
  ASSERT_EQ(run({"--device", "0"}), 0) << said();
  const auto process = start({"--device", "0", "--timeout", "2"});
  states_.clear();
  details_.clear();
  ASSERT_TRUE(next(*process));
  daemon_.process().signal(SIGSTOP);
  const auto begun = test::Clock::now();
  // It may have got as far as any state; it must end, and not with success.
  const Ending ending = end(*process);
  daemon_.process().signal(SIGCONT);
  ASSERT_FALSE(states_.empty());
  if (states_.back() == "ready") {
    EXPECT_EQ(ending, 0);
  } else {
    EXPECT_EQ(ending, states_.back() == "faulty" ? 5 : 1) << said();
  }
  EXPECT_LT(test::Clock::now() - begun, std::chrono::seconds(40));
}

TEST_F(Reset, FailsWhenTheDaemonIsKilledInTheMiddle) {
  // A reset of a chip that went off takes the driver seconds, so the kill is in the middle of it.
  ASSERT_EQ(run({"--device", "0"}), 0) << said();
  ASSERT_EQ(inject(R"({"at": "chip", "kind": "off", "n": 5})"), 0);
  states_.clear();
  details_.clear();
  const auto process = start({"--device", "0"});
  ASSERT_TRUE(next(*process) && next(*process));
  EXPECT_EQ(states_.back(), "resetting");
  daemon_.process().kill();
  const auto begun = test::Clock::now();
  EXPECT_EQ(end(*process), 1);
  EXPECT_EQ(states_.back(), "failed");
  EXPECT_FALSE(said().empty());
  EXPECT_LT(test::Clock::now() - begun, std::chrono::seconds(20));
}

TEST_F(Reset, FailsWithoutSuchADevice) {
  EXPECT_EQ(run({"--device", "9"}), 1);
  EXPECT_THAT(states_, ElementsAre("looking", "failed"));
  EXPECT_THAT(said(), HasSubstr("no such device"));
}

TEST_F(Reset, SaysWhyThereIsNoDaemon) {
  daemon_.process().kill();
  EXPECT_EQ(run({"--all"}), 1);
  EXPECT_TRUE(states_.empty());
  EXPECT_THAT(test::read_file(log_), HasSubstr("no device: "));
  EXPECT_THAT(test::read_file(log_), HasSubstr("start"));
}

TEST_F(Reset, IsCarriedThroughWhenItsReaderGoes) {
  const auto process = start({"--device", "0"});
  ASSERT_TRUE(next(*process));
  process->close_output();
  // It cannot tell the result, and ends by itself, not by a signal.
  EXPECT_EQ(process->wait(), 1);
  EXPECT_EQ(test::read_file(log_), "");
}

class ResetOfSix : public Reset {
 protected:
  ResetOfSix() : Reset("inf2.24xlarge") {}
};

TEST_F(ResetOfSix, TellsEveryDevicesEndAndTheGravestDecides) {
  test::Worker holder(folder_, daemon_.emulator(), 2, "empty.neff");
  ASSERT_EQ(holder.line(), "ready") << holder.log();
  ASSERT_EQ(inject(R"({"at": "sram", "kind": "uncorrectable", "chip": 2, "core": 0, "n": 5})"), 0);
  Process process({kProgram, "--all", "--format", "json"},
                  {{"NEURON_EMULATOR", daemon_.emulator()}}, log_);
  const std::string text = process.rest();
  ASSERT_EQ(process.wait(), 5) << text;
  std::map<int, std::string> ends;
  const json::value document = json::parse(text);
  for (const json::value& entry : document.at("devices").as_array()) {
    ends[entry.at("device").to_number<int>()] = entry.at("end").as_string().c_str();
  }
  const std::map<int, std::string> expected = {{0, "ready"}, {1, "refused"}, {2, "faulty"},
                                               {3, "ready"}, {4, "ready"},   {5, "ready"}};
  EXPECT_EQ(ends, expected) << text;
}

}  // namespace
}  // namespace neuron::reset
