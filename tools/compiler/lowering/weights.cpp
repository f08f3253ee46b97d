// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/weights.h"

#include <algorithm>
#include <cstring>

namespace neuron::lowering {
namespace {

// Columns of a group: 8 KiB of each partition at once.
constexpr int64_t kGroupColumns = 2048;

// The constant that the value is, or repeats for each of a batch; null if it is none.
const graph::Tensor* constant_of(const Workspace& work, Value value, int64_t elements) {
  for (;;) {  // bounded: operands stand before what uses them
    const Node& node = work.node(value);
    if (node.kind == graph::Kind::kConstant) {
      return node.constant->elements() == elements ? node.constant.get() : nullptr;
    }
    const bool repeats = is_broadcast(work.graph, value) &&
                         graph::elements_of(work.node(node.operands[0]).shape) == elements;
    if (repeats) {
      // All of it for each of the batch, not each element for itself.
      const auto strides =
          strides_in(work.graph, value, {graph::elements_of(node.shape) / elements, 1, elements});
      if (!strides || strides->outer != 0 || strides->inner != 1) return nullptr;
    } else if (!graph::renames(node, work.graph)) {
      return nullptr;
    }
    value = node.operands[0];
  }
}

}  // namespace

Weights::Weights(Workspace& work, Value value, std::vector<DepthPart> parts, int64_t columns,
                 int64_t block)
    : work_(work), parts_(std::move(parts)), columns_(columns), block_(block) {
  for (const DepthPart& part : parts_) depth_ += part.count;
  const int64_t most = std::max<int64_t>(1, kGroupColumns / std::min(block_, columns_));
  for (size_t i = 0; i < parts_.size(); ++i) {
    const bool joins = !groups_.empty() && groups_.back().depth == parts_[i].count &&
                       static_cast<int64_t>(groups_.back().count) < most;
    if (!joins) groups_.push_back({i, 0, parts_[i].count});
    ++groups_.back().count;
    group_of_.push_back(groups_.size() - 1);
  }
  const graph::Tensor* tensor = constant_of(work, value, depth_ * columns_);
  if (tensor != nullptr && tensor->type == graph::Type::kF32) {
    pack(*tensor);
  } else {
    place_ = work.place(value);
  }
}

void Weights::pack(const graph::Tensor& tensor) {
  packed_ = true;
  std::vector<uint8_t> bytes(tensor.reals.size() * 4);
  size_t at = 0;
  for (int64_t column = 0; column < columns_; column += block_) {
    const int64_t wide = std::min(block_, columns_ - column);
    for (const Group& group : groups_) {
      for (int64_t lane = 0; lane < group.depth; ++lane) {
        for (size_t part = group.first; part < group.first + group.count; ++part) {
          const int64_t row = parts_[part].first + lane;
          for (int64_t i = 0; i < wide; ++i, at += 4) {
            const auto number =
                static_cast<float>(tensor.reals[static_cast<size_t>(row * columns_ + column + i)]);
            std::memcpy(&bytes[at], &number, 4);
          }
        }
      }
    }
  }
  place_ = work_.constant(NEURON_DTYPE_F32, tensor.reals.size(), std::move(bytes));
}

void Weights::begin(int64_t batch, int64_t column, bool keeps) {
  now_ = batch;
  column_ = column;
  keeps_ = keeps;
  held_.assign(groups_.size(), nullptr);
}

std::shared_ptr<const Tile> Weights::load(const Group& group) {
  const auto wide = static_cast<uint32_t>(width());
  const auto all = static_cast<uint32_t>(group.count) * wide;
  const auto depth = static_cast<uint32_t>(group.depth);
  auto tile = work_.stream(all);
  if (!tile) return nullptr;
  if (packed_) {
    const int64_t before = column_ * depth_ + parts_[group.first].first * width();
    work_.load(tile->at(0, depth, 0, all),
               Workspace::rows(place_, static_cast<uint64_t>(before), depth, all));
    return tile;
  }
  for (size_t i = 0; i < group.count; ++i) {
    const int64_t row = now_ * depth_ + parts_[group.first + i].first;
    BufferAccess from =
        Workspace::rows(place_, static_cast<uint64_t>(row * columns_ + column_), depth, wide);
    from.step[1] = columns_ * 4;
    work_.load(tile->at(0, depth, static_cast<uint32_t>(i) * wide, wide), from);
  }
  return tile;
}

TileAccess Weights::part(size_t number) {
  const size_t mine = group_of_[number];
  if (!held_[mine]) {
    if (!keeps_) std::fill(held_.begin(), held_.end(), nullptr);
    held_[mine] = load(groups_[mine]);
    if (!held_[mine]) return {};
  }
  const Group& group = groups_[mine];
  const auto wide = static_cast<uint32_t>(width());
  return held_[mine]->at(0, static_cast<uint32_t>(group.depth),
                         static_cast<uint32_t>(number - group.first) * wide, wide);
}

}  // namespace neuron::lowering
