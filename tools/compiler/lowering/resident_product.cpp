// SPDX-License-Identifier: Apache-2.0
// Products of matrices whose operands and result stay in SBUF: the sums are those of
// product_task.cpp, K in ascending order in one PSUM accumulation. Maps that follow read the sums
// in PSUM.
#include <algorithm>
#include <map>
#include <tuple>

#include "tools/compiler/lowering/layout_group.h"
#include "tools/compiler/lowering/product.h"
#include "tools/compiler/lowering/weights.h"

namespace neuron::lowering {
namespace {

constexpr int64_t kDeep = NEURON_PARTITIONS;
constexpr int64_t kHigh = NEURON_PE_MAX_M;
constexpr int64_t kWide = NEURON_PE_MAX_N;
constexpr size_t kBanks = 6;
// Stationary tiles of 128 columns, and moving ones of 512, that stay for further blocks.
constexpr size_t kStationary = 24, kMoving = 16;

uint32_t part(int64_t whole, int64_t first, int64_t most) {
  return static_cast<uint32_t>(std::min(most, whole - first));
}

class ResidentProduct {
 public:
  ResidentProduct(Workspace& work, Value value, const ProductExit& exit)
      : work_(work),
        node_(work.node(value)),
        result_layout_{node_.batch, node_.rows, node_.columns},
        depths_(depth_parts(work.graph, node_)),
        chunked_(chunk_of(work.graph, node_).depth != 0),
        high_((node_.rows + kHigh - 1) / kHigh),
        turned_(node_.turned) {
    left_value_ = node_.operands[0];
    right_value_ = node_.operands[1];
    work.trim();
    work.reserve_stream();
    if (!turned_) left_ = operand(left_value_, {node_.batch, node_.rows, node_.depth});
    // One row is one column: it may lie as PE wants it.
    if (!left_.present() && !chunked_ && (turned_ || node_.rows == 1)) {
      left_ = operand(left_value_, {node_.batch, node_.depth, node_.rows});
      turned_ = turned_ || left_.present();
    }
    if (!chunked_) right_ = operand(right_value_, {node_.batch, node_.depth, node_.columns});
    if (!left_.present()) left_place_ = work.place(left_value_);
    if (!right_.present()) {
      right_weights_.emplace(work, right_value_, depths_, node_.columns, kWide);
    }
    if (exit.group.members.empty()) {
      result_ = work.residents.allocate(value, result_layout_);
      if (!result_.present()) place_ = work.make_place(value);
    } else {
      group_.emplace(work, exit.group, result_layout_, exit.given);
    }
  }

  void emit();

 private:
  // A value in SBUF that lies as the product needs it.
  Resident operand(Value value, const Layout& layout) const {
    const Resident resident = work_.residents.find(value);
    return resident.present() && resident.layout == layout ? resident : Resident{};
  }
  void allocate();
  void release();
  Tile take(std::vector<Tile>& ring, size_t& next) { return ring[next++ % ring.size()]; }
  TileAccess stationary(int64_t batch, int64_t row, const DepthPart& k);
  TileAccess turned(int64_t batch, int64_t row, const DepthPart& k);
  TileAccess moving(int64_t batch, int64_t column, size_t number);
  void block(int64_t batch, int64_t row, int64_t column);
  void leave(const Tile& bank, int64_t batch, int64_t row, int64_t column);

  Workspace& work_;
  const Node& node_;
  const Layout result_layout_;
  const std::vector<DepthPart> depths_;
  const bool chunked_;  // parts of K do not begin where tiles do
  const int64_t high_;
  bool turned_;  // the left operand has K on partitions
  Value left_value_, right_value_;
  Resident left_, right_, result_;
  Buffer left_place_, place_;
  std::optional<Weights> right_weights_;
  std::optional<LayoutGroup> group_;
  std::vector<Tile> loaded_, stationary_, results_, banks_, turning_;
  size_t next_loaded_ = 0, next_stationary_ = 0, next_result_ = 0, next_bank_ = 0,
         next_turning_ = 0;
  // Stationary tiles that stay for the columns that follow: by row and k, of one batch.
  bool keeps_stationary_ = false, keeps_moving_ = false;
  std::map<std::pair<int64_t, int64_t>, TileAccess> kept_stationary_;
};

void ResidentProduct::allocate() {
  const auto tiles = [&](std::vector<Tile>& ring, size_t count, const char* name, int64_t columns) {
    for (size_t i = 0; i < count; ++i) {
      ring.push_back(work_.program.sbuf(name, NEURON_PARTITIONS, static_cast<uint32_t>(columns),
                                        NEURON_DTYPE_F32));
    }
  };
  const auto blocks = depths_.size() * static_cast<size_t>(high_);
  keeps_stationary_ = blocks <= kStationary;
  const bool prepares = !turned_ || !left_.present();
  if (prepares) {
    // Of the next rows or batch, while those of the present ones are still multiplied.
    tiles(stationary_, std::min(kStationary, std::max<size_t>(2 * blocks, 2)), "stationary",
          std::min(kHigh, node_.rows));
  }
  if (!left_.present() && !turned_) {
    tiles(loaded_, 4, "left", std::min(kDeep, node_.depth));
  }
  keeps_moving_ = high_ > 1 && depths_.size() <= kMoving;
  if (!result_.present() && !group_) tiles(results_, 4, "result", std::min(kWide, node_.columns));
  for (size_t i = 0; i < kBanks; ++i) {
    banks_.push_back(work_.program.psum("sum", kHigh, kWide));
  }
  if (!turned_) {
    for (int i = 0; i < 4; ++i) turning_.push_back(work_.program.psum("turned", kDeep, kHigh));
  }
}

void ResidentProduct::release() {
  for (const auto* ring : {&loaded_, &stationary_, &results_, &banks_, &turning_}) {
    for (const Tile& tile : *ring) work_.program.release(tile);
  }
}

// [depth, rows] of a left operand that has its rows on partitions.
TileAccess ResidentProduct::turned(int64_t batch, int64_t row, const DepthPart& k) {
  const uint32_t rows = part(node_.rows, row, kHigh), depth = static_cast<uint32_t>(k.count);
  TileAccess from;
  if (left_.present()) {
    from = left_.at(row / kHigh, batch, 1, k.first, depth);
  } else {
    const Tile tile = take(loaded_, next_loaded_);
    from = tile.at(0, rows, 0, depth);
    BufferAccess access = Workspace::rows(
        left_place_, static_cast<uint64_t>((batch * node_.rows + row) * node_.depth + k.first),
        rows, depth);
    access.step[1] = node_.depth * 4;
    work_.load(from, access);
  }
  const Tile bank = take(turning_, next_turning_);
  work_.program.transpose(bank.at(0, depth, 0, rows), from);
  const Tile tile = take(stationary_, next_stationary_);
  const TileAccess to = tile.at(0, depth, 0, rows);
  if (next_stationary_ % 2 == 0) {
    work_.program.tensor_copy(Engine::kDve, to, bank.at(0, depth, 0, rows));
  } else {
    work_.program.activate(to, NEURON_ACT_COPY, bank.at(0, depth, 0, rows));
  }
  return to;
}

TileAccess ResidentProduct::stationary(int64_t batch, int64_t row, const DepthPart& k) {
  const auto key = std::pair{row, k.first};
  const auto kept = kept_stationary_.find(key);
  if (kept != kept_stationary_.end()) return kept->second;
  TileAccess tile;
  if (!turned_) {
    tile = turned(batch, row, k);
  } else if (left_.present()) {
    return left_.at(k.first / kDeep, batch, 1, row, part(node_.rows, row, kHigh));
  } else {
    const uint32_t rows = part(node_.rows, row, kHigh), depth = static_cast<uint32_t>(k.count);
    tile = take(stationary_, next_stationary_).at(0, depth, 0, rows);
    BufferAccess access = Workspace::rows(
        left_place_, static_cast<uint64_t>((batch * node_.depth + k.first) * node_.rows + row),
        depth, rows);
    access.step[1] = node_.rows * 4;
    work_.load(tile, access);
  }
  if (keeps_stationary_) kept_stationary_[key] = tile;
  return tile;
}

TileAccess ResidentProduct::moving(int64_t batch, int64_t column, size_t number) {
  const DepthPart& k = depths_[number];
  const uint32_t columns = part(node_.columns, column, kWide);
  if (right_.present()) return right_.at(k.first / kDeep, batch, 1, column, columns);
  return right_weights_->part(number);
}

void ResidentProduct::leave(const Tile& bank, int64_t batch, int64_t row, int64_t column) {
  const uint32_t rows = part(node_.rows, row, kHigh), columns = part(node_.columns, column, kWide);
  const TileAccess sum = bank.at(0, rows, 0, columns);
  if (group_) return group_->piece({row / kHigh, batch, column, 1, columns}, sum);
  const TileAccess to = result_.present() ? result_.at(row / kHigh, batch, 1, column, columns)
                                          : take(results_, next_result_).at(0, rows, 0, columns);
  leave_sums(work_, node_, {batch, row, column, rows, columns}, sum, to, next_bank_, place_);
}

void ResidentProduct::block(int64_t batch, int64_t row, int64_t column) {
  const uint32_t rows = part(node_.rows, row, kHigh), columns = part(node_.columns, column, kWide);
  const Tile bank = take(banks_, next_bank_);
  for (size_t i = 0; i < depths_.size(); ++i) {
    const TileAccess left = stationary(batch, row, depths_[i]);
    work_.program.matmul(bank.at(0, rows, 0, columns), left, moving(batch, column, i), i != 0);
  }
  leave(bank, batch, row, column);
}

void ResidentProduct::emit() {
  work_.program.section(node_.origin);
  allocate();
  for (int64_t batch = 0; batch < node_.batch; ++batch) {
    kept_stationary_.clear();
    for (int64_t column = 0; column < node_.columns; column += kWide) {
      if (right_weights_ && keeps_moving_) right_weights_->begin(batch, column, true);
      for (int64_t row = 0; row < node_.rows; row += kHigh) {
        if (right_weights_ && !keeps_moving_) right_weights_->begin(batch, column, false);
        block(batch, row, column);
      }
    }
  }
  release();
}

}  // namespace

void leave_sums(Workspace& work, const graph::Node& product, const SumBlock& block,
                const TileAccess& sum, const TileAccess& to, size_t turn, const Buffer& place) {
  if (turn % 2 == 0) {
    work.program.tensor_copy(Engine::kDve, to, sum);
  } else {
    work.program.activate(to, NEURON_ACT_COPY, sum);
  }
  if (!place.present()) return;
  const int64_t first = (block.batch * product.rows + block.row) * product.columns + block.column;
  BufferAccess access =
      Workspace::rows(place, static_cast<uint64_t>(first), block.rows, block.columns);
  access.step[1] = product.columns * 4;
  work.store(access, to);
}

void emit_resident_product(Workspace& work, Value value, const ProductExit& exit) {
  if (!work.program.ok() || emit_convolution(work, value, exit)) return;
  ResidentProduct(work, value, exit).emit();
}

}  // namespace neuron::lowering
