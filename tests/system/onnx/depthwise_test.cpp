// SPDX-License-Identifier: Apache-2.0
// Convolutions in which a channel sees itself only, as mobile networks have them: the values of the
// reference, the same bits at every level, and no descriptor for each element.
#include <gtest/gtest.h>

#include <vector>

#include "tests/system/onnx/device_test.h"
#include "tests/unit/tools/compiler/onnx/model_writer.h"

namespace neuron::compile {
namespace {

struct Layer {
  int64_t channels, height, width, kernel, stride;
  double most_us;  // on trn1
};

std::vector<uint8_t> model(const Layer& layer) {
  onnx::ModelWriter writer;
  writer.input("x", {1, layer.channels, layer.height, layer.width});
  const auto count = static_cast<size_t>(layer.channels * layer.kernel * layer.kernel);
  writer.constant("w", {layer.channels, 1, layer.kernel, layer.kernel},
                  seeded_numbers(count, 1, 3));
  auto& node = writer.node("Conv", {"x", "w"}, {"y"});
  const int64_t border = layer.kernel / 2;
  onnx::ModelWriter::attribute(node, "strides", {layer.stride, layer.stride});
  onnx::ModelWriter::attribute(node, "pads", {border, border, border, border});
  onnx::ModelWriter::attribute(node, "group", layer.channels);
  writer.output("y");
  return writer.bytes();
}

class DepthwiseLayers : public DeviceTest {};

TEST_F(DepthwiseLayers,
       HaveTheReferencesValuesTheSameBitsAtEveryLevelAndTakeNoLongerThanTheirBounds) {
  // As products with windows in HBM they took 99, 3907, 691 and 5247 us; with a copy of the image,
  // a product and a sum for each offset 45, 95, 60 and 316.
  const Layer layers[] = {{16, 24, 40, 3, 1, 21},
                          {48, 48, 128, 3, 2, 43},
                          {130, 12, 20, 5, 1, 35},
                          {16, 96, 256, 3, 2, 142}};
  for (const Layer& layer : layers) {
    SCOPED_TRACE(testing::Message()
                 << layer.channels << " channels of " << layer.height << " x " << layer.width);
    double us = 0;
    expect_reference_and_equal_bits(model(layer), {1, layer.channels, layer.height, layer.width},
                                    {1e-6, 0, 1e-6}, us);
    EXPECT_LE(us, layer.most_us);
  }
}

}  // namespace
}  // namespace neuron::compile
