// SPDX-License-Identifier: Apache-2.0
// Custom C++ operators: from their sources through a NEFF to values, model time and faults.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>
#include <thread>

#include "tests/support/daemon.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/system/api/support.h"
#include "tools/compiler/program_builder/custom_call.h"

namespace neuron::test {
namespace {

using ::testing::AllOf;

// A library, compiled once for all tests.
const std::string& library(const std::string& name, bool multicore = false) {
  static const Folder folder;
  static std::map<std::string, std::string> built_ones;
  std::string& path = built_ones[name];
  if (!path.empty()) return path;
  const std::string sources = source("tests/system/api/operators/");
  const std::string shape = name == "compute" ? "shape.cpp" : name + "_shape.cpp";
  Words command = {built("bin/neuron-operator"),
                   "build",
                   "--compute",
                   sources + name + ".cpp",
                   "--shape",
                   sources + shape,
                   "-o",
                   folder.path(name)};
  if (multicore) command.emplace_back("--multicore");
  const Run done = run(command, {}, std::chrono::minutes(3));
  EXPECT_EQ(done.ending, 0) << done.output;
  return path = folder.path(name);
}

// A NEFF of one call.
Bytes call_of(const std::string& library, const std::string& name, const Words& arguments) {
  const Folder folder;
  Words command = {built("bin/neuron-operator"), "neff", library, name};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(), {"-o", folder.path("call.neff")});
  const Run done = run(command);
  EXPECT_EQ(done.ending, 0) << done.output;
  const std::string text = folder.read("call.neff");
  return {text.begin(), text.end()};
}

template <class T>
void write(Loaded& model, const std::string& name, const std::vector<T>& values) {
  EXPECT_EQ(nrt_tensor_write(model.tensors[name], values.data(), 0, values.size() * sizeof(T)),
            NRT_SUCCESS)
      << nrt_open_last_error();
}

template <class T>
std::vector<T> read(Loaded& model, const std::string& name) {
  const Bytes bytes = contents(model.tensors[name]);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<float> floats(size_t count, uint32_t state) {
  std::vector<float> values(count);
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(state)) / 1048576.0f;
  }
  return values;
}

uint64_t model_time(Loaded& model) {
  nrt_open_execution_report_t report{};
  report.size = sizeof(report);
  EXPECT_EQ(nrt_open_get_execution_report(model.model, &report), NRT_SUCCESS);
  return report.device_ps;
}

class CustomOperators : public RuntimeTest {
 private:
  Setting allowed_{"NEURON_EMULATOR_CUSTOM_OPERATORS", "1"};
  Setting patience_{"NEURON_EMULATOR_CUSTOM_OPERATOR_SECONDS", "2"};
};

TEST_F(CustomOperators, AnElementAccessorComputesRelu) {
  Loaded model(call_of(library("compute"), "relu", {"f32[37,65]"}));
  const std::vector<float> x = floats(37 * 65, 1);
  write(model, "input0", x);
  ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  const std::vector<float> y = model.floats("output0");
  for (size_t n = 0; n < x.size(); ++n) EXPECT_EQ(y[n], x[n] > 0 ? x[n] : 0.0f) << n;
}

TEST_F(CustomOperators, ATcmAccessorNegatesMoreThanTcmHolds) {
  Loaded model(call_of(library("compute"), "negate", {"f32[100,777]"}));
  const std::vector<float> x = floats(77700, 2);
  write(model, "input0", x);
  ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  const std::vector<float> y = model.floats("output0");
  for (size_t n = 0; n < x.size(); ++n) EXPECT_EQ(y[n], -x[n]) << n;
}

TEST_F(CustomOperators, StreamsAddTwoTensors) {
  Loaded model(call_of(library("compute"), "add", {"f32[5000]", "f32[5000]"}));
  const std::vector<float> a = floats(5000, 3), b = floats(5000, 4);
  write(model, "input0", a);
  write(model, "input1", b);
  ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  const std::vector<float> y = model.floats("output0");
  for (size_t n = 0; n < a.size(); ++n) EXPECT_EQ(y[n], a[n] + b[n]) << n;
}

TEST_F(CustomOperators, NumbersAreArguments) {
  Loaded model(call_of(library("compute"), "polynomial", {"f32[64]", "0.5", "7", "2"}));
  std::vector<float> x(64);
  for (size_t n = 0; n < x.size(); ++n) x[n] = static_cast<float>(n);
  write(model, "input0", x);
  ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  const std::vector<float> y = model.floats("output0");
  for (size_t n = 0; n < x.size(); ++n) EXPECT_EQ(y[n], x[n] * x[n] * 0.5f + 7.0f) << n;
}

TEST_F(CustomOperators, EachOfEightCoresWritesItsPart) {
  Loaded model(call_of(library("multicore", true), "parts", {"i32[800]"}));
  std::vector<int32_t> x(800);
  for (size_t n = 0; n < x.size(); ++n) x[n] = static_cast<int32_t>(n);
  write(model, "input0", x);
  ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  const auto y = read<int32_t>(model, "output0");
  for (size_t n = 0; n < x.size(); ++n) EXPECT_EQ(y[n], x[n] * 10 + static_cast<int32_t>(n / 100));
}

TEST_F(CustomOperators, OfAllCoresMayNotUseElementAccessors) {
  Loaded model(call_of(library("multicore", true), "element", {"i32[8]"}));
  EXPECT_EQ(model.run(), NRT_EXEC_COMPLETED_WITH_ERR);
  EXPECT_THAT(nrt_open_last_error(),
              AllOf(HasSubstr("with CUSTOM_OPERATOR at Pool pc"), HasSubstr("operator 'element'"),
                    HasSubstr("GpSimd core 0"), HasSubstr("TCM accessors")));
}

TEST_F(CustomOperators, TakeTheSameModelTimeAtEachRunAndLongerByElementsThanByTcm) {
  Loaded relu(call_of(library("compute"), "relu", {"f32[64,256]"}));
  Loaded negate(call_of(library("compute"), "negate", {"f32[64,256]"}));
  std::map<std::string, uint64_t> times;
  for (auto* model : {&relu, &negate}) {
    write(*model, "input0", floats(64 * 256, 5));
    ASSERT_EQ(model->run(), NRT_SUCCESS);  // the first one also tells the queues of the tensors
    uint64_t first = 0;
    for (int run = 0; run < 5; ++run) {
      ASSERT_EQ(model->run(), NRT_SUCCESS) << nrt_open_last_error();
      const uint64_t time = model_time(*model);
      if (run == 0) first = time;
      EXPECT_EQ(time, first) << "run " << run;
    }
    times[model == &relu ? "relu" : "negate"] = first;
  }
  // At least 100 cycles of 1.4 GHz for each element that is read and each that is written.
  EXPECT_GT(times["relu"], 64u * 256 * 2 * 100 * 5000 / 7);
  EXPECT_LT(times["negate"], times["relu"] / 10);
}

std::atomic<int> children_ended = 0;

TEST_F(CustomOperators, DisturbNeitherTheHostsSignalsNorItsFiles) {
  Loaded model(call_of(library("compute"), "relu", {"f32[2,3]"}));
  write(model, "input0", floats(6, 6));
  ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  const auto open_files = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  struct sigaction count {
  }, before{};
  count.sa_handler = [](int) { ++children_ended; };
  sigaction(SIGCHLD, &count, &before);
  const auto files = open_files();
  for (int run = 0; run < 3; ++run) EXPECT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(open_files(), files);
  sigaction(SIGCHLD, &before, nullptr);
  EXPECT_EQ(children_ended, 0);
}

TEST_F(CustomOperators, OfTwoCoresRunAtTheSameTime) {
  const Bytes neff = call_of(library("compute"), "add", {"f32[3000]", "f32[3000]"});
  std::vector<std::thread> threads;
  for (int core = 0; core < 2; ++core) {
    threads.emplace_back([&neff, core] {
      Loaded model(neff, core);
      const std::vector<float> a = floats(3000, 10 + core), b = floats(3000, 20);
      write(model, "input0", a);
      write(model, "input1", b);
      for (int run = 0; run < 5; ++run) {
        ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
        const std::vector<float> y = model.floats("output0");
        for (size_t n = 0; n < a.size(); ++n) ASSERT_EQ(y[n], a[n] + b[n]) << n;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CustomOperators, PrintOnStandardErrorWhenTheyAreAskedTo) {
  nrt_close();
  const Setting prints("NEURON_RT_GPSIMD_STDOUT_QUEUE_SIZE_BYTES", "131072");
  init();
  Loaded model(call_of(library("compute"), "talk", {"i32[3]"}));
  write(model, "input0", std::vector<int32_t>{4, 5, 6});
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("operator talk, GpSimd core 0:"), HasSubstr("element 2 becomes 7\n")));
}

TEST_F(CustomOperators, AreLoadedFromANeffOfTheAssemblersAsWell) {
  const Folder folder;
  const Bytes neff = call_of(library("compute"), "relu", {"f32[2,3]"});
  folder.write("call.neff", neff);
  const auto text =
      run({built("bin/neuron-as"), "-d", folder.path("call.neff"), "-o", folder.path("call.s")});
  ASSERT_EQ(text.ending, 0) << text.output;
  EXPECT_THAT(folder.read("call.s"), HasSubstr("custom_operator at=&relu"));
  const auto again =
      run({built("bin/neuron-as"), folder.path("call.s"), "-o", folder.path("again.neff")});
  ASSERT_EQ(again.ending, 0) << again.output;
  const std::string bytes = folder.read("again.neff");
  EXPECT_EQ(Bytes(bytes.begin(), bytes.end()), neff);
}

TEST_F(CustomOperators, AreCalledByATextOfTheAssembler) {
  const Folder folder;
  folder.write("call.s",
               ".target trn1\n"
               ".sem there, done, out\n"
               ".var x : f32 [4, 8] input\n"
               ".var y : f32 [4, 8] output\n"
               ".var from : f32 [4, 8] tmp-buf\n"
               ".var to : f32 [4, 8] tmp-buf\n"
               ".operator call = \"" +
                   library("compute") +
                   "\" (from f32 [4, 8], double "
                   "0.25, int64 -3, scalar 2.0) -> to f32 [4, 8], name=polynomial\n"
                   ".queue q_in = in, engines=16, owner=SP\n"
                   ".queue q_out = out, engines=16, owner=SP\n"
                   ".engine SP\n"
                   ".dma 0 : x [128] -> from [128], queue=q_in, semaphore=there\n"
                   ".dma 1 : to [128] -> y [128], queue=q_out, semaphore=out\n"
                   "main: dma_trigger 0\n"
                   "dma_trigger 1  wait(done >= 1)\n"
                   "event  wait(out >= 16)\n"
                   "ret\n"
                   ".engine Pool\n"
                   "main: custom_operator at=&call  wait(there >= 16)  then(done++)\n"
                   "ret\n");
  const auto done =
      run({built("bin/neuron-as"), folder.path("call.s"), "-o", folder.path("call.neff")});
  ASSERT_EQ(done.ending, 0) << done.output;
  const std::string bytes = folder.read("call.neff");
  Loaded model(Bytes(bytes.begin(), bytes.end()));
  std::vector<float> x(32);
  for (size_t n = 0; n < x.size(); ++n) x[n] = static_cast<float>(n);
  write(model, "x", x);
  ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  const std::vector<float> y = model.floats("y");
  for (size_t n = 0; n < x.size(); ++n) EXPECT_EQ(y[n], x[n] * x[n] * 0.25f - 3.0f) << n;
}

// The same operators, built for the later chips and run there, on a logical core of one physical.
struct LaterChip {
  const char* profile;
  const char* target;
};
void PrintTo(const LaterChip& chip, std::ostream* out) { *out << chip.profile; }

class CustomOperatorsOfLaterChips : public CustomOperators,
                                    public ::testing::WithParamInterface<LaterChip> {
 protected:
  static Bytes call_here(const std::string& library, const std::string& name, Words arguments) {
    arguments.insert(arguments.end(), {"--target", GetParam().target});
    return call_of(library, name, arguments);
  }

 private:
  Setting chip_{"NEURON_EMULATOR", GetParam().profile};
  Setting cores_{"NEURON_LOGICAL_NC_CONFIG", "1"};
};

TEST_P(CustomOperatorsOfLaterChips, ComputeTheSameByElementsStreamsAndCores) {
  Loaded relu(call_here(library("compute"), "relu", {"f32[37,65]"}));
  const std::vector<float> x = floats(37 * 65, 1);
  write(relu, "input0", x);
  ASSERT_EQ(relu.run(), NRT_SUCCESS) << nrt_open_last_error();
  const std::vector<float> y = relu.floats("output0");
  for (size_t n = 0; n < x.size(); ++n) EXPECT_EQ(y[n], x[n] > 0 ? x[n] : 0.0f) << n;

  Loaded add(call_here(library("compute"), "add", {"f32[5000]", "f32[5000]"}));
  const std::vector<float> a = floats(5000, 3), b = floats(5000, 4);
  write(add, "input0", a);
  write(add, "input1", b);
  ASSERT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
  const std::vector<float> sum = add.floats("output0");
  for (size_t n = 0; n < a.size(); ++n) EXPECT_EQ(sum[n], a[n] + b[n]) << n;

  Loaded parts(call_here(library("multicore", true), "parts", {"i32[800]"}));
  std::vector<int32_t> of_core(800);
  for (size_t n = 0; n < of_core.size(); ++n) of_core[n] = static_cast<int32_t>(n);
  write(parts, "input0", of_core);
  ASSERT_EQ(parts.run(), NRT_SUCCESS) << nrt_open_last_error();
  const auto written = read<int32_t>(parts, "output0");
  for (size_t n = 0; n < of_core.size(); ++n) {
    EXPECT_EQ(written[n], of_core[n] * 10 + static_cast<int32_t>(n / 100));
  }
}

INSTANTIATE_TEST_SUITE_P(Chips, CustomOperatorsOfLaterChips,
                         ::testing::Values(LaterChip{"trn2.3xlarge", "trn2"},
                                           LaterChip{"trn3pd98.3xlarge", "trn3"}));

class ForbiddenOperators : public RuntimeTest {
 private:
  Setting forbidden_{"NEURON_EMULATOR_CUSTOM_OPERATORS", "0"};
};

TEST_F(ForbiddenOperators, EndInASentenceThatNamesTheVariable) {
  Loaded model(call_of(library("compute"), "relu", {"f32[2,2]"}));
  EXPECT_EQ(model.run(), NRT_EXEC_COMPLETED_WITH_ERR);
  EXPECT_THAT(nrt_open_last_error(),
              AllOf(HasSubstr("NEURON_EMULATOR_CUSTOM_OPERATORS=1"), HasSubstr("operator 'relu'"),
                    HasSubstr("carries a program for this host")));
}

// A daemon runs operators if it was started with --custom-operators; the client's own variable says
// nothing.
class OperatorsOfADaemon : public ::testing::Test {
 protected:
  static NRT_STATUS run_on(const Daemon& daemon, std::vector<float>& result) {
    const Setting emulator("NEURON_EMULATOR", daemon.emulator().c_str());
    const Setting quiet("NEURON_RT_LOG_LEVEL", "QUIET");
    const Setting ours("NEURON_EMULATOR_CUSTOM_OPERATORS", "1");
    EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS) << nrt_open_last_error();
    NRT_STATUS status;
    {
      Loaded model(call_of(library("compute"), "negate", {"f32[16]"}));
      model.fill("input0", 2.5f);
      status = model.run();
      if (status == NRT_SUCCESS) result = model.floats("output0");
    }
    nrt_close();
    return status;
  }
};

TEST_F(OperatorsOfADaemon, RunWhereTheDaemonAllowsThem) {
  const Folder folder;
  const Daemon daemon(folder, "trn1.2xlarge", {.arguments = {"--custom-operators"}});
  std::vector<float> result;
  ASSERT_EQ(run_on(daemon, result), NRT_SUCCESS) << nrt_open_last_error() << daemon.log();
  EXPECT_EQ(result, std::vector<float>(16, -2.5f));
}

TEST_F(OperatorsOfADaemon, AreRefusedWhereItDoesNot) {
  const Folder folder;
  const Daemon daemon(folder);
  std::vector<float> result;
  EXPECT_EQ(run_on(daemon, result), NRT_EXEC_COMPLETED_WITH_ERR);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("--custom-operators"));
}

// As tests/system/api/operators/hostile.cpp numbers them.
struct Deed {
  int number;
  const char* name;
  const char* words;  // of the sentence
};
void PrintTo(const Deed& deed, std::ostream* out) { *out << deed.name; }

// The deed's numbers: what is done, and to whom a signal goes.
std::vector<int32_t> numbers_of(const Deed& deed, pid_t host) {
  std::vector<int32_t> numbers(16, 40);
  numbers[0] = deed.number;
  numbers[2] = host;
  return numbers;
}

std::atomic<int> signals_to_the_host = 0;

class HostileOperator : public CustomOperators, public ::testing::WithParamInterface<Deed> {
 protected:
  // Nothing that an operator sends arrives here.
  HostileOperator() {
    struct sigaction count {};
    count.sa_handler = [](int) { ++signals_to_the_host; };
    sigaction(SIGTERM, &count, &before_);
    signals_to_the_host = 0;
  }
  ~HostileOperator() override { sigaction(SIGTERM, &before_, nullptr); }
  // The other core of the chip, at work.
  static void expect_neighbour_works(Loaded& neighbour) {
    neighbour.fill("a", 1.5f);
    neighbour.fill("b", 2.0f);
    EXPECT_EQ(neighbour.run(), NRT_SUCCESS) << nrt_open_last_error();
    for (const float value : neighbour.floats("sum")) EXPECT_EQ(value, 3.5f);
  }

 private:
  struct sigaction before_ {};
};

TEST_P(HostileOperator, EndsInANamedFaultOfItsCoreAndNothingElse) {
  Loaded neighbour(small_add(), 1);
  Loaded model(call_of(library("hostile"), "deed", {"i32[16]"}));
  const std::vector<int32_t> before(16, -1);
  write(model, "output0", before);
  std::vector<int32_t> deed = numbers_of(GetParam(), getpid());
  write(model, "input0", deed);
  EXPECT_EQ(model.run(), NRT_EXEC_COMPLETED_WITH_ERR);
  EXPECT_THAT(nrt_open_last_error(),
              AllOf(HasSubstr("failed on device 0 core 0 with CUSTOM_OPERATOR at Pool pc"),
                    HasSubstr("operator 'deed' on GpSimd core 0"), HasSubstr(GetParam().words)));
  EXPECT_EQ(read<int32_t>(model, "output0"), before);
  // No process is left, and none was a child that this one could meet.
  int status = 0;
  EXPECT_EQ(waitpid(-1, &status, WNOHANG), -1);
  EXPECT_EQ(waitpid(-1, &status, WNOHANG | __WALL), -1);
  EXPECT_EQ(signals_to_the_host, 0);
  expect_neighbour_works(neighbour);
  // The core works again.
  deed[0] = 0;
  write(model, "input0", deed);
  ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(read<int32_t>(model, "output0")[1], 41);
}

INSTANTIATE_TEST_SUITE_P(
    Deeds, HostileOperator,
    ::testing::Values(
        Deed{1, "Loop", "had not ended after 2000 ms"},
        Deed{20, "LoopThatIgnoresSignals", "had not ended after 2000 ms"},
        Deed{2, "WildWrite", "signal 11 (SIGSEGV) for an access of address ...deadbee0"},
        Deed{3, "WriteOfAnInput", "signal 11 (SIGSEGV)"}, Deed{4, "Fork", "found system call 56"},
        Deed{5, "Thread", "found system call 56"},
        Deed{6, "OneGibibyte", "an allocation of 1024 MiB"},
        Deed{7, "SignalToTheHost", "found system call 62"},
        Deed{8, "SignalToItself", "signal 15 (SIGTERM)"},
        Deed{9, "ExitWithoutResult", "exit status 0"}, Deed{10, "File", "found system call 257"},
        Deed{11, "Socket", "found system call 41"}, Deed{12, "Program", "found system call 59"},
        Deed{13, "ElementBeyondTheTensor", "element 16 in an accessor"},
        Deed{14, "Exception", "an exception that nobody caught"},
        Deed{15, "Assertion", "its assertion in line"}, Deed{16, "Stack", "signal 11 (SIGSEGV)"},
        Deed{17, "Ptrace", "found system call 101"},
        Deed{18, "ShorterFile", "found system call 77"}, Deed{19, "Division", "signal 8 (SIGFPE)"},
        Deed{21, "TransferBeyondTheTensor", "element 16 in an accessor"},
        Deed{22, "WrongType", "another element type"}, Deed{23, "FreeTwice", "byte 0 of TCM"}),
    [](const auto& info) { return info.param.name; });

// The same at a daemon, where a second process computes on the other core meanwhile: each of its
// values is right, in the same model time, however often the deed is done.
class HostileOperatorOfADaemon : public ::testing::TestWithParam<Deed> {
 protected:
  static Environment of_core(const Daemon& daemon, const char* core) {
    return {{"NEURON_EMULATOR", daemon.emulator()},
            {"NEURON_RT_VISIBLE_CORES", core},
            {"NEURON_RT_LOG_LEVEL", "QUIET"}};
  }
};

TEST_P(HostileOperatorOfADaemon, ChangesNothingForAClientThatComputesMeanwhile) {
  constexpr uint64_t kMeanwhile = 30;
  const Folder folder;
  const Setting patience("NEURON_EMULATOR_CUSTOM_OPERATOR_SECONDS", "2");
  Daemon daemon(folder, "trn1.2xlarge", {.arguments = {"--custom-operators"}});
  Process neighbour({built("tests/api-other-process"), "neighbour"}, of_core(daemon, "1"));
  ASSERT_EQ(neighbour.line(), "ready");
  std::vector<std::unique_ptr<Setting>> settings;
  for (const auto& [name, value] : of_core(daemon, "0")) {
    settings.push_back(std::make_unique<Setting>(name.c_str(), value->c_str()));
  }
  ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS) << nrt_open_last_error();
  {
    Loaded model(call_of(library("hostile"), "deed", {"i32[16]"}));
    const std::vector<int32_t> before(16, -1);
    write(model, "output0", before);
    std::vector<int32_t> deed = numbers_of(GetParam(), daemon.process().pid());
    write(model, "input0", deed);
    const uint64_t first = std::stoull("0" + neighbour.ask("count"));
    uint64_t now = first;
    for (int times = 0; times == 0 || now < first + kMeanwhile; ++times) {
      ASSERT_EQ(model.run(), NRT_EXEC_COMPLETED_WITH_ERR);
      EXPECT_THAT(nrt_open_last_error(),
                  AllOf(HasSubstr("operator 'deed'"), HasSubstr(GetParam().words)));
      const std::string answer = neighbour.ask("count");
      ASSERT_THAT(answer, ::testing::MatchesRegex("[0-9]+"));
      ASSERT_GT(std::stoull(answer), now) << "the neighbour stood still meanwhile";
      now = std::stoull(answer);
    }
    EXPECT_EQ(read<int32_t>(model, "output0"), before);
    // The core works again.
    deed[0] = 0;
    write(model, "input0", deed);
    ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
    EXPECT_EQ(read<int32_t>(model, "output0")[1], 41);
  }
  nrt_close();
  EXPECT_FALSE(daemon.process().ended()) << daemon.log();
  neighbour.close_input();
  EXPECT_EQ(neighbour.wait(), 0) << neighbour.rest();
}

INSTANTIATE_TEST_SUITE_P(Deeds, HostileOperatorOfADaemon,
                         ::testing::Values(Deed{1, "Loop", "had not ended after 2000 ms"},
                                           Deed{2, "WildWrite",
                                                "signal 11 (SIGSEGV) for an access of address"},
                                           Deed{4, "Fork", "found system call 56"},
                                           Deed{6, "OneGibibyte", "an allocation of 1024 MiB"},
                                           Deed{7, "SignalToTheHost", "found system call 62"},
                                           Deed{8, "SignalToItself", "signal 15 (SIGTERM)"}),
                         [](const auto& info) { return info.param.name; });

// Images that our tool has not made.
class StrangeImage : public CustomOperators {
 protected:
  static Bytes call_with(std::vector<uint8_t> image) {
    builder::Program program("strange");
    const builder::Buffer x = program.temporary("x", NEURON_DTYPE_F32, {4});
    builder::CustomCall call;
    call.name = "strange";
    call.image = std::move(image);
    builder::custom_operator(program, call, x);
    const builder::Buffer y = program.output("y", NEURON_DTYPE_F32, {4});
    program.dma(builder::Engine::kSp, y.all(), x.all());
    return bytes_of(program.build());
  }
  // A static program that knows nothing of operators.
  static std::vector<uint8_t> compiled(const std::string& source) {
    const Folder folder;
    folder.write("strange.c", source);
    const auto done =
        run({"cc", "-static", "-o", folder.path("strange"), folder.path("strange.c")});
    EXPECT_EQ(done.ending, 0) << done.output;
    const std::string image = folder.read("strange");
    return {image.begin(), image.end()};
  }
};

TEST_F(StrangeImage, ThatIsNoProgramIsNotStarted) {
  Loaded model(call_with({'h', 'e', 'l', 'l', 'o'}));
  EXPECT_EQ(model.run(), NRT_EXEC_COMPLETED_WITH_ERR);
  EXPECT_THAT(nrt_open_last_error(),
              AllOf(HasSubstr("operator 'strange'"), HasSubstr("could not be started")));
}

TEST_F(StrangeImage, ThatKnowsNothingOfResultsHasNone) {
  Loaded model(call_with(compiled("int main(void) { return 3; }\n")));
  EXPECT_EQ(model.run(), NRT_EXEC_COMPLETED_WITH_ERR);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("exit status 3"));
}

TEST_F(StrangeImage, ThatExecutesAnotherProgramIsStopped) {
  Loaded model(call_with(compiled(
      "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n"
      "int main(void) {\n"
      "  char* none[] = {0};\n"
      "  for (int file = 0; file < 8; ++file)\n"
      "    syscall(SYS_execveat, file, \"/bin/true\", none, none, AT_EMPTY_PATH);\n"
      "  return 5;\n}\n")));
  EXPECT_EQ(model.run(), NRT_EXEC_COMPLETED_WITH_ERR);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("a call of the system"));
}

// Whoever could try again after a wrong address would find the right one.
TEST_F(StrangeImage, ThatGoesOnAfterAForbiddenExecutionIsStoppedAllTheSame) {
  Loaded model(call_with(compiled(
      "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <signal.h>\n#include <sys/syscall.h>\n"
      "#include <unistd.h>\nstatic void go_on(int number) { (void)number; }\n"
      "int main(void) {\n"
      "  signal(SIGSYS, go_on);\n"
      "  for (long guess = 4096; guess < 4196; ++guess)\n"
      "    syscall(SYS_execveat, 5, guess, 0, 0, AT_EMPTY_PATH);\n"
      "  return 5;\n}\n")));
  EXPECT_EQ(model.run(), NRT_EXEC_COMPLETED_WITH_ERR);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("a call of the system"));
}

TEST_F(CustomOperators, NumbersAreReadWholeOrRefused) {
  const Folder folder;
  const std::pair<const char*, const char*> pairs[] = {
      {"abc", "7"}, {"7.9x", "7"}, {"0.5", "99999999999999999999"}, {"0.5", "7.5"}};
  for (const auto& [real, whole] : pairs) {
    const auto done = run({built("bin/neuron-operator"), "neff", library("compute"), "polynomial",
                           "f32[64]", real, whole, "2", "-o", folder.path("out")});
    const std::string wrong = std::string(real) == "0.5" ? whole : real;
    EXPECT_EQ(done.ending, 1) << wrong;
    EXPECT_THAT(done.output, HasSubstr("found the argument " + wrong + ", expected a"));
  }
}

TEST_F(CustomOperators, AFileThatIsNoLibraryIsNotStarted) {
  const Folder folder;
  const std::string started = folder.path("started"), script = folder.path("script.sh");
  folder.write("script.sh", "#!/bin/sh\ntouch " + started + "\n");
  ASSERT_EQ(::chmod(script.c_str(), 0700), 0);
  for (const Words& words : {Words{"list", script}, Words{"list", "/bin/true"},
                             Words{"neff", "/bin/true", "relu", "f32[4]", "-o", "out"}}) {
    Words command = {built("bin/neuron-operator")};
    command.insert(command.end(), words.begin(), words.end());
    const auto done = run(command);
    EXPECT_EQ(done.ending, 1);
    EXPECT_THAT(done.output, HasSubstr("is no library of custom operators"));
  }
  EXPECT_NE(::access(started.c_str(), F_OK), 0);
  EXPECT_EQ(run({built("bin/neuron-operator"), "list", library("compute")}).ending, 0);
}

TEST_F(CustomOperators, AListThatCannotBeWrittenIsAFailure) {
  const auto done =
      test::shell(built("bin/neuron-operator") + " list " + library("compute") + " > /dev/full");
  EXPECT_EQ(done.ending, 1);
  EXPECT_THAT(done.output, HasSubstr("cannot write to standard output"));
}

TEST_F(CustomOperators, SourcesWithAnotherEndingAreNamed) {
  const Folder folder;
  folder.write("text", "hello\n");
  const auto done = run({built("bin/neuron-operator"), "build", "--compute", folder.path("text"),
                         "--shape", folder.path("text"), "-o", folder.path("out")});
  EXPECT_EQ(done.ending, 1);
  EXPECT_THAT(done.output, HasSubstr(folder.path("text") + " ends neither with .cpp"));
}

TEST_F(CustomOperators, SourcesThatDoNotCompileAreRefusedWithTheCompilersWords) {
  const Folder folder;
  folder.write("bad.cpp", "#include <torch/torch.h>\ntorch::Tensor bad(int) { return nothing; }\n");
  const auto done = run({built("bin/neuron-operator"), "build", "--compute", folder.path("bad.cpp"),
                         "--shape", folder.path("bad.cpp"), "-o", folder.path("out")});
  EXPECT_EQ(done.ending, 1);
  EXPECT_THAT(done.output, AllOf(HasSubstr("bad.cpp does not compile"), HasSubstr("nothing")));
}

}  // namespace
}  // namespace neuron::test
