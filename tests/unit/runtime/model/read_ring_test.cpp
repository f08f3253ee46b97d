// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/read_ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>

namespace neuron::runtime {
namespace {

// The library leaves a ring that it could not open with descriptor 0, which is somebody else's.
TEST(ReadRing, ThatCannotBeOpenedLeavesTheStandardInputOpen) {
  if (::fcntl(0, F_GETFD) < 0) {
    ASSERT_EQ(::open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
  }
  struct stat before {
  }, after{};
  ASSERT_EQ(::fstat(0, &before), 0);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto ring = ReadRing::create();
  const int error = errno;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(ring, nullptr);
  EXPECT_NE(error, 0);
  ASSERT_EQ(::fstat(0, &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

}  // namespace
}  // namespace neuron::runtime
