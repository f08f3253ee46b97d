// SPDX-License-Identifier: Apache-2.0
#include "driver/base/nearest_name.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace neuron::base {
namespace {

std::string meant(std::string_view name) {
  static constexpr std::array<std::string_view, 4> kNames = {"hardware", "software", "nrt_execute",
                                                             "all"};
  return std::string(nearest_name(name, kNames));
}

TEST(NearestName, IsTheOneWithTheFewestLettersChangedAddedOrLeftOut) {
  EXPECT_EQ(meant("hardwar"), "hardware");
  EXPECT_EQ(meant("hhardware"), "hardware");
  EXPECT_EQ(meant("softvare"), "software");
  EXPECT_EQ(meant("nrt_exec"), "nrt_execute");
  EXPECT_EQ(meant("all"), "all");
  EXPECT_EQ(meant("aal"), "all");
}

TEST(NearestName, IsNoneWhereMoreThanHalfOfTheLettersDiffer) {
  EXPECT_EQ(meant("xyzdware"), "hardware") << "half of its letters at most";
  EXPECT_EQ(meant("abc"), "");
  EXPECT_EQ(meant("zzzzzzzzzzz"), "");
  EXPECT_EQ(meant(""), "");
  EXPECT_EQ(nearest_name("name", {}), "");
}

TEST(NearestName, OfTwoThatAreAsNearIsTheFirst) {
  constexpr std::array<std::string_view, 2> kNames = {"cat", "car"};
  EXPECT_EQ(nearest_name("caz", kNames), "cat");
}

TEST(NearestName, TwoSwappedLettersAreOneChange) {
  constexpr Nearness kOne{.most = 1, .written = 1, .known = 3};
  constexpr std::array<std::string_view, 4> kNames = {"input", "level", "batch", "train"};
  EXPECT_EQ(nearest_name("inptu", kNames, kOne), "input");
  EXPECT_EQ(nearest_name("levle", kNames, kOne), "level");
  EXPECT_EQ(nearest_name("bacth", kNames, kOne), "batch");
  EXPECT_EQ(nearest_name("trian", kNames, kOne), "train");
  EXPECT_EQ(nearest_name("tairn", kNames, kOne), "");
}

TEST(NearestName, MayDifferInAShareOfTheLettersOfTheNameThatExists) {
  constexpr Nearness kThird{.most = 2, .written = 1, .known = 3};
  constexpr std::array<std::string_view, 2> kNames = {"wide", "colour"};
  EXPECT_EQ(nearest_name("wire", kNames, kThird), "wide");
  EXPECT_EQ(nearest_name("ware", kNames, kThird), "");
  EXPECT_EQ(nearest_name("clor", kNames, kThird), "colour");
}

// Seven letters are too many, however long a name is.
TEST(NearestName, IsWithinSixLetters) {
  constexpr std::array<std::string_view, 1> kNames = {"abcdefghijklmnopqrst"};
  EXPECT_EQ(nearest_name("ABCDEFghijklmnopqrst", kNames), kNames[0]);
  EXPECT_EQ(nearest_name("ABCDEFGhijklmnopqrst", kNames), "");
}

}  // namespace
}  // namespace neuron::base
