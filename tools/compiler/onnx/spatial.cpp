// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/onnx/spatial.h"

#include <algorithm>

namespace neuron::onnx {
namespace {

constexpr int64_t kMost = 1 << 24;

bool all_within(const std::vector<int64_t>& list, int64_t least) {
  return std::all_of(list.begin(), list.end(), [&](int64_t n) { return n >= least && n <= kMost; });
}

}  // namespace

Shape Spatial::counts(const Shape& image) const {
  Shape list;
  for (size_t i = 0; i < image.size(); ++i) {
    const int64_t reach = (kernel[i] - 1) * dilations[i] + 1;
    const int64_t room = image[i] + before[i] + after[i] - reach;
    int64_t count = room < 0 ? 0 : room / strides[i] + 1;
    if (ceils && room >= 0) {
      count = (room + strides[i] - 1) / strides[i] + 1;
      // No window may begin behind the image and its padding in front.
      if ((count - 1) * strides[i] >= image[i] + before[i]) --count;
    }
    list.push_back(count);
  }
  return list;
}

std::vector<Builder::Window> Spatial::windows(const Shape& image) const {
  std::vector<Builder::Window> list;
  const Shape count = counts(image);
  for (size_t i = 0; i < image.size(); ++i) {
    list.push_back({kernel[i], dilations[i], count[i], strides[i], -before[i]});
  }
  return list;
}

bool read_spatial(Call& c, const Shape& image, const std::vector<int64_t>& kernel,
                  Spatial& spatial) {
  const size_t rank = image.size();
  if (!c.b.allowed(image)) return false;
  spatial.kernel = c.integers("kernel_shape", kernel);
  spatial.strides = c.integers("strides", std::vector<int64_t>(rank, 1));
  spatial.dilations = c.integers("dilations", std::vector<int64_t>(rank, 1));
  const std::vector<int64_t> pads = c.integers("pads", std::vector<int64_t>(2 * rank, 0));
  spatial.ceils = c.integer("ceil_mode", 0) != 0;
  if (spatial.kernel.size() != rank || spatial.strides.size() != rank ||
      spatial.dilations.size() != rank || pads.size() != 2 * rank ||
      !all_within(spatial.kernel, 1) || !all_within(spatial.strides, 1) ||
      !all_within(spatial.dilations, 1) || !all_within(pads, 0)) {
    c.b.fail("its kernel {}, strides {}, dilations {} and pads {} do not fit an image of {}",
             graph::shape_text(spatial.kernel), graph::shape_text(spatial.strides),
             graph::shape_text(spatial.dilations), graph::shape_text(pads),
             graph::shape_text(image));
    return false;
  }
  spatial.before.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(rank));
  spatial.after.assign(pads.begin() + static_cast<ptrdiff_t>(rank), pads.end());
  const std::string mode = c.text("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    c.b.fail("the padding \"{}\"", base::escaped(mode));
    return false;
  }
  for (size_t i = 0; i < rank && mode != "NOTSET"; ++i) {
    spatial.before[i] = spatial.after[i] = 0;
    if (mode == "VALID") continue;
    const int64_t count = (image[i] + spatial.strides[i] - 1) / spatial.strides[i];
    const int64_t reach = (spatial.kernel[i] - 1) * spatial.dilations[i] + 1;
    const int64_t total = std::max<int64_t>(0, (count - 1) * spatial.strides[i] + reach - image[i]);
    spatial.before[i] = mode == "SAME_LOWER" ? (total + 1) / 2 : total / 2;
    spatial.after[i] = total - spatial.before[i];
  }
  return true;
}

Shape image_of(Call& c, Value x) {
  const Shape shape = c.b.shape(x);
  if (shape.size() < 3) {
    c.b.fail("it needs [batch, channels, image...], found {}", graph::shape_text(shape));
    return {};
  }
  return {shape.begin() + 2, shape.end()};
}

}  // namespace neuron::onnx
