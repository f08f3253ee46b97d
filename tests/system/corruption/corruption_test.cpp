// SPDX-License-Identifier: Apache-2.0
// nccom-test --check as a program, with a library between it and its collectives that flips one bit
// of one result: it fails, and names rank, operation and place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/files.h"
#include "tests/support/process.h"

namespace neuron::nccom {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class Corruption : public testing::Test {
 protected:
  // Both outputs are in text_.
  test::Ending run(const std::string& options, const std::string& call, const std::string& byte) {
    const test::Run run = test::shell(
        test::built("bin/nccom-test --non-interactive --check --seed 5 -r 2 -d fp32 --dump-dir ") +
            folder_.path() + " " + options,
        {{"LD_PRELOAD", test::built("tests/corrupting-library.so")},
         {"NEURON_EMULATOR", "trn1.2xlarge"},
         {"TMPDIR", folder_.path()},
         {"CORRUPT_CALL", call},
         {"CORRUPT_RANK", "1"},
         {"CORRUPT_BYTE", byte}});
    text_ = run.output;
    return run.ending;
  }

  const test::Folder folder_;
  std::string text_;
};

TEST_F(Corruption, OfOneMeasuredOperationInHostMemoryIsFound) {
  const std::string sweep = "--backend host -n 50 -w 5 -b 4K -e 4K allr";
  EXPECT_EQ(run(sweep, "0", "0"), 0) << text_;
  for (const int operation : {1, 8, 50}) {
    EXPECT_EQ(run(sweep, std::to_string(5 + operation), "2050"), 1) << text_;
    EXPECT_THAT(text_,
                HasSubstr("rank 1, all_reduce, measured operation " + std::to_string(operation) +
                          " of 50: output element 512 (byte 2048) is "));
    EXPECT_THAT(text_, HasSubstr("1 errors found - test failed"));
  }
}

TEST_F(Corruption, OfBuffersOfTheirOwnIsFound) {
  EXPECT_EQ(run("--backend host --unique-buff -n 20 -w 2 -b 1M -e 1M allg", "9", "1000000"), 1);
  EXPECT_THAT(text_, HasSubstr("rank 1, all_gather, measured operation 7 of 20: output element "
                               "250000 (byte 1000000) is "));
}

TEST_F(Corruption, OfAnOperationOnDevicesIsFound) {
  const std::string sweep = "--backend device -n 6 -w 1 -b 4K -e 4K allr";
  EXPECT_EQ(run(sweep, "0", "0"), 0) << text_;
  EXPECT_EQ(run(sweep, "5", "8"), 1) << text_;
  EXPECT_THAT(text_, ContainsRegex("rank [01], all_reduce, measured operation 4 of 6: output "
                                   "element 2 .byte 8. is "));
  EXPECT_EQ(run("--unique-buff " + sweep, "5", "8"), 1) << text_;
  EXPECT_THAT(text_, HasSubstr("measured operation 4 of 6: output element 2 (byte 8) is "));
}

// As the original prints it, for programs that read its table.
TEST_F(Corruption, IsARowWithTheWordsOfTheOriginalAndALogFile) {
  EXPECT_EQ(run("--backend host -n 3 -w 0 -b 512 -e 4K -f 8 allr", "5", "4"), 1) << text_;
  EXPECT_THAT(text_, ContainsRegex("\n +512 +128 +fp32 "));
  EXPECT_THAT(text_, ContainsRegex("\n +4096    Failure running neuron-bench - log file [^ ]*/"
                                   "nccom_test_log_[A-Za-z0-9]*.log\nAvg bus bandwidth:"));
  const size_t at = text_.find("log file ") + 9;
  const std::string log = test::read_file(text_.substr(at, text_.find('\n', at) - at));
  EXPECT_THAT(log, HasSubstr("all_reduce fp32, 4096 B, 2 ranks: rank 1, all_reduce, measured "
                             "operation 2 of 3: output element 1 (byte 4) is "));
  EXPECT_THAT(log, HasSubstr("\nseed: 5\n"));
  EXPECT_THAT(text_, HasSubstr("nccom-test: all_reduce 4096 B: rank 1, all_reduce, measured "));
}

}  // namespace
}  // namespace neuron::nccom
