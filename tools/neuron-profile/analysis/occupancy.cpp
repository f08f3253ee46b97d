// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/occupancy.h"

#include <algorithm>

namespace neuron::profile {

void Occupancy::add(const TilePiece& piece, uint64_t from, uint64_t to, uint64_t writer) {
  if (piece.begin >= piece.end || piece.space == NEURON_SPACE_ABSENT ||
      piece.space > NEURON_SPACE_PSUM) {
    return;
  }
  for (unsigned n = 0; n < kPartitions; ++n) {
    const unsigned partition = n * kEvery;
    if (partition < piece.start || partition >= unsigned{piece.start} + piece.parts) continue;
    const Stay stay{.from = from,
                    .to = to,
                    .writer = piece.write ? writer : kNobody,
                    .begin = piece.begin,
                    .end = piece.end,
                    .space = piece.space,
                    .partition = static_cast<uint8_t>(partition)};
    Stays& stays = stays_[piece.space == NEURON_SPACE_PSUM ? 1 : 0][n];
    if (piece.write && !piece.keeps) {
      write(stays, stay);
    } else {
      read(stays, stay);
    }
  }
}

// The bytes that were there before end their stay; the rest of theirs goes on.
void Occupancy::write(Stays& stays, const Stay& stay) {
  auto next = stays.upper_bound(stay.begin);
  if (next != stays.begin() && std::prev(next)->second.end > stay.begin) --next;
  // bounded: each turn takes one away, and what it puts back lies outside.
  while (next != stays.end() && next->second.begin < stay.end) {
    const Stay old = next->second;
    next = stays.erase(next);
    Stay gone = old;
    gone.begin = std::max(old.begin, stay.begin);
    gone.end = std::min(old.end, stay.end);
    use_(gone);
    if (old.begin < gone.begin) {
      Stay left = old;
      left.end = gone.begin;
      stays.emplace(left.begin, left);
    }
    if (old.end > gone.end) {
      Stay right = old;
      right.begin = gone.end;
      next = stays.emplace(right.begin, right).first;
    }
  }
  stays.emplace(stay.begin, stay);
}

// Bytes of which nothing is known come to be.
void Occupancy::read(Stays& stays, const Stay& stay) {
  auto next = stays.upper_bound(stay.begin);
  if (next != stays.begin() && std::prev(next)->second.end > stay.begin) --next;
  uint32_t at = stay.begin;
  // bounded: each turn goes behind one.
  for (; next != stays.end() && next->second.begin < stay.end; ++next) {
    if (next->second.begin > at) {
      Stay unknown = stay;
      unknown.begin = at;
      unknown.end = next->second.begin;
      stays.emplace(at, unknown);
    }
    next->second.to = std::max(next->second.to, stay.to);
    at = next->second.end;
  }
  if (at >= stay.end) return;
  Stay unknown = stay;
  unknown.begin = at;
  stays.emplace(at, unknown);
}

void Occupancy::finish() {
  for (auto& space : stays_) {
    for (Stays& stays : space) {
      for (const auto& [begin, stay] : stays) use_(stay);
      stays.clear();
    }
  }
}

}  // namespace neuron::profile
