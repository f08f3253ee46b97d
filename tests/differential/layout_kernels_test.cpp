// SPDX-License-Identifier: Apache-2.0
// Transposes, pooling and the simpler forms of the matrix product on the emulated device.
#include "tests/differential/compare.h"
#include "tools/compiler/kernels/kernels.h"

namespace neuron::differential {
namespace {

// Bits are moved, NaN and all: every element is another number of the type's width.
void check_transpose(uint8_t dtype, size_t element, size_t rows, size_t columns,
                     kernels::TransposeBy by, const Golden& golden) {
  DeviceModel model(kernels::transpose("transpose", dtype, rows, columns, by));
  ASSERT_TRUE(model.usable());
  Bytes x(rows * columns * element);
  uint32_t state = 7;
  for (uint8_t& byte : x) byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  model.write("x", x.data(), x.size());
  ASSERT_TRUE(model.execute());
  const Bytes y = model.read("y");
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      const uint8_t* from = x.data() + (row * columns + column) * element;
      const uint8_t* to = y.data() + (column * rows + row) * element;
      ASSERT_EQ(std::memcmp(from, to, element), 0) << row << ", " << column;
    }
  }
  expect_golden(model, "y", golden);
}

TEST(Transpose, OnPeMovesEveryBitOfWholeAndPartialTiles) {
  check_transpose(kF32, 4, 192, 224, kernels::TransposeBy::kPe, kTransposePe);
}
TEST(Transpose, OnDveMovesEveryBitOfBlocksOf32) {
  check_transpose(kBf16, 2, 160, 256, kernels::TransposeBy::kDve, kTransposeDve);
}
TEST(Transpose, ByDmaMovesEveryBit) {
  check_transpose(kBf16, 2, 256, 384, kernels::TransposeBy::kDma, kTransposeDma);
}
TEST(Transpose, ByDmaMovesLongElementsOfOddShapes) {
  check_transpose(kF32, 4, 33, 70, kernels::TransposeBy::kDma, kTransposeDmaOdd);
}

void check_pool(uint8_t dtype, const kernels::PoolShape& shape, const Golden& golden) {
  DeviceModel model(kernels::average_pool("average_pool", dtype, shape));
  ASSERT_TRUE(model.usable());
  const auto [channels, height, width, window] = shape;
  const size_t high = height / window, wide = width / window;
  const std::vector<float> x = random_values(dtype, 61, size_t{channels} * height * width, 50);
  write_as(model, "x", dtype, x);
  ASSERT_TRUE(model.execute());
  std::vector<Bounded> wanted;
  for (size_t c = 0; c < channels; ++c) {
    for (size_t at = 0; at < high * wide; ++at) {
      double sum = 0, magnitude = 0;
      for (size_t k = 0; k < window * window; ++k) {
        const size_t row = at / wide * window + k / window;
        const size_t column = at % wide * window + k % window;
        const double value = x[(c * height + row) * width + column];
        sum += value;
        magnitude += std::fabs(value);
      }
      const double area = window * window;
      // The sum, the share 1 / area and the product.
      wanted.push_back({sum / area, gamma(area + 2) * magnitude / area});
    }
  }
  expect_within(read_as(model, "y", dtype), stored_as(dtype, wanted));
  expect_golden(model, "y", golden);
}

TEST(AveragePool, OfF32TakesTheMeanOfEachWindow) {
  check_pool(kF32, {130, 12, 18, 3}, kAveragePoolF32);
}
TEST(AveragePool, OfBf16TakesTheMeanOfEachWindow) {
  check_pool(kBf16, {64, 24, 24, 2}, kAveragePoolBf16);
}

void check_form(const kernels::MatmulShape& shape, kernels::MatmulForm form, const Golden& golden) {
  DeviceModel model(kernels::matmul_form("matmul", kBf16, shape, form));
  ASSERT_TRUE(model.usable());
  const std::vector<float> lhs = random_values(kBf16, 71, shape.k * shape.m);
  const std::vector<float> rhs = random_values(kBf16, 72, shape.k * shape.n);
  write_as(model, "lhs_t", kBf16, lhs);
  write_as(model, "rhs", kBf16, rhs);
  ASSERT_TRUE(model.execute());
  const std::vector<float> got = read_as(model, "result", kBf16);
  for (size_t row = 0; row < shape.m; row += 29) {
    const auto first = got.begin() + static_cast<ptrdiff_t>(row * shape.n);
    expect_within({first, first + static_cast<ptrdiff_t>(shape.n)},
                  stored_as(kBf16, matmul_row(lhs, rhs, shape.m, shape.k, shape.n, row)));
  }
  expect_golden(model, "result", golden);
}

TEST(MatmulForm, OfOneTileIsWithinTheBoundOfItsRoundings) {
  check_form({64, 128, 512}, kernels::MatmulForm::kBasic, kMatmulBasic);
}

// The forms differ in what they load and when, never in a bit of the result.
TEST(MatmulForm, GivesTheSameBitsHoweverItLoads) {
  const kernels::MatmulShape shape{512, 256, 1024};
  check_form(shape, kernels::MatmulForm::kTiled, kMatmulTiled);
  check_form(shape, kernels::MatmulForm::kHoisted, kMatmulHoisted);
  check_form(shape, kernels::MatmulForm::kBlocked, kMatmulBlockedForm);
  EXPECT_EQ(kMatmulTiled.hash, kMatmulBlockedForm.hash);
  EXPECT_EQ(kMatmulTiled.hash, kMatmulHoisted.hash);
  EXPECT_GT(kMatmulTiled.device_ps, kMatmulHoisted.device_ps);
  EXPECT_GT(kMatmulHoisted.device_ps, kMatmulBlockedForm.device_ps);
}

// 128 products of 512 columns, 512 cycles of 2.8 GHz each, are 23.4 us. DMA needs 17 us to bring
// the operands in, products run for 12 of them; 4 us are for the launch and the last stores.
TEST(Matmul, OfBf16OverlapsItsLoadsWithItsProducts) {
  DeviceModel model(kernels::matmul("matmul", kBf16, {1024, 1024, 1024}));
  ASSERT_TRUE(model.usable());
  write_as(model, "lhs_t", kBf16, random_values(kBf16, 73, 1 << 20));
  write_as(model, "rhs", kBf16, random_values(kBf16, 74, 1 << 20));
  ASSERT_TRUE(model.execute());  // Points the rings at the tensors
  expect_golden(model, "result", kMatmulBf16Large);
  EXPECT_LT(kMatmulBf16Large.device_ps, 36'000'000U);
}

}  // namespace
}  // namespace neuron::differential
