// SPDX-License-Identifier: Apache-2.0
// Strict mode of the two cores of a logical core: their accesses of device memory, which they
// share, and what each knows of the other's clocks.
//
// Two executions belong together if the host gave both the same number (hw/control.h, `pair` of the
// launch record). Of such an execution, each core's memory is a map of pieces: the writes and the
// reads of a range of bytes that no later access of the same core replaces. An access of one core
// is compared with the other core's map of the same number. What a core knows travels with each
// semaphore write that it makes at the other core: tell() before the write, hear() when it takes
// effect there. Callers: StrictMode of both cores, each in its own thread. Owns its maps, behind
// one lock. Fails: std::bad_alloc only. Beyond kMostPieces a core's map takes no further accesses:
// that may miss a race, but cannot invent one.
#ifndef DRIVER_EMULATOR_NEURONCORE_STRICT_STRICT_PAIR_H
#define DRIVER_EMULATOR_NEURONCORE_STRICT_STRICT_PAIR_H

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "driver/emulator/neuroncore/strict/strict_shadow.h"

namespace neuron::core {

class StrictPair {
 public:
  static constexpr size_t kMostPieces = size_t{1} << 18;
  // The ticks of a core's actors, up to which somebody has seen what they did.
  using Known = std::vector<uint64_t>;

  struct Access {
    StrictAccess who;
    uint64_t first = 0;
    uint64_t bytes = 0;
    bool write = false;
    bool word = false;  // by `store`: such words of both cores do not race with each other
  };
  struct Conflict {
    StrictAccess other;
    uint64_t address = 0;
    bool other_wrote = false;
  };

  // The core of that side (0: the even one) begins an execution; 0: it runs alone.
  void begin(unsigned side, uint64_t number);
  // Forgets everything: a reset ends the executions of both.
  void forget();
  // An access in the present execution of the side. What it races with in the other core.
  std::optional<Conflict> access(unsigned side, const Access& access, const StrictClocks& clocks);
  // The word was written by the other core in this execution: what that core has done until now.
  std::optional<Known> writer_of(unsigned side, uint64_t address);

  // The side is about to write to the other one's cell (as in StrictClocks); `engine` as in the
  // access. Writes of one engine take effect in their order.
  void tell(unsigned side, unsigned cell, unsigned engine, Known known);
  // Such a write takes effect at the side. Nothing: it was not told of.
  std::optional<Known> hear(unsigned side, unsigned cell, unsigned engine);

 private:
  struct Item {
    StrictAccess access;
    bool word = false;
    bool operator==(const Item& other) const {
      return access.tick == other.access.tick && access.actor == other.access.actor &&
             access.pc == other.access.pc && word == other.word;
    }
  };
  struct Piece {
    uint64_t end = 0;
    std::vector<Item> writers, readers;
  };
  using Pieces = std::map<uint64_t, Piece>;  // by first byte; they do not overlap
  struct Side {
    uint64_t number = 0;
    std::map<uint64_t, Pieces> executions;  // its own, until the other core has ended them
    Known latest;                           // of its accesses
    std::map<std::pair<unsigned, unsigned>, std::deque<Known>> told;  // to it, by cell and engine
  };

  static void record(Pieces& pieces, const Access& access, const StrictClocks& clocks);
  static void split(Pieces& pieces, uint64_t at);
  static void merge(Pieces& pieces, Pieces::iterator piece);

  std::mutex mutex_;
  std::array<Side, 2> sides_;
};

}  // namespace neuron::core

#endif
