// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/configuration/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neuron::monitor {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Configuration accepted(std::string_view text) {
  std::string error;
  auto out = parse_configuration(text, "monitor.conf", error);
  EXPECT_TRUE(out) << error;
  return out.value_or(Configuration());
}

std::string refused(std::string_view text) {
  std::string error;
  EXPECT_FALSE(parse_configuration(text, "monitor.conf", error)) << text;
  return error;
}

TEST(Duration, IsReadAsGoReadsIt) {
  const std::pair<const char*, Duration> all[] = {{"1s", 1s},
                                                  {"1.0s", 1s},
                                                  {"500ms", 500ms},
                                                  {".5s", 500ms},
                                                  {"1.5h", 90min},
                                                  {"2h45m", 165min},
                                                  {"1m30.5s", 90500ms},
                                                  {"+5s", 5s},
                                                  {"-1.5m", -90s},
                                                  {"0", 0s},
                                                  {"100us", 100us},
                                                  {"100\u00b5s", 100us},
                                                  {"100\u03bcs", 100us},
                                                  {"7ns", 7ns},
                                                  {"1.s", 1s},
                                                  {"3000000us", 3s},
                                                  {"0.100000000000000000000h", 6min}};
  for (const auto& [text, expected] : all) {
    std::string error;
    const auto read = parse_duration(text, error);
    ASSERT_TRUE(read) << text << ": " << error;
    EXPECT_EQ(*read, expected) << text;
  }
}

TEST(Duration, ThatIsNoneIsRefusedWithWhatWouldBeOne) {
  for (const char* text : {"", "5", "s", "1 s", "1sec", "five", "1.5", "1..5s", ".s", "-", "--1s",
                           "1s ", "1h-5m", "99999999999h", "9223372036854775808ns", "1e3s"}) {
    std::string error;
    EXPECT_FALSE(parse_duration(text, error)) << text;
    EXPECT_THAT(error, HasSubstr("\"500ms\"")) << text;
  }
}

TEST(Period, IsFromTenMillisecondsToAYear) {
  std::string error;
  EXPECT_TRUE(parse_period("10ms", error));
  EXPECT_TRUE(parse_period("8784h", error));
  for (const char* text : {"0", "-1s", "9ms", "8785h"}) {
    EXPECT_FALSE(parse_period(text, error)) << text;
    EXPECT_THAT(error, HasSubstr("\"10ms\"")) << text;
  }
}

TEST(Configuration, TakesTheMostSpecificPeriod) {
  const Configuration read = accepted(R"({
    "neuron_runtimes": [
      {"tag_filter": "serving", "period": "2s",
       "metrics": [{"type": "execution_stats", "period": "500ms"}, {"type": "memory_used"}]},
      {"metrics": [{"type": "neuroncore_counters"}]}],
    "system_metrics": [{"type": "vcpu_usage"}, {"period": "1m", "type": "neuron_hw_counters"}],
    "period": "3s"})");
  ASSERT_EQ(read.runtimes.size(), 2u);
  EXPECT_EQ(read.runtimes[0].tag_filter, "serving");
  EXPECT_EQ(read.runtimes[0].metrics[0].period, 500ms);
  EXPECT_EQ(read.runtimes[0].metrics[1].period, 2s);
  EXPECT_EQ(read.runtimes[1].tag_filter, ".*");
  EXPECT_EQ(read.runtimes[1].metrics[0].period, 3s);
  EXPECT_EQ(read.system_metrics[0].period, 3s);
  EXPECT_EQ(read.system_metrics[1].period, 60s);
  EXPECT_THAT(read.warnings, IsEmpty());
}

TEST(Configuration, DefaultsToEveryGroupEachFiveSeconds) {
  const Configuration all = default_configuration();
  ASSERT_EQ(all.runtimes.size(), 1u);
  EXPECT_EQ(all.runtimes[0].metrics.size(), 4u);
  EXPECT_EQ(all.system_metrics.size(), 3u);
  EXPECT_EQ(all.system_metrics[2].period, 5s);
  EXPECT_EQ(accepted(R"({"system_metrics": [{"type": "vcpu_usage"}]})").system_metrics[0].period,
            5s);
}

TEST(Configuration, EnablesOrchestrationWithItsOwnPeriod) {
  EXPECT_EQ(accepted(R"({"period": "1s", "k8s_info": true})").k8s_period, 1s);
  EXPECT_EQ(accepted(R"({"period": "1s", "k8s_info": {"period": "15s"}})").k8s_period, 15s);
  EXPECT_EQ(accepted(R"({"k8s_info": false})").k8s_period, std::nullopt);
}

TEST(Configuration, NamesTheOldGroupAndUnknownKeysInWarnings) {
  const Configuration read = accepted(R"({
  "neuron_runtimes": [{"metrics": [{"type": "inference_stats"}]}],
  "perido": "1s"})");
  EXPECT_EQ(read.runtimes[0].metrics[0].group, Group::kExecutionStats);
  EXPECT_THAT(read.warnings,
              ElementsAre(AllOf(StartsWith("monitor.conf:2:45: "), HasSubstr("execution_stats")),
                          AllOf(StartsWith("monitor.conf:3:3: "), HasSubstr("\"perido\""),
                                HasSubstr("\"period\""))));
}

TEST(Configuration, PointsAtTheCharacterThatIsWrong) {
  const std::pair<const char*, const char*> all[] = {
      {"", "1:1: the file is empty"},
      {"[]", "1:1: expected an object"},
      {"{\"period\": 5}", "1:12: \"period\" must be a string such as \"5s\""},
      {"{\"period\": \"5\"}", "1:12: \"period\": \"5\" is no duration: a unit is missing"},
      {"{\"period\": \"0s\"}", "1:12: \"period\": \"0s\" is no period"},
      {"{\n  \"period\": \"1s\",\n  \"period\": \"2s\"}",
       "3:3: \"period\" is there twice, first in line 2"},
      {"{\n\"system_metrics\": [{\"type\": \"memory\"}]}",
       "2:29: \"memory\" is no type of metric; expected one of \"vcpu_usage\", \"memory_info\", "
       "\"neuron_hw_counters\""},
      {"{\"system_metrics\": [{\"type\": \"memory_used\"}]}",
       "1:30: \"memory_used\" belongs into \"neuron_runtimes\""},
      {"{\"system_metrics\": [{\"period\": \"1s\"}]}", "1:21: this metric has no \"type\""},
      {"{\"system_metrics\": [{\"type\": \"vcpu_usage\"}, {\"type\": \"vcpu_usage\"}]}",
       "1:54: \"vcpu_usage\" is there twice"},
      {"{\"system_metrics\": {}}", "1:20: \"system_metrics\" must be an array"},
      {"{\"neuron_runtimes\": [{}]}", "1:22: this runtime has no \"metrics\""},
      {"{\"neuron_runtimes\": [7]}", "1:22: each of \"neuron_runtimes\" must be an object"},
      {"{\"neuron_runtimes\": [{\"tag_filter\": \"(\", \"metrics\": []}]}",
       "1:37: \"tag_filter\": \"(\" is no regular expression"},
      {"{\"k8s_info\": \"yes\"}", "1:14: \"k8s_info\" must be true, false or an object"},
      {"{\"period\": \"1s\",}", "1:16: a comma follows the last value"},
      {"{\"period\": \"1s\"", "1:1: this has no end; a '}' is missing"},
      {"{\"period\" \"1s\"}", "1:11: expected ':' after the key, found '\"'"},
      {"{\"period\": \"1s}", "1:12: this string has no end; a quote is missing"},
      {"{\"period\": \"1s\"} x", "1:18: text goes on after the end of the document"},
      {"{\"\u00e4\u00f6\": tru}", "1:8: expected true"},
      {"{\"a\": \"\\x\"}", "1:9: unknown escape"},
      {"{\"a\": 01}", "1:9: a number must not begin with 0"}};
  for (const auto& [text, expected] : all) {
    EXPECT_THAT(refused(text), StartsWith("monitor.conf:" + std::string(expected))) << text;
  }
}

TEST(Configuration, OfHostileDepthIsRefused) {
  EXPECT_THAT(refused(std::string(100'000, '[')), HasSubstr("more than 64 levels"));
}

TEST(Configuration, ThatCannotBeReadIsASentence) {
  std::string error;
  EXPECT_FALSE(read_configuration("/nonexistent/monitor.conf", error));
  EXPECT_THAT(error, AllOf(HasSubstr("/nonexistent/monitor.conf"), HasSubstr("No such file")));
}

}  // namespace
}  // namespace neuron::monitor
