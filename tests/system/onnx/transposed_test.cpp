// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions, as decoders of pictures have them: the values of the reference, the same
// bits at every level, and neither products with zeros nor descriptors for single elements.
#include <gtest/gtest.h>

#include <vector>

#include "tests/system/onnx/device_test.h"
#include "tests/unit/tools/compiler/onnx/model_writer.h"

namespace neuron::compile {
namespace {

struct Layer {
  int64_t images, channels, outputs, height, width, kernel, stride, pad, groups;
  double most_us;  // on trn1
};

std::vector<uint8_t> model(const Layer& layer) {
  onnx::ModelWriter writer;
  writer.input("x", {layer.images, layer.channels, layer.height, layer.width});
  const int64_t outputs = layer.outputs / layer.groups;
  const auto count = static_cast<size_t>(layer.channels * outputs * layer.kernel * layer.kernel);
  writer.constant("w", {layer.channels, outputs, layer.kernel, layer.kernel},
                  seeded_numbers(count, 1, 3));
  writer.constant("b", {layer.outputs}, seeded_numbers(static_cast<size_t>(layer.outputs), 1, 5));
  auto& node = writer.node("ConvTranspose", {"x", "w", "b"}, {"z"});
  onnx::ModelWriter::attribute(node, "strides", {layer.stride, layer.stride});
  onnx::ModelWriter::attribute(node, "pads", {layer.pad, layer.pad, layer.pad, layer.pad});
  onnx::ModelWriter::attribute(node, "group", layer.groups);
  writer.node("Relu", {"z"}, {"y"});
  writer.output("y");
  return writer.bytes();
}

class TransposedLayers : public DeviceTest {};

TEST_F(TransposedLayers,
       HaveTheReferencesValuesTheSameBitsAtEveryLevelAndTakeNoLongerThanTheirBounds) {
  // With zeros between the elements of their images they took 27, 81, 48, 368, 2982, 3637,
  // an unknown time, 67 and 33 us; the odd image 12,500 when its lines were cut one by one.
  const Layer layers[] = {
      {1, 64, 32, 28, 28, 2, 2, 0, 1, 12.5}, {1, 64, 32, 28, 28, 4, 2, 1, 1, 33},
      {1, 64, 32, 28, 28, 3, 2, 1, 1, 22.5}, {1, 64, 64, 28, 28, 4, 2, 1, 4, 110},
      {1, 64, 64, 28, 28, 4, 2, 1, 64, 37},  {1, 24, 24, 96, 256, 2, 2, 0, 1, 200},
      {1, 24, 24, 96, 256, 3, 2, 1, 1, 640}, {2, 20, 10, 13, 11, 3, 3, 1, 1, 11.5},
      {1, 20, 1, 13, 41, 2, 3, 0, 1, 14}};
  for (const Layer& layer : layers) {
    SCOPED_TRACE(testing::Message()
                 << layer.channels << " channels of " << layer.height << " x " << layer.width
                 << ", kernel " << layer.kernel << ", " << layer.groups << " groups");
    double us = 0;
    expect_reference_and_equal_bits(model(layer),
                                    {layer.images, layer.channels, layer.height, layer.width},
                                    {1e-7, 1e-3, 1e-5}, us);
    EXPECT_LE(us, layer.most_us);
  }
}

// Channels become blocks of pixels.
std::vector<uint8_t> depth_to_space(const graph::Shape& shape, int64_t block) {
  onnx::ModelWriter writer;
  writer.input("x", shape);
  onnx::ModelWriter::attribute(writer.node("DepthToSpace", {"x"}, {"y"}), "blocksize", block);
  writer.output("y");
  return writer.bytes();
}

TEST_F(TransposedLayers, AndDepthToSpacePutEveryElementWhereItBelongs) {
  // With more elements between neighbours than tiles hold lines of, and fewer.
  for (const int64_t block : {2, 3, 5, 8, 9, 31}) {
    SCOPED_TRACE(block);
    const graph::Shape shape = {2, 2 * block * block, 13, 19};
    double us = 0;
    expect_reference_and_equal_bits(depth_to_space(shape, block), shape, {0, 0, 0}, us);
  }
  const graph::Shape large = {1, 16, 192, 256};
  double us = 0;
  // With a descriptor for each element it took 1,261 us.
  expect_reference_and_equal_bits(depth_to_space(large, 4), large, {0, 0, 0}, us);
  EXPECT_LE(us, 31);
}

}  // namespace
}  // namespace neuron::compile
