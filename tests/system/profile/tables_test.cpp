// SPDX-License-Identifier: Apache-2.0
// What the Parquet tables of neuron-profile say: each against what another table, the published
// catalogue of fields or the program itself says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <vector>

#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/system/profile/json_number.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::profile {
namespace {

namespace json = boost::json;

std::string text(const json::value& value) { return std::string(value.as_string()); }

// y = 2 x in tiles of 256 bytes of each partition, from lines of a kernel in Python.
constexpr const char* kKernel = R"(
.neff name=doubled, build="test"
.target trn1
.var x : f32 [128, 64] input, format=NC
.var y : f32 [128, 64] output, format=NC
.var sbuf : state-buffer, size=0x2000000
.sem loaded, doubled, stored
.queue q_in = in, engines=16, owner=SP
.queue q_out = out, engines=16, owner=SP
.engine SP
.line 1 "kernel.py" 3:1
.line 2 "kernel.py" 7:1
.dma 5 load : x [128, 256] -> sbuf + 0 [128:262144, 256], queue=q_in, semaphore=loaded
.dma 6 store : sbuf + 0x400 [128:262144, 256] -> y [128, 256], queue=q_out, semaphore=stored
main:
        dma_trigger load @1
        dma_trigger store                               wait(doubled >= 1) @2
        event                                           wait(stored >= 16)
        ret
.engine DVE
.line 3 "kernel.py" 5:1
main:
        tensor_scalar sbuf[0:128, 0x400] f32 [64] = sbuf[0:128, 0] f32 [64], op0=mul s0=2.0  wait(loaded >= 16) then(doubled++) @3
        ret
)";
constexpr int64_t kTileBytes = 256, kTensorBytes = 128 * kTileBytes;

class TablesOfAProfile : public testing::Test {
 protected:
  std::string shell(const std::string& line) {
    const test::Run run =
        test::shell("cd " + folder_.path() + " && " + line, environment_, std::chrono::minutes(2));
    EXPECT_EQ(run.ending, 0) << line << "\n" << run.output.substr(0, 2000);
    return run.output;
  }
  std::string profile(const std::string& arguments) {
    return shell(test::built("bin/neuron-profile") + " " + arguments);
  }
  json::value read(const std::string& folder) {
    return json::parse(
        shell("python3 " + test::source("tests/system/profile/parquet_reader.py") + " " + folder));
  }
  // The tables of the first execution of a NEFF.
  json::value tables_of(const std::string& neff, const std::string& more = "") {
    profile("capture -n " + neff + " -s p.ntff");
    profile("view -s p.ntff --output-format parquet --output-file tables " + more);
    return read("tables");
  }
  json::value of_attention() { return tables_of(test::built("neff/attention.neff")); }
  json::value of_kernel() {
    folder_.write("kernel.s", kKernel);
    shell(test::built("bin/neuron-as") + " kernel.s -o kernel.neff");
    return tables_of("kernel.neff");
  }
  // A session of two executions, in data/profiles/global/mine@latest.
  std::string view_session() {
    const test::Environment before = environment_;
    environment_["NEURON_RT_INSPECT_ENABLE"] = "1";
    environment_["NEURON_RT_INSPECT_OUTPUT_DIR"] = folder_.path("out");
    environment_["NEURON_RT_INSPECT_DEVICE_PROFILE"] = "1";
    environment_["NEURON_RT_INSPECT_CPU_UTIL"] = "1";
    environment_["NEURON_RT_INSPECT_HOST_MEMORY"] = "1";
    shell(test::built("bin/neuron-run") + " " + test::built("neff/tensor_add.neff") +
          " --random --repeat 2");
    environment_ = before;
    return profile("view -d out/* --data-path data --display-name mine");
  }
  // By table: its fields with their types; ! behind the type of a field that every row has.
  static std::map<std::string, std::map<std::string, std::string>> catalogue() {
    std::map<std::string, std::map<std::string, std::string>> tables;
    std::istringstream lines(
        test::read_file(test::source("tests/system/profile/schema_7_4_0.tsv")));
    for (std::string table, field, type; std::getline(lines, table, '\t');) {
      std::getline(lines, field, '\t');
      std::getline(lines, type);
      tables[table][field] = type;
    }
    return tables;
  }
  void expect_catalogue(const json::value& tables, const std::set<std::string>& wanted) {
    const auto published = catalogue();
    ASSERT_GT(published.size(), 40u);
    std::set<std::string> found;
    for (const auto& [key, table] : tables.as_object()) {
      const std::string name(key);
      found.insert(name);
      ASSERT_TRUE(published.contains(name)) << name;
      std::map<std::string, std::string> fields;
      for (const auto& [field, type] : table.at("schema").as_object()) fields[field] = text(type);
      EXPECT_EQ(fields, published.at(name)) << name;
      EXPECT_GT(table.at("rows").as_int64(), 0) << name << ": a table without rows has no file";
      for (const auto& [field, type] : fields) {
        if (!type.ends_with("!")) continue;
        for (const json::value& value : table.at("columns").at(field).as_array()) {
          ASSERT_FALSE(value.is_null()) << name << "." << field;
        }
      }
    }
    EXPECT_EQ(found, wanted);
    // What is described is what is there.
    std::set<std::string> described;
    for (const auto& name : tables.at("SchemaFields").at("columns").at("table_name").as_array()) {
      described.insert(text(name));
    }
    EXPECT_EQ(described, found);
    const std::set<std::string> with_values = fields_with(tables, says_something);
    for (const std::string& name : not_measured(tables)) {
      EXPECT_FALSE(with_values.contains(name)) << name;
    }
  }
  // TABLE.FIELD of those that the schema says nobody measures.
  static std::set<std::string> not_measured(const json::value& tables) {
    std::set<std::string> found;
    const json::value& fields = tables.at("SchemaFields").at("columns");
    for (size_t n = 0; n < fields.at("field_name").as_array().size(); ++n) {
      if (!text(fields.at("field_description").at(n)).starts_with("Not measured")) continue;
      found.insert(text(fields.at("table_name").at(n)) + "." + text(fields.at("field_name").at(n)));
    }
    return found;
  }
  static bool says_something(const json::value& value) {
    return !value.is_null() && value != json::value(0) && value != json::value(0.0) &&
           value != json::value("");
  }
  // TABLE.FIELD of those in which some row has such a value.
  static std::set<std::string> fields_with(const json::value& tables,
                                           bool (*wanted)(const json::value&)) {
    std::set<std::string> found;
    for (const auto& [name, table] : tables.as_object()) {
      for (const auto& [field, values] : table.at("columns").as_object()) {
        const json::array& rows = values.as_array();
        if (std::any_of(rows.begin(), rows.end(), wanted)) {
          found.insert(std::string(name) + "." + std::string(field));
        }
      }
    }
    return found;
  }

  test::Environment environment_ = {{"NEURON_EMULATOR", "trn1.2xlarge"}};
  test::Folder folder_;
};

// One table of what the reader has read.
class Table {
 public:
  Table(const json::value& tables, const char* name) : table_(tables.at(name)) {}
  size_t rows() const { return static_cast<size_t>(table_.at("rows").as_int64()); }
  const json::value& at(const char* field, size_t row) const {
    return table_.at("columns").at(field).at(row);
  }
  int64_t whole(const char* field, size_t row) const { return at(field, row).as_int64(); }
  double real(const char* field, size_t row) const { return number(at(field, row)); }
  std::string word(const char* field, size_t row) const { return text(at(field, row)); }

 private:
  const json::value& table_;
};

const std::set<std::string> kOfEveryProgram = {"ActiveTime",
                                               "AssemblyInstruction",
                                               "DmaPacket",
                                               "DmaPacketAggregated",
                                               "DmaQueuesInfo",
                                               "DmaUsage",
                                               "DmaUsageSummary",
                                               "ExecutionInfo",
                                               "Flow",
                                               "HbmUsage",
                                               "Instruction",
                                               "HbmUsageSummaryByType",
                                               "Metadata",
                                               "NeffHeader",
                                               "OpcodeSummary",
                                               "PendingDma",
                                               "SbufAllocation",
                                               "SbufUsage",
                                               "SchemaFields",
                                               "SemaphoreUpdate",
                                               "StackFrame",
                                               "StackFrameFileName",
                                               "Summary",
                                               "StackFrameFileLocation",
                                               "TensorInfo"};

// Two programs of a virtual core that swap tiles and meet before they write.
std::vector<uint8_t> meeting() {
  const auto write = [](builder::Program& program, const std::string& in, const std::string& out) {
    const auto x = program.input(in, NEURON_DTYPE_F32, {128, 64});
    const auto y = program.output(out, NEURON_DTYPE_F32, {128, 64});
    const auto own = program.sbuf("own", 128, 64, NEURON_DTYPE_F32);
    const auto others = program.sbuf("others", 128, 64, NEURON_DTYPE_F32);
    program.dma(builder::Engine::kSp, own.all(), x.all());
    program.send_receive(others.all(), own.all());
    program.core_barrier(builder::Engine::kSp);
    program.dma(builder::Engine::kSp, y.all(), others.all());
  };
  builder::Program first("meeting", 3), second("meeting", 3);
  write(first, "x0", "y0");
  write(second, "x1", "y1");
  first.physical_cores(2, &second);
  const auto neff = first.build();
  EXPECT_TRUE(neff) << neff.error().sentence;
  return neff ? *neff : std::vector<uint8_t>();
}

TEST_F(TablesOfAProfile, HaveTheFieldsAndTypesOfThePublishedCatalogue) {
  std::set<std::string> wanted = kOfEveryProgram;
  wanted.insert("PsumUsage");
  expect_catalogue(of_attention(), wanted);
  wanted = kOfEveryProgram;
  wanted.insert("KernelInstructions");
  expect_catalogue(of_kernel(), wanted);
}

// Programs of several kinds and a session; all but six of the fields.
TEST_F(TablesOfAProfile, FieldsThatAreNotSaidToBeUnmeasuredHaveAValueInSomeProfile) {
  const std::string neff = test::built("neff/attention.neff");
  std::vector<json::value> all = {tables_of(neff, "-n " + neff), of_kernel()};
  shell(test::built("bin/neuron-as") + " " + test::source("tools/neuron-as/examples/all_reduce.s") +
        " -o ranks.neff");
  profile("capture -n ranks.neff -r 2 -i all -s ranks.ntff");
  profile("view -s ranks_rank_1.ntff --output-format parquet --output-file tables");
  all.push_back(read("tables"));
  view_session();
  all.push_back(read("data/profiles/global/mine@latest"));
  folder_.write("meeting.neff", meeting());
  environment_["NEURON_EMULATOR"] = "trn2.3xlarge";
  all.push_back(tables_of("meeting.neff"));
  // A field that every row has is 0 where nothing was written, so that says nothing there.
  std::set<std::string> filled, with_values, empty;
  for (const json::value& tables : all) {
    filled.merge(fields_with(tables, [](const json::value& value) { return !value.is_null(); }));
    with_values.merge(fields_with(tables, says_something));
  }
  for (const json::value& tables : all) {
    const std::set<std::string> unmeasured = not_measured(tables);
    for (const auto& [name, table] : tables.as_object()) {
      for (const auto& [field, type] : table.at("schema").as_object()) {
        const std::string place = std::string(name) + "." + std::string(field);
        const bool has = (text(type).ends_with("!") ? with_values : filled).contains(place);
        if (!has && !unmeasured.contains(place)) empty.insert(place);
      }
    }
  }
  // Numbers that are 0 here: the first core, device, stream, collective, execution and instant.
  for (const char* first :
       {"ActiveTime.pcore_idx", "CcInstruction.core_idx", "CcOp.op_id", "CcOp.stream_id",
        "CcOp.stream_index", "CcStream.stream_id", "CcStream.stream_index",
        "DeviceProfileList.nc_id", "DmaQueuesInfo.pcore_idx", "DmaUsageSummary.pcore_idx",
        "ExecutionInfo.execution_index", "HbmUsageSummaryByType.neuron_device_idx",
        "Metadata.first_hw_timestamp"}) {
    EXPECT_EQ(empty.erase(first), 1u) << first;
  }
  // Modes have a test of their own; the others need a session's whole profile, an event that is set
  // twice, and a kernel whose debug information names functions.
  EXPECT_EQ(empty,
            (std::set<std::string>{
                "DeviceProfileList.session_id", "Instruction.performance_mode",
                "KernelInstructions.stack_frame_depth", "KernelInstructions.stack_frame_id",
                "SemaphoreUpdate.double_set_or_clear", "StackFrameFileLocation.function_name_id"}));
}

TEST_F(TablesOfAProfile, PacketsAddUpToTheirTransferAndLieInItsTime) {
  const json::value tables = of_attention();
  const Table packets(tables, "DmaPacket"), transfers(tables, "DmaPacketAggregated");
  struct Sum {
    int64_t bytes = 0, begin = INT64_MAX, end = INT64_MIN, packets = 0;
  };
  std::map<int64_t, Sum> sums;
  for (size_t n = 0; n < packets.rows(); ++n) {
    Sum& sum = sums[packets.whole("packet_aggregation_id", n)];
    EXPECT_EQ(packets.whole("packet_idx", n), sum.packets++);
    sum.bytes += packets.whole("transfer_bytes", n);
    sum.begin = std::min(sum.begin, packets.whole("start_ts", n));
    sum.end = std::max(sum.end, packets.whole("end_ts", n));
  }
  ASSERT_EQ(sums.size(), transfers.rows()) << "the packets of every transfer are known";
  ASSERT_GT(packets.rows(), 4 * transfers.rows());
  for (size_t n = 0; n < transfers.rows(); ++n) {
    const Sum& sum = sums.at(transfers.whole("id", n));
    EXPECT_EQ(sum.bytes, transfers.whole("transfer_bytes", n)) << n;
    EXPECT_EQ(sum.begin, transfers.whole("start_ts", n)) << n;
    EXPECT_EQ(sum.end, transfers.whole("end_ts", n)) << n;
  }
}

TEST_F(TablesOfAProfile, TransfersSayWhatTheProgramMoves) {
  const json::value tables = of_kernel();
  const Table transfers(tables, "DmaPacketAggregated"), instructions(tables, "Instruction");
  ASSERT_EQ(transfers.rows(), 32u) << "two tensors by 16 DMA engines each";
  std::map<std::string, int64_t> partitions;
  std::map<std::string, std::set<std::string>> places;
  for (size_t n = 0; n < transfers.rows(); ++n) {
    const std::string variable = transfers.word("variable", n);
    const bool loads = variable == "x";
    EXPECT_EQ(transfers.whole("block_id", n), loads ? 5 : 6);
    EXPECT_EQ(transfers.word("semaphore_id", n),
              loads ? "semaphore 16 (loaded)" : "semaphore 18 (stored)");
    EXPECT_EQ(transfers.word("read_shape", n), "[8, 256]");
    EXPECT_EQ(transfers.word(loads ? "read_steps" : "write_steps", n), "[256, 1]");
    EXPECT_EQ(transfers.word(loads ? "write_steps" : "read_steps", n), "[262144, 1]");
    const char* side = loads ? "write_sbuf_partitions" : "read_sbuf_partitions";
    partitions[variable] +=
        transfers.whole(loads ? "write_num_sbuf_partitions" : "read_num_sbuf_partitions", n);
    EXPECT_TRUE(places[variable].insert(transfers.word(side, n)).second) << side;
  }
  EXPECT_EQ(partitions, (std::map<std::string, int64_t>{{"x", 128}, {"y", 128}}));
  EXPECT_TRUE(places["x"].contains("0-7") && places["x"].contains("120-127"));
}

TEST_F(TablesOfAProfile, OpcodeSummaryCountsTheRowsOfInstruction) {
  const json::value tables = of_attention();
  const Table summary(tables, "OpcodeSummary"), instructions(tables, "Instruction");
  std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>> counts;
  for (size_t n = 0; n < instructions.rows(); ++n) {
    auto& [count, time] = counts[{instructions.word("engine", n), instructions.word("opcode", n)}];
    ++count;
    time += instructions.whole("duration_ns", n);
  }
  ASSERT_EQ(summary.rows(), counts.size());
  ASSERT_GT(counts.size(), 10u);
  for (size_t n = 0; n < summary.rows(); ++n) {
    const auto& [count, time] = counts.at({summary.word("engine", n), summary.word("opcode", n)});
    EXPECT_EQ(summary.whole("instruction_count", n), count);
    // Each row is rounded to a nanosecond at both ends.
    EXPECT_NEAR(summary.real("instruction_time_ns", n), static_cast<double>(time),
                static_cast<double>(count) + 1);
  }
}

TEST_F(TablesOfAProfile, FlowsJoinRowsThatExistAndSayTheTimeBetweenThem) {
  const json::value tables = of_attention();
  const Table flows(tables, "Flow");
  const std::map<std::string, Table> of = {
      {"Instruction", Table(tables, "Instruction")},
      {"DmaPacketAggregated", Table(tables, "DmaPacketAggregated")}};
  std::map<std::string, size_t> kinds;
  std::set<int64_t> explained, triggered;
  for (size_t n = 0; n < flows.rows(); ++n) {
    const Table &from = of.at(flows.word("in_table", n)), &to = of.at(flows.word("out_table", n));
    const auto in = static_cast<size_t>(flows.whole("in_id", n));
    const auto out = static_cast<size_t>(flows.whole("out_id", n));
    ASSERT_LT(in, from.rows());
    ASSERT_LT(out, to.rows());
    EXPECT_EQ(from.whole("id", in), static_cast<int64_t>(in));
    EXPECT_NEAR(flows.real("gap_time", n), to.real("start_ts", out) - from.real("end_ts", in), 2);
    const std::string kind = flows.word("dependency_type", n);
    ++kinds[kind];
    if (kind == "trigger") {
      EXPECT_TRUE(triggered.insert(static_cast<int64_t>(out)).second)
          << "one instruction starts it";
      EXPECT_EQ(to.whole("trigger", out), from.whole("start_ts", in));
      EXPECT_EQ(to.whole("completion", out), from.whole("end_ts", in));
      EXPECT_EQ(from.word("opcode", in), "DMA_TRIGGER");
    } else {
      explained.insert(static_cast<int64_t>(out));
      EXPECT_GT(to.whole("evt_wait_time_ns", out), 0);
    }
  }
  EXPECT_EQ(triggered.size(), of.at("DmaPacketAggregated").rows());
  EXPECT_GT(kinds["semaphore"], 10u);
  // But for the first instruction, which waits for the host, every wait has its cause.
  size_t waits = 0, unexplained = 0;
  const Table& instructions = of.at("Instruction");
  for (size_t n = 0; n < instructions.rows(); ++n) {
    if (instructions.whole("evt_wait_time_ns", n) == 0) continue;
    ++waits;
    if (explained.contains(static_cast<int64_t>(n))) continue;
    ++unexplained;
    EXPECT_THAT(instructions.word("operands", n), testing::HasSubstr("wait(s7 >= 1)"));
  }
  EXPECT_GT(waits, 10u);
  EXPECT_EQ(unexplained, 1u);
}

// Load, multiply, store: each waits for the one before it.
TEST_F(TablesOfAProfile, FlowsOfAChainGoFromTheLoadOverTheInstructionToTheStore) {
  const json::value tables = of_kernel();
  const Table flows(tables, "Flow"), instructions(tables, "Instruction"),
      transfers(tables, "DmaPacketAggregated");
  std::set<std::string> links;
  const auto name = [&](const std::string& table, size_t row) {
    return table == "Instruction" ? instructions.word("opcode", row)
                                  : transfers.word("variable", row);
  };
  for (size_t n = 0; n < flows.rows(); ++n) {
    links.insert(name(flows.word("in_table", n), static_cast<size_t>(flows.whole("in_id", n))) +
                 " -> " +
                 name(flows.word("out_table", n), static_cast<size_t>(flows.whole("out_id", n))));
  }
  for (const char* link : {"DMA_TRIGGER -> x", "x -> TENSOR_SCALAR", "TENSOR_SCALAR -> DMA_TRIGGER",
                           "DMA_TRIGGER -> y", "y -> EVENT_SEMAPHORE"}) {
    EXPECT_TRUE(links.contains(link)) << link;
  }
}

TEST_F(TablesOfAProfile, ActiveTimeIsTheUnionOfTheInstructionsOfEachEngine) {
  const json::value tables = of_attention();
  const Table active(tables, "ActiveTime"), instructions(tables, "Instruction"),
      summary(tables, "Summary");
  std::map<std::string, std::vector<std::pair<int64_t, int64_t>>> work, found;
  for (size_t n = 0; n < instructions.rows(); ++n) {
    work[instructions.word("engine", n)].emplace_back(instructions.whole("start_ts", n),
                                                      instructions.whole("end_ts", n));
  }
  for (size_t n = 0; n < active.rows(); ++n) {
    found[active.word("engine", n)].emplace_back(active.whole("start_ts", n),
                                                 active.whole("end_ts", n));
    EXPECT_EQ(active.whole("duration_ns", n),
              active.whole("end_ts", n) - active.whole("start_ts", n));
  }
  ASSERT_EQ(work.size(), 5u);
  const std::map<std::string, const char*> metrics = {{"Tensor", "tensor_engine_active_time"},
                                                      {"Vector", "vector_engine_active_time"},
                                                      {"Scalar", "scalar_engine_active_time"},
                                                      {"GpSimd", "gpsimd_engine_active_time"},
                                                      {"Sync", "sync_engine_active_time"}};
  for (auto& [engine, intervals] : work) {
    std::sort(intervals.begin(), intervals.end());
    int64_t covered = 0, until = INT64_MIN;
    for (const auto& [begin, end] : intervals) {
      covered += std::max<int64_t>(0, end - std::max(begin, until));
      until = std::max(until, end);
    }
    int64_t sum = 0, before = INT64_MIN;
    for (const auto& [begin, end] : found[engine]) {
      EXPECT_GE(begin, before) << "ascending, and apart";
      before = end;
      sum += end - begin;
    }
    // Rounding, and what an engine does behind the end of the execution.
    const double slack = 150 + static_cast<double>(found[engine].size());
    EXPECT_NEAR(static_cast<double>(sum), static_cast<double>(covered), slack) << engine;
    EXPECT_NEAR(static_cast<double>(sum), summary.real(metrics.at(engine), 0) * 1e9, slack);
    EXPECT_GT(sum, 0) << engine;
  }
}

TEST_F(TablesOfAProfile, SbufIsAsFullAsTheTilesThatAreStillRead) {
  const json::value tables = of_kernel();
  const Table stays(tables, "SbufAllocation"), usage(tables, "SbufUsage"),
      instructions(tables, "Instruction"), packets(tables, "DmaPacket");
  int64_t begin = 0, end = 0;
  for (size_t n = 0; n < instructions.rows(); ++n) {
    if (instructions.word("opcode", n) != "TENSOR_SCALAR") continue;
    begin = instructions.whole("start_ts", n);
    end = instructions.whole("end_ts", n);
    EXPECT_EQ(instructions.whole("sbuf_read_bytes", n), kTensorBytes);
    EXPECT_EQ(instructions.whole("sbuf_write_bytes", n), kTensorBytes);
    EXPECT_EQ(instructions.whole("psum_read_bytes", n), 0);
  }
  ASSERT_GT(end, begin);
  // Two tiles in each of four partitions: what is loaded, until it was multiplied; the product,
  // until it was stored.
  ASSERT_EQ(stays.rows(), 8u);
  std::set<std::pair<int64_t, int64_t>> seen;
  std::map<int64_t, std::array<int64_t, 4>> times;  // of the tiles of a partition
  for (size_t n = 0; n < stays.rows(); ++n) {
    const int64_t first = stays.whole("start_address", n), partition = stays.whole("partition", n);
    EXPECT_TRUE(seen.insert({partition, first}).second);
    EXPECT_EQ(stays.whole("end_address", n), first + kTileBytes - 1);
    if (first == 0) {
      EXPECT_EQ(stays.word("op_source_type", n), "dma");
      EXPECT_EQ(stays.word("tensor_name", n), "x");
      EXPECT_EQ(stays.whole("block_id", n), 5);
      EXPECT_EQ(stays.whole("end_ts", n), end);
      times[partition][0] = stays.whole("start_ts", n);
      times[partition][1] = end;
    } else {
      EXPECT_EQ(first, 0x400);
      EXPECT_EQ(stays.word("op_source_type", n), "instruction");
      EXPECT_EQ(stays.word("opcode", n), "TENSOR_SCALAR");
      EXPECT_EQ(stays.whole("start_ts", n), begin);
      times[partition][2] = begin;
      times[partition][3] = stays.whole("end_ts", n);
    }
  }
  ASSERT_EQ(times.size(), 4u);
  // Of 192 KiB.
  constexpr double kShare = static_cast<double>(kTileBytes) / (192 << 10);
  size_t full = 0;
  for (size_t n = 0; n < usage.rows(); ++n) {
    const int64_t time = usage.whole("timestamp", n);
    double sum = 0;
    for (const auto& [partition, of] : times) {
      const std::string field = "partition_" + std::to_string(partition) + "_util_percent";
      const double share = usage.real(field.c_str(), n);
      sum += share;
      bool edge = false;  // rounding decides
      for (const int64_t one : of) edge = edge || std::abs(one - time) <= 1;
      if (edge) continue;
      const int tiles =
          (of[0] <= time && time < of[1] ? 1 : 0) + (of[2] <= time && time < of[3] ? 1 : 0);
      EXPECT_NEAR(share, tiles * kShare, 1e-7) << field << " at " << time;
      full += tiles == 2;
    }
    EXPECT_NEAR(usage.real("avg_util_percent", n), sum / 4, 1e-7);
  }
  EXPECT_GT(full, 0u) << "while it is multiplied, both tiles are there";
}

// A product of [128, 512] float32 fills a bank of PSUM until it is copied.
TEST_F(TablesOfAProfile, PsumHasTheBankThatAProductFills) {
  builder::Program program("product", 2);
  const builder::Tile left = program.sbuf("left", 128, 128, NEURON_DTYPE_BF16);
  const builder::Tile right = program.sbuf("right", 128, 512, NEURON_DTYPE_BF16);
  const builder::Tile product = program.psum("product", 128, 512, NEURON_DTYPE_F32);
  const builder::Tile copy = program.sbuf("copy", 128, 512, NEURON_DTYPE_F32);
  program.memset(builder::Engine::kPool, left.all(), 1);
  program.memset(builder::Engine::kPool, right.all(), 1);
  program.matmul(product.all(), left.all(), right.all());
  program.tensor_copy(builder::Engine::kDve, copy.all(), product.all());
  const auto neff = program.build();
  ASSERT_TRUE(neff) << neff.error().sentence;
  folder_.write("product.neff", *neff);
  const json::value tables = tables_of("product.neff");
  const Table usage(tables, "PsumUsage"), instructions(tables, "Instruction"),
      summary(tables, "Summary");
  int64_t begin = -1, end = -1;
  for (size_t n = 0; n < instructions.rows(); ++n) {
    const std::string opcode = instructions.word("opcode", n);
    if (opcode == "MATMUL") {
      begin = instructions.whole("start_ts", n);
      EXPECT_EQ(instructions.whole("raw_flops", n), 2 * 128 * 128 * 512);
      EXPECT_EQ(instructions.whole("adjusted_flops", n), 2 * 128 * 128 * 512);
      EXPECT_EQ(instructions.word("tensor_instruction_type", n), "REGULAR");
      EXPECT_EQ(instructions.whole("psum_write_bytes", n), 128 * 512 * 4);
    }
    if (opcode == "TENSOR_COPY") {
      end = instructions.whole("end_ts", n);
      EXPECT_EQ(instructions.whole("psum_read_sbuf_write_bytes", n), 128 * 512 * 4);
    }
  }
  ASSERT_GT(end, begin);
  EXPECT_EQ(summary.whole("hardware_flops", 0), 2 * 128 * 128 * 512);
  EXPECT_EQ(summary.whole("psum_read_bytes", 0), 128 * 512 * 4);
  size_t full = 0;
  for (size_t n = 0; n < usage.rows(); ++n) {
    const int64_t time = usage.whole("timestamp", n);
    if (std::abs(time - begin) <= 1 || std::abs(time - end) <= 1) continue;
    double sum = 0;
    for (int bank = 0; bank < 8; ++bank) {
      sum += usage.real(("bank_" + std::to_string(bank) + "_util_percent").c_str(), n);
    }
    EXPECT_DOUBLE_EQ(sum, time > begin && time < end ? 1 : 0) << time;
    EXPECT_NEAR(usage.real("avg_util_percent", n), sum / 8, 1e-7);
    full += sum == 1;
  }
  EXPECT_GT(full, 10u);
}

TEST_F(TablesOfAProfile, UseOverTimeAddsUpToTheSummary) {
  const json::value tables = of_attention();
  const Table summary(tables, "Summary"), sums(tables, "DmaUsageSummary");
  const double hbm = summary.real("hbm_read_bytes", 0) + summary.real("hbm_write_bytes", 0);
  const std::map<const char*, double> wanted = {
      {"DmaUsage", summary.real("dma_transfer_total_bytes", 0)}, {"HbmUsage", hbm}};
  for (const auto& [name, bytes] : wanted) {
    const Table usage(tables, name);
    ASSERT_GT(usage.rows(), 1000u);
    EXPECT_EQ(usage.real("total_transfer_bytes", usage.rows() - 1), bytes) << name;
    const double step = usage.real("timestamp", 1) - usage.real("timestamp", 0);
    double moved = 0;
    for (size_t n = 0; n < usage.rows(); ++n) {
      moved += usage.real("current_throughput", n) * step * 1e-9;
      EXPECT_NEAR(usage.real("total_transfer_bytes", n), moved, bytes * 1e-5 + 1);
    }
  }
  const Table dma(tables, "DmaUsage");
  int64_t count = 0;
  for (size_t n = 0; n < sums.rows(); ++n) {
    double rates = 0, totals = 0;
    for (int64_t k = 0; k < sums.whole("count", n); ++k) {
      rates += dma.real("current_throughput", static_cast<size_t>(count));
      totals += dma.real("total_transfer_bytes", static_cast<size_t>(count++));
    }
    EXPECT_NEAR(sums.real("sum_current_throughput", n), rates, rates * 1e-5);
    EXPECT_EQ(sums.real("sum_total_transfer_bytes", n), totals);
    EXPECT_EQ(sums.real("max_total_transfer_bytes", n),
              dma.real("total_transfer_bytes", static_cast<size_t>(count - 1)));
  }
  EXPECT_EQ(count, static_cast<int64_t>(dma.rows())) << "each row is in one sum";
}

TEST_F(TablesOfAProfile, PendingDmaCountsTransfersFromTheirTriggerToTheirEnd) {
  const json::value tables = of_attention();
  const Table pending(tables, "PendingDma"), transfers(tables, "DmaPacketAggregated");
  int64_t most = 0;
  size_t compared = 0;
  for (size_t n = 0; n < pending.rows(); ++n) {
    const int64_t time = pending.whole("timestamp", n);
    int64_t count = 0;
    bool edge = false;
    for (size_t k = 0; k < transfers.rows(); ++k) {
      const int64_t begin = transfers.whole("completion", k), end = transfers.whole("end_ts", k);
      edge = edge || std::abs(begin - time) <= 1 || std::abs(end - time) <= 1;
      count += begin <= time && time < end ? 1 : 0;
    }
    most = std::max(most, pending.whole("value", n));
    if (edge) continue;
    ++compared;
    ASSERT_EQ(pending.whole("value", n), count) << time;
  }
  EXPECT_GT(compared, 1000u);
  EXPECT_GE(most, 16) << "a transfer on each DMA engine";
}

TEST_F(TablesOfAProfile, StackFramesLeadToTheLineOfEachInstruction) {
  const json::value tables = of_kernel();
  const Table instructions(tables, "Instruction"), frames(tables, "StackFrame"),
      places(tables, "StackFrameFileLocation"), files(tables, "StackFrameFileName"),
      kernels(tables, "KernelInstructions"), assembly(tables, "AssemblyInstruction");
  std::map<std::string, size_t> kernel_rows, lines;
  for (size_t n = 0; n < kernels.rows(); ++n) {
    EXPECT_TRUE(kernel_rows.emplace(kernels.word("kernel_instruction_name", n), n).second);
    EXPECT_EQ(kernels.word("file_path", n), "kernel.py");
  }
  ASSERT_EQ(kernel_rows.size(), 3u);
  for (size_t n = 0; n < instructions.rows(); ++n) {
    const std::string line = instructions.word("nki_source_location", n);
    ASSERT_EQ(instructions.at("stack_frame_ids", n).is_null(), line.empty());
    if (line.empty()) continue;
    ++lines[line];
    const std::string id = instructions.word("stack_frame_ids", n);
    const size_t frame = std::stoul(id.substr(1)) - 1;
    ASSERT_EQ("[" + frames.word("id", frame) + "]", id);
    EXPECT_EQ(frames.word("parent_frame_id", frame), "0");
    const auto place = static_cast<size_t>(frames.whole("file_location_id", frame) - 1);
    const auto file = static_cast<size_t>(places.whole("file_name_id", place) - 1);
    EXPECT_EQ(files.word("name", file) + ":" + std::to_string(places.whole("line_number", place)),
              line);
    const size_t kernel = kernel_rows.at(instructions.word("kernel_instruction_name", n));
    EXPECT_EQ("kernel.py:" + std::to_string(kernels.whole("line_number", kernel)), line);
  }
  EXPECT_EQ(lines, (std::map<std::string, size_t>{
                       {"kernel.py:3", 1}, {"kernel.py:5", 1}, {"kernel.py:7", 1}}));
  // The program's instructions, without those of the runtime around it.
  size_t of_program = 0;
  for (size_t n = 0; n < assembly.rows(); ++n) {
    const auto row = static_cast<size_t>(assembly.whole("instruction_id", n));
    EXPECT_EQ(instructions.word("operands", row), assembly.word("compiler_operands", n));
    EXPECT_EQ(instructions.whole("compiler_pc", row), assembly.whole("compiler_pc", n));
  }
  for (size_t n = 0; n < instructions.rows(); ++n) {
    of_program += !instructions.word("timeline_track", n).ends_with(": set-up");
  }
  EXPECT_EQ(assembly.rows(), of_program);
  EXPECT_GE(of_program, 6u);
}

TEST_F(TablesOfAProfile, TensorsHaveTheirShapeAndHowOftenTheyWereLoaded) {
  const json::value tables = of_kernel();
  const Table tensors(tables, "TensorInfo"), queues(tables, "DmaQueuesInfo"),
      memory(tables, "HbmUsageSummaryByType");
  ASSERT_EQ(tensors.rows(), 2u);
  for (size_t n = 0; n < 2; ++n) {
    const bool input = tensors.word("variable_name", n) == "x";
    EXPECT_EQ(tensors.word("type", n), input ? "IN" : "OUT");
    EXPECT_EQ(tensors.word("format", n), "NC");
    EXPECT_EQ(tensors.word("shape", n), "[128 64]");
    EXPECT_EQ(tensors.whole("size", n), kTensorBytes);
    ASSERT_EQ(tensors.at("load_to_sbuf_total_size_bytes", n).is_null(), !input);
    if (!input) continue;
    EXPECT_EQ(tensors.whole("load_to_sbuf_total_size_bytes", n), kTensorBytes);
    EXPECT_EQ(tensors.whole("load_to_sbuf_dma_count", n), 16);
    EXPECT_EQ(tensors.whole("load_to_sbuf_avg_size_bytes", n), kTensorBytes / 16);
    EXPECT_EQ(tensors.real("load_to_sbuf_repeat_factor", n), 1);
  }
  std::map<std::string, std::set<int64_t>> engines;
  for (size_t n = 0; n < queues.rows(); ++n) {
    engines[queues.word("name", n)].insert(queues.whole("engine_idx", n));
    EXPECT_EQ(queues.word("type", n), "data");
  }
  ASSERT_EQ(engines.size(), 2u);
  EXPECT_EQ(engines["queue 0 (q_in)"].size(), 16u);
  std::map<std::string, int64_t> uses;
  for (size_t n = 0; n < memory.rows(); ++n) {
    uses[memory.word("usage_type", n)] = memory.whole("usage_bytes", n);
  }
  EXPECT_EQ(uses["IO"], 2 * kTensorBytes);
  EXPECT_GT(uses["DMA Rings"], 0);
  EXPECT_EQ(uses["Vector Instructions"] % 128, 0);
  EXPECT_GT(uses["Vector Instructions"], 0);
  EXPECT_FALSE(uses.contains("Weights")) << "the program has none";
}

TEST_F(TablesOfAProfile, SemaphoreUpdatesSayWhatTheInstructionAskedFor) {
  const json::value tables = of_kernel();
  const Table updates(tables, "SemaphoreUpdate");
  size_t by_engine = 0, by_dma = 0;
  for (size_t n = 0; n < updates.rows(); ++n) {
    const std::string id = updates.word("id", n);
    if (id == "semaphore 17 (doubled)" && updates.word("update_source", n) == "Vector") {
      EXPECT_EQ(updates.word("update_operation_type", n), "sem_inc");
      EXPECT_EQ(updates.word("update_trigger_timing", n), "complete");
      EXPECT_EQ(updates.whole("update_mode", n), 1);
      ++by_engine;
    }
    if (id == "semaphore 16 (loaded)") {
      EXPECT_TRUE(updates.at("update_operation_type", n).is_null()) << "no instruction's";
      ++by_dma;
    }
  }
  EXPECT_EQ(by_engine, 1u);
  EXPECT_EQ(by_dma, 16u);
}

TEST_F(TablesOfAProfile, NeffHeaderHasWhatTheFileSaysIfItIsNamed) {
  const std::string neff = test::built("neff/attention.neff");
  const json::value tables = tables_of(neff, "-n " + neff);
  const Table header(tables, "NeffHeader"), execution(tables, "ExecutionInfo"),
      summary(tables, "Summary"), metadata(tables, "Metadata");
  const std::string bytes = test::read_file(neff);
  EXPECT_EQ(header.whole("header_size", 0), 1024);
  EXPECT_EQ(header.whole("data_size", 0), std::ssize(bytes) - 1024);
  EXPECT_EQ(header.word("hash", 0).size(), 64u);
  EXPECT_EQ(header.whole("pcore_count_per_lnc", 0), 1);
  EXPECT_EQ(header.word("network_name", 0), "attention");
  EXPECT_EQ(metadata.word("instance_type", 0), "trn1.2xlarge");
  int64_t rows = 0;
  for (const char* name :
       {"Instruction", "AssemblyInstruction", "ActiveTime", "Flow", "DmaPacket",
        "DmaPacketAggregated", "DmaUsage", "DmaUsageSummary", "HbmUsage", "PendingDma", "SbufUsage",
        "PsumUsage", "SbufAllocation", "SemaphoreUpdate"}) {
    rows += static_cast<int64_t>(Table(tables, name).rows());
  }
  EXPECT_EQ(execution.whole("row_count", 0), rows);
  EXPECT_EQ(summary.whole("total_row_count", 0), rows);
}

TEST_F(TablesOfAProfile, CoreBarriersAreWhereTheCoresOfAVirtualOneMeet) {
  folder_.write("meeting.neff", meeting());
  environment_["NEURON_EMULATOR"] = "trn2.3xlarge";
  profile("capture -n meeting.neff -s p.ntff");
  for (const int core : {0, 1}) {
    profile("view -s p.ntff --output-format parquet --output-file tables --core " +
            std::to_string(core));
    const json::value tables = read("tables");
    std::set<std::string> wanted = kOfEveryProgram;
    wanted.insert("CoreBarriers");
    expect_catalogue(tables, wanted);
    const Table barriers(tables, "CoreBarriers"), instructions(tables, "Instruction"),
        tensors(tables, "TensorInfo");
    ASSERT_EQ(tensors.rows(), 2u) << "those of this core";
    EXPECT_EQ(tensors.word("variable_name", 0), "x" + std::to_string(core));
    std::map<std::string, std::pair<std::string, int64_t>> met;  // engine, end
    for (size_t n = 0; n < barriers.rows(); ++n) {
      EXPECT_EQ(barriers.whole("pcore_idx", n), core);
      EXPECT_GE(barriers.whole("semaphore", n), 8);
      EXPECT_LE(barriers.whole("semaphore", n), 15);
      EXPECT_GT(barriers.whole("duration_ns", n), 0);
      met[barriers.word("compiler_opcode", n)] = {barriers.word("engine_name", n),
                                                  barriers.whole("end_ts", n)};
    }
    ASSERT_EQ(met.size(), 2u);
    EXPECT_EQ(met["BARRIER"].first, "Sync");
    EXPECT_EQ(met["SENDRECV"].first, "GpSimd");
    size_t found = 0;
    for (size_t n = 0; n < instructions.rows(); ++n) {
      if (instructions.word("opcode", n) != "BARRIER") continue;
      ++found;
      EXPECT_EQ(instructions.whole("end_ts", n), met["BARRIER"].second);
    }
    EXPECT_EQ(found, 1u);
  }
}

TEST_F(TablesOfAProfile, OfASessionHaveItsEventsItsHostAndItsProfiles) {
  const std::string said = view_session();
  EXPECT_EQ(said, "wrote 6 tables into data/profiles/global/mine@latest\n");
  const json::value tables = read("data/profiles/global/mine@latest");
  expect_catalogue(tables, {"CpuUsage", "DeviceProfileList", "HostMemUsage", "SchemaFields",
                            "SystemProfileEvents", "SystemProfileMetadata"});
  const Table events(tables, "SystemProfileEvents"), about(tables, "SystemProfileMetadata"),
      processors(tables, "CpuUsage"), memory(tables, "HostMemUsage"),
      profiles(tables, "DeviceProfileList");
  std::map<std::string, size_t> counts;
  std::map<std::string, size_t> flows;
  const int64_t begin = std::stoll(about.word("first_ts_ns", 0)),
                end = std::stoll(about.word("last_ts_ns", 0));
  for (size_t n = 0; n < events.rows(); ++n) {
    ++counts[events.word("name", n)];
    EXPECT_GE(events.whole("start_ts", n), begin);
    EXPECT_LE(events.whole("end_ts", n), end);
    EXPECT_EQ(events.whole("duration_ns", n),
              events.whole("end_ts", n) - events.whole("start_ts", n));
    EXPECT_EQ(events.word("instance_id", n), "trn1.2xlarge");
    const bool core = events.word("name", n) == "nc_exec_running";
    if (core) {
      EXPECT_EQ(events.word("trace_event_source", n), "neuron_hw");
      EXPECT_TRUE(flows.emplace(text(events.at("flow_id", n).at(0)), n).second);
    }
  }
  EXPECT_EQ(counts["nrt_execute"], 2u);
  EXPECT_EQ(counts["nrt_load"], 1u);
  EXPECT_EQ(flows.size(), 2u) << "each execution has its number";
  EXPECT_EQ(about.whole("hbm_capacity_bytes", 0), int64_t{16} << 30);
  EXPECT_THAT(about.word("first_ts", 0), testing::EndsWith(" +0000 UTC"));
  size_t averages = 0;
  for (size_t n = 0; n < processors.rows(); ++n) {
    EXPECT_GE(processors.real("util_percent", n), 0);
    EXPECT_LE(processors.real("util_percent", n), 1);
    averages += processors.word("cpu_id", n) == "average";
  }
  EXPECT_GE(averages, 1u);
  EXPECT_GT(memory.whole("used_bytes", 0), 1 << 20);
  ASSERT_EQ(profiles.rows(), 1u);
  EXPECT_THAT(profiles.word("device_profile_name", 0), testing::EndsWith("_instid_0_vnc_0"));
  EXPECT_EQ(profiles.word("device_profile_name", 0),
            std::to_string(profiles.whole("model_id", 0)) + "_instid_0_vnc_0");
  EXPECT_EQ(profiles.whole("process_id", 0), events.whole("process_id", 0));
}

TEST_F(TablesOfAProfile, OfAFolderWithoutASessionAreRefusedWithASentence) {
  const test::Run none = test::shell("cd " + folder_.path() + " && " +
                                     test::built("bin/neuron-profile") + " view -d .");
  EXPECT_EQ(none.ending, 1);
  EXPECT_THAT(none.output, testing::HasSubstr("is no folder of an inspect session"));
  const test::Run page =
      test::shell("cd " + folder_.path() + " && " + test::built("bin/neuron-profile") +
                  " view -d . --output-format json");
  EXPECT_EQ(page.ending, 1);
  EXPECT_THAT(page.output, testing::HasSubstr("of the session in '.' there are tables"));
}

}  // namespace
}  // namespace neuron::profile
