// SPDX-License-Identifier: Apache-2.0
// Convolutions of images with zeros between their elements, as transposed ones are, against the
// sum that defines them, and how they are taken apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "tools/compiler/graph/builder.h"
#include "tools/compiler/graph/interpreter.h"

namespace neuron::graph {
namespace {

struct Layer {
  int64_t images = 1, channels = 4, outputs = 6, groups = 1;
  int64_t height = 5, width = 7;
  int64_t gap_y = 2, gap_x = 2;
  Builder::Window rows, columns;
};

Tensor numbers(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  Tensor tensor = Tensor::zeros(Type::kF32, shape);
  // Whole numbers this small have exact sums, so that the order says nothing.
  for (double& value : tensor.reals) value = static_cast<double>(random() % 17) - 8;
  return tensor;
}

// The element of the image with zeros between its elements.
double element(const Tensor& x, const Layer& layer, int64_t n, int64_t c, int64_t y, int64_t h) {
  if (y < 0 || h < 0 || y % layer.gap_y != 0 || h % layer.gap_x != 0) return 0;
  y /= layer.gap_y;
  h /= layer.gap_x;
  if (y >= layer.height || h >= layer.width) return 0;
  return x
      .reals[static_cast<size_t>(((n * layer.channels + c) * layer.height + y) * layer.width + h)];
}

std::vector<double> definition(const Tensor& x, const Tensor& w, const Layer& layer) {
  std::vector<double> result;
  const int64_t depth = layer.channels / layer.groups, high = layer.outputs / layer.groups;
  for (int64_t n = 0; n < layer.images; ++n) {
    for (int64_t o = 0; o < layer.outputs; ++o) {
      for (int64_t v = 0; v < layer.rows.count; ++v) {
        for (int64_t u = 0; u < layer.columns.count; ++u) {
          double sum = 0;
          size_t at = static_cast<size_t>(o * depth * layer.rows.size * layer.columns.size);
          for (int64_t i = 0; i < depth; ++i) {
            for (int64_t ky = 0; ky < layer.rows.size; ++ky) {
              for (int64_t kx = 0; kx < layer.columns.size; ++kx) {
                sum += w.reals[at++] *
                       element(x, layer, n, o / high * depth + i,
                               layer.rows.first + v * layer.rows.stride + ky * layer.rows.dilation,
                               layer.columns.first + u * layer.columns.stride +
                                   kx * layer.columns.dilation);
              }
            }
          }
          result.push_back(sum);
        }
      }
    }
  }
  return result;
}

Shape image_of(const Layer& l) { return {l.images, l.channels, l.height, l.width}; }
Shape filter_of(const Layer& l) {
  return {l.outputs, l.channels / l.groups, l.rows.size, l.columns.size};
}

void expect_definition(const Layer& layer) {
  const Tensor x = numbers(image_of(layer), 1), w = numbers(filter_of(layer), 2);
  Builder b("g");
  const Value y =
      b.spread_convolution(b.input("x", Type::kF32, image_of(layer)), b.constant(w),
                           {layer.rows, layer.columns}, {layer.gap_y, layer.gap_x}, layer.groups);
  ASSERT_TRUE(b.ok()) << b.problem();
  b.output("y", y);
  const auto found = evaluate(b.finish(), {std::make_shared<const Tensor>(x)});
  ASSERT_EQ(found[0]->reals, definition(x, w, layer));
}

TEST(SpreadConvolution, IsTheSumThatDefinesItForRandomGapsStridesDilationsBordersAndGroups) {
  std::mt19937 random(7);
  const auto one_of = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random()) % (to - from + 1);
  };
  for (int round = 0; round < 300; ++round) {
    Layer layer;
    layer.images = one_of(1, 2);
    layer.groups = one_of(1, 3);
    layer.channels = layer.groups * one_of(1, 4);
    layer.outputs = layer.groups * one_of(1, 4);
    layer.height = one_of(1, 6);
    layer.width = one_of(1, 6);
    layer.gap_y = one_of(1, 4);
    layer.gap_x = one_of(1, 4);
    for (Builder::Window* window : {&layer.rows, &layer.columns}) {
      *window = {one_of(1, 5), one_of(1, 3), one_of(1, 12), one_of(1, 3), one_of(-6, 3)};
    }
    SCOPED_TRACE(::testing::Message() << "round " << round);
    expect_definition(layer);
    if (HasFatalFailure()) return;
  }
}

TEST(SpreadConvolution, OfOneChannelEachIsTheSumThatDefinesIt) {
  Layer layer;
  layer.channels = layer.outputs = layer.groups = 9;
  layer.rows = {4, 1, 10, 1, -2};
  layer.columns = {3, 1, 13, 1, -1};
  expect_definition(layer);
}

// Elements that products multiply, as they lie in the graph.
int64_t multiplications(const Graph& graph) {
  int64_t sum = 0;
  for (const Node& node : graph.nodes) {
    if (node.kind == Kind::kProduct) sum += node.batch * node.rows * node.depth * node.columns;
  }
  return sum;
}

TEST(SpreadConvolution, MultipliesNoZerosBetweenElements) {
  Builder b("g");
  const Value x = b.input("x", Type::kF32, {1, 16, 8, 8});
  b.output("y", b.spread_convolution(x, b.constant(numbers({32, 16, 4, 4}, 1)),
                                     {{4, 1, 16, 1, -2}, {4, 1, 16, 1, -2}}, {2, 2}, 1));
  ASSERT_TRUE(b.ok()) << b.problem();
  // Each of the 256 results of a channel meets 2 x 2 elements of each of 16 channels.
  EXPECT_EQ(multiplications(b.graph()), int64_t{256} * 4 * 16 * 32);
}

TEST(SpreadConvolution, HasMapsComputedBeforeItsPhasesAreInterleaved) {
  Builder b("g");
  const Tensor x = numbers({1, 16, 8, 8}, 3), bias = numbers({1, 5, 1, 1}, 4);
  const Tensor w = numbers({5, 16, 2, 2}, 5);
  Layer layer{1, 16, 5, 1, 8, 8, 2, 2, {2, 1, 16, 1, -1}, {2, 1, 16, 1, -1}};
  Value y = b.spread_convolution(b.input("x", Type::kF32, x.shape), b.constant(w),
                                 {layer.rows, layer.columns}, {2, 2}, 1);
  y = b.map(Function::kMaximum, b.add(y, b.constant(bias)), 0.0);
  y = b.multiply(y, b.map(Function::kMinimum, y, 9.0));
  b.output("y", y);
  ASSERT_TRUE(b.ok()) << b.problem();
  ASSERT_EQ(b.graph().nodes[static_cast<size_t>(y)].kind, Kind::kMove);
  const auto needs = needed(b.graph());
  size_t joins = 0;
  for (size_t i = 0; i < needs.size(); ++i) {
    const Node& node = b.graph().nodes[i];
    joins += needs[i] && node.kind == Kind::kMove && node.shape == Shape{1, 5, 16, 16} ? 1 : 0;
  }
  EXPECT_EQ(joins, 1u);
  const auto found = evaluate(b.finish(), {std::make_shared<const Tensor>(x)});
  std::vector<double> expected = definition(x, w, layer);
  for (size_t i = 0; i < expected.size(); ++i) {
    const double sum = std::max(0.0, expected[i] + bias.reals[i / 256]);
    expected[i] = sum * std::min(sum, 9.0);
  }
  EXPECT_EQ(found[0]->reals, expected);
}

}  // namespace
}  // namespace neuron::graph
