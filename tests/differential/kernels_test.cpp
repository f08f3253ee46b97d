// SPDX-License-Identifier: Apache-2.0
// The kernels on the emulated device against the double-precision reference, and against the bits
// and model times that were checked in: those are the same on every host and SIMD path.
#include "tools/compiler/kernels/kernels.h"

#include <zlib.h>

#include "tests/differential/compare.h"
#include "tests/differential/goldens.h"
#include "tests/differential/reference.h"

namespace neuron::differential {
namespace {

// Compares every `stride`-th row with the reference, and all of them with the golden bits.
void check_matmul(uint8_t dtype, const kernels::MatmulShape& shape, size_t stride,
                  const Golden& golden) {
  DeviceModel model(kernels::matmul("matmul", dtype, shape));
  ASSERT_TRUE(model.usable());
  Numbers numbers(shape.m * 3 + shape.n);
  std::vector<float> lhs = numbers.take(shape.k * shape.m);
  std::vector<float> rhs = numbers.take(shape.k * shape.n, 4);
  if (dtype == kBf16) {
    for (float& v : lhs) v = static_cast<float>(to_bf16(v));
    for (float& v : rhs) v = static_cast<float>(to_bf16(v));
    const Bytes left = as_bf16(lhs), right = as_bf16(rhs);
    model.write("lhs_t", left.data(), left.size());
    model.write("rhs", right.data(), right.size());
  } else {
    model.write("lhs_t", lhs);
    model.write("rhs", rhs);
  }
  ASSERT_TRUE(model.execute());
  const Bytes bytes = model.read("result");
  const std::vector<float> got = dtype == kBf16 ? floats_of_bf16(bytes) : floats(bytes);
  for (size_t row = 0; row < shape.m; row += stride) {
    std::vector<Bounded> wanted = matmul_row(lhs, rhs, shape.m, shape.k, shape.n, row);
    if (dtype == kBf16) {
      for (Bounded& value : wanted) value = stored_as_bf16(value);
    }
    const auto first = got.begin() + static_cast<ptrdiff_t>(row * shape.n);
    expect_within({first, first + static_cast<ptrdiff_t>(shape.n)}, wanted);
  }
  expect_golden(model, "result", golden);
}

TEST(Matmul, OfF32IsWithinTheBoundOfItsRoundings) {
  check_matmul(kF32, {256, 256, 512}, 1, kMatmulF32);
}

TEST(Matmul, OfBf16IsWithinTheBoundOfItsRoundings) {
  check_matmul(kBf16, {256, 384, 1024}, 1, kMatmulBf16);
}

TEST(Matmul, ThatSbufCannotHoldIsComputedInBlocks) {
  // 40 tiles of K: both panels cannot be whole.
  check_matmul(kF32, {256, 5120, 1024}, 37, kMatmulBlocked);
}

void check_softmax(uint8_t dtype, uint64_t rows, uint64_t columns, float scale,
                   const Golden& golden) {
  DeviceModel model(kernels::softmax("softmax", dtype, rows, columns));
  ASSERT_TRUE(model.usable());
  std::vector<float> x = Numbers(rows + columns).take(rows * columns, scale);
  if (dtype == kBf16) {
    for (float& v : x) v = static_cast<float>(to_bf16(v));
    const Bytes bytes = as_bf16(x);
    model.write("x", bytes.data(), bytes.size());
  } else {
    model.write("x", x);
  }
  ASSERT_TRUE(model.execute());
  std::vector<Bounded> wanted;
  for (uint64_t row = 0; row < rows; ++row) {
    std::vector<Bounded> values;
    for (uint64_t c = 0; c < columns; ++c) values.push_back({x[row * columns + c], 0});
    for (const Bounded& value : softmax(values)) {
      wanted.push_back(dtype == kBf16 ? stored_as_bf16(value) : value);
    }
  }
  const Bytes bytes = model.read("y");
  expect_within(dtype == kBf16 ? floats_of_bf16(bytes) : floats(bytes), wanted);
  expect_golden(model, "y", golden);
}

TEST(Softmax, OfF32IsWithinTheBoundOfItsRoundings) {
  check_softmax(kF32, 256, 1024, 12, kSoftmaxF32);
}

TEST(Softmax, OfBf16IsWithinTheBoundOfItsRoundings) {
  check_softmax(kBf16, 256, 1024, 6, kSoftmaxBf16);
}

TEST(Softmax, HandlesALastTileOfFewRows) { check_softmax(kF32, 131, 40, 80, kSoftmaxFewRows); }

TEST(TensorAdd, RoundsOnce) {
  DeviceModel model(kernels::tensor_add("tensor_add", kF32, 256, 1024));
  ASSERT_TRUE(model.usable());
  Numbers numbers(5);
  const std::vector<float> a = numbers.take(256 * 1024), b = numbers.take(256 * 1024, 1000);
  model.write("a", a);
  model.write("b", b);
  ASSERT_TRUE(model.execute());
  const std::vector<float> sum = floats(model.read("sum"));
  for (size_t i = 0; i < sum.size(); ++i) {
    ASSERT_EQ(sum[i], static_cast<float>(double{a[i]} + double{b[i]})) << i;
  }
  expect_golden(model, "sum", kTensorAdd);
}

TEST(Empty, TakesModelTimeAndRepeatsIt) {
  DeviceModel model(kernels::empty());
  ASSERT_TRUE(model.execute());
  ASSERT_TRUE(model.execute());
  const uint64_t time = model.device_ps();
  EXPECT_GT(time, 0U);
  ASSERT_TRUE(model.execute());
  EXPECT_EQ(model.device_ps(), time);
}

struct Digits {
  std::vector<float> pixels;  // 64 for each
  std::vector<int> labels;
};

Digits read_digits() {
  Digits digits;
  const std::string path =
      std::string(NEURON_SOURCE_DIR) + "/tools/compiler/kernels/digits/digits.csv.gz";
  gzFile file = gzopen(path.c_str(), "rb");
  EXPECT_NE(file, nullptr) << path;
  char line[1024];
  while (file && gzgets(file, line, sizeof line)) {
    char* at = line;
    for (int i = 0; i < 64; ++i) {
      digits.pixels.push_back(static_cast<float>(strtol(at, &at, 10))), ++at;
    }
    digits.labels.push_back(static_cast<int>(strtol(at, &at, 10)));
  }
  if (file) gzclose(file);
  return digits;
}

TEST(DigitsModel, ClassifiesUnseenDigitsAsTheReferenceDoes) {
  constexpr size_t kUnseen = 360, kBatch = 120;
  const auto weights = kernels::read_digits_weights(std::string(NEURON_SOURCE_DIR) +
                                                    "/tools/compiler/kernels/digits");
  ASSERT_TRUE(weights) << weights.error().sentence;
  const Digits digits = read_digits();
  ASSERT_EQ(digits.labels.size(), 1797U);
  const size_t first = digits.labels.size() - kUnseen;
  const DigitsReference reference{weights->w1, weights->b1, weights->w2, weights->b2};
  DeviceModel model(kernels::digits(*weights));
  ASSERT_TRUE(model.usable());
  size_t correct = 0;
  for (size_t batch = 0; batch < kUnseen; batch += kBatch) {
    const float* pixels = digits.pixels.data() + (first + batch) * 64;
    model.write("x", pixels, kBatch * 64 * sizeof(float));
    ASSERT_TRUE(model.execute());
    const std::vector<float> got = floats(model.read("probabilities"));
    for (size_t i = 0; i < kBatch; ++i) {
      const std::vector<float> row(got.begin() + static_cast<ptrdiff_t>(i * 10),
                                   got.begin() + static_cast<ptrdiff_t>(i * 10 + 10));
      expect_within(row, reference.probabilities(pixels + i * 64));
      const auto label = std::max_element(row.begin(), row.end()) - row.begin();
      correct += label == digits.labels[first + batch + i];
    }
  }
  EXPECT_GE(correct, kUnseen * 9 / 10);
  expect_golden(model, "probabilities", kDigits);
}

}  // namespace
}  // namespace neuron::differential
