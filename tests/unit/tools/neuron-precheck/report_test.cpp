// SPDX-License-Identifier: Apache-2.0
// What neuron-precheck finds in the state of a host, and its reports, to the letter.
#include "tools/neuron-precheck/report.h"

#include "tests/unit/tools/golden.h"
#include "tests/unit/tools/rich_host.h"
#include "tools/neuron-precheck/checks.h"

namespace neuron::precheck {
namespace {

using testing::expect_golden;
using testing::rich_host;

Result result() {
  Result out;
  out.snapshot = rich_host();
  out.begun = out.snapshot.at;
  out.seconds = 12.25;
  check_state(out.snapshot, {}, out.findings);
  Finding memory;
  memory.check = "memory.pattern";
  memory.verdict = Verdict::kFail;
  memory.device = 1;
  memory.core = 0;
  memory.engine = "HBM 1";
  memory.ring = "queue 3 index 17";
  memory.address = "0x400000";
  memory.found = "0x00 & \"more\"";
  memory.expected = "<0xFF>";
  memory.action = Action::kReplaceInstance;
  out.findings.push_back(memory);
  Finding skipped;
  skipped.check = "collectives.all_reduce";
  skipped.verdict = Verdict::kSkip;
  skipped.found = "fewer than two cores in a row are free";
  out.findings.push_back(skipped);
  return out;
}

TEST(PrecheckReport, IsAsBeforeInEveryFormat) {
  const Result found = result();
  Options options;
  options.level = 3;
  options.devices = {0, 1, 2};
  expect_golden("precheck.txt", text_of(found, options, {}) + "----\n" +
                                    text_of(found, options, {.color = true, .unicode = true}));
  expect_golden("precheck.junit.xml", junit_of(found));
  expect_golden("precheck.json", render(records_of(found, options), tools::Format::kJson, {}));
}

TEST(PrecheckReport, SaysNothingOfDevicesThatWereNotChecked) {
  Options options;
  options.devices = {2};
  const auto records = records_of(result(), options);
  const auto& devices = records.about.at("devices").as_array();
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].at("device").to_number<int>(), 2);
}

TEST(PrecheckState, OfOtherDevicesIsNotLookedAt) {
  Findings findings;
  check_state(rich_host(), {0}, findings);
  for (const Finding& finding : findings) EXPECT_LE(finding.device, 0) << finding.found;
}

TEST(PrecheckState, HasNothingAgainstAHostThatIsWell) {
  telemetry::Snapshot host = rich_host();
  host.devices.resize(1);
  host.devices[0].links.clear();
  host.devices[0].hardware = {};
  for (telemetry::Core& core : host.devices[0].cores) core.holder = 0;
  Findings findings;
  check_state(host, {}, findings);
  EXPECT_EQ(count(findings, Verdict::kFail), 0u);
  EXPECT_EQ(count(findings, Verdict::kWarn), 0u);
}

}  // namespace
}  // namespace neuron::precheck
