// SPDX-License-Identifier: Apache-2.0
// nccom-test on the 32 cores of an emulated trn1.32xlarge: every operation, checked.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/files.h"
#include "tests/support/process.h"

namespace neuron::matrix {
namespace {

void expect_success(const std::string& options) {
  const test::Run run = test::shell(
      test::built("bin/nccom-test --backend device -b 4K -e 4K -n 1 -w 0 -d fp32 --seed 1 "
                  "--check ") +
          options,
      {{"NEURON_EMULATOR", "trn1.32xlarge"}});
  EXPECT_EQ(run.ending, 0) << run.output;
}

constexpr const char* kDeviceOperations =
    " allr allg redsct alltoall broadcast reduce gather scatter sendrecv permute barrier "
    "all_gatherv reduce_scatterv alltoallv";

TEST(Device, DoesEveryOperationOnThirtyTwoCores) {
  expect_success(std::string("-r 32") + kDeviceOperations);
}

TEST(Device, DoesEveryOperationWithOneProcessForEachOfThirtyTwoCores) {
  expect_success(std::string("-r 32 --processes") + kDeviceOperations);
}

TEST(Device, DoesOperationsInPlace) {
  expect_success(
      "-r 4 --in-place allr allg redsct broadcast reduce gather scatter all_gatherv "
      "reduce_scatterv");
}

}  // namespace
}  // namespace neuron::matrix
