// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/driver_error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "driver/ndl/error.h"

namespace neuron::runtime {
namespace {

TEST(DriverError, ShortMemoryAndLateAnswersHaveStatusesOfTheirOwn) {
  EXPECT_EQ(status_of_errno(-ENOMEM, NRT_FAILURE), NRT_RESOURCE);
  EXPECT_EQ(status_of_errno(-ETIMEDOUT, NRT_FAILURE), NRT_TIMEOUT);
  EXPECT_EQ(status_of_errno(-EIO, NRT_HW_ERROR), NRT_HW_ERROR);
  EXPECT_EQ(status_of_errno(0, NRT_INVALID), NRT_INVALID);
  EXPECT_EQ(status_of_errno(ENOMEM, NRT_INVALID), NRT_INVALID) << "a positive number is no errno";
}

TEST(DriverError, EndsWithTheDriversOwnSentence) {
  ndl::fail(EIO, "the bus is on fire");
  const Error error = driver_error(NRT_HW_ERROR, -EIO, "writing {} bytes", 7);
  EXPECT_EQ(error.status, NRT_HW_ERROR);
  EXPECT_EQ(error.errno_, EIO);
  EXPECT_EQ(error.sentence, "writing 7 bytes: the bus is on fire");
}

TEST(DriverError, ExplainsTheNumberWhereTheDriverSaysNothing) {
  ndl::clear_error();
  const Error error = driver_error(NRT_FAILURE, -ENODEV, "opening device {}", 3);
  EXPECT_EQ(error.sentence, "opening device 3: No such device (errno 19)");
  EXPECT_EQ(error.errno_, ENODEV);
  const Error positive = driver_error(NRT_FAILURE, 4, "asking");
  EXPECT_EQ(positive.errno_, EIO) << "a result that is no errno";
}

}  // namespace
}  // namespace neuron::runtime
