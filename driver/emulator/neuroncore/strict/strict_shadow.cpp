// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/strict/strict_shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace neuron::core {
namespace {

constexpr size_t kCellNumbers = size_t{StrictShadow::kColumns} * NEURON_PARTITIONS;
constexpr size_t kCollectAt = size_t{1} << 15;
constexpr size_t kCollectItemsAt = size_t{1} << 18;

uint32_t* map_cells() {
  void* memory = mmap(nullptr, kCellNumbers * sizeof(uint32_t), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<uint32_t*>(memory);
}

}  // namespace

struct StrictShadow::Pass {
  const StrictAccess& access;
  const bool write;
  const unsigned first, end;
  StrictConflict& conflict;
  uint64_t mask = 0;
  uint32_t single = 0;  // the state of this access alone, with `single_mask`
  uint64_t single_mask = 0;
  Step last{};
  QuadrantStep whole;

  Pass(const StrictAccess& who, bool writes, unsigned from, unsigned to, StrictConflict& found)
      : access(who), write(writes), first(from), end(to), conflict(found) {
    forget_steps();
  }
  void forget_steps() {
    last.writers = last.readers = kMixed;
    whole.valid = false;
  }
};

StrictShadow::StrictShadow(const StrictClocks& clocks)
    : clocks_(clocks), states_(1), collect_at_(kCollectAt), collect_items_at_(kCollectItemsAt) {
  writers_.cells = map_cells();
  readers_.cells = map_cells();
}

StrictShadow::~StrictShadow() {
  if (writers_.cells != nullptr) munmap(writers_.cells, kCellNumbers * sizeof(uint32_t));
  if (readers_.cells != nullptr) munmap(readers_.cells, kCellNumbers * sizeof(uint32_t));
}

void StrictShadow::forget() {
  for (Plane* plane : {&writers_, &readers_}) {
    for (auto& column : plane->quadrants) column.fill(0);
  }
  states_.resize(1);
  items_.clear();
}

bool StrictShadow::read(const StrictAccess& access, unsigned first, unsigned end,
                        std::span<const StrictSegment> segments, StrictConflict& conflict) {
  Pass pass(access, false, first, end, conflict);
  return run(pass, segments);
}

bool StrictShadow::write(const StrictAccess& access, unsigned first, unsigned end,
                         std::span<const StrictSegment> segments, StrictConflict& conflict) {
  Pass pass(access, true, first, end, conflict);
  return run(pass, segments);
}

bool StrictShadow::run(Pass& pass, std::span<const StrictSegment> segments) {
  if (states_.size() >= collect_at_ || items_.size() >= collect_items_at_) [[unlikely]] {
    collect();
  }
  for (const StrictSegment& segment : segments) {
    if (pass.mask != segment.mask) {
      pass.mask = segment.mask;
      pass.forget_steps();
    }
    if (pass.end - pass.first == 1) {
      if (!run_row(pass, segment)) return false;
      continue;
    }
    for (unsigned low = pass.first; low < pass.end;) {
      const unsigned high = std::min(pass.end, (low / kQuadrant + 1) * kQuadrant);
      if (!run_quadrant(pass, segment, low, high)) return false;
      low = high;
    }
  }
  return true;
}

// Applies the access to partitions [low, high) of one quadrant.
bool StrictShadow::run_quadrant(Pass& pass, const StrictSegment& segment, unsigned low,
                                unsigned high) {
  const unsigned quadrant = low / kQuadrant;
  const bool whole = high - low == kQuadrant;
  pass.whole.valid = false;
  Step& last = pass.last;
  for (unsigned column = segment.column; column < segment.column + segment.count; ++column) {
    uint32_t& writers = writers_.quadrants[quadrant][column];
    uint32_t& readers = readers_.quadrants[quadrant][column];
    if (!whole || writers == kMixed || readers == kMixed) {
      if (step_mixed(pass, column, quadrant, low, high)) continue;
      pass.conflict.column = column;
      return false;
    }
    if ((writers != last.writers || readers != last.readers) && !step(pass, writers, readers)) {
      pass.conflict.column = column;
      pass.conflict.partition = low;
      return false;
    }
    writers = last.next_writers;
    readers = last.next_readers;
  }
  return true;
}

bool StrictShadow::step_mixed(Pass& pass, unsigned column, unsigned quadrant, unsigned low,
                              unsigned high) {
  const unsigned count = high - low;
  const unsigned first = low % kQuadrant;
  QuadrantStep& now = pass.whole;
  std::array<uint32_t, kQuadrant> writers;
  std::array<uint32_t, kQuadrant> readers;
  const auto gather = [&](const Plane& plane, std::array<uint32_t, kQuadrant>& to) {
    const uint32_t all = plane.quadrants[quadrant][column];
    if (all != kMixed) {
      std::fill_n(to.begin(), count, all);
    } else {
      std::copy_n(row(plane, column, quadrant) + first, count, to.begin());
    }
  };
  gather(writers_, writers);
  gather(readers_, readers);
  const size_t bytes = count * sizeof(uint32_t);
  if (!now.valid || std::memcmp(writers.data(), now.writers.data(), bytes) != 0 ||
      std::memcmp(readers.data(), now.readers.data(), bytes) != 0) {
    now.valid = false;
    const Step& last = pass.last;
    for (unsigned p = 0; p < count; ++p) {
      if ((writers[p] != last.writers || readers[p] != last.readers) &&
          !step(pass, writers[p], readers[p])) {
        pass.conflict.partition = low + p;
        return false;
      }
      now.next_writers[p] = last.next_writers;
      now.next_readers[p] = last.next_readers;
    }
    now.writers = writers;
    now.readers = readers;
    now.valid = true;
  }
  if (pass.write) {
    put(writers_, column, quadrant, low, high, writers.data(), now.next_writers.data());
  }
  put(readers_, column, quadrant, low, high, readers.data(), now.next_readers.data());
  return true;
}

// Applies the access to one partition, as transfers need.
bool StrictShadow::run_row(Pass& pass, const StrictSegment& segment) {
  const unsigned quadrant = pass.first / kQuadrant;
  const unsigned partition = pass.first % kQuadrant;
  const Step& last = pass.last;
  for (unsigned column = segment.column; column < segment.column + segment.count; ++column) {
    const uint32_t all_writers = writers_.quadrants[quadrant][column];
    const uint32_t all_readers = readers_.quadrants[quadrant][column];
    uint32_t& writer = row(writers_, column, quadrant)[partition];
    uint32_t& reader = row(readers_, column, quadrant)[partition];
    const uint32_t writers = all_writers != kMixed ? all_writers : writer;
    const uint32_t readers = all_readers != kMixed ? all_readers : reader;
    if ((writers != last.writers || readers != last.readers) && !step(pass, writers, readers)) {
      pass.conflict.column = column;
      pass.conflict.partition = pass.first;
      return false;
    }
    if (last.next_writers != writers) {
      spread(writers_, column, quadrant);
      writer = last.next_writers;
    }
    if (last.next_readers != readers) {
      spread(readers_, column, quadrant);
      reader = last.next_readers;
    }
  }
  return true;
}

uint32_t StrictShadow::state_at(const Plane& plane, unsigned column, unsigned partition) const {
  const unsigned quadrant = partition / kQuadrant;
  const uint32_t all = plane.quadrants[quadrant][column];
  return all != kMixed ? all : row(plane, column, quadrant)[partition % kQuadrant];
}

// Gives the quadrant's cells numbers of their own.
void StrictShadow::spread(Plane& plane, unsigned column, unsigned quadrant) {
  uint32_t& all = plane.quadrants[quadrant][column];
  if (all == kMixed) return;
  std::fill_n(row(plane, column, quadrant), kQuadrant, all);
  all = kMixed;
}

void StrictShadow::put(Plane& plane, unsigned column, unsigned quadrant, unsigned low,
                       unsigned high, const uint32_t* before, const uint32_t* after) {
  const unsigned count = high - low;
  if (count == kQuadrant &&
      std::memcmp(after, after + 1, (kQuadrant - 1) * sizeof(uint32_t)) == 0) {
    plane.quadrants[quadrant][column] = after[0];
    return;
  }
  if (std::memcmp(before, after, count * sizeof(uint32_t)) == 0) return;
  spread(plane, column, quadrant);
  std::copy_n(after, count, row(plane, column, quadrant) + low % kQuadrant);
}

// Computes the next pair of states from a pair of states.
bool StrictShadow::step(Pass& pass, uint32_t writers, uint32_t readers) {
  Step& last = pass.last;
  if (!pass.write) {
    const uint64_t unwritten = pass.mask & ~states_[writers].bytes;
    if (unwritten != 0) {
      pass.conflict.kind = StrictConflict::kUnwritten;
      pass.conflict.byte = static_cast<unsigned>(std::countr_zero(unwritten));
      return false;
    }
    if (!ordered(pass, writers, true)) return false;
    last.next_writers = writers;
    last.next_readers = after_read(pass, readers);
  } else {
    if (!ordered(pass, writers, true) || !ordered(pass, readers, false)) return false;
    last.next_writers = with_write(pass, writers);
    last.next_readers = without(readers, pass.mask);
  }
  last.writers = writers;
  last.readers = readers;
  return true;
}

// Whether the access is ordered behind all accesses of the state that it shares bytes with.
bool StrictShadow::ordered(Pass& pass, uint32_t number, bool wrote) {
  State& state = states_[number];
  const unsigned actor = pass.access.actor;
  if (actor < NEURON_CORE_ENGINES && (state.seen >> actor & 1) != 0) return true;
  bool all = true;
  for (unsigned n = 0; n < state.count; ++n) {
    const Item& item = items_[state.first + n];
    const uint64_t tick = item.access.tick + (wrote ? 1 : 0);
    if (clocks_.ordered(item.access.actor, tick, actor)) continue;
    const uint64_t shared = item.mask & pass.mask;
    if (shared == 0) {
      all = false;
      continue;
    }
    pass.conflict.kind = StrictConflict::kRace;
    pass.conflict.has_other = true;
    pass.conflict.other = item.access;
    pass.conflict.other_wrote = wrote;
    pass.conflict.byte = static_cast<unsigned>(std::countr_zero(shared));
    return false;
  }
  if (all && actor < NEURON_CORE_ENGINES) state.seen |= static_cast<uint16_t>(1u << actor);
  return true;
}

uint32_t StrictShadow::add_state(const State& state) {
  states_.push_back(state);
  return static_cast<uint32_t>(states_.size() - 1);
}

// The state that consists of this access alone.
uint32_t StrictShadow::single(Pass& pass) {
  if (pass.single == 0 || pass.single_mask != pass.mask) {
    State state{pass.mask, static_cast<uint32_t>(items_.size()), 1, 0};
    items_.push_back({pass.mask, pass.access});
    pass.single = add_state(state);
    pass.single_mask = pass.mask;
  }
  return pass.single;
}

// Replaces the readers that this one is ordered behind: an access that is unordered with them is
// also unordered with this one.
uint32_t StrictShadow::after_read(Pass& pass, uint32_t readers) {
  const State before = states_[readers];
  State state{0, static_cast<uint32_t>(items_.size()), 0, 0};
  for (unsigned n = 0; n < before.count; ++n) {
    Item item = items_[before.first + n];
    if (clocks_.ordered(item.access.actor, item.access.tick, pass.access.actor)) {
      item.mask &= ~pass.mask;
    }
    if (item.mask == 0 || clocks_.behind_floor(item.access.actor, item.access.tick)) continue;
    items_.push_back(item);
    state.bytes |= item.mask;
    ++state.count;
  }
  if (state.count == 0) return single(pass);
  items_.push_back({pass.mask, pass.access});
  state.bytes |= pass.mask;
  ++state.count;
  return add_state(state);
}

// The state without the accesses to some bytes.
uint32_t StrictShadow::without(uint32_t number, uint64_t mask) {
  const State before = states_[number];
  if ((before.bytes & mask) == 0) return number;
  if ((before.bytes & ~mask) == 0) return 0;
  State state{before.bytes & ~mask, static_cast<uint32_t>(items_.size()), 0, 0};
  for (unsigned n = 0; n < before.count; ++n) {
    Item item = items_[before.first + n];
    item.mask &= ~mask;
    if (item.mask == 0) continue;
    items_.push_back(item);
    ++state.count;
  }
  return add_state(state);
}

uint32_t StrictShadow::with_write(Pass& pass, uint32_t writers) {
  const State before = states_[writers];
  if ((before.bytes & ~pass.mask) == 0) return single(pass);
  State state{before.bytes | pass.mask, static_cast<uint32_t>(items_.size()), 1, 0};
  items_.push_back({pass.mask, pass.access});
  for (unsigned n = 0; n < before.count; ++n) {
    Item item = items_[before.first + n];
    item.mask &= ~pass.mask;
    if (item.mask == 0) continue;
    items_.push_back(item);
    ++state.count;
  }
  return add_state(state);
}

bool StrictShadow::written_by_pe(unsigned first, unsigned end,
                                 std::span<const StrictSegment> segments,
                                 StrictConflict& conflict) {
  for (const StrictSegment& segment : segments) {
    uint32_t good = kMixed;  // the last number found to be written by the PE
    for (unsigned column = segment.column; column < segment.column + segment.count; ++column) {
      for (unsigned p = first; p < end;) {
        const bool uniform = writers_.quadrants[p / kQuadrant][column] != kMixed;
        const uint32_t number = state_at(writers_, column, p);
        const unsigned partition = p;
        p = uniform ? (p / kQuadrant + 1) * kQuadrant : p + 1;
        if (number == good) continue;
        uint64_t others = segment.mask;
        const State& state = states_[number];
        for (unsigned n = 0; n < state.count; ++n) {
          const Item& item = items_[state.first + n];
          if (item.access.actor == NEURON_ENGINE_PE) others &= ~item.mask;
        }
        if (others == 0) {
          good = number;
          continue;
        }
        conflict.kind = StrictConflict::kNotPe;
        conflict.column = column;
        conflict.partition = partition;
        conflict.byte = static_cast<unsigned>(std::countr_zero(others));
        conflict.other_wrote = true;
        const StrictAccess* other = writer(column, partition, conflict.byte);
        conflict.has_other = other != nullptr;
        if (other != nullptr) conflict.other = *other;
        return false;
      }
    }
  }
  return true;
}

const StrictAccess* StrictShadow::writer(unsigned column, unsigned partition, unsigned byte) const {
  const State& state = states_[state_at(writers_, column, partition)];
  for (unsigned n = 0; n < state.count; ++n) {
    const Item& item = items_[state.first + n];
    if ((item.mask >> byte & 1) != 0) return &item.access;
  }
  return nullptr;
}

bool StrictShadow::nearest(const StrictConflict& from, StrictConflict& found) const {
  const bool psum = from.column >= kSbufColumns;
  const unsigned low = psum ? kSbufColumns : 0;
  const unsigned high = psum ? kColumns : kSbufColumns;
  const auto take = [&](unsigned column, unsigned partition, unsigned byte) {
    const StrictAccess* other = writer(column, partition, byte);
    if (other == nullptr) return false;
    found = from;
    found.column = column;
    found.partition = partition;
    found.byte = byte;
    found.has_other = true;
    found.other = *other;
    return true;
  };
  const int at = static_cast<int>(from.column * kCellBytes + from.byte);
  const int reach = static_cast<int>((high - low) * kCellBytes);
  for (int distance = 1; distance < reach; ++distance) {
    for (const int byte : {at - distance, at + distance}) {
      if (byte < static_cast<int>(low * kCellBytes) ||
          byte >= static_cast<int>(high * kCellBytes)) {
        continue;
      }
      const auto position = static_cast<unsigned>(byte);
      if (take(position / kCellBytes, from.partition, position % kCellBytes)) return true;
    }
  }
  for (unsigned distance = 1; distance < NEURON_PARTITIONS; ++distance) {
    if (distance <= from.partition && take(from.column, from.partition - distance, from.byte)) {
      return true;
    }
    if (from.partition + distance < NEURON_PARTITIONS &&
        take(from.column, from.partition + distance, from.byte)) {
      return true;
    }
  }
  return false;
}

// Keeps the states that cells hold. Readers from before the floor can conflict with nothing.
void StrictShadow::collect() {
  std::vector<State> states(1);
  std::vector<Item> items;
  states.swap(states_);
  items.swap(items_);
  std::vector<uint32_t> moved(states.size(), kMixed);
  moved[0] = 0;
  collect_plane(writers_, states, items, moved, false);
  collect_plane(readers_, states, items, moved, true);
  collect_at_ = std::max(kCollectAt, states_.size() * 2);
  collect_items_at_ = std::max(kCollectItemsAt, items_.size() * 2);
}

void StrictShadow::collect_plane(Plane& plane, const std::vector<State>& states,
                                 const std::vector<Item>& items, std::vector<uint32_t>& moved,
                                 bool readers) {
  const auto keep = [&](uint32_t& number) {
    uint32_t& to = moved[number];
    if (to == kMixed) {
      const State& before = states[number];
      State state{0, static_cast<uint32_t>(items_.size()), 0, before.seen};
      for (unsigned n = 0; n < before.count; ++n) {
        const Item& item = items[before.first + n];
        if (readers && clocks_.behind_floor(item.access.actor, item.access.tick)) continue;
        items_.push_back(item);
        state.bytes |= item.mask;
        ++state.count;
      }
      to = state.count == 0 ? 0 : add_state(state);
    }
    number = to;
  };
  for (unsigned quadrant = 0; quadrant < kQuadrants; ++quadrant) {
    for (unsigned column = 0; column < kColumns; ++column) {
      uint32_t& all = plane.quadrants[quadrant][column];
      if (all != kMixed) {
        keep(all);
        continue;
      }
      uint32_t* cells = row(plane, column, quadrant);
      for (unsigned p = 0; p < kQuadrant; ++p) keep(cells[p]);
    }
  }
}

}  // namespace neuron::core
