// SPDX-License-Identifier: Apache-2.0
// neuron-debug as a user calls it, on programs whose values are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <sstream>

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

size_t times(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
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
  const test::Run quits = debug(kernels::bad_address(), "run\nquit\n");
  EXPECT_THAT(quits.output, HasSubstr("on device 0 core 0"));
  EXPECT_THAT(quits.output, Not(HasSubstr("broken off"))) << "it has failed by itself";
}

TEST_F(Debug, AtTheEndOfTheCommandsTheProgramRunsOnPastAllBreakpoints) {
  const test::Run run = debug(add(), "break DVE:0\nbreak SP:0\nbreak SP:1\nbreak Pool:0\nrun\n");
  EXPECT_EQ(run.ending, 0) << run.output;
  EXPECT_THAT(run.output, testing::EndsWith("the execution has ended\n"));
  // Once where it is set, and once at most where it is met.
  for (const char* place : {"DVE pc 0", "SP pc 0", "SP pc 1", "Pool pc 0"}) {
    EXPECT_LE(times(run.output, place), 2u) << run.output;
  }
}

TEST_F(Debug, AStepAtTheEndOfTheCommandsIsFollowedByTheRest) {
  const test::Run run = debug(add(), "break DVE:0\nrun\nstep\n");
  EXPECT_EQ(run.ending, 0) << run.output;
  EXPECT_THAT(run.output, testing::EndsWith("the execution has ended\n"));
}

TEST_F(Debug, ABreakpointInALoopIsMetInEachRound) {
  // Four rounds of two tiles each.
  const kernels::Neff loop = kernels::tensor_add("loop", NEURON_DTYPE_F32, 1024, 16);
  const test::Run listed = debug(loop, "list DVE:3\n");
  std::smatch match;
  ASSERT_TRUE(
      std::regex_search(listed.output, match, std::regex("DVE pc ([0-9]+)[^\n]*: tensor_tensor")))
      << listed.output;
  const std::string set = "break DVE:" + match.str(1) + "\nrun\n";
  const test::Run all = debug(loop, set + "continue\ncontinue\ncontinue\ncontinue\ninfo b\n");
  EXPECT_EQ(all.ending, 0) << all.output;
  EXPECT_EQ(times(all.output, "breakpoint 1, DVE pc " + match.str(1)), 4u) << all.output;
  EXPECT_THAT(all.output, HasSubstr("the execution has ended\n1 DVE:"));
  // The commands end in the second round.
  const test::Run ends = debug(loop, set + "continue\n");
  EXPECT_EQ(ends.ending, 0) << ends.output;
  EXPECT_EQ(times(ends.output, "breakpoint 1, DVE pc"), 2u) << ends.output;
  EXPECT_THAT(ends.output, testing::EndsWith("the execution has ended\n"));
}

TEST_F(Debug, AFileOfCommandsThatIsNoneIsWrongUsage) {
  for (const std::string& path : {folder_.path(), folder_.path("none")}) {
    folder_.write("program.neff", *add());
    const test::Run run =
        test::run({test::built("bin/neuron-debug"), folder_.path("program.neff"), "-x", path},
                  {{"NEURON_EMULATOR", "trn1.2xlarge"}});
    EXPECT_EQ(run.ending, 2) << run.output;
    EXPECT_THAT(run.output, HasSubstr("'" + path + "'"));
  }
}

TEST_F(Debug, AWrongCommandOfAFileIsToldWithItsLine) {
  folder_.write("program.neff", *add());
  folder_.write("commands", "# a comment\ninfo b\njump\n");
  const test::Run run = test::run({test::built("bin/neuron-debug"), folder_.path("program.neff"),
                                   "-x", folder_.path("commands")},
                                  {{"NEURON_EMULATOR", "trn1.2xlarge"}});
  EXPECT_EQ(run.ending, 1);
  EXPECT_THAT(run.output,
              HasSubstr(folder_.path("commands") + ":3: there is no command 'jump'; try help"));
}

TEST_F(Debug, WhatInfoShowsCanBeShortened) {
  const test::Run run =
      debug(add(), "info b\nbreak DVE:0\ninfo b\nrun\ninfo s\ninfo e\ninfo\nquit\n");
  EXPECT_EQ(run.ending, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("there are no breakpoints\n"));
  EXPECT_THAT(run.output, HasSubstr("1 DVE:0: DVE pc 0"));
  EXPECT_EQ(times(run.output, "at a breakpoint"), 2u) << run.output;
  EXPECT_EQ(debug(add(), "info x\n").ending, 1);
}

// A tile whose numbers a test knows: x is the input, stopped behind the load.
class DebugPicture : public Debug {
 protected:
  // Rows of 16 numbers, on as many partitions; what `commands` say of the tile at the store.
  test::Run show(const std::vector<float>& numbers, const std::string& picture) {
    const size_t rows = numbers.size() / 16;
    builder::Program program("shows");
    program.section("shows");
    const auto x = program.input("x", NEURON_DTYPE_F32, {rows, 16});
    const auto y = program.output("y", NEURON_DTYPE_F32, {rows, 16});
    const auto tile = program.sbuf("tile", static_cast<uint32_t>(rows), 16, NEURON_DTYPE_F32);
    const auto copy = program.sbuf("copy", static_cast<uint32_t>(rows), 16, NEURON_DTYPE_F32);
    program.dma(builder::Engine::kSp, tile.all(), x.all());
    program.tensor_copy(builder::Engine::kDve, copy.all(), tile.all());
    program.dma(builder::Engine::kSp, y.all(), copy.all());
    std::string header =
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", 16), }";
    header.resize(117, ' ');
    std::string npy("\x93NUMPY\x01\x00\x76\x00", 10);
    npy += header + "\n";
    npy.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
    const kernels::Neff neff = program.build();
    return debug(neff, "break DVE:0\nrun\nprint sbuf 0 0 f32 1\npicture " + picture + "\n",
                 "-i x=" + folder_.write("x.npy", npy));
  }
  // The pixels of the PNG, as Python's zlib unpacks it: "WIDTH HEIGHT", then a pixel a word.
  std::string decoded(const std::string& path) {
    const std::string program = folder_.write("decode.py", R"(
import struct, sys, zlib
data = open(sys.argv[1], "rb").read()
assert data[:8] == b"\x89PNG\r\n\x1a\n"
at, parts = 8, {}
while at < len(data):
    size, name = struct.unpack(">I4s", data[at:at + 8])
    body = data[at + 8:at + 8 + size]
    assert struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0] == zlib.crc32(name + body)
    parts[name] = body
    at += 12 + size
assert name == b"IEND" and at == len(data)
width, height, depth, colour, *rest = struct.unpack(">IIBBBBB", parts[b"IHDR"])
assert (depth, colour, rest) == (8, 2, [0, 0, 0])
lines = zlib.decompress(parts[b"IDAT"])
stride = 1 + 3 * width
assert len(lines) == height * stride and not any(lines[::stride])
print(width, height)
for y in range(height):
    row = lines[y * stride + 1:(y + 1) * stride]
    print(*(row[3 * x:3 * x + 3].hex() for x in range(width)))
)");
    const test::Run run = test::run({"/usr/bin/python3", program, path});
    EXPECT_EQ(run.ending, 0) << run.output;
    return run.output;
  }
};

TEST_F(DebugPicture, IsAPngOfWhichEveryPixelIsANumber) {
  std::vector<float> numbers;
  for (int n = 0; n < 32; ++n) numbers.push_back(static_cast<float>(n % 16) * 17 - 255);
  numbers[3] = NAN;
  numbers[4] = INFINITY;
  numbers[5] = -INFINITY;
  const std::string path = folder_.path("tile.png");
  const test::Run run = show(numbers, "sbuf 0:2 0 f32 16 " + path);
  ASSERT_EQ(run.ending, 0) << run.output;
  EXPECT_THAT(run.output,
              HasSubstr(path + ": 16 x 2; black is -255, white 0, red NaN, blue infinite\n"));
  EXPECT_EQ(decoded(path),
            "16 2\n"
            "000000 111111 222222 ff0000 0000ff 0000ff 666666 777777 888888 999999 aaaaaa bbbbbb "
            "cccccc dddddd eeeeee ffffff\n"
            "000000 111111 222222 333333 444444 555555 666666 777777 888888 999999 aaaaaa bbbbbb "
            "cccccc dddddd eeeeee ffffff\n");
}

TEST_F(DebugPicture, SaysWhatATileWithoutANumberOrWithOneOnlyShows) {
  const test::Run nan = show(std::vector<float>(16, NAN), "sbuf 0 0 f32 16");
  EXPECT_THAT(nan.output, HasSubstr("\n????????????????\nno number is finite, ? NaN\n"));
  const test::Run infinite = show(std::vector<float>(16, INFINITY), "sbuf 0 0 f32 16");
  EXPECT_THAT(infinite.output, HasSubstr("!!!!\nno number is finite, ! infinite\n"));
  const test::Run same = show(std::vector<float>(16, 3), "sbuf 0 0 f32 16");
  EXPECT_THAT(same.output, HasSubstr("\n' ' is 3, the only finite number\n"));
  const std::string path = folder_.path("nan.png");
  const test::Run png = show(std::vector<float>(16, NAN), "sbuf 0 0 f32 16 " + path);
  EXPECT_THAT(png.output, HasSubstr("no number is finite, red NaN\n"));
  EXPECT_THAT(decoded(path), testing::StartsWith("16 1\nff0000 ff0000"));
}

TEST_F(DebugPicture, OfNumbersFarApartHasAllShades) {
  std::vector<float> numbers(16, 0);
  numbers[0] = -3.4e38f;
  numbers[15] = 3.4e38f;
  const test::Run run = show(numbers, "sbuf 0 0 f32 16");
  EXPECT_THAT(run.output, HasSubstr("\n ==============@\n' ' is -3.4e+38, '@' 3.4e+38\n"));
}

TEST_F(DebugPicture, ThatCannotBeWrittenIsAWrongCommand) {
  for (const auto& [path, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"/dev/full", "No space left"},
           {folder_.path("none/tile.png"), "No such file"},
           {folder_.path(), "is a directory"}}) {
    const test::Run run = show(std::vector<float>(16, 1), "sbuf 0 0 f32 16 " + path);
    EXPECT_EQ(run.ending, 1) << run.output;
    EXPECT_THAT(run.output, HasSubstr(sentence));
    EXPECT_THAT(run.output, HasSubstr("the execution has ended")) << "it goes on all the same";
  }
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
  EXPECT_THAT(run.output, HasSubstr("the execution is broken off"));
  EXPECT_THAT(run.output, Not(HasSubstr("failed"))) << "it is what was asked for";
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
