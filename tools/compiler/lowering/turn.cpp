// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/turn.h"

#include <algorithm>
#include <optional>

namespace neuron::lowering {
namespace {

using Dimensions = std::vector<graph::Region::Dimension>;

constexpr int64_t kBlock = NEURON_PARTITIONS;
constexpr int64_t kTurnedWide = NEURON_PE_MAX_N;
// Fewer elements, or blocks with fewer, move faster one by one.
constexpr int64_t kLeast = 4096, kLeastOfBlock = 256;
constexpr size_t kLoaded = 8, kResults = 4, kBanks = 4;

// The dimension whose elements are neighbours on this side only.
std::optional<size_t> neighbours(const Dimensions& dimensions, bool to) {
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const int64_t here = to ? dimensions[i].to_step : dimensions[i].from_step;
    const int64_t there = to ? dimensions[i].from_step : dimensions[i].to_step;
    if (dimensions[i].size > 1 && here == 1 && there != 1) return i;
  }
  return std::nullopt;
}

class Turn {
 public:
  Turn(Workspace& work, const Corner& to, const Corner& from, const graph::Region::Dimension& rows,
       const graph::Region::Dimension& columns)
      : work_(work), to_(to.buffer), from_(from.buffer), rows_(rows), columns_(columns) {
    work_.trim();
    work_.trim_stream();
    const auto tiles = [&](std::vector<Tile>& ring, size_t count, const char* name) {
      for (size_t i = 0; i < count; ++i) {
        ring.push_back(work_.program.sbuf(name, kBlock, kTurnedWide, NEURON_DTYPE_U32));
      }
    };
    tiles(loaded_, kLoaded, "rows");
    tiles(results_, kResults, "columns");
    for (size_t i = 0; i < kBanks; ++i) {
      banks_.push_back(work_.program.psum("turned", kBlock, kTurnedWide, NEURON_DTYPE_U32));
    }
  }
  ~Turn() {
    for (const auto* ring : {&loaded_, &results_, &banks_}) {
      for (const Tile& tile : *ring) work_.program.release(tile);
    }
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // One matrix: rows of the source, which are columns of the target.
  void matrix(int64_t to, int64_t from) {
    for (int64_t column = 0; column < columns_.size; column += kTurnedWide) {
      for (int64_t row = 0; row < rows_.size; row += kTurnedWide) {
        block(to + column * columns_.to_step + row, from + row * rows_.from_step + column,
              std::min(kTurnedWide, rows_.size - row),
              std::min(kTurnedWide, columns_.size - column));
      }
    }
  }

 private:
  static BufferAccess lines(const Buffer& buffer, int64_t first, int64_t count, int64_t width,
                            int64_t step) {
    BufferAccess access =
        Workspace::rows(buffer, static_cast<uint64_t>(first), static_cast<uint32_t>(count),
                        static_cast<uint32_t>(width));
    access.step[1] = step * 4;
    return access;
  }
  static Tile take(const std::vector<Tile>& ring, size_t& next) {
    return ring[next++ % ring.size()];
  }

  void block(int64_t to, int64_t from, int64_t rows, int64_t columns) {
    std::vector<Tile> loaded;
    for (int64_t row = 0; row < rows; row += kBlock) {
      const int64_t parts = std::min(kBlock, rows - row);
      loaded.push_back(take(loaded_, next_loaded_));
      work_.load(
          loaded.back().at(0, static_cast<uint32_t>(parts), 0, static_cast<uint32_t>(columns)),
          lines(from_, from + row * rows_.from_step, parts, columns, rows_.from_step));
    }
    for (int64_t column = 0; column < columns; column += kBlock) {
      const auto width = static_cast<uint32_t>(std::min(kBlock, columns - column));
      const Tile bank = take(banks_, next_bank_), result = take(results_, next_result_);
      for (int64_t row = 0; row < rows; row += kBlock) {
        const auto parts = static_cast<uint32_t>(std::min(kBlock, rows - row));
        work_.program.transpose(bank.at(0, width, static_cast<uint32_t>(row), parts),
                                loaded[static_cast<size_t>(row / kBlock)].at(
                                    0, parts, static_cast<uint32_t>(column), width));
      }
      const TileAccess whole = result.at(0, width, 0, static_cast<uint32_t>(rows));
      work_.program.tensor_copy(Engine::kDve, whole,
                                bank.at(0, width, 0, static_cast<uint32_t>(rows)));
      work_.store(lines(to_, to + column * columns_.to_step, width, rows, columns_.to_step), whole);
    }
  }

  Workspace& work_;
  const Buffer &to_, &from_;
  const graph::Region::Dimension rows_, columns_;
  std::vector<Tile> loaded_, results_, banks_;
  size_t next_loaded_ = 0, next_result_ = 0, next_bank_ = 0;
};

}  // namespace

bool emit_turn(Workspace& work, const Corner& to, const Corner& from,
               const Dimensions& dimensions) {
  const auto rows = neighbours(dimensions, true), columns = neighbours(dimensions, false);
  if (!rows || !columns) return false;
  int64_t elements = 1, matrices = 1;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    elements *= dimensions[i].size;
    if (i != *rows && i != *columns) matrices *= dimensions[i].size;
  }
  if (elements < kLeast ||
      std::min(dimensions[*rows].size, kBlock) * std::min(dimensions[*columns].size, kBlock) <
          kLeastOfBlock) {
    return false;
  }
  Turn turn(work, to, from, dimensions[*rows], dimensions[*columns]);
  for (int64_t number = 0; number < matrices; ++number) {
    int64_t rest = number, target = to.first, source = from.first;
    for (size_t i = dimensions.size(); i-- > 0;) {
      if (i == *rows || i == *columns) continue;
      const int64_t index = rest % dimensions[i].size;
      rest /= dimensions[i].size;
      target += index * dimensions[i].to_step;
      source += index * dimensions[i].from_step;
    }
    turn.matrix(target, source);
  }
  return true;
}

}  // namespace neuron::lowering
