// SPDX-License-Identifier: Apache-2.0
//
// Derives which work must wait for which, from the memory that instructions and transfers read and
// write.
//
// Agents do the work: the five engines, each in its own order, and DMA, where every semaphore slot
// is an agent with at most one transfer in flight. A Point is one piece of work of an agent,
// counted from 1. Accesses finds the points whose memory a new piece of work overlaps (RAW, WAR,
// WAW over partitions and byte ranges). Knowledge holds which of them an engine already knows to be
// complete, directly or through others (a vector clock per engine), so that only the rest need
// waits. Callers: Program, in program order. Thread-safe: no. Cannot fail.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_ORDERING_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_ORDERING_H

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "hw/isa.h"
#include "tools/compiler/program_builder/access.h"

namespace neuron::builder {

using Agent = uint32_t;
inline constexpr Agent kFirstDmaAgent = NEURON_CORE_ENGINES;

struct Point {
  Agent agent = 0;
  uint32_t sequence = 0;  // From 1
  uint64_t issue = 0;     // Place in the order of the whole program
};

// Bytes [first, end) of partitions [start, start + parts), or of the HBM buffer `start`.
struct Region {
  static constexpr uint8_t kHbm = 3;  // Beside enum neuron_space
  uint8_t space = NEURON_SPACE_ABSENT;
  uint32_t start = 0;
  uint32_t parts = 0;
  uint64_t first = 0;
  uint64_t end = 0;
  int64_t advance = 0;  // Bytes that it moves with each round of a loop
  // Only the first `run` bytes of every `pitch`; 0: all bytes. Blocks of columns of one matrix then
  // do not overlap.
  uint64_t run = 0, pitch = 0;
  // How it moves with loops around the innermost one. Regions that move alike are compared in the
  // same round, others with all bytes that they may reach: `below` more in front, `above` behind.
  Motions motions;
  uint64_t below = 0, above = 0;

  uint64_t first_reached() const { return first - below; }
  uint64_t end_reached() const { return end + above; }
  // In round `number` of the loop, and in `rounds` rounds together.
  Region in_round(int64_t number) const;
  Region spanning(uint32_t rounds) const;
  bool overlaps(const Region& other) const;
  bool contains(const Region& other) const;
};

// Who accesses a memory: one HBM buffer, SBUF, or PSUM. What a region overlaps is found by its
// place: entries are kept by size, in powers of two, and of one size by their first byte. So only
// as many bytes in front of a region are looked at as entries of that size have.
class AccessMap {
 public:
  struct Entry {
    Region region;
    Point point;
  };

  void add(const Region& region, const Point& point);
  // Calls look(entry) for each entry that may overlap the region.
  template <typename Look>
  void near(const Region& region, Look look) const;
  // True if `is` holds for an entry that may overlap the region. It is asked until it does.
  bool any_near(const Region& region, const std::function<bool(const Entry&)>& is) const;
  // Removes those for which remove(entry) is true, among entries that may overlap the region.
  template <typename Remove>
  void erase(const Region& region, Remove remove);

 private:
  using BySize = std::map<uint32_t, std::multimap<uint64_t, Entry>>;
  BySize entries_;
};

class Accesses {
 public:
  // Points that must be complete before `region` is read or written.
  void conflicts(const Region& region, bool write, std::vector<Point>& points) const;
  void record(const Region& region, bool write, const Point& point);
  // All work is complete and known.
  void clear() { memories_.clear(); }

 private:
  struct Memory {
    AccessMap reads, writes;
  };
  // A space, and in HBM the buffer.
  using Place = std::pair<uint8_t, uint32_t>;
  static Place place_of(const Region& region) {
    return {region.space, region.space == Region::kHbm ? region.start : 0};
  }
  std::map<Place, Memory> memories_;
};

class Knowledge {
 public:
  using Clock = std::vector<uint32_t>;  // Agent to the last point known to be complete

  bool knows(unsigned engine, const Point& point) const;
  // The engine waits for the point: it now knows what the point's agent knew, too. An engine's
  // work counts as having followed all that the engine knew when it was issued.
  void wait(unsigned engine, const Point& point);
  // The point starts with what `engine` knows now.
  void start(unsigned engine, const Point& point);
  // All engines know all of this.
  void meet(Clock clock);

 private:
  using Shared = std::shared_ptr<const Clock>;
  const Clock& clock_of(const Point& point) const;

  static const Clock kNothing;
  std::array<Shared, NEURON_CORE_ENGINES> now_;
  // For each agent: the points at which the knowledge that it started with changed.
  std::map<Agent, std::vector<std::pair<uint32_t, Shared>>> history_;
};

}  // namespace neuron::builder

#endif
