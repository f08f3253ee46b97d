// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/pair_exchange.h"

#include <utility>

namespace neuron::chip {
namespace {

constexpr unsigned kCoreShift = 8;

uint64_t key_of(unsigned core, unsigned semaphore) {
  return uint64_t{core} << kCoreShift | semaphore;
}

}  // namespace

bool PairExchange::put(unsigned core, unsigned semaphore, Tile tile) {
  const std::lock_guard lock(mutex_);
  Inbox& inbox = inboxes_[key_of(core, semaphore)];
  if (inbox.size() == kMost) return false;
  inbox.push_back(std::move(tile));
  return true;
}

std::optional<PairExchange::Tile> PairExchange::take(unsigned core, unsigned semaphore) {
  const std::lock_guard lock(mutex_);
  const auto found = inboxes_.find(key_of(core, semaphore));
  if (found == inboxes_.end() || found->second.empty()) return std::nullopt;
  Tile tile = std::move(found->second.front());
  found->second.pop_front();
  return tile;
}

void PairExchange::clear(unsigned core) {
  const std::lock_guard lock(mutex_);
  std::erase_if(inboxes_, [core](const auto& entry) {
    const auto of = static_cast<unsigned>(entry.first >> kCoreShift);
    return of == core || of == other_core(core);
  });
}

}  // namespace neuron::chip
