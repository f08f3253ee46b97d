// SPDX-License-Identifier: Apache-2.0
// Convolutions: images and kernels are brought into one order of dimensions, convolved, and the
// result into the order that the module says.
#include <algorithm>

#include "tools/compiler/hlo/step.h"

namespace neuron::hlo {
namespace {

// Bounds what strangers write, so that sums of it fit.
constexpr int64_t kMost = 1 << 24;

using Order = std::vector<int64_t>;

template <class List>
Order order_of(int64_t first, int64_t second, const List& spatial) {
  Order order = {first, second};
  order.insert(order.end(), spatial.begin(), spatial.end());
  return order;
}

// Whether every dimension of an array of the rank is named once.
bool names_all(const Order& order, size_t rank) {
  Order sorted = order, all(rank);
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < rank; ++i) all[i] = static_cast<int64_t>(i);
  return sorted == all;
}

bool is_usual(const file::Window::Dimension& d) {
  const auto within = [](int64_t value, int64_t least) { return value >= least && value <= kMost; };
  return within(d.size(), 1) && within(d.stride(), 1) && within(d.padding_low(), -kMost) &&
         within(d.padding_high(), -kMost) && within(d.window_dilation(), 0) &&
         within(d.base_dilation(), 0);
}

// Windows of the spread image, and which dimensions of the kernel are turned round.
std::vector<Builder::Window> windows_of(Step& s, const Shape& image) {
  std::vector<Builder::Window> list;
  for (size_t i = 0; i < image.size(); ++i) {
    const auto& d = s.instruction.window().dimensions().Get(static_cast<int>(i));
    const int64_t dilation = std::max<int64_t>(1, d.window_dilation());
    const int64_t room = image[i] + d.padding_low() + d.padding_high();
    const int64_t reach = (d.size() - 1) * dilation + 1;
    if (room < reach) {
      s.b.fail("a window of {} does not fit the {} elements of dimension {} of the image", reach,
               room, i);
      return {};
    }
    list.push_back(
        {d.size(), dilation, (room - reach) / d.stride() + 1, d.stride(), -d.padding_low()});
  }
  return list;
}

Value turned_round(Step& s, Value kernel) {
  const auto& window = s.instruction.window().dimensions();
  std::vector<graph::Slice> parts;
  bool any = false;
  for (const int64_t size : s.b.shape(kernel)) parts.push_back({0, size, 1});
  for (size_t i = 2; i < parts.size(); ++i) {
    if (!window.Get(static_cast<int>(i) - 2).window_reversal()) continue;
    parts[i] = {parts[i].count - 1, parts[i].count, -1};
    any = true;
  }
  return any ? s.b.slice(kernel, parts) : kernel;
}

// Group g of the outputs sees part g of the batch: parts of the batch become groups of channels.
Value batch_as_channels(Step& s, Value x, int64_t groups) {
  Shape split = s.b.shape(x);
  if (groups < 1 || split[0] % groups != 0) {
    return s.b.fail("a batch of {} in {} groups", split[0], groups);
  }
  const int64_t part = split[0] / groups, channels = split[1];
  split[0] = part;
  split.insert(split.begin(), groups);
  Order order = {1, 0};
  for (int64_t i = 2; i < static_cast<int64_t>(split.size()); ++i) order.push_back(i);
  const Value apart = s.b.transpose(s.b.reshape(x, split), order);
  Shape joined(split.begin() + 1, split.end());
  joined[0] = part;
  joined[1] = channels * groups;
  return s.b.reshape(apart, joined);
}

Values convolution(Step& s) {
  const auto& numbers = s.instruction.convolution_dimension_numbers();
  const auto& window = s.instruction.window().dimensions();
  if (s.count() != 2) return {s.b.fail("{} operands; two are expected", s.count())};
  const auto [image_given, kernel_given] = s.same_type(s.in(0), s.in(1));
  if (!s.b.ok()) return {graph::kNone};
  const Shape image = s.b.shape(image_given), kernel = s.b.shape(kernel_given);
  const size_t rank = image.size();
  const Order from = order_of(numbers.input_batch_dimension(), numbers.input_feature_dimension(),
                              numbers.input_spatial_dimensions());
  const Order filter =
      order_of(numbers.kernel_output_feature_dimension(), numbers.kernel_input_feature_dimension(),
               numbers.kernel_spatial_dimensions());
  const Order to = order_of(numbers.output_batch_dimension(), numbers.output_feature_dimension(),
                            numbers.output_spatial_dimensions());
  if (kernel.size() != rank || !names_all(from, rank) || !names_all(filter, rank) ||
      !names_all(to, rank) || static_cast<size_t>(window.size()) + 2 != rank ||
      !std::all_of(window.begin(), window.end(), is_usual)) {
    return {s.b.fail("its dimension numbers or its window do not fit {} and {}",
                     graph::shape_text(image), graph::shape_text(kernel))};
  }
  const int64_t features = std::max<int64_t>(1, s.instruction.feature_group_count());
  const int64_t batches = std::max<int64_t>(1, s.instruction.batch_group_count());
  if (features > 1 && batches > 1) {
    return {s.b.fail("{} groups of features and {} of the batch; one of them must be 1", features,
                     batches)};
  }
  std::vector<int64_t> gaps;
  for (const auto& d : window) gaps.push_back(std::max<int64_t>(1, d.base_dilation()));
  Value x = s.b.transpose(image_given, from);
  if (s.b.ok() && batches > 1) x = batch_as_channels(s, x, batches);
  if (!s.b.ok()) return {graph::kNone};
  const Shape& given = s.b.shape(x);
  Shape wide;  // with zeros between elements
  for (size_t i = 2; i < rank; ++i) {
    const int64_t gap = gaps[i - 2];
    wide.push_back(given[i] == 0 ? 0 : (given[i] - 1) * gap + 1);
  }
  if (!s.b.allowed(wide)) return {graph::kNone};
  const auto windows = windows_of(s, wide);
  if (!s.b.ok()) return {graph::kNone};
  const Value weights = turned_round(s, s.b.transpose(kernel_given, filter));
  const Value y = s.b.spread_convolution(x, weights, windows, gaps, std::max(features, batches));
  // Dimension to[i] of the result is dimension i here.
  Order back(rank);
  for (size_t i = 0; i < rank; ++i) back[at(to[i])] = static_cast<int64_t>(i);
  return {s.in_result_type(s.b.transpose(y, back))};
}

constexpr Opcode kConvolutionOpcodes[] = {
    {"convolution", convolution},
};

}  // namespace

std::span<const Opcode> convolution_opcodes() { return kConvolutionOpcodes; }

}  // namespace neuron::hlo
