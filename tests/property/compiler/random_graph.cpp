// SPDX-License-Identifier: Apache-2.0
#include "tests/property/compiler/random_graph.h"

#include <algorithm>
#include <cmath>

#include "tools/compiler/graph/builder.h"

namespace neuron::property {
namespace {

using graph::Builder;
using graph::Function;
using graph::Shape;
using graph::Tensor;
using graph::Type;
using graph::Value;

constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 11, 13, 17, 31, 37, 67, 131, 257};
constexpr int64_t kMostElements = 4000;
constexpr size_t kMostRank = 7;

class Maker {
 public:
  explicit Maker(const std::vector<uint32_t>& numbers) : b_("random"), numbers_(numbers) {}

  graph::Graph make(size_t most) {
    reals_.push_back(b_.input("x0", Type::kF32, shape_of(next())));
    reals_.push_back(b_.input("x1", Type::kF32, shape_of(next())));
    wholes_.push_back(b_.input("x2", Type::kI32, shape_of(next())));
    inputs_ = reals_;
    made_ = {reals_[0], reals_[1], wholes_[0]};
    // What a shrunken list has not is 0.
    while (at_ < numbers_.size() && nodes() < most) {
      b_.clear();
      operation(next());
      at_ = (at_ + 3) / 4 * 4;
    }
    b_.clear();
    graph::Graph graph = b_.finish();
    std::vector<bool> read(graph.nodes.size());
    for (const graph::Node& node : graph.nodes) {
      for (const Value operand : node.operands) read[static_cast<size_t>(operand)] = true;
    }
    for (const Value value : made_) {
      if (read[static_cast<size_t>(value)]) continue;
      graph.outputs.push_back({"y" + std::to_string(graph.outputs.size()), value});
      read[static_cast<size_t>(value)] = true;  // an operation may give what another one gave
    }
    // Values that are too large are not kept, and may be the only ones that nothing reads.
    if (graph.outputs.empty()) graph.outputs.push_back({"y0", made_.back()});
    return graph;
  }

 private:
  size_t nodes() const { return static_cast<size_t>(made_.back()) + 1; }
  uint32_t next() { return at_ < numbers_.size() ? numbers_[at_++] : (++at_, 0u); }
  static int64_t pick_size(uint32_t number) { return kSizes[number % std::size(kSizes)]; }

  static Shape shape_of(uint32_t number) {
    Shape shape;
    const size_t rank = number % (kMostRank + 1);
    uint32_t state = number * 2654435761u + 1;
    int64_t elements = 1;
    for (size_t i = 0; i < rank; ++i) {
      state = state * 1664525u + 1013904223u;
      int64_t size = pick_size(state >> 16);
      while (elements * size > kMostElements && size > 1) size = size / 2;
      size = std::max<int64_t>(1, size);
      shape.push_back(size);
      elements *= size;
    }
    return shape;
  }
  Value real() { return reals_[pick(reals_.size())]; }
  // Late values more often than early ones.
  size_t pick(size_t count) {
    const uint32_t number = next();
    return number % 3 == 0 ? number / 3 % count
                           : count - 1 - number / 3 % std::min<size_t>(count, 3);
  }
  Value constant(const Shape& shape, double size) {
    Tensor tensor = Tensor::zeros(Type::kF32, shape);
    uint32_t state = next() * 2654435761u + 12345;
    for (double& value : tensor.reals) {
      state = state * 1664525u + 1013904223u;
      value = graph::rounded(Type::kF32, size * (state / 2147483648.0 - 1));
    }
    return b_.constant(std::move(tensor));
  }
  void keep(Value value) {
    if (!b_.ok() || value < 0) return;
    const int64_t elements = graph::elements_of(b_.shape(value));
    if (elements == 0 || elements > kMostElements || b_.rank(value) > 7) return;
    (b_.type(value) == Type::kI32 ? wholes_ : reals_).push_back(value);
    made_.push_back(value);
  }
  Value tame(Value value) { return b_.map(Function::kTanh, value); }
  int64_t axis(Value x) { return b_.rank(x) == 0 ? 0 : next() % static_cast<uint32_t>(b_.rank(x)); }

  void operation(uint32_t kind) {
    switch (kind % 22) {
      case 0:
      case 1:
        return unary(real());
      case 2:
      case 3:
        return binary(real());
      case 4:
        return reshaped();
      case 5:
        return transposed(real());
      case 6:
        return sliced(real());
      case 7:
        return padded(real());
      case 8:
        return joined(real());
      case 9:
      case 10:
        return reduced(real());
      case 11:
      case 12:
      case 13:
        return multiplied(real());
      case 14:
        return normal(real(), kind / 22 % 2 == 0);
      case 15:
      case 16:
        return convolved(real());
      case 17:
        return pooled(real());
      case 18:
        return whole(wholes_[pick(wholes_.size())]);
      case 19:
        return compared();
      case 20:
        return rows_by_number(real());
      default:
        return expanded(real());
    }
  }

  Shape other_shape() {
    Shape shape = b_.shape(reals_.back());
    // Merges or splits dimensions.
    if (shape.size() >= 2 && next() % 2 == 0) {
      const size_t i = next() % (shape.size() - 1);
      shape[i] *= shape[i + 1];
      shape.erase(shape.begin() + static_cast<ptrdiff_t>(i) + 1);
      return shape;
    }
    if (shape.size() < kMostRank) shape.insert(shape.begin() + next() % (shape.size() + 1), 1);
    return shape;
  }
  void reshaped() {
    const Shape shape = other_shape();
    keep(b_.reshape(real(), shape));
  }
  void unary(Value x) {
    constexpr Function kFunctions[] = {Function::kTanh,     Function::kSigmoid, Function::kNegate,
                                       Function::kAbsolute, Function::kErf,     Function::kSin};
    const uint32_t number = next() % 9;
    if (number < 6) return keep(b_.map(kFunctions[number], x));
    if (number == 6) return keep(b_.map(Function::kMaximum, x, 0.0));
    if (number == 7) return keep(b_.map(Function::kExp, tame(x)));
    return keep(b_.divide(x, b_.map(Function::kAdd, b_.map(Function::kAbsolute, x), 1.0)));
  }
  void binary(Value x) {
    constexpr Function kFunctions[] = {Function::kAdd, Function::kSubtract, Function::kMultiply,
                                       Function::kMaximum, Function::kMinimum};
    const Function function = kFunctions[next() % 5];
    Value y = graph::kNone;
    const Shape& shape = b_.shape(x);
    switch (next() % 4) {
      case 0:
        y = real();
        break;
      case 1:  // a number of each row, or column
        y = b_.map(Function::kAdd, b_.scalar(Type::kF32, 0.25), 0.5);
        break;
      case 2: {
        Shape small = shape;
        for (int64_t& size : small) size = next() % 2 == 0 ? 1 : size;
        y = constant(small, 1);
        break;
      }
      default:
        y = constant(shape, 1);
    }
    if (y < 0 || x == y) y = b_.map(Function::kTanh, x);
    Value result = b_.map(function, x, y);
    if (!b_.ok()) {
      b_.clear();
      result = b_.map(function, x, constant(b_.shape(x), 1));
    }
    keep(function == Function::kMultiply ? tame(result) : result);
  }
  void transposed(Value x) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < b_.rank(x); ++i) order.push_back(i);
    uint32_t state = next();
    for (size_t i = order.size(); i > 1; --i) {
      state = state * 1664525u + 1013904223u;
      std::swap(order[i - 1], order[(state >> 16) % i]);
    }
    keep(b_.transpose(x, order));
  }
  void sliced(Value x) {
    std::vector<graph::Slice> slices;
    for (const int64_t size : b_.shape(x)) {
      const int64_t step = 1 + next() % 3;
      const int64_t first = next() % static_cast<uint32_t>(size);
      const int64_t most = (size - first + step - 1) / step;
      slices.push_back({first, 1 + next() % static_cast<uint32_t>(most), step});
    }
    keep(b_.slice(x, slices));
  }
  void padded(Value x) {
    std::vector<int64_t> before, after;
    for (int64_t i = 0; i < b_.rank(x); ++i) {
      before.push_back(next() % 3);
      after.push_back(next() % 3);
    }
    keep(b_.pad(x, before, after, next() % 2 == 0 ? 0 : -0.5));
  }
  void joined(Value x) {
    if (b_.rank(x) == 0) return;
    const int64_t number = axis(x);
    const Value other = next() % 2 == 0 ? b_.map(Function::kTanh, x) : constant(b_.shape(x), 1);
    keep(b_.concat({x, other}, number));
  }
  void reduced(Value x) {
    std::vector<int64_t> axes;
    for (int64_t i = 0; i < b_.rank(x); ++i) {
      if (next() % 2 == 0) axes.push_back(i);
    }
    if (axes.empty()) return;
    const bool keeps = next() % 2 == 0;
    const uint32_t kind = next() % 3;
    if (kind != 0) {
      return keep(b_.reduce(kind == 1 ? Function::kMaximum : Function::kMinimum, x, axes, keeps));
    }
    double count = 1;
    for (const int64_t i : axes) count *= static_cast<double>(b_.size(x, i));
    keep(b_.map(Function::kMultiply, b_.reduce(Function::kAdd, x, axes, keeps), 1 / count));
  }
  void multiplied(Value x) {
    if (b_.rank(x) == 0) return;
    const int64_t depth = b_.shape(x).back();
    const double size = 1 / std::sqrt(static_cast<double>(depth));
    Value y = graph::kNone;
    if (next() % 3 == 0 && b_.rank(x) >= 2) {
      // With itself turned, as scores are computed.
      std::vector<int64_t> order;
      for (int64_t i = 0; i < b_.rank(x); ++i) order.push_back(i);
      std::swap(order[order.size() - 1], order[order.size() - 2]);
      y = b_.transpose(x, order);
      return keep(tame(b_.map(Function::kMultiply, b_.product(x, y), size)));
    }
    y = b_.product(x, constant({depth, pick_size(next())}, size));
    if (next() % 2 == 0 && b_.ok()) y = b_.add(y, constant({b_.shape(y).back()}, 0.5));
    if (next() % 2 == 0) y = b_.map(Function::kMaximum, y, 0.0);
    keep(tame(y));
  }
  void normal(Value x, bool softmax) {
    if (b_.rank(x) == 0) return;
    const int64_t last = b_.rank(x) - 1;
    if (softmax) {
      const Value top = b_.reduce(Function::kMaximum, x, {last}, true);
      const Value e = b_.map(Function::kExp, b_.subtract(x, top));
      return keep(b_.divide(e, b_.reduce(Function::kAdd, e, {last}, true)));
    }
    const double count = static_cast<double>(b_.shape(x).back());
    const auto mean = [&](Value v) {
      return b_.map(Function::kDivide, b_.reduce(Function::kAdd, v, {last}, true), count);
    };
    const Value centred = b_.subtract(x, mean(x));
    const Value variance = b_.map(Function::kAdd, mean(b_.multiply(centred, centred)), 0.5);
    keep(b_.divide(centred, b_.map(Function::kSqrt, variance)));
  }
  // The value as an image, and windows of it.
  Value image_of(Value x, int64_t& channels, int64_t& height, int64_t& width) {
    Shape shape = b_.shape(x);
    while (shape.size() < 3) shape.insert(shape.begin(), 1);
    channels = 1;
    for (size_t i = 0; i + 2 < shape.size(); ++i) channels *= shape[i];
    height = shape[shape.size() - 2];
    width = shape.back();
    return b_.reshape(x, {1, channels, height, width});
  }
  Builder::Window window(int64_t size) {
    Builder::Window w;
    w.size = 1 + next() % static_cast<uint32_t>(std::min<int64_t>(size + 1, 5));
    w.dilation = 1 + next() % 5 / 4;
    w.stride = 1 + next() % 3;
    const int64_t before = next() % static_cast<uint32_t>(w.size), after = before;
    const int64_t room = size + before + after - (w.size - 1) * w.dilation - 1;
    w.first = -before;
    w.count = room < 0 ? 0 : room / w.stride + 1;
    return w;
  }
  void convolved(Value x) {
    int64_t channels = 0, height = 0, width = 0;
    const Value image = image_of(x, channels, height, width);
    const Builder::Window wy = window(height), wx = window(width);
    if (wy.count < 1 || wx.count < 1) return;
    const int64_t depth = channels * wy.size * wx.size;
    if (depth * wy.count * wx.count > 40 * kMostElements) return;
    Value columns = b_.windows(image, 1, {{1, 1, channels, 1, 0}, wy, wx}, 0, true);
    columns = b_.reshape(columns, {1, depth, wy.count * wx.count});
    const int64_t outputs = pick_size(next());
    const Value weights = constant({1, depth, outputs}, 1 / std::sqrt(static_cast<double>(depth)));
    Value y = b_.batched_product(weights, columns, true);
    y = b_.reshape(y, {1, outputs, wy.count, wx.count});
    if (next() % 2 == 0) y = b_.add(y, constant({1, outputs, 1, 1}, 0.5));
    if (next() % 2 == 0) y = b_.map(Function::kMaximum, y, 0.0);
    keep(tame(y));
  }
  void pooled(Value x) {
    int64_t channels = 0, height = 0, width = 0;
    image_of(x, channels, height, width);
    const Value image = b_.reshape(x, {channels, height, width});
    const Builder::Window wy = window(height), wx = window(width);
    if (wy.count < 1 || wx.count < 1) return;
    const bool most = next() % 2 == 0;
    Value all = b_.windows(image, 1, {wy, wx}, most ? -9 : 0, true);
    all = b_.reshape(all, {channels, wy.size * wx.size, wy.count * wx.count});
    if (most) return keep(b_.reduce(Function::kMaximum, all, {1}, true));
    keep(b_.map(Function::kMultiply, b_.reduce(Function::kAdd, all, {1}, false),
                1 / static_cast<double>(wy.size * wx.size)));
  }
  // All 32 bits count.
  void whole(Value x) {
    const uint32_t kind = next() % 8;
    Tensor numbers = Tensor::zeros(Type::kI32, b_.shape(x));
    uint32_t state = next() + 1;
    for (int64_t& number : numbers.integers) {
      state = state * 1664525u + 1013904223u;
      number = static_cast<int32_t>(state);
    }
    const Value y = b_.constant(std::move(numbers));
    constexpr Function kFunctions[] = {Function::kAdd,     Function::kSubtract, Function::kMultiply,
                                       Function::kMaximum, Function::kMinimum,  Function::kXor};
    if (kind < 6) return keep(b_.map(kFunctions[kind], x, y));
    if (kind == 6 && b_.rank(x) > 0) {
      const bool keeps = next() % 2 == 0;
      return keep(b_.reduce(Function::kAdd, x, {axis(x)}, keeps));
    }
    return transposed(x);
  }
  void compared() {
    const Value x = inputs_[next() % inputs_.size()];
    const Value truth = b_.map(Function::kLess, x, 0.1);
    const Value whole = b_.map(Function::kRound, b_.map(Function::kMultiply, x, 2.5));
    keep(b_.select(truth, b_.map(Function::kTanh, x), whole));
  }
  void rows_by_number(Value x) {
    if (b_.rank(x) == 0) return;
    const int64_t number = axis(x), size = b_.size(x, number);
    std::vector<int64_t> places;
    for (uint32_t i = 0; i < 1 + next() % 5; ++i) {
      places.push_back(next() % static_cast<uint32_t>(size));
    }
    // Half of the numbers are data.
    if (next() % 2 == 0) return keep(b_.pick(x, number, places));
    const Value data =
        b_.reshape(x, {graph::elements_of(b_.shape(x)) / b_.shape(x).back(), b_.shape(x).back()});
    const Value flat = b_.reshape(wholes_[0], {graph::elements_of(b_.shape(wholes_[0]))});
    const Value low = b_.cast(b_.map(Function::kAnd, flat, 7.0), Type::kI64);
    keep(b_.gather(data, low));
  }
  void expanded(Value x) {
    Shape shape = b_.shape(x);
    if (shape.size() < kMostRank) shape.insert(shape.begin(), 1 + next() % 3);
    for (int64_t& size : shape) {
      if (size == 1) size = 1 + next() % 5;
    }
    if (graph::elements_of(shape) <= kMostElements) keep(b_.expand(x, shape));
  }

  Builder b_;
  const std::vector<uint32_t>& numbers_;
  size_t at_ = 0;
  std::vector<Value> reals_, wholes_, inputs_;
  std::vector<Value> made_;  // real and whole ones
};

}  // namespace

graph::Graph random_graph(const std::vector<uint32_t>& numbers, size_t most) {
  return Maker(numbers).make(most);
}

std::vector<graph::SharedTensor> random_inputs(const graph::Graph& graph) {
  std::vector<graph::SharedTensor> list;
  uint32_t state = 99;
  for (const Value input : graph.inputs) {
    const graph::Node& node = graph.nodes[static_cast<size_t>(input)];
    Tensor tensor = Tensor::zeros(node.type, node.shape);
    for (size_t i = 0; i < static_cast<size_t>(tensor.elements()); ++i) {
      state = state * 1664525u + 1013904223u;
      tensor.set(i, graph::is_real(node.type) ? graph::rounded(Type::kF32, state / 2147483648.0 - 1)
                                              : static_cast<int32_t>(state));
    }
    list.push_back(std::make_shared<const Tensor>(std::move(tensor)));
  }
  return list;
}

}  // namespace neuron::property
