// SPDX-License-Identifier: Apache-2.0
// neuron-debug as a user calls it, on programs whose values are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tools/compiler/kernels/fault_programs.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron {
namespace {

using testing::HasSubstr;
using testing::Not;

class Debug : public testing::Test {
 protected:
  // Runs commands on a program.
  test::Run debug(const kernels::Neff& neff, const std::string& commands,
                  const std::string& options = "") {
    EXPECT_TRUE(neff) << neff.error().sentence;
    folder_.write("program.neff", *neff);
    folder_.write("commands", commands);
    return test::run({"/bin/sh", "-c",
                      test::built("bin/neuron-debug") + " " + folder_.path("program.neff") +
                          " -x " + folder_.path("commands") + " " + options + " 2>&1"},
                     {{"NEURON_EMULATOR", "trn1.2xlarge"}});
  }
  // [4, 16] f32 a + b: two loads, DVE's addition, a store.
  static kernels::Neff add() { return kernels::tensor_add("add", NEURON_DTYPE_F32, 4, 16); }
  test::Folder folder_;
};

// The place of the addition, and where its operands and result lie.
struct Addition {
  std::string place, result, first, second;
};
Addition addition_in(const std::string& output) {
  std::smatch match;
  const std::regex line(
      R"(DVE pc ([0-9]+)[^\n]*tensor_tensor sbuf\[0:4, (0x[0-9A-F]+)\] f32 \[16\] = )"
      R"(sbuf\[0:4, (0x[0-9A-F]+)\] f32 \[16\], sbuf\[0:4, (0x[0-9A-F]+)\])");
  EXPECT_TRUE(std::regex_search(output, match, line)) << output;
  return {"DVE:" + match.str(1), match.str(2), match.str(3), match.str(4)};
}

std::vector<double> numbers(const std::string& output, const std::string& begin) {
  const size_t at = output.find(begin);
  EXPECT_NE(at, std::string::npos) << output;
  std::istringstream words(
      output.substr(at + begin.size(), output.find('\n', at) - at - begin.size()));
  std::vector<double> list;
  for (double value = 0; words >> value;) list.push_back(value);
  return list;
}

TEST_F(Debug, AStepExecutesTheInstructionAndNothingElse) {
  const test::Run listed = debug(add(), "list DVE:0\n");
  ASSERT_EQ(listed.ending, 0) << listed.output;
  const Addition sum = addition_in(listed.output);
  const auto show = [](const std::string& at) { return "print sbuf 2 " + at + " f32 16\n"; };
  const test::Run run =
      debug(add(), "break " + sum.place + "\nrun\n" + show(sum.first) + show(sum.second) +
                       "step\ninfo engines\n" + show(sum.result) + "continue\n");
  ASSERT_EQ(run.ending, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("breakpoint 1, DVE pc"));
  EXPECT_THAT(run.output, HasSubstr("the execution has ended"));
  // a, b and, behind the step, the sum of the row.
  std::vector<std::vector<double>> rows;
  std::string rest = run.output;
  for (int n = 0; n < 3; ++n) {
    rows.push_back(numbers(rest, "[2]"));
    rest = rest.substr(rest.find("[2]") + 3);
  }
  for (size_t n = 0; n < 16; ++n) {
    ASSERT_EQ(rows[0].size(), 16u);
    EXPECT_NE(rows[0][n], 0) << "made-up inputs are at least 1/16";
    EXPECT_NEAR(rows[2][n], rows[0][n] + rows[1][n], 1e-6);
  }
}

TEST_F(Debug, BreaksAtWhatWaitsForASemaphoreAndShowsItsValue) {
  const test::Run run = debug(add(),
                              "break semaphore dma_0\nrun\nprint semaphore dma_0\n"
                              "info semaphores\ndelete 1\ncontinue\ninfo breakpoints\n");
  EXPECT_THAT(run.output, HasSubstr("(dma_0) = "));
  EXPECT_THAT(run.output, HasSubstr("the execution has ended"));
  EXPECT_EQ(run.ending, 0) << run.output;
}

TEST_F(Debug, BreakOnNanStopsInFrontOfTheInstructionThatMakesIt) {
  // Softmax of rows that are infinite: the maximum is infinite, and inf - inf is no number.
  test::Folder arrays;
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (128, 16), }";
  header.resize(117, ' ');
  header += "\n";
  std::string npy("\x93NUMPY\x01\x00", 8);
  npy += std::string(1, static_cast<char>(header.size())) + std::string(1, '\0') + header;
  for (int n = 0; n < 128 * 16; ++n) npy += std::string("\x00\x00\x80\x7f", 4);
  arrays.write("x.npy", npy);
  const test::Run run =
      debug(kernels::softmax("softmax", NEURON_DTYPE_F32, 128, 16),
            "run\ninfo breakpoints\ncontinue\n", "--break-on-nan -i x=" + arrays.path("x.npy"));
  EXPECT_THAT(run.output, HasSubstr("produced a NaN"));
  EXPECT_THAT(run.output, HasSubstr("again, up to this instruction:"));
  std::smatch named, stopped;
  ASSERT_TRUE(
      std::regex_search(run.output, named, std::regex("NaN [^\n]* at ([A-Za-z]+ pc [0-9]+)")))
      << run.output;
  ASSERT_TRUE(
      std::regex_search(run.output, stopped, std::regex("breakpoint 1, ([A-Za-z]+ pc [0-9]+)")))
      << run.output;
  EXPECT_EQ(named.str(1), stopped.str(1));
}

TEST_F(Debug, AFaultIsShownBeforeTheCoreIsReset) {
  const test::Run run = debug(kernels::bad_address(), "run\nprint SP\ncontinue\nlist SP:0\n");
  EXPECT_THAT(run.output,
              HasSubstr("The execution has failed. The core is as the failure left it:"));
  EXPECT_THAT(run.output, HasSubstr("has a fault"));
  EXPECT_THAT(run.output, HasSubstr("on device 0 core 0"));
}

TEST_F(Debug, AnEngineThatNeverRestsDoesNotKeepABreakpointFromBeingShown) {
  builder::Program program("spins");
  program.section("spins");
  isa::Instruction branch;  // to itself
  branch.opcode = NEURON_OP_BRANCH;
  program.raw(builder::Engine::kPool, branch);
  program.raw(builder::Engine::kSp, isa::Instruction());
  const test::Run run = debug(program.build(), "break SP:0\nrun\ninfo engines\nquit\n");
  EXPECT_EQ(run.ending, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("breakpoint 1, SP pc 0"));
  EXPECT_THAT(run.output, testing::ContainsRegex("Pool +[0-9.]+ us  runs"));
}

TEST_F(Debug, QuittingBreaksTheExecutionOff) {
  const test::Run run = debug(add(), "break DVE:0\nrun\nquit\nprint semaphore 0\n");
  EXPECT_EQ(run.ending, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("breakpoint 1, DVE pc 0"));
  EXPECT_THAT(run.output, Not(HasSubstr("the execution has ended")));
  EXPECT_THAT(run.output, Not(HasSubstr("semaphore 0 ="))) << "nothing is read behind quit";
}

TEST_F(Debug, AWrongCommandSaysSoAndTheProgramFails) {
  for (const auto& [command, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"jump", "there is no command 'jump'"},
           {"step", "nothing is stopped"},
           {"break DVE:100000", "DVE has "},
           {"break nowhere", "no instruction belongs to 'nowhere'"},
           {"break semaphore 256", "there is no semaphore '256'"},
           {"print sbuf 128 0 f32 1", "SBUF has 128 partitions"},
           {"print sbuf 4294967295:1 0 f32 1", "'4294967295:1' and '1' are not within them"},
           {"print psum 127:2 0 f32 1", "PSUM has 128 partitions"},
           {"print sbuf 0 0 f80 1", "'f80' is no type"},
           {"print DVE r64", "registers r0 to r63"},
           {"delete 7", "there is no breakpoint 7"},
           {"break DVE:0\nbreak DVE:0\nbreak DVE:0\nbreak DVE:0\nbreak DVE:0\nbreak DVE:0\n"
            "break DVE:0\nbreak DVE:0\nbreak DVE:0",
            "DVE would have 9 breakpoints, and can have 8"}}) {
    const test::Run run = debug(add(), command + "\n");
    EXPECT_EQ(run.ending, 1) << command;
    EXPECT_THAT(run.output, HasSubstr(sentence)) << command;
  }
}

TEST_F(Debug, WhatIsNotPrintableCannotCommandTheTerminal) {
  const test::Run run = debug(add(), "\x1b[2Jjump\nlist DVE:0\n");
  EXPECT_EQ(run.ending, 1);
  EXPECT_THAT(run.output, HasSubstr("there is no command '\\x1b[2Jjump'"));
  EXPECT_EQ(run.output.find('\x1b'), std::string::npos);
  EXPECT_THAT(run.output, HasSubstr("\n> DVE pc 0")) << "lines stay lines";
}

}  // namespace
}  // namespace neuron
