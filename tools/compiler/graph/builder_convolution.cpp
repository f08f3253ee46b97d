// SPDX-License-Identifier: Apache-2.0
// Convolutions: products with windows of the image; where a channel sees itself only, sums of the
// image, shifted.
#include <algorithm>

#include "tools/compiler/graph/builder.h"

namespace neuron::graph {
namespace {

// A product of a single row uses one row of PE, and its windows would be laid out for it. Maps of
// the shifted image use a lane for each channel; with fewer channels, or more offsets, PE is
// quicker.
constexpr int64_t kFewestChannels = 8;
constexpr int64_t kMostOffsets = 64;
constexpr int64_t kElementsOfBand = 4096;

}  // namespace

// Offsets are added in their order, so that the sum is the same wherever it is computed.
Value Builder::depthwise_convolution(Value x, Value weights, const std::vector<Window>& windows) {
  const Shape input = shape(x), filter = shape(weights);
  Shape before(input.size(), 0), after(input.size(), 0);
  int64_t offsets = 1;
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& w = windows[i];
    const int64_t last = w.first + (w.count - 1) * w.stride + (w.size - 1) * w.dilation;
    before[i + 2] = std::max<int64_t>(0, -w.first);
    after[i + 2] = std::max<int64_t>(0, last + 1 - input[i + 2]);
    offsets *= w.size;
  }
  const Value padded = pad(x, before, after, 0);
  const Value flat = reshape(weights, {filter[0], offsets});
  Shape channels(input.size(), 1);
  channels[1] = filter[0];
  Value sum = kNone;
  for (int64_t offset = 0; offset < offsets && ok(); ++offset) {
    std::vector<Slice> part = {{0, input[0], 1}, {0, input[1], 1}};
    int64_t rest = offset, below = offsets;
    for (size_t i = 0; i < windows.size(); ++i) {
      const Window& w = windows[i];
      below /= w.size;
      part.push_back({w.first + before[i + 2] + rest / below * w.dilation, w.count, w.stride});
      rest %= below;
    }
    const Value factor = reshape(slice_axis(flat, 1, {offset, 1, 1}), channels);
    const Value term = multiply(slice(padded, part), factor);
    sum = offset == 0 ? term : add(sum, term);
  }
  return sum;
}

// In bands of rows, each of which finds room beside what it is computed from.
Value Builder::depthwise_bands(Value x, Value weights, const std::vector<Window>& windows) {
  const Window& rows = windows[0];
  int64_t row = 1;  // elements of a channel for each row of the result
  for (size_t i = 1; i < windows.size(); ++i) row *= size(x, static_cast<int64_t>(i) + 2);
  row *= rows.stride;
  const int64_t most = std::max<int64_t>(1, kElementsOfBand / row);
  if (rows.count <= most) return depthwise_convolution(x, weights, windows);
  std::vector<Value> bands;
  for (int64_t first = 0; first < rows.count && ok(); first += most) {
    std::vector<Window> band = windows;
    band[0].count = std::min(most, rows.count - first);
    // Rows of the image that the band sees.
    const int64_t top = rows.first + first * rows.stride;
    const int64_t bottom =
        top + (band[0].count - 1) * rows.stride + (rows.size - 1) * rows.dilation + 1;
    const int64_t begin = std::clamp<int64_t>(top, 0, size(x, 2) - 1);
    const int64_t end = std::clamp<int64_t>(bottom, begin + 1, size(x, 2));
    band[0].first = top - begin;
    bands.push_back(
        depthwise_convolution(slice_axis(x, 2, {begin, end - begin, 1}), weights, band));
  }
  return concat(bands, 2);
}

Value Builder::convolution(Value x, Value weights, const std::vector<Window>& windows,
                           int64_t groups) {
  if (!usable({x, weights})) return kNone;
  const Shape input = shape(x), filter = shape(weights);
  if (input.size() != windows.size() + 2 || filter.size() != input.size() || groups < 1 ||
      groups > input[1] || input[1] % groups != 0 || input[1] / groups != filter[1] ||
      filter[0] % groups != 0) {
    return fail("weights of {} do not fit {} in {} groups", shape_text(filter), shape_text(input),
                groups);
  }
  Shape counts;
  int64_t offsets = 1;
  for (size_t i = 0; i < windows.size(); ++i) {
    if (windows[i].size != filter[i + 2]) {
      return fail("weights of {} and a kernel of {} in dimension {} of the image",
                  shape_text(filter), windows[i].size, i);
    }
    counts.push_back(windows[i].count);
    offsets *= windows[i].size;
  }
  if (filter[1] == 1 && filter[0] == groups && groups >= kFewestChannels &&
      offsets <= kMostOffsets && is_real(type(x))) {
    return depthwise_bands(x, weights, windows);
  }
  const int64_t depth = filter[1] * offsets;
  Shape split = {input[0] * groups, filter[1]};
  split.insert(split.end(), input.begin() + 2, input.end());
  // Channels lie innermost in the depth of the product: each offset is the image, shifted.
  std::vector<Window> all = windows;
  all.insert(all.begin(), {1, 1, filter[1], 1, 0});
  Value columns = this->windows(reshape(x, split), 1, all, 0, true);
  if (!ok()) return kNone;
  columns = reshape(columns, {input[0] * groups, depth, elements_of(counts)});
  Value turned = reshape(weights, {groups, filter[0] / groups, filter[1], offsets});
  turned = reshape(transpose(turned, {0, 3, 2, 1}), {groups, depth, filter[0] / groups});
  Shape result = {input[0], filter[0]};
  result.insert(result.end(), counts.begin(), counts.end());
  return reshape(grouped_product(turned, columns, input[0]), result);
}

}  // namespace neuron::graph
