// SPDX-License-Identifier: Apache-2.0
// Convolutions as sums of products: each offset of the window is the image, shifted, as PE's moving
// operand. Nobody writes the windows. Images of few channels have the rows of a window side by side
// on partitions; a long row is cut, and its parts see the same image, shifted.
#include <algorithm>
#include <array>

#include "tools/compiler/lowering/layout_group.h"
#include "tools/compiler/lowering/product.h"
#include "tools/compiler/lowering/weights.h"

namespace neuron::lowering {
namespace {

constexpr int64_t kFilterDeep = NEURON_PARTITIONS;
constexpr int64_t kFilterHigh = NEURON_PE_MAX_M;
constexpr int64_t kFilterWide = NEURON_PE_MAX_N;
constexpr size_t kBanks = 8;
constexpr int64_t kAtOnce = 4;  // blocks of rows whose sums grow together
// Columns of weights that stay for all pixels, and of a padded image.
constexpr int64_t kKeptColumns = 32 * 1024 / 4;
constexpr int64_t kImageColumns = 24 * 1024 / 4;
// With more, each has too little work.
constexpr int64_t kMostImages = 8;

using Shared = std::shared_ptr<const Tile>;

class Convolution {
 public:
  Convolution(Workspace& work, Value value, const Windows& windows, const ProductExit& exit)
      : work_(work),
        node_(work.node(value)),
        value_(value),
        w_(windows),
        chunk_(chunk_of(work.graph, node_)),
        exit_(exit) {}

  // False if there is no room; nothing is emitted then.
  bool prepare();
  void emit();

 private:
  // A part of K: of the weights, and where its image lies.
  struct Part {
    int64_t k = 0;
    uint32_t depth = 0;
    int64_t tile = 0;
    int64_t row = 0, column = 0;  // of the stored image, for the first output of a band
  };
  // Rows of the result that are computed from one piece of the image.
  struct Band {
    int64_t first = 0, count = 0;
    Resident image;
    int64_t origin = 0;  // column of the stored image's first element
  };

  bool packed() const { return chunk_.kernel_rows > 0 && chunk_.depth > 0; }
  int64_t dilation() const {
    return w_.kernel_height > 1
               ? w_.origins[static_cast<size_t>(w_.kernel_width)].y - w_.origins[0].y
               : 1;
  }
  // Columns between neighbours in a window.
  int64_t across() const { return w_.kernel_width > 1 ? w_.origins[1].x - w_.origins[0].x : 1; }
  int64_t stored_rows(int64_t outputs) const;
  bool load_image(int64_t image, Band& band);
  void pad(const Band& band, int64_t image);
  void pack(const Band& band, int64_t image);
  TileAccess moving(const Band& band, const Part& part, int64_t y, int64_t x, uint32_t rows,
                    uint32_t columns) const;
  void columns_of_weights(int64_t image, const Band& band, int64_t first, int64_t columns);
  void leave(const Tile& bank, int64_t image, int64_t row, int64_t pixel, uint32_t pixels);
  Tile bank() { return banks_[next_bank_++ % banks_.size()]; }

  Workspace& work_;
  const Node& node_;
  const Value value_;
  const Windows w_;
  const Chunk chunk_;
  const ProductExit exit_;
  std::vector<Part> parts_;
  Resident source_, result_;
  bool direct_ = false;
  int64_t row_step_ = 1;  // image rows between stored ones
  int64_t pitch_ = 0, band_rows_ = 0;
  int64_t step_ = 0;  // columns of weights at once
  Buffer source_place_, place_;
  std::optional<Weights> weights_;
  std::optional<LayoutGroup> group_;
  std::vector<Tile> banks_, results_;
  size_t next_bank_ = 0, next_result_ = 0;
};

int64_t Convolution::stored_rows(int64_t outputs) const {
  const int64_t span = w_.bottom() - w_.top() - (w_.out_height - 1) * w_.stride_y;
  if (!packed()) return (outputs - 1) * w_.stride_y + span;
  const int64_t groups = (w_.kernel_height + chunk_.kernel_rows - 1) / chunk_.kernel_rows;
  return ((outputs - 1) * w_.stride_y + (groups - 1) * chunk_.kernel_rows * dilation()) /
             row_step_ +
         1;
}

bool Convolution::prepare() {
  if (w_.images > kMostImages || w_.fill != 0) return false;
  const Layout layout{w_.images, w_.channels, w_.height * w_.width};
  if (packed()) {
    row_step_ = chunk_.kernel_rows > 1 ? w_.stride_y : 1;
    source_place_ = work_.place(w_.source);
    const int64_t row = w_.kernel_width * w_.channels;
    for (int64_t ky = 0; ky < w_.kernel_height; ky += chunk_.kernel_rows) {
      const int64_t deep = std::min(chunk_.kernel_rows, w_.kernel_height - ky) * row;
      for (int64_t k = 0; k < deep; k += chunk_.depth) {
        parts_.push_back({ky * row + k, static_cast<uint32_t>(std::min(chunk_.depth, deep - k)), 0,
                          ky * dilation() / row_step_, k / w_.channels * across()});
      }
    }
    pitch_ = (w_.out_width - 1) * w_.stride_x + 1 + parts_.back().column;
  } else {
    source_ = work_.residents.load(w_.source, layout);
    direct_ = w_.inside() && source_.present();
    if (!source_.present()) source_place_ = work_.place(w_.source);
    pitch_ = direct_ ? w_.width : w_.right() - w_.left();
    const int64_t top = direct_ ? 0 : w_.top(), left = direct_ ? 0 : w_.left();
    for (size_t offset = 0; offset < w_.origins.size(); ++offset) {
      for (int64_t c = 0; c < w_.channels; c += kFilterDeep) {
        parts_.push_back({static_cast<int64_t>(offset) * w_.channels + c,
                          static_cast<uint32_t>(std::min(kFilterDeep, w_.channels - c)),
                          c / kFilterDeep, w_.origins[offset].y - top,
                          w_.origins[offset].x - left});
      }
    }
  }
  // Operands have 16-bit steps.
  if (pitch_ * w_.stride_y > INT16_MAX) return false;
  const int64_t tiles = packed() ? 1 : layout.tiles();
  band_rows_ = w_.out_height;
  while (!direct_ && band_rows_ > 1 && stored_rows(band_rows_) * pitch_ * tiles > kImageColumns) {
    band_rows_ = (band_rows_ + 1) / 2;
  }
  if (!direct_ && stored_rows(band_rows_) * pitch_ * tiles > kImageColumns) return false;
  // Weights of as many rows of the result as leave room for all of K.
  const auto deep = static_cast<int64_t>(parts_.size());
  const int64_t most = std::clamp(kKeptColumns / deep / kFilterHigh * kFilterHigh, kFilterHigh,
                                  kAtOnce * kFilterHigh);
  const bool one = w_.out_height * w_.out_width <= kFilterWide;
  step_ = one ? kAtOnce * kFilterHigh : most;
  std::vector<DepthPart> depths;
  for (const Part& part : parts_) depths.push_back({part.k, part.depth});
  weights_.emplace(work_, node_.operands[0], std::move(depths), node_.rows, step_);
  const Layout result{node_.batch, node_.rows, node_.columns};
  if (exit_.group.members.empty()) {
    result_ = work_.residents.allocate(value_, result);
    if (!result_.present()) place_ = work_.make_place(value_);
  } else {
    group_.emplace(work_, exit_.group, result, exit_.given);
  }
  return work_.program.ok();
}

bool Convolution::load_image(int64_t image, Band& band) {
  if (direct_) {
    band.image = source_;
    band.origin = image * w_.height * w_.width + band.first * w_.stride_y * w_.width;
    return true;
  }
  const int64_t lanes = packed() ? static_cast<int64_t>(parts_[0].depth) : w_.channels;
  band.image.layout = {1, lanes, stored_rows(band.count) * pitch_};
  // One piece for all tiles: several would leave gaps that no group of weights fits.
  const auto columns = static_cast<uint32_t>(band.image.layout.inner);
  const int64_t tiles = band.image.layout.tiles();
  const Shared room = work_.stream(static_cast<uint32_t>(tiles) * columns);
  if (!room) return false;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    auto some = std::make_unique<Tile>(*room);
    some->base += static_cast<uint32_t>(tile) * columns * 4;
    some->columns = columns;
    band.image.tiles.emplace_back(some.release(), [room](const Tile* held) { delete held; });
  }
  packed() ? pack(band, image) : pad(band, image);
  return true;
}

// The image with a border of zeros.
void Convolution::pad(const Band& band, int64_t image) {
  const int64_t first = w_.top() + band.first * w_.stride_y, count = stored_rows(band.count);
  const int64_t begin = std::max<int64_t>(first, 0), end = std::min(first + count, w_.height);
  const int64_t left = std::max<int64_t>(w_.left(), 0), right = std::min(w_.right(), w_.width);
  const int64_t rows = end - begin, columns = right - left;
  const auto size = [](int64_t n) { return static_cast<uint32_t>(n); };
  const Layout& layout = band.image.layout;
  for (int64_t t = 0; t < layout.tiles(); ++t) {
    const Tile& tile = *band.image.tiles[static_cast<size_t>(t)];
    const uint32_t parts = layout.parts(t);
    const auto zero = [&](int64_t column, int64_t across, int64_t down) {
      if (across <= 0 || down <= 0) return;
      work_.program.memset(Engine::kPool,
                           tile.pattern(0, parts, size(column), {size(across), size(down)},
                                        {1, static_cast<int32_t>(pitch_)}),
                           0);
    };
    if (rows <= 0 || columns <= 0) {
      zero(0, pitch_, count);
      continue;
    }
    zero(0, pitch_, begin - first);
    zero((end - first) * pitch_, pitch_, first + count - end);
    zero((begin - first) * pitch_, left - w_.left(), rows);
    zero((begin - first) * pitch_ + right - w_.left(), w_.right() - right, rows);
    const auto inside = [&](int64_t row, int64_t count) {
      return tile.pattern(0, parts, size((row - first) * pitch_ + left - w_.left()),
                          {size(columns), size(count)}, {1, static_cast<int32_t>(pitch_)});
    };
    if (source_.present()) {
      // PE begins when the first rows are there.
      const int64_t some = std::max<int64_t>(1, kFilterWide / columns);
      for (int64_t row = begin; row < end; row += some) {
        const int64_t count = std::min(some, end - row);
        work_.copy(inside(row, count),
                   source_.tiles[static_cast<size_t>(t)]->pattern(
                       0, parts, size(image * w_.height * w_.width + row * w_.width + left),
                       {size(columns), size(count)}, {1, static_cast<int32_t>(w_.width)}));
      }
      continue;
    }
    BufferAccess from;
    from.buffer = source_place_.index;
    from.dtype = source_place_.dtype;
    from.offset =
        static_cast<uint64_t>(
            ((image * w_.channels + t * kFilterDeep) * w_.height + begin) * w_.width + left) *
        4;
    from.ndim = 3;
    from.size = {size(columns) * uint64_t{4}, size(rows), parts, 1};
    from.step = {1, w_.width * 4, w_.height * w_.width * 4, 0};
    work_.load(inside(begin, rows), from);
  }
}

// Partition (p, kx, c) has the rows p, p + row_step ... of channel c, shifted by kx.
void Convolution::pack(const Band& band, int64_t image) {
  const Tile& tile = *band.image.tiles[0];
  const int64_t count = stored_rows(band.count);
  const auto size = [](int64_t n) { return static_cast<uint32_t>(n); };
  work_.program.memset(Engine::kPool, tile.at(0, parts_[0].depth, 0, size(count * pitch_)), 0);
  const int64_t lanes = std::min(w_.kernel_width, parts_[0].depth / w_.channels);
  for (int64_t p = 0; p < chunk_.kernel_rows && p < w_.kernel_height; ++p) {
    // Stored row y is row first + y * row_step of the image.
    const int64_t first = w_.origins[0].y + p * dilation() + band.first * w_.stride_y;
    const int64_t begin = first >= 0 ? 0 : (-first + row_step_ - 1) / row_step_;
    const int64_t end = std::min(count, (w_.height - first + row_step_ - 1) / row_step_);
    const auto left_of = [&](int64_t kx) {
      return std::max<int64_t>(0, -w_.origins[static_cast<size_t>(kx)].x);
    };
    const auto right_of = [&](int64_t kx) {
      return std::min(pitch_, w_.width - w_.origins[static_cast<size_t>(kx)].x);
    };
    int64_t alike = 1;  // neighbours that no border cuts differently: one transfer
    for (int64_t kx = 0; kx < lanes; kx += alike) {
      const int64_t x = w_.origins[static_cast<size_t>(kx)].x;
      const int64_t left = left_of(kx), right = right_of(kx);
      for (alike = 1;
           kx + alike < lanes && left_of(kx + alike) == left && right_of(kx + alike) == right;) {
        ++alike;
      }
      if (end <= begin || right <= left) continue;
      const TileAccess to =
          tile.pattern(size((p * w_.kernel_width + kx) * w_.channels), size(alike * w_.channels),
                       size(begin * pitch_ + left), {size(right - left), size(end - begin)},
                       {1, static_cast<int32_t>(pitch_)});
      BufferAccess from;
      from.buffer = source_place_.index;
      from.dtype = source_place_.dtype;
      from.offset =
          static_cast<uint64_t>(
              (image * w_.channels * w_.height + first + begin * row_step_) * w_.width + x + left) *
          4;
      from.ndim = 4;
      from.size = {size(right - left) * uint64_t{4}, size(end - begin), size(w_.channels),
                   size(alike)};
      from.step = {1, row_step_ * w_.width * 4, w_.height * w_.width * 4, across() * 4};
      work_.load(to, from);
    }
  }
}

TileAccess Convolution::moving(const Band& band, const Part& part, int64_t y, int64_t x,
                               uint32_t rows, uint32_t columns) const {
  const Tile& tile = *band.image.tiles[static_cast<size_t>(part.tile)];
  const int64_t step = w_.stride_y / row_step_;
  const int64_t first =
      band.origin + (part.row + y * step) * pitch_ + part.column + x * w_.stride_x;
  return tile.pattern(0, part.depth, static_cast<uint32_t>(first), {columns, rows},
                      {static_cast<int32_t>(w_.stride_x), static_cast<int32_t>(step * pitch_)});
}

void Convolution::leave(const Tile& bank, int64_t image, int64_t row, int64_t pixel,
                        uint32_t pixels) {
  const auto rows = static_cast<uint32_t>(std::min(kFilterHigh, node_.rows - row));
  const TileAccess sum = bank.at(0, rows, 0, pixels);
  if (group_) return group_->piece({row / kFilterHigh, image, pixel, 1, pixels}, sum);
  const TileAccess to = result_.present()
                            ? result_.at(row / kFilterHigh, image, 1, pixel, pixels)
                            : results_[next_result_++ % results_.size()].at(0, rows, 0, pixels);
  leave_sums(work_, node_, {image, row, pixel, rows, pixels}, sum, to, next_bank_, place_);
}

// The sums of some columns of the weights with all pixels of the band.
void Convolution::columns_of_weights(int64_t image, const Band& band, int64_t first,
                                     int64_t columns) {
  const int64_t high = std::clamp<int64_t>(kFilterWide / w_.out_width, 1, band.count);
  const int64_t wide = std::min(kFilterWide, w_.out_width);
  const bool once = high >= band.count && wide == w_.out_width;
  const bool keeps = !once && static_cast<int64_t>(parts_.size()) * columns <= kKeptColumns;
  if (keeps) weights_->begin(image, first, true);
  for (int64_t y = 0; y < band.count; y += high) {
    for (int64_t x = 0; x < w_.out_width; x += wide) {
      const auto rows = static_cast<uint32_t>(std::min(high, band.count - y));
      const auto width = static_cast<uint32_t>(std::min(wide, w_.out_width - x));
      const int64_t blocks = (columns + kFilterHigh - 1) / kFilterHigh;
      std::array<Tile, kAtOnce> sums;
      for (int64_t b = 0; b < blocks; ++b) sums[static_cast<size_t>(b)] = bank();
      const auto sum = [&](int64_t b, size_t p, const TileAccess& all) {
        if (!all.present()) return;
        TileAccess left = all;
        left.base += static_cast<uint32_t>(b * kFilterHigh * 4);
        left.size[0] = static_cast<uint32_t>(std::min(kFilterHigh, columns - b * kFilterHigh));
        work_.program.matmul(sums[static_cast<size_t>(b)].at(0, left.size[0], 0, rows * width),
                             left, moving(band, parts_[p], y, x, rows, width), p != 0);
      };
      if (keeps) {
        for (int64_t b = 0; b < blocks; ++b) {
          for (size_t p = 0; p < parts_.size(); ++p) sum(b, p, weights_->part(p));
        }
      } else {
        weights_->begin(image, first, false);
        for (size_t p = 0; p < parts_.size(); ++p) {
          const TileAccess all = weights_->part(p);
          for (int64_t b = 0; b < blocks; ++b) sum(b, p, all);
        }
      }
      for (int64_t b = 0; b < blocks; ++b) {
        leave(sums[static_cast<size_t>(b)], image, first + b * kFilterHigh,
              (band.first + y) * w_.out_width + x, rows * width);
      }
    }
  }
}

void Convolution::emit() {
  work_.trim();
  work_.reserve_stream();
  work_.program.section(node_.origin);
  for (size_t i = 0; i < kBanks; ++i) {
    banks_.push_back(work_.program.psum("sum", kFilterHigh, kFilterWide));
  }
  if (!result_.present() && !group_) {
    for (int i = 0; i < 4; ++i) {
      results_.push_back(work_.program.sbuf("result", kFilterHigh, kFilterWide, NEURON_DTYPE_F32));
    }
  }
  for (int64_t image = 0; image < w_.images && work_.program.ok(); ++image) {
    for (int64_t first = 0; first < w_.out_height; first += band_rows_) {
      Band band{first, std::min(band_rows_, w_.out_height - first), {}, 0};
      if (!load_image(image, band)) {
        break;
      }
      for (int64_t column = 0; column < node_.rows; column += step_) {
        columns_of_weights(image, band, column, std::min(step_, node_.rows - column));
      }
    }
  }
  for (const auto* ring : {&banks_, &results_}) {
    for (const Tile& tile : *ring) work_.program.release(tile);
  }
}

}  // namespace

bool emit_convolution(Workspace& work, Value value, const ProductExit& exit) {
  const Node& node = work.node(value);
  if (!node.turned || !work.program.ok()) return false;
  auto windows = columns_of(work.graph, node.operands[1]);
  if (!windows) {
    // Windows of one element are the image itself, as one line.
    windows = Windows{.source = node.operands[1],
                      .images = node.batch,
                      .channels = node.depth,
                      .width = node.columns,
                      .out_width = node.columns,
                      .origins = {{0, 0}}};
  }
  if (node.batch != windows->images ||
      node.depth != windows->channels * static_cast<int64_t>(windows->origins.size())) {
    return false;
  }
  Convolution convolution(work, value, *windows, exit);
  if (!convolution.prepare()) return false;
  convolution.emit();
  return true;
}

}  // namespace neuron::lowering
