// SPDX-License-Identifier: Apache-2.0
// Parquet tables of neuron-profile, as two readers see them that share no code with it: one in
// Python from the format's definition, and hyparquet from npm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <cmath>
#include <filesystem>
#include <map>

#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/system/profile/json_number.h"
#include "tools/compiler/program_builder/program.h"
#include "tools/neuron-profile/parquet/table_writer.h"

namespace neuron::profile {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

constexpr const char* kNoRegistry = "npm or its registry cannot be reached";
const std::string kScripts = std::string(NEURON_SOURCE_DIR) + "/tests/system/profile/";

class ParquetTables : public testing::Test {
 protected:
  // What a command prints as JSON.
  json::value parsed(const test::Words& command) {
    const test::Run run = test::run(command, {}, std::chrono::minutes(2));
    EXPECT_EQ(run.ending, 0) << run.output.substr(0, 2000);
    boost::system::error_code error;
    json::value value = json::parse(run.output, error);
    EXPECT_FALSE(error) << run.output.substr(0, 500);
    return value;
  }
  json::value by_python(const std::string& folder) {
    return parsed({"python3", kScripts + "parquet_reader.py", folder});
  }
  // The folder of a package of npm; empty if the registry cannot be reached.
  static std::string fetched(const std::string& package) {
    const test::Run run =
        test::run({"python3", kScripts + "fetch_package.py", kScripts + "parquet_packages.tsv",
                   package, test::built("npm")},
                  {}, std::chrono::minutes(2));
    EXPECT_TRUE(run.ending == 0 || run.ending == 3) << run.output;
    return run.ending == 0 ? run.output.substr(0, run.output.find('\n')) : std::string();
  }
  void capture() {
    const test::Run run = test::run({test::built("bin/neuron-profile"), "capture", "-n",
                                     test::built("neff/attention.neff"), "-s", file()},
                                    {{"NEURON_EMULATOR", "trn1.2xlarge"}});
    ASSERT_EQ(run.ending, 0) << run.output;
  }
  test::Run view(const std::string& arguments) {
    return test::shell("cd " + folder_.path() + " && " + test::built("bin/neuron-profile") +
                       " view -s p.ntff " + arguments);
  }
  std::string file() const { return folder_.path("p.ntff"); }
  test::Folder folder_;
};

TEST_F(ParquetTables, HaveTheEventsOfTheProfileAndTheFieldsOfThePublishedSchema) {
  capture();
  const test::Run run = view("--output-format parquet --data-path data --display-name mine");
  ASSERT_EQ(run.ending, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("wrote 26 tables into data/profiles/global/mine@latest"));
  const json::value tables = by_python(folder_.path("data/profiles/global/mine@latest"));
  ASSERT_EQ(tables.as_object().size(), 26u);
  // The same events as in the other format.
  ASSERT_EQ(view("--output-format json").ending, 0);
  const json::value detail = json::parse(test::read_file(folder_.path("ntff.json")));
  const auto& listed = detail.at("instruction").as_array();
  const json::value& columns = tables.at("Instruction").at("columns");
  ASSERT_EQ(tables.at("Instruction").at("rows").as_int64(), std::ssize(listed));
  ASSERT_GT(listed.size(), 100u);
  // Rows come in the order of time, and the list engine by engine.
  std::map<std::string, std::vector<size_t>> rows;
  for (size_t n = 0; n < listed.size(); ++n) {
    rows[std::string(columns.at("engine").at(n).as_string())].push_back(n);
    ASSERT_EQ(columns.at("id").at(n), n);
    if (n == 0) continue;
    ASSERT_GE(number(columns.at("end_ts").at(n)), number(columns.at("end_ts").at(n - 1)));
  }
  std::map<std::string, size_t> next;
  for (size_t n = 0; n < listed.size(); ++n) {
    const json::value& one = listed[n];
    const std::string engine(one.at("engine").as_string());
    ASSERT_LT(next[engine], rows[engine].size());
    const size_t row = rows[engine][next[engine]++];
    const auto at = [&](const char* field) { return columns.at(field).at(row); };
    ASSERT_EQ(number(at("start_ts")), std::round(number(one.at("timestamp")))) << n;
    ASSERT_NEAR(number(at("duration_ns")), number(one.at("duration")), 1.0) << n;
    ASSERT_EQ(at("end_ts").as_int64() - at("start_ts").as_int64(), at("duration_ns").as_int64());
    ASSERT_EQ(at("opcode"), one.at("opcode"));
    ASSERT_EQ(at("operands"), one.at("operands"));
    ASSERT_EQ(at("engine"), one.at("engine"));
    ASSERT_EQ(at("nki_source_location"), one.at("nki_source_location"));
    ASSERT_EQ(at("pc"), one.at("pc"));
    ASSERT_TRUE(at("hbm_read_bytes").is_null()) << "not measured for each instruction";
  }
  double bytes = 0, listed_bytes = 0;
  for (const auto& value :
       tables.at("DmaPacketAggregated").at("columns").at("transfer_bytes").as_array()) {
    bytes += number(value);
  }
  for (const auto& one : detail.at("dma").as_array()) {
    listed_bytes += number(one.at("transfer_size"));
  }
  EXPECT_EQ(bytes, listed_bytes);
  EXPECT_EQ(tables.at("SemaphoreUpdate").at("rows").as_int64(),
            std::ssize(detail.at("semaphore").as_array()));
  const json::value& summary = detail.at("summary").at(0);
  const json::value& metrics = tables.at("Summary").at("columns");
  EXPECT_FLOAT_EQ(static_cast<float>(number(metrics.at("total_time").at(0))),
                  static_cast<float>(number(summary.at("total_time"))));
  EXPECT_EQ(number(metrics.at("hardware_flops").at(0)), number(summary.at("hardware_flops")));
}

// GHz of a trn1, of the architecture guide.
TEST_F(ParquetTables, MetadataHasThePublishedClockOfEachEngine) {
  capture();
  ASSERT_EQ(view("--output-format parquet --output-file tables").ending, 0);
  const json::value tables = by_python(folder_.path("tables"));
  const json::value& columns = tables.at("Metadata").at("columns");
  const std::map<std::string, float> published = {
      {"tensor", 2.8F}, {"vector", 1.12F}, {"scalar", 1.4F}, {"gpsimd", 1.4F}};
  for (const auto& [engine, clock] : published) {
    EXPECT_FLOAT_EQ(static_cast<float>(number(columns.at(engine + "_engine_clock_freq").at(0))),
                    clock)
        << engine;
  }
}

TEST_F(ParquetTables, SchemaFieldsDescribesEveryFieldAsItsFileHasIt) {
  capture();
  ASSERT_EQ(view("--output-format db --output-file tables").ending, 0);
  const json::value tables = by_python(folder_.path("tables"));
  const json::value& described = tables.at("SchemaFields").at("columns");
  std::map<std::string, std::map<std::string, std::string>> types;
  for (int64_t n = 0; n < tables.at("SchemaFields").at("rows").as_int64(); ++n) {
    const auto text = [&](const char* field) {
      return std::string(described.at(field).at(static_cast<size_t>(n)).as_string());
    };
    EXPECT_FALSE(text("field_description").empty());
    types[text("table_name")][text("field_name")] =
        text("field_type") +
        (described.at("field_required").at(static_cast<size_t>(n)).as_bool() ? "!" : "");
  }
  for (const auto& [name, table] : tables.as_object()) {
    for (const auto& [field, type] : table.at("schema").as_object()) {
      EXPECT_EQ(types[name][field], std::string(type.as_string())) << name << "." << field;
      if (type.as_string().ends_with("!")) {
        for (const json::value& value : table.at("columns").at(field).as_array()) {
          ASSERT_FALSE(value.is_null()) << name << "." << field;
        }
      }
    }
  }
}

TEST_F(ParquetTables, HyparquetReadsWhatTheReaderFromTheDefinitionReads) {
  const std::string package = fetched("hyparquet");
  if (package.empty()) GTEST_SKIP() << kNoRegistry;
  capture();
  ASSERT_EQ(view("--output-format parquet --output-file tables").ending, 0);
  const std::string folder = folder_.path("tables");
  const json::value expected = by_python(folder);
  const json::value found = parsed({"node", kScripts + "hyparquet_reader.mjs", package, folder});
  ASSERT_EQ(found.as_object().size(), expected.as_object().size());
  size_t compared = 0;
  for (const auto& [name, table] : expected.as_object()) {
    for (const auto& [field, values] : table.at("columns").as_object()) {
      const json::array& others = found.at(name).at("columns").at(field).as_array();
      ASSERT_EQ(others.size(), values.as_array().size()) << name << "." << field;
      for (size_t n = 0; n < others.size(); ++n) {
        const json::value& value = values.at(n);
        ++compared;
        if (value.is_number()) {
          // JavaScript's numbers have 53 bits.
          ASSERT_DOUBLE_EQ(number(others[n]), number(value)) << name << "." << field;
        } else {
          ASSERT_EQ(others[n], value) << name << "." << field;
        }
      }
    }
  }
  EXPECT_GT(compared, 10'000u);
}

// Elements of 16 bits side by side are copied in a performance mode, those of 32 bits are not.
TEST_F(ParquetTables, InstructionHasThePerformanceModeOfEach) {
  builder::Program program("modes", 3);
  const builder::Tile narrow = program.sbuf("narrow", 128, 1024, NEURON_DTYPE_BF16);
  const builder::Tile other = program.sbuf("other", 128, 1024, NEURON_DTYPE_BF16);
  const builder::Tile wide = program.sbuf("wide", 128, 1024, NEURON_DTYPE_F32);
  const builder::Tile sum = program.sbuf("sum", 128, 1024, NEURON_DTYPE_F32);
  program.memset(builder::Engine::kPool, narrow.all(), 1);
  program.memset(builder::Engine::kPool, wide.all(), 1);
  program.tensor_copy(builder::Engine::kDve, other.all(), narrow.all());
  program.tensor_tensor(builder::Engine::kDve, sum.all(), wide.all(), NEURON_ALU_ADD, wide.all());
  const auto neff = program.build();
  ASSERT_TRUE(neff) << neff.error().sentence;
  folder_.write("modes.neff", *neff);
  const test::Run run =
      test::run({test::built("bin/neuron-profile"), "capture", "-n", folder_.path("modes.neff"),
                 "-s", file()},
                {{"NEURON_EMULATOR", "trn2.3xlarge"}, {"NEURON_LOGICAL_NC_CONFIG", "1"}});
  ASSERT_EQ(run.ending, 0) << run.output;
  ASSERT_EQ(view("--output-format parquet --output-file tables").ending, 0);
  const json::value tables = by_python(folder_.path("tables"));
  const json::value& columns = tables.at("Instruction").at("columns");
  std::map<std::string, json::value> modes;
  for (size_t n = 0; n < columns.at("opcode").as_array().size(); ++n) {
    if (columns.at("engine").at(n) != "Vector") continue;
    modes[std::string(columns.at("opcode").at(n).as_string())] =
        columns.at("performance_mode").at(n);
  }
  EXPECT_EQ(modes["TENSOR_COPY"], "4x");
  EXPECT_TRUE(modes["TENSOR_TENSOR"].is_null());
}

// DuckDB with what it needs, as npm would lay it out; each package is checked by the list.
TEST_F(ParquetTables, DuckDbAnswersQuestionsAboutTheEvents) {
  for (const char* package : {"@duckdb/node-api", "@duckdb/node-bindings",
                              "@duckdb/node-bindings-linux-x64", "detect-libc"}) {
    const std::string unpacked = fetched(package);
    if (unpacked.empty()) GTEST_SKIP() << kNoRegistry;
    const std::filesystem::path link = folder_.path("node_modules/" + std::string(package));
    std::filesystem::create_directories(link.parent_path());
    // Copied, because node looks for packages beside the place that a link leads to.
    std::filesystem::copy(unpacked, link, std::filesystem::copy_options::recursive);
  }
  capture();
  ASSERT_EQ(view("--output-format parquet --output-file tables").ending, 0);
  const std::string at = "'" + folder_.path("tables") + "/";
  const json::value answers = parsed(
      {"node", kScripts + "duckdb_reader.mjs", folder_.path("node_modules"),
       "select count(*), sum(duration_ns), count(distinct engine) from " + at +
           "Instruction.parquet' where opcode = 'MATMUL'",
       "select count(*) from (select table_name from " + at +
           "SchemaFields.parquet' group by table_name)",
       "select sum(transfer_bytes), max(end_ts) from " + at + "DmaPacketAggregated.parquet'",
       "select s.total_time, m.profile_schema_version from " + at + "Summary.parquet' s, " + at +
           "Metadata.parquet' m",
       "select count(*) from " + at + "SemaphoreUpdate.parquet' where update_source is null"});
  const json::value tables = by_python(folder_.path("tables"));
  const json::value& instructions = tables.at("Instruction").at("columns");
  int64_t products = 0, time = 0;
  for (size_t n = 0; n < instructions.at("opcode").as_array().size(); ++n) {
    if (instructions.at("opcode").at(n) != "MATMUL") continue;
    ++products;
    time += instructions.at("duration_ns").at(n).as_int64();
  }
  ASSERT_GT(products, 4);
  EXPECT_EQ(number(answers.at(0).at(0).at(0)), static_cast<double>(products));
  EXPECT_EQ(number(answers.at(0).at(0).at(1)), static_cast<double>(time));
  EXPECT_EQ(number(answers.at(0).at(0).at(2)), 1) << "all are of the Tensor engine";
  EXPECT_EQ(number(answers.at(1).at(0).at(0)), static_cast<double>(tables.as_object().size()));
  int64_t bytes = 0;
  for (const auto& value :
       tables.at("DmaPacketAggregated").at("columns").at("transfer_bytes").as_array()) {
    bytes += value.as_int64();
  }
  EXPECT_EQ(number(answers.at(2).at(0).at(0)), static_cast<double>(bytes));
  EXPECT_FLOAT_EQ(
      static_cast<float>(number(answers.at(3).at(0).at(0))),
      static_cast<float>(number(tables.at("Summary").at("columns").at("total_time").at(0))));
  EXPECT_EQ(answers.at(3).at(0).at(1), "7.4.0");
  EXPECT_EQ(number(answers.at(4).at(0).at(0)), 0);
}

// Every kind of field, with and without values, over the ends of row groups.
TEST_F(ParquetTables, OfManyRowsHaveEachValueInItsRow) {
  constexpr int64_t kRows = 150'000;  // three groups
  parquet::Table table = parquet::table("SchemaFields");
  for (parquet::Field& field : table.fields) field.measured = true;
  {
    parquet::TableWriter writer(table, folder_.path());
    for (int64_t n = 0; n < kRows; ++n) {
      writer.set_text(table.field("table_name"), "t" + std::to_string(n % 1000));
      if (n % 2 == 0) writer.set_text(table.field("field_example"), std::to_string(n));
      if (n % 5 == 0) writer.set_truth(table.field("field_required"), n % 10 == 0);
      if (n % 7 == 1) writer.set_real(table.field("field_minimum"), static_cast<double>(n) / 4);
      ASSERT_TRUE(writer.end_row());
    }
    ASSERT_TRUE(writer.close());
    EXPECT_EQ(writer.rows(), static_cast<uint64_t>(kRows));
    EXPECT_EQ(writer.epoch(), 1u) << "so many texts are forgotten behind a group";
  }
  const json::value read = by_python(folder_.path());
  const json::value& columns = read.at("SchemaFields").at("columns");
  ASSERT_EQ(read.at("SchemaFields").at("rows").as_int64(), kRows);
  const json::array &names = columns.at("table_name").as_array(),
                    &examples = columns.at("field_example").as_array(),
                    &truths = columns.at("field_required").as_array(),
                    &reals = columns.at("field_minimum").as_array(),
                    &unset = columns.at("field_name").as_array(),
                    &nothing = columns.at("field_maximum").as_array();
  for (size_t n = 0; n < static_cast<size_t>(kRows); ++n) {
    ASSERT_EQ(names[n].as_string(), "t" + std::to_string(n % 1000));
    ASSERT_EQ(examples[n].is_null(), n % 2 != 0) << n;
    if (n % 2 == 0) {
      ASSERT_EQ(examples[n].as_string(), std::to_string(n));
    }
    ASSERT_EQ(truths[n].as_bool(), n % 10 == 0) << n << ": required, so false without a value";
    ASSERT_EQ(reals[n].is_null(), n % 7 != 1) << n;
    if (n % 7 == 1) {
      ASSERT_EQ(number(reals[n]), static_cast<double>(n) / 4);
    }
    ASSERT_EQ(unset[n].as_string(), "");
    ASSERT_TRUE(nothing[n].is_null());
  }
}

constexpr int64_t kRowsWithLists = 70'000;  // two groups

// A list has a text or is none, over the ends of row groups.
void write_lists(const std::string& folder) {
  const parquet::Table& table = parquet::table("SystemProfileEvents");
  parquet::TableWriter writer(table, folder);
  for (int64_t n = 0; n < kRowsWithLists; ++n) {
    writer.set(table.field("id"), n);
    if (n % 3 == 1) writer.set_text(table.field("flow_id"), std::to_string(n % 100));
    ASSERT_TRUE(writer.end_row());
  }
  ASSERT_TRUE(writer.close());
}

void expect_lists(const json::value& read) {
  const json::value& columns = read.at("SystemProfileEvents").at("columns");
  const json::array& lists = columns.at("flow_id").as_array();
  ASSERT_EQ(std::ssize(lists), kRowsWithLists);
  for (size_t n = 0; n < lists.size(); ++n) {
    ASSERT_EQ(columns.at("id").at(n).to_number<size_t>(), n);
    ASSERT_EQ(lists[n].is_null(), n % 3 != 1) << n;
    if (n % 3 == 1) {
      ASSERT_EQ(lists[n], json::array{std::to_string(n % 100)});
    }
  }
}

TEST_F(ParquetTables, ListsHaveTheirTextInItsRow) {
  ASSERT_NO_FATAL_FAILURE(write_lists(folder_.path()));
  expect_lists(by_python(folder_.path()));
}

TEST_F(ParquetTables, HyparquetReadsListsWithTheirTextInItsRow) {
  const std::string package = fetched("hyparquet");
  if (package.empty()) GTEST_SKIP() << kNoRegistry;
  ASSERT_NO_FATAL_FAILURE(write_lists(folder_.path()));
  expect_lists(parsed({"node", kScripts + "hyparquet_reader.mjs", package, folder_.path()}));
}

TEST_F(ParquetTables, OfAnEarlierProfileAreGoneAndOtherFilesStay) {
  capture();
  ASSERT_EQ(view("--output-format parquet --output-file tables").ending, 0);
  const char* const old[] = {"tables/Warning.parquet", "tables/Instruction_12.parquet"};
  const char* const mine[] = {"tables/sales.parquet", "tables/sales_1.parquet",
                              "tables/MyWarning.parquet", "tables/notes.txt"};
  for (const char* name : old) folder_.write(name, "of another profile");
  for (const char* name : mine) folder_.write(name, "mine");
  ASSERT_EQ(view("--output-format parquet --output-file tables").ending, 0);
  for (const char* name : old) EXPECT_FALSE(std::filesystem::exists(folder_.path(name))) << name;
  for (const char* name : mine) EXPECT_EQ(test::read_file(folder_.path(name)), "mine") << name;
  const test::Run slash = view("--output-format parquet --display-name a/b");
  EXPECT_EQ(slash.ending, 1);
  EXPECT_THAT(slash.output, HasSubstr("so it has no /"));
}

}  // namespace
}  // namespace neuron::profile
