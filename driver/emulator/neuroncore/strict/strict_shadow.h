// SPDX-License-Identifier: Apache-2.0
// The last writer and the readers of each byte of SBUF and PSUM (strict mode).
//
// A cell is 64 bytes of one partition. Its state says which bytes were ever written, and lists
// accesses with the bytes they concern: the last writer of each byte, and the readers since then.
// So all checks are exact to the byte. States are shared and never change. The cells of one column
// in 32 partitions (a quadrant) have one number: of their state, or of a stripe, which lists the
// states of the 32 if they differ. Neighbouring columns of a dense pattern have the same number, so
// an access takes one step for each interval of columns with equal numbers. An access that is
// ordered behind another one of the same bytes replaces it: an access that conflicts with the older
// one conflicts with the newer one, too. States and stripes that no cell holds any more are
// collected when there are many. Callers: StrictMode, by the holder of the core. Owns all of it.
// Fails: std::bad_alloc only.
#ifndef DRIVER_EMULATOR_NEURONCORE_STRICT_STRICT_SHADOW_H
#define DRIVER_EMULATOR_NEURONCORE_STRICT_STRICT_SHADOW_H

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "driver/emulator/neuroncore/strict/strict_clocks.h"
#include "hw/address_map.h"
#include "hw/isa.h"

namespace neuron::core {

// An access: its tick as a read (as a write, one more) and its actor.
struct StrictAccess {
  uint64_t tick = 0;
  uint32_t pc = 0;
  uint16_t actor = 0;
  uint8_t engine = 0;  // that executed the instruction; of a transfer: the engine that rang
  uint8_t queue = 0;   // of a transfer: DMA engine << 4 | queue
};

// The bytes `mask` of each of `count` cells from `column` on.
struct StrictSegment {
  uint16_t column = 0;
  uint16_t count = 0;
  uint64_t mask = 0;
};

struct StrictConflict {
  enum Kind : uint8_t { kNone, kUnwritten, kRace, kNotPe } kind = kNone;
  bool other_wrote = false;
  bool has_other = false;
  unsigned column = 0;
  unsigned partition = 0;
  unsigned byte = 0;  // in the cell
  StrictAccess other;
};

class StrictShadow {
 public:
  static constexpr unsigned kCellBytes = 64;
  static constexpr unsigned kSbufColumns = NEURON_V4_SBUF_PARTITION_BYTES / kCellBytes;
  static constexpr unsigned kPsumColumns = NEURON_PSUM_PARTITION_BYTES / kCellBytes;
  static constexpr unsigned kColumns = kSbufColumns + kPsumColumns;
  static constexpr unsigned first_column(unsigned space) {
    return space == NEURON_SPACE_PSUM ? kSbufColumns : 0;
  }

  explicit StrictShadow(const StrictClocks& clocks);
  StrictShadow(const StrictShadow&) = delete;
  StrictShadow& operator=(const StrictShadow&) = delete;

  // Partitions [first, end). False: `conflict` is set, and the shadow is no longer valid.
  bool read(const StrictAccess& access, unsigned first, unsigned end,
            std::span<const StrictSegment> segments, StrictConflict& conflict);
  bool write(const StrictAccess& access, unsigned first, unsigned end,
             std::span<const StrictSegment> segments, StrictConflict& conflict);
  // Whether the PE wrote all of it last.
  bool written_by_pe(unsigned first, unsigned end, std::span<const StrictSegment> segments,
                     StrictConflict& conflict);
  // Nothing counts as written or read any more.
  void forget();
  // Finds the written byte nearest to that of the conflict, in its partition or else at the same
  // place in another one. False: nothing in this memory is written there.
  bool nearest(const StrictConflict& from, StrictConflict& found) const;
  // The number of listed accesses, including those of states that no cell holds any more.
  size_t accesses() const { return items_.size(); }
  // The last writer of a byte; null: none.
  const StrictAccess* writer(unsigned column, unsigned partition, unsigned byte) const;

 private:
  static constexpr unsigned kQuadrant = 32;
  static constexpr unsigned kQuadrants = NEURON_PARTITIONS / kQuadrant;
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr uint32_t kStripe = uint32_t{1} << 31;  // set in the number of a stripe

  struct Item {
    uint64_t mask;
    StrictAccess access;
  };
  struct State {
    uint64_t bytes = 0;  // of all items
    uint32_t first = 0;
    uint16_t count = 0;
    uint16_t seen = 0;  // bit per engine that comes behind all items
  };
  // The last state that consists of one access of an actor; state 0: none.
  struct Single {
    uint64_t tick, mask;
    uint32_t state, pc;
    bool write;
  };
  // The step of one cell by an access, which transfers of many rows with one tick take again.
  struct RowStep {
    uint64_t tick = 0, mask = 0;
    uint32_t pc = 0;
    uint16_t actor = 0;
    bool write = false;
    uint32_t writers = 0, readers = 0;
    uint32_t next_writers = 0, next_readers = 0;
    bool is_of(const StrictAccess& access, bool by_write, uint64_t bytes, uint32_t from_writers,
               uint32_t from_readers) const;
  };
  using States = std::array<uint32_t, kQuadrant>;
  struct Stripe {
    States states;
    uint32_t uses;          // columns that have its number
    bool together;          // they are neighbours, from `begin` on
    const uint32_t* begin;  // the place of the first one's number
  };
  struct Plane {
    std::array<std::array<uint32_t, kColumns>, kQuadrants> numbers{};
  };
  class Interval;
  struct Pass;  // one access on its way through the cells

  bool run(Pass& pass, std::span<const StrictSegment> segments);
  bool run_quadrant(Pass& pass, const StrictSegment& segment, unsigned low, unsigned high);
  bool run_row(Pass& pass, const StrictSegment& segment);
  bool step_cells(Pass& pass, uint32_t writers, uint32_t readers, unsigned first, unsigned count);
  bool step_stripe(Pass& pass, uint32_t writers, uint32_t readers, unsigned first, unsigned count);
  bool step(Pass& pass, uint32_t writers, uint32_t readers);
  uint32_t after_read(Pass& pass, uint32_t readers);
  uint32_t without(uint32_t number, uint64_t mask);
  uint32_t with_write(Pass& pass, uint32_t writers);
  bool ordered(Pass& pass, uint32_t number, bool wrote);
  uint32_t single(Pass& pass);
  uint32_t add_state(const State& state);
  // The number of a quadrant's cells that were `before`, with `count` states of `states` from cell
  // `first` on.
  uint32_t with_states(uint32_t before, unsigned first, unsigned count, const uint32_t* states);
  void states_of(uint32_t number, unsigned first, unsigned count, uint32_t* states) const;
  // The state of one cell of those that have the number.
  uint32_t state_of(uint32_t number, unsigned cell) const {
    return (number & kStripe) == 0 ? number : stripes_[number & ~kStripe].states[cell];
  }
  uint32_t state_at(const Plane& plane, unsigned column, unsigned partition) const {
    return state_of(plane.numbers[partition / kQuadrant][column], partition % kQuadrant);
  }
  uint64_t not_by_pe(uint32_t number, uint64_t mask) const;
  void put(uint32_t* numbers, size_t n, uint32_t number);
  void put_state(uint32_t* numbers, size_t n, unsigned cell, uint32_t state);
  void collect();
  void collect_plane(Plane& plane, bool readers);

  const StrictClocks& clocks_;
  Plane writers_, readers_;
  std::vector<State> states_;
  std::vector<Item> items_;
  std::vector<Stripe> stripes_;
  std::vector<uint32_t> free_stripes_;  // numbers that no column has
  std::array<Single, StrictClocks::kActors> singles_{};
  std::array<RowStep, 256> row_steps_;
  size_t collect_at_;        // states
  size_t collect_items_at_;  // their accesses: many readers make long states
  // What collect() works on; kept for its memory.
  struct {
    std::vector<State> states;
    std::vector<Item> items;
    std::vector<uint32_t> moved;  // the new numbers of the old states, or kNone
    std::vector<bool> visited;    // stripes
  } old_;
};

}  // namespace neuron::core

#endif
