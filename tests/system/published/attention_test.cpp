// SPDX-License-Identifier: Apache-2.0
// Model times of fused attention in the sizes for which upper bounds of the time on hardware were
// published. Results are not looked at here; they are checked in small sizes.
#include "tests/differential/device_model.h"
#include "tools/compiler/kernels/kernels.h"

namespace neuron::published {
namespace {

void expect_at_most(uint8_t dtype, uint64_t size, double microseconds) {
  constexpr uint64_t kPositions = 4096;
  differential::DeviceModel model(kernels::attention("attention", dtype, {1, kPositions, size}));
  ASSERT_TRUE(model.usable());
  const size_t bytes = kPositions * size * (dtype == NEURON_DTYPE_F32 ? 4 : 2);
  const std::vector<uint8_t> zeros(bytes);
  for (const char* name : {"q", "k", "v"}) model.write(name, zeros.data(), bytes);
  // The first execution also points the rings at the tensors.
  ASSERT_TRUE(model.execute());
  ASSERT_TRUE(model.execute());
  const nrt_open_execution_report_t report = model.report();
  const double total = static_cast<double>(report.device_ps) / 1e6;
  std::printf("attention of %llu x %llu: %.1f us, PE busy %.1f us; at most %.1f us published\n",
              static_cast<unsigned long long>(kPositions), static_cast<unsigned long long>(size),
              total, static_cast<double>(report.engines[NEURON_ENGINE_PE].busy_ps) / 1e6,
              microseconds);
  EXPECT_LT(total, microseconds);
}

TEST(PublishedAttention, OfF32IsWithinTheBound) { expect_at_most(NEURON_DTYPE_F32, 128, 675); }
TEST(PublishedAttention, OfBf16IsWithinTheBound) { expect_at_most(NEURON_DTYPE_BF16, 128, 536); }
TEST(PublishedAttention, OfSmallHeadsIsWithinTheBound) {
  expect_at_most(NEURON_DTYPE_BF16, 64, 600);
}

}  // namespace
}  // namespace neuron::published
