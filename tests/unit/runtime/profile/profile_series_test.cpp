// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/profile_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "tests/support/files.h"
#include "tests/support/setting.h"

namespace neuron::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Series : public testing::Test {
 protected:
  void write(const std::string& name) { folder_.write("profiles/" + name, "a profile"); }
  std::string next(const ProfileSeries& series) {
    const auto before = names();
    EXPECT_TRUE(series.next());
    for (const std::string& name : names()) {
      if (!before.contains(name)) return name;
    }
    return "none";
  }
  std::set<std::string> names() const {
    std::set<std::string> all;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path(), error)) {
      all.insert(entry.path().filename());
    }
    return all;
  }
  std::string path() const { return folder_.path("profiles"); }

  test::Folder folder_;
};

TEST_F(Series, BeginsAtZeroInAFolderThatItMakes) {
  EXPECT_EQ(next({path(), 7}), "profile_nc_7_session_0.ntff");
  EXPECT_EQ(next({path(), 7}), "profile_nc_7_session_1.ntff");
  EXPECT_EQ(next({path(), 70}), "profile_nc_70_session_0.ntff") << "another core";
}

TEST_F(Series, GoesOnBehindTheLargestNumberAsANumber) {
  for (const char* name : {"profile_nc_1_session_9.ntff", "profile_nc_1_session_10.ntff",
                           "profile_nc_2_session_50.ntff", "profile_nc_1_session_60.ntff.part",
                           "profile_nc_1_session_7x.ntff", "profile_nc_1_session_.ntff",
                           "my_profile_nc_1_session_80.ntff"}) {
    write(name);
  }
  EXPECT_EQ(next({path(), 1}), "profile_nc_1_session_11.ntff");
}

TEST_F(Series, OverwritesNothing) {
  write("profile_nc_1_session_0.ntff");
  (void)next({path(), 1});
  EXPECT_EQ(folder_.read("profiles/profile_nc_1_session_0.ntff"), "a profile");
}

TEST_F(Series, LosesItsOldestFilesBeyondALimit) {
  for (const char* name :
       {"profile_nc_1_session_2.ntff", "profile_nc_1_session_10.ntff",
        "profile_nc_1_session_3.ntff", "profile_nc_2_session_1.ntff", "notes.txt"}) {
    write(name);
  }
  const ProfileSeries series(path(), 1);
  series.trim(0);
  EXPECT_EQ(names().size(), 5u) << "no limit";
  series.trim(3);
  EXPECT_EQ(names().size(), 5u) << "there are three";
  series.trim(1);
  EXPECT_THAT(names(), ElementsAre("notes.txt", "profile_nc_1_session_10.ntff",
                                   "profile_nc_2_session_1.ntff"));
}

TEST_F(Series, NamesAFolderThatCannotBeMade) {
  folder_.write("file", "");
  const auto made = ProfileSeries(folder_.path("file/below"), 1).next();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().status, NRT_INVALID);
  EXPECT_THAT(made.error().sentence, HasSubstr(folder_.path("file/below")));
}

TEST_F(Series, HasTheLimitOfTheEnvironment) {
  EXPECT_EQ(*ProfileSeries::limit(), 0u);
  const test::Setting setting("NEURON_OPEN_PROFILE_FILES", "12");
  EXPECT_EQ(*ProfileSeries::limit(), 12u);
}

}  // namespace
}  // namespace neuron::runtime
