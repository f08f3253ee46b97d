// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/system_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <regex>
#include <thread>

#include "tests/support/sanitized.h"

namespace neuron::runtime {
namespace {

using TraceEvents = std::vector<std::string>;

TraceEvents events_of(const std::string& json) {
  TraceEvents events;
  const std::regex event("\\{\"event_type\"[^}]*\\}\\}");
  for (std::sregex_iterator found(json.begin(), json.end(), event), end; found != end; ++found) {
    events.push_back(found->str());
  }
  return events;
}

// Three calls: a launch, one with collectives, and one that failed before its end. `together`: a
// launch takes the place of the start of its call.
void record(SystemTrace& trace, const SystemTraceSettings& settings, bool together = false) {
  ASSERT_TRUE(trace.start(settings));
  for (uint64_t call = 0; call < 3; ++call) {
    const uint64_t at = 1000 * (call + 1);
    const SystemTrace::Details details{.id = 199 + 10 * call, .name = "model", .host_ns = at};
    const uint64_t start = trace.add(TraceEvent::kExecute, true, details);
    trace.add({.id = 200 + 10 * call,
               .thread = SystemTrace::thread_number(),
               .model = "model",
               .collective = call == 1,
               .exec_id = call,
               .core_ps = 5'000'000 * call,
               .device_ps = 5'000'000,
               .call_entry = together ? start : 0,
               .begin_ns = at + 10,
               .launched_ns = at + 20,
               .ended_ns = call == 2 ? 0 : at + 30,
               .end_ns = at + 40});
    trace.add(TraceEvent::kExecute, false, details);
  }
  ASSERT_TRUE(trace.stop());
}

TraceEvents recorded(const SystemTraceSettings& settings) {
  SystemTrace trace;
  record(trace, settings);
  return events_of(trace.take(std::nullopt, UINT64_MAX));
}

std::string type_of(const std::string& event) {
  std::smatch found;
  std::regex_search(event, found, std::regex("\"event_type\":\"([a-z_]*)\",\"phase\":\"(st.*?)\""));
  return found[1].str() + " " + found[2].str();
}

// Who takes a million events lets those who add some go on.
TEST(SystemTrace, EventsAreAddedWhileOthersBecomeText) {
  SystemTrace trace;
  ASSERT_TRUE(trace.start({}));
  constexpr uint64_t kEvents = 200'000;
  for (uint64_t n = 0; n < kEvents; ++n) {
    trace.add(TraceEvent::kTensorRead, true, {.id = n, .name = "tensor", .host_ns = 1});
  }
  std::atomic<bool> done{false};
  std::string text;
  std::thread taker([&] {
    text = trace.take(std::nullopt, UINT64_MAX);
    done = true;
  });
  uint64_t added = 0;
  // Of a slow taker no event may be overwritten: the ring has room for a million.
  constexpr uint64_t kMostAdded = 500'000;
  while (!done) {
    if (added < kMostAdded) {
      trace.add(TraceEvent::kTensorWrite, true, {.id = kEvents + added, .name = "w", .host_ns = 1});
      ++added;
    }
    std::this_thread::yield();
  }
  taker.join();
  // With the lock held all the time it is one or none.
  EXPECT_GT(added, 20u);
  const std::string rest = trace.take(std::nullopt, UINT64_MAX);
  const auto count = [](const std::string& all, const char* type) {
    uint64_t events = 0;
    for (size_t at = 0; (at = all.find(type, at)) != std::string::npos; ++at) ++events;
    return events;
  };
  EXPECT_EQ(count(text, "\"nrt_tensor_read\""), kEvents);
  EXPECT_EQ(count(text, "\"nrt_tensor_write\"") + count(rest, "\"nrt_tensor_write\""), added)
      << "each event once";
  ASSERT_TRUE(trace.stop());
}

// Those of the original's documents, with what this runtime makes of them.
TEST(SystemTrace, KnowsEveryDocumentedNameInEveryForm) {
  for (const char* name : {"nrt_execute",
                           "nrt_model_submit",
                           "nrt_load",
                           "nrt_tensor_read",
                           "nrt_tensor_write",
                           "nrt_tensor_allocate",
                           "nrt_tensor_free",
                           "kbl_exec_pre",
                           "kbl_exec_post",
                           "kbl_exec_wait",
                           "dmem_buf_copyin",
                           "dmem_buf_copyout",
                           "nrt_dma_mem_alloc",
                           "nrt_dma_mem_dealloc",
                           "nrt_async_sema_wait",
                           "numerical_err",
                           "nc_exec_running",
                           "nrta_execute_schedule",
                           "cc_running",
                           "cc_exec_barrier",
                           "tensor_block_while_exec",
                           "nrt_model_switch",
                           "nc_model_switch",
                           "nrt_profile_add_node_info",
                           "timestamp_sync_point",
                           "hw_notify",
                           "notification_consume_errors",
                           "model_load",
                           "runtime_execute",
                           "hardware",
                           "software",
                           "all"}) {
    for (const char* form : {"{}", "^{}", " {}", " ^{} ", "\t^ {}"}) {
      std::string text = form;
      text.replace(text.find("{}"), 2, name);
      SystemTraceSettings settings;
      EXPECT_TRUE(settings.enable(text, true)) << text;
    }
  }
  SystemTraceSettings settings;
  for (const char* name : {"", " ", "^", " ^ ", "nrt_execut", "nrt execute"}) {
    EXPECT_FALSE(settings.enable(name, true)) << name;
  }
  EXPECT_TRUE(settings.events.all()) << "what is not known changes nothing";
  ASSERT_TRUE(settings.enable(" ^nrt_load", true));
  EXPECT_EQ(settings.events.count(), kTraceEvents - 1);
  for (const AbsentEventName& absent : absent_event_names()) {
    for (const TraceEventName& event : trace_event_names()) EXPECT_STRNE(event.name, absent.name);
  }
}

TEST(SystemTrace, HardwareIsWhatHappensOnTheDevice) {
  std::vector<std::string> hardware, absent;
  for (const TraceEventName& event : trace_event_names()) {
    if (event.hardware) hardware.emplace_back(event.name);
  }
  for (const AbsentEventName& event : absent_event_names()) {
    if (event.hardware) absent.emplace_back(event.name);
    EXPECT_NE(std::string(event.why), "") << event.name;
  }
  EXPECT_THAT(hardware,
              testing::ElementsAre("nc_exec_running", "cc_running", "timestamp_sync_point"));
  EXPECT_THAT(absent, testing::ElementsAre("cc_exec_barrier", "numerical_err", "nrt_model_switch",
                                           "nc_model_switch", "hw_notify"));
}

TEST(SystemTrace, ALaunchHasItsEventsInTheirOrderOnBothClocks) {
  const TraceEvents all = recorded({});
  std::vector<std::string> types;
  for (size_t n = 0; n < 11; ++n) types.push_back(type_of(all.at(n)));
  EXPECT_THAT(types, testing::ElementsAre(
                         "nrt_execute start", "kbl_exec_pre start", "kbl_exec_pre stop",
                         "kbl_exec_wait start", "kbl_exec_wait stop", "timestamp_sync_point start",
                         "nc_exec_running start", "nc_exec_running stop", "kbl_exec_post start",
                         "kbl_exec_post stop", "nrt_execute stop"));
  EXPECT_THAT(all[6], testing::HasSubstr("\"timestamp_ns\":1020"));
  EXPECT_THAT(all[6], testing::HasSubstr("\"nc_timestamp_ns\":0,"));
  EXPECT_THAT(all[7], testing::HasSubstr("\"timestamp_ns\":1030"));
  EXPECT_THAT(all[7], testing::HasSubstr("\"nc_timestamp_ns\":5000,"));
  ASSERT_EQ(all.size(), 11U + 13U + 4U) << "with collectives two more; failed: what came before";
  EXPECT_EQ(type_of(all[18]), "cc_running start");
  EXPECT_EQ(type_of(all[19]), "cc_running stop");
  EXPECT_THAT(all[17], testing::HasSubstr("\"nc_timestamp_ns\":5000,"));
  EXPECT_EQ(type_of(all[25]), "kbl_exec_pre start");
  EXPECT_EQ(type_of(all[26]), "kbl_exec_pre stop");
}

// One that succeeded, and one that failed before it reached the core.
TEST(SystemTrace, TheLastLaunchOfACallHasTheStopOfTheCall) {
  for (const uint64_t ended : {uint64_t{30}, uint64_t{0}}) {
    SystemTrace trace;
    ASSERT_TRUE(trace.start({}));
    trace.add({.id = 8,
               .model = "model",
               .ends_call = true,
               .begin_ns = 10,
               .launched_ns = ended != 0 ? 20U : 0U,
               .ended_ns = ended,
               .end_ns = 40});
    const uint64_t waiting = trace.waiting();
    const TraceEvents events = events_of(trace.take(std::nullopt, UINT64_MAX));
    EXPECT_EQ(events.size(), ended != 0 ? 10U : 3U);
    EXPECT_EQ(events.size(), waiting);
    EXPECT_EQ(type_of(events.back()), "nrt_execute stop");
    EXPECT_THAT(events.back(), testing::HasSubstr("\"tracking_id\":7,\"timestamp_ns\":40,"));
  }
}

TEST(SystemTrace, ARingOfAnySizeHasTheLastEventsAndCountsTheOthers) {
  const TraceEvents all = recorded({});
  for (uint64_t n = 2; n <= 2 * all.size() + 3; ++n) {
    const uint64_t room = n / 2;
    SystemTrace trace;
    record(trace, {.events_per_core = room}, n % 2 != 0);
    const size_t kept = std::min<size_t>(room, all.size());
    EXPECT_EQ(trace.waiting(), kept);
    const std::string json = trace.take(std::nullopt, UINT64_MAX);
    EXPECT_EQ(events_of(json), TraceEvents(all.end() - static_cast<ptrdiff_t>(kept), all.end()))
        << room;
    EXPECT_THAT(
        json, testing::HasSubstr("\"dropped_events\":" + std::to_string(all.size() - kept) + "}"));
  }
}

TEST(SystemTrace, EventsAreTakenOneByOneAsAllAtOnce) {
  const TraceEvents all = recorded({});
  SystemTrace trace;
  record(trace, {});
  TraceEvents found;
  for (size_t n = 0; n < all.size(); ++n) {
    EXPECT_EQ(trace.waiting(), all.size() - n);
    const TraceEvents one = events_of(trace.take(0, 1));
    ASSERT_EQ(one.size(), 1U);
    found.push_back(one[0]);
  }
  EXPECT_EQ(found, all);
}

TEST(SystemTrace, ALaunchInThePlaceOfTheStartOfItsCallHasTheSameEvents) {
  SystemTrace trace;
  record(trace, {}, true);
  EXPECT_EQ(events_of(trace.take(std::nullopt, UINT64_MAX)), recorded({}));
}

TEST(SystemTrace, ALaunchGoesBehindTheStartOfItsCallThatIsTakenOrNotTheLast) {
  const SystemTrace::Details call{.id = 7, .host_ns = 10};
  const SystemTrace::Details other{.id = 20, .host_ns = 11};
  SystemTrace trace;
  ASSERT_TRUE(trace.start({}));
  SystemTrace::Launch launch{.id = 8, .begin_ns = 10, .launched_ns = 20};
  launch.call_entry = trace.add(TraceEvent::kExecute, true, call);
  trace.add(TraceEvent::kTensorRead, true, other);
  trace.add(launch);
  const TraceEvents behind = events_of(trace.take(std::nullopt, UINT64_MAX));
  ASSERT_EQ(behind.size(), 4U);
  EXPECT_EQ(type_of(behind[0]), "nrt_execute start");
  EXPECT_EQ(type_of(behind[1]), "nrt_tensor_read start");
  EXPECT_EQ(type_of(behind[2]), "kbl_exec_pre start");

  launch.call_entry = trace.add(TraceEvent::kExecute, true, call);
  EXPECT_EQ(events_of(trace.take(std::nullopt, UINT64_MAX)).size(), 1U);
  trace.add(launch);
  const TraceEvents taken = events_of(trace.take(std::nullopt, UINT64_MAX));
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(type_of(taken[0]), "kbl_exec_pre start");

  // A trace that began meanwhile knows nothing of the call.
  launch.call_entry = trace.add(TraceEvent::kExecute, true, call);
  ASSERT_TRUE(trace.stop());
  ASSERT_TRUE(trace.start({}));
  trace.add(launch);
  EXPECT_EQ(events_of(trace.take(std::nullopt, UINT64_MAX)).size(), 2U);
}

TEST(SystemTrace, EventsThatAreNotWantedTakeNoRoom) {
  SystemTraceSettings hardware;
  ASSERT_TRUE(hardware.enable("all", false));
  ASSERT_TRUE(hardware.enable("nc_exec_running", true));
  hardware.events_per_core = 4;
  const TraceEvents found = recorded(hardware);
  ASSERT_EQ(found.size(), 4U);
  for (size_t n = 0; n < 4; ++n) {
    EXPECT_EQ(type_of(found[n]), n % 2 == 0 ? "nc_exec_running start" : "nc_exec_running stop");
  }
}

// Counts what a trace drops, for whatever reason.
TEST(SystemTrace, TellsHowManyEventsItHasDroppedAlsoAfterSomeWereTaken) {
  SystemTrace trace;
  SystemTraceSettings settings;
  settings.events_per_core = 4;
  ASSERT_TRUE(trace.start(settings));
  for (int n = 0; n < 10; ++n) trace.add(TraceEvent::kTensorRead, true, {});
  (void)trace.take(std::nullopt, UINT64_MAX);
  EXPECT_EQ(trace.dropped(), 6u);
  trace.add(TraceEvent::kTensorRead, true, {});
  EXPECT_EQ(trace.dropped(), 6u);
  ASSERT_TRUE(trace.stop());
  ASSERT_TRUE(trace.start(settings));
  EXPECT_EQ(trace.dropped(), 0u);
}

// An event is also added at the end of a scope, where an exception would end the process.
TEST(SystemTrace, WithoutMemoryEventsAreDroppedAndTheProgramGoesOn) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    SystemTrace trace;
    if (!trace.start({})) _exit(1);
    // A sanitizer's own memory cannot be limited: there nothing is dropped.
    const rlimit none{0, 0};
    if (!test::kSanitized && ::setrlimit(RLIMIT_AS, &none) != 0) _exit(2);
    // What earlier tests have freed would serve, too.
    for (size_t size = 1 << 20; !test::kSanitized && size >= 16;) {
      void* volatile kept = std::malloc(size);
      if (kept == nullptr) size /= 2;
    }
    // Each core needs a block of its own.
    for (uint32_t core = 0; core < 64; ++core) {
      const TraceSpan span(trace, TraceEvent::kExecute, {.core = core});
      trace.add(
          {.id = 2, .core = core, .begin_ns = 1, .launched_ns = 2, .ended_ns = 3, .end_ns = 4});
    }
    _exit((trace.dropped() > 0) == !test::kSanitized ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace neuron::runtime
