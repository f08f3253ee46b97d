// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/strict/strict_pair.h"

#include <algorithm>
#include <utility>

namespace neuron::core {

void StrictPair::begin(unsigned side, uint64_t number) {
  const std::lock_guard lock(mutex_);
  Side& own = sides_[side];
  Side& other = sides_[1 - side];
  own.number = number;
  own.latest.clear();
  // This core will not come to the other one's earlier executions any more.
  std::erase_if(other.executions,
                [number](const auto& e) { return number == 0 || e.first < number; });
  if (number == 0) {
    own.executions.clear();
  } else {
    own.executions[number].clear();
  }
}

void StrictPair::forget() {
  const std::lock_guard lock(mutex_);
  sides_ = {};
}

std::optional<StrictPair::Conflict> StrictPair::access(unsigned side, const Access& access,
                                                       const StrictClocks& clocks) {
  const std::lock_guard lock(mutex_);
  Side& own = sides_[side];
  if (own.number == 0 || access.bytes == 0) return std::nullopt;
  const uint64_t end = access.first + access.bytes;
  const Pieces& others = sides_[1 - side].executions[own.number];
  std::optional<Conflict> found;
  auto at = others.upper_bound(access.first);
  if (at != others.begin() && std::prev(at)->second.end > access.first) --at;
  const auto look = [&](const std::vector<Item>& items, uint64_t first, bool wrote) {
    for (const Item& item : items) {
      if (item.word && access.word) continue;
      const uint64_t tick = item.access.tick + (wrote ? 1 : 0);
      if (clocks.behind_other(item.access.actor, tick, access.who.actor)) continue;
      found = Conflict{item.access, std::max(first, access.first), wrote};
      return;
    }
  };
  for (; at != others.end() && at->first < end && !found; ++at) {
    // Both may write the same bytes: programs of a logical core that compute the same do (NKI warns
    // where the values differ).
    if (access.write) {
      look(at->second.readers, at->first, false);
    } else {
      look(at->second.writers, at->first, true);
    }
  }
  Pieces& pieces = own.executions[own.number];
  if (pieces.size() < kMostPieces) record(pieces, access, clocks);
  if (own.latest.size() <= access.who.actor) own.latest.resize(access.who.actor + 1u);
  own.latest[access.who.actor] = access.who.tick + 1;
  return found;
}

void StrictPair::split(Pieces& pieces, uint64_t at) {
  auto piece = pieces.upper_bound(at);
  if (piece == pieces.begin()) return;
  --piece;
  if (piece->first == at || piece->second.end <= at) return;
  Piece behind = piece->second;
  piece->second.end = at;
  pieces.emplace(at, std::move(behind));
}

// Joins a piece to the one in front of it, if both are of the same accesses.
void StrictPair::merge(Pieces& pieces, Pieces::iterator piece) {
  if (piece == pieces.begin() || piece == pieces.end()) return;
  const auto before = std::prev(piece);
  if (before->second.end != piece->first || before->second.writers != piece->second.writers ||
      before->second.readers != piece->second.readers) {
    return;
  }
  before->second.end = piece->second.end;
  pieces.erase(piece);
}

// An access that comes behind another one of the same bytes replaces it: what is unordered with the
// older one is unordered with the newer one, too. Reads replace reads, and writes replace writes.
void StrictPair::record(Pieces& pieces, const Access& access, const StrictClocks& clocks) {
  const uint64_t end = access.first + access.bytes;
  const Item item{access.who, access.word};
  split(pieces, access.first);
  split(pieces, end);
  const auto drop = [&](std::vector<Item>& items, unsigned writes) {
    std::erase_if(items, [&](const Item& old) {
      // A word does not conflict with words, so it stands for none that is more than one.
      if (access.word && !old.word) return false;
      return clocks.ordered(old.access.actor, old.access.tick + writes, access.who.actor);
    });
  };
  auto at = pieces.lower_bound(access.first);
  for (uint64_t next = access.first; next < end;) {
    if (at == pieces.end() || at->first > next) {
      const uint64_t until = at == pieces.end() ? end : std::min(end, at->first);
      at = pieces.emplace_hint(at, next, Piece{until, {}, {}});
    }
    Piece& piece = at->second;
    if (access.write) {
      drop(piece.writers, 1);
    } else {
      drop(piece.readers, 0);
    }
    (access.write ? piece.writers : piece.readers).push_back(item);
    next = piece.end;
    ++at;
  }
  for (auto piece = pieces.lower_bound(access.first);
       piece != pieces.end() && piece->first <= end;) {
    merge(pieces, piece++);
  }
}

std::optional<StrictPair::Known> StrictPair::writer_of(unsigned side, uint64_t address) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = sides_[side].number;
  if (number == 0) return std::nullopt;
  const Side& other = sides_[1 - side];
  const auto execution = other.executions.find(number);
  if (execution == other.executions.end()) return std::nullopt;
  auto piece = execution->second.upper_bound(address);
  if (piece == execution->second.begin()) return std::nullopt;
  --piece;
  if (piece->second.end <= address || piece->second.writers.empty()) return std::nullopt;
  return other.latest;
}

void StrictPair::tell(unsigned side, unsigned cell, unsigned engine, Known known) {
  const std::lock_guard lock(mutex_);
  sides_[1 - side].told[{cell, engine}].push_back(std::move(known));
}

std::optional<StrictPair::Known> StrictPair::hear(unsigned side, unsigned cell, unsigned engine) {
  const std::lock_guard lock(mutex_);
  const auto found = sides_[side].told.find({cell, engine});
  if (found == sides_[side].told.end() || found->second.empty()) return std::nullopt;
  Known known = std::move(found->second.front());
  found->second.pop_front();
  return known;
}

}  // namespace neuron::core
