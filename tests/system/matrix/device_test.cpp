// SPDX-License-Identifier: Apache-2.0
// nccom-test on the 32 cores of an emulated trn1.32xlarge: every operation, checked.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace neuron::matrix {
namespace {

int run(const std::string& options) {
  const auto own = std::filesystem::read_symlink("/proc/self/exe");
  const auto program = own.parent_path().parent_path() / "bin" / "nccom-test";
  if (!std::filesystem::exists(program)) return -1;
  return std::system(("NEURON_EMULATOR=trn1.32xlarge timeout 60 " + program.string() +
                      " --backend device -b 4K -e 4K -n 1 -w 0 -d fp32 --seed 1 --check " + options)
                         .c_str());
}

constexpr const char* kOperations =
    " allr allg redsct alltoall broadcast reduce gather scatter sendrecv permute barrier "
    "all_gatherv reduce_scatterv alltoallv";

TEST(Device, DoesEveryOperationOnThirtyTwoCores) {
  EXPECT_EQ(run(std::string("-r 32") + kOperations), 0);
}

TEST(Device, DoesEveryOperationWithOneProcessForEachOfThirtyTwoCores) {
  EXPECT_EQ(run(std::string("-r 32 --processes") + kOperations), 0);
}

TEST(Device, DoesOperationsInPlace) {
  EXPECT_EQ(run("-r 4 --in-place allr allg redsct broadcast reduce gather scatter all_gatherv "
                "reduce_scatterv"),
            0);
}

}  // namespace
}  // namespace neuron::matrix
