// SPDX-License-Identifier: Apache-2.0
// Which accesses come before which: vector clocks of the actors of a core (strict mode).
//
// Actors are the five engines, everything outside the core (host, other cores) as one, and the DMA
// queues, numbered when they are first rung. An access has two ticks of its actor: reads 2k, writes
// 2k + 1, so that an update at read can release reads without writes. Semaphores, events and memory
// carry the clocks that were released into them. A launch orders everything before it, by raising
// the floor. Ticks are 64 bits and never start again. A vector also has the ticks of the actors of
// the other core of a logical core, which come with its semaphore writes (strict_pair.h); a wait
// for n units of a semaphore knows what came with the first n, and nothing else. Callers:
// StrictMode, by the holder of the core. Owns its vectors. Fails: std::bad_alloc only.
#ifndef DRIVER_EMULATOR_NEURONCORE_STRICT_STRICT_CLOCKS_H
#define DRIVER_EMULATOR_NEURONCORE_STRICT_STRICT_CLOCKS_H

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "driver/emulator/chip/chip_layout.h"
#include "hw/address_map.h"
#include "hw/isa.h"

namespace neuron::core {

class StrictClocks {
 public:
  static constexpr unsigned kOutside = NEURON_CORE_ENGINES;
  static constexpr unsigned kFirstQueue = kOutside + 1;
  static constexpr unsigned kQueues = chip::kEnginesPerCore * NEURON_DMA_QUEUES;
  static constexpr unsigned kActors = kFirstQueue + kQueues;
  // How many waiting doorbells of a queue are distinguished. A program can ring one for each of
  // 2^24 descriptors, and each has a vector.
  static constexpr size_t kMaxDoorbells = 256;
  using Vector = std::array<uint64_t, 2 * kActors>;  // of this core, then of the other one
  using Known = std::vector<uint64_t>;               // of one core, as far as actors are in use

  // Which instruction rang the doorbell of a transfer.
  struct Ringer {
    uint32_t pc = 0;
    uint8_t engine = NEURON_ENGINE_HOST;
    bool operator==(const Ringer&) const = default;
  };
  struct Queue {
    // A doorbell that was rung while earlier work was pending: it stands for the descriptors from
    // `start` on, and has the clocks of its ringer.
    struct Doorbell {
      uint64_t start;
      Ringer ringer;
      std::unique_ptr<Vector> seen;
    };
    uint16_t actor = 0;
    uint8_t ringers = 0;    // engines that have ever rung it
    uint8_t starters = 0;   // engines whose doorbells gave it work
    uint64_t consumed = 0;  // M2S descriptors since the queue was last idle
    uint64_t rung = 0;      // the same, by doorbells
    Ringer ringer;          // of the transfer at the head
    std::deque<Doorbell> waiting;
    Ringer of_last_packet;
  };

  StrictClocks();

  // Orders everything until now before everything from now on.
  void raise_floor();
  // True once an access has been made since the floor was raised; before that there is nothing to
  // order.
  bool active() const { return active_; }

  // The next access of an actor; its read tick. The write tick is one more.
  uint64_t advance(unsigned actor) {
    active_ = true;
    told_[actor] = false;
    return (clock_[actor] += 2) - 1;
  }
  // The same for a packet of a queue that has begun. Packets of one doorbell share their ticks
  // until the queue's clock is given to something else, because until then whatever comes behind
  // one of them comes behind all.
  uint64_t advance_packet(Queue& queue) {
    Ringer& last = queue.of_last_packet;
    if (!told_[queue.actor] && last == queue.ringer) return clock_[queue.actor] - 1;
    last = queue.ringer;
    return advance(queue.actor);
  }
  // The clock of an actor, to be released or compared.
  uint64_t tell(unsigned actor) {
    told_[actor] = true;
    return clock_[actor];
  }
  // Whether `actor` comes behind the access of `other` at the tick.
  bool ordered(unsigned other, uint64_t tick, unsigned actor) const {
    return tick <= floor_[other] || other == actor || tick <= (*seen_[actor])[other];
  }
  // Whether `actor` comes behind the access of an actor of the other core.
  bool behind_other(unsigned other, uint64_t tick, unsigned actor) const {
    return tick <= (*seen_[actor])[kActors + other];
  }
  bool behind_floor(unsigned other, uint64_t tick) const { return tick <= floor_[other]; }

  // Semaphore cells: 0-255 semaphores, 256-511 events.
  void release(unsigned actor, uint64_t tick, unsigned cell);
  // By an actor outside, which may have seen everything; of the other core only what it tells.
  void release_all(unsigned cell, bool with_heard);
  void acquire(unsigned actor, unsigned cell);
  // Order through memory, whose words have no clocks of their own: all memory is one cell, and all
  // transfers count for it.
  void release_memory(unsigned actor, uint64_t tick);
  void acquire_memory(unsigned actor);
  void acquire_all(unsigned actor);

  // What the other core learns from a semaphore write of `actor` that releases the tick.
  Known known_by(unsigned actor, uint64_t tick) const;
  // The other core has added units to a cell, and this is what it knew; units of a cell were
  // consumed; a wait for so many units holds.
  void hear(unsigned cell, uint32_t units, const Known& known);
  void consume(unsigned cell, uint32_t units) {
    if (!heard_.empty()) consume_heard(cell, units);
  }
  void acquire_units(unsigned actor, unsigned cell, uint64_t units) {
    if (!heard_.empty()) acquire_heard(actor, cell, units);
  }
  // The actor has read a word that the other core wrote.
  void acquire_known(unsigned actor, const Known& known);
  void forget_heard() { heard_.clear(); }
  bool has_heard() const { return !heard_.empty(); }

  // DMA engine of the core * 16 + queue.
  Queue& queue(unsigned number);
  // `idle`: nothing was pending before. `pending`: M2S descriptors that wait now.
  void ring(unsigned number, bool idle, uint32_t pending, unsigned actor, uint64_t tick,
            Ringer ringer);
  // A doorbell that gives the queue no work. Transfers that follow come behind its ringer, too.
  void arm(unsigned number, unsigned actor, uint64_t tick);
  // Who rang for the packet that begins at the descriptor, which has not been transferred yet.
  static Ringer ringer_of(const Queue& queue, uint64_t descriptor);
  // A packet that begins at the descriptor is being transferred.
  void begin_packet(Queue& queue, uint64_t descriptor);
  // The engine has waited for its queues; `active` per DMA engine: queues that still work.
  void drained(unsigned engine, const std::array<uint32_t, chip::kEnginesPerCore>& active);
  // DMA engine << 4 | queue of a queue's actor.
  uint8_t queue_of(unsigned actor) const { return numbers_[actor - kFirstQueue]; }

 private:
  void join(Vector& to, const Vector& from) const;
  void join_known(Vector& to, const Known& known);
  void join_heard(Vector& to) const;
  void consume_heard(unsigned cell, uint32_t units);
  void acquire_heard(unsigned actor, unsigned cell, uint64_t units);
  const Vector& tell_all() {
    told_.fill(true);
    return clock_;
  }
  std::unique_ptr<Vector> take();

  struct Heard {
    uint64_t units;
    Known known;
  };

  unsigned used_ = kFirstQueue;
  unsigned others_ = 0;  // actors of the other core
  bool active_ = false;
  Vector clock_{};
  std::array<bool, kActors> told_;  // whether the clock has been given away since it advanced
  Vector floor_{};
  std::array<std::unique_ptr<Vector>, kActors> seen_;
  std::array<std::unique_ptr<Vector>, NEURON_SEMAPHORES + NEURON_EVENTS> cells_;
  std::map<unsigned, std::deque<Heard>> heard_;  // by cell, the oldest first
  Vector memory_{};
  std::array<std::unique_ptr<Queue>, kQueues> queues_;
  std::array<uint8_t, kQueues> numbers_{};
  std::vector<std::unique_ptr<Vector>> spare_;
};

}  // namespace neuron::core

#endif
