// SPDX-License-Identifier: Apache-2.0
// Convolutions in which a channel sees itself only, against the sum that defines them.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>

#include "tools/compiler/graph/builder.h"
#include "tools/compiler/graph/interpreter.h"

namespace neuron::graph {
namespace {

struct Image {
  Shape shape;  // [images, channels, height, width]
  std::vector<double> values;
  double at(int64_t n, int64_t c, int64_t y, int64_t x) const {
    if (y < 0 || x < 0 || y >= shape[2] || x >= shape[3]) return 0;
    return values[static_cast<size_t>(((n * shape[1] + c) * shape[2] + y) * shape[3] + x)];
  }
};

Image random_image(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  Image image{shape, {}};
  for (int64_t i = 0; i < elements_of(shape); ++i) {
    image.values.push_back(static_cast<double>(random() % 17) - 8);
  }
  return image;
}

Tensor tensor_of(const Image& image) {
  Tensor tensor = Tensor::zeros(Type::kF32, image.shape);
  for (size_t i = 0; i < image.values.size(); ++i) tensor.set(i, image.values[i]);
  return tensor;
}

// Whole numbers this small have exact sums, so that the order says nothing.
void expect_definition(const Shape& shape, const Builder::Window& rows,
                       const Builder::Window& columns) {
  const Image x = random_image(shape, 1);
  const Image w = random_image({shape[1], 1, rows.size, columns.size}, 2);
  Builder b("g");
  const Value y = b.convolution(b.input("x", Type::kF32, shape), b.constant(tensor_of(w)),
                                {rows, columns}, shape[1]);
  ASSERT_TRUE(b.ok()) << b.problem();
  ASSERT_EQ(b.shape(y), (Shape{shape[0], shape[1], rows.count, columns.count}));
  b.output("y", y);
  const Graph graph = b.finish();
  const auto found = evaluate(graph, {std::make_shared<const Tensor>(tensor_of(x))});
  ASSERT_EQ(found.size(), 1u);
  size_t i = 0;
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t c = 0; c < shape[1]; ++c) {
      for (int64_t v = 0; v < rows.count; ++v) {
        for (int64_t h = 0; h < columns.count; ++h, ++i) {
          double sum = 0;
          for (int64_t ky = 0; ky < rows.size; ++ky) {
            for (int64_t kx = 0; kx < columns.size; ++kx) {
              sum += w.at(c, 0, ky, kx) *
                     x.at(n, c, rows.first + v * rows.stride + ky * rows.dilation,
                          columns.first + h * columns.stride + kx * columns.dilation);
            }
          }
          ASSERT_EQ(found[0]->reals[i], sum) << n << " " << c << " " << v << " " << h;
        }
      }
    }
  }
}

TEST(DepthwiseConvolution, IsTheSumThatDefinesItForEachStrideDilationAndBorder) {
  for (const int64_t stride : {1, 2, 3}) {
    for (const int64_t dilation : {1, 2}) {
      for (const int64_t first : {-3, -1, 0, 2}) {
        const int64_t reach = 2 * dilation + 1;
        const int64_t rows = (17 - first + 1 - reach) / stride + 1;
        const int64_t columns = (13 - first - reach) / stride + 1;
        expect_definition({2, 8, 17, 13}, {3, dilation, rows, stride, first},
                          {3, dilation, columns, stride, first});
      }
    }
  }
}

TEST(DepthwiseConvolution, IsTheSameInBandsOfRows) {
  // More elements than a band has, in each of them and in a single row.
  expect_definition({1, 9, 61, 200}, {3, 1, 61, 1, -1}, {3, 1, 200, 1, -1});
  expect_definition({1, 8, 61, 200}, {5, 1, 31, 2, -2}, {5, 1, 100, 2, -2});
  expect_definition({1, 8, 3, 5000}, {3, 1, 3, 1, -1}, {1, 1, 5000, 1, 0});
}

TEST(DepthwiseConvolution, MayLieOutsideOfItsImage) {
  expect_definition({1, 8, 4, 4}, {2, 1, 12, 1, -5}, {2, 1, 3, 1, 0});
  expect_definition({1, 8, 40, 200}, {2, 1, 60, 1, -10}, {2, 1, 199, 1, 0});
}

}  // namespace
}  // namespace neuron::graph
