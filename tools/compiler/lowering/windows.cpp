// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/windows.h"

#include <algorithm>

namespace neuron::lowering {
namespace {

using graph::Node;
using graph::Value;
using Dimension = graph::Region::Dimension;

// With fewer channels, a row of the window is summed at once.
constexpr int64_t kFewChannels = 32;
constexpr int64_t kWindowDeep = 128;

const Node& node_of(const graph::Graph& graph, Value value) {
  return graph.nodes[static_cast<size_t>(value)];
}

// The sizes that a dimension of a region may be made of, innermost first, with their distances.
struct Axis {
  int64_t size = 1;     // in the result
  int64_t to_step = 1;  // in the result
};

// How far each axis goes in a region: counts and distances in the source.
struct Extent {
  int64_t count = 1, from_step = 0;
};

bool read_region(const graph::Region& region, const std::vector<Axis>& axes,
                 std::vector<Extent>& extents) {
  extents.assign(axes.size(), {});
  for (const Dimension& merged : region.dimensions) {
    Dimension rest = merged;
    // The axis that the dimension begins with, then the ones that it goes over into.
    for (size_t a = 0; a < axes.size() && rest.size > 1; ++a) {
      const int64_t end = axes[a].to_step * axes[a].size;
      if (rest.to_step < axes[a].to_step || rest.to_step >= end) continue;
      if (rest.to_step != axes[a].to_step || extents[a].count != 1) return false;
      const int64_t count = std::min(rest.size, axes[a].size);
      if (rest.size > count && rest.size % count != 0) return false;
      extents[a] = {count, rest.from_step};
      rest = {rest.size / count, rest.to_step * count, rest.from_step * count};
    }
    if (rest.size > 1) return false;
  }
  return true;
}

// Whether of `all` places from `origin` on, `stride` apart, exactly [first, first + count) are
// within [0, size).
bool covers(int64_t first, int64_t count, int64_t all, int64_t origin, int64_t stride,
            int64_t size) {
  const auto inside = [&](int64_t i) {
    const int64_t place = origin + i * stride;
    return place >= 0 && place < size;
  };
  return first + count <= all && inside(first) && inside(first + count - 1) &&
         (first == 0 || !inside(first - 1)) && (first + count == all || !inside(first + count));
}

// `plane` axes: width, height, then what lies outside; offsets are found by their first element.
std::optional<Windows> read(const Node& move, Windows windows, const std::vector<Axis>& axes,
                            const std::vector<int64_t>& outer_steps, int64_t offset_step) {
  const int64_t count = windows.kernel_height * windows.kernel_width;
  if (static_cast<int64_t>(move.regions.size()) != count) return std::nullopt;
  int64_t step_x = 0, step_y = 0;
  windows.origins.resize(static_cast<size_t>(count));
  struct First {
    int64_t y, x, rows, columns, from;
  };
  std::vector<First> firsts;
  std::vector<Extent> extents;
  for (int64_t number = 0; number < count; ++number) {
    const graph::Region& region = move.regions[static_cast<size_t>(number)];
    const int64_t to = region.to - number * offset_step;
    if (to < 0 || to >= windows.out_height * windows.out_width) return std::nullopt;
    if (!read_region(region, axes, extents)) return std::nullopt;
    for (size_t a = 2; a < axes.size(); ++a) {
      if (extents[a].count != axes[a].size) return std::nullopt;
      if (extents[a].count > 1 && extents[a].from_step != outer_steps[a - 2]) return std::nullopt;
    }
    for (const auto& [extent, step] : {std::pair{extents[0], &step_x}, {extents[1], &step_y}}) {
      if (extent.count == 1) continue;
      if (*step != 0 && *step != extent.from_step) return std::nullopt;
      *step = extent.from_step;
    }
    firsts.push_back({to / windows.out_width, to % windows.out_width, extents[1].count,
                      extents[0].count, region.from});
  }
  windows.stride_x = step_x == 0 ? 1 : step_x;
  if (step_y % windows.width != 0) return std::nullopt;
  windows.stride_y = step_y == 0 ? 1 : step_y / windows.width;
  for (size_t i = 0; i < firsts.size(); ++i) {
    windows.origins[i] = {firsts[i].from / windows.width - firsts[i].y * windows.stride_y,
                          firsts[i].from % windows.width - firsts[i].x * windows.stride_x};
    // What is not copied lies outside of the image, and nothing else does.
    const bool whole = covers(firsts[i].y, firsts[i].rows, windows.out_height, windows.origins[i].y,
                              windows.stride_y, windows.height) &&
                       covers(firsts[i].x, firsts[i].columns, windows.out_width,
                              windows.origins[i].x, windows.stride_x, windows.width);
    if (!whole) return std::nullopt;
  }
  // Rows of the window are equally far apart, and so are its columns.
  for (int64_t y = 0; y < windows.kernel_height; ++y) {
    for (int64_t x = 0; x < windows.kernel_width; ++x) {
      const Windows::Origin& here =
          windows.origins[static_cast<size_t>(y * windows.kernel_width + x)];
      if (here.x != windows.origins[static_cast<size_t>(x)].x ||
          here.y != windows.origins[static_cast<size_t>(y * windows.kernel_width)].y) {
        return std::nullopt;
      }
    }
  }
  return windows;
}

Value root_of(const graph::Graph& graph, Value value) {
  while (graph::renames(node_of(graph, value), graph)) value = node_of(graph, value).operands[0];
  return value;
}

}  // namespace

int64_t Windows::top() const {
  int64_t least = INT64_MAX;
  for (const Origin& origin : origins) least = std::min(least, origin.y);
  return least;
}
int64_t Windows::left() const {
  int64_t least = INT64_MAX;
  for (const Origin& origin : origins) least = std::min(least, origin.x);
  return least;
}
int64_t Windows::bottom() const {
  int64_t most = INT64_MIN;
  for (const Origin& origin : origins) most = std::max(most, origin.y);
  return most + (out_height - 1) * stride_y + 1;
}
int64_t Windows::right() const {
  int64_t most = INT64_MIN;
  for (const Origin& origin : origins) most = std::max(most, origin.x);
  return most + (out_width - 1) * stride_x + 1;
}

std::optional<Windows> columns_of(const graph::Graph& graph, Value value) {
  const Node& move = node_of(graph, root_of(graph, value));
  if (move.kind != graph::Kind::kMove || move.operands.size() != 1) return std::nullopt;
  const graph::Shape& to = move.shape;
  const graph::Shape& from = node_of(graph, move.operands[0]).shape;
  const bool plane = to.size() == 7 && from.size() == 4;
  const bool line = to.size() == 5 && from.size() == 3;
  if ((!plane && !line) || to[1] != 1 || to[0] != from[0]) return std::nullopt;
  Windows w;
  w.source = move.operands[0];
  w.images = from[0];
  w.channels = from[1];
  w.height = plane ? from[2] : 1;
  w.width = from.back();
  w.kernel_height = plane ? to[2] : 1;
  w.kernel_width = plane ? to[3] : to[2];
  if (to[plane ? 4 : 3] != w.channels) return std::nullopt;
  w.out_height = plane ? to[5] : 1;
  w.out_width = to.back();
  w.fill = move.fill;
  const int64_t pixels = w.out_height * w.out_width;
  const int64_t offsets = w.kernel_height * w.kernel_width;
  return read(move, w,
              {{w.out_width, 1},
               {w.out_height, w.out_width},
               {w.channels, pixels},
               {w.images, offsets * w.channels * pixels}},
              {w.height * w.width, w.channels * w.height * w.width}, w.channels * pixels);
}

std::optional<Windows> pool_of(const graph::Graph& graph, Value value) {
  const Node& move = node_of(graph, root_of(graph, value));
  if (move.kind != graph::Kind::kMove || move.operands.size() != 1) return std::nullopt;
  const graph::Shape& to = move.shape;
  const graph::Shape& from = node_of(graph, move.operands[0]).shape;
  const bool plane = to.size() == 5 && from.size() == 3;
  const bool line = to.size() == 3 && from.size() == 2;
  if ((!plane && !line) || to[0] != from[0]) return std::nullopt;
  Windows w;
  w.source = move.operands[0];
  w.channels = from[0];
  w.height = plane ? from[1] : 1;
  w.width = from.back();
  w.kernel_height = plane ? to[1] : 1;
  w.kernel_width = plane ? to[2] : to[1];
  w.out_height = plane ? to[3] : 1;
  w.out_width = to.back();
  w.fill = move.fill;
  const int64_t pixels = w.out_height * w.out_width;
  const int64_t offsets = w.kernel_height * w.kernel_width;
  return read(move, w,
              {{w.out_width, 1}, {w.out_height, w.out_width}, {w.channels, offsets * pixels}},
              {w.height * w.width}, pixels);
}

std::vector<DepthPart> depth_parts(const graph::Graph& graph, const Node& product) {
  const Chunk chunk = chunk_of(graph, product);
  const int64_t whole = chunk.depth == 0 ? product.depth : chunk.depth;
  std::vector<DepthPart> list;
  for (int64_t first = 0; first < product.depth; first += whole) {
    const int64_t end = std::min(first + whole, product.depth);
    for (int64_t k = first; k < end; k += kWindowDeep) {
      list.push_back({k, std::min(kWindowDeep, end - k)});
    }
  }
  return list;
}

Chunk chunk_of(const graph::Graph& graph, const Node& product) {
  if (!graph::is_real(product.type)) return {};
  const auto windows = columns_of(graph, product.operands[1]);
  if (!windows ||
      windows->channels * static_cast<int64_t>(windows->origins.size()) != product.depth) {
    return {};
  }
  if (windows->origins.size() == 1 || windows->channels % kFewChannels == 0) return {};
  const int64_t row = windows->kernel_width * windows->channels;
  // A line with more elements than there are partitions is cut, if all windows are lines.
  bool even = windows->kernel_height == 1 && windows->kernel_width > 1;
  for (size_t i = 2; even && i < windows->origins.size(); ++i) {
    even = windows->origins[i].x - windows->origins[i - 1].x ==
           windows->origins[1].x - windows->origins[0].x;
  }
  if (windows->channels < kFewChannels && row > kWindowDeep && even) {
    return {kWindowDeep / windows->channels * windows->channels, 1};
  }
  if (windows->channels >= kFewChannels || row > kWindowDeep) return {windows->channels, 0};
  // Rows that one stride skips lie beside one another.
  const bool dense =
      windows->kernel_height > 1 &&
      windows->origins[static_cast<size_t>(windows->kernel_width)].y == windows->origins[0].y + 1;
  const int64_t rows = dense && windows->stride_y <= kWindowDeep / row ? windows->stride_y : 1;
  return {row * rows, rows};
}

}  // namespace neuron::lowering
