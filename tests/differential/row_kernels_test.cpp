// SPDX-License-Identifier: Apache-2.0
// The kernels that treat rows or elements alone, and the MLP, on the emulated device.
#include "tests/differential/compare.h"
#include "tests/differential/reference_rows.h"
#include "tools/compiler/kernels/kernels.h"

namespace neuron::differential {
namespace {

std::vector<float> row_of(const std::vector<float>& matrix, uint64_t row, uint64_t columns) {
  const auto first = matrix.begin() + static_cast<ptrdiff_t>(row * columns);
  return {first, first + static_cast<ptrdiff_t>(columns)};
}

void append(std::vector<Bounded>& all, const std::vector<Bounded>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

void check_layer_norm(uint8_t dtype, uint64_t rows, uint64_t columns, const Golden& golden) {
  DeviceModel model(kernels::layer_norm("layer_norm", dtype, rows, columns));
  ASSERT_TRUE(model.usable());
  std::vector<float> x = random_values(dtype, 11, rows * columns, 3);
  const std::vector<float> weight = random_values(dtype, 12, columns, 2);
  const std::vector<float> bias = random_values(dtype, 13, columns);
  // A mean that is not near 0.
  for (float& value : x) value = static_cast<float>(to_bf16(value + 1.5));
  write_as(model, "x", dtype, x);
  write_as(model, "weight", dtype, weight);
  write_as(model, "bias", dtype, bias);
  ASSERT_TRUE(model.execute());
  std::vector<Bounded> wanted;
  for (uint64_t row = 0; row < rows; ++row) {
    append(wanted, stored_as(dtype, layer_norm(row_of(x, row, columns), weight, bias,
                                               kernels::kNormEpsilon)));
  }
  expect_within(read_as(model, "y", dtype), wanted);
  expect_golden(model, "y", golden);
}

TEST(LayerNorm, OfF32WithPartialTilesIsWithinTheBoundOfItsRoundings) {
  check_layer_norm(kF32, 300, 1000, kLayerNormF32);
}

TEST(LayerNorm, OfBf16InAHardwareLoopIsWithinTheBoundOfItsRoundings) {
  check_layer_norm(kBf16, 640, 1024, kLayerNormBf16);
}

void check_rms_norm(uint8_t dtype, uint64_t rows, uint64_t columns, const Golden& golden) {
  DeviceModel model(kernels::rms_norm("rms_norm", dtype, rows, columns));
  ASSERT_TRUE(model.usable());
  const std::vector<float> x = random_values(dtype, 21, rows * columns, 3);
  const std::vector<float> weight = random_values(dtype, 22, columns, 2);
  write_as(model, "x", dtype, x);
  write_as(model, "weight", dtype, weight);
  ASSERT_TRUE(model.execute());
  std::vector<Bounded> wanted;
  for (uint64_t row = 0; row < rows; ++row) {
    append(wanted,
           stored_as(dtype, rms_norm(row_of(x, row, columns), weight, kernels::kNormEpsilon)));
  }
  expect_within(read_as(model, "y", dtype), wanted);
  expect_golden(model, "y", golden);
}

TEST(RmsNorm, OfF32WithPartialTilesIsWithinTheBoundOfItsRoundings) {
  check_rms_norm(kF32, 300, 1000, kRmsNormF32);
}

TEST(RmsNorm, OfBf16InAHardwareLoopIsWithinTheBoundOfItsRoundings) {
  check_rms_norm(kBf16, 512, 1024, kRmsNormBf16);
}

TEST(Softmax, InAHardwareLoopIsWithinTheBoundOfItsRoundings) {
  constexpr uint64_t kRows = 900, kColumns = 200;
  DeviceModel model(kernels::softmax("softmax", kBf16, kRows, kColumns));
  ASSERT_TRUE(model.usable());
  const std::vector<float> x = random_values(kBf16, 31, kRows * kColumns, 8);
  write_as(model, "x", kBf16, x);
  ASSERT_TRUE(model.execute());
  std::vector<Bounded> wanted;
  for (uint64_t row = 0; row < kRows; ++row) {
    std::vector<Bounded> values;
    for (float value : row_of(x, row, kColumns)) values.push_back({value, 0});
    append(wanted, stored_as(kBf16, softmax(values)));
  }
  expect_within(read_as(model, "y", kBf16), wanted);
  expect_golden(model, "y", kSoftmaxLoop);
}

void check_gelu(uint8_t dtype, const Golden& golden) {
  constexpr uint64_t kRows = 700, kColumns = 320;
  DeviceModel model(kernels::gelu("gelu", dtype, kRows, kColumns));
  ASSERT_TRUE(model.usable());
  const std::vector<float> x = random_values(dtype, 41, kRows * kColumns, 9);
  write_as(model, "x", dtype, x);
  ASSERT_TRUE(model.execute());
  expect_within(read_as(model, "y", dtype), stored_as(dtype, gelu(x)));
  expect_golden(model, "y", golden);
}

TEST(Gelu, OfF32IsWithinTheDocumentedErrorOfTheFunction) { check_gelu(kF32, kGeluF32); }
TEST(Gelu, OfBf16IsWithinOneRoundingMore) { check_gelu(kBf16, kGeluBf16); }

void check_mlp(uint8_t dtype, const kernels::MlpShape& shape, const Golden& golden) {
  DeviceModel model(kernels::gelu_mlp("gelu_mlp", dtype, shape));
  ASSERT_TRUE(model.usable());
  const std::vector<float> x = random_values(dtype, 51, shape.rows * shape.inputs);
  const std::vector<float> w1 = random_values(dtype, 52, shape.inputs * shape.hidden, 0.25F);
  const std::vector<float> b1 = random_values(kF32, 53, shape.hidden);
  const std::vector<float> w2 = random_values(dtype, 54, shape.hidden * shape.outputs, 0.25F);
  const std::vector<float> b2 = random_values(kF32, 55, shape.outputs);
  write_as(model, "x", dtype, x);
  write_as(model, "w1", dtype, w1);
  write_as(model, "w2", dtype, w2);
  model.write("b1", b1);
  model.write("b2", b2);
  ASSERT_TRUE(model.execute());
  const std::vector<float> got = read_as(model, "y", dtype);
  for (uint64_t row = 0; row < shape.rows; row += 13) {
    expect_within(row_of(got, row, shape.outputs),
                  stored_as(dtype, gelu_mlp_row(x.data() + row * shape.inputs, w1, b1, w2, b2,
                                                dtype == kBf16)));
  }
  expect_golden(model, "y", golden);
}

TEST(GeluMlp, OfF32IsWithinTheBoundOfItsRoundings) {
  check_mlp(kF32, {128, 128, 256, 100}, kGeluMlpF32);
}

TEST(GeluMlp, OfBf16WithTwoBanksOfOutputsIsWithinTheBoundOfItsRoundings) {
  check_mlp(kBf16, {256, 256, 384, 640}, kGeluMlpBf16);
}

}  // namespace
}  // namespace neuron::differential
