// SPDX-License-Identifier: Apache-2.0
// Snapshots as lines of JSON, and back; lines that are none.
#include "tools/telemetry/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neuron::telemetry {
namespace {

using ::testing::HasSubstr;

Snapshot full_snapshot() {
  Snapshot out;
  out.at =
      std::chrono::system_clock::time_point(std::chrono::nanoseconds(1'700'000'000'123'456'789));
  out.monotonic = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(42));
  out.instance.type = "trn1.32xlarge";
  out.versions.backend = "shared";
  out.host.all.user = ~0ull;
  out.host.processors.resize(3);
  Device& device = out.devices.emplace_back();
  device.index = 3;
  device.state = DeviceState::kResetting;
  device.power_percent = 12.5;
  device.memory_bytes = 32ull << 30;
  device.links.push_back({4, false, "NeuronLink-v2", 48e9});
  device.cores.push_back({1, 7, 100, {"pe", "act"}, 2, 1});
  device.faults = {"a fault with \"quotes\" and\nlines"};
  Process& process = out.processes.emplace_back();
  process.pid = 100;
  process.command = "serve \x01 ü";
  process.since = out.at;
  process.devices = {3};
  ProcessOnCore& core = process.cores.emplace_back();
  core.device = 3;
  core.counters.causes["oob_error"] = 5;
  core.counters.engine_busy_us = {1, 2, 3, 4, 5};
  core.counters.device_latency[0] = 9;
  core.counters.total_latency[kLatencyBuckets - 1] = 8;
  core.memory.tensors = 77;
  LoadedModel& model = process.models.emplace_back();
  model.name = "resnet";
  model.running = true;
  model.core.model_code = 66;
  out.network.push_back({"efa0", "0000:00:1e.0", 1});
  out.error = "nothing";
  return out;
}

TEST(SnapshotRecord, ComesBackAsItWas) {
  const Snapshot before = full_snapshot();
  const std::string line = to_record(before);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  Snapshot after;
  std::string error;
  ASSERT_TRUE(from_record(line, after, error)) << error;
  EXPECT_EQ(to_record(after), line);
  EXPECT_EQ(after.at, before.at);
  EXPECT_EQ(after.monotonic, before.monotonic);
  EXPECT_EQ(after.host.all.user, ~0ull);
  EXPECT_EQ(after.devices[0].state, DeviceState::kResetting);
  EXPECT_EQ(after.devices[0].power_percent, 12.5);
  EXPECT_EQ(after.devices[0].faults, before.devices[0].faults);
  EXPECT_EQ(after.devices[0].cores[0].hung_engines, before.devices[0].cores[0].hung_engines);
  EXPECT_EQ(after.processes[0].since, before.processes[0].since);
  EXPECT_EQ(after.processes[0].started, std::nullopt);
  EXPECT_EQ(after.processes[0].cores[0].counters.causes.at("oob_error"), 5u);
  EXPECT_EQ(after.processes[0].cores[0].counters.total_latency,
            before.processes[0].cores[0].counters.total_latency);
  EXPECT_EQ(after.processes[0].models[0].core.model_code, 66u);
}

TEST(SnapshotRecord, LeavesOutEmptyBucketsAtTheEnd) {
  Snapshot snapshot = full_snapshot();
  const size_t with = to_record(snapshot).size();
  snapshot.processes[0].cores[0].counters.total_latency = {};
  EXPECT_LT(to_record(snapshot).size(), with - kLatencyBuckets);
}

TEST(SnapshotRecord, TakesLinesThatLackFieldsOrHaveMore) {
  Snapshot snapshot = full_snapshot();
  std::string error;
  ASSERT_TRUE(from_record(R"({"schema":"neuron-snapshot","schema_version":1,"new":{"a":[]},
      "devices":[{"index":5}]})",
                          snapshot, error))
      << error;
  ASSERT_EQ(snapshot.devices.size(), 1u);
  EXPECT_EQ(snapshot.devices[0].index, 5u);
  EXPECT_TRUE(snapshot.processes.empty());
}

TEST(SnapshotRecord, NamesTheFieldThatIsWrong) {
  const std::string start = R"({"schema":"neuron-snapshot","schema_version":1,)";
  const std::pair<const char*, const char*> cases[] = {
      {R"("devices":7})", "the field devices is not a list"},
      {R"("devices":[{"index":-1}]})", "the field devices[0].index is not a number of its range"},
      {R"("devices":[{},{"state":99}]})",
       "the field devices[1].state is not the number of a state"},
      {R"("devices":[{"links":[{"up":1}]}]})", "devices[0].links[0].up is not true or false"},
      {R"("devices":[7]})", "the field devices[0] is not an object"},
      {R"("at":"today"})", "the field at is not a time in nanoseconds"},
      {R"("error":1})", "the field error is not a text"},
      {R"("processes":[{"pid":99999999999}]})", "processes[0].pid is not a number of its range"},
      {R"("processes":[{"cores":[{"counters":{"engine_busy_us":[1,2,3,4,5,6]}}]}]})",
       "processes[0].cores[0].counters.engine_busy_us is not a list as short as it has to be"},
      {R"("processes":[{"cores":[{"counters":{"causes":{"x":"y"}}}]}]})",
       "counters.causes.x is not"},
  };
  for (const auto& [rest, sentence] : cases) {
    Snapshot snapshot;
    std::string error;
    EXPECT_FALSE(from_record(start + rest, snapshot, error)) << rest;
    EXPECT_THAT(error, HasSubstr(sentence)) << rest;
  }
}

TEST(SnapshotRecord, RefusesWhatIsNoSnapshot) {
  Snapshot snapshot;
  std::string error;
  for (const char* line : {"", "{", "null", "[]", "7", "{}", R"({"schema":7})",
                           R"({"schema":"neuron-top","schema_version":1})"}) {
    EXPECT_FALSE(from_record(line, snapshot, error)) << line;
    EXPECT_FALSE(error.empty()) << line;
  }
  EXPECT_FALSE(from_record(R"({"schema":"neuron-snapshot"})", snapshot, error));
  EXPECT_THAT(error, HasSubstr("version 0"));
  EXPECT_FALSE(from_record(R"({"schema":"neuron-snapshot","schema_version":2})", snapshot, error));
  EXPECT_THAT(error, HasSubstr("version 2; this program knows 1"));
}

TEST(SnapshotRecord, RefusesEveryLineThatIsCut) {
  const std::string line = to_record(full_snapshot());
  for (size_t length = 0; length < line.size(); length += 7) {
    Snapshot snapshot;
    std::string error;
    EXPECT_FALSE(from_record(line.substr(0, length), snapshot, error)) << length;
  }
}

TEST(SnapshotRecord, StandsNestingWithoutEnd) {
  Snapshot snapshot;
  std::string error;
  EXPECT_FALSE(from_record(std::string(100'000, '['), snapshot, error));
}

}  // namespace
}  // namespace neuron::telemetry
