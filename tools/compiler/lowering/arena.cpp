// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/arena.h"

namespace neuron::lowering {
namespace {

constexpr uint32_t kAlignment = 16;  // columns: 64 bytes, the longest element of the memory ports

uint32_t aligned(uint32_t columns) { return (columns + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

Arena::Arena(builder::Program& program, uint32_t columns)
    : program_(program), columns_(columns), limit_(columns) {}

std::optional<uint32_t> Arena::find(uint32_t columns, uint32_t from, uint32_t end) const {
  uint32_t first = from;
  for (const auto& [begin, behind] : *used_) {
    if (behind <= first) continue;
    if (begin >= first && begin - first >= columns) break;
    first = behind;
  }
  if (first > end || columns > end - first) return std::nullopt;
  return first;
}

std::shared_ptr<const builder::Tile> Arena::take(uint32_t columns) {
  const uint32_t wanted = aligned(columns);
  if (columns == 0 || wanted > columns_ || !program_.ok()) return nullptr;
  auto first = find(wanted, next_, limit_);
  if (!first) first = find(wanted, 0, limit_);
  if (!first) first = find(wanted, 0, columns_);
  if (!first) return nullptr;
  next_ = *first + wanted;
  return piece(*first, columns);
}

std::shared_ptr<const builder::Tile> Arena::lend(uint32_t columns) {
  const uint32_t wanted = aligned(columns);
  if (columns == 0 || wanted > columns_ - limit_ || !program_.ok()) return nullptr;
  auto first = find(wanted, std::max(next_lent_, limit_), columns_);
  if (!first) first = find(wanted, limit_, columns_);
  if (!first) return nullptr;
  next_lent_ = *first + wanted;
  return piece(*first, columns);
}

std::shared_ptr<const builder::Tile> Arena::piece(uint32_t first, uint32_t columns) {
  reserve();
  if (!whole_.present()) return nullptr;
  (*used_)[first] = first + aligned(columns);
  auto tile = std::make_unique<builder::Tile>(whole_);
  tile->base += first * 4;
  tile->columns = columns;
  return {tile.release(), [used = used_, first](const builder::Tile* returned) {
            used->erase(first);
            delete returned;
          }};
}

std::vector<std::shared_ptr<const builder::Tile>> Arena::take_row(uint32_t columns, size_t count) {
  const uint32_t pitch = aligned(columns);
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
