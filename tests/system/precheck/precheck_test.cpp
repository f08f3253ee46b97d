// SPDX-License-Identifier: Apache-2.0
// neuron-precheck beside a daemon: every fault that can be planted is found, with its device and
// engine; a host in order passes; cores that others hold are left alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <set>

#include "driver/emulator/chip/fault_plan.h"
#include "tests/support/daemon.h"
#include "tools/common/exit_status.h"

namespace neuron::precheck {
namespace {

using chip::FaultKind;
using chip::FaultPoint;
using chip::FaultSpec;
using test::Daemon;
using test::Folder;
using test::Process;
using testing::HasSubstr;
namespace json = boost::json;

const std::string kProgram = test::built("bin/neuron-precheck");
// Four chips in a ring, of two cores each: what is named must be chosen.
constexpr char kProfile[] = "inf2.24xlarge";
constexpr int kChip = 3, kCore = 1;

struct Outcome {
  test::Ending status;
  std::string text;
  json::value root;
};

Outcome run(const Folder& folder, const std::string& emulator, std::vector<std::string> options) {
  options.insert(options.begin(), {kProgram, "--format", "json"});
  const std::string log = folder.path("precheck.log");
  Process process(options, {{"NEURON_EMULATOR", emulator}}, log);
  Outcome outcome;
  outcome.text = process.rest(std::chrono::minutes(4));
  outcome.status = process.wait();
  json::error_code error;
  outcome.root = json::parse(outcome.text, error);
  EXPECT_FALSE(error) << outcome.text << test::read_file(log);
  return outcome;
}

const json::object* find(const Outcome& outcome, const std::string& verdict, int device,
                         const std::string& engine) {
  const json::object* root = outcome.root.if_object();
  if (root == nullptr || !root->contains("findings")) return nullptr;
  for (const json::value& entry : root->at("findings").as_array()) {
    const json::object& finding = entry.as_object();
    if (finding.at("verdict") != verdict.c_str() || finding.at("device") != device) continue;
    if (json::serialize(finding.at("engine")).find(engine) != std::string::npos || engine.empty()) {
      return &finding;
    }
  }
  return nullptr;
}

struct Planted {
  FaultSpec spec;
  std::string verdict, engine;  // what is expected, of kChip
  std::string level = "1";
};

// Faults of every point and kind, on the engines where they can be; empty: no one has thought of
// it.
std::vector<Planted> plant(FaultPoint point, FaultKind kind) {
  FaultSpec spec;
  spec.at = point;
  spec.kind = kind;
  spec.chip = kChip;
  std::vector<Planted> list;
  switch (point) {
    case FaultPoint::kInstruction:
      spec.core = kCore;
      spec.n = 3;
      for (int engine = 0; engine < 5; ++engine) {
        spec.engine = engine;
        const bool hang = kind == FaultKind::kHang;
        if (!hang && kind != FaultKind::kOff) return {};
        list.push_back({spec, "fail", hang ? chip::engine_label(engine) : ""});
      }
      break;
    case FaultPoint::kDescriptor:
      // Two of a core's own engines, and one of those of the host's copies.
      for (const int engine : {17, 30, 32}) {
        spec.engine = engine;
        spec.n = 2;
        const bool error = kind == FaultKind::kError;
        if (!error && kind != FaultKind::kOff) return {};
        list.push_back({spec, "fail", error ? "DMA " + std::to_string(engine) : ""});
      }
      break;
    case FaultPoint::kHbm:
      spec.n = 5;
      list.push_back({spec, kind == FaultKind::kCorrectable ? "warn" : "fail", "HBM"});
      break;
    case FaultPoint::kSram:
      spec.core = kCore;
      spec.n = 5;
      list.push_back({spec, kind == FaultKind::kCorrectable ? "warn" : "fail", "SRAM"});
      break;
    case FaultPoint::kChip:
      spec.n = 200;
      list.push_back({spec, "fail", ""});
      break;
    case FaultPoint::kLink:
      spec.peer = kChip - 1;
      list.push_back({spec, "fail", "link to " + std::to_string(kChip - 1)});
      break;
  }
  return list;
}

class FaultFound : public testing::TestWithParam<std::pair<FaultPoint, FaultKind>> {};

TEST_P(FaultFound, WithItsDeviceAndEngine) {
  const std::vector<Planted> list = plant(GetParam().first, GetParam().second);
  ASSERT_FALSE(list.empty()) << "a kind of fault that this test does not plant";
  for (const Planted& planted : list) {
    SCOPED_TRACE(planted.spec.text());
    const Folder folder;
    const Daemon daemon(folder, kProfile);
    ASSERT_EQ(daemon.control({"inject", planted.spec.text()}), 0);
    const Outcome outcome =
        run(folder, daemon.emulator(), {"--level", planted.level, "--no-collectives"});
    EXPECT_EQ(outcome.status, planted.verdict == "fail" ? 5 : 0) << outcome.text;
    const json::object* finding = find(outcome, planted.verdict, kChip, planted.engine);
    ASSERT_NE(finding, nullptr) << outcome.text;
    if (planted.verdict == "fail") {
      EXPECT_NE(finding->at("action"), "none");
    }
    if (planted.spec.at == FaultPoint::kHbm && planted.verdict == "fail") {
      // All findings about it give one advice; a chip of generation 2 does not say by itself that
      // nothing helps.
      for (const json::value& entry : outcome.root.at("findings").as_array()) {
        if (entry.at("verdict") == "fail") {
          EXPECT_EQ(entry.at("action"), "reset_device") << entry;
        }
      }
      EXPECT_TRUE(finding->at("address").is_string()) << outcome.text;
      EXPECT_THAT(json::serialize(finding->at("ring")), HasSubstr("DMA "));
    }
    if (planted.spec.at == FaultPoint::kDescriptor && planted.spec.kind == FaultKind::kError) {
      EXPECT_THAT(json::serialize(finding->at("ring")), HasSubstr("queue "));
    }
    if (planted.spec.core >= 0 && !planted.engine.empty()) {
      EXPECT_EQ(finding->at("core"), kCore);
    }
    // Nobody else is accused but the other end of a link.
    for (int device = 0; device < kChip - 1; ++device) {
      EXPECT_EQ(find(outcome, "fail", device, ""), nullptr) << outcome.text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfThePlansGrammar, FaultFound, testing::ValuesIn(chip::known_faults()),
                         [](const auto& info) {
                           FaultSpec spec;
                           std::tie(spec.at, spec.kind) = info.param;
                           std::string name;
                           const json::value line = json::parse(spec.text());
                           for (const char* field : {"at", "kind"}) {
                             for (const char c : line.at(field).as_string()) {
                               name += std::isalnum(c) != 0 ? c : '_';
                             }
                           }
                           return name;
                         });

// What an operator does to a daemon at once, beside faults that are planted for later.
TEST(Precheck, NamesAChipWithoutPowerAndALinkThatIsDown) {
  const Folder folder;
  const Daemon daemon(folder, kProfile);
  // A chip is made when it is opened first.
  EXPECT_EQ(run(folder, daemon.emulator(), {"--device", "1", "--no-collectives"}).status, 0);
  ASSERT_EQ(daemon.control({"power", "off", "1"}), 0);
  ASSERT_EQ(daemon.control({"link", "down", "2", "3"}), 0);
  const Outcome outcome = run(folder, daemon.emulator(), {"--no-collectives"});
  EXPECT_EQ(outcome.status, 5) << outcome.text;
  const json::object* off = find(outcome, "fail", 1, "");
  ASSERT_NE(off, nullptr) << outcome.text;
  EXPECT_EQ(off->at("check"), "device.state");
  EXPECT_EQ(off->at("action"), "reboot");
  for (const int end : {2, 3}) {
    const json::object* link =
        find(outcome, "fail", end, "link to " + std::to_string(end == 2 ? 3 : 2));
    ASSERT_NE(link, nullptr) << outcome.text;
    EXPECT_EQ(link->at("check"), "device.links");
  }
  EXPECT_EQ(find(outcome, "fail", 0, ""), nullptr) << outcome.text;
}

// The counter of generation 2 goes on having the errors of the past.
TEST(Precheck, AdvisesNoReplacementForErrorsThatAResetHasRepaired) {
  const Folder folder;
  const Daemon daemon(folder, "trn1.2xlarge");
  ASSERT_EQ(daemon.control({"inject", R"({"at":"hbm","kind":"repairable","n":5})"}), 0);
  EXPECT_EQ(run(folder, daemon.emulator(), {"--no-collectives"}).status, 5);
  ASSERT_EQ(daemon.control({"reset", "--device", "0"}), 0);
  const Outcome outcome = run(folder, daemon.emulator(), {"--no-collectives"});
  const json::object* past = find(outcome, "fail", 0, "HBM");
  ASSERT_NE(past, nullptr) << outcome.text;
  EXPECT_EQ(past->at("check"), "device.errors");
  EXPECT_THAT(past->at("found").as_string().c_str(), HasSubstr("before this check began"));
  for (const json::value& entry : outcome.root.at("findings").as_array()) {
    EXPECT_NE(entry.at("action"), "replace_instance") << entry;
  }
}

TEST(Precheck, NamesTheAddressThatIsBad) {
  const Folder folder;
  const Daemon daemon(folder, kProfile);
  FaultSpec spec;
  spec.at = FaultPoint::kHbm;
  spec.kind = FaultKind::kUncorrectable;
  spec.chip = kChip;
  spec.address = 0x2100940;
  spec.bytes = 64;
  ASSERT_EQ(daemon.control({"inject", spec.text()}), 0);
  // In the seventeenth block of 64 KiB, which is among those that level 2 tries and level 1 does
  // not.
  const Outcome outcome = run(
      folder, daemon.emulator(),
      {"--level", "2", "--device", std::to_string(kChip), "--memory", "128MB", "--no-collectives"});
  EXPECT_EQ(outcome.status, 5) << outcome.text;
  const json::object* finding = find(outcome, "fail", kChip, "HBM 0");
  ASSERT_NE(finding, nullptr) << outcome.text;
  EXPECT_EQ(finding->at("address"), "0x2100940");
}

TEST(Precheck, LeavesOutWhatDoesNotFitAndSaysSo) {
  const Folder folder;
  const Daemon daemon(folder, "trn1.2xlarge");
  const Outcome outcome = run(folder, daemon.emulator(), {"--level", "3", "--duration", "3"});
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  // Far from the quarter of an hour that it takes by itself, on a machine with other things to do.
  EXPECT_LT(outcome.root.at("duration_seconds").to_number<double>(), 60) << outcome.text;
  EXPECT_THAT(outcome.text,
              testing::AnyOf(HasSubstr("there was no time"), HasSubstr("when its time was over")));
  // A little of everything all the same.
  std::set<std::string> passed;
  for (const json::value& entry : outcome.root.at("findings").as_array()) {
    if (entry.at("verdict") == "pass") passed.insert(entry.at("check").as_string().c_str());
  }
  EXPECT_THAT(passed, testing::IsSupersetOf({"device.state", "dma.copy", "engine.program"}));
  for (const char* stack : {"HBM 0", "HBM 1"}) {
    EXPECT_NE(find(outcome, "pass", 0, stack), nullptr) << stack << " in " << outcome.text;
  }
}

TEST(Precheck, SoaksAsLongAsItIsTold) {
  const Folder folder;
  const Daemon daemon(folder, "trn1.2xlarge");
  const Outcome outcome =
      run(folder, daemon.emulator(), {"--level", "4", "--duration", "2", "--memory", "8MB"});
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  const double seconds = outcome.root.at("duration_seconds").to_number<double>();
  EXPECT_GE(seconds, 2);
  EXPECT_LT(seconds, 60);
  EXPECT_THAT(outcome.text, HasSubstr("soak.rounds"));
}

TEST(Precheck, RefusesDevicesThatThereAreNot) {
  const Folder folder;
  const Daemon daemon(folder, "trn1.2xlarge");
  Process process({kProgram, "--device", "0", "5"}, {{"NEURON_EMULATOR", daemon.emulator()}},
                  folder.path("log"));
  EXPECT_EQ(process.line(), "(end)");
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(folder.read("log"), HasSubstr("there is no device 5"));
}

// What only collectives meet: their own queues, and links that they cross.
TEST(Precheck, NamesTheEngineThatBreaksACollective) {
  const Folder folder;
  const Daemon daemon(folder, kProfile);
  FaultSpec spec;
  spec.at = FaultPoint::kDescriptor;
  spec.kind = FaultKind::kError;
  spec.chip = kChip;
  spec.queue = 15;
  spec.n = 3;
  ASSERT_EQ(daemon.control({"inject", spec.text()}), 0);
  const Outcome outcome = run(folder, daemon.emulator(), {"--device", "2", "3"});
  EXPECT_EQ(outcome.status, 5) << outcome.text;
  const json::object* finding = find(outcome, "fail", kChip, "DMA ");
  ASSERT_NE(finding, nullptr) << outcome.text;
  EXPECT_EQ(finding->at("check"), "collectives.all_reduce");
  EXPECT_THAT(json::serialize(finding->at("ring")), HasSubstr("queue 15"));
  EXPECT_TRUE(finding->at("address").is_string()) << outcome.text;
  EXPECT_EQ(finding->at("action"), "replace_instance");
}

TEST(Precheck, PassesAHostInOrder) {
  const Folder folder;
  const Daemon daemon(folder, "trn1.2xlarge");
  const std::string junit = folder.path() + "/junit.xml";
  const Outcome outcome =
      run(folder, daemon.emulator(), {"--level", "2", "--memory", "8MB", "--junit", junit});
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  std::set<std::string> checks;
  for (const json::value& entry : outcome.root.at("findings").as_array()) {
    EXPECT_EQ(entry.at("verdict"), "pass") << entry;
    checks.insert(entry.at("check").as_string().c_str());
  }
  EXPECT_THAT(checks, testing::IsSupersetOf({"device.state", "memory.pattern", "dma.copy",
                                             "engine.program", "engine.time", "core.notifications",
                                             "collectives.all_reduce", "dma.pairs"}));
  EXPECT_THAT(test::read_file(junit), HasSubstr("<testsuite name=\"device 0\""));
}

TEST(Precheck, LeavesCoresAloneThatOthersHoldAndCountsThem) {
  const Folder folder;
  const Daemon daemon(folder, "trn1.2xlarge");
  test::Worker holder(folder, daemon.emulator(), 0, "empty.neff");
  ASSERT_EQ(holder.line(), "ready") << holder.log();
  const Outcome outcome = run(folder, daemon.emulator(), {});
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_GE(outcome.root.at("skipped").to_number<int>(), 1);
  const json::object* busy = find(outcome, "skip", 0, "");
  ASSERT_NE(busy, nullptr) << outcome.text;
  EXPECT_EQ(busy->at("core"), 0);
  EXPECT_THAT(busy->at("found").as_string().c_str(),
              HasSubstr(std::to_string(holder.process().pid())));
  EXPECT_FALSE(holder.process().ended());
}

// A device of which nothing ran has not passed, however many others are free.
TEST(Precheck, HasCheckedNothingWhereAllCoresOfTheDevicesThatAreAskedForAreHeld) {
  const Folder folder;
  const Daemon daemon(folder, kProfile);
  test::Worker first(folder, daemon.emulator(), 0, "empty.neff");
  test::Worker second(folder, daemon.emulator(), 1, "empty.neff");
  ASSERT_EQ(first.line(), "ready") << first.log();
  ASSERT_EQ(second.line(), "ready") << second.log();
  const Outcome held = run(folder, daemon.emulator(), {"--device", "0", "--no-collectives"});
  EXPECT_EQ(held.status, tools::kBusy) << held.text;
  const Outcome other = run(folder, daemon.emulator(), {"--device", "1", "--no-collectives"});
  EXPECT_EQ(other.status, 0) << other.text;
  const json::array& devices = other.root.at("devices").as_array();
  ASSERT_EQ(devices.size(), 1u) << other.text;
  EXPECT_EQ(devices[0].at("device"), 1);
}

TEST(Precheck, SaysWhyThereIsNoDevice) {
  const Folder folder;
  Process process({kProgram}, {{"NEURON_EMULATOR", "unix:" + folder.path("nobody")}},
                  folder.path("log"));
  EXPECT_EQ(process.line(), "(end)");
  EXPECT_NE(process.wait(), 0);
  EXPECT_THAT(folder.read("log"), HasSubstr("no device"));
}

}  // namespace
}  // namespace neuron::precheck
