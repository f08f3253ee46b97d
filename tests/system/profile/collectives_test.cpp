// SPDX-License-Identifier: Apache-2.0
// What profiles say of collectives: each rank's transfers to the others, its waits for them, and
// the instructions of its collective cores, in every format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "tests/support/daemon.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/system/profile/json_number.h"

namespace neuron::profile {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

constexpr int64_t kBytes = 32768;  // of the example's buffer

class CollectivesOfAProfile : public testing::Test {
 protected:
  std::string shell(const std::string& line) {
    const test::Run run =
        test::shell("cd " + folder_.path() + " && " + line, {{"NEURON_EMULATOR", emulator_}});
    EXPECT_EQ(run.ending, 0) << line << "\n" << run.output;
    return run.output;
  }
  std::string view(const std::string& arguments) {
    return shell(test::built("bin/neuron-profile") + " view " + arguments);
  }
  void capture(const std::string& file) {
    shell(test::built("bin/neuron-as") + " " +
          test::source("tools/neuron-as/examples/all_reduce.s") + " -o ranks.neff && " +
          test::built("bin/neuron-profile") + " capture -n ranks.neff -r 2 -i all -s " + file);
  }
  json::value tables_of(const std::string& file) {
    view("-s " + file + " --output-format parquet --output-file tables");
    return json::parse(
        shell("python3 " + test::source("tests/system/profile/parquet_reader.py") + " tables"));
  }
  json::value detail(const std::string& file) {
    view("-s " + file + " --output-format json --output-file detail.json");
    return json::parse(folder_.read("detail.json"));
  }

  std::string emulator_ = "trn1.2xlarge";
  test::Folder folder_;
};

TEST_F(CollectivesOfAProfile, HaveEachTransferToAnotherRankWithItsBytesAndTheWaitsForThatRank) {
  capture("p.ntff");
  for (const int rank : {0, 1}) {
    const json::value all = detail("p_rank_" + std::to_string(rank) + ".ntff");
    const json::array& runs = all.at("collective").as_array();
    ASSERT_EQ(runs.size(), 1u);
    const json::value& run = runs[0];
    EXPECT_EQ(run.at("operation"), "all_reduce");
    EXPECT_EQ(run.at("algorithm"), "mesh");
    EXPECT_EQ(run.at("num_elements"), 8192);
    EXPECT_EQ(run.at("rank"), rank);
    EXPECT_EQ(run.at("replica_group"), "0 1");
    const double begin = number(run.at("timestamp")), end = begin + number(run.at("duration"));
    // A half of the operands for the other rank to add, and the half of the sum that this one made.
    std::map<std::string, int64_t> bytes;
    for (const json::value& transfer : all.at("link").as_array()) {
      EXPECT_EQ(transfer.at("peer"), 1 - rank);
      EXPECT_GE(number(transfer.at("timestamp")), begin);
      EXPECT_LE(number(transfer.at("timestamp")) + number(transfer.at("duration")), end);
      bytes[std::string(transfer.at("direction").as_string())] +=
          transfer.at("transfer_size").as_int64();
    }
    EXPECT_EQ(bytes, (std::map<std::string, int64_t>{{"in", kBytes}, {"out", kBytes}}));
    int64_t sent = 0, peers = 0;
    double waited = 0;
    for (const json::value& one : all.at("cc").as_array()) {
      if (one.at("peer") == 1 - rank) sent += one.at("bytes").as_int64();
      if (one.at("waited_for_rank") != 1 - rank) continue;
      waited += number(one.at("evt_wait_time_ns"));
      ++peers;
    }
    EXPECT_EQ(sent, kBytes) << "what the instructions are for is what DMA moved";
    EXPECT_GE(peers, 2) << "data, twice";
    EXPECT_GT(waited, 1000.0);
    EXPECT_LT(waited, end - begin);
    const json::value& summary = all.at("summary").at(0);
    EXPECT_EQ(number(summary.at("cc_op_count")), 1);
    EXPECT_NEAR(number(summary.at("cc_op_time")), (end - begin) * 1e-9, 2e-9);
    EXPECT_EQ(number(summary.at("cc_cores_instruction_count")),
              static_cast<double>(all.at("cc").as_array().size()));
  }
}

TEST_F(CollectivesOfAProfile, AreInTheReportWithTheRankThatTheyWaitFor) {
  capture("p.ntff");
  const std::string report = view("-s p_rank_1.ntff");
  EXPECT_THAT(report, testing::ContainsRegex("all_reduce of 8192 float32 .add. +1 +[0-9.]+ us"));
  EXPECT_THAT(report,
              testing::ContainsRegex("rank 0 +8 +32.0 KiB +[0-9.]+ us +[0-9.]+ GB/s +2 +32.0 KiB"));
  EXPECT_THAT(report, HasSubstr("queue 15 (collectives)"));
  EXPECT_THAT(report, testing::ContainsRegex("Look at the\\s+profile of rank 0"));
  EXPECT_THAT(report, HasSubstr("which a collective core changes"));
}

TEST_F(CollectivesOfAProfile, AreTheSameFromADaemonAndAfterALaterExecution) {
  capture("p.ntff");
  const std::string own = view("-s p_rank_0.ntff --output-format csv --table link");
  EXPECT_EQ(std::count(own.begin(), own.end(), '\n'), 1 + 8 + 2) << "8 go out, 2 come in";
  const test::Daemon daemon(folder_);
  emulator_ = daemon.emulator();
  capture("d.ntff");
  EXPECT_EQ(view("-s d_rank_0.ntff --output-format csv --table link"), own);
  const std::string cores = view("-s d_rank_0.ntff --output-format csv --table cc");
  EXPECT_THAT(cores, HasSubstr("sends 16384 bytes to rank 1, when rank 1 takes data"));
}

// The times of the two formats are of one execution: what one rounds to nanoseconds the other says
// to the picosecond.
TEST_F(CollectivesOfAProfile, HaveTheirSizesBandwidthsAndTriggersInTheTables) {
  capture("p.ntff");
  const json::value tables = tables_of("p_rank_1.ntff");
  const json::value& op = tables.at("CcOp").at("columns");
  const json::value all = detail("p_rank_1.ntff");
  const json::value& run = all.at("collective").at(0);
  EXPECT_EQ(op.at("input_size").at(0), kBytes);
  EXPECT_EQ(op.at("output_size").at(0), kBytes);
  EXPECT_EQ(op.at("replica_group_id").at(0), 0);
  const double rate = static_cast<double>(kBytes) * 1e9 / number(run.at("duration"));
  EXPECT_NEAR(number(op.at("algorithm_bandwidth").at(0)), rate, 1e-3 * rate);
  // 2 (n - 1) / n is 1 of two ranks.
  EXPECT_NEAR(number(op.at("bus_bandwidth").at(0)), rate, 1e-3 * rate);
  EXPECT_NEAR(number(run.at("bus_bandwidth")), rate, 1e-3 * rate);
  // The second instruction of Sync triggers it, and the core sees that a semaphore's way later.
  EXPECT_EQ(op.at("trigger_engine").at(0), "Sync");
  EXPECT_EQ(run.at("trigger_pc"), 1);
  double trigger = 0;
  for (const json::value& one : all.at("instruction").as_array()) {
    if (one.at("engine") == "Sync" && one.at("setup") == false && one.at("pc") == 1) {
      trigger = number(one.at("timestamp"));
    }
  }
  EXPECT_NEAR(number(op.at("trigger_start_ts").at(0)), trigger, 1);
  EXPECT_NEAR(number(op.at("cc_trigger_start_delay").at(0)), number(run.at("timestamp")) - trigger,
              1);
  const json::value& instructions = tables.at("CcInstruction").at("columns");
  size_t triggered = 0;
  for (size_t n = 0; n < instructions.at("description").as_array().size(); ++n) {
    if (instructions.at("trigger_engine").at(n).is_null()) continue;
    EXPECT_EQ(instructions.at("trigger_engine").at(n), "Sync");
    EXPECT_EQ(instructions.at("trigger_start_ts").at(n), op.at("trigger_start_ts").at(0));
    ++triggered;
  }
  EXPECT_GT(triggered, 5u);
  EXPECT_LT(triggered, instructions.at("description").as_array().size())
      << "nobody triggers the runtime's own instructions";
}

TEST_F(CollectivesOfAProfile, AreOnTheCriticalPathWithWhatBoundThem) {
  capture("p.ntff");
  std::istringstream lines(view("-s p_rank_0.ntff --output-format csv --table path"));
  std::map<std::string, double> times;
  std::string kinds, line;
  while (std::getline(lines, line)) {
    std::smatch match;
    if (!std::regex_match(line, match,
                          std::regex(R"re(-?[0-9.]+,([0-9.]+),"([^"]+)","([^"]+)",.*)re"))) {
      continue;
    }
    times[match[2]] += std::stod(match[1]);
    if (match[3] == "CC core 0") kinds += std::string(match[2]) + ".";
  }
  EXPECT_EQ(kinds,
            "semaphores.collective cores.collective cores.collective cores.other ranks.DMA start."
            "DMA transfers.collective cores.other ranks.collective cores.collective cores."
            "collective cores.");
  EXPECT_FALSE(times.contains("other cores, the host"));
  const std::string report = view("-s p_rank_0.ntff");
  EXPECT_THAT(report, HasSubstr("Waits for other ranks limit this execution"));
  EXPECT_THAT(report, HasSubstr("all_reduce of 8192 float32 (add), CC core 0 waiting for rank 1: "
                                "waits for 16.0 KiB of rank 1"));
  EXPECT_THAT(report, testing::ContainsRegex("waits\\s+for\\s+rank\\s+1\\s+\\(32.0\\s+KiB,"));
}

TEST_F(CollectivesOfAProfile, AreInTheTablesOfThePublishedSchema) {
  capture("p.ntff");
  const json::value tables = tables_of("p_rank_0.ntff");
  const std::map<std::string, size_t> fields = {
      {"CcOp", 19}, {"CcInstruction", 7}, {"CcStream", 3}};
  for (const auto& [name, count] : fields) {
    EXPECT_EQ(tables.at(name).at("schema").as_object().size(), count) << name;
    EXPECT_GE(tables.at(name).at("rows").as_int64(), 1) << name;
  }
  const json::value& schema = tables.at("SchemaFields").at("columns");
  for (size_t n = 0; n < schema.at("table_name").as_array().size(); ++n) {
    if (!schema.at("table_name").at(n).as_string().starts_with("Cc")) continue;
    EXPECT_NE(schema.at("field_description").at(n), "Not measured by this runtime.")
        << schema.at("field_name").at(n);
  }
  EXPECT_EQ(tables.at("CcOp").at("columns").at("operation").at(0), "all_reduce");
  EXPECT_EQ(tables.at("CcOp").at("columns").at("replica_group").at(0), "[0,1]");
  const json::value& transfers = tables.at("DmaPacketAggregated").at("columns");
  int64_t bytes = 0;
  for (size_t n = 0; n < transfers.at("variable").as_array().size(); ++n) {
    if (transfers.at("variable").at(n) != "all_reduce of 8192 float32 (add), to rank 1") continue;
    bytes += transfers.at("transfer_bytes").at(n).as_int64();
  }
  EXPECT_EQ(bytes, kBytes);
}

// Slices of links lie one behind the other in their track, and each flow begins at the collective
// core that rang.
TEST_F(CollectivesOfAProfile, AreTracksOfThePerfettoTraceWithFlowsFromTheirCore) {
  capture("p.ntff");
  view("-s p_rank_0.ntff --output-format perfetto --show-perfetto-flows --output-file p.pftrace");
  std::istringstream lines(shell("protoc --proto_path=" + test::source("tests/system/profile") +
                                 " --decode=Trace perfetto.proto < p.pftrace"));
  std::map<std::string, std::string> of, names;
  std::vector<std::string> ids;  // of flows that begin or end at a slice
  std::map<std::string, long> depth, last, clocks;
  std::map<std::string, std::set<std::string>> flows;  // tracks
  size_t sends = 0, receives = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line == "packet {") {
      of.clear();
      ids.clear();
    }
    std::smatch match;
    if (std::regex_match(line, match, std::regex(R"( +(\w+): (.*))"))) {
      of[match[1]] = match[2];
      if (match[1] == "timestamp" && of.contains("clock_id")) {
        clocks[of["clock_id"]] = std::stol(match[2]);
      }
      if (match[1].str().ends_with("flow_ids")) ids.push_back(match[2]);
    }
    if (line != "}") continue;
    if (of.contains("uuid")) names[of["uuid"]] = of["name"];
    if (!of.contains("type") || of["type"] == "4") continue;
    const std::string& track = of["track_uuid"];
    // What is before the program has another clock.
    const long now =
        std::stol(of["timestamp"]) + clocks.at("1") - clocks.at(of["timestamp_clock_id"]);
    EXPECT_GE(now, last[track]) << names[track];
    last[track] = now;
    depth[track] += of["type"] == "1" ? 1 : -1;
    EXPECT_TRUE(depth[track] == 0 || depth[track] == 1) << names[track];
    sends += of["name"] == "\"4096 B to rank 1\"";
    receives += of["name"] == "\"16384 B from rank 1\"";
    for (const std::string& id : ids) flows[id].insert(names[track]);
  }
  std::set<std::string> known;
  for (const auto& [uuid, name] : names) known.insert(name);
  for (const char* name : {"\"CC core 0\"", "\"collectives of CC core 0\"", "\"links\"",
                           "\"to rank 1\"", "\"from rank 1, CC core 0\""}) {
    EXPECT_TRUE(known.contains(name)) << name;
  }
  EXPECT_EQ(sends, 8u);
  EXPECT_EQ(receives, 2u);
  size_t joined = 0;
  for (const auto& [flow, tracks] : flows) {
    joined += tracks.contains("\"CC core 0\"") && tracks.size() > 1;
  }
  EXPECT_GE(joined, 2u);
}

TEST_F(CollectivesOfAProfile, AreOnThePage) {
  capture("p.ntff");
  view("-s p_rank_0.ntff --html");
  const std::string page = folder_.read("profile.html");
  const std::string open = "<script id=\"data\" type=\"application/json\">";
  const size_t begin = page.find(open) + open.size();
  const json::value data = json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_EQ(data.at("collectives").at(0).at("sent"), kBytes);
  EXPECT_EQ(data.at("collectives").at(0).at("received"), kBytes);
  EXPECT_GT(number(data.at("collectives").at(0).at("bus")), 1e9);
  EXPECT_EQ(data.at("links").at(0).at("rank"), 1);
  std::map<std::string, size_t> tracks;
  for (const json::value& track : data.at("tracks").as_array()) {
    tracks[std::string(track.at("name").as_string())] = track.at("slices").as_array().size();
  }
  EXPECT_EQ(tracks["to rank 1"], 8u);
  EXPECT_EQ(tracks["from rank 1"], 2u);
  EXPECT_GT(tracks["CC core 0"], 10u);
}

}  // namespace
}  // namespace neuron::profile
