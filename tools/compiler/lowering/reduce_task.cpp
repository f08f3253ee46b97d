// SPDX-License-Identifier: Apache-2.0
// Reductions: rows on partitions, the folded dimension in the free one. DVE folds real numbers in
// ascending order; Pool folds whole numbers by halves, because only it adds them exactly.
#include <algorithm>
#include <bit>

#include "tools/compiler/lowering/alu.h"
#include "tools/compiler/lowering/functions.h"
#include "tools/compiler/lowering/lanes.h"
#include "tools/compiler/lowering/tasks.h"
#include "tools/compiler/lowering/windows.h"

namespace neuron::lowering {
namespace {

using graph::Function;

constexpr int64_t kElements = 4096;  // of a partition in one piece
constexpr int64_t kFewRows = 16;     // leave most lanes idle

class Reduce {
 public:
  Reduce(Workspace& work, Value value) : work_(work), node_(work.node(value)) {
    from_ = work.place(node_.operands[0]);
    to_ = work.make_place(value);
    real_ = graph::is_real(node_.type);
    // The shape alone decides how the dimension is split, so results do not depend on the plan.
    columns_ = std::min<int64_t>(node_.columns, Workspace::kWidth);
    depth_ = std::min<int64_t>(node_.depth, std::max<int64_t>(1, kElements / columns_));
  }

  void emit();

 private:
  void piece(int64_t row, uint32_t rows, int64_t column);
  void fold(const TileAccess& to, const Tile& data, uint32_t rows, uint32_t depth,
            uint32_t columns);

  Workspace& work_;
  const Node& node_;
  Buffer from_, to_;
  bool real_ = false;
  int64_t columns_ = 1, depth_ = 1;
  std::vector<Tile> data_;
  size_t next_ = 0;
};

// data is [rows, depth, columns]; whole numbers are folded in place.
void Reduce::fold(const TileAccess& to, const Tile& data, uint32_t rows, uint32_t depth,
                  uint32_t columns) {
  const uint8_t op = alu_of(node_.function);
  if (real_) {
    const auto step = static_cast<int32_t>(columns);
    work_.program.tensor_reduce(to, op, data.pattern(0, rows, 0, {depth, columns}, {step, 1}), 1);
    return;
  }
  while (depth > 1) {
    const uint32_t half = depth / 2;
    const TileAccess low = data.at(0, rows, 0, half * columns);
    const TileAccess high = data.at(0, rows, (depth - half) * columns, half * columns);
    work_.program.tensor_tensor(Engine::kPool, low, low, op, high);
    depth -= half;
  }
  work_.program.tensor_copy(Engine::kDve, to, data.at(0, rows, 0, columns));
}

void Reduce::piece(int64_t row, uint32_t rows, int64_t column) {
  const auto columns = static_cast<uint32_t>(std::min(columns_, node_.columns - column));
  Lanes lanes(work_, rows, columns);
  const uint8_t dtype = real_ ? uint8_t{NEURON_DTYPE_F32} : order_dtype(node_.type);
  Lane total;
  for (int64_t k = 0; k < node_.depth && work_.program.ok(); k += depth_) {
    const auto depth = static_cast<uint32_t>(std::min(depth_, node_.depth - k));
    const Tile data = data_[next_++ % data_.size()].as(from_.dtype);
    BufferAccess access;
    access.buffer = from_.index;
    access.dtype = from_.dtype;
    access.offset = static_cast<uint64_t>((row * node_.depth + k) * node_.columns + column) * 4;
    access.ndim = 3;
    access.size = {uint64_t{columns} * 4, depth, rows, 1};
    access.step = {1, node_.columns * 4, node_.depth * node_.columns * 4, 0};
    if (columns == node_.columns) {
      // Whole rows lie behind one another: one run of bytes a partition.
      access.ndim = 2;
      access.size = {uint64_t{columns} * 4 * depth, rows, 1, 1};
      access.step = {1, node_.depth * node_.columns * 4, 0, 0};
    }
    work_.load(data.at(0, rows, 0, depth * columns), access);
    const Lane part = lanes.fresh(dtype);
    fold(lanes.access(part), data.as(dtype), rows, depth, columns);
    const uint8_t op = alu_of(node_.function);
    if (k == 0) {
      total = part;
    } else {
      total = real_ ? lanes.with(op, total, part) : lanes.whole(op, total, part);
    }
  }
  total = wrapped(lanes, node_.type, total.as(from_.dtype));
  BufferAccess access =
      Workspace::rows(to_, static_cast<uint64_t>(row * node_.columns + column), rows, columns);
  access.step[1] = node_.columns * 4;
  work_.store(access, lanes.access(total));
}

void Reduce::emit() {
  work_.trim();
  work_.trim_stream();
  work_.program.section(node_.origin);
  const auto width = static_cast<uint32_t>(depth_ * columns_);
  for (int i = 0; i < (work_.resident() ? 2 : 3); ++i) {
    data_.push_back(work_.program.sbuf("folded", NEURON_PARTITIONS, width, NEURON_DTYPE_F32));
  }
  for (int64_t row = 0; row < node_.rows && work_.program.ok(); row += NEURON_PARTITIONS) {
    const auto rows = static_cast<uint32_t>(std::min<int64_t>(NEURON_PARTITIONS, node_.rows - row));
    for (int64_t column = 0; column < node_.columns; column += columns_) piece(row, rows, column);
  }
  for (const Tile& tile : data_) work_.program.release(tile);
}

// A pool: the largest or smallest element of each window of an image that stays in SBUF. Which
// element comes first does not matter for these.
bool emit_resident_pool(Workspace& work, Value value) {
  const Node& node = work.node(value);
  const bool extreme = node.function == Function::kMaximum || node.function == Function::kMinimum;
  const auto windows = pool_of(work.graph, node.operands[0]);
  if (!windows || !extreme || !graph::is_real(node.type)) return false;
  const Windows& w = *windows;
  if (node.rows != w.channels || node.columns != w.out_height * w.out_width) return false;
  const Layout plane{1, w.channels, w.height * w.width};
  const int64_t pitch = w.inside() ? w.width : w.right() - w.left();
  if (pitch * std::max(w.stride_y, w.kernel_height) > INT16_MAX) return false;
  // Images of a batch lie behind one another, so only one is seen.
  const Resident source = work.residents.load(w.source, plane);
  if (!source.present()) return false;
  const auto size = [](int64_t n) { return static_cast<uint32_t>(n); };
  const auto step = [](int64_t n) { return static_cast<int32_t>(n); };
  const int64_t dy =
      w.kernel_height > 1 ? w.origins[static_cast<size_t>(w.kernel_width)].y - w.origins[0].y : 1;
  const int64_t dx = w.kernel_width > 1 ? w.origins[1].x - w.origins[0].x : 1;
  // Bands of rows, so that the padded image is small.
  constexpr int64_t kBand = 24 * 1024 / 4;
  const auto stored = [&](int64_t rows) {
    return (rows - 1) * w.stride_y + (w.kernel_height - 1) * dy + 1;
  };
  int64_t high = w.out_height;
  while (!w.inside() && high > 1 && stored(high) * pitch > kBand) high = (high + 1) / 2;
  if (!w.inside() && stored(high) * pitch > 2 * kBand) return false;
  const Resident result = work.residents.allocate(value, {1, w.channels, node.columns});
  if (!result.present()) return false;
  work.trim();
  work.reserve_stream();
  work.program.section(node.origin);
  for (int64_t t = 0; t < plane.tiles(); ++t) {
    const uint32_t parts = plane.parts(t);
    for (int64_t y = 0; y < w.out_height; y += high) {
      const int64_t rows = std::min(high, w.out_height - y);
      const Tile* image = source.tiles[static_cast<size_t>(t)].get();
      std::shared_ptr<const Tile> padded;
      int64_t top = 0, left = 0;
      if (!w.inside()) {
        const int64_t count = stored(rows);
        padded = work.stream(size(count * pitch));
        if (!padded) return true;  // the program has the error
        top = w.top() + y * w.stride_y;
        left = w.left();
        work.program.memset(Engine::kPool, padded->at(0, parts, 0, size(count * pitch)),
                            std::bit_cast<uint32_t>(static_cast<float>(w.fill)));
        const int64_t begin = std::max<int64_t>(0, top), end = std::min(top + count, w.height);
        const int64_t x = std::max<int64_t>(0, left), last = std::min(w.right(), w.width);
        if (end > begin && last > x) {
          work.program.activate(
              padded->pattern(0, parts, size((begin - top) * pitch + x - left),
                              {size(last - x), size(end - begin)}, {1, step(pitch)}),
              NEURON_ACT_COPY,
              image->pattern(0, parts, size(begin * w.width + x),
                             {size(last - x), size(end - begin)}, {1, step(w.width)}));
        }
        image = padded.get();
      }
      const auto first =
          size((w.origins[0].y + y * w.stride_y - top) * pitch + w.origins[0].x - left);
      const TileAccess data = image->pattern(
          0, parts, first,
          {size(w.kernel_width), size(w.kernel_height), size(w.out_width), size(rows)},
          {step(dx), step(dy * pitch), step(w.stride_x), step(w.stride_y * pitch)});
      work.program.tensor_reduce(result.at(t, 0, 1, y * w.out_width, size(rows * w.out_width)),
                                 alu_of(node.function), data, 2);
    }
  }
  return true;
}

// A value whose rows lie on partitions is folded there, in the same order.
bool emit_resident_reduce(Workspace& work, Value value) {
  const Node& node = work.node(value);
  Resident from = work.residents.find(node.operands[0]);
  if (!from.present() && node.columns == 1 && graph::is_real(node.type) && node.rows >= kFewRows) {
    from = work.residents.load(node.operands[0], {1, node.rows, node.depth});
  }
  if (!from.present() || node.columns != 1 || !graph::is_real(node.type) ||
      from.layout.inner % node.depth != 0) {
    return false;
  }
  const int64_t groups = from.layout.inner / node.depth;
  const Layout layout{from.layout.outer, from.layout.rows, groups};
  // An operand has 16-bit sizes.
  if (layout.columns() > UINT16_MAX || node.depth > UINT16_MAX) return false;
  if (node.depth > kElements && layout.columns() > Workspace::kWidth) return false;
  const Resident to = work.residents.allocate(value, layout);
  if (!to.present()) return false;
  work.program.section(node.origin);
  const uint8_t op = alu_of(node.function);
  const auto count = static_cast<uint32_t>(layout.columns());
  for (int64_t tile = 0; tile < layout.tiles(); ++tile) {
    const uint32_t parts = layout.parts(tile);
    const TileAccess total = to.at(tile, 0, 1, 0, count);
    for (int64_t k = 0; k < node.depth; k += kElements) {
      const auto depth = static_cast<uint32_t>(std::min(kElements, node.depth - k));
      const TileAccess data = from.tiles[static_cast<size_t>(tile)]->pattern(
          0, parts, static_cast<uint32_t>(k), {depth, count},
          {1, static_cast<int32_t>(node.depth)});
      if (k == 0) {
        work.program.tensor_reduce(total, op, data, 1);
        continue;
      }
      const Register part = work.lend();
      const TileAccess piece = part->at(0, parts, 0, count);
      work.program.tensor_reduce(piece, op, data, 1);
      work.program.tensor_tensor(Engine::kDve, total, total, op, piece);
    }
  }
  return true;
}

}  // namespace

void emit_reduce(Workspace& work, Value value) {
  if (!work.program.ok()) return;
  if (work.resident() && (emit_resident_pool(work, value) || emit_resident_reduce(work, value))) {
    return;
  }
  Reduce(work, value).emit();
}

}  // namespace neuron::lowering
