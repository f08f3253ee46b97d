// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>
#include <vector>

namespace neuron::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Values = std::vector<std::pair<const char*, const char*>>;

// Variables for the length of a test.
class Settings {
 public:
  explicit Settings(Values values) : values_(std::move(values)) {
    for (const auto& [name, value] : values_) setenv(name, value, 1);
  }
  ~Settings() {
    for (const auto& [name, value] : values_) unsetenv(name);
  }

 private:
  Values values_;
};

TEST(Configuration, ReadsEachVariableAndNamesAWrongOne) {
  setenv("NEURON_RT_EXEC_TIMEOUT", "7", 1);
  setenv("NEURON_OPEN_MODEL_TIME_LIMIT_US", "3", 1);
  auto configuration = read_configuration();
  ASSERT_TRUE(configuration);
  EXPECT_EQ(configuration->exec_timeout_s, 7u);
  EXPECT_EQ(configuration->model_time_limit_ps, 3'000'000u);
  setenv("NEURON_RT_EXEC_TIMEOUT", "soon", 1);
  configuration = read_configuration();
  ASSERT_FALSE(configuration);
  EXPECT_EQ(configuration.error().status, NRT_INVALID);
  EXPECT_NE(configuration.error().sentence.find("NEURON_RT_EXEC_TIMEOUT"), std::string::npos);
  unsetenv("NEURON_RT_EXEC_TIMEOUT");
  unsetenv("NEURON_OPEN_MODEL_TIME_LIMIT_US");
}

TEST(Configuration, OfAnEmptyEnvironmentIsTheDocumentedOne) {
  const auto configuration = read_configuration();
  ASSERT_TRUE(configuration);
  EXPECT_TRUE(configuration->cores.visible.empty());
  EXPECT_EQ(configuration->cores.count, 0u);
  EXPECT_EQ(configuration->logical_cores.size, 0u);
  EXPECT_FALSE(configuration->allow_older_programs);
  EXPECT_EQ(configuration->exec_timeout_s, 600u);
  EXPECT_EQ(configuration->model_time_limit_ps, 0u);
  EXPECT_FALSE(configuration->validate_hash);
  EXPECT_TRUE(configuration->reset_cores);
  EXPECT_FALSE(configuration->fail_on_nan);
  EXPECT_FALSE(configuration->stochastic_rounding);
  EXPECT_FALSE(configuration->rounding_seed);
  EXPECT_EQ(configuration->async_queue_depth, 1024u);
  EXPECT_EQ(configuration->process_tag, "");
  EXPECT_EQ(configuration->collectives_timeout_s, 60u);
  EXPECT_EQ(configuration->root, "");
}

TEST(Configuration, EveryVariableHasItsField) {
  const Settings settings(Values{{"NEURON_RT_VISIBLE_CORES", "2-4"},
                                 {"NEURON_RT_NUM_CORES", "3"},
                                 {"NEURON_LOGICAL_NC_CONFIG", "2"},
                                 {"NEURON_RT_ALLOW_LEGACY_NEFF", "1"},
                                 {"NEURON_RT_VALIDATE_HASH", "yes"},
                                 {"NEURON_RT_RESET_CORES", "0"},
                                 {"NEURON_FAIL_ON_NAN", "on"},
                                 {"NEURON_RT_STOCHASTIC_ROUNDING_EN", "true"},
                                 {"NEURON_RT_STOCHASTIC_ROUNDING_SEED", "77"},
                                 {"NEURON_OPEN_ASYNC_QUEUE_DEPTH", "5"},
                                 {"NEURON_PROCESS_TAG", "night"},
                                 {"NEURON_OPEN_COLLECTIVES_TIMEOUT", "1"},
                                 {"NEURON_RT_ROOT_COMM_ID", "10.0.0.1:99"}});
  const auto configuration = read_configuration();
  ASSERT_TRUE(configuration) << configuration.error().sentence;
  EXPECT_THAT(configuration->cores.visible, ElementsAre(2, 3, 4));
  EXPECT_EQ(configuration->cores.count, 3u);
  EXPECT_EQ(configuration->logical_cores.size, 2u);
  EXPECT_TRUE(configuration->allow_older_programs);
  EXPECT_TRUE(configuration->validate_hash);
  EXPECT_FALSE(configuration->reset_cores);
  EXPECT_TRUE(configuration->fail_on_nan);
  EXPECT_TRUE(configuration->stochastic_rounding);
  EXPECT_EQ(configuration->rounding_seed, 77u);
  EXPECT_EQ(configuration->async_queue_depth, 8u) << "rounded up to a power of two";
  EXPECT_EQ(configuration->process_tag, "night");
  EXPECT_EQ(configuration->collectives_timeout_s, 1u);
  EXPECT_EQ(configuration->root, "10.0.0.1:99");
}

TEST(Configuration, CriticalNumericalErrorsFailAsNaNsDo) {
  for (const auto& [value, fails] :
       {std::pair{"critical", true}, {"CRITICAL", true}, {"off", false}, {"", false}}) {
    const Settings settings(Values{{"NEURON_RT_NUMERICAL_ERRORS_VERBOSITY", value}});
    EXPECT_EQ(read_configuration()->fail_on_nan, fails) << value;
  }
}

TEST(Configuration, AnExecutionTimeoutOfZeroIsTheDefault) {
  const Settings settings(Values{{"NEURON_RT_EXEC_TIMEOUT", "0"}});
  EXPECT_EQ(read_configuration()->exec_timeout_s, 600u);
}

TEST(Configuration, NumbersHaveLimits) {
  for (const auto& [name, value] : {std::pair{"NEURON_RT_EXEC_TIMEOUT", "2147483648"},
                                    {"NEURON_OPEN_MODEL_TIME_LIMIT_US", "18446744073710"},
                                    {"NEURON_OPEN_ASYNC_QUEUE_DEPTH", "0"},
                                    {"NEURON_OPEN_ASYNC_QUEUE_DEPTH", "65537"},
                                    {"NEURON_OPEN_COLLECTIVES_TIMEOUT", "0"},
                                    {"NEURON_OPEN_COLLECTIVES_TIMEOUT", "86401"},
                                    {"NEURON_RT_NUM_CORES", "513"},
                                    {"NEURON_LOGICAL_NC_CONFIG", "0"},
                                    {"NEURON_LOGICAL_NC_CONFIG", "3"}}) {
    const Settings settings(Values{{name, value}});
    const auto configuration = read_configuration();
    ASSERT_FALSE(configuration) << name << "=" << value;
    EXPECT_EQ(configuration.error().status, NRT_INVALID);
    EXPECT_THAT(configuration.error().sentence, HasSubstr(name));
  }
  for (const auto& [name, value] : {std::pair{"NEURON_RT_EXEC_TIMEOUT", "2147483647"},
                                    {"NEURON_OPEN_MODEL_TIME_LIMIT_US", "18446744073709"},
                                    {"NEURON_OPEN_ASYNC_QUEUE_DEPTH", "1"},
                                    {"NEURON_OPEN_ASYNC_QUEUE_DEPTH", "65536"},
                                    {"NEURON_OPEN_COLLECTIVES_TIMEOUT", "86400"},
                                    {"NEURON_RT_NUM_CORES", "512"},
                                    {"NEURON_LOGICAL_NC_CONFIG", "1"}}) {
    const Settings settings(Values{{name, value}});
    EXPECT_TRUE(read_configuration()) << name << "=" << value;
  }
}

TEST(Configuration, AnOlderNameOfTheSizeOfVirtualCoresIsReadWhereTheNewerIsNotSet) {
  {
    const Settings older(Values{{"NEURON_RT_VIRTUAL_CORE_SIZE", "2"}});
    EXPECT_EQ(read_logical_cores()->size, 2u);
    EXPECT_STREQ(read_logical_cores()->variable, "NEURON_RT_VIRTUAL_CORE_SIZE");
  }
  const Settings both(
      Values{{"NEURON_RT_VIRTUAL_CORE_SIZE", "2"}, {"NEURON_LOGICAL_NC_CONFIG", "1"}});
  EXPECT_EQ(read_logical_cores()->size, 1u);
  EXPECT_STREQ(read_logical_cores()->variable, "NEURON_LOGICAL_NC_CONFIG");
}

TEST(Configuration, VisibleCoresAreARow) {
  {
    const Settings settings(Values{{"NEURON_RT_VISIBLE_CORES", "0,1,3"}});
    const auto selection = read_core_selection();
    ASSERT_FALSE(selection);
    EXPECT_THAT(selection.error().sentence,
                HasSubstr("NEURON_RT_VISIBLE_CORES=0,1,3: core 3 follows core 1, but the cores "
                          "must be contiguous and ascending, for example 0-3"));
  }
  const Settings settings(Values{{"NEURON_RT_VISIBLE_CORES", "x"}});
  const auto selection = read_core_selection();
  ASSERT_FALSE(selection);
  EXPECT_THAT(selection.error().sentence,
              HasSubstr("NEURON_RT_VISIBLE_CORES is \"x\"; give one core (0)"));
}

}  // namespace
}  // namespace neuron::runtime
