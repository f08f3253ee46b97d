// SPDX-License-Identifier: Apache-2.0
// neuron-run as a user calls it: arrays in, arrays out, and what it says of files that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <cstring>

#include "runtime/neff/npy_file.h"
#include "tests/support/daemon.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::run {
namespace {

using test::Folder;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tools::NpyArray;

const std::string kProgram = test::built("bin/neuron-run");

struct Said {
  test::Ending ending;
  std::string out, error;
};

class Run : public testing::Test {
 protected:
  Said run(const std::string& arguments, const test::Environment& more = {}) {
    return shell(kProgram + " " + arguments, more);
  }
  // A line of the shell whose folder is that of the test.
  Said shell(const std::string& line, const test::Environment& more = {}) {
    test::Environment environment{{"NEURON_EMULATOR", "trn1.2xlarge"}};
    for (const auto& [name, value] : more) environment[name] = value;
    const test::Run ended =
        test::shell("cd " + folder_.path() + " && { " + line + "; } >out 2>err", environment);
    return {ended.ending, folder_.read("out"), folder_.read("err") + ended.output};
  }
  void write(const std::string& name, const NpyArray& array) const {
    folder_.write(name, tools::write_npy(array));
  }
  NpyArray read(const std::string& name) const {
    auto array = tools::read_npy_file(folder_.path(name));
    EXPECT_TRUE(array) << (array ? "" : array.error().sentence);
    return array ? *array : NpyArray{};
  }
  bool exists(const std::string& name) const { return !folder_.read(name).empty(); }
  void keep(const std::string& name, const kernels::Neff& neff) const {
    ASSERT_TRUE(neff) << neff.error().sentence;
    folder_.write(name, *neff);
  }
  // sum = a + b, [4, 8] of float32.
  void make_sum() const { keep("sum.neff", kernels::tensor_add("sum", NEURON_DTYPE_F32, 4, 8)); }
  // Outputs that are their inputs: y of type `dtype` and z of int32.
  void make_copies(uint8_t dtype) const {
    builder::Program program("copies");
    const builder::Buffer x = program.input("x", dtype, {2, 3, 4});
    const builder::Buffer w = program.input("w", NEURON_DTYPE_I32, {5});
    const builder::Buffer y = program.output("y", dtype, {2, 3, 4});
    const builder::Buffer z = program.output("z", NEURON_DTYPE_I32, {5});
    program.dma(builder::Engine::kSp, y.all(), x.all());
    program.dma(builder::Engine::kPool, z.all(), w.all());
    keep("copies.neff", program.build());
  }
  static NpyArray floats(std::vector<uint64_t> shape, float first, float step) {
    NpyArray array{.type = "<f4", .shape = std::move(shape), .data = {}};
    array.data.resize(array.elements() * sizeof(float));
    for (size_t i = 0; i < array.elements(); ++i) {
      const float value = first + step * static_cast<float>(i);
      std::memcpy(array.data.data() + i * sizeof value, &value, sizeof value);
    }
    return array;
  }
  // Every byte another, as far as there are others.
  static NpyArray counted(const std::string& type, std::vector<uint64_t> shape, size_t item) {
    NpyArray array{.type = type, .shape = std::move(shape), .data = {}};
    array.data.resize(array.elements() * item);
    for (size_t i = 0; i < array.data.size(); ++i) array.data[i] = static_cast<uint8_t>(3 * i + 1);
    return array;
  }

  Folder folder_;
};

// One sentence on standard error, nothing on standard output.
void expect_refused(const Said& said, int status) {
  EXPECT_EQ(said.ending, status) << said.out << said.error;
  EXPECT_EQ(said.out, "");
  EXPECT_EQ(std::count(said.error.begin(), said.error.end(), '\n'), 1) << said.error;
  EXPECT_THAT(said.error, testing::StartsWith("neuron-run: "));
}

TEST_F(Run, AddsTwoArraysOfTheUserAndWritesTheSumAsAnArray) {
  make_sum();
  write("a.npy", floats({4, 8}, 0, 1));
  write("b.npy", floats({4, 8}, 100, -0.5F));
  const Said said = run("sum.neff --input a=a.npy -i b=b.npy --output sum=sum.npy");
  EXPECT_EQ(said.ending, 0) << said.error;
  EXPECT_EQ(said.error, "");
  EXPECT_THAT(said.out, AllOf(HasSubstr("EXECUTIONS"), HasSubstr("DEVICE TIME")));
  const NpyArray sum = read("sum.npy");
  const NpyArray expected = floats({4, 8}, 100, 0.5F);
  EXPECT_EQ(sum.type, "<f4");
  EXPECT_EQ(sum.shape, expected.shape);
  EXPECT_EQ(sum.data, expected.data);
}

TEST_F(Run, GivesEveryTypeBackBitForBitUnderItsNameOrAsItsBits) {
  const struct {
    uint8_t dtype;
    std::vector<std::string> read;
    std::string written;
  } cases[] = {{NEURON_DTYPE_F32, {"<f4"}, "<f4"},
               {NEURON_DTYPE_F32R, {"<f4"}, "<f4"},
               {NEURON_DTYPE_F16, {"<f2"}, "<f2"},
               {NEURON_DTYPE_BF16, {"<u2", "<V2", "|V2"}, "<u2"},
               {NEURON_DTYPE_F8E3, {"|u1", "|V1", "<f1"}, "|u1"},
               {NEURON_DTYPE_F8E4, {"|u1", "|V1", "<f1"}, "|u1"},
               {NEURON_DTYPE_F8E5, {"|u1", "|V1", "<f1"}, "|u1"},
               {NEURON_DTYPE_U8, {"|u1", "|b1"}, "|u1"},
               {NEURON_DTYPE_I8, {"|i1"}, "|i1"},
               {NEURON_DTYPE_U16, {"<u2"}, "<u2"},
               {NEURON_DTYPE_I16, {"<i2"}, "<i2"},
               {NEURON_DTYPE_U32, {"<u4"}, "<u4"},
               {NEURON_DTYPE_I32, {"<i4"}, "<i4"},
               {NEURON_DTYPE_U64, {"<u8"}, "<u8"},
               {NEURON_DTYPE_I64, {"<i8"}, "<i8"}};
  for (const auto& one : cases) {
    make_copies(one.dtype);
    for (const std::string& type : one.read) {
      SCOPED_TRACE(type + " as type " + std::to_string(one.dtype));
      const NpyArray x = counted(type, {2, 3, 4}, static_cast<size_t>(type[2] - '0'));
      write("x.npy", x);
      const Said said = run("copies.neff --random -i x=x.npy -o y=y.npy");
      ASSERT_EQ(said.ending, 0) << said.error;
      const NpyArray y = read("y.npy");
      EXPECT_EQ(y.type, one.written);
      EXPECT_EQ(y.shape, x.shape);
      EXPECT_EQ(y.data, x.data);
    }
  }
}

TEST_F(Run, TakesSeveralInputsAndWritesSeveralOutputsByTheirNames) {
  make_copies(NEURON_DTYPE_BF16);
  const NpyArray x = counted("<u2", {2, 3, 4}, 2), w = counted("<i4", {5}, 4);
  write("x.npy", x);
  write("w.npy", w);
  const Said said = run("copies.neff -i w=w.npy -i x=x.npy -o z=z.npy -o y=y.npy");
  ASSERT_EQ(said.ending, 0) << said.error;
  EXPECT_EQ(read("y.npy").data, x.data);
  EXPECT_EQ(read("z.npy").data, w.data);
}

TEST_F(Run, RefusesArraysThatDoNotFitAndSaysWhatIsFoundAndExpected) {
  make_sum();
  make_copies(NEURON_DTYPE_BF16);
  write("a.npy", floats({4, 8}, 0, 1));
  write("wide.npy", floats({8, 4}, 0, 1));
  write("short.npy", floats({3, 8}, 0, 1));
  write("double.npy", counted("<f8", {4, 8}, 8));
  write("single.npy", floats({2, 3, 4}, 0, 1));
  const auto says = [&](const std::string& arguments, const std::vector<std::string>& parts) {
    const Said said = run(arguments + " --random -o sum=never.npy");
    expect_refused(said, 1);
    for (const std::string& part : parts) EXPECT_THAT(said.error, HasSubstr(part));
    EXPECT_FALSE(exists("never.npy"));
  };
  says("sum.neff -i a=wide.npy",
       {"wide.npy", "input a of sum.neff", "the shape is [8, 4], expected [4, 8]",
        "numpy.ascontiguousarray(array.T)"});
  says("sum.neff -i a=short.npy", {"short.npy", "the shape is [3, 8], expected [4, 8]"});
  says("sum.neff -i a=double.npy",
       {"double.npy", "<f8 (float64), expected <f4 (float32)", "astype(\"f4\")"});
  says("sum.neff -i c=a.npy", {"a.npy", "no input c", "a (float32 [4, 8]), b (float32 [4, 8])"});
  const Said said = run("copies.neff -i x=single.npy --random");
  expect_refused(said, 1);
  EXPECT_THAT(said.error, AllOf(HasSubstr("single.npy"), HasSubstr("<f4 (float32), expected <u2"),
                                HasSubstr("the bits of bfloat16"), Not(HasSubstr("astype"))));
}

TEST_F(Run, RefusesAnOutputThatTheModelDoesNotHaveBeforeItExecutes) {
  make_sum();
  const Said said = run("sum.neff --random -o sum=sum.npy -o total=total.npy");
  expect_refused(said, 1);
  EXPECT_THAT(said.error, AllOf(HasSubstr("total.npy"), HasSubstr("no output total"),
                                HasSubstr("sum (float32 [4, 8])")));
  EXPECT_FALSE(exists("sum.npy"));
}

TEST_F(Run, NamesTheFileThatIsTruncatedOrNoArrayOrMissing) {
  make_sum();
  const std::vector<uint8_t> whole = tools::write_npy(floats({4, 8}, 0, 1));
  for (const size_t size : {size_t{0}, size_t{5}, size_t{9}, size_t{40}, whole.size() - 1}) {
    folder_.write("a.npy", std::span(whole).first(size));
    const Said said = run("sum.neff --random -i a=a.npy");
    expect_refused(said, 1);
    EXPECT_THAT(said.error, AllOf(HasSubstr("a.npy"), HasSubstr("input a"), HasSubstr("npy")));
  }
  folder_.write("a.npy", "a,b\n1,2\n");
  Said said = run("sum.neff --random -i a=a.npy");
  expect_refused(said, 1);
  EXPECT_THAT(said.error, AllOf(HasSubstr("a.npy"), HasSubstr("no .npy file")));
  said = run("sum.neff --random -i a=nowhere.npy");
  expect_refused(said, 1);
  EXPECT_THAT(said.error, AllOf(HasSubstr("nowhere.npy"), HasSubstr("No such file")));
  said = run("nowhere.neff --random");
  expect_refused(said, 1);
  EXPECT_THAT(said.error, AllOf(HasSubstr("nowhere.neff"), HasSubstr("No such file")));
  folder_.write("text.neff", "no NEFF at all");
  said = run("text.neff --random");
  expect_refused(said, 1);
  EXPECT_THAT(said.error, HasSubstr("text.neff"));
}

TEST_F(Run, SaysWhichProgramTakesAFileThatIsNotForIt) {
  folder_.write("model.onnx", "\x08\x08");
  Said said = run("model.onnx --random");
  expect_refused(said, 1);
  EXPECT_THAT(said.error, HasSubstr("; neuron-compile makes a NEFF of an ONNX model\n"));
  folder_.write("empty.neff", "");
  said = run("empty.neff --random");
  expect_refused(said, 1);
  EXPECT_THAT(said.error, HasSubstr("empty.neff is empty; expected a NEFF\n"));
  const std::string text = test::source("tools/neuron-as/examples/all_reduce.s");
  ASSERT_EQ(shell(test::built("bin/neuron-as") + " " + text + " -o ranks.neff").ending, 0);
  said = run("ranks.neff --random");
  expect_refused(said, 1);
  EXPECT_THAT(said.error, HasSubstr("neuron-profile capture -r RANKS does so"));
  EXPECT_EQ(shell(test::built("bin/neuron-profile") + " capture -n ranks.neff -r 2").ending, 0);
}

TEST_F(Run, NamesAnInputThatHasNoFile) {
  make_sum();
  write("a.npy", floats({4, 8}, 0, 1));
  const Said said = run("sum.neff -i a=a.npy -o sum=sum.npy");
  expect_refused(said, 1);
  EXPECT_THAT(said.error, AllOf(HasSubstr("input b of sum.neff (float32 [4, 8])"),
                                HasSubstr("--input b=FILE.npy"), HasSubstr("--random")));
  EXPECT_FALSE(exists("sum.npy"));
}

TEST_F(Run, SaysThatTheDiskIsFullAndLeavesNoHalfAnArray) {
  keep("sum.neff", kernels::tensor_add("sum", NEURON_DTYPE_F32, 128, 256));
  Said said = run("sum.neff --random -o sum=/dev/full");
  expect_refused(said, 1);
  EXPECT_THAT(said.error, AllOf(HasSubstr("output sum"), HasSubstr("/dev/full"),
                                HasSubstr("No space left on device")));
  // The memory of a chip within the process is a file, too; that of a daemon is not this process's.
  const test::Daemon daemon(folder_);
  said = shell("ulimit -f 8; trap '' XFSZ; " + kProgram + " sum.neff --random -o sum=sum.npy",
               {{"NEURON_EMULATOR", daemon.emulator()}});
  expect_refused(said, 1);
  EXPECT_THAT(said.error, HasSubstr("sum.npy"));
  EXPECT_FALSE(exists("sum.npy"));
  said = run("sum.neff --random -o sum=nowhere/sum.npy");
  expect_refused(said, 1);
  EXPECT_THAT(said.error, AllOf(HasSubstr("nowhere/sum.npy"), HasSubstr("No such file")));
  said = shell(kProgram + " sum.neff --random >/dev/full");
  EXPECT_EQ(said.ending, 1);
  EXPECT_THAT(said.error, HasSubstr("cannot write to standard output: No space left on device"));
}

TEST_F(Run, SaysThatAnOutputHasNoFolderBeforeItExecutesAnything) {
  make_sum();
  // As often as this it would execute for minutes.
  const Said said = run("sum.neff --random --repeat 100000000 -o sum=none/sum.npy");
  expect_refused(said, 1);
  EXPECT_THAT(said.error, HasSubstr("output sum: cannot write none/sum.npy: No such file"));
}

TEST_F(Run, MakesTheSameNumbersOfTheSameSeedAndKeepsThemOnRequest) {
  make_sum();
  const auto sum_of = [&](const std::string& options) {
    const Said said = run("sum.neff --random -o sum=sum.npy -o a=a.npy -o b=b.npy " + options);
    EXPECT_EQ(said.ending, 0) << said.error;
    return read("sum.npy").data;
  };
  const std::vector<uint8_t> first = sum_of("");
  EXPECT_EQ(sum_of("--seed 0"), first);
  EXPECT_NE(sum_of("--seed 1"), first);
  const NpyArray a = read("a.npy"), b = read("b.npy"), sum = read("sum.npy");
  EXPECT_NE(a.data, b.data);
  for (size_t i = 0; i < sum.elements(); ++i) {
    float left = 0, right = 0, total = 0;
    std::memcpy(&left, a.data.data() + 4 * i, 4);
    std::memcpy(&right, b.data.data() + 4 * i, 4);
    std::memcpy(&total, sum.data.data() + 4 * i, 4);
    EXPECT_EQ(total, left + right);
    EXPECT_GE(std::abs(left), 1.0F / 16);
    EXPECT_LT(std::abs(left), 1);
  }
}

TEST_F(Run, RepeatsTheExecutionAndReportsItsTimes) {
  make_sum();
  const Said said = run("sum.neff --random --repeat 7 --format json");
  ASSERT_EQ(said.ending, 0) << said.error;
  const boost::json::value report = boost::json::parse(said.out);
  EXPECT_EQ(report.at("schema").as_string(), "neuron-run");
  EXPECT_EQ(report.at("instance_type").as_string(), "trn1.2xlarge");
  const boost::json::value& times = report.at("runs").at(0);
  EXPECT_EQ(times.at("executions").to_number<int>(), 7);
  EXPECT_GT(times.at("device_time_p50_us").to_number<double>(), 0);
  EXPECT_GE(times.at("host_time_p99_us").to_number<double>(),
            times.at("host_time_p50_us").to_number<double>());
}

TEST_F(Run, RefusesWordsThatAreNoWishes) {
  make_sum();
  for (const std::string arguments :
       {"", "sum.neff --input a", "sum.neff --input =a.npy", "sum.neff --input a=",
        "sum.neff --repeat 0 --random", "sum.neff --random --seed x", "sum.neff --nothing",
        "sum.neff -i a=1.npy -i a=2.npy", "sum.neff --random -o sum=s.npy -o sum=t.npy",
        "sum.neff --random -o sum=s.npy -o a=s.npy", "sum.neff --format xml"}) {
    const Said said = run(arguments);
    EXPECT_EQ(said.ending, 2) << arguments;
    EXPECT_EQ(said.out, "") << arguments;
    EXPECT_NE(said.error, "") << arguments;
  }
}

TEST_F(Run, TakesAFreeCoreAndLeavesTheOthersToOtherProcesses) {
  make_sum();
  const test::Daemon daemon(folder_);
  const test::Environment shared{{"NEURON_EMULATOR", daemon.emulator()}};
  test::Worker first(folder_, daemon.emulator(), 0, "tensor_add.neff");
  ASSERT_EQ(first.line(), "ready");
  Said said = run("sum.neff --random", shared);
  EXPECT_EQ(said.ending, 0) << said.error;
  test::Worker second(folder_, daemon.emulator(), 1, "tensor_add.neff");
  ASSERT_EQ(second.line(), "ready") << second.log();
  said = run("sum.neff --random", shared);
  expect_refused(said, 4);
  EXPECT_THAT(said.error, HasSubstr("held by pid "));
}

TEST_F(Run, NamesAVariableOfTheEnvironmentThatNothingReads) {
  make_sum();
  const test::Environment misspelt{{"NEURON_RT_VISIBEL_CORES", "0"}};
  const std::string sentence =
      "neuron-run: no part of this runtime reads the environment variable NEURON_RT_VISIBEL_CORES; "
      "is NEURON_RT_VISIBLE_CORES meant?\n";
  Said said = run("sum.neff --random", misspelt);
  EXPECT_EQ(said.ending, 0) << said.error;
  EXPECT_EQ(said.error, sentence);
  said = run("sum.neff --random",
             {{"NEURON_RT_VISIBEL_CORES", "0"}, {"NEURON_RT_LOG_LEVEL", "ERROR"}});
  EXPECT_EQ(said.error, "");
}

TEST_F(Run, ShowsOnceWhatFailsAndAllThatOnlyTheRuntimeKnows) {
  make_sum();
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  for (const char* level : {"", "ERROR", "WARN"}) {
    // A session that cannot begin does not fail the run.
    const test::Environment inspected{{"NEURON_RT_INSPECT_ENABLE", "1"},
                                      {"NEURON_RT_INSPECT_OUTPUT_DIR", "/dev/full/inspected"},
                                      {"NEURON_RT_LOG_LEVEL", level}};
    for (const std::string& program :
         {kProgram + " sum.neff --random",
          test::built("bin/neuron-bench") + " exec -n 1 -w none sum.neff --fixed-nc-count 1"}) {
      const Said said = shell(program, inspected);
      EXPECT_EQ(said.ending, 0) << said.error;
      EXPECT_THAT(said.error, AllOf(HasSubstr(" ERROR NRT "), HasSubstr("/dev/full/inspected")))
          << program << level;
    }
    const Said refused = run("none.neff --random", {{"NEURON_RT_LOG_LEVEL", level}});
    EXPECT_EQ(lines(refused.error), 1) << level << refused.error;
  }
  // Where its files cannot be written the run is over, and nothing is lost without a word.
  const test::Daemon daemon(folder_);
  const Said said = shell("{ (ulimit -f 0; trap '' XFSZ; exec " + kProgram +
                              " sum.neff --random 2>&1 >/dev/null) | cat; } >&2",
                          {{"NEURON_EMULATOR", daemon.emulator()},
                           {"NEURON_RT_INSPECT_ENABLE", "1"},
                           {"NEURON_RT_INSPECT_OUTPUT_DIR", folder_.path("inspected")}});
  EXPECT_THAT(said.error, HasSubstr("File too large"));
  const Said quiet = run("sum.neff --random", {{"NEURON_RT_INSPECT_ENABLE", "1"},
                                               {"NEURON_RT_INSPECT_OUTPUT_DIR", "/dev/full/x"},
                                               {"NEURON_RT_LOG_LEVEL_NRT", "QUIET"}});
  EXPECT_EQ(quiet.error, "") << "whoever chooses a level gets it";
}

TEST_F(Run, OfBenchTakesOneCoreWhenOneIsAskedFor) {
  const test::Daemon daemon(folder_);
  test::Worker holder(folder_, daemon.emulator(), 0, "tensor_add.neff");
  ASSERT_EQ(holder.line(), "ready") << holder.log();
  const std::string bench = test::built("bin/neuron-bench"),
                    exec = bench + " exec -n 2 -w none " + test::built("neff/tensor_add.neff");
  const test::Environment shared{{"NEURON_EMULATOR", daemon.emulator()}};
  for (const std::string& line : {exec + " --fixed-nc-count 1", exec + " --enable-only-latency",
                                  bench + " matmul --types bf16 --sizes 512 -n 1"}) {
    const Said said = shell(line, shared);
    EXPECT_EQ(said.ending, 0) << line << said.error;
  }
  Said said = shell(exec, shared);
  EXPECT_EQ(said.ending, 4) << "it uses all cores";
  said = shell(exec + " --fixed-nc-count 3", shared);
  EXPECT_EQ(said.ending, 4) << said.error;
  // Of those that the environment names.
  said = shell(exec + " --fixed-nc-count 1",
               {{"NEURON_EMULATOR", daemon.emulator()}, {"NEURON_RT_VISIBLE_CORES", "1"}});
  EXPECT_EQ(said.ending, 0) << said.error;
  said = shell(exec + " --fixed-nc-count 1",
               {{"NEURON_EMULATOR", daemon.emulator()}, {"NEURON_RT_VISIBLE_CORES", "0-1"}});
  EXPECT_EQ(said.ending, 4) << "core 0 is the first of these, and held";
}

}  // namespace
}  // namespace neuron::run
