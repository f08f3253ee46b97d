// SPDX-License-Identifier: Apache-2.0
// neuron-dump as the runtime and as an operator call it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <regex>

#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tools/compiler/kernels/fault_programs.h"

namespace neuron {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Dump : public testing::Test {
 protected:
  const std::string program_ = test::built("bin/neuron-dump");
  test::Folder folder_;

  // Runs a program that waits for ever at a semaphore, with core dumps below dumps/.
  test::Run fail_once(const std::string& hook, test::Environment environment = {}) {
    const kernels::Neff neff = kernels::deadlock();
    EXPECT_TRUE(neff);
    folder_.write("deadlock.neff", *neff);
    environment.insert({{"NEURON_EMULATOR", "trn1.2xlarge"},
                        {"NEURON_OPEN_DUMP_PROGRAM", hook},
                        {"NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY", folder_.path("dumps/%l")}});
    return test::run({test::built("bin/neuron-run"), folder_.path("deadlock.neff"), "--random"},
                     environment);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    if (!fs::exists(folder_.path("dumps"))) return found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path("dumps"))) {
      if (entry.is_regular_file()) found.push_back(entry.path().string());
    }
    return found;
  }
  std::string file_with(const std::string& part) const {
    for (const std::string& path : files()) {
      if (path.find(part) != std::string::npos) return path;
    }
    ADD_FAILURE() << "no file has " << part << " in its name";
    return "";
  }
  // A dump without an archive beside it.
  std::string dump() {
    (void)fail_once("/bin/true");
    return file_with("-nd0-nc0-");
  }
  test::Run call(const std::string& words, test::Environment environment = {}) {
    environment.insert({"NEURON_EMULATOR", "trn1.2xlarge"});
    return test::shell("cd " + folder_.path() + " && " + program_ + " " + words, environment);
  }
  // The files of an archive in a folder of their own, which is returned.
  std::string unpacked(const std::string& archive) {
    const test::Run run =
        test::shell("cd " + folder_.path() + " && rm -rf x && mkdir x && tar -xzf " + archive +
                    " -C x --strip-components=1");
    EXPECT_EQ(run.ending, 0) << run.output;
    return folder_.path("x/");
  }
};

TEST_F(Dump, TheRuntimeCallsItAndTheArchiveLiesBesideTheDump) {
  const test::Run run =
      fail_once(program_, {{"NEURON_RT_TEST_TOKEN", "hidden"}, {"FI_PROVIDER", "tcp"}});
  EXPECT_NE(run.ending, 0);
  const std::string archive = file_with(".tar.gz"), core = file_with("-nd0-nc0-");
  EXPECT_EQ(fs::path(archive).parent_path(), fs::path(core).parent_path());
  struct stat status {};
  ASSERT_EQ(::stat(archive.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u) << "it is for its user alone";
  const std::string x = unpacked(archive);
  const std::string report = test::read_file(x + "report.txt");
  std::smatch match;
  EXPECT_TRUE(std::regex_search(report, match, std::regex("\ndump: ([0-9a-f]{16})\n"))) << report;
  EXPECT_THAT(archive, HasSubstr("-lid-" + match.str(1) + ".tar.gz"));
  EXPECT_THAT(report, AllOf(HasSubstr("\nmodel: "), HasSubstr("\nplace: nd0-nc0\n"),
                            HasSubstr("\nstatus: "), HasSubstr("\n  engines.txt (")));
  EXPECT_EQ(test::read_file(x + "core/" + fs::path(core).filename().string()),
            test::read_file(core));
  EXPECT_THAT(test::read_file(x + "engines.txt"), HasSubstr("waits for semaphore "));
  EXPECT_THAT(test::read_file(x + "host/neuron-ls.json"), HasSubstr("\"neuron_device\""));
  EXPECT_THAT(test::read_file(x + "host/neuron-doctor.txt"), HasSubstr("devices"));
  EXPECT_THAT(test::read_file(x + "host/proc/meminfo"), HasSubstr("MemTotal"));
  EXPECT_THAT(test::read_file(x + "host/versions.txt"), HasSubstr("neuron-dump "));
  EXPECT_THAT(test::read_file(x + "host/environment.txt"),
              AllOf(HasSubstr("FI_PROVIDER=tcp\n"), HasSubstr("NEURON_RT_TEST_TOKEN=(left out)\n"),
                    Not(HasSubstr("hidden")), Not(HasSubstr("HOME="))));
}

TEST_F(Dump, ShowsWhatTheEnginesDid) {
  const std::string core = dump();
  const std::string place = fs::path(core).parent_path().string();
  for (const std::string& named : {place, core}) {
    const test::Run run = call("--show " + named);
    EXPECT_EQ(run.ending, 0) << run.output;
    EXPECT_THAT(run.output, testing::StartsWith(core + "\n  failure (status "));
    for (const char* engine : {"PE", "Activation", "Pool", "DVE", "SP"}) {
      EXPECT_THAT(run.output, HasSubstr(std::string("\n  ") + engine + " ")) << engine;
    }
    EXPECT_THAT(run.output, testing::ContainsRegex(" us  waits for semaphore [0-9]+.*, which is "
                                                   "[0-9]+; pc -?[0-9]+: "));
  }
  EXPECT_EQ(call("--show").ending, 2);
  const test::Run full = call("--show " + place + " > /dev/full");
  EXPECT_EQ(full.ending, 1);
  EXPECT_THAT(full.output, HasSubstr("cannot write to standard output: No space left on device"));
}

TEST_F(Dump, PacksWhatAnOperatorNames) {
  const std::string place = fs::path(dump()).parent_path().string();
  const std::string log = folder_.write("app.log", std::string(5 << 20, 'x') + "the end\n");
  const test::Run run = call(place + " -o report.tar.gz --log app.log --log none.log");
  EXPECT_EQ(run.ending, 0) << run.output;
  EXPECT_THAT(run.output, testing::MatchesRegex("report.tar.gz: [0-9]+ files; [0-9]+ could not be "
                                                "had, report.txt in it says why\n"));
  const std::string x = unpacked("report.tar.gz");
  const std::string kept = test::read_file(x + "log/0-app.log");
  EXPECT_EQ(kept.size(), 4u << 20);
  EXPECT_THAT(kept.substr(kept.size() - 20), testing::EndsWith("the end\n"));
  EXPECT_THAT(test::read_file(x + "report.txt"),
              HasSubstr("log/1-none.log: 'none.log': No such file or directory\n"));
  EXPECT_EQ(files().size(), 1u) << "nothing is written beside the dump";
}

TEST_F(Dump, WithoutADumpOrADeviceTheReportIsOfTheHost) {
  if (::access("/dev/neuron0", F_OK) == 0) GTEST_SKIP() << "this host has a device";
  const test::Run run =
      test::shell("cd " + folder_.path() + " && " + program_, {{"NEURON_EMULATOR", std::nullopt}});
  EXPECT_EQ(run.ending, 0) << run.output;
  std::smatch match;
  ASSERT_TRUE(std::regex_search(
      run.output, match,
      std::regex("^(neuron-dump-[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}-[0-9]{2}-[0-9]{2}.tar.gz): ")))
      << run.output;
  const std::string x = unpacked(match.str(1));
  EXPECT_THAT(test::read_file(x + "report.txt"),
              HasSubstr("host/neuron-ls.json: neuron-ls ended with status 1"));
  EXPECT_THAT(test::read_file(x + "host/neuron-doctor.txt"), HasSubstr("driver"));
  EXPECT_FALSE(fs::exists(x + "core"));
}

TEST_F(Dump, SaysWhereThereIsNoDump) {
  folder_.write("other/file", "not one\n");
  folder_.write("newer", "core dump of the open Neuron runtime, version 2\n");
  fs::create_symlink(dump(), folder_.path("other/link"));
  for (const auto& [words, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"none", "there is no core dump at 'none'"},
           {"other", "there is no core dump of this runtime in 'other'"},
           {"--show other/file", "other/file: it is no core dump of this runtime"},
           {"--show newer", "of version '2', and this program knows version 1"},
           {"--local-output-dir other --log-id 12", "in 'other' with the number 12"}}) {
    const test::Run run = call(words);
    EXPECT_EQ(run.ending, 1) << words;
    EXPECT_THAT(run.output, HasSubstr(sentence)) << words;
  }
}

TEST_F(Dump, OfADumpFolderTakesTheDumpThatIsMeant) {
  const std::string first = dump();
  const std::string place = fs::path(first).parent_path().string();
  fs::copy_file(first, place + "/x-nd0-nc0-pid-1-tid-1-lid-77");
  const test::Run run = call("--local-output-dir " + place + " --log-id 77 --neff-name ''");
  EXPECT_EQ(run.ending, 0) << run.output;
  const std::string x = unpacked(file_with("-lid-77.tar.gz"));
  EXPECT_TRUE(fs::exists(x + "core/x-nd0-nc0-pid-1-tid-1-lid-77"));
  EXPECT_EQ(std::distance(fs::directory_iterator(x + "core"), fs::directory_iterator()), 1);
}

TEST_F(Dump, AFullDiskIsSaidAndLeavesNoHalfArchive) {
  const test::Run full = call("-o /dev/full");
  EXPECT_EQ(full.ending, 1);
  EXPECT_THAT(full.output, HasSubstr("cannot write /dev/full: No space left on device"));
  // A limit of file sizes: the disk is full, as far as the program can tell.
  const test::Run limited =
      test::shell("cd " + folder_.path() + " && trap '' XFSZ && ulimit -f 1 && " + program_ +
                      " -o out/report.tar.gz; ls out",
                  {{"NEURON_EMULATOR", "trn1.2xlarge"}});
  EXPECT_THAT(limited.output, HasSubstr("cannot create out/report.tar.gz: No such file"));
  fs::create_directory(folder_.path("out"));
  const test::Run small = test::shell("cd " + folder_.path() + " && (trap '' XFSZ; ulimit -f 1; " +
                                          program_ + " -o out/report.tar.gz); echo $?",
                                      {{"NEURON_EMULATOR", "trn1.2xlarge"}});
  EXPECT_THAT(small.output, AllOf(HasSubstr("cannot write out/report.tar.gz: File too large"),
                                  testing::EndsWith("\n1\n")));
  EXPECT_TRUE(fs::is_empty(folder_.path("out")));
}

TEST_F(Dump, UploadsWithTheProgramOfTheOperator) {
  const std::string aws =
      folder_.write("bin/aws", "#!/bin/sh\necho \"$@\" > " + folder_.path("words") + "\n");
  ::chmod(aws.c_str(), 0755);
  const std::string path = folder_.path("bin") + ":/usr/bin:/bin";
  EXPECT_EQ(call("-o r.tar.gz --s3-output-prefix s3://bucket/x", {{"PATH", path}}).ending, 0);
  EXPECT_EQ(folder_.read("words"), "s3 cp --only-show-errors r.tar.gz s3://bucket/x/r.tar.gz\n");
  folder_.write("bin/aws", "#!/bin/sh\necho no credentials >&2\nexit 4\n");
  const test::Run refused = call("-o r.tar.gz --s3-output-prefix s3://bucket/x", {{"PATH", path}});
  EXPECT_EQ(refused.ending, 1);
  EXPECT_THAT(refused.output, HasSubstr("r.tar.gz stays where it is: the program aws, which copies "
                                        "to s3://bucket/x, ended with status 4: no credentials"));
  EXPECT_EQ(call("--s3-output-prefix --recursive").ending, 2);
  EXPECT_EQ(call("--s3-output-prefix=/etc").ending, 2);
}

TEST_F(Dump, ProgramsThatHangAreLeftOut) {
  const std::string slow = folder_.write("bin/dmesg", "#!/bin/sh\nexec sleep 60\n");
  ::chmod(slow.c_str(), 0755);
  const test::Run run =
      call("-o r.tar.gz --timeout 3", {{"PATH", folder_.path("bin") + ":/usr/bin:/bin"}});
  EXPECT_EQ(run.ending, 0) << run.output;
  EXPECT_THAT(test::read_file(unpacked("r.tar.gz") + "report.txt"),
              HasSubstr("host/dmesg.txt: dmesg "));
}

TEST_F(Dump, WhatADumpSaysCannotCommandTheTerminal) {
  const std::string path = folder_.write(
      "core", std::string("core dump of the open Neuron runtime, version 1\n"
                          "failure (status 5): \x1b[2J\nmodel: \x1b]0;x\x07\nexecution: 1\n"
                          "device 0, core 0\nengine DVE: waiting at 3, 99999999999999999999999 ps\n"
                          "engine\nengine SP: ") +
                  std::string(300000, 'a') + "\n  > x\n  semaphore 99999999999999 = 1\nDMA");
  const test::Run run = call("--show core");
  EXPECT_EQ(run.ending, 0) << run.output.substr(0, 400);
  EXPECT_EQ(run.output.find('\x1b'), std::string::npos);
  EXPECT_EQ(run.output.find('\x07'), std::string::npos);
}

}  // namespace
}  // namespace neuron
