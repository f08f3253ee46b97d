// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/environment.h"

#include <gtest/gtest.h>

#include "tests/support/setting.h"

namespace neuron::ccom {
namespace {

using Variable = test::Setting;

TEST(Environment, ReadsSizesWithUnits) {
  const Variable memory("CCOM_MEMORY", "3M");
  const Variable timeout("CCOM_TIMEOUT_MS", "250");
  const Variable order("CCOM_ORDER", "fast");
  const auto settings = read_settings(nullptr);
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->memory_bytes, 3u << 20);
  EXPECT_EQ(settings->timeout.count(), 250);
  EXPECT_FALSE(settings->rank_order);
}

TEST(Environment, OptionsGoBeforeIt) {
  const Variable memory("CCOM_MEMORY", "3M");
  const Variable secret("CCOM_SECRET", "of the environment");
  ccom_options_t options = {};
  options.size_of = sizeof(options);
  options.memory_bytes = 4096;
  options.secret = "of the program";
  const auto settings = read_settings(&options);
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->memory_bytes, 4096u);
  EXPECT_EQ(settings->secret, "of the program");
}

TEST(Environment, NamesTheVariableThatIsWrong) {
  for (const auto& [name, value] :
       {std::pair{"CCOM_MEMORY", "3X"}, std::pair{"CCOM_MEMORY", "99999999T"},
        std::pair{"CCOM_MEMORY", "-1"}, std::pair{"CCOM_TIMEOUT_MS", "1s"},
        std::pair{"CCOM_TIMEOUT_MS", "0"}, std::pair{"CCOM_ORDER", "random"},
        std::pair{"CCOM_SHARED_MEMORY", "2"}, std::pair{"CCOM_REQUIRE_SECRET", "yes"}}) {
    const Variable variable(name, value);
    const auto settings = read_settings(nullptr);
    ASSERT_FALSE(settings) << name << "=" << value;
    EXPECT_EQ(settings.error().status, CCOM_INVALID);
    EXPECT_NE(settings.error().sentence.find(std::string(name) + "=" + value), std::string::npos);
  }
}

TEST(Environment, RefusesOptionsOfAnotherVersionAndUnknownFlags) {
  ccom_options_t options = {};
  EXPECT_FALSE(read_settings(&options));
  options.size_of = sizeof(options);
  EXPECT_TRUE(read_settings(&options));
  options.flags = 1u << 31;
  EXPECT_FALSE(read_settings(&options));
}

}  // namespace
}  // namespace neuron::ccom
