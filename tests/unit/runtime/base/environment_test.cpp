// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace neuron::runtime {
namespace {

constexpr const char* kName = "NEURON_TEST_VARIABLE";

class Environment : public testing::Test {
 protected:
  void set(const char* value) { setenv(kName, value, 1); }
  void TearDown() override { unsetenv(kName); }
};

TEST_F(Environment, GivesTheFallbackWhenUnsetOrEmpty) {
  EXPECT_EQ(*environment_unsigned(kName, 7, 0, 9), 7u);
  set("");
  EXPECT_EQ(*environment_unsigned(kName, 7, 0, 9), 7u);
  EXPECT_TRUE(*environment_boolean(kName, true));
  EXPECT_EQ(*environment_choice(kName, 4, {"a"}), 4u);
  EXPECT_TRUE(environment_ranges(kName, 8)->empty());
  EXPECT_FALSE(environment_is_set(kName));
}

TEST_F(Environment, ReadsNumbersInTheirRange) {
  set("12");
  EXPECT_EQ(*environment_unsigned(kName, 0, 0, 12), 12u);
  set("0x1F");
  EXPECT_EQ(*environment_unsigned(kName, 0, 0, 31), 31u);
  for (const char* bad : {"13", "-1", "1.5", " 1", "1 ", "0x", "99999999999999999999"}) {
    set(bad);
    const auto value = environment_unsigned(kName, 0, 0, 12);
    ASSERT_FALSE(value) << bad;
    EXPECT_EQ(value.error().status, NRT_INVALID);
    EXPECT_EQ(value.error().sentence, std::string("NEURON_TEST_VARIABLE is \"") + bad +
                                          "\"; give a whole number from 0 to 12, or unset it");
  }
}

TEST_F(Environment, ReadsYesAndNoInTheirUsualSpellings) {
  for (const char* yes : {"1", "true", "TRUE", "yes", "On"}) {
    set(yes);
    EXPECT_TRUE(*environment_boolean(kName, false)) << yes;
  }
  for (const char* no : {"0", "false", "No", "off"}) {
    set(no);
    EXPECT_FALSE(*environment_boolean(kName, true)) << no;
  }
  set("maybe");
  EXPECT_THAT(environment_boolean(kName, true).error().sentence, testing::HasSubstr("give 1 or 0"));
}

TEST_F(Environment, ReadsChoicesWithoutCase) {
  set("Console");
  EXPECT_EQ(*environment_choice(kName, 9, {"syslog", "console"}), 1u);
  set("file");
  EXPECT_THAT(environment_choice(kName, 9, {"syslog", "console"}).error().sentence,
              testing::HasSubstr("give one of syslog, console, or unset it"));
}

TEST_F(Environment, ReadsAscendingRanges) {
  set("0-2,4,6-7");
  EXPECT_EQ(*environment_ranges(kName, 8), (std::vector<uint32_t>{0, 1, 2, 4, 6, 7}));
  for (const char* bad : {"8", "2-1", "1,1", "3,2", "1,", ",1", "1--2", "a", "0-4294967296"}) {
    set(bad);
    EXPECT_FALSE(environment_ranges(kName, 8)) << bad;
  }
}

}  // namespace
}  // namespace neuron::runtime
