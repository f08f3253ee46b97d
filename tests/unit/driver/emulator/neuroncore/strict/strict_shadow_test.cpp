// SPDX-License-Identifier: Apache-2.0
// The shadow, which works on intervals of columns and shares states, against a model that keeps the
// last writer and the readers of each byte by itself.
#include "driver/emulator/neuroncore/strict/strict_shadow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "driver/emulator/neuroncore/strict/strict_clocks.h"
#include "hw/isa.h"

namespace neuron::core {
namespace {

constexpr unsigned kShadowColumns = 48;  // of the memory that the accesses share

// What each byte knows. Nothing is shared, and nothing is forgotten before it is overwritten.
class ByteModel {
 public:
  explicit ByteModel(const StrictClocks& clocks) : clocks_(clocks), bytes_(kBytes) {}

  StrictConflict::Kind conflict_at(const StrictAccess& access, bool write, size_t byte) const {
    const Byte& b = bytes_[byte];
    if (!write && !b.written) return StrictConflict::kUnwritten;
    if (b.written && !clocks_.ordered(b.writer.actor, b.writer.tick + 1, access.actor)) {
      return StrictConflict::kRace;
    }
    for (const StrictAccess& reader : b.readers) {
      if (write && !clocks_.ordered(reader.actor, reader.tick, access.actor)) {
        return StrictConflict::kRace;
      }
    }
    return StrictConflict::kNone;
  }
  void apply(const StrictAccess& access, bool write, size_t byte) {
    Byte& b = bytes_[byte];
    if (write) {
      b = {true, access, {}};
    } else {
      b.readers.push_back(access);
    }
  }
  bool written(size_t byte) const { return bytes_[byte].written; }
  uint32_t writer_pc(size_t byte) const { return bytes_[byte].writer.pc; }

  static size_t number(unsigned partition, unsigned column, unsigned byte) {
    return (size_t{partition} * kShadowColumns + column) * StrictShadow::kCellBytes + byte;
  }

 private:
  struct Byte {
    bool written = false;
    StrictAccess writer;
    std::vector<StrictAccess> readers;
  };
  static constexpr size_t kBytes =
      size_t{NEURON_PARTITIONS} * kShadowColumns * StrictShadow::kCellBytes;
  const StrictClocks& clocks_;
  std::vector<Byte> bytes_;
};

class Accesses {
 public:
  explicit Accesses(uint32_t seed) : random_(seed) {
    for (unsigned q = 0; q < kQueues; ++q) clocks_.queue(q);
    fills_ = seed % 4 != 0;
  }

  // Makes one access in both. False: both have found the same conflict, and no more is to come.
  bool make() {
    const bool queue = below(3) != 0;
    const unsigned actor = queue ? clocks_.queue(below(kQueues)).actor : below(3);
    if (below(150) != 0) clocks_.acquire(actor, 0);
    if (below(40) == 0) clocks_.raise_floor();
    StrictAccess access;
    access.actor = static_cast<uint16_t>(actor);
    access.pc = 1000 + actor;
    if (queue) {
      StrictClocks::Queue& q = clocks_.queue(clocks_.queue_of(actor));
      q.ringer.pc = below(2);
      access.pc = q.ringer.pc;
      access.tick = clocks_.advance_packet(q);
    } else {
      access.tick = clocks_.advance(actor);
    }
    const bool whole = count_ == 0 && fills_;  // all that is read later has been written
    const bool write = below(2) == 0 || whole;
    ++count_;
    // Rows of a tile by queues, whole tiles and strips of them by engines.
    unsigned first = below(8) == 0 ? below(NEURON_PARTITIONS) : 32 * below(4);
    unsigned parts = NEURON_PARTITIONS - first;
    if (queue) {
      first = below(NEURON_PARTITIONS);
      parts = 1;
    } else if (below(4) == 0) {
      parts = 1 + below(parts);
    }
    if (whole) first = 0, parts = NEURON_PARTITIONS;
    std::vector<StrictSegment> segments;
    unsigned column = 20 * below(2);
    for (unsigned n = 0; n < 1 + below(2) && column < kShadowColumns; ++n) {
      const unsigned count = below(3) == 0 ? 1 : std::min(20u, kShadowColumns - column);
      const uint64_t mask = below(3) == 0 ? 0x00FF00FF00FF00FFu << below(8) : ~uint64_t{0};
      segments.push_back({static_cast<uint16_t>(column), static_cast<uint16_t>(count), mask});
      column += count + below(5);
    }
    if (whole) segments = {{0, kShadowColumns, ~uint64_t{0}}};
    StrictConflict found;
    const bool good = write ? shadow_.write(access, first, first + parts, segments, found)
                            : shadow_.read(access, first, first + parts, segments, found);
    StrictConflict::Kind expected = StrictConflict::kNone;
    for_bytes(first, parts, segments, [&](size_t byte) {
      if (expected == StrictConflict::kNone) expected = model_.conflict_at(access, write, byte);
    });
    EXPECT_EQ(good, expected == StrictConflict::kNone);
    if (!good) {
      const size_t at = ByteModel::number(found.partition, found.column, found.byte);
      EXPECT_EQ(found.kind, model_.conflict_at(access, write, at));
      return false;
    }
    for_bytes(first, parts, segments, [&](size_t byte) { model_.apply(access, write, byte); });
    if (below(20) != 0) clocks_.release(actor, clocks_.tell(actor), 0);
    return true;
  }

  // The last writer of every byte is the same in both.
  void compare_writers() const {
    for (unsigned p = 0; p < NEURON_PARTITIONS; p += 7) {
      for (unsigned c = 0; c < kShadowColumns; ++c) {
        for (unsigned b = 0; b < StrictShadow::kCellBytes; b += 5) {
          const size_t byte = ByteModel::number(p, c, b);
          const StrictAccess* writer = shadow_.writer(c, p, b);
          ASSERT_EQ(writer != nullptr, model_.written(byte));
          if (writer != nullptr) {
            ASSERT_EQ(writer->pc, model_.writer_pc(byte));
          }
        }
      }
    }
  }

 private:
  static constexpr unsigned kQueues = 5;
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }
  template <class Use>
  static void for_bytes(unsigned first, unsigned parts, const std::vector<StrictSegment>& segments,
                        const Use& use) {
    for (const StrictSegment& segment : segments) {
      for (unsigned p = first; p < first + parts; ++p) {
        for (unsigned c = segment.column; c < segment.column + segment.count; ++c) {
          for (uint64_t mask = segment.mask; mask != 0; mask &= mask - 1) {
            use(ByteModel::number(p, c, static_cast<unsigned>(std::countr_zero(mask))));
          }
        }
      }
    }
  }

  std::mt19937 random_;
  StrictClocks clocks_;
  StrictShadow shadow_{clocks_};
  ByteModel model_{clocks_};
  unsigned count_ = 0;
  bool fills_ = false;
};

TEST(StrictShadow, FindsTheConflictsThatBytesFindEachByThemselves) {
  unsigned conflicts = 0, long_runs = 0;
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Accesses accesses(seed);
    unsigned made = 0;
    while (made < 60 && accesses.make()) ++made;
    if (made < 60) {
      ++conflicts;  // the shadow is not valid any more
    } else {
      ++long_runs;
      accesses.compare_writers();
    }
    if (HasFailure()) return;
  }
  // Both ends are met, so neither a shadow that never finds nor one that always does passes.
  EXPECT_GE(conflicts, 2u);
  EXPECT_GE(long_runs, 1u);
}

}  // namespace
}  // namespace neuron::core
