// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/inspect_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/setting.h"

namespace neuron::runtime {
namespace {

using test::Setting;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

InspectSettings inspected() {
  auto read = InspectSettings::from_environment();
  EXPECT_TRUE(read) << (read ? "" : read.error().sentence);
  return read ? std::move(*read) : InspectSettings{};
}

TEST(InspectSettings, WithoutVariablesRecordTheHostAndNotTheDevice) {
  const InspectSettings s = inspected();
  EXPECT_FALSE(s.enabled);
  EXPECT_FALSE(s.on_fail);
  EXPECT_FALSE(s.whole_session);
  EXPECT_EQ(s.output_dir, "./output");
  EXPECT_EQ(s.session_id, 1);
  EXPECT_TRUE(s.has(Activity::kSystemProfile));
  EXPECT_FALSE(s.has(Activity::kDeviceProfile));
  EXPECT_TRUE(s.has(Activity::kHostMemory));
  EXPECT_TRUE(s.has(Activity::kCpuUtilisation));
  EXPECT_TRUE(s.trace.cores.all());
  EXPECT_THAT(s.notices, IsEmpty());
}

TEST(InspectSettings, EachVariableHasItsOwnEffect) {
  {
    const Setting one("NEURON_RT_INSPECT_ENABLE", "1");
    EXPECT_TRUE(inspected().enabled);
    EXPECT_FALSE(inspected().on_fail);
  }
  {
    const Setting one("NEURON_RT_INSPECT_ON_FAIL", "1");
    EXPECT_TRUE(inspected().on_fail);
    EXPECT_FALSE(inspected().enabled);
  }
  {
    const Setting one("NEURON_RT_INSPECT_OUTPUT_DIR", "/profiles");
    EXPECT_EQ(inspected().output_dir, "/profiles");
  }
  {
    const Setting one("NEURON_RT_INSPECT_SYSTEM_PROFILE", "0");
    EXPECT_FALSE(inspected().has(Activity::kSystemProfile));
    EXPECT_TRUE(inspected().has(Activity::kCpuUtilisation));
  }
  {
    const Setting one("NEURON_RT_INSPECT_CPU_UTIL", "0");
    EXPECT_FALSE(inspected().has(Activity::kCpuUtilisation));
    EXPECT_TRUE(inspected().has(Activity::kHostMemory));
  }
  {
    const Setting one("NEURON_RT_INSPECT_HOST_MEMORY", "0");
    EXPECT_FALSE(inspected().has(Activity::kHostMemory));
    EXPECT_TRUE(inspected().has(Activity::kSystemProfile));
  }
  {
    const Setting one("NEURON_RT_INSPECT_EVENT_FILTER_NC", "0,2-3");
    const InspectSettings s = inspected();
    EXPECT_EQ(s.trace.cores.count(), 3u);
    EXPECT_TRUE(s.trace.cores.test(0) && s.trace.cores.test(2) && s.trace.cores.test(3));
  }
  {
    const Setting one("NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC", "17");
    EXPECT_EQ(inspected().trace.events_per_core, 17u);
  }
}

TEST(InspectSettings, ADeviceProfileIsOfTheFirstExecutionOrOfTheSession) {
  for (const auto& [text, device, whole] : {std::tuple{"0", false, false},
                                            {"1", true, false},
                                            {"model", true, false},
                                            {"session", true, true}}) {
    const Setting one("NEURON_RT_INSPECT_DEVICE_PROFILE", text);
    EXPECT_EQ(inspected().has(Activity::kDeviceProfile), device) << text;
    EXPECT_EQ(inspected().whole_session, whole) << text;
  }
}

TEST(InspectSettings, WhatCannotBeReadIsAnErrorThatNamesTheVariable) {
  for (const char* variable :
       {"NEURON_RT_INSPECT_ENABLE", "NEURON_RT_INSPECT_ON_FAIL", "NEURON_RT_INSPECT_SYSTEM_PROFILE",
        "NEURON_RT_INSPECT_DEVICE_PROFILE", "NEURON_RT_INSPECT_CPU_UTIL",
        "NEURON_RT_INSPECT_HOST_MEMORY", "NEURON_RT_INSPECT_EVENT_FILTER_NC",
        "NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC"}) {
    const Setting one(variable, "perhaps");
    const auto read = InspectSettings::from_environment();
    ASSERT_FALSE(read) << variable;
    EXPECT_EQ(read.error().status, NRT_INVALID);
    EXPECT_THAT(read.error().sentence, HasSubstr(variable));
  }
  const Setting none("NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC", "0");
  EXPECT_FALSE(InspectSettings::from_environment());
}

TEST(InspectSettings, NamedEventTypesAreOnAndBehindACaretOff) {
  const size_t all = inspected().trace.events.count();
  ASSERT_GT(all, 2u);
  const auto events = [](const char* text) {
    const Setting one("NEURON_RT_INSPECT_EVENT_FILTER_TYPE", text);
    const InspectSettings s = inspected();
    EXPECT_THAT(s.notices, IsEmpty()) << text;
    return s.trace.events;
  };
  const auto hardware = events("hardware"), software = events("software");
  EXPECT_TRUE((hardware & software).none());
  EXPECT_TRUE(hardware.any() && software.any());
  EXPECT_EQ(events("hardware, software"), hardware | software) << "with a blank between";
  EXPECT_EQ(events(" , hardware,"), hardware) << "and empty words";
  EXPECT_EQ(events("^hardware").count(), all - hardware.count());
  EXPECT_EQ(events(" ^hardware").count(), all - hardware.count());
  EXPECT_EQ(events("  ").count(), all) << "nothing is named";
}

TEST(InspectSettings, ANameThatNobodyKnowsCostsASentenceAndTheRestIsUsed) {
  const Setting one("NEURON_RT_INSPECT_EVENT_FILTER_TYPE", "hardwar,software");
  const InspectSettings s = inspected();
  EXPECT_TRUE(s.trace.events.any());
  EXPECT_THAT(s.notices, ElementsAre(AllOf(HasSubstr("NEURON_RT_INSPECT_EVENT_FILTER_TYPE is "
                                                     "'hardwar,software'"),
                                           HasSubstr("there is no event type 'hardwar'; is "
                                                     "'hardware' meant?"),
                                           HasSubstr("the rest of it is used"))));
  EXPECT_THAT(unknown_event_type("zzzzzzzzzzzzzzzzzzzzzz").sentence,
              AllOf(HasSubstr("there are all, hardware, software, "),
                    HasSubstr("each of these behind a ^")));
}

TEST(InspectSettings, ActivitiesAreSetByNameOrAllAtOnce) {
  InspectSettings s;
  EXPECT_TRUE(s.set_activity("all", false));
  EXPECT_TRUE(s.activities.none());
  EXPECT_TRUE(s.set_activity("host_memory", true));
  EXPECT_TRUE(s.has(Activity::kHostMemory));
  EXPECT_EQ(s.activities.count(), 1u);
  EXPECT_FALSE(s.set_activity("gpu_memory", true));
  EXPECT_EQ(s.activities.count(), 1u);
  EXPECT_TRUE(s.set_activity("all", true));
  EXPECT_TRUE(s.activities.all());
}

}  // namespace
}  // namespace neuron::runtime
