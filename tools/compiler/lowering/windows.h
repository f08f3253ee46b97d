// SPDX-License-Identifier: Apache-2.0
//
// Moves that lay out the windows of images, as convolutions and pools need them: their readers see
// the image itself, shifted, and nobody writes the windows.
// Callers: lower(), products, reductions. Thread-safe: no state. Cannot fail: what has another form
// is no windows, and is moved.
#ifndef TOOLS_COMPILER_LOWERING_WINDOWS_H
#define TOOLS_COMPILER_LOWERING_WINDOWS_H

#include <optional>
#include <vector>

#include "tools/compiler/graph/graph.h"

namespace neuron::lowering {

struct Windows {
  graph::Value source = graph::kNone;  // [images, channels, height, width]
  int64_t images = 1, channels = 1, height = 1, width = 1;
  int64_t kernel_height = 1, kernel_width = 1, out_height = 1, out_width = 1;
  int64_t stride_y = 1, stride_x = 1;
  double fill = 0;
  // Of each element of the window, in order: where the first window has it. It may lie outside.
  struct Origin {
    int64_t y = 0, x = 0;
  };
  std::vector<Origin> origins;

  // The part of the plane that windows reach.
  int64_t top() const;
  int64_t left() const;
  int64_t bottom() const;  // the row behind the last one
  int64_t right() const;
  bool inside() const {
    return top() >= 0 && left() >= 0 && bottom() <= height && right() <= width;
  }
};

// The value (or what it renames) as [images, offsets, channels, windows], as a convolution reads
// it.
std::optional<Windows> columns_of(const graph::Graph& graph, graph::Value value);
// As [channels, offsets, windows], as a pool reads it.
std::optional<Windows> pool_of(const graph::Graph& graph, graph::Value value);

// How many elements of K a product sums before its sum is rounded again in the order of the chip's
// 32-deep steps; 0: all of them. Convolutions of few channels, whose offsets do not begin at such
// steps, sum parts of windows for themselves, in every plan alike.
struct Chunk {
  int64_t depth = 0;
  int64_t kernel_rows = 0;  // of the window in a chunk; 0: one offset
};
Chunk chunk_of(const graph::Graph& graph, const graph::Node& product);

// Parts of K in order, each of at most 128, which no chunk's end cuts.
struct DepthPart {
  int64_t first = 0, count = 0;
};
std::vector<DepthPart> depth_parts(const graph::Graph& graph, const graph::Node& product);

}  // namespace neuron::lowering

#endif
