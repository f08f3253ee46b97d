// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/environment_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>

#include "tests/support/files.h"

namespace neuron::runtime {
namespace {

using testing::HasSubstr;

TEST(EnvironmentTable, NamesTheNearestVariableOfOneThatNobodyReads) {
  const char* environment[] = {"NEURON_RT_VISIBLE_CORE=0",
                               "HOME=/",
                               "NEURON_RT_NUM_CORES=1",
                               "NEURON_RT_LOG_LEVEL_NRT=INFO",
                               "NEURON_RT_WHATEVER_THIS_IS=yes",
                               "CCOM_TIMEUT_MS=5",
                               "CCOM_ORDER=fast",
                               nullptr};
  const auto sentences = unknown_variables(environment);
  ASSERT_EQ(sentences.size(), 3u);
  EXPECT_THAT(sentences[0], HasSubstr("is NEURON_RT_VISIBLE_CORES meant?"));
  EXPECT_THAT(sentences[1], HasSubstr("neuron-environment(7)"));
  EXPECT_THAT(sentences[2], HasSubstr("is CCOM_TIMEOUT_MS meant?"));
  EXPECT_TRUE(unknown_variables(nullptr).empty());
}

TEST(EnvironmentTable, NamesWhatIsWithinTwoLettersOfAVariableWhateverItBeginsWith) {
  const std::pair<const char*, const char*> misses[] = {
      {"NEURON_EMULATR_FAULTS=x", "NEURON_EMULATOR_FAULTS"},
      {"NEURON_OPN_MODEL_TIME_LIMIT_US=1", "NEURON_OPEN_MODEL_TIME_LIMIT_US"},
      {"NERON_RT_VISIBLE_CORES=0", "NEURON_RT_VISIBLE_CORES"},
      {"NEURON_LOGICAL_NC_CONFG=1", "NEURON_LOGICAL_NC_CONFIG"},
      {"NEURON_FAIL_ON_NANS=1", "NEURON_FAIL_ON_NAN"},
      {"NEURON_EMULTOR=trn1.2xlarge", "NEURON_EMULATOR"},
      {"COCM_ORDER=fast", "CCOM_ORDER"}};
  for (const auto& [set, meant] : misses) {
    const char* environment[] = {set, nullptr};
    const auto sentences = unknown_variables(environment);
    ASSERT_EQ(sentences.size(), 1u) << set;
    EXPECT_THAT(sentences[0], testing::EndsWith(std::string("is ") + meant + " meant?"));
  }
  const char* others[] = {"NEURON_SERVE_CORES=1",
                          "NEURON_CC_FLAGS=-O2",
                          "NEURON_PROFILE=x",
                          "NEURON_TEST_EMULATOR=x",
                          "NCCL_DEBUG=INFO",
                          "PATH=/bin",
                          nullptr};
  EXPECT_TRUE(unknown_variables(others).empty());
}

TEST(EnvironmentTable, SuggestsOnlyNamesThatItHasInEveryFamily) {
  const std::pair<const char*, const char*> misses[] = {
      {"NEURON_RT_LOG_LEVEL_FOO=INFO", "NEURON_RT_LOG_LEVEL_"},
      {"NEURON_RT_LOG_LEVL=INFO", "NEURON_RT_LOG_LEVEL "},
      {"NEURON_RT_PROFILE_BUF_XX_MB=1", "NEURON_RT_PROFILE_BUF_"},
      {"NEURON_RT_DBG_DMA_PACKET_SIZE=1", "NEURON_RT_DBG_"},
      {"NEURON_RT_ULTRASERVER_ID=1", "NEURON_RT_ULTRASERVER_"},
      {"NEURON_OPEN_PROFILE_FILE=1", "NEURON_OPEN_PROFILE_FILES"},
      {"NEURON_EMULATOR_FAULT=x", "NEURON_EMULATOR_FAULTS"},
      {"NEURON_EMULATOR_MEM_LIMIT=x", "NEURON_EMULATOR_MEMORY_LIMIT"}};
  for (const auto& [set, meant] : misses) {
    const char* environment[] = {set, nullptr};
    const auto sentences = unknown_variables(environment);
    ASSERT_EQ(sentences.size(), 1u) << set;
    EXPECT_THAT(sentences[0], HasSubstr(meant));
    std::smatch found;
    ASSERT_TRUE(std::regex_search(sentences[0], found, std::regex("is ([A-Z_0-9]+) meant")))
        << sentences[0];
    EXPECT_NE(find_variable(found[1].str()), nullptr) << sentences[0];
  }
}

TEST(EnvironmentTable, SaysWhyAVariableHasNoEffect) {
  for (const EnvironmentVariable& variable : environment_table()) {
    EXPECT_EQ(variable.meaning.empty(), !variable.why_not.empty()) << variable.name;
  }
}

TEST(EnvironmentTable, HasEveryVariableThatTheSourcesOfTheRuntimeRead) {
  std::set<std::string> read;
  // libccom's statuses begin with CCOM_, too: its variables are what stands in a call.
  const std::regex name(
      "\"(NEURON_[A-Z_]+)\"|(?:getenv|number_of|text_of)\\([^\"();]*\"(CCOM_[A-Z_]+)\"");
  for (const char* folder : {"runtime", "driver/emulator", "driver/ndl", "ccom"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source(folder))) {
      const std::string file = entry.path().string();
      if (!file.ends_with(".cpp") || file.ends_with("environment_table.cpp")) continue;
      const std::string text = test::read_file(file);
      for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
        read.insert((*it)[(*it)[1].matched ? 1 : 2]);
      }
    }
  }
  EXPECT_GT(read.size(), 25u);
  EXPECT_TRUE(read.contains("CCOM_TIMEOUT_MS"));
  EXPECT_TRUE(read.contains("CCOM_SECRET"));
  EXPECT_TRUE(read.contains("CCOM_ROUGH_SEED"));
  for (const std::string& variable : read) {
    const EnvironmentVariable* row = find_variable(variable);
    ASSERT_NE(row, nullptr) << variable << " is read, and the table does not have it";
    EXPECT_FALSE(row->meaning.empty()) << variable << " is read, and the table says that it is not";
  }
}

// runtime/environment.md, for users: it may leave variables out, and has none that there is not.
TEST(EnvironmentTable, ThePageForUsersNamesVariablesThatThereAreAndAllInstanceTypes) {
  const std::string page = test::read_file(test::source("runtime/environment.md"));
  const std::regex name("`(NEURON_[A-Z0-9_]+[A-Z0-9])[`=]");
  size_t rows = 0;
  for (std::sregex_iterator it(page.begin(), page.end(), name), end; it != end; ++it, ++rows) {
    EXPECT_NE(find_variable((*it)[1].str()), nullptr) << (*it)[1];
  }
  EXPECT_GT(rows, 30u);
  size_t types = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::source("driver/profiles"))) {
    if (entry.path().extension() != ".json") continue;
    // Without devices it is of collectives alone.
    if (test::read_file(entry.path()).find("\"devices\"") == std::string::npos) continue;
    ++types;
    EXPECT_THAT(page, HasSubstr("`" + entry.path().stem().string() + "`"));
  }
  EXPECT_GT(types, 10u);
}

TEST(EnvironmentTable, EveryVariableIsOnThePageOnce) {
  const std::string page = environment_page("1.2.3");
  EXPECT_THAT(page, HasSubstr(".TH NEURON\\-ENVIRONMENT 7"));
  std::set<std::string_view> names;
  for (const EnvironmentVariable& variable : environment_table()) {
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    EXPECT_EQ(variable.values.empty(), variable.meaning.empty()) << variable.name;
    EXPECT_THAT(page, HasSubstr("\n.B " + std::string(variable.name) + "\n"));
  }
}

}  // namespace
}  // namespace neuron::runtime
