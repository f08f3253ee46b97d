// SPDX-License-Identifier: Apache-2.0
// Core dumps of failed executions, and the program that takes them.
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <sstream>

#include "tests/support/files.h"
#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

namespace fs = std::filesystem;

// A program that keeps the words it was called with, one a line.
class CoreDumps : public RuntimeTest {
 protected:
  CoreDumps()
      : program_("NEURON_OPEN_DUMP_PROGRAM", script("printf '%s\\n' \"$@\" >> " + words()).c_str()),
        folder_setting_("NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY",
                        folder_.path("dumps/%p-%c-%%-%x").c_str()) {}

  std::string script(const std::string& text) const {
    const std::string path = folder_.write("neuron-dump", "#!/bin/sh\n" + text + "\n");
    ::chmod(path.c_str(), 0755);
    return path;
  }
  std::string words() const { return folder_.path("words"); }
  std::map<std::string, std::string> told() const {
    std::istringstream lines(read_file(words()));
    std::map<std::string, std::string> found;
    for (std::string name, value; std::getline(lines, name) && std::getline(lines, value);) {
      found[name] = value;
    }
    return found;
  }
  std::vector<std::string> dumps() const {
    std::vector<std::string> found;
    if (!fs::exists(folder_.path("dumps"))) return found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path("dumps"))) {
      if (entry.is_regular_file()) found.push_back(entry.path().string());
    }
    return found;
  }
  Folder folder_;

 private:
  Setting program_, folder_setting_;
};

TEST_F(CoreDumps, AFailedExecutionLeavesWhatItsCoreWasLikeAndTheProgramIsToldAboutIt) {
  const Setting remote("NEURON_RT_S3_CORE_DUMP_PREFIX", "s3://bucket/%p");
  Loaded faulty(bytes_of(kernels::deadlock()));
  const NRT_STATUS status = faulty.run();
  EXPECT_NE(status, NRT_SUCCESS);
  const std::string sentence = nrt_open_last_error();
  const auto files = dumps();
  ASSERT_EQ(files.size(), 1u);
  const std::string process = std::to_string(getpid());
  EXPECT_THAT(files[0], HasSubstr("/dumps/" + process + "-0000000000000000-%%-%x/"));
  EXPECT_THAT(files[0], HasSubstr("-nd0-nc0-pid-" + process + "-tid-"));
  const std::string text = read_file(files[0]);
  EXPECT_THAT(text, HasSubstr("core dump of the open Neuron runtime, version 1"));
  EXPECT_THAT(text, HasSubstr("status " + std::to_string(status)));
  EXPECT_THAT(text, HasSubstr("waiting at"));
  for (const char* engine : {"PE", "Activation", "Pool", "DVE", "SP"}) {
    EXPECT_THAT(text, HasSubstr(std::string("engine ") + engine + ": "));
  }
  EXPECT_THAT(text, HasSubstr("semaphores that are not 0:"));
  struct stat mode {};
  ASSERT_EQ(::stat(files[0].c_str(), &mode), 0);
  EXPECT_EQ(mode.st_mode & 0777, 0600u);

  auto words = told();
  EXPECT_EQ(words["--local-output-dir"], fs::path(files[0]).parent_path().string());
  EXPECT_EQ(words["--error-code"], std::to_string(status));
  EXPECT_EQ(words["--error-location"], "nd0-nc0");
  EXPECT_EQ(words["--pid"], process);
  EXPECT_EQ(words["--cluster-id"], "0000000000000000");
  EXPECT_EQ(words["--neff-uuid"].size(), 32u);
  EXPECT_EQ(words["--s3-output-prefix"], "s3://bucket/" + process);
  EXPECT_EQ(words["--date-time"].size(), std::string("2026-11-25-23-00").size());
  EXPECT_THAT(files[0], HasSubstr("-lid-" + words["--log-id"]));
  EXPECT_THAT(text, HasSubstr("model: " + words["--neff-name"]));
  for (const char* name : {"--tid", "--instance-id"}) EXPECT_NE(words[name], "") << name;

  // The core works again, and what succeeds leaves nothing.
  Loaded add(small_add());
  EXPECT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(dumps().size(), 1u);
  EXPECT_NE(faulty.run(), NRT_SUCCESS);
  EXPECT_EQ(dumps().size(), 2u) << "a later failure overwrites nothing";
  EXPECT_THAT(sentence, Not(HasSubstr("neuron-dump")));
}

TEST_F(CoreDumps, AreOffWithoutTheProgramOrWhenBothPathsAreSetToNothing) {
  Loaded faulty(bytes_of(kernels::deadlock()));
  {
    const Setting none("NEURON_OPEN_DUMP_PROGRAM", folder_.path("none").c_str());
    EXPECT_NE(faulty.run(), NRT_SUCCESS);
  }
  {
    const Setting local("NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY", "");
    const Setting remote("NEURON_RT_S3_CORE_DUMP_PREFIX", "");
    EXPECT_NE(faulty.run(), NRT_SUCCESS);
  }
  EXPECT_TRUE(dumps().empty());
  EXPECT_EQ(read_file(words()), "");
}

TEST_F(CoreDumps, AProgramThatFailsOrAFolderOfSomethingElseChangesNoStatus) {
  Loaded faulty(bytes_of(kernels::deadlock()));
  const NRT_STATUS expected = faulty.run();
  (void)script("exit 3");
  EXPECT_EQ(faulty.run(), expected);
  const Setting file("NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY", folder_.write("file", "x").c_str());
  EXPECT_EQ(faulty.run(), expected);
  EXPECT_EQ(read_file(folder_.path("file")), "x");
}

TEST_F(CoreDumps, WhoAskedForOneIsToldByDefaultWhyThereIsNone) {
  const Setting level("NEURON_RT_LOG_LEVEL", nullptr);
  nrt_close();
  init();
  Loaded faulty(bytes_of(kernels::deadlock()));
  const auto told = [&] {
    testing::internal::CaptureStderr();
    EXPECT_NE(faulty.run(), NRT_SUCCESS);
    return testing::internal::GetCapturedStderr();
  };
  {
    const std::string none = folder_.path("none");
    const Setting program("NEURON_OPEN_DUMP_PROGRAM", none.c_str());
    EXPECT_THAT(told(), HasSubstr("NEURON_OPEN_DUMP_PROGRAM names '" + none +
                                  "', which cannot be run: No such file"));
    EXPECT_THAT(told(), Not(HasSubstr("DUMP_PROGRAM"))) << "once";
  }
  {
    const Setting file("NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY", folder_.write("file", "x").c_str());
    EXPECT_THAT(told(), HasSubstr("there is no core dump of the failed execution: "));
  }
  {
    const Setting nowhere("NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY", "/proc/nowhere");
    EXPECT_THAT(told(), HasSubstr("the folder '/proc/nowhere' cannot be made: No such file"));
  }
  (void)script("exit 3");
  EXPECT_THAT(told(), HasSubstr("the core dump stays where it is: "));
}

TEST_F(CoreDumps, ADiskThatIsFullLeavesASentenceAndNoHalfFile) {
  const Setting level("NEURON_RT_LOG_LEVEL", nullptr);
  nrt_close();
  init();
  Loaded faulty(bytes_of(kernels::deadlock()));
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit tight = before;
  tight.rlim_cur = 1024;  // the sentence fits, a dump does not
  testing::internal::CaptureStderr();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  EXPECT_NE(faulty.run(), NRT_SUCCESS);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("there is no core dump of the failed execution: "),
                             HasSubstr("cannot be written: File too large")));
  EXPECT_THAT(dumps(), testing::IsEmpty());
}

TEST_F(CoreDumps, AProcessThatFailsForEverDoesNotFillTheDisk) {
  Loaded faulty(bytes_of(kernels::deadlock()));
  for (int n = 0; n < 20; ++n) EXPECT_NE(faulty.run(), NRT_SUCCESS);
  EXPECT_EQ(dumps().size(), 16u);
}

}  // namespace
}  // namespace neuron::test
