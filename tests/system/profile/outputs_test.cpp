// SPDX-License-Identifier: Apache-2.0
// What neuron-profile writes: never over what it reads, whole or not at all, and what it says of
// options and of what a profile or a session lacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json/parse.hpp>
#include <filesystem>
#include <set>

#include "runtime/ntff/trace_file.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tools/compiler/kernels/kernels.h"

namespace neuron::profile {
namespace {

namespace fs = std::filesystem;
using ntff::ChunkKind;
using testing::HasSubstr;
using testing::Not;

struct Said {
  test::Ending ending;
  std::string out, error;
};

class ProfileOutputs : public testing::Test {
 protected:
  Said run(const std::string& arguments) { return shell("neuron-profile " + arguments); }
  Said shell(const std::string& line) {
    const test::Run ended =
        test::shell("cd " + folder_.path() + " && PATH=" + test::built("bin") + ":$PATH && { " +
                        line + "; } >out 2>err",
                    {{"NEURON_EMULATOR", "trn1.2xlarge"}}, std::chrono::minutes(2));
    return {ended.ending, folder_.read("out"), folder_.read("err") + ended.output};
  }
  void capture() {
    const auto neff = kernels::tensor_add("add", NEURON_DTYPE_F32, 128, 16);
    ASSERT_TRUE(neff) << neff.error().sentence;
    folder_.write("add.neff", *neff);
    const Said said = run("capture -n add.neff -s p.ntff");
    ASSERT_EQ(said.ending, 0) << said.error;
  }
  std::string names_in(const std::string& folder) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path(folder))) {
      names.insert(entry.path().filename().string());
    }
    std::string text;
    for (const std::string& name : names) text += name + " ";
    return text;
  }
  ntff::TraceFileWriter writer(const std::string& name) const {
    auto file = ntff::TraceFileWriter::create(folder_.path(name));
    EXPECT_TRUE(file) << name;
    return std::move(*file);
  }
  test::Folder folder_;
};

TEST_F(ProfileOutputs, AreNeverAnInputByWhateverNameOrLink) {
  capture();
  ASSERT_EQ(shell("ln p.ntff hard.ntff && ln -s p.ntff soft.ntff").ending, 0);
  const std::string whole = folder_.read("p.ntff"), neff = folder_.read("add.neff");
  for (const char* format :
       {"json", "csv", "html", "perfetto", "summary-json", "report", "parquet"}) {
    for (const char* output : {"p.ntff", "./p.ntff", "hard.ntff", "soft.ntff", "add.neff"}) {
      SCOPED_TRACE(std::string(format) + " into " + output);
      const Said said = run("view -s p.ntff -n add.neff --output-format " + std::string(format) +
                            " --output-file " + output);
      EXPECT_EQ(said.ending, 1);
      EXPECT_THAT(said.error, HasSubstr("which writing it would destroy"));
    }
  }
  EXPECT_THAT(run("view -s soft.ntff --output-format csv >> p.ntff").error,
              HasSubstr("standard output"));
  for (const char* output : {"add.neff", "one"}) {
    folder_.write("one", std::string(128 * 16 * 4, '\0'));
    const Said said = run("capture -n add.neff a one -s " + std::string(output));
    EXPECT_EQ(said.ending, 1) << output;
    EXPECT_THAT(said.error, HasSubstr("which writing it would destroy"));
  }
  // The output "sum" goes to a file of its name.
  folder_.write("sum", std::string(128 * 16 * 4, '\1'));
  EXPECT_THAT(run("capture -n add.neff --save-output a sum").error, HasSubstr("would destroy"));
  EXPECT_EQ(folder_.read("sum"), std::string(128 * 16 * 4, '\1'));
  // A table of the folder may be the profile.
  ASSERT_EQ(shell("mkdir tables && mv p.ntff tables/Warning.parquet").ending, 0);
  EXPECT_EQ(
      run("view -s tables/Warning.parquet --output-format parquet --output-file tables").ending, 1);
  EXPECT_EQ(folder_.read("tables/Warning.parquet"), whole);
  EXPECT_EQ(folder_.read("hard.ntff"), whole);
  EXPECT_EQ(folder_.read("add.neff"), neff);
}

TEST_F(ProfileOutputs, OfACaptureReplaceProfilesAndNoOtherFiles) {
  capture();
  EXPECT_EQ(run("capture -n add.neff -s p.ntff").ending, 0);
  folder_.write("notes.txt", "mine");
  const Said said = run("capture -n add.neff -s notes.txt");
  EXPECT_EQ(said.ending, 1);
  EXPECT_THAT(said.error, HasSubstr("is no profile of this project, so it is not replaced"));
  EXPECT_EQ(folder_.read("notes.txt"), "mine");
  EXPECT_THAT(run("capture -n add.neff -s ''").error, HasSubstr("--session-file is empty"));
}

// A limit of the file size is a disk that is full.
TEST_F(ProfileOutputs, StayAsTheyWereWhenTheDiskIsFull) {
  capture();
  for (const char* format : {"json", "csv", "html", "perfetto"}) {
    SCOPED_TRACE(format);
    folder_.write("old", "older");
    const Said said = shell(
        "trap '' XFSZ; ulimit -f 1; neuron-profile view -s p.ntff "
        "--output-format " +
        std::string(format) + " --output-file old");
    EXPECT_EQ(said.ending, 1);
    EXPECT_THAT(said.error, HasSubstr("could not be written"));
    EXPECT_EQ(folder_.read("old"), "older");
  }
  EXPECT_THAT(names_in("."), Not(HasSubstr(".part")));
  ASSERT_EQ(run("view -s p.ntff --output-format parquet --output-file tables").ending, 0);
  const std::string tables = names_in("tables"),
                    before = folder_.read("tables/Instruction.parquet");
  const std::string full =
      "trap '' XFSZ; ulimit -f 8; neuron-profile view -s p.ntff --output-format "
      "parquet --output-file ";
  EXPECT_EQ(shell(full + "tables").ending, 1);
  EXPECT_EQ(names_in("tables"), tables);
  EXPECT_EQ(folder_.read("tables/Instruction.parquet"), before);
  EXPECT_EQ(shell(full + "fresh").ending, 1);
  EXPECT_FALSE(fs::exists(folder_.path("fresh"))) << "no cut tables";
}

TEST_F(ProfileOutputs, GoIntoFifosAndKeepLinksAndPermissions) {
  capture();
  const Said said = shell(
      "mkfifo pipe && { cat pipe > through & } && neuron-profile view -s p.ntff "
      "--output-format json --output-file pipe && wait");
  ASSERT_EQ(said.ending, 0) << said.error;
  ASSERT_EQ(
      shell("echo > real && chmod 640 real && ln -s real link && neuron-profile view -s p.ntff "
            "--output-format json --output-file link")
          .ending,
      0);
  EXPECT_TRUE(fs::is_symlink(folder_.path("link")));
  EXPECT_EQ(folder_.read("real"), folder_.read("through"));
  struct stat status {};
  ASSERT_EQ(::stat(folder_.path("real").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
  EXPECT_THAT(run("view -s p.ntff --output-format parquet --output-file -").error,
              HasSubstr("cannot go to standard output"));
  EXPECT_FALSE(fs::exists(folder_.path("-")));
}

// Several at once: the folder is of one of them, and nothing is left behind.
TEST_F(ProfileOutputs, OfTwoViewsIntoOneFolderAreThoseOfOne) {
  capture();
  folder_.write("attention.neff", test::read_file(test::built("neff/attention.neff")));
  ASSERT_EQ(run("capture -n attention.neff -s q.ntff").ending, 0);
  for (int n = 0; n < 5; ++n) {
    const Said said = shell(
        "pids=; for f in p q p q; do neuron-profile view -s $f.ntff --output-format parquet "
        "--output-file tables & pids=\"$pids $!\"; done; for p in $pids; do wait $p || exit 1; "
        "done");
    ASSERT_EQ(said.ending, 0) << said.error;
    const test::Run read =
        test::run({"python3", test::source("tests/system/profile/parquet_reader.py"),
                   folder_.path("tables")});
    ASSERT_EQ(read.ending, 0) << read.output.substr(0, 1000);
    const boost::json::value tables = boost::json::parse(read.output);
    std::set<std::string> found, described;
    for (const auto& [name, table] : tables.as_object()) found.insert(std::string(name));
    for (const auto& name : tables.at("SchemaFields").at("columns").at("table_name").as_array()) {
      described.insert(std::string(name.as_string()));
    }
    EXPECT_EQ(found, described) << "tables of two profiles are mixed";
    EXPECT_THAT(names_in("tables"), Not(HasSubstr(".tables-")));
  }
}

// A library in front of the runtime, whose profiles lack events: to lose them takes a busy host.
TEST_F(ProfileOutputs, OfACaptureThatLostEventsAreToldOnStandardError) {
  capture();
  {
    auto file = writer("lossy");
    ASSERT_TRUE(file.write(ChunkKind::kModel, {}, R"({"part":0,"generation":2})"));
    ASSERT_TRUE(file.write(ChunkKind::kExecution, {}, R"({"exec_id":1,"lost":42})"));
    ASSERT_TRUE(file.write(ChunkKind::kEnd, {}, R"({"lost":42})"));
    ASSERT_TRUE(file.finish());
  }
  folder_.write("lose.c", R"(#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int nrt_profile_stop(const char* path) {
  int (*real)(const char*) = (int (*)(const char*))dlsym(RTLD_NEXT, "nrt_profile_stop");
  const int status = real(path);
  FILE *from = fopen("lossy", "rb"), *to = fopen(path, "wb");
  for (int c = 0; (c = fgetc(from)) != EOF;) fputc(c, to);
  fclose(from);
  fclose(to);
  return status;
}
)");
  ASSERT_EQ(shell("cc -shared -fPIC -o lose.so lose.c -ldl").ending, 0) << folder_.read("err");
  const std::string lose = "LD_PRELOAD=$PWD/lose.so neuron-profile capture -n add.neff -s l.ntff ";
  const Said said = shell(lose);
  EXPECT_EQ(said.ending, 0);
  EXPECT_EQ(said.out, "wrote l.ntff\n");
  EXPECT_THAT(said.error, HasSubstr("l.ntff lacks 42 events"));
  EXPECT_THAT(said.error, HasSubstr("--profile-nth-exec"));
  EXPECT_EQ(shell(lose + "--fail-on-loss").ending, 1);
  EXPECT_EQ(run("capture -n add.neff -s p.ntff --fail-on-loss").ending, 0);
}

TEST_F(ProfileOutputs, OfASessionTellWhatItLacksAndHaveTheRest) {
  ASSERT_EQ(shell("mkdir s").ending, 0);
  const auto end = [](ntff::TraceFileWriter& file, const char* text) {
    EXPECT_TRUE(file.write(ChunkKind::kEnd, {}, text));
    EXPECT_TRUE(file.finish());
  };
  {
    auto about = writer("s/trace_info.pb"), events = writer("s/ntrace.pb"),
         memory = writer("s/host_mem.pb"), empty = writer("s/empty.ntff");
    EXPECT_TRUE(about.write(ChunkKind::kSystem, {}, R"({"instance_type":"trn1"})"));
    end(about, "{}");
    for (int n = 0; n < 2; ++n) {
      EXPECT_TRUE(events.write(ChunkKind::kSystem, {},
                               R"({"events":[{"event_type":"timestamp_sync_point","nc_idx":1,)"
                               R"("timestamp_ns":5}],"dropped_events":21})"));
    }
    EXPECT_TRUE(events.finish());  // without an end
    EXPECT_TRUE(memory.write(ChunkKind::kSystem, {}, R"({"mem_usage":[{"timestamp":1}]})"));
    end(memory, R"({"cut":"No space left on device"})");
    end(empty, "{}");
  }
  folder_.write("s/cpu_util.pb", "somebody else's");
  const Said said = run("view -d s --output-format parquet --output-file tables");
  ASSERT_EQ(said.ending, 0) << said.error;
  EXPECT_THAT(said.error, HasSubstr("ntrace.pb' lacks 42 events"));
  EXPECT_THAT(said.error, HasSubstr("ntrace.pb' was not ended"));
  EXPECT_THAT(said.error, HasSubstr("host_mem.pb' ends early"));
  EXPECT_THAT(said.error, HasSubstr("cpu_util.pb' would tell: it is no whole file"));
  EXPECT_THAT(said.error, HasSubstr("DeviceProfileList lacks 's/empty.ntff'"));
  EXPECT_THAT(names_in("tables"), HasSubstr("HostMemUsage.parquet"));
  EXPECT_THAT(names_in("tables"), HasSubstr("SystemProfileEvents.parquet"));
  ASSERT_EQ(run("view -d s --output-file one --system-trace-filter-neuron-core 0").ending, 0);
  EXPECT_THAT(names_in("one"), Not(HasSubstr("SystemProfileEvents.parquet")));
  ASSERT_EQ(run("view -d s --output-file two --ignore-system-profile").ending, 0);
  EXPECT_THAT(names_in("two"), Not(HasSubstr("HostMemUsage.parquet")));
  EXPECT_THAT(run("view -d s --output-file s").error, HasSubstr("same folder as the input"));
  folder_.write("s/trace_info.pb", "somebody else's");
  EXPECT_THAT(run("view -d s --output-file tables").error,
              HasSubstr("record it again with this runtime"));
}

TEST_F(ProfileOutputs, OfOptionsThatMeanNothingAreASentence) {
  capture();
  const std::pair<const char*, const char*> refused[] = {
      {"view --table dma", "--table is of --output-format csv"},
      {"view -s p.ntff -d .", "excludes"},
      {"view --html --output-format csv", "excludes"},
      {"view --output-format csv --display-name x", "is of --output-format parquet"},
      {"view --output-format csv --json-pretty-print", "is of --output-format summary-json"},
      {"view --output-format csv --show-perfetto-flows", "is of --output-format perfetto"},
      {"view --system-trace-filter-event-type x", "are of a session"},
      {"capture -n add.neff -m lines a one", "excludes"},
      {"capture -n add.neff --capture-type systrace", "neuron-profile inspect"},
      {"capture -n add.neff -r 2 --collectives-worker-count 3", "all ranks of a capture"},
      {"capture -n add.neff -i all", "does not say how many there are"},
      {"view -s p.ntff --execution 0", "--execution"},
      {"capture -n add.neff --collectives-worker-start-id 1", "all ranks of a capture"},
      {"compare p.ntff p.ntff --fail-above nan", "is no percentage"},
      {"compare p.ntff p.ntff --fail-above=-3", "is no percentage"},
      {"view --no-such-flag", "was not expected"},
      {"view --disable-u", "did you mean --disable-ui?"}};
  for (const auto& [arguments, sentence] : refused) {
    const Said said = run(arguments);
    EXPECT_EQ(said.ending, 2) << arguments;
    EXPECT_THAT(said.error, HasSubstr(sentence)) << arguments;
  }
  const std::string flags =
      "--disable-ui --port 3001 --ingest-only --force --ignore-event-trace --ignore-dma-trace "
      "--enable-memory-tracker --framework-source-root . --nki-source-root . --terminology x "
      "-F ignore-nc-buf-usage=true --system-trace-primary-group instance_id "
      "--system-trace-secondary-group thread_id";
  Said said = run("view -s p.ntff --output-format summary-json " + flags);
  ASSERT_EQ(said.ending, 0) << said.error;
  EXPECT_EQ(std::count(said.error.begin(), said.error.end(), '\n'), 13) << said.error;
  EXPECT_THAT(said.error, HasSubstr("--port changes nothing here: view starts no server."));
  said =
      run("capture -n add.neff --enable-dge-notifs --single-io --single-io-threshold 4 --io-from "
          "runtime --exec-mode async --systrace-event-filter x");
  ASSERT_EQ(said.ending, 0) << said.error;
  EXPECT_EQ(std::count(said.error.begin(), said.error.end(), '\n'), 6) << said.error;
  EXPECT_THAT(run("capture --systrace-get-event-types").out, HasSubstr("nc_exec_running\n"));
  EXPECT_THAT(run("--show-profile-schema").out, HasSubstr("    DmaPacketAggregated:\n"));
  EXPECT_THAT(shell("neuron-explorer view --no-such-flag").error, HasSubstr("neuron-explorer: "));
}

TEST_F(ProfileOutputs, WithoutAFormatAreAReportThatSaysSoToAScript) {
  capture();
  const Said said = run("view -s p.ntff");
  EXPECT_THAT(said.out, HasSubstr("CRITICAL PATH"));
  EXPECT_THAT(said.error, HasSubstr("tables are --output-format parquet"));
  EXPECT_THAT(run("view -s p.ntff --data-path data").out, HasSubstr("into data/profiles/global/"));
}

TEST_F(ProfileOutputs, InCsvHaveTheNamesOfTheirColumnsWithoutRowsToo) {
  capture();
  for (const char* table : {"collective", "cc", "link"}) {
    const Said said = run("view -s p.ntff --output-format csv --table " + std::string(table));
    EXPECT_EQ(said.ending, 0) << said.error;
    EXPECT_THAT(said.out, testing::StartsWith("timestamp,duration,")) << table;
  }
}

TEST_F(ProfileOutputs, OfEveryExecutionNeedNoOtherOption) {
  capture();
  const Said said = run("capture -n add.neff --num-exec 2 --write-tensors-per-exec");
  EXPECT_THAT(said.out, HasSubstr("saved output \"sum.2\" as \"sum.2\"\n"));
}

TEST_F(ProfileOutputs, OfAFileThatCannotBeReadAreNotSaidToBeAReport) {
  const Said said = shell("neuron-profile view -s nowhere.ntff");
  EXPECT_EQ(said.ending, 1);
  EXPECT_THAT(said.error, testing::Not(HasSubstr("this is the report")));
}

TEST_F(ProfileOutputs, InspectRunsACommandThatRecordsASession) {
  capture();
  Said said = shell(
      "neuron-profile inspect -o out.d --max-events 5 neuron-profile capture -n add.neff "
      "--disable-profile");
  ASSERT_EQ(said.ending, 0) << said.error;
  // The folder that was given to -o, and that of the program in it.
  said = shell("neuron-profile view -d out.d --output-file of-both");
  ASSERT_EQ(said.ending, 0) << said.error;
  said = shell("neuron-profile view -d out.d/*pid* --output-file tables");
  ASSERT_EQ(said.ending, 0) << said.error;
  EXPECT_EQ(names_in("of-both"), names_in("tables"));
  EXPECT_THAT(names_in("tables"), HasSubstr("DeviceProfileList.parquet"));
  EXPECT_THAT(names_in("tables"), HasSubstr("SystemProfileEvents.parquet"));
  EXPECT_THAT(said.error, HasSubstr("events, the oldest ones"));
  ASSERT_EQ(shell("cp -r out.d/*pid* out.d/second").ending, 0);
  said = shell("neuron-profile view -d out.d");
  EXPECT_EQ(said.ending, 1);
  EXPECT_THAT(said.error,
              testing::MatchesRegex(".*'out.d' has 2 sessions, of as many programs; name "
                                    "one of them: out.d/.*, out.d/.*\n"));
  said = run("inspect --capture-system-profiles -- sh -c 'env; exit 7'");
  EXPECT_EQ(said.ending, 7);
  EXPECT_THAT(said.out, HasSubstr("NEURON_RT_INSPECT_OUTPUT_DIR=./output\n"));
  EXPECT_THAT(said.out, HasSubstr("NEURON_RT_INSPECT_DEVICE_PROFILE=0\n"));
  EXPECT_EQ(run("inspect no-such-program").ending, 127);
  said = run("inspect -o /proc/nowhere sh -c 'echo it ran'");
  EXPECT_EQ(said.ending, 1);
  EXPECT_EQ(said.out, "");
  EXPECT_THAT(said.error, HasSubstr("nothing can be recorded in the folder '/proc/nowhere'"));
  EXPECT_EQ(run("inspect -o out.d").ending, 2);
}

}  // namespace
}  // namespace neuron::profile
