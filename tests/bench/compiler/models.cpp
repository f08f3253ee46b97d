// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/compiler/models.h"

#include <cmath>

namespace neuron::bench {
namespace {

using onnx::ModelWriter;

// A model that is written layer by layer; every constant has numbers of its own.
class Layers {
 public:
  ModelWriter writer;

  std::string constant(const std::vector<int64_t>& shape, double size, double offset = 0) {
    int64_t count = 1;
    for (const int64_t n : shape) count *= n;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) {
      state_ = state_ * 1664525u + 1013904223u;
      value = static_cast<float>(offset + size * (state_ / 2147483648.0 - 1));
    }
    std::string name = "constant" + std::to_string(constants_++);
    writer.constant(name, shape, values);
    return name;
  }
  std::string node(const std::string& type, const std::vector<std::string>& inputs) {
    std::string name = type + std::to_string(nodes_++);
    onnx::file::NodeData& made = writer.node(type, inputs, {name});
    made.set_name(name);
    last_ = &made;
    return name;
  }
  void integers(const std::string& name, const std::vector<int64_t>& values) {
    onnx::file::AttributeData* attribute = last_->add_attribute();
    attribute->set_name(name);
    attribute->set_type(7);  // whole numbers; other runtimes want to be told
    for (const int64_t value : values) attribute->add_ints(value);
  }
  void integer(const std::string& name, int64_t value) {
    ModelWriter::attribute(*last_, name, value);
  }

  // x [rows, inputs] w + b
  std::string linear(const std::string& x, int64_t inputs, int64_t outputs) {
    const std::string product =
        node("MatMul", {x, constant({inputs, outputs}, 1.5 / std::sqrt(inputs))});
    return node("Add", {product, constant({outputs}, 0.1)});
  }
  std::string convolution(const std::string& x, int64_t inputs, int64_t outputs, int64_t kernel,
                          int64_t stride) {
    const double size = 1.7 / std::sqrt(static_cast<double>(inputs * kernel * kernel));
    const std::string y = node(
        "Conv", {x, constant({outputs, inputs, kernel, kernel}, size), constant({outputs}, 0.1)});
    integers("strides", {stride, stride});
    const int64_t pad = kernel / 2;
    integers("pads", {pad, pad, pad, pad});
    integers("kernel_shape", {kernel, kernel});
    return y;
  }
  std::string max_pool(const std::string& x, int64_t kernel, int64_t stride, int64_t pad) {
    const std::string y = node("MaxPool", {x});
    integers("kernel_shape", {kernel, kernel});
    integers("strides", {stride, stride});
    integers("pads", {pad, pad, pad, pad});
    return y;
  }
  std::string shaped(const std::string& x, const std::vector<int64_t>& shape) {
    const std::string name = "shape" + std::to_string(constants_++);
    writer.integers(name, shape);
    return node("Reshape", {x, name});
  }
  std::string transposed(const std::string& x, const std::vector<int64_t>& order) {
    const std::string y = node("Transpose", {x});
    integers("perm", order);
    return y;
  }
  std::string normal(const std::string& x, int64_t size) {
    const std::string y =
        node("LayerNormalization", {x, constant({size}, 0.1, 1), constant({size}, 0.1)});
    integer("axis", -1);
    return y;
  }
  ModelWriter finish(const std::string& y) {
    writer.node("Identity", {y}, {"y"});
    writer.output("y");
    return std::move(writer);
  }

 private:
  uint32_t state_ = 12345;
  int constants_ = 0, nodes_ = 0;
  onnx::file::NodeData* last_ = nullptr;
};

ModelWriter perceptron() {
  Layers l;
  l.writer.input("x", {4, 64});
  std::string y = l.node("Relu", {l.linear("x", 64, 300)});
  y = l.node("Relu", {l.linear(y, 300, 130)});
  return l.finish(l.node("Softmax", {l.linear(y, 130, 10)}));
}

ModelWriter small_network() {
  Layers l;
  l.writer.input("x", {1, 1, 28, 28});
  std::string y = l.node("Relu", {l.convolution("x", 1, 16, 5, 1)});
  y = l.max_pool(y, 2, 2, 0);
  y = l.node("Relu", {l.convolution(y, 16, 32, 3, 1)});
  y = l.max_pool(y, 2, 2, 0);
  y = l.shaped(y, {1, 32 * 7 * 7});
  return l.finish(l.node("Softmax", {l.linear(y, 32 * 7 * 7, 10)}));
}

// Pre-norm blocks of `width` numbers a token.
ModelWriter transformer() {
  constexpr int64_t kBatch = 2, kTokens = 64, kWidth = 128, kHeads = 4, kBlocks = 2;
  Layers l;
  l.writer.input("x", {kBatch, kTokens, kWidth});
  std::string x = "x";
  for (int64_t block = 0; block < kBlocks; ++block) {
    const std::string normal = l.normal(x, kWidth);
    const auto heads = [&](const std::vector<int64_t>& order) {
      const std::string all = l.linear(normal, kWidth, kWidth);
      return l.transposed(l.shaped(all, {kBatch, kTokens, kHeads, kWidth / kHeads}), order);
    };
    const std::string q = heads({0, 2, 1, 3}), k = heads({0, 2, 3, 1}), v = heads({0, 2, 1, 3});
    std::string scores = l.node("MatMul", {q, k});
    scores = l.node("Mul", {scores, l.constant({1}, 0, 0.1767767)});
    scores = l.node("Softmax", {scores});
    std::string y = l.transposed(l.node("MatMul", {scores, v}), {0, 2, 1, 3});
    y = l.linear(l.shaped(y, {kBatch, kTokens, kWidth}), kWidth, kWidth);
    x = l.node("Add", {x, y});
    y = l.linear(l.normal(x, kWidth), kWidth, 4 * kWidth);
    // gelu by erf
    const std::string inner = l.node("Erf", {l.node("Mul", {y, l.constant({1}, 0, 0.70710678)})});
    const std::string gate = l.node("Add", {inner, l.constant({1}, 0, 1)});
    y = l.node("Mul", {l.node("Mul", {y, l.constant({1}, 0, 0.5)}), gate});
    x = l.node("Add", {x, l.linear(y, 4 * kWidth, kWidth)});
  }
  return l.finish(x);
}

// Eight steps of a voice activity detector's size.
ModelWriter recurrent() {
  constexpr int64_t kSteps = 8, kInputs = 64, kHidden = 64;
  Layers l;
  l.writer.input("x", {kSteps, 1, kInputs});
  const std::string w = l.constant({1, 4 * kHidden, kInputs}, 0.2);
  const std::string r = l.constant({1, 4 * kHidden, kHidden}, 0.2);
  const std::string b = l.constant({1, 8 * kHidden}, 0.1);
  onnx::file::NodeData& node = l.writer.node("LSTM", {"x", w, r, b}, {"steps", "hidden"});
  ModelWriter::attribute(node, "hidden_size", kHidden);
  const std::string y = l.linear(l.shaped("hidden", {1, kHidden}), kHidden, 1);
  return l.finish(l.node("Sigmoid", {y}));
}

// ResNet with batch norms folded into the convolutions, as exporters write it.
ModelWriter residual(const std::vector<int64_t>& blocks, bool bottleneck) {
  Layers l;
  l.writer.input("x", {1, 3, 224, 224});
  std::string x = l.node("Relu", {l.convolution("x", 3, 64, 7, 2)});
  x = l.max_pool(x, 3, 2, 1);
  int64_t channels = 64;
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    const int64_t width = int64_t{64} << stage;
    const int64_t outputs = bottleneck ? 4 * width : width;
    for (int64_t block = 0; block < blocks[stage]; ++block) {
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      std::string y;
      if (bottleneck) {
        y = l.node("Relu", {l.convolution(x, channels, width, 1, 1)});
        y = l.node("Relu", {l.convolution(y, width, width, 3, stride)});
        y = l.convolution(y, width, outputs, 1, 1);
      } else {
        y = l.node("Relu", {l.convolution(x, channels, width, 3, stride)});
        y = l.convolution(y, width, width, 3, 1);
      }
      if (channels != outputs || stride != 1) {
        x = l.convolution(x, channels, outputs, 1, stride);
      }
      x = l.node("Relu", {l.node("Add", {y, x})});
      channels = outputs;
    }
  }
  x = l.node("GlobalAveragePool", {x});
  return l.finish(l.linear(l.shaped(x, {1, channels}), channels, 1000));
}

ModelWriter resnet18() { return residual({2, 2, 2, 2}, false); }
ModelWriter resnet50() { return residual({3, 4, 6, 3}, true); }

}  // namespace

const std::vector<Model>& models() {
  static const std::vector<Model> kModels = {
      {"perceptron", perceptron, false, 12, 0},    {"small-cnn", small_network, false, 43, 0},
      {"transformer", transformer, false, 150, 0}, {"voice-lstm", recurrent, false, 40, 0},
      {"resnet18", resnet18, true, 540, 0.7},      {"resnet50", resnet50, true, 960, 0.7},
  };
  return kModels;
}

}  // namespace neuron::bench
