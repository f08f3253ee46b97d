// SPDX-License-Identifier: Apache-2.0
// The states of a reset, with a device that does what a script says.
#include "tools/neuron-reset/machine/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "tools/common/exit_status.h"

namespace neuron::reset {
namespace {

using namespace std::chrono_literals;
using checks::Finding;
using checks::Verdict;
using telemetry::DeviceState;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Sight ready_sight() {
  Sight sight;
  sight.found = true;
  sight.state = DeviceState::kReady;
  sight.cores = {{0, 6, true}, {1, 7, true}};
  return sight;
}

Finding finding_of(Verdict verdict, const char* engine, const char* found) {
  Finding finding;
  finding.check = "engine.program";
  finding.verdict = verdict;
  finding.engine = engine;
  finding.found = found;
  return finding;
}

// Its clock is its own: a pause takes 100 ms, and calls take what the script says.
class Scripted final : public Subject {
 public:
  Clock::time_point now() override { return now_; }
  void pause() override {
    ++pauses;
    now_ += 100ms;
  }
  Sight look(Clock::time_point) override {
    now_ += look_takes;
    if (sights.empty()) return last;
    last = sights.front();
    sights.pop_front();
    return last;
  }
  Attempt reset(bool force, Clock::time_point end) override {
    ++resets;
    forced = force;
    reset_end = end;
    now_ += reset_takes;
    return attempt;
  }
  checks::Findings verify_memory(Clock::time_point) override {
    verified.emplace_back("memory");
    return memory;
  }
  checks::Findings verify_core(const checks::ProgramCore& core, Clock::time_point end) override {
    verified.push_back("core " + std::to_string(core.core));
    verify_end = end;
    return core.core == 1 ? second_core : checks::Findings{};
  }

  std::deque<Sight> sights;  // one after the other; the last stays
  Sight last = ready_sight();
  Attempt attempt{Attempt::How::kDone, "done"};
  checks::Findings memory, second_core;
  std::chrono::milliseconds look_takes{0}, reset_takes{0};

  int resets = 0, pauses = 0;
  bool forced = false;
  Clock::time_point reset_end, verify_end;
  std::vector<std::string> verified;

 private:
  Clock::time_point now_ = Clock::time_point{} + 1h;
};

class ResetMachine : public ::testing::Test {
 protected:
  State run() {
    return reset::run(subject_, plan_, [&](const Event& event) { events_.push_back(event); });
  }
  std::vector<std::string> states() const {
    std::vector<std::string> names;
    for (const Event& event : events_) names.emplace_back(name(event.state));
    return names;
  }
  std::string last_detail() const { return events_.empty() ? "" : events_.back().detail; }

  Scripted subject_;
  Plan plan_{3, false, 10s};
  std::vector<Event> events_;
};

TEST_F(ResetMachine, TellsEveryStateOfAResetThatWorks) {
  EXPECT_EQ(run(), State::kReady);
  EXPECT_THAT(states(), ElementsAre("looking", "resetting", "returning", "verifying", "verifying",
                                    "verifying", "ready"));
  EXPECT_THAT(subject_.verified, ElementsAre("memory", "core 0", "core 1"));
  EXPECT_FALSE(subject_.forced);
  for (const Event& event : events_) EXPECT_EQ(event.device, 3);
  EXPECT_THAT(last_detail(), HasSubstr("core 0, 1"));
}

TEST_F(ResetMachine, FailsWithoutTheDeviceAndSaysWhy) {
  subject_.last = Sight{};
  subject_.last.error = "no daemon answers";
  EXPECT_EQ(run(), State::kFailed);
  EXPECT_THAT(states(), ElementsAre("looking", "failed"));
  EXPECT_THAT(last_detail(), HasSubstr("no such device: no daemon answers"));
  EXPECT_EQ(subject_.resets, 0);
}

TEST_F(ResetMachine, LeavesADeviceAloneThatSomebodyHoldsAndNamesThem) {
  subject_.last.holders = {"pid 7 (python3)", "pid 9"};
  EXPECT_EQ(run(), State::kRefused);
  EXPECT_THAT(states(), ElementsAre("looking", "refused"));
  EXPECT_THAT(last_detail(), HasSubstr("pid 7 (python3), pid 9"));
  EXPECT_THAT(last_detail(), HasSubstr("--force"));
  EXPECT_EQ(subject_.resets, 0);
}

TEST_F(ResetMachine, IsRefusedWhenSomebodyTookACoreAfterItLooked) {
  subject_.attempt = {Attempt::How::kBusy, "core 6 is held by pid 7"};
  EXPECT_EQ(run(), State::kRefused);
  EXPECT_THAT(states(), ElementsAre("looking", "resetting", "refused"));
  EXPECT_THAT(last_detail(), HasSubstr("core 6 is held by pid 7"));
}

TEST_F(ResetMachine, ResetsByForceAndSaysWhatItCouldNotTry) {
  plan_.force = true;
  subject_.last.holders = {"pid 7"};
  subject_.last.cores[1].free = false;
  EXPECT_EQ(run(), State::kUnverified);
  EXPECT_TRUE(subject_.forced);
  EXPECT_THAT(subject_.verified, ElementsAre("memory", "core 0"));
  EXPECT_THAT(last_detail(), HasSubstr("core 1"));
  EXPECT_THAT(events_[1].detail, HasSubstr("although it is held by pid 7"));
}

TEST_F(ResetMachine, IsReadyByForceIfAllCoresCouldBeTried) {
  plan_.force = true;
  subject_.last.holders = {"pid 7"};
  EXPECT_EQ(run(), State::kReady);
}

TEST_F(ResetMachine, FailsWhenTheResetFailsAndVerifiesNothing) {
  subject_.attempt = {Attempt::How::kFailed, "registers read all ones"};
  EXPECT_EQ(run(), State::kFailed);
  EXPECT_THAT(states(), ElementsAre("looking", "resetting", "failed"));
  EXPECT_EQ(last_detail(), "registers read all ones");
  EXPECT_TRUE(subject_.verified.empty());
}

TEST_F(ResetMachine, WaitsUntilTheDeviceIsBackAndTellsEachChangeOnce) {
  Sight resetting = ready_sight(), late = ready_sight();
  resetting.state = DeviceState::kResetting;
  late.error = "it has not answered within 2000 ms";
  subject_.sights = {ready_sight(), resetting, resetting, resetting, late, late, ready_sight()};
  EXPECT_EQ(run(), State::kReady);
  EXPECT_EQ(subject_.pauses, 5);
  EXPECT_THAT(states(), ElementsAre("looking", "resetting", "returning", "returning", "returning",
                                    "verifying", "verifying", "verifying", "ready"));
  EXPECT_THAT(events_[3].detail, HasSubstr("resetting"));
  EXPECT_THAT(events_[4].detail, HasSubstr("has not answered"));
}

TEST_F(ResetMachine, GivesADeviceUpThatDoesNotComeBackByTheDeadline) {
  for (const DeviceState state :
       {DeviceState::kResetting, DeviceState::kInvalid, DeviceState::kOff}) {
    subject_ = Scripted();
    events_.clear();
    subject_.last.state = state;
    EXPECT_EQ(run(), State::kFailed);
    EXPECT_THAT(last_detail(), HasSubstr("not come back within 10 s"));
    EXPECT_THAT(last_detail(), HasSubstr(telemetry::name(state)));
    EXPECT_NEAR(events_.back().elapsed_seconds, 10, 0.2);
    EXPECT_TRUE(subject_.verified.empty());
  }
}

TEST_F(ResetMachine, GivesADeviceUpThatTheDriverNoLongerKnows) {
  subject_.sights = {ready_sight(), Sight{}};
  EXPECT_EQ(run(), State::kFailed);
  EXPECT_THAT(last_detail(), HasSubstr("the driver does not know it"));
}

TEST_F(ResetMachine, TakesADriverAtItsWordThatTellsNoState) {
  subject_.last.state = DeviceState::kUnknown;
  EXPECT_EQ(run(), State::kReady);
}

TEST_F(ResetMachine, HasOneDeadlineForAllOfIt) {
  subject_.look_takes = 2s;
  subject_.reset_takes = 5s;
  const auto begun = subject_.now();
  EXPECT_EQ(run(), State::kReady);
  EXPECT_EQ(subject_.reset_end - begun, 10s);
  EXPECT_EQ(subject_.verify_end - begun, 10s);
}

TEST_F(ResetMachine, FailsWhenTheDriverCountsAResetThatFailed) {
  Sight after = ready_sight();
  after.failed_resets = 2;
  subject_.sights = {ready_sight(), after};
  EXPECT_EQ(run(), State::kFailed);
  EXPECT_THAT(last_detail(), HasSubstr("counted a reset that failed"));
}

TEST_F(ResetMachine, IsFaultyWhenAnEngineStillHangs) {
  Sight before = ready_sight(), after = ready_sight();
  before.hung_engines = {"core 1 dve"};
  after.hung_engines = {"core 1 dve"};
  subject_.sights = {before, after};
  EXPECT_EQ(run(), State::kFaulty);
  EXPECT_THAT(last_detail(), HasSubstr("core 1 dve"));
  subject_.sights = {before, ready_sight()};
  EXPECT_EQ(run(), State::kReady);
}

TEST_F(ResetMachine, IsFaultyWhenALinkIsStillDownAndTriesTheRest) {
  Sight after = ready_sight();
  after.links_down = {"device 1"};
  subject_.sights = {after};
  EXPECT_EQ(run(), State::kFaulty);
  EXPECT_THAT(last_detail(), HasSubstr("the link to device 1 is still down"));
  EXPECT_THAT(subject_.verified, Contains("memory"));
}

TEST_F(ResetMachine, IsFaultyWhenMemoryOrProgramsFailAndNamesAllOfIt) {
  Finding bad = finding_of(Verdict::kFail, "HBM 1", "64 bytes cannot be read");
  bad.address = "0x400000";
  bad.expected = "a read that succeeds";
  bad.action = checks::Action::kReplaceInstance;
  subject_.memory = {bad, finding_of(Verdict::kPass, "HBM 0", "fine")};
  subject_.second_core = {finding_of(Verdict::kFail, "DVE", "hangs")};
  EXPECT_EQ(run(), State::kFaulty);
  EXPECT_THAT(last_detail(), HasSubstr("HBM 1 0x400000: 64 bytes cannot be read, expected a read "
                                       "that succeeds (replace_instance)"));
  EXPECT_THAT(last_detail(), HasSubstr("DVE: hangs"));
  EXPECT_EQ(last_detail().find("fine"), std::string::npos);
}

TEST_F(ResetMachine, DoesNotAdviseWhatItHasJustTried) {
  Finding memory = finding_of(Verdict::kFail, "HBM 1", "cannot be read");
  memory.repair = checks::Repair::kUnknown;
  memory.action = checks::Action::kResetDevice;
  Finding engine = finding_of(Verdict::kFail, "DVE", "hangs");
  engine.action = checks::Action::kResetDevice;
  subject_.memory = {memory};
  subject_.second_core = {engine};
  EXPECT_EQ(run(), State::kFaulty);
  EXPECT_THAT(last_detail(), HasSubstr("cannot be read (replace_instance)"));
  EXPECT_THAT(last_detail(), HasSubstr("hangs (reboot)"));
}

TEST_F(ResetMachine, IsFaultyRatherThanUnverifiedIfItIsBoth) {
  plan_.force = true;
  subject_.last.cores[1].free = false;
  subject_.memory = {finding_of(Verdict::kFail, "HBM 0", "bad")};
  EXPECT_EQ(run(), State::kFaulty);
}

TEST_F(ResetMachine, IsReadyDespiteWarningsAndWhatWasSkipped) {
  subject_.memory = {finding_of(Verdict::kWarn, "HBM", "1 corrected errors"),
                     finding_of(Verdict::kSkip, "HBM 1", "no memory is free")};
  EXPECT_EQ(run(), State::kReady);
  EXPECT_THAT(last_detail(), HasSubstr("not tried: HBM 1 no memory is free"));
}

TEST_F(ResetMachine, IsNotReadyIfNoCoreWasTried) {
  subject_.last.cores.clear();
  EXPECT_EQ(run(), State::kUnverified);
}

TEST(ResetExitStatus, IsThatOfTheGravestEnd) {
  using enum State;
  EXPECT_EQ(exit_status({kReady, kReady}), tools::kDone);
  EXPECT_EQ(exit_status({kReady, kRefused}), tools::kBusy);
  EXPECT_EQ(exit_status({kUnverified, kReady}), tools::kBusy);
  EXPECT_EQ(exit_status({kRefused, kFaulty, kReady}), tools::kUnhealthy);
  EXPECT_EQ(exit_status({kFaulty, kFailed, kRefused}), tools::kFailed);
  // What has not come to an end, or was not begun, is no success.
  EXPECT_EQ(exit_status({kReady, kVerifying}), tools::kFailed);
  EXPECT_EQ(exit_status({}), tools::kFailed);
}

TEST(ResetStates, EndOnlyInWhatIsAnEnd) {
  using enum State;
  for (const State state : {kLooking, kResetting, kReturning, kVerifying}) {
    EXPECT_FALSE(is_end(state)) << name(state);
  }
  for (const State state : {kReady, kRefused, kFailed, kFaulty, kUnverified}) {
    EXPECT_TRUE(is_end(state)) << name(state);
  }
}

}  // namespace
}  // namespace neuron::reset
