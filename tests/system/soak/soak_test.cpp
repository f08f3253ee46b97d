// SPDX-License-Identifier: Apache-2.0
// A process that traces, profiles and inspects its executions for a long time: what it holds must
// not grow.
//
// NEURON_TEST_SOAK_SECONDS says for how long: 6 unless it is set, 30 minutes in the nightly run.
// The first fifth warms up: caches and pools fill there.
#include <dirent.h>
#include <malloc.h>
#include <nrt/nrt_profile.h>
#include <nrt/nrt_sys_trace.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/support/files.h"
#include "tests/support/sanitized.h"
#include "tests/system/api/support.h"
#include "tools/neuron-profile/trace/profile.h"

namespace neuron::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::chrono::seconds duration() {
  const char* text = std::getenv("NEURON_TEST_SOAK_SECONDS");
  return std::chrono::seconds(text != nullptr ? std::atoi(text) : 6);
}

// What the process holds between two runtimes.
struct Held {
  double heap_bytes;     // In use by callers of malloc; 0 where a sanitizer has its own allocator
  double private_bytes;  // Resident, of no file
  double descriptors;
  double threads;
  double mappings;
};

double entries(const char* folder) {
  return static_cast<double>(std::distance(fs::directory_iterator(folder), {}));
}

Held held() {
  malloc_trim(0);  // Pages that malloc keeps, but that nothing lies in
  Held now{.heap_bytes = static_cast<double>(mallinfo2().uordblks + mallinfo2().hblkhd),
           .private_bytes = 0,
           .descriptors = entries("/proc/self/fd"),
           .threads = entries("/proc/self/task"),
           .mappings = 0};
  std::string line;
  std::ifstream status("/proc/self/status");
  while (std::getline(status, line)) {
    if (line.starts_with("RssAnon:")) now.private_bytes = std::stod(line.substr(8)) * 1024;
  }
  std::ifstream maps("/proc/self/maps");
  while (std::getline(maps, line)) ++now.mappings;
  return now;
}

// The line through values of one runtime after the other, by least squares.
struct Slope {
  double per_runtime;
  double error;  // Standard error of per_runtime
};

Slope slope_of(const std::vector<Held>& runtimes, double Held::*what) {
  const auto n = static_cast<double>(runtimes.size());
  double mean = 0;
  for (const Held& held : runtimes) mean += held.*what / n;
  const double middle = (n - 1) / 2, spread = n * (n * n - 1) / 12;
  double product = 0, rest = 0;
  for (size_t x = 0; x < runtimes.size(); ++x) {
    product += (static_cast<double>(x) - middle) * (runtimes[x].*what - mean);
  }
  const double slope = product / spread;
  for (size_t x = 0; x < runtimes.size(); ++x) {
    const double off = runtimes[x].*what - mean - slope * (static_cast<double>(x) - middle);
    rest += off * off;
  }
  return {slope, std::sqrt(rest / std::max(1.0, n - 2) / spread)};
}

class Soak : public RuntimeTest {
 protected:
  // Everything that watches an execution, each used as its callers do.
  void round() {
    Loaded add(small_add());
    ASSERT_NO_FATAL_FAILURE(system_trace(add));
    ASSERT_NO_FATAL_FAILURE(profile(add));
    ASSERT_NO_FATAL_FAILURE(continuous(add));
    ASSERT_NO_FATAL_FAILURE(inspect(add));
    fs::remove_all(folder_.path("out"));
  }

 private:
  static void run(Loaded& model) {
    for (int n = 0; n < 4; ++n) ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  }
  static void system_trace(Loaded& model) {
    nrt_sys_trace_config_t* config = nullptr;
    ASSERT_EQ(nrt_sys_trace_config_allocate(&config), NRT_SUCCESS);
    ASSERT_EQ(nrt_sys_trace_start(config), NRT_SUCCESS) << nrt_open_last_error();
    nrt_sys_trace_config_free(config);
    ASSERT_NO_FATAL_FAILURE(run(model));
    char* events = nullptr;
    size_t size = 0;
    ASSERT_EQ(nrt_sys_trace_fetch_events(&events, &size, nullptr), NRT_SUCCESS);
    EXPECT_THAT(events, HasSubstr("nc_exec_running"));
    nrt_sys_trace_buffer_free(events);
    ASSERT_EQ(nrt_sys_trace_stop(), NRT_SUCCESS);
  }
  void profile(Loaded& model) {
    const std::string file = folder_.path("out/one.ntff");
    fs::create_directories(folder_.path("out"));
    ASSERT_EQ(nrt_profile_start(model.model, file.c_str()), NRT_SUCCESS) << nrt_open_last_error();
    ASSERT_NO_FATAL_FAILURE(run(model));
    ASSERT_EQ(nrt_profile_stop(file.c_str()), NRT_SUCCESS) << nrt_open_last_error();
    const auto read = profile::Profile::open(file);
    ASSERT_TRUE(read) << read.error().sentence;
    EXPECT_EQ(read->parts()[0].executions.size(), 4u);
  }
  void continuous(Loaded& model) {
    nrt_profile_continuous_options_t* options = nullptr;
    ASSERT_EQ(nrt_profile_continuous_options_allocate(&options), NRT_SUCCESS);
    ASSERT_EQ(nrt_profile_continuous_options_set_output_dir(options, folder_.path("out").c_str()),
              NRT_SUCCESS);
    ASSERT_EQ(nrt_profile_continuous_start(options), NRT_SUCCESS) << nrt_open_last_error();
    ASSERT_NO_FATAL_FAILURE(run(model));
    ASSERT_EQ(nrt_profile_continuous_save(0, options), NRT_SUCCESS) << nrt_open_last_error();
    ASSERT_EQ(nrt_profile_continuous_stop(), NRT_SUCCESS);
    nrt_profile_continuous_options_free(options);
  }
  void inspect(Loaded& model) {
    nrt_inspect_config_t* config = nullptr;
    ASSERT_EQ(nrt_inspect_config_allocate(&config), NRT_SUCCESS);
    ASSERT_EQ(nrt_inspect_config_set_enable_inspect(config, true), NRT_SUCCESS);
    ASSERT_EQ(nrt_inspect_config_set_activity(config, "all", true), NRT_SUCCESS);
    ASSERT_EQ(nrt_inspect_config_set_output_dir(config, folder_.path("out").c_str()), NRT_SUCCESS);
    ASSERT_EQ(nrt_inspect_begin_with_options(config), NRT_SUCCESS) << nrt_open_last_error();
    nrt_inspect_config_free(config);
    ASSERT_NO_FATAL_FAILURE(run(model));
    ASSERT_EQ(nrt_inspect_stop(), NRT_SUCCESS) << nrt_open_last_error();
  }

  Folder folder_;
};

// A loss of 16 bytes a runtime, the least that malloc hands out, is a slope of 16.
constexpr double kHeapBytes = 8;
constexpr double kPrivateBytes = 2 << 20;  // In the whole run

// What malloc keeps for each thread to hand out again counts as in use, and fills by chance.
constexpr const char* kTunables = "glibc.malloc.tcache_count=0";

TEST_F(Soak, RuntimesThatTraceProfileAndInspectLeaveLessThanEightBytesOfHeapEach) {
  const char* tunables = std::getenv("GLIBC_TUNABLES");
  ASSERT_STREQ(tunables, kTunables) << "run this with GLIBC_TUNABLES=" << kTunables;
  constexpr int kRounds = 5;
  constexpr size_t kLeast = 8;
  const auto start = Clock::now();
  const auto warm = start + duration() / 5, end = start + duration();
  std::vector<Held> runtimes;
  // What the test itself holds must not grow either: its pages are touched now.
  runtimes.resize(1 << 16);
  runtimes.clear();
  // bounded: by the duration, and by the least number that a slope needs.
  for (bool first = true; Clock::now() < end || runtimes.size() < kLeast; first = false) {
    for (int n = 0; n < kRounds; ++n) ASSERT_NO_FATAL_FAILURE(round());
    nrt_close();
    if (Clock::now() >= warm && !first) runtimes.push_back(held());
    ASSERT_NO_FATAL_FAILURE(init());
  }
  struct Kind {
    const char* name;
    double Held::*what;
    double most;
  };
  std::vector<Kind> kinds = {{"heap bytes", &Held::heap_bytes, kHeapBytes},
                             {"descriptors", &Held::descriptors, 1e-2},
                             {"threads", &Held::threads, 1e-2}};
  if (!kSanitized) {  // A sanitizer keeps freed memory, and maps what it knows of it
    kinds.push_back({"mappings", &Held::mappings, 1e-2});
    // Whole pages: an arena of malloc's that a thread begins is 600 KiB at once.
    kinds.push_back({"private bytes", &Held::private_bytes,
                     kPrivateBytes / static_cast<double>(runtimes.size())});
  }
  for (const Kind& kind : kinds) {
    const Slope slope = slope_of(runtimes, kind.what);
    std::printf("%zu runtimes, %s: %.0f at first, %.0f at last, slope %.4f +- %.4f a runtime\n",
                runtimes.size(), kind.name, runtimes.front().*kind.what, runtimes.back().*kind.what,
                slope.per_runtime, slope.error);
    // What varies from one to the next has a slope by chance, of which the error tells.
    EXPECT_LT(slope.per_runtime - 3 * slope.error, kind.most) << kind.name;
  }
}

}  // namespace
}  // namespace neuron::test
