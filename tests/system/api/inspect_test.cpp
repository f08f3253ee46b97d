// SPDX-License-Identifier: Apache-2.0
// Inspect sessions that end while something else goes on, and what they must not lose.
#include <dlfcn.h>
#include <nrt/nrt_async.h>
#include <nrt/nrt_async_sendrecv.h>
#include <nrt/nrt_profile.h>
#include <nrt/nrt_sys_trace.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/files.h"
#include "tests/support/free_port.h"
#include "tests/system/api/async_support.h"
#include "tests/system/api/support.h"
#include "tools/compiler/program_builder/program.h"
#include "tools/neuron-profile/trace/profile.h"

struct nrta_error_tracker;  // The header of the newer epoch does not declare it

namespace neuron::test {
namespace {

namespace fs = std::filesystem;

// A session below a folder of the test's own.
class Inspect : public RuntimeTest {
 protected:
  struct Wishes {
    const char* devices = "model";
  };
  NRT_STATUS begin(const Wishes& wishes) {
    const Setting enable("NEURON_RT_INSPECT_ENABLE", "1");
    const Setting folder("NEURON_RT_INSPECT_OUTPUT_DIR", folder_.path("out").c_str());
    const Setting devices("NEURON_RT_INSPECT_DEVICE_PROFILE", wishes.devices);
    return nrt_inspect_begin();
  }
  NRT_STATUS begin() { return begin(Wishes{}); }

  // Paths of the files whose names end like that, in order.
  std::vector<std::string> files(const std::string& end) const {
    std::vector<std::string> found;
    if (!fs::exists(folder_.path("out"))) return found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path("out"))) {
      const std::string path = entry.path().string();
      if (entry.is_regular_file() && path.ends_with(end)) found.push_back(path);
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  // The name of the program, and how many executions of it there are.
  static std::pair<std::string, size_t> told_by(const std::string& path) {
    const auto profile = profile::Profile::open(path);
    EXPECT_TRUE(profile) << (profile ? "" : profile.error().sentence);
    if (!profile) return {};
    EXPECT_TRUE(profile->ended()) << path;
    return {profile->parts()[0].program.name, profile->parts()[0].executions.size()};
  }
  Folder folder_;
};

// A program that takes the emulated device much longer than it takes to look for a file.
Bytes long_program() {
  builder::Program program("long");
  isa::Instruction loop;
  loop.opcode = NEURON_OP_LOOP;
  loop.loop = {1, 1};
  loop.scalar0 = {0, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_I32, 0, 0};
  loop.scalar1 = {400'000, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_I32, 0, 0};
  isa::Instruction says;
  says.opcode = NEURON_OP_NOTIFY;
  program.raw(builder::Engine::kPool, loop);
  program.raw(builder::Engine::kPool, says);
  return bytes_of(program.build());
}

class InspectDuringAnExecution : public Inspect,
                                 public ::testing::WithParamInterface<const char*> {};

TEST_P(InspectDuringAnExecution, ASessionThatIsStoppedMeanwhileKeepsTheProfileThatItHasBegun) {
  Loaded slow(long_program());
  ASSERT_EQ(begin({.devices = GetParam()}), NRT_SUCCESS) << nrt_open_last_error();
  std::thread other([&] { EXPECT_EQ(slow.run(), NRT_SUCCESS); });
  EXPECT_TRUE(eventually([&] { return files(".ntff").size() == 1; }));
  EXPECT_EQ(nrt_inspect_stop(), NRT_SUCCESS) << nrt_open_last_error();
  other.join();
  const auto profiles = files(".ntff");
  ASSERT_EQ(profiles.size(), 1u) << "the profile of the execution is gone";
  EXPECT_EQ(told_by(profiles[0]), (std::pair<std::string, size_t>{"long", 1}));
  // The core works on, and can be profiled again.
  ASSERT_EQ(nrt_profile_start(slow.model, folder_.path("p.ntff").c_str()), NRT_SUCCESS)
      << nrt_open_last_error();
  EXPECT_EQ(nrt_profile_stop(folder_.path("p.ntff").c_str()), NRT_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(EachMode, InspectDuringAnExecution, ::testing::Values("model", "session"));

TEST_F(Inspect, AWholeSessionHasAFileForEachTurnOfAModelOnItsCore) {
  Loaded add(small_add());
  Loaded softmax(small_softmax());
  ASSERT_EQ(begin({.devices = "session"}), NRT_SUCCESS) << nrt_open_last_error();
  for (int n = 0; n < 3; ++n) ASSERT_EQ(add.run(), NRT_SUCCESS);
  for (int n = 0; n < 2; ++n) ASSERT_EQ(softmax.run(), NRT_SUCCESS);
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_stop(), NRT_SUCCESS) << nrt_open_last_error();
  const auto profiles = files(".ntff");
  ASSERT_EQ(profiles.size(), 3u);
  const std::vector<std::pair<std::string, size_t>> expected = {
      {"small_add", 3}, {"small_softmax", 2}, {"small_add", 1}};
  for (size_t n = 0; n < expected.size(); ++n) {
    EXPECT_THAT(profiles[n], HasSubstr("profile_nc_0_session_" + std::to_string(n) + ".ntff"));
    EXPECT_EQ(told_by(profiles[n]), expected[n]);
  }
}

// As torch-neuronx does it: no activity but this one.
TEST_F(Inspect, TheModeOfDeviceProfilesSaysWhichExecutionsAreInThem) {
  nrt_inspect_config_t* options = nullptr;
  ASSERT_EQ(nrt_inspect_config_allocate(&options), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_enable_inspect(options, true), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_output_dir(options, folder_.path("out").c_str()), NRT_SUCCESS);
  const auto set_mode = nrt_inspect_config_set_inspect_device_profile_mode;
  EXPECT_EQ(set_mode(options, static_cast<nrt_inspect_device_profile_mode_t>(3)), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("mode is 3; expected 0 (off)"));
  EXPECT_EQ(set_mode(nullptr, NRT_INSPECT_DEVICE_PROFILE_MODE_OFF), NRT_INVALID);
  Loaded add(small_add());
  for (const auto& [mode, executions] : {std::pair{NRT_INSPECT_DEVICE_PROFILE_MODE_OFF, 0u},
                                         {NRT_INSPECT_DEVICE_PROFILE_MODE_MODEL, 1u},
                                         {NRT_INSPECT_DEVICE_PROFILE_MODE_SESSION, 3u}}) {
    std::filesystem::remove_all(folder_.path("out"));
    ASSERT_EQ(nrt_inspect_config_set_activity(options, "all", false), NRT_SUCCESS);
    ASSERT_EQ(set_mode(options, mode), NRT_SUCCESS) << nrt_open_last_error();
    ASSERT_EQ(nrt_inspect_begin_with_options(options), NRT_SUCCESS) << nrt_open_last_error();
    for (int n = 0; n < 3; ++n) ASSERT_EQ(add.run(), NRT_SUCCESS);
    ASSERT_EQ(nrt_inspect_stop(), NRT_SUCCESS) << nrt_open_last_error();
    const auto profiles = files(".ntff");
    ASSERT_EQ(profiles.size(), executions == 0 ? 0u : 1u);
    if (executions != 0) {
      EXPECT_EQ(told_by(profiles[0]).second, executions);
    }
  }
  EXPECT_EQ(nrt_inspect_config_free(options), NRT_SUCCESS);
}

// As programs of both epochs of the asynchronous interface call it: a function of one epoch, with
// the type that it has there.
template <class Function>
Function of_epoch(const char* version, const char* name) {
  const auto found = reinterpret_cast<Function>(dlvsym(RTLD_DEFAULT, name, version));
  EXPECT_NE(found, nullptr) << name << "@" << version;
  return found;
}
// Failures go to a tracker in the older epoch, to a word in the newer one.
template <class Failures>
using Schedule = NRT_STATUS (*)(nrt_model_t*, const nrt_tensor_set_t*, nrt_tensor_set_t*, int,
                                Failures*, nrta_seq_t*);
using CreateTracker = NRT_STATUS (*)(uint32_t, nrta_error_tracker**);
using DestroyTracker = void (*)(nrta_error_tracker*);

constexpr const char* kOlder = "NRT_2.0.0";
constexpr const char* kNewer = "NRT_3.0.0";

class InspectQueues : public Inspect, public ::testing::WithParamInterface<const char*> {
 protected:
  // So many executions of the model, in its queue at once.
  static void run(Loaded& loaded, size_t count) {
    if (GetParam() == std::string(kNewer)) {
      std::vector<Status> words(count);
      std::vector<NRT_STATUS*> where;
      for (Status& status : words) where.push_back(&status.word);
      schedule(loaded, where);
      return;
    }
    nrta_error_tracker* tracker = nullptr;
    ASSERT_EQ(of_epoch<CreateTracker>(kOlder, "nrta_error_tracker_create")(0, &tracker),
              NRT_SUCCESS)
        << nrt_open_last_error();
    schedule(loaded, std::vector<nrta_error_tracker*>(count, tracker));
    of_epoch<DestroyTracker>(kOlder, "nrta_error_tracker_destroy")(tracker);
  }

 private:
  template <class Failures>
  static void schedule(Loaded& loaded, const std::vector<Failures*>& where) {
    const auto call = of_epoch<Schedule<Failures>>(GetParam(), "nrta_execute_schedule");
    nrta_seq_t seq = 0;
    for (Failures* failures : where) {
      ASSERT_EQ(call(loaded.model, loaded.inputs, loaded.outputs, 0, failures, &seq), NRT_SUCCESS)
          << nrt_open_last_error();
    }
    ASSERT_TRUE(finish(seq));
  }
};

TEST_P(InspectQueues, ExecutionsThatWereScheduledAreInTheProfilesOfASession) {
  Loaded add(small_add());
  Loaded softmax(small_softmax());
  ASSERT_EQ(begin({.devices = "session"}), NRT_SUCCESS) << nrt_open_last_error();
  run(add, 5);
  run(softmax, 1);
  ASSERT_EQ(nrt_inspect_stop(), NRT_SUCCESS) << nrt_open_last_error();
  const auto profiles = files(".ntff");
  ASSERT_EQ(profiles.size(), 2u);
  EXPECT_EQ(told_by(profiles[0]), std::pair(std::string("small_add"), size_t{5}));
  EXPECT_EQ(told_by(profiles[1]), std::pair(std::string("small_softmax"), size_t{1}));
}

TEST_P(InspectQueues, TheFirstExecutionOfAModelHasAProfileIfItWasScheduled) {
  Loaded add(small_add());
  ASSERT_EQ(begin(), NRT_SUCCESS) << nrt_open_last_error();
  run(add, 4);
  ASSERT_EQ(nrt_inspect_stop(), NRT_SUCCESS) << nrt_open_last_error();
  const auto profiles = files(".ntff");
  ASSERT_EQ(profiles.size(), 1u);
  EXPECT_EQ(told_by(profiles[0]), std::pair(std::string("small_add"), size_t{1}));
}

INSTANTIATE_TEST_SUITE_P(EachEpoch, InspectQueues, ::testing::Values(kOlder, kNewer));

TEST_F(Inspect, ALaterSessionLeavesTheFilesOfAnEarlierOneAlone) {
  ASSERT_EQ(begin(), NRT_SUCCESS);
  {
    Loaded add(small_add());
    ASSERT_EQ(add.run(), NRT_SUCCESS);
    ASSERT_EQ(nrt_inspect_stop(), NRT_SUCCESS);
  }
  const auto before = files("");
  std::vector<std::string> contents;
  for (const std::string& path : before) contents.push_back(read_file(path));
  ASSERT_EQ(begin(), NRT_SUCCESS);
  Loaded add(small_add());
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_stop(), NRT_SUCCESS);
  for (size_t n = 0; n < before.size(); ++n) {
    EXPECT_TRUE(read_file(before[n]) == contents[n]) << before[n];
  }
  EXPECT_EQ(files("ntrace.pb").size(), 2u);
  EXPECT_EQ(files(".ntff").size(), 2u);
}

TEST_F(Inspect, WritesEveryFileThatCanBeWrittenAndNamesTheOneThatCannot) {
  ASSERT_EQ(begin(), NRT_SUCCESS);
  std::string folder;
  for (const auto& entry : fs::directory_iterator(folder_.path("out"))) folder = entry.path();
  ASSERT_FALSE(folder.empty());
  fs::create_directory(folder + "/ntrace.pb");  // in the way
  EXPECT_NE(nrt_inspect_stop(), NRT_SUCCESS);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("ntrace.pb"));
  for (const char* name : {"trace_info.pb", "cpu_util.pb", "host_mem.pb"}) {
    EXPECT_TRUE(fs::exists(folder + "/" + name)) << name;
  }
  EXPECT_EQ(nrt_inspect_stop(), NRT_FAILURE) << "it has ended";
  EXPECT_EQ(begin(), NRT_SUCCESS) << nrt_open_last_error();
}

// The value of a field of a thread's status; signals are a mask in hexadecimal numbers.
std::string status_of(const fs::path& task, const std::string& field) {
  std::ifstream status(task / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return line.substr(line.find_last_of(" \t") + 1);
  }
  return {};
}

TEST_F(Inspect, SignalsOfTheProgramAreHandledInItsOwnThreads) {
  const Setting on("NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED", "1");
  const Setting port("NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT",
                     std::to_string(free_port()).c_str());
  ASSERT_EQ(begin(), NRT_SUCCESS);
  ASSERT_EQ(nrt_async_sendrecv_init(0), NRT_SUCCESS) << nrt_open_last_error();
  std::map<std::string, uint64_t> blocked;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    const std::string name = status_of(task.path(), "Name:");
    if (name.starts_with("nrt-")) {
      blocked[name] = std::stoull(status_of(task.path(), "SigBlk:"), nullptr, 16);
    }
  }
  ASSERT_TRUE(blocked.contains("nrt-sampler"));
  ASSERT_TRUE(blocked.contains("nrt-sendrecv"));
  for (const auto& [name, mask] : blocked) {
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD}) {
      EXPECT_NE(mask >> (signal - 1) & 1, 0u) << name << " handles signal " << signal;
    }
  }
}

TEST_F(Inspect, OptionsThatAreNoneOrWereFreedAreRefusedAndNeverFollowed) {
  nrt_inspect_config_t* options = nullptr;
  nrt_sys_trace_config_t* trace = nullptr;
  nrt_profile_continuous_options_t* continuous = nullptr;
  ASSERT_EQ(nrt_inspect_config_allocate(&options), NRT_SUCCESS);
  ASSERT_EQ(nrt_sys_trace_config_allocate(&trace), NRT_SUCCESS);
  ASSERT_EQ(nrt_profile_continuous_options_allocate(&continuous), NRT_SUCCESS);
  auto* const wild = reinterpret_cast<nrt_inspect_config_t*>(uintptr_t{0x10});
  auto* const other = reinterpret_cast<nrt_inspect_config_t*>(trace);
  for (nrt_inspect_config_t* wrong : {wild, other}) {
    EXPECT_EQ(nrt_inspect_config_set_session_id(wrong, 1), NRT_INVALID);
    EXPECT_EQ(nrt_inspect_begin_with_options(wrong), NRT_INVALID);
    EXPECT_EQ(nrt_inspect_config_free(wrong), NRT_INVALID);
    EXPECT_THAT(nrt_open_last_error(), HasSubstr("none of this kind"));
  }
  EXPECT_EQ(nrt_inspect_config_free(options), NRT_SUCCESS);
  EXPECT_EQ(nrt_inspect_config_free(options), NRT_INVALID) << "twice";
  EXPECT_EQ(nrt_inspect_config_set_defaults(options), NRT_INVALID);
  EXPECT_EQ(nrt_profile_continuous_options_free(continuous), NRT_SUCCESS);
  EXPECT_EQ(nrt_profile_continuous_start(continuous), NRT_INVALID);
  EXPECT_EQ(nrt_sys_trace_start(reinterpret_cast<nrt_sys_trace_config_t*>(wild)), NRT_INVALID);
  nrt_sys_trace_config_free(trace);
  EXPECT_EQ(nrt_sys_trace_start(trace), NRT_INVALID);
}

TEST_F(Inspect, AListOfNamesIsFreedToItsEndWhateverCountIsGiven) {
  const char** names = nullptr;
  size_t count = 0;
  ASSERT_EQ(nrt_inspect_config_get_all_activity_types(&names, &count), NRT_SUCCESS);
  EXPECT_EQ(names[count], nullptr);
  nrt_inspect_config_free_activity_types(names, count + 1000);
  nrt_inspect_config_free_activity_types(nullptr, 7);
}

}  // namespace
}  // namespace neuron::test
