// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/tensor_set.h"

#include <gtest/gtest.h>

namespace neuron::runtime {
namespace {

TEST(TensorSet, FindsWhatHasANameLast) {
  TensorSet set;
  int first = 0, second = 0;
  EXPECT_EQ(set.find("x"), nullptr);
  set.put("x", &first);
  EXPECT_EQ(set.find("x"), &first);
  set.put("x", &second);
  EXPECT_EQ(set.find("x"), &second);
  EXPECT_EQ(set.find("X"), nullptr);
}

TEST(TensorSet, AVersionIsOfOneSetAndOneContents) {
  TensorSet one, other;
  EXPECT_NE(one.version(), other.version());
  const uint64_t before = one.version();
  one.put("x", nullptr);
  EXPECT_NE(one.version(), before);
  EXPECT_NE(one.version(), other.version());
  const uint64_t after = one.version();
  EXPECT_EQ(one.find("x"), nullptr);
  EXPECT_EQ(one.version(), after) << "looking changes nothing";
}

}  // namespace
}  // namespace neuron::runtime
