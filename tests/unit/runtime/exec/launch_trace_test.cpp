// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/launch_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <thread>

#include "runtime/device/core_turn.h"
#include "runtime/exec/executor.h"
#include "tests/unit/runtime/loaded_sample.h"

namespace neuron::runtime {
namespace {

using test::LoadedSample;
using ::testing::ElementsAre;

struct Event {
  std::string what;  // "nrt_execute start"
  uint64_t id = 0;
  uint64_t time = 0;
};

std::vector<Event> take(SystemTrace& trace) {
  const std::string json = trace.take(std::nullopt, UINT64_MAX);
  const std::regex pattern(
      R"re("event_type":"([a-z_]*)","phase":"([a-z]*)","tracking_id":(\d+),"timestamp_ns":(\d+))re");
  std::vector<Event> events;
  for (std::sregex_iterator found(json.begin(), json.end(), pattern), end; found != end; ++found) {
    events.push_back({.what = (*found)[1].str() + " " + (*found)[2].str(),
                      .id = std::stoull((*found)[3]),
                      .time = std::stoull((*found)[4])});
  }
  return events;
}

std::vector<std::string> names(const std::vector<Event>& events) {
  std::vector<std::string> found;
  for (const Event& event : events) found.push_back(event.what);
  return found;
}

Result<void> call(LoadedSample& sample, int count = 1) {
  ExecuteTrace trace(sample.session->system_trace, *sample.loaded);
  NEURON_TRY(turn, CoreTurn::take(*sample.core));
  if (count == 1) {
    return execute(*sample.session, *sample.loaded, sample.inputs, sample.outputs, &trace);
  }
  return execute_repeat(*sample.session, *sample.loaded, sample.inputs, sample.outputs, count,
                        &trace);
}

TEST(LaunchTrace, ACallHasItsLaunchBetweenItsStartAndItsStopInTheOrderOfTime) {
  LoadedSample sample;
  SystemTrace& trace = sample.session->system_trace;
  ASSERT_TRUE(trace.start({}));
  ASSERT_TRUE(call(sample));
  ASSERT_TRUE(trace.stop());
  const std::vector<Event> events = take(trace);
  ASSERT_THAT(names(events),
              ElementsAre("nrt_execute start", "kbl_exec_pre start", "kbl_exec_pre stop",
                          "kbl_exec_wait start", "kbl_exec_wait stop", "timestamp_sync_point start",
                          "nc_exec_running start", "nc_exec_running stop", "kbl_exec_post start",
                          "kbl_exec_post stop", "nrt_execute stop"));
  EXPECT_EQ(events.front().id, events.back().id);
  EXPECT_EQ(events[1].time, events[0].time) << "nothing was waited for";
  EXPECT_LE(events[1].time, events[2].time);
  EXPECT_LE(events[3].time, events[4].time);
  EXPECT_EQ(events[8].time, events[4].time);
  EXPECT_LE(events[8].time, events[9].time);
  EXPECT_EQ(events[9].time, events[10].time);
}

TEST(LaunchTrace, ACallThatRepeatsHasAllItsLaunchesWithIdsOfTheirOwn) {
  LoadedSample sample;
  SystemTrace& trace = sample.session->system_trace;
  ASSERT_TRUE(trace.start({}));
  ASSERT_TRUE(call(sample, 3));
  ASSERT_TRUE(trace.stop());
  const std::vector<Event> events = take(trace);
  EXPECT_EQ(events.front().what, "nrt_execute start");
  EXPECT_EQ(events.back().what, "nrt_execute stop");
  EXPECT_EQ(events.front().id, events.back().id);
  std::map<std::string, int> count;
  std::map<uint64_t, int> starts;
  for (const Event& event : events) {
    ++count[event.what];
    if (event.what.ends_with(" start") && event.what != "timestamp_sync_point start") {
      ++starts[event.id];
    }
  }
  EXPECT_EQ(count["nrt_execute start"], 1);
  EXPECT_EQ(count["nrt_execute stop"], 1);
  for (const char* what : {"kbl_exec_pre", "kbl_exec_wait", "nc_exec_running", "kbl_exec_post"}) {
    EXPECT_EQ(count[what + std::string(" start")], 3) << what;
    EXPECT_EQ(count[what + std::string(" stop")], 3) << what;
  }
  EXPECT_EQ(starts.size(), 1U + 3U * SystemTrace::kIdsOfLaunch);
  for (const auto& [id, number] : starts) EXPECT_EQ(number, 1) << id;
}

TEST(LaunchTrace, ACallThatHangsShowsItsStart) {
  LoadedSample sample;
  SystemTrace& trace = sample.session->system_trace;
  ASSERT_TRUE(trace.start({}));
  {
    const ExecuteTrace hangs(trace, *sample.loaded);
    EXPECT_THAT(names(take(trace)), ElementsAre("nrt_execute start"));
  }
  EXPECT_THAT(names(take(trace)), ElementsAre("nrt_execute stop"));
  ASSERT_TRUE(trace.stop());
}

TEST(LaunchTrace, WhatTheHostDoesBeforeALaunchBeginsWhenItHasGotTheCore) {
  LoadedSample sample;
  SystemTrace& trace = sample.session->system_trace;
  ASSERT_TRUE(trace.start({}));
  {
    ExecuteTrace call(trace, *sample.loaded);
    auto other = CoreTurn::take(*sample.core);
    ASSERT_TRUE(other);
    EXPECT_FALSE(other->waited());
    bool waited = false;
    std::thread waiter([&] {
      auto turn = CoreTurn::take(*sample.core);
      ASSERT_TRUE(turn);
      waited = turn->waited();
      call.waited();
      EXPECT_TRUE(execute(*sample.session, *sample.loaded, sample.inputs, sample.outputs, &call));
    });
    // bounded: by the waiter, which comes to the lock
    while (!sample.core->turn.has_waiters()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    { const auto release = std::move(other); }
    waiter.join();
    EXPECT_TRUE(waited);
  }
  ASSERT_TRUE(trace.stop());
  const std::vector<Event> events = take(trace);
  ASSERT_EQ(events.size(), 11U);
  EXPECT_GE(events[1].time, events[0].time + 2'000'000);
}

TEST(LaunchTrace, ATraceThatBeginsDuringACallHasTheLaunchAlone) {
  LoadedSample sample;
  SystemTrace& trace = sample.session->system_trace;
  {
    ExecuteTrace call(trace, *sample.loaded);
    ASSERT_TRUE(trace.start({}));
    auto turn = CoreTurn::take(*sample.core);
    ASSERT_TRUE(turn);
    ASSERT_TRUE(execute(*sample.session, *sample.loaded, sample.inputs, sample.outputs, &call));
  }
  ASSERT_TRUE(trace.stop());
  const std::vector<Event> events = take(trace);
  ASSERT_EQ(events.size(), 9U);
  EXPECT_EQ(events.front().what, "kbl_exec_pre start");
  EXPECT_EQ(events.back().what, "kbl_exec_post stop");
}

}  // namespace
}  // namespace neuron::runtime
