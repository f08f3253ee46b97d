// SPDX-License-Identifier: Apache-2.0
// The trace for Perfetto, as protoc decodes it by the published definition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>

#include "tests/support/files.h"
#include "tests/support/process.h"

namespace neuron::profile {
namespace {

struct Slice {
  std::string track, name;
  long begin = 0, end = 0;  // of the host's real time
  bool on_program_clock = false;
  std::vector<long> begins, ends;  // flows
};

struct Trace {
  std::vector<Slice> slices;
  std::map<std::string, std::string> names, parents;  // of tracks
  size_t counters = 0;

  // By the id of a flow: the slices that begin it, and those that end it.
  using Ends = std::pair<std::vector<const Slice*>, std::vector<const Slice*>>;
  std::map<long, Ends> flows() const {
    std::map<long, Ends> all;
    for (const Slice& slice : slices) {
      for (const long id : slice.begins) all[id].first.push_back(&slice);
      for (const long id : slice.ends) all[id].second.push_back(&slice);
    }
    return all;
  }
  std::string parent_of(const Slice& slice) const {
    const auto parent = parents.find(slice.track);
    return parent == parents.end() ? "" : names.at(parent->second);
  }
};

class PerfettoTrace : public testing::Test {
 protected:
  std::string shell(const std::string& line) {
    const test::Run run =
        test::shell("cd " + folder_.path() + " && " + line, {{"NEURON_EMULATOR", "trn1.2xlarge"}});
    EXPECT_EQ(run.ending, 0) << line << "\n" << run.output.substr(0, 2000);
    return run.output;
  }
  // Of the execution of a NEFF. Slices of a track nest without overlap, and its times never go
  // back.
  Trace trace_of(const std::string& neff, const std::string& options) {
    const std::string program = test::built("bin/neuron-profile");
    shell(program + " capture -n " + neff + " -s p.ntff");
    shell(program + " view -s p.ntff --output-format perfetto --output-file p.pftrace " + options);
    return decoded(shell("protoc --proto_path=" + test::source("tests/system/profile") +
                         " --decode=Trace perfetto.proto < p.pftrace"));
  }
  Trace of_loop(const std::string& options) {
    shell(test::built("bin/neuron-as") + " " + test::source("tools/neuron-as/examples/matmul.s") +
          " -o loop.neff");
    return trace_of("loop.neff", options);
  }

  static Trace decoded(const std::string& text) {
    Trace trace;
    std::map<std::string, long> clocks;
    std::map<std::string, std::string> of;
    std::vector<long> begins, ends;
    struct Track {
      long time = LONG_MIN;
      std::vector<size_t> open;
    };
    std::map<std::string, Track> tracks;
    std::istringstream lines(text);
    const std::regex field(R"( +(\w+): (.*))");
    for (std::string line; std::getline(lines, line);) {
      if (line == "packet {") {
        of.clear();
        begins.clear();
        ends.clear();
      }
      std::smatch match;
      if (std::regex_match(line, match, field)) {
        if (match[1] == "clock_id") of["clock"] = match[2];
        if (match[1] == "timestamp" && of.contains("clock")) {
          clocks[of["clock"]] = std::stol(match[2]);
        }
        if (match[1] == "flow_ids") begins.push_back(std::stol(match[2]));
        if (match[1] == "terminating_flow_ids") ends.push_back(std::stol(match[2]));
        // Notes have names, too, in front of the event's own.
        of[match[1]] = match[2];
      }
      if (line != "}") continue;
      if (of.contains("uuid")) {
        trace.names[of["uuid"]] = of["name"];
        if (of.contains("parent_uuid")) trace.parents[of["uuid"]] = of["parent_uuid"];
      }
      if (!of.contains("type")) continue;
      const std::string& clock = of["timestamp_clock_id"];
      const long now = std::stol(of["timestamp"]) + clocks.at("1") - clocks.at(clock);
      Track& track = tracks[of["track_uuid"]];
      EXPECT_GE(now, track.time) << of["track_uuid"];
      track.time = now;
      if (of["type"] == "4") {
        ++trace.counters;
      } else if (of["type"] == "1") {
        EXPECT_TRUE(track.open.empty()) << "slices of track " << of["track_uuid"] << " overlap";
        track.open.push_back(trace.slices.size());
        trace.slices.push_back({.track = of["track_uuid"],
                                .name = of["name"],
                                .begin = now,
                                .end = now,
                                .on_program_clock = clock == "64",
                                .begins = begins,
                                .ends = ends});
      } else {
        EXPECT_FALSE(track.open.empty()) << of["track_uuid"];
        if (track.open.empty()) continue;
        trace.slices[track.open.back()].end = now;
        track.open.pop_back();
      }
    }
    for (const auto& [id, track] : tracks) EXPECT_TRUE(track.open.empty()) << id;
    return trace;
  }

  test::Folder folder_;
};

TEST_F(PerfettoTrace, HasTheSlicesAndCountersOfAllTracksAndNoFlowsUnlessTheyAreAskedFor) {
  const Trace trace = trace_of(test::built("neff/attention.neff"), "");
  EXPECT_GT(trace.slices.size(), 200u);
  EXPECT_GT(trace.counters, 50u);
  EXPECT_TRUE(trace.flows().empty());
}

TEST_F(PerfettoTrace, CountsFromTheFirstInstructionOfTheProgramAndHasSetUpOnTracksOfItsOwn) {
  const Trace trace = trace_of(test::built("neff/attention.neff"), "");
  long first = LONG_MAX, last_of_setup = LONG_MIN;
  size_t setups = 0;
  for (const Slice& slice : trace.slices) {
    const std::string& name = trace.names.at(slice.track);
    if (name.find("set-up") != std::string::npos) {
      ++setups;
      last_of_setup = std::max(last_of_setup, slice.begin);
    } else if (trace.parent_of(slice).find("NeuronCore") != std::string::npos) {
      EXPECT_TRUE(slice.on_program_clock) << name << ": " << slice.name;
      first = std::min(first, slice.begin);
    }
  }
  EXPECT_GT(setups, 5u);
  EXPECT_LE(last_of_setup, LONG_MAX);
  // The first one is at 0 of its clock.
  const std::string text = shell("protoc --proto_path=" + test::source("tests/system/profile") +
                                 " --decode=Trace perfetto.proto < p.pftrace");
  EXPECT_THAT(text, testing::HasSubstr("  timestamp: 0\n"));
}

TEST_F(PerfettoTrace, OfALoopHasAFlowForEachTransferThatATriggerStarted) {
  const Trace trace = of_loop("--show-perfetto-flows");
  const auto flows = trace.flows();
  std::map<const Slice*, size_t> started;  // by trigger
  size_t transfers = 0, waits = 0;
  for (const auto& [id, ends] : flows) {
    ASSERT_EQ(ends.first.size(), 1u) << "flow " << id << " begins once";
    ASSERT_EQ(ends.second.size(), 1u) << "flow " << id << " ends once";
    const Slice &from = *ends.first[0], &to = *ends.second[0];
    EXPECT_LE(from.begin, to.begin) << "flow " << id << " goes back in time";
    const bool transfer = trace.parent_of(to).starts_with("\"DMA ");
    transfer ? ++transfers : ++waits;
    if (transfer && from.on_program_clock) ++started[&from];
  }
  // Four transfers in each of four iterations and one behind them, by 16 DMA engines each.
  size_t whole = 0;
  for (const auto& [trigger, count] : started) {
    EXPECT_EQ(trigger->name, "\"DMA_TRIGGER\"");
    EXPECT_EQ(count % 16, 0u) << count;
    whole += count;
  }
  EXPECT_EQ(started.size(), 17u);
  EXPECT_EQ(whole, 17u * 16);
  EXPECT_GT(waits, 16u) << "who awaited a semaphore";
  // No transfer of the program is without what started it.
  for (const Slice& slice : trace.slices) {
    if (!trace.parent_of(slice).starts_with("\"DMA ") || !slice.on_program_clock) continue;
    EXPECT_EQ(slice.ends.size(), 1u) << slice.name;
  }
}

}  // namespace
}  // namespace neuron::profile
