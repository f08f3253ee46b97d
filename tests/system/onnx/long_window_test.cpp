// SPDX-License-Identifier: Apache-2.0
// Convolutions over sound: windows of few channels with more elements than there are partitions.
// Their parts see the same image, shifted; with and without it in SBUF the bits are the same.
#include <gtest/gtest.h>

#include <vector>

#include "tests/system/onnx/device_test.h"
#include "tests/unit/tools/compiler/onnx/model_writer.h"

namespace neuron::compile {
namespace {

struct Window {
  int64_t images, channels, length, kernel, outputs, stride, dilation, before, after;
};

std::vector<uint8_t> model(const Window& w) {
  onnx::ModelWriter writer;
  writer.input("x", {w.images, w.channels, w.length});
  const auto count = static_cast<size_t>(w.outputs * w.channels * w.kernel);
  writer.constant("w", {w.outputs, w.channels, w.kernel}, seeded_numbers(count, 0.1, 3));
  auto& node = writer.node("Conv", {"x", "w"}, {"y"});
  onnx::ModelWriter::attribute(node, "strides", std::vector<int64_t>{w.stride});
  onnx::ModelWriter::attribute(node, "dilations", std::vector<int64_t>{w.dilation});
  onnx::ModelWriter::attribute(node, "pads", {w.before, w.after});
  writer.output("y");
  return writer.bytes();
}

class LongWindows : public DeviceTest {};

TEST_F(LongWindows, AreMultipliedInPartsWithTheValuesOfTheReferenceAndTheSameBitsAtEveryLevel) {
  const Window windows[] = {
      {1, 1, 640, 256, 258, 128, 1, 0, 0},  // a short Fourier transform
      {2, 1, 300, 129, 5, 1, 1, 64, 64},    // one element in the second part
      {1, 3, 400, 100, 8, 4, 2, 30, 7},    {1, 5, 200, 60, 130, 3, 1, 59, 0},
      {1, 31, 40, 9, 3, 2, 3, 0, 20},
  };
  for (const Window& window : windows) {
    SCOPED_TRACE(testing::Message() << window.channels << " channels, kernel " << window.kernel);
    double us = 0;
    expect_reference_and_equal_bits(model(window), {window.images, window.channels, window.length},
                                    {1e-7, 0, 1e-6}, us);
  }
}

}  // namespace
}  // namespace neuron::compile
