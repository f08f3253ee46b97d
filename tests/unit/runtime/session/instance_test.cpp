// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/instance.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace neuron::runtime {
namespace {

TEST(Instance, IsReadFromTheNameOfTheType) {
  nrt_instance_info_t info{};
  ASSERT_TRUE(parse_instance_type("embedded trn1n.32xlarge", info));
  EXPECT_EQ(info.family, static_cast<uint32_t>(NRT_INSTANCE_TRN1N));
  EXPECT_EQ(info.size, static_cast<uint32_t>(NRT_INSTANCE_SIZE_32XL));
  ASSERT_TRUE(parse_instance_type("inf2.xlarge\n", info));
  EXPECT_EQ(info.family, static_cast<uint32_t>(NRT_INSTANCE_INF2));
  EXPECT_EQ(info.size, static_cast<uint32_t>(NRT_INSTANCE_SIZE_1XL));
  EXPECT_FALSE(parse_instance_type("Standard PC (Q35)", info));
}

TEST(Instance, EveryFamilyAndSizeIsKnown) {
  const std::pair<const char*, uint32_t> families[] = {
      {"trn1", NRT_INSTANCE_TRN1}, {"trn1n", NRT_INSTANCE_TRN1N}, {"inf2", NRT_INSTANCE_INF2},
      {"trn2", NRT_INSTANCE_TRN2}, {"trn2u", NRT_INSTANCE_TRN2U}, {"inf1", NRT_INSTANCE_INF1}};
  const std::pair<const char*, uint32_t> sizes[] = {
      {"48xlarge", NRT_INSTANCE_SIZE_48XL}, {"32xlarge", NRT_INSTANCE_SIZE_32XL},
      {"24xlarge", NRT_INSTANCE_SIZE_24XL}, {"8xlarge", NRT_INSTANCE_SIZE_8XL},
      {"6xlarge", NRT_INSTANCE_SIZE_6XL},   {"4xlarge", NRT_INSTANCE_SIZE_4XL},
      {"3xlarge", NRT_INSTANCE_SIZE_3XL},   {"2xlarge", NRT_INSTANCE_SIZE_2XL},
      {"xlarge", NRT_INSTANCE_SIZE_1XL}};
  for (const auto& [family, number] : families) {
    for (const auto& [size, size_number] : sizes) {
      nrt_instance_info_t info{};
      ASSERT_TRUE(parse_instance_type(std::string(family) + "." + size, info));
      EXPECT_EQ(info.family, number);
      EXPECT_EQ(info.size, size_number);
    }
  }
  nrt_instance_info_t info{};
  EXPECT_FALSE(parse_instance_type("trn2.large", info));
  EXPECT_FALSE(parse_instance_type("trn2", info));
}

}  // namespace
}  // namespace neuron::runtime
