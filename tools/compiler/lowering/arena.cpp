// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/arena.h"

namespace neuron::lowering {
namespace {

constexpr uint32_t kAlignment = 16;  // columns: 64 bytes, the longest element of the memory ports

}  // namespace

Arena::Arena(builder::Program& program, uint32_t columns) : program_(program), columns_(columns) {}

std::optional<uint32_t> Arena::find(uint32_t columns, uint32_t from) const {
  uint32_t first = from;
  for (const auto& [begin, end] : *used_) {
    if (end <= first) continue;
    if (begin >= first && begin - first >= columns) break;
    first = end;
  }
  if (first > columns_ || columns > columns_ - first) return std::nullopt;
  return first;
}

std::shared_ptr<const builder::Tile> Arena::take(uint32_t columns) {
  const uint32_t wanted = (columns + kAlignment - 1) / kAlignment * kAlignment;
  if (columns == 0 || wanted > columns_ || !program_.ok()) return nullptr;
  auto first = find(wanted, next_);
  if (!first) first = find(wanted, 0);
  if (!first) return nullptr;
  reserve();
  if (!whole_.present()) return nullptr;
  (*used_)[*first] = *first + wanted;
  next_ = *first + wanted;
  auto tile = std::make_unique<builder::Tile>(whole_);
  tile->base += *first * 4;
  tile->columns = columns;
  return {tile.release(), [used = used_, first = *first](const builder::Tile* returned) {
            used->erase(first);
            delete returned;
          }};
}

std::vector<std::shared_ptr<const builder::Tile>> Arena::take_row(uint32_t columns, size_t count) {
  const uint32_t pitch = (columns + kAlignment - 1) / kAlignment * kAlignment;
  std::vector<std::shared_ptr<const builder::Tile>> row;
  const auto whole = take(pitch * static_cast<uint32_t>(count));
  if (!whole) return row;
  for (uint32_t i = 0; i < count; ++i) {
    auto tile = std::make_unique<builder::Tile>(*whole);
    tile->base += i * pitch * 4;
    tile->columns = columns;
    row.emplace_back(tile.release(), [whole](const builder::Tile* returned) { delete returned; });
  }
  return row;
}

void Arena::reserve() {
  if (whole_.present() || columns_ == 0) return;
  whole_ = program_.sbuf("values", NEURON_PARTITIONS, columns_, NEURON_DTYPE_F32);
}

void Arena::release() {
  if (!used_->empty() || !whole_.present()) return;
  program_.release(whole_);
  whole_ = {};
}

}  // namespace neuron::lowering
