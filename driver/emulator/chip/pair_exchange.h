// SPDX-License-Identifier: Apache-2.0
// Tiles on their way between the two cores of a logical core (sendrecv).
//
// A core puts a tile for the other one into its inbox, then increments its semaphore; the other one
// takes it when its wait holds. A core that has sent waits for its own tile before it sends again,
// so an inbox holds two tiles of a semaphore at most. Callers: the cores of one chip, any thread.
// Fails: a full inbox, which a program can only make by not waiting, takes no more.
#ifndef DRIVER_EMULATOR_CHIP_PAIR_EXCHANGE_H
#define DRIVER_EMULATOR_CHIP_PAIR_EXCHANGE_H

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace neuron::chip {

class PairExchange {
 public:
  struct Tile {
    unsigned dtype = 0;
    unsigned partitions = 0;
    uint64_t elements = 0;            // of a partition
    std::vector<std::byte> contents;  // partition by partition
  };

  static constexpr size_t kMost = 2;
  static constexpr unsigned other_core(unsigned core) { return core ^ 1; }

  // Into the inbox of `core`, for a semaphore of it. False: the inbox is full.
  bool put(unsigned core, unsigned semaphore, Tile tile);
  // The oldest one; nothing if nothing has been sent.
  std::optional<Tile> take(unsigned core, unsigned semaphore);
  // Drops what is on its way to and from a core: at its reset.
  void clear(unsigned core);

 private:
  using Inbox = std::deque<Tile>;
  std::mutex mutex_;
  std::map<uint64_t, Inbox> inboxes_;  // by core << 8 | semaphore
};

}  // namespace neuron::chip

#endif
