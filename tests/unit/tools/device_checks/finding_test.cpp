// SPDX-License-Identifier: Apache-2.0
// Findings as workers tell them, places in sentences, advice about memory, and workers
// that are none.
#include "tools/device_checks/finding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nrt/nrt_status.h>

#include "tools/device_checks/part.h"

namespace neuron::checks {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Finding of_memory(int device, Repair repair, Action action) {
  Finding finding;
  finding.device = device;
  finding.verdict = Verdict::kFail;
  finding.repair = repair;
  finding.action = action;
  return finding;
}

TEST(FindingLine, SurvivesTheWayFromAWorker) {
  Line line;
  line.kind = Line::Kind::kFinding;
  line.finding = {"memory.pattern",
                  Verdict::kFail,
                  3,
                  1,
                  "HBM 1",
                  "queue 3 index 17",
                  "0x400000",
                  "a \"quoted\"\nsentence",
                  "another",
                  Action::kResetDevice,
                  Repair::kPossible};
  Line read;
  ASSERT_TRUE(from_line(to_line(line), read));
  EXPECT_EQ(read.kind, Line::Kind::kFinding);
  EXPECT_EQ(read.finding.check, "memory.pattern");
  EXPECT_EQ(read.finding.verdict, Verdict::kFail);
  EXPECT_EQ(read.finding.device, 3);
  EXPECT_EQ(read.finding.core, 1);
  EXPECT_EQ(read.finding.engine, "HBM 1");
  EXPECT_EQ(read.finding.ring, "queue 3 index 17");
  EXPECT_EQ(read.finding.address, "0x400000");
  EXPECT_EQ(read.finding.found, "a \"quoted\"\nsentence");
  EXPECT_EQ(read.finding.expected, "another");
  EXPECT_EQ(read.finding.action, Action::kResetDevice);
  EXPECT_EQ(read.finding.repair, Repair::kPossible);
}

TEST(FindingLine, OfATimeAStepAndTheEndSurvivesToo) {
  Line line, read;
  line.kind = Line::Kind::kTiming;
  line.timing = {"gelu", 123456789012};
  ASSERT_TRUE(from_line(to_line(line), read));
  EXPECT_EQ(read.kind, Line::Kind::kTiming);
  EXPECT_EQ(read.timing.program, "gelu");
  EXPECT_EQ(read.timing.device_ps, 123456789012u);
  line = {};
  line.kind = Line::Kind::kStep;
  line.finding.device = 5;
  line.finding.found = "copying";
  ASSERT_TRUE(from_line(to_line(line), read));
  EXPECT_EQ(read.kind, Line::Kind::kStep);
  EXPECT_EQ(read.finding.device, 5);
  EXPECT_EQ(read.finding.core, -1) << "of no core";
  EXPECT_EQ(read.finding.found, "copying");
  line.kind = Line::Kind::kEnd;
  ASSERT_TRUE(from_line(to_line(line), read));
  EXPECT_EQ(read.kind, Line::Kind::kEnd);
  EXPECT_EQ(read.finding.device, -1) << "an end says nothing else";
  EXPECT_EQ(read.finding.found, "");
}

TEST(FindingLine, HasTheWordsThatScriptsSelectBy) {
  for (const auto& [verdict, word] : {std::pair{Verdict::kPass, "pass"},
                                      {Verdict::kWarn, "warn"},
                                      {Verdict::kFail, "fail"},
                                      {Verdict::kSkip, "skip"}}) {
    EXPECT_STREQ(name(verdict), word);
  }
  for (const auto& [action, word] : {std::pair{Action::kNone, "none"},
                                     {Action::kDriverReload, "driver_reload"},
                                     {Action::kReboot, "reboot"},
                                     {Action::kResetDevice, "reset_device"},
                                     {Action::kReplaceInstance, "replace_instance"}}) {
    EXPECT_STREQ(name(action), word);
  }
}

TEST(PastErrors, AreAHistoryOnceTheMemoryWasTriedAndFoundGood) {
  const auto past_of = [](int device, Repair repair) {
    Finding past = of_memory(device, repair, Action::kResetDevice);
    past.check = "device.errors";
    past.found = "2 uncorrectable errors before this check began";
    return past;
  };
  Finding good;
  good.check = "memory.pattern";
  good.device = 0;
  Finding bad = of_memory(1, Repair::kUnknown, Action::kReplaceInstance);
  bad.check = "memory.pattern";
  Finding good_too = good;
  good_too.device = bad.device;
  // Device 2 was not tried; of device 3 the counter knows that a reset has not repaired it.
  Finding lasting_good = good;
  lasting_good.device = 3;
  Findings findings = {past_of(0, Repair::kUnknown),
                       good,
                       past_of(1, Repair::kUnknown),
                       bad,
                       good_too,
                       past_of(2, Repair::kUnknown),
                       past_of(3, Repair::kImpossible),
                       lasting_good};
  judge_past_errors(findings);
  EXPECT_EQ(findings[0].verdict, Verdict::kWarn);
  EXPECT_EQ(findings[0].action, Action::kNone);
  EXPECT_THAT(findings[0].found, HasSubstr("none in its memory now"));
  for (const int other : {2, 5, 6}) EXPECT_EQ(findings[other].verdict, Verdict::kFail) << other;
  agree_on_repair(findings);
  EXPECT_EQ(findings[0].action, Action::kNone);
  EXPECT_EQ(findings[2].action, Action::kResetDevice);
  EXPECT_EQ(findings[5].action, Action::kResetDevice);
  EXPECT_EQ(findings[6].action, Action::kReplaceInstance);
}

TEST(FindingLine, IsNotReadFromAnythingElse) {
  Line line;
  for (const char* text : {"", "hello", "{", "[]", "{\"a\": 1}", "17"}) {
    EXPECT_FALSE(from_line(text, line)) << text;
  }
  ASSERT_TRUE(from_line(R"({"line": "finding", "device": "three", "verdict": 7})", line));
  EXPECT_EQ(line.finding.device, -1);
}

TEST(FindingPlace, IsReadFromSentences) {
  Finding finding;
  place_from_sentence("DMA engine 17 queue 3 aborted at ring index 42, address 0x1f00", finding);
  EXPECT_EQ(finding.engine, "DMA 17");
  EXPECT_EQ(finding.ring, "queue 3 index 42");
  EXPECT_EQ(finding.address, "0x1f00");
  finding = {};
  place_from_sentence("core 1: DVE hangs at instruction 5; DMA engine 3 has work left", finding);
  EXPECT_EQ(finding.engine, "DVE");
  EXPECT_EQ(finding.ring, "");
  finding = {};
  finding.engine = "HBM 1";
  place_from_sentence("queue 3 ring index 7 of nobody; address 0x0 is not 12", finding);
  EXPECT_EQ(finding.engine, "HBM 1") << "a queue without its engine is no place";
  EXPECT_EQ(finding.ring, "");
  EXPECT_EQ(finding.address, "0x0");
}

TEST(FindingRepair, IsAgreedOnForEachDevice) {
  Findings findings = {of_memory(0, Repair::kUnknown, Action::kReplaceInstance),
                       of_memory(0, Repair::kPossible, Action::kDriverReload),
                       of_memory(1, Repair::kUnknown, Action::kReplaceInstance),
                       of_memory(2, Repair::kPossible, Action::kResetDevice),
                       of_memory(2, Repair::kImpossible, Action::kReplaceInstance),
                       of_memory(3, Repair::kNone, Action::kReboot)};
  agree_on_repair(findings);
  std::vector<Action> actions;
  for (const Finding& finding : findings) actions.push_back(finding.action);
  EXPECT_THAT(actions,
              ElementsAre(Action::kResetDevice, Action::kResetDevice, Action::kResetDevice,
                          Action::kReplaceInstance, Action::kReplaceInstance, Action::kReboot));
}

TEST(FindingAdvice, IsReadFromTheFaultThatASentenceNames) {
  Finding finding;
  finding.action = Action::kReboot;
  advise_from_sentence("rank 2: the others do not come", finding);
  EXPECT_EQ(finding.action, Action::kReboot);
  advise_from_sentence("rank 2: failed on device 1 core 0 with DMA_ENGINE at engine 5 pc 78",
                       finding);
  EXPECT_EQ(finding.action, Action::kReplaceInstance);
  finding = {};
  finding.engine = "DMA 3";
  advise_from_sentence("failed on device 1 core 0 with HBM_UE_REPAIRABLE at engine 5", finding);
  EXPECT_EQ(finding.repair, Repair::kPossible);
  EXPECT_EQ(finding.engine, "HBM");
  EXPECT_EQ(finding.ring, "DMA 3");
}

TEST(FindingRepair, IsWhatTheStatusOfAProgramSays) {
  EXPECT_EQ(action_of_status(NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE), Action::kResetDevice);
  EXPECT_EQ(action_of_status(NRT_EXEC_HW_ERR_HBM_UE), Action::kReplaceInstance);
  EXPECT_EQ(action_of_status(NRT_EXEC_HW_ERR_DMA_ABORT), Action::kReplaceInstance);
  EXPECT_EQ(action_of_status(NRT_EXEC_HW_ERR_NC_UE), Action::kReplaceInstance);
  EXPECT_EQ(action_of_status(NRT_HW_ERROR), Action::kReboot);
  EXPECT_EQ(action_of_status(NRT_EXEC_UNIT_UNRECOVERABLE), Action::kReboot);
  EXPECT_EQ(action_of_status(NRT_TIMEOUT), Action::kResetDevice);
}

TEST(Child, ThatIsNoWorkerIsAFinding) {
  // The program that runs this test, with no test to run: it says nothing that a worker says.
  Job job;
  job.part.device = 2;
  job.limits.step = 20s;
  job.environment = {{"GTEST_FILTER", "-*"}};
  Findings findings;
  run_job(job, [&](const Line& line) { findings.push_back(line.finding); });
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::kFail);
  EXPECT_EQ(findings[0].device, 2);
  EXPECT_THAT(findings[0].found, HasSubstr("starting"));
}

TEST(ProgramCores, AreFreeIfAllTheirPhysicalCoresAre) {
  telemetry::Device device;
  for (unsigned i = 0; i < 4; ++i) {
    telemetry::Core core;
    core.physical_core = i;
    core.logical_core = 10 + i / 2;
    core.holder = i == 3 ? 4711 : 0;
    device.cores.push_back(core);
  }
  const std::vector<ProgramCore> cores = program_cores(device);
  ASSERT_EQ(cores.size(), 2u);
  EXPECT_EQ(cores[0].logical, 10u);
  EXPECT_TRUE(cores[0].free);
  EXPECT_EQ(cores[1].core, 2);
  EXPECT_FALSE(cores[1].free);
}

}  // namespace
}  // namespace neuron::checks
