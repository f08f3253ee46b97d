// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/peer_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace neuron::bench {
namespace {

constexpr const char* kNames[] = {"OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"};

std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void expect_one_thread_of(const std::string& core_type) {
  EXPECT_EQ(value_of("OPENBLAS_CORETYPE"), core_type);
  EXPECT_EQ(value_of("OPENBLAS_NUM_THREADS"), "1");
  EXPECT_EQ(value_of("OMP_NUM_THREADS"), "1");
}

TEST(PeerEnvironmentTest, GivesPeersOneThread) {
  for (const char* name : kNames) unsetenv(name);
  EXPECT_TRUE(set_peer_environment("SkylakeX"));
  expect_one_thread_of("SkylakeX");
}

// A host that names OpenBLAS's kernels itself gave oneDNN all of its processors.
TEST(PeerEnvironmentTest, ReplacesWhatTheHostHasSetForOtherPrograms) {
  setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  unsetenv("OPENBLAS_NUM_THREADS");
  setenv("OMP_NUM_THREADS", "2", 1);
  EXPECT_TRUE(set_peer_environment("SkylakeX"));
  expect_one_thread_of("SkylakeX");
}

TEST(PeerEnvironmentTest, AsksForNoSecondStart) {
  set_peer_environment("Haswell");
  EXPECT_FALSE(set_peer_environment("Haswell"));
  expect_one_thread_of("Haswell");
}

}  // namespace
}  // namespace neuron::bench
