// SPDX-License-Identifier: Apache-2.0
#include "ccom/proof/overlaps.h"

#include <algorithm>

namespace neuron::ccom {

ChannelOrder::ChannelOrder(uint32_t channels)
    : known_(channels, Clock(channels)), history_(channels) {}

void ChannelOrder::wait(uint32_t channel, uint64_t at, uint32_t other, uint64_t position) {
  Clock& mine = known_[channel];
  mine[other] = std::max(mine[other], position);
  // What the other channel knew at its step number position - 1.
  const auto& past = history_[other];
  auto it = std::lower_bound(past.begin(), past.end(), position,
                             [](const auto& entry, uint64_t p) { return entry.first < p; });
  if (it != past.begin()) {
    const Clock& then = std::prev(it)->second;
    for (size_t i = 0; i < mine.size(); ++i) mine[i] = std::max(mine[i], then[i]);
  }
  history_[channel].emplace_back(at, mine);
}

void Overlaps::split(uint64_t at) {
  auto it = cells_.upper_bound(at);
  if (it == cells_.begin()) return;
  --it;
  if (it->first == at || it->second.end <= at) return;
  Cell tail = it->second;
  it->second.end = at;
  cells_.emplace(at, std::move(tail));
}

bool Overlaps::note(uint64_t begin, uint64_t end, uint32_t channel, uint64_t position, bool write,
                    const ChannelOrder& order, uint32_t& other, uint64_t& step) {
  if (begin >= end) return true;
  split(begin);
  split(end);
  const auto ordered = [&](const Access& access) {
    if (order.knows(channel, access.channel, access.position)) return true;
    other = access.channel;
    step = access.position;
    return false;
  };
  uint64_t at = begin;
  auto it = cells_.lower_bound(begin);
  while (at < end) {
    if (it == cells_.end() || it->first > at) {
      Cell fresh;
      fresh.end = it == cells_.end() ? end : std::min(end, it->first);
      it = cells_.emplace_hint(it, at, std::move(fresh));
    }
    Cell& cell = it->second;
    if (cell.written && !ordered(cell.write)) return false;
    if (write) {
      for (const Access& access : cell.reads) {
        if (!ordered(access)) return false;
      }
      cell.reads.clear();
      cell.written = true;
      cell.write = {channel, position};
    } else {
      auto mine = std::find_if(cell.reads.begin(), cell.reads.end(),
                               [&](const Access& access) { return access.channel == channel; });
      if (mine == cell.reads.end()) {
        cell.reads.push_back({channel, position});
      } else {
        mine->position = position;
      }
    }
    at = cell.end;
    ++it;
  }
  return true;
}

}  // namespace neuron::ccom
