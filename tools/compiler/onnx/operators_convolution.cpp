// SPDX-License-Identifier: Apache-2.0
// Convolutions: the windows of the image become the columns of a matrix, which the weights
// multiply.
#include <algorithm>

#include "tools/compiler/onnx/operators.h"
#include "tools/compiler/onnx/quantisation.h"
#include "tools/compiler/onnx/spatial.h"

namespace neuron::onnx {
namespace {

Value with_bias(Call& c, Value y, Value bias) {
  Shape shape(static_cast<size_t>(std::max<int64_t>(2, c.b.rank(y))), 1);
  shape[1] = graph::elements_of(c.b.shape(bias));
  return c.b.add(y, c.b.reshape(bias, shape));
}

Value convolve(Call& c, Value x, Value w) {
  const Shape image = image_of(c, x);
  const Shape weights = c.b.shape(w), input = c.b.shape(x);
  const int64_t groups = c.integer("group", 1);
  if (!c.b.ok()) return graph::kNone;
  if (weights.size() != input.size() || groups < 1 || groups > input[1] ||
      input[1] != weights[1] * groups || weights[0] % groups != 0) {
    return c.b.fail("weights of {} do not fit {} in {} groups", graph::shape_text(weights),
                    graph::shape_text(input), groups);
  }
  Spatial spatial;
  if (!read_spatial(c, image, {weights.begin() + 2, weights.end()}, spatial)) return graph::kNone;
  if (!std::equal(weights.begin() + 2, weights.end(), spatial.kernel.begin())) {
    return c.b.fail("weights of {} and a kernel of {}", graph::shape_text(weights),
                    graph::shape_text(spatial.kernel));
  }
  return c.b.convolution(x, w, spatial.windows(image), groups);
}

void convolution(Call& c) {
  const Value y = convolve(c, c.in(0), c.in(1));
  c.out(c.has(2) ? with_bias(c, y, c.in(2)) : y);
}

void convolution_of_integers(Call& c) {
  const Value x = without_zero(c, c.in(0), c.has(2) ? c.in(2) : graph::kNone, -1);
  const Value w = without_zero(c, c.in(1), c.has(3) ? c.in(3) : graph::kNone, 0);
  c.out(convolve(c, x, w));
}

void quantised_convolution(Call& c) {
  const Value x = without_zero(c, c.in(0), c.in(2), -1);
  const Value w = without_zero(c, c.in(3), c.in(5), 0);
  Value y = convolve(c, x, w);
  if (c.has(8)) y = with_bias(c, y, c.in(8));
  Value factor = c.b.multiply(c.in(1), c.in(4));
  if (graph::elements_of(c.b.shape(factor)) > 1) {
    Shape shape(static_cast<size_t>(c.b.rank(y)), 1);
    if (shape.size() > 1) shape[1] = graph::elements_of(c.b.shape(factor));
    factor = c.b.reshape(factor, shape);
  }
  const Value real = c.b.multiply(c.b.cast(y, Type::kF32), factor);
  c.out(quantised(c, real, c.in(6), c.in(7), c.b.type(c.in(7))));
}

struct Transposed {
  Spatial spatial;
  Shape counts;  // of the result
};

// How large the result is, and what of it is cut off.
bool read_transposed(Call& c, const Shape& image, const Shape& kernel, Transposed& t) {
  if (!read_spatial(c, image, kernel, t.spatial)) return false;
  const size_t rank = image.size();
  const std::vector<int64_t> more = c.integers("output_padding", std::vector<int64_t>(rank, 0));
  std::vector<int64_t> wanted = c.integers("output_shape");
  if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  const std::string mode = c.text("auto_pad", "NOTSET");
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (more.size() != rank || (!wanted.empty() && wanted.size() != rank)) {
    c.b.fail("its output_padding or output_shape do not have {} dimensions", rank);
    return false;
  }
  constexpr int64_t kMost = 1 << 24;
  const auto within = [](int64_t size) { return size >= 0 && size <= kMost; };
  if (t.spatial.kernel != kernel || !std::all_of(more.begin(), more.end(), within) ||
      !std::all_of(wanted.begin(), wanted.end(), within)) {
    c.b.fail("its kernel_shape, output_padding or output_shape do not fit weights of {}",
             graph::shape_text(kernel));
    return false;
  }
  for (size_t i = 0; i < rank; ++i) {
    const int64_t reach = (t.spatial.kernel[i] - 1) * t.spatial.dilations[i] + 1;
    const int64_t full = t.spatial.strides[i] * (image[i] - 1) + more[i] + reach;
    if (wanted.empty() && same) wanted.resize(rank, 0);
    if (!wanted.empty()) {
      const int64_t size =
          c.has_attribute("output_shape") ? wanted[i] : image[i] * t.spatial.strides[i];
      const int64_t total = full - size;
      // A result beyond what the windows reach ends in zeros.
      const int64_t cut = std::max<int64_t>(0, total);
      t.spatial.before[i] = mode == "SAME_UPPER" ? cut / 2 : cut - cut / 2;
      t.spatial.after[i] = total - t.spatial.before[i];
    }
    t.counts.push_back(full - t.spatial.before[i] - t.spatial.after[i]);
    if (t.counts.back() < 1 || t.counts.back() > kMost) {
      c.b.fail("a result of {} along dimension {} of the image", t.counts.back(), i);
      return false;
    }
  }
  return true;
}

// The image with zeros between its elements is convolved with the turned kernel.
void transposed_convolution(Call& c) {
  const Value x = c.in(0), w = c.in(1);
  const Shape image = image_of(c, x);
  const Shape weights = c.b.shape(w), input = c.b.shape(x);
  const int64_t groups = c.integer("group", 1);
  if (!c.b.ok()) return;
  if (weights.size() != input.size() || groups < 1 || groups > input[1] || input[1] != weights[0] ||
      input[1] % groups != 0) {
    c.b.fail("weights of {} do not fit {} in {} groups", graph::shape_text(weights),
             graph::shape_text(input), groups);
    return;
  }
  Transposed t;
  const Shape kernel(weights.begin() + 2, weights.end());
  if (!read_transposed(c, image, kernel, t)) return;
  std::vector<Builder::Window> windows;
  std::vector<graph::Slice> turned = {
      {0, groups, 1}, {0, weights[1], 1}, {0, input[1] / groups, 1}};
  for (size_t i = 0; i < image.size(); ++i) {
    const int64_t reach = (kernel[i] - 1) * t.spatial.dilations[i];
    windows.push_back(
        {kernel[i], t.spatial.dilations[i], t.counts[i], 1, t.spatial.before[i] - reach});
    turned.push_back({kernel[i] - 1, kernel[i], -1});
  }
  // [groups, inputs, outputs, kernel] to [groups * outputs, inputs, kernel turned round]
  Shape split = {groups, input[1] / groups, weights[1]};
  split.insert(split.end(), kernel.begin(), kernel.end());
  std::vector<int64_t> order = {0, 2, 1};
  for (int64_t i = 3; i < static_cast<int64_t>(split.size()); ++i) order.push_back(i);
  Shape filter = {groups * weights[1], input[1] / groups};
  filter.insert(filter.end(), kernel.begin(), kernel.end());
  const Value w_turned =
      c.b.reshape(c.b.slice(c.b.transpose(c.b.reshape(w, split), order), turned), filter);
  const Value y = c.b.spread_convolution(x, w_turned, windows, t.spatial.strides, groups);
  c.out(c.has(2) ? with_bias(c, y, c.in(2)) : y);
}

// Blocks of columns are added where they lie in the image: the transpose of taking windows.
void columns_to_image(Call& c) {
  const Value x = c.in(0);
  const Shape image = c.known_integers(1), block = c.known_integers(2);
  const Shape shape = c.b.shape(x);
  Spatial spatial;
  if (!c.b.ok() || !read_spatial(c, image, block, spatial)) return;
  const Shape counts = spatial.counts(image);
  if (!c.b.allowed(block) || !c.b.allowed(counts)) return;
  // Of another size it would be that of an attribute, which this operator does not have.
  if (block != spatial.kernel) {
    c.b.fail("blocks of {} and a kernel of {}", graph::shape_text(block),
             graph::shape_text(spatial.kernel));
    return;
  }
  const int64_t offsets = graph::elements_of(block);
  if (shape.size() != 3 || shape[1] % offsets != 0 || shape[2] != graph::elements_of(counts)) {
    c.b.fail("columns of {} do not fit an image of {}", graph::shape_text(shape),
             graph::shape_text(image));
    return;
  }
  Shape padded = {shape[0], shape[1] / offsets};
  for (size_t i = 0; i < image.size(); ++i) {
    padded.push_back(image[i] + spatial.before[i] + spatial.after[i]);
  }
  if (!c.b.allowed(padded)) return;
  const Shape steps = graph::strides_of(padded), count_steps = graph::strides_of(counts);
  Value sum = graph::kNone;
  for (int64_t number = 0; number < offsets && c.b.ok(); ++number) {
    graph::Region region;
    region.from = number * shape[2];
    region.dimensions = {{shape[0], steps[0], shape[1] * shape[2]},
                         {padded[1], steps[1], offsets * shape[2]}};
    int64_t rest = number;
    for (size_t i = image.size(); i-- > 0;) {
      region.to += rest % block[i] * spatial.dilations[i] * steps[i + 2];
      rest /= block[i];
    }
    for (size_t i = 0; i < image.size(); ++i) {
      region.dimensions.push_back({counts[i], steps[i + 2] * spatial.strides[i], count_steps[i]});
    }
    const Value part = c.b.regions({x}, padded, {region});
    sum = sum == graph::kNone ? part : c.b.add(sum, part);
  }
  std::vector<graph::Slice> slices = {{0, padded[0], 1}, {0, padded[1], 1}};
  for (size_t i = 0; i < image.size(); ++i) slices.push_back({spatial.before[i], image[i], 1});
  c.out(c.b.slice(sum, slices));
}

constexpr Operator kConvolutionOperators[] = {
    {"Col2Im", columns_to_image},
    {"Conv", convolution},
    {"ConvInteger", convolution_of_integers},
    {"ConvTranspose", transposed_convolution},
    {"QLinearConv", quantised_convolution},
};

}  // namespace

std::span<const Operator> convolution_operators() { return kConvolutionOperators; }

}  // namespace neuron::onnx
