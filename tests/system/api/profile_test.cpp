// SPDX-License-Identifier: Apache-2.0
// nrt_profile_*, nrt_inspect_*, nrt_sys_trace_*, nrt_trace_* in the sequences of their clients.
#include "tools/neuron-profile/trace/profile.h"

#include <malloc.h>
#include <nrt/ndebug_stream.h>
#include <nrt/nrt_async.h>
#include <nrt/nrt_profile.h>
#include <nrt/nrt_sys_trace.h>
#include <poll.h>
#include <sys/resource.h>

#include <atomic>
#include <boost/json/parse.hpp>
#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/support/child.h"
#include "tests/support/eventually.h"
#include "tests/support/files.h"
#include "tests/support/sanitized.h"
#include "tests/system/api/support.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::test {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

class ProfileApi : public RuntimeTest {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }
  static profile::Profile read(const std::string& path) {
    auto profile = profile::Profile::open(path);
    EXPECT_TRUE(profile) << (profile ? "" : profile.error().sentence);
    return std::move(*profile);
  }
  // Names of the files below a folder.
  static std::set<std::string> files(const std::string& folder) {
    std::set<std::string> names;
    if (!fs::exists(folder)) return names;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) names.insert(entry.path().filename().string());
    }
    return names;
  }
  Folder folder_;
};

class Counter final : public profile::Visitor {
 public:
  void instruction(const profile::InstructionEvent& e) override {
    ++instructions;
    last = std::max(last, e.end);
    EXPECT_LE(e.begin, e.end);
  }
  void transfer(const profile::TransferEvent& e) override {
    ++transfers;
    bytes += e.bytes;
  }
  void update(const profile::UpdateEvent&) override { ++updates; }
  uint64_t instructions = 0, transfers = 0, updates = 0, bytes = 0, last = 0;
};

uint64_t device_ps(const Loaded& loaded) {
  nrt_open_execution_report_t report{};
  report.size = sizeof(report);
  EXPECT_EQ(nrt_open_get_execution_report(loaded.model, &report), NRT_SUCCESS);
  return report.device_ps;
}

TEST_F(ProfileApi, HoldsTheEventsOfTheExecutionsBetweenStartAndStop) {
  Loaded add(small_add());
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  ASSERT_EQ(nrt_profile_start(add.model, path("p.ntff").c_str()), NRT_SUCCESS)
      << nrt_open_last_error();
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  const uint64_t time = device_ps(add);
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  ASSERT_EQ(nrt_profile_stop(path("p.ntff").c_str()), NRT_SUCCESS) << nrt_open_last_error();
  ASSERT_EQ(add.run(), NRT_SUCCESS);

  profile::Profile profile = read(path("p.ntff"));
  EXPECT_TRUE(profile.ended());
  EXPECT_EQ(profile.lost(), 0u);
  ASSERT_EQ(profile.parts().size(), 1u);
  EXPECT_EQ(profile.parts()[0].program.name, "small_add");
  ASSERT_EQ(profile.parts()[0].executions.size(), 2u);
  for (const size_t n : {0u, 1u}) {
    Counter counter;
    ASSERT_TRUE(profile.visit(0, n, counter));
    // An execution with other rings takes the same time: the model is deterministic.
    EXPECT_EQ(profile.parts()[0].executions[n].device_ps, time);
    EXPECT_GE(counter.last, time);
    EXPECT_GT(counter.instructions, 20u);
    EXPECT_GT(counter.updates, 10u);
    // a and b go in, the sum comes out; a word for each semaphore.
    EXPECT_GE(counter.bytes, 3u * 128 * 16 * 4);
  }
}

TEST_F(ProfileApi, AProfileOfTheFirstExecutionShowsTheStartOfTheEngines) {
  Loaded add(small_add());
  ASSERT_EQ(nrt_profile_start(add.model, path("p.ntff").c_str()), NRT_SUCCESS);
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  ASSERT_EQ(nrt_profile_stop(path("p.ntff").c_str()), NRT_SUCCESS);
  profile::Profile profile = read(path("p.ntff"));
  ASSERT_EQ(profile.parts()[0].executions.size(), 1u);
  EXPECT_EQ(profile.parts()[0].executions[0].device_ps, device_ps(add));
}

TEST_F(ProfileApi, RefusesASecondProfileOfACoreAndAStopWithoutAStart) {
  Loaded add(small_add());
  EXPECT_EQ(nrt_profile_stop(path("p.ntff").c_str()), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("no profile is being written to"));
  EXPECT_EQ(nrt_profile_start(add.model, nullptr), NRT_INVALID);
  EXPECT_EQ(nrt_profile_start(add.model, path("no/such/folder").c_str()), NRT_INVALID);
  ASSERT_EQ(nrt_profile_start(add.model, path("p.ntff").c_str()), NRT_SUCCESS);
  EXPECT_EQ(nrt_profile_start(add.model, path("q.ntff").c_str()), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("is profiled already"));
  EXPECT_EQ(nrt_profile_stop(path("p.ntff").c_str()), NRT_SUCCESS);
  EXPECT_EQ(nrt_profile_start(add.model, path("q.ntff").c_str()), NRT_SUCCESS);
}

TEST_F(ProfileApi, AModelThatIsUnloadedEndsItsProfile) {
  {
    Loaded add(small_add());
    ASSERT_EQ(nrt_profile_start(add.model, path("p.ntff").c_str()), NRT_SUCCESS);
    ASSERT_EQ(add.run(), NRT_SUCCESS);
  }
  EXPECT_EQ(nrt_profile_stop(path("p.ntff").c_str()), NRT_INVALID);
  EXPECT_TRUE(read(path("p.ntff")).ended());
  // The core works on with its small rings.
  Loaded again(small_add());
  EXPECT_EQ(again.run(), NRT_SUCCESS);
}

TEST_F(ProfileApi, AProfileGoesOnAfterAFailedExecution) {
  Loaded faulty(bytes_of(kernels::deadlock()));
  ASSERT_EQ(nrt_profile_start(faulty.model, path("p.ntff").c_str()), NRT_SUCCESS);
  EXPECT_NE(faulty.run(), NRT_SUCCESS);
  EXPECT_NE(faulty.run(), NRT_SUCCESS);
  ASSERT_EQ(nrt_profile_stop(path("p.ntff").c_str()), NRT_SUCCESS);
  profile::Profile profile = read(path("p.ntff"));
  ASSERT_EQ(profile.parts()[0].executions.size(), 2u);
  Counter counter;
  ASSERT_TRUE(profile.visit(0, 1, counter));
  EXPECT_TRUE(profile.parts()[0].executions[1].failed);
  EXPECT_GT(counter.instructions, 0u);
}

TEST_F(ProfileApi, ExecutionsThatAreAlikeAreInTheFileOnceAndEachHasItsTimesAndEvents) {
  Loaded add(small_add());
  Loaded softmax(small_softmax());
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  const auto capture = [&](const std::string& name, int executions) {
    EXPECT_EQ(nrt_profile_start(add.model, path(name).c_str()), NRT_SUCCESS);
    for (int n = 0; n < executions; ++n) {
      EXPECT_EQ(add.run(), NRT_SUCCESS);
      // The engines start again behind another model, so the execution after this one differs.
      if (n == executions / 2) {
        EXPECT_EQ(softmax.run(), NRT_SUCCESS);
      }
    }
    EXPECT_EQ(nrt_profile_stop(path(name).c_str()), NRT_SUCCESS);
    return fs::file_size(path(name));
  };
  const auto few = capture("few.ntff", 8), many = capture("many.ntff", 200);
  EXPECT_LT(many - few, 192 * 200u) << "200 bytes for each repeated execution";
  profile::Profile profile = read(path("many.ntff"));
  const auto& executions = profile.parts()[0].executions;
  ASSERT_EQ(executions.size(), 200u);
  Counter first, last;
  ASSERT_TRUE(profile.visit(0, 1, first));
  ASSERT_TRUE(profile.visit(0, 199, last));
  EXPECT_GT(first.instructions, 20u);
  EXPECT_EQ(first.instructions, last.instructions);
  EXPECT_EQ(first.updates, last.updates);
  EXPECT_EQ(first.last, last.last);
  EXPECT_EQ(executions[199].device_ps, device_ps(add));
  EXPECT_EQ(executions[199].dma_bytes, executions[1].dma_bytes);
  size_t written = 0;
  for (size_t n = 1; n < executions.size(); ++n) {
    EXPECT_GE(executions[n].begin_ns, executions[n - 1].end_ns);
    EXPECT_GT(executions[n].exec_id, executions[n - 1].exec_id);
    written += executions[n].events == n ? 1 : 0;
  }
  EXPECT_GE(written, 2u) << "the execution behind that of another model is its own";
  EXPECT_LT(written, 10u);
}

TEST_F(ProfileApi, ContinuousProfilingSavesTheLastExecutionOfACore) {
  nrt_profile_continuous_options_t* options = nullptr;
  ASSERT_EQ(nrt_profile_continuous_options_allocate(&options), NRT_SUCCESS);
  ASSERT_NE(options, nullptr);
  ASSERT_EQ(nrt_profile_continuous_options_set_output_dir(options, path("kept").c_str()),
            NRT_SUCCESS);
  EXPECT_EQ(nrt_profile_continuous_save(0, options), NRT_FAILURE);
  ASSERT_EQ(nrt_profile_continuous_start(options), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(nrt_profile_continuous_start(options), NRT_INVALID);
  EXPECT_EQ(nrt_profile_continuous_save(0, options), NRT_FAILURE);
  {
    Loaded add(small_add());
    ASSERT_EQ(add.run(), NRT_SUCCESS);
    Loaded softmax(small_softmax());
    ASSERT_EQ(softmax.run(), NRT_SUCCESS);
    ASSERT_EQ(nrt_profile_continuous_save(0, options), NRT_SUCCESS) << nrt_open_last_error();
    ASSERT_EQ(add.run(), NRT_SUCCESS);
    ASSERT_EQ(add.run(), NRT_SUCCESS);
    ASSERT_EQ(nrt_profile_continuous_save(0, options), NRT_SUCCESS);
    ASSERT_EQ(nrt_profile_continuous_stop(), NRT_SUCCESS);
    EXPECT_EQ(nrt_profile_continuous_stop(), NRT_FAILURE);
    profile::Profile first = read(path("kept/profile_nc_0_session_0.ntff"));
    EXPECT_EQ(first.parts()[0].program.name, "small_softmax");
    profile::Profile second = read(path("kept/profile_nc_0_session_1.ntff"));
    EXPECT_EQ(second.parts()[0].program.name, "small_add");
    ASSERT_EQ(second.parts()[0].executions.size(), 1u);
    EXPECT_EQ(second.parts()[0].executions[0].device_ps, device_ps(add));
    Counter counter;
    ASSERT_TRUE(second.visit(0, 0, counter));
    EXPECT_GT(counter.instructions, 20u);
  }
  EXPECT_EQ(nrt_profile_continuous_options_free(options), NRT_SUCCESS);
}

TEST_F(ProfileApi, ContinuousProfilingIsSavedAndStoppedByTwoThreadsWithoutWaitingForEachOther) {
  nrt_profile_continuous_options_t* options = nullptr;
  ASSERT_EQ(nrt_profile_continuous_options_allocate(&options), NRT_SUCCESS);
  ASSERT_EQ(nrt_profile_continuous_options_set_output_dir(options, path("kept").c_str()),
            NRT_SUCCESS);
  Loaded add(small_add());
  std::atomic<bool> done{false};
  std::thread saver([&] {
    // bounded: until the other thread has had its turns.
    while (!done) (void)nrt_profile_continuous_save(0, options);
  });
  // A thread that held the lock while it waited for the core would meet the saver here.
  for (int n = 0; n < 12; ++n) {
    ASSERT_EQ(nrt_profile_continuous_start(options), NRT_SUCCESS) << nrt_open_last_error();
    EXPECT_EQ(add.run(), NRT_SUCCESS);
    ASSERT_EQ(nrt_profile_continuous_stop(), NRT_SUCCESS) << nrt_open_last_error();
  }
  done = true;
  saver.join();
  nrt_profile_continuous_options_free(options);
}

TEST_F(ProfileApi, ContinuousProfilingOverwritesNoFileOfAnEarlierProcess) {
  const std::string earlier =
      folder_.write("kept/profile_nc_0_session_1.ntff", "of an earlier one");
  nrt_profile_continuous_options_t* options = nullptr;
  ASSERT_EQ(nrt_profile_continuous_options_allocate(&options), NRT_SUCCESS);
  ASSERT_EQ(nrt_profile_continuous_options_set_output_dir(options, path("kept").c_str()),
            NRT_SUCCESS);
  ASSERT_EQ(nrt_profile_continuous_start(options), NRT_SUCCESS) << nrt_open_last_error();
  Loaded add(small_add());
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  for (int n = 0; n < 3; ++n) {
    ASSERT_EQ(nrt_profile_continuous_save(0, options), NRT_SUCCESS) << nrt_open_last_error();
  }
  ASSERT_EQ(nrt_profile_continuous_options_set_output_dir(options, path("other").c_str()),
            NRT_SUCCESS);
  ASSERT_EQ(nrt_profile_continuous_save(0, options), NRT_SUCCESS) << nrt_open_last_error();
  ASSERT_EQ(nrt_profile_continuous_stop(), NRT_SUCCESS);
  nrt_profile_continuous_options_free(options);
  EXPECT_EQ(read_file(earlier), "of an earlier one");
  for (const char* name :
       {"kept/profile_nc_0_session_2.ntff", "kept/profile_nc_0_session_3.ntff",
        "kept/profile_nc_0_session_4.ntff", "other/profile_nc_0_session_0.ntff"}) {
    EXPECT_TRUE(read(path(name)).ended()) << name;
  }
}

TEST_F(ProfileApi, ContinuousProfilingLeavesNoMoreFilesThanTheEnvironmentAllows) {
  const std::string other = folder_.write("kept/profile_nc_1_session_0.ntff", "of another core");
  nrt_profile_continuous_options_t* options = nullptr;
  ASSERT_EQ(nrt_profile_continuous_options_allocate(&options), NRT_SUCCESS);
  ASSERT_EQ(nrt_profile_continuous_options_set_output_dir(options, path("kept").c_str()),
            NRT_SUCCESS);
  const Setting most("NEURON_OPEN_PROFILE_FILES", "2");
  ASSERT_EQ(nrt_profile_continuous_start(options), NRT_SUCCESS) << nrt_open_last_error();
  Loaded add(small_add());
  for (int n = 0; n < 4; ++n) {
    ASSERT_EQ(add.run(), NRT_SUCCESS);
    ASSERT_EQ(nrt_profile_continuous_save(0, options), NRT_SUCCESS) << nrt_open_last_error();
  }
  ASSERT_EQ(nrt_profile_continuous_stop(), NRT_SUCCESS);
  nrt_profile_continuous_options_free(options);
  EXPECT_EQ(read_file(other), "of another core");
  for (const int gone : {0, 1}) {
    EXPECT_FALSE(std::filesystem::exists(
        path("kept/profile_nc_0_session_" + std::to_string(gone) + ".ntff")))
        << gone;
  }
  for (const int kept : {2, 3}) {
    EXPECT_TRUE(read(path("kept/profile_nc_0_session_" + std::to_string(kept) + ".ntff")).ended())
        << kept;
  }
}

TEST_F(ProfileApi, AFileHasOneProfileHoweverItsNameIsSpelled) {
  Loaded add(small_add());
  Loaded softmax(small_softmax(), 1);
  ASSERT_EQ(nrt_profile_start(add.model, path("p.ntff").c_str()), NRT_SUCCESS)
      << nrt_open_last_error();
  std::filesystem::create_symlink("p.ntff", path("soft.ntff"));
  std::filesystem::create_hard_link(path("p.ntff"), path("hard.ntff"));
  std::filesystem::create_directory(path("folder"));
  for (const char* name : {"p.ntff", "./p.ntff", "folder/../p.ntff", "soft.ntff", "hard.ntff"}) {
    EXPECT_EQ(nrt_profile_start(softmax.model, path(name).c_str()), NRT_INVALID) << name;
    EXPECT_THAT(nrt_open_last_error(), HasSubstr("being written")) << name;
  }
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  ASSERT_EQ(nrt_profile_stop(path("folder/../soft.ntff").c_str()), NRT_SUCCESS)
      << nrt_open_last_error();
  EXPECT_EQ(read(path("hard.ntff")).parts()[0].executions.size(), 1u);
}

// Bytes in use; 0 where a sanitizer has its own allocator.
size_t allocated() { return mallinfo2().uordblks; }

TEST_F(ProfileApi, FreesEveryKindOfOptionsAndEveryListOfNames) {
  constexpr int kTimes = 200;
  const auto once = [] {
    nrt_profile_continuous_options_t* continuous = nullptr;
    nrt_inspect_config_t* inspect = nullptr;
    nrt_sys_trace_config_t* trace = nullptr;
    nrt_sys_trace_fetch_options_t* fetch = nullptr;
    const char** names = nullptr;
    char* events = nullptr;
    size_t count = 0;
    EXPECT_EQ(nrt_profile_continuous_options_allocate(&continuous), NRT_SUCCESS);
    nrt_profile_continuous_options_free(continuous);
    EXPECT_EQ(nrt_inspect_config_allocate(&inspect), NRT_SUCCESS);
    nrt_inspect_config_free(inspect);
    EXPECT_EQ(nrt_sys_trace_config_allocate(&trace), NRT_SUCCESS);
    nrt_sys_trace_config_free(trace);
    EXPECT_EQ(nrt_sys_trace_fetch_options_allocate(&fetch), NRT_SUCCESS);
    nrt_sys_trace_fetch_options_free(fetch);
    EXPECT_EQ(nrt_sys_trace_get_event_types(&names, &count), NRT_SUCCESS);
    nrt_sys_trace_free_event_types(names, count);
    EXPECT_EQ(nrt_inspect_config_get_all_activity_types(&names, &count), NRT_SUCCESS);
    nrt_inspect_config_free_activity_types(names, count);
    EXPECT_EQ(nrt_sys_trace_fetch_events(&events, &count, nullptr), NRT_SUCCESS);
    nrt_sys_trace_buffer_free(events);
  };
  once();
  const size_t before = allocated();
  for (int n = 0; n < kTimes; ++n) once();
  // Each of the seven allocations has at least 24 bytes.
  EXPECT_LT(allocated(), before + size_t{kTimes} * 24);
}

std::set<std::string> names(const char** list, size_t count) {
  std::set<std::string> set;
  for (size_t n = 0; n < count; ++n) set.insert(list[n]);
  return set;
}

TEST_F(ProfileApi, AnInspectSessionWritesTheTreeOfFilesThatItsOptionsAskFor) {
  nrt_inspect_config_t* options = nullptr;
  ASSERT_EQ(nrt_inspect_config_allocate(&options), NRT_SUCCESS);
  ASSERT_NE(options, nullptr);
  const char** activities = nullptr;
  size_t count = 0;
  ASSERT_EQ(nrt_inspect_config_get_all_activity_types(&activities, &count), NRT_SUCCESS);
  EXPECT_EQ(names(activities, count),
            (std::set<std::string>{"system_profile", "device_profile", "host_memory", "cpu_util"}));
  nrt_inspect_config_free_activity_types(activities, count);
  EXPECT_EQ(nrt_inspect_config_set_activity(options, "rumours", true), NRT_INVALID);
  ASSERT_EQ(nrt_inspect_config_set_activity(options, "all", false), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_activity(options, "cpu_util", true), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_get_enabled_activity_types(options, &activities, &count),
            NRT_SUCCESS);
  EXPECT_EQ(names(activities, count), std::set<std::string>{"cpu_util"});
  nrt_inspect_config_free_activity_types(activities, count);
  ASSERT_EQ(nrt_inspect_config_set_defaults(options), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_get_enabled_activity_types(options, &activities, &count),
            NRT_SUCCESS);
  EXPECT_EQ(count, 4u);
  nrt_inspect_config_free_activity_types(activities, count);

  ASSERT_EQ(nrt_inspect_config_set_output_dir(options, path("out").c_str()), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_session_id(options, 7), NRT_SUCCESS);
  EXPECT_EQ(nrt_inspect_config_set_session_id(options, -1), NRT_INVALID);
  // The default records nothing.
  ASSERT_EQ(nrt_inspect_begin_with_options(options), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_stop(), NRT_SUCCESS);
  EXPECT_TRUE(files(path("out")).empty());

  ASSERT_EQ(nrt_inspect_config_set_enable_inspect(options, true), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_capture_enabled_for_event_type_string(options, "all", false),
            NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_capture_enabled_for_event_type_string(options, "hardware", true),
            NRT_SUCCESS);
  EXPECT_EQ(nrt_inspect_config_set_capture_enabled_for_event_type_string(options, "gossip", true),
            NRT_INVALID);
  ASSERT_EQ(nrt_inspect_config_set_capture_enabled_for_nc(options, 1, false), NRT_SUCCESS);
  EXPECT_EQ(nrt_inspect_config_set_sys_trace_max_events_per_nc(options, 0), NRT_INVALID);
  ASSERT_EQ(nrt_inspect_config_set_sys_trace_max_events_per_nc(options, 2), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_begin_with_options(options), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(nrt_inspect_begin_with_options(options), NRT_INVALID);
  ASSERT_EQ(nrt_inspect_config_free(options), NRT_SUCCESS);
  {
    Loaded add(small_add());
    Loaded other(small_softmax(), 1);
    for (int n = 0; n < 3; ++n) ASSERT_EQ(add.run(), NRT_SUCCESS);
    ASSERT_EQ(other.run(), NRT_SUCCESS);
    ASSERT_EQ(nrt_inspect_stop(), NRT_SUCCESS) << nrt_open_last_error();
  }
  EXPECT_EQ(nrt_inspect_stop(), NRT_FAILURE);
  size_t profiles = 0, neffs = 0;
  std::string trace, about;
  for (const auto& entry : fs::recursive_directory_iterator(path("out"))) {
    const std::string file = entry.path().string();
    if (file.ends_with(".ntff")) {
      ++profiles;
      EXPECT_EQ(read(file).parts()[0].executions.size(), 1u);
      EXPECT_THAT(file, HasSubstr("_instid_0_vnc_0.ntff"));
    }
    neffs += file.ends_with(".neff") ? 1 : 0;
    for (auto& [name, text] : {std::pair{"ntrace.pb", &trace}, {"trace_info.pb", &about}}) {
      if (!file.ends_with(name)) continue;
      auto reader = ntff::TraceFileReader::open(file);
      ASSERT_TRUE(reader);
      auto chunk = reader->next(ntff::only(ntff::ChunkKind::kSystem));
      ASSERT_TRUE(chunk && *chunk);
      *text = (*chunk)->text();
    }
  }
  EXPECT_EQ(profiles, 1u);
  EXPECT_EQ(neffs, 2u);
  const auto all = files(path("out"));
  EXPECT_TRUE(all.contains("cpu_util.pb"));
  EXPECT_TRUE(all.contains("host_mem.pb"));
  EXPECT_EQ(json::parse(about).at("session_id").as_int64(), 7);
  const json::value events = json::parse(trace);
  ASSERT_EQ(events.at("events").as_array().size(), 2u);
  EXPECT_GT(events.at("dropped_events").as_int64(), 0);
  for (const json::value& event : events.at("events").as_array()) {
    EXPECT_EQ(event.at("nc_idx").as_int64(), 0);
    EXPECT_NE(event.at("event_type").as_string(), "nrt_execute");
  }
}

// The program executes so long that its events do not fit into the file: that is found while it
// runs, and again when the profile is stopped.
TEST_F(ProfileApi, OfAProcessThatIsKilledCanBeReadUpToThere) {
  nrt_close();
  const std::string file = path("killed.ntff");
  Child child = Child::forked([&] {
    if (nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") != NRT_SUCCESS) return 1;
    Loaded add(small_add());
    if (nrt_profile_start(add.model, file.c_str()) != NRT_SUCCESS) return 2;
    while (add.run() == NRT_SUCCESS) ::usleep(1000);
    return 3;
  });
  const auto executions = [&]() -> size_t {
    auto profile = profile::Profile::open(file);
    return profile && !profile->parts().empty() ? profile->parts()[0].executions.size() : 0;
  };
  EXPECT_TRUE(eventually([&] { return executions() >= 20; }));
  EXPECT_EQ(child.kill(), ended_by(SIGKILL));
  profile::Profile profile = read(file);
  EXPECT_FALSE(profile.ended());
  ASSERT_EQ(profile.parts().size(), 1u);
  EXPECT_EQ(profile.parts()[0].program.name, "small_add");
  const size_t last = profile.parts()[0].executions.size() - 1;
  EXPECT_GE(last, 19u);
  Counter counter;
  ASSERT_TRUE(profile.visit(0, last, counter));
  EXPECT_GT(counter.instructions, 20u);
}

TEST_F(ProfileApi, AProfileThatFillsTheDiskIsToldOnceAndStoppingItReturnsTheStatus) {
  nrt_close();
  const Setting errors("NEURON_RT_LOG_LEVEL", "ERROR");
  ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
  builder::Program program("long");
  isa::Instruction loop;
  loop.opcode = NEURON_OP_LOOP;
  loop.loop = {1, 1};
  loop.scalar0 = {0, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_I32, 0, 0};
  loop.scalar1 = {100'000, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_I32, 0, 0};
  program.raw(builder::Engine::kPool, loop);
  program.raw(builder::Engine::kPool, isa::Instruction{});
  Loaded model(bytes_of(program.build()));
  const std::string path = folder_.path("p.ntff");
  ASSERT_EQ(nrt_profile_start(model.model, path.c_str()), NRT_SUCCESS) << nrt_open_last_error();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  testing::internal::CaptureStderr();
  const NRT_STATUS ran = model.run();
  const NRT_STATUS stopped = nrt_profile_stop(path.c_str());
  const std::string said = nrt_open_last_error();
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(ran, NRT_SUCCESS) << "the program is not to blame";
  EXPECT_EQ(stopped, NRT_RESOURCE);
  EXPECT_THAT(said, HasSubstr("nrt_profile_stop: the profile '" + path + "' could not be written"));
  const std::string sentence = "could not be written further";
  ASSERT_NE(log.find(sentence), std::string::npos) << log;
  EXPECT_EQ(log.find(sentence), log.rfind(sentence)) << log;
  EXPECT_FALSE(std::filesystem::exists(path)) << "no execution in it is whole";
  EXPECT_EQ(nrt_profile_stop(path.c_str()), NRT_INVALID) << "it has ended";
}

TEST_F(ProfileApi, AnInspectSessionOnFailureKeepsTheProfileOfTheFailedExecutionAlone) {
  nrt_inspect_config_t* options = nullptr;
  ASSERT_EQ(nrt_inspect_config_allocate(&options), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_output_dir(options, path("out").c_str()), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_config_set_enable_inspect_on_fail(options, true), NRT_SUCCESS);
  ASSERT_EQ(nrt_inspect_begin_with_options(options), NRT_SUCCESS);
  nrt_inspect_config_free(options);
  Loaded add(small_add());
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  EXPECT_TRUE(files(path("out")).empty());
  Loaded faulty(bytes_of(kernels::deadlock()));
  EXPECT_NE(faulty.run(), NRT_SUCCESS);
  // Neither good executions of the same model nor later failures take it away.
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  EXPECT_EQ(files(path("out")).size(), 1u);
  EXPECT_NE(faulty.run(), NRT_SUCCESS);
  EXPECT_EQ(files(path("out")).size(), 2u) << "the second failure overwrote the first one's file";
  EXPECT_EQ(nrt_inspect_stop(), NRT_SUCCESS);
}

TEST_F(ProfileApi, TheEnvironmentBeginsAnInspectSessionAndClosingEndsIt) {
  nrt_close();
  {
    const Setting enable("NEURON_RT_INSPECT_ENABLE", "1");
    const Setting folder("NEURON_RT_INSPECT_OUTPUT_DIR", path("out").c_str());
    const Setting types("NEURON_RT_INSPECT_EVENT_FILTER_TYPE", "hardware,nrt_execute,^cc_running");
    init();
    Loaded add(small_add());
    ASSERT_EQ(add.run(), NRT_SUCCESS);
    EXPECT_EQ(nrt_inspect_begin(), NRT_INVALID);
  }
  nrt_close();
  EXPECT_TRUE(files(path("out")).contains("ntrace.pb"));
  {
    // What nobody knows is told, and the rest is used.
    const Setting types("NEURON_RT_INSPECT_EVENT_FILTER_TYPE", "nrt_execut, hw_notify,nrt_load");
    const Setting level("NEURON_RT_LOG_LEVEL", "");
    testing::internal::CaptureStderr();
    init();
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("there is no event type 'nrt_execut'; is 'nrt_execute' meant?"));
  }
  nrt_close();
  init();
  ASSERT_EQ(nrt_inspect_begin(), NRT_SUCCESS);
  EXPECT_EQ(nrt_inspect_begin(), NRT_INVALID);
}

struct SystemEvents {
  json::array list;
  int64_t dropped = 0;

  json::array of(const std::string& type) const {
    json::array found;
    for (const json::value& event : list) {
      if (event.at("event_type").as_string() == type) found.push_back(event);
    }
    return found;
  }
};

SystemEvents fetch(const nrt_sys_trace_fetch_options_t* options = nullptr) {
  char* buffer = nullptr;
  size_t size = 0;
  EXPECT_EQ(nrt_sys_trace_fetch_events(&buffer, &size, options), NRT_SUCCESS);
  if (buffer == nullptr) return {};
  EXPECT_EQ(std::strlen(buffer), size);
  const json::value value = json::parse(buffer);
  nrt_sys_trace_buffer_free(buffer);
  return {value.at("events").as_array(), value.at("dropped_events").as_int64()};
}

// The sequence of spike's benchmark: the configuration is freed before anything runs, and start and
// stop of nc_exec_running are paired by their tracking id.
TEST_F(ProfileApi, ASystemTraceGivesTheModelTimeOfEveryExecution) {
  nrt_sys_trace_config_t* config = nullptr;
  ASSERT_EQ(nrt_sys_trace_config_allocate(&config), NRT_SUCCESS);
  ASSERT_NE(config, nullptr);
  nrt_sys_trace_config_set_capture_enabled_for_nc(config, 1, false);
  ASSERT_EQ(nrt_sys_trace_start(config), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(nrt_sys_trace_start(config), NRT_FAILURE);
  nrt_sys_trace_config_free(config);
  Loaded add(small_add());
  Loaded other(small_add(), 1);
  ASSERT_EQ(other.run(), NRT_SUCCESS);
  std::vector<int64_t> expected;
  for (int n = 0; n < 3; ++n) {
    ASSERT_EQ(add.run(), NRT_SUCCESS);
    expected.push_back(static_cast<int64_t>(device_ps(add) / 1000));
  }
  ASSERT_EQ(nrt_sys_trace_stop(), NRT_SUCCESS);
  EXPECT_EQ(nrt_sys_trace_stop(), NRT_FAILURE);
  ASSERT_EQ(add.run(), NRT_SUCCESS);

  nrt_sys_trace_fetch_options_t* options = nullptr;
  ASSERT_EQ(nrt_sys_trace_fetch_options_allocate(&options), NRT_SUCCESS);
  ASSERT_NE(options, nullptr);
  nrt_sys_trace_fetch_options_set_nc_idx(options, 1);
  EXPECT_TRUE(fetch(options).list.empty());
  nrt_sys_trace_fetch_options_set_nc_idx(options, 0);
  nrt_sys_trace_fetch_options_set_max_events_per_nc(options, 2);
  EXPECT_EQ(fetch(options).list.size(), 2u);
  nrt_sys_trace_fetch_options_set_defaults(options);
  const SystemEvents events = fetch(options);
  nrt_sys_trace_fetch_options_free(options);
  EXPECT_TRUE(fetch().list.empty()) << "fetched events are gone";

  std::map<int64_t, int64_t> begun;
  std::vector<int64_t> measured;
  for (const json::value& event : events.of("nc_exec_running")) {
    const int64_t id = event.at("tracking_id").as_int64();
    const int64_t time = event.at("data").at("nc_timestamp_ns").as_int64();
    if (event.at("phase").as_string() == "start") {
      begun[id] = time;
    } else {
      ASSERT_TRUE(begun.contains(id));
      measured.push_back(time - begun[id]);
    }
  }
  ASSERT_EQ(measured.size(), 3u);
  for (size_t n = 0; n < 3; ++n) EXPECT_NEAR(measured[n], expected[n], 1);
  EXPECT_EQ(events.of("nrt_execute").size(), 6u);
  EXPECT_EQ(events.of("timestamp_sync_point").size(), 3u);
  EXPECT_EQ(events.dropped, 0);
}

TEST_F(ProfileApi, ASystemTraceRecordsTheTypesThatAreOnAndCountsWhatItDrops) {
  const char** types = nullptr;
  size_t count = 0;
  ASSERT_EQ(nrt_sys_trace_get_event_types(&types, &count), NRT_SUCCESS);
  const std::set<std::string> all = names(types, count);
  nrt_sys_trace_free_event_types(types, count);
  EXPECT_TRUE(all.contains("nc_exec_running") && all.contains("nrt_execute"));

  nrt_sys_trace_config_t* config = nullptr;
  ASSERT_EQ(nrt_sys_trace_config_allocate(&config), NRT_SUCCESS);
  EXPECT_EQ(nrt_sys_trace_config_set_capture_enabled_for_event_type(config, "gossip", true),
            NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(),
              HasSubstr("'gossip'; there are all, hardware, software, nrt_"));
  EXPECT_THAT(nrt_open_last_error(), HasSubstr(", numerical_err,"));
  for (const std::string& type : all) {
    ASSERT_EQ(nrt_sys_trace_config_set_capture_enabled_for_event_type(config, type.c_str(), false),
              NRT_SUCCESS);
  }
  ASSERT_EQ(
      nrt_sys_trace_config_set_capture_enabled_for_event_type(config, "nrt_tensor_write", true),
      NRT_SUCCESS);
  ASSERT_EQ(nrt_sys_trace_config_get_enabled_event_types(config, &types, &count), NRT_SUCCESS);
  EXPECT_EQ(names(types, count), std::set<std::string>{"nrt_tensor_write"});
  nrt_sys_trace_free_event_types(types, count);
  nrt_sys_trace_config_set_max_events_per_nc(config, 4);
  ASSERT_EQ(nrt_sys_trace_start(config), NRT_SUCCESS);
  nrt_tensor_t* tensor = make_tensor(64);
  const Bytes zeros(64);
  for (int n = 0; n < 5; ++n) {
    ASSERT_EQ(nrt_tensor_write(tensor, zeros.data(), 0, zeros.size()), NRT_SUCCESS);
  }
  ASSERT_EQ(nrt_sys_trace_stop(), NRT_SUCCESS);
  const SystemEvents events = fetch();
  EXPECT_EQ(events.list.size(), 4u);
  EXPECT_EQ(events.dropped, 6);
  EXPECT_EQ(events.list[0].at("data").at("size").as_int64(), 64);

  nrt_sys_trace_config_set_defaults(config);
  ASSERT_EQ(nrt_sys_trace_config_get_enabled_event_types(config, &types, &count), NRT_SUCCESS);
  EXPECT_EQ(names(types, count), all);
  nrt_sys_trace_free_event_types(types, count);
  nrt_sys_trace_config_free(config);
  nrt_tensor_free(&tensor);
}

TEST_F(ProfileApi, AnOlderTraceWritesItsEventsToAFile) {
  ASSERT_EQ(nrt_trace_start(false), NRT_SUCCESS);
  EXPECT_EQ(nrt_trace_start(true), NRT_FAILURE);
  Loaded add(small_add());
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  EXPECT_EQ(nrt_trace_stop(nullptr), NRT_INVALID);
  EXPECT_EQ(nrt_trace_stop(path("no/such/folder.json").c_str()), NRT_INVALID);
  EXPECT_EQ(nrt_trace_start(true), NRT_FAILURE) << "a file that cannot be written ends no trace";
  ASSERT_EQ(nrt_trace_stop(path("trace.json").c_str()), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(nrt_trace_stop(path("trace.json").c_str()), NRT_FAILURE);
  const json::value value = json::parse(read_file(path("trace.json")));
  const SystemEvents events{value.at("events").as_array(), 0};
  EXPECT_EQ(events.of("nrt_load").size(), 2u);
  EXPECT_EQ(events.of("nrt_tensor_allocate").size(), 0u);
}

// A program whose GpSimd engine says two numbers.
Bytes talking_program() {
  builder::Program program("talking");
  isa::Instruction says;
  says.opcode = NEURON_OP_NOTIFY;
  says.engines = 1u << NEURON_ENGINE_POOL;
  says.scalar0 = {11, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_U32, 0, 0};
  says.scalar1 = {22, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_U32, 0, 0};
  program.raw(builder::Engine::kPool, says);
  return bytes_of(program.build());
}

bool readable(int descriptor) {
  pollfd poll_one{.fd = descriptor, .events = POLLIN, .revents = 0};
  return poll(&poll_one, 1, 0) == 1;
}

TEST_F(ProfileApi, ADebugStreamHandsOutWhatProgramsSayToOneClientOfTheCore) {
  Loaded talking(talking_program());
  ASSERT_EQ(talking.run(), NRT_SUCCESS) << "nobody listens";
  int stream = -1, other = -1;
  ASSERT_EQ(nrt_debug_client_connect(0, &stream), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(nrt_debug_client_connect(0, &other), NRT_INVALID);
  EXPECT_EQ(nrt_debug_client_connect(99, &other), NRT_INVALID);
  ndebug_stream_event_header_t header{};
  void* payload = nullptr;
  EXPECT_EQ(nrt_debug_client_read_one_event(stream, &header, &payload), NRT_QUEUE_EMPTY);
  EXPECT_FALSE(readable(stream));
  ASSERT_EQ(talking.run(), NRT_SUCCESS);
  ASSERT_EQ(talking.run(), NRT_SUCCESS);
  for (int n = 0; n < 2; ++n) {
    EXPECT_TRUE(readable(stream));
    ASSERT_EQ(nrt_debug_client_read_one_event(stream, &header, &payload), NRT_SUCCESS);
    EXPECT_EQ(header.type, uint32_t{NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ});
    ASSERT_EQ(header.data_size, 1024u + 8);
    const auto* print = static_cast<ndebug_stream_payload_debug_tensor_read_t*>(payload);
    EXPECT_THAT(print->prefix, HasSubstr("notify of Pool"));
    EXPECT_STREQ(print->tensor_dtype, "uint32");
    EXPECT_EQ(print->tensor_shape[0], 2u);
    uint32_t numbers[2];
    std::memcpy(numbers, static_cast<char*>(payload) + 1024, sizeof(numbers));
    EXPECT_EQ(numbers[0], 11u);
    EXPECT_EQ(numbers[1], 22u);
    std::free(payload);
  }
  EXPECT_EQ(nrt_debug_client_read_one_event(stream, &header, &payload), NRT_QUEUE_EMPTY);
  EXPECT_FALSE(readable(stream));
  nrt_debug_client_connect_close(stream);
  EXPECT_EQ(nrt_debug_client_read_one_event(stream, &header, &payload), NRT_INVALID);
  ASSERT_EQ(nrt_debug_client_connect(0, &stream), NRT_SUCCESS) << "the core is free again";
  ASSERT_EQ(talking.run(), NRT_SUCCESS);
  EXPECT_TRUE(readable(stream));
}

// A client that reads too late misses events, and has those that come after it has read.
TEST_F(ProfileApi, ADebugStreamGoesOnAfterMoreEventsThanThereIsRoomFor) {
  constexpr uint32_t kTimes = 30'000;  // a third execution more than fills the ring of the device
  const Setting room("NEURON_RT_DEBUG_STREAM_BUFFER_SIZE", "2");
  builder::Program program("chatty");
  isa::Instruction loop;
  loop.opcode = NEURON_OP_LOOP;
  loop.loop = {1, 1};
  loop.scalar0 = {0, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_I32, 0, 0};
  loop.scalar1 = {kTimes, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_I32, 0, 0};
  isa::Instruction says;
  says.opcode = NEURON_OP_NOTIFY;
  program.raw(builder::Engine::kPool, loop);
  program.raw(builder::Engine::kPool, says);
  Loaded chatty(bytes_of(program.build()));
  int stream = -1;
  ASSERT_EQ(nrt_debug_client_connect(0, &stream), NRT_SUCCESS) << nrt_open_last_error();
  ndebug_stream_event_header_t header{};
  const auto events = [&] {
    int count = 0;
    for (void* payload = nullptr;
         nrt_debug_client_read_one_event(stream, &header, &payload) == NRT_SUCCESS; ++count) {
      std::free(payload);
    }
    return count;
  };
  for (int n = 0; n < 4; ++n) ASSERT_EQ(chatty.run(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(events(), 2);
  ASSERT_EQ(chatty.run(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_TRUE(readable(stream));
  EXPECT_EQ(events(), 2);
  nrt_debug_client_connect_close(stream);
}

TEST_F(ProfileApi, SaysWhatAHostWithoutTheFeatureLacks) {
  int error = 0;
  char message[256] = {};
  EXPECT_EQ(nrt_get_libnccl_net(&error, message, sizeof(message)), nullptr);
  EXPECT_NE(error, 0);
  EXPECT_THAT(message, HasSubstr("libnccom-net.so"));
  nrt_tensor_t* tensor = make_tensor(64);
  char bdf[16];
  size_t length = sizeof(bdf);
  for (int n = 0; n < 2; ++n) {
    EXPECT_EQ(nrt_get_attached_efa_bdf(nrt_tensor_get_va(tensor), bdf, &length), NRT_FAILURE);
    EXPECT_THAT(nrt_open_last_error(), HasSubstr("has no network adapter"));
  }
  EXPECT_EQ(nrt_get_attached_efa_bdf(&error, bdf, &length), NRT_INVALID);
  nrt_tensor_free(&tensor);
  const nrt_ucode_info microcode{};
  EXPECT_EQ(nrt_set_pool_eng_ucode(&microcode), NRT_INVALID);
  nrt_close();
  EXPECT_EQ(nrt_set_pool_eng_ucode(&microcode), NRT_FAILURE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("no microcode"));
}

TEST(Adapters, EachDeviceHasTheOneThatItsProfileNames) {
  const Setting emulator("NEURON_EMULATOR", "trn1.32xlarge");
  const Setting quiet("NEURON_RT_LOG_LEVEL", "QUIET");
  const Setting two("NEURON_RT_VISIBLE_CORES", "3,4");  // the second of device 1, the first of 2
  ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS) << nrt_open_last_error();
  for (const auto& [core, expected] : {std::pair{0, "0000:10:1a.0"}, {1, "0000:a0:1a.0"}}) {
    nrt_tensor_t* tensor = make_tensor(4096, core);
    auto* va = static_cast<char*>(nrt_tensor_get_va(tensor));
    char bdf[13];
    for (const char* at : {va, va + 4095}) {
      size_t length = sizeof(bdf);
      ASSERT_EQ(nrt_get_attached_efa_bdf(at, bdf, &length), NRT_SUCCESS) << nrt_open_last_error();
      EXPECT_STREQ(bdf, expected);
      EXPECT_EQ(length, 12u);
    }
    size_t small = 12;
    EXPECT_EQ(nrt_get_attached_efa_bdf(va, bdf, &small), NRT_RESOURCE);
    EXPECT_THAT(nrt_open_last_error(), HasSubstr("takes 13 bytes with its NUL, found room for 12"));
    EXPECT_EQ(small, 12u);
    size_t length = sizeof(bdf);
    EXPECT_EQ(nrt_get_attached_efa_bdf(va + 4096, bdf, &length), NRT_INVALID) << "behind its end";
    EXPECT_EQ(nrt_get_attached_efa_bdf(va, nullptr, &length), NRT_INVALID);
    EXPECT_EQ(nrt_get_attached_efa_bdf(va, bdf, nullptr), NRT_INVALID);
    nrt_tensor_free(&tensor);
  }
  nrt_tensor_t* host = make_tensor(4096, 0, NRT_TENSOR_PLACEMENT_HOST);
  char bdf[13];
  size_t length = sizeof(bdf);
  EXPECT_EQ(nrt_get_attached_efa_bdf(nrt_tensor_get_va(host), bdf, &length), NRT_INVALID);
  nrt_tensor_free(&host);
  nrt_close();
}

TEST_F(ProfileApi, ImplicitlyAsynchronousExecutionIsGoneButItsCallsCheckTheirArguments) {
  EXPECT_EQ(nrt_register_async_exec_callback(nullptr, nullptr), NRT_INVALID);
  EXPECT_EQ(nrt_register_async_exec_callback([](void*, uint32_t, uint32_t, uint64_t, NRT_STATUS) {},
                                             nullptr),
            NRT_SUCCESS);
  EXPECT_EQ(nrt_async_drain_queued_execs(99), NRT_INVALID);
  EXPECT_EQ(nrt_async_drain_queued_execs(0), NRT_SUCCESS);
}

}  // namespace
}  // namespace neuron::test
