// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/strict/strict_shadow.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "driver/base/abandonment.h"

namespace neuron::core {
namespace {

constexpr size_t kCollectAt = size_t{1} << 13;
constexpr size_t kCollectItemsAt = size_t{1} << 16;

// Four numbers at a time, in the vectors that every x86-64 has.
using Four = uint32_t __attribute__((vector_size(16)));
using Halves = uint64_t __attribute__((vector_size(16)));

Four load_four(const uint32_t* numbers) {
  Four four;
  std::memcpy(&four, numbers, sizeof(four));
  return four;
}

// How many of the n numbers are equal to the first one.
size_t equal_numbers(const uint32_t* numbers, size_t n) {
  const uint32_t value = numbers[0];
  // The C library compares in the widest vectors that this processor has.
  constexpr size_t kLong = 32;
  if (n >= kLong && numbers[n - 1] == value &&
      std::memcmp(numbers, numbers + 1, (n - 1) * sizeof(uint32_t)) == 0) {
    return n;
  }
  const Four four = {value, value, value, value};
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const Four a = load_four(numbers + i) ^ four;
    const Four b = load_four(numbers + i + 4) ^ four;
    const Four c = load_four(numbers + i + 8) ^ four;
    const Four d = load_four(numbers + i + 12) ^ four;
    const auto different = (Halves)((a | b) | (c | d));
    if ((different[0] | different[1]) != 0) break;
  }
  for (; i + 4 <= n; i += 4) {
    const auto different = (Halves)(load_four(numbers + i) ^ four);
    if ((different[0] | different[1]) != 0) break;
  }
  while (i < n && numbers[i] == value) ++i;
  return i;
}

void fill_numbers(uint32_t* numbers, size_t n, uint32_t value) {
  const Four four = {value, value, value, value};
  for (; n >= 4; n -= 4, numbers += 4) std::memcpy(numbers, &four, sizeof(four));
  for (; n != 0; --n) *numbers++ = value;
}

}  // namespace

bool StrictShadow::RowStep::is_of(const StrictAccess& access, bool by_write, uint64_t bytes,
                                  uint32_t from_writers, uint32_t from_readers) const {
  return tick == access.tick && actor == access.actor && pc == access.pc && write == by_write &&
         mask == bytes && writers == from_writers && readers == from_readers;
}

struct StrictShadow::Pass {
  // From one pair of states to the next.
  struct Step {
    uint32_t writers, readers;
    uint32_t next_writers, next_readers;
  };
  // The same for `count` of the cells of a quadrant, from `first` on.
  struct StripeStep {
    uint32_t writers, readers;
    unsigned first, count;
    uint32_t next_writers, next_readers;
    States writer_states, reader_states;
  };

  const StrictAccess& access;
  const bool write;
  const unsigned first, end;
  StrictConflict& conflict;
  uint64_t mask = 0;
  Step last;
  StripeStep stripe;
  // Steps inside stripes, by their writers: transfers leave some states in turn.
  std::array<Step, 16> steps;
  bool has_steps = false;
  uint32_t next_writers = 0, next_readers = 0;  // what the last step of cells gave

  Pass(const StrictAccess& who, bool writes, unsigned from, unsigned to, StrictConflict& found)
      : access(who), write(writes), first(from), end(to), conflict(found) {
    forget_steps();
  }
  void forget_steps() {
    last.writers = last.readers = stripe.writers = stripe.readers = kNone;
    has_steps = false;
  }
};

// Intervals of columns in which both the writers' and the readers' numbers are equal.
class StrictShadow::Interval {
 public:
  Interval(const StrictShadow& shadow, const uint32_t* writers, const uint32_t* readers, size_t n)
      : shadow_(shadow), writers_(writers), readers_(readers), n_(n) {}
  // How many columns from `at` on form one. What lies before `at` may have changed.
  size_t equal_from(size_t at) {
    if (at >= writers_end_) writers_end_ = at + equal(writers_ + at, n_ - at);
    if (at >= readers_end_) readers_end_ = at + equal(readers_ + at, n_ - at);
    return std::min(writers_end_, readers_end_) - at;
  }

 private:
  // Stripes know where they are; states are looked for.
  size_t equal(const uint32_t* numbers, size_t n) const {
    if ((numbers[0] & kStripe) != 0) {
      const Stripe& stripe = shadow_.stripes_[numbers[0] & ~kStripe];
      if (stripe.together) {
        return std::min(n, static_cast<size_t>(stripe.begin + stripe.uses - numbers));
      }
    }
    return equal_numbers(numbers, n);
  }

  const StrictShadow& shadow_;
  const uint32_t* writers_;
  const uint32_t* readers_;
  size_t n_;
  size_t writers_end_ = 0, readers_end_ = 0;
};

StrictShadow::StrictShadow(const StrictClocks& clocks)
    : clocks_(clocks), states_(1), collect_at_(kCollectAt), collect_items_at_(kCollectItemsAt) {}

void StrictShadow::forget() {
  for (Plane* plane : {&writers_, &readers_}) {
    for (auto& column : plane->numbers) column.fill(0);
  }
  states_.resize(1);
  items_.clear();
  stripes_.clear();
  free_stripes_.clear();
  singles_.fill({});
  row_steps_.fill({});
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
      base::Abandonment::look();
      const unsigned high = std::min(pass.end, (low / kQuadrant + 1) * kQuadrant);
      if (!run_quadrant(pass, segment, low, high)) return false;
      low = high;
    }
  }
  return true;
}

// Applies the access to partitions [low, high) of one quadrant, an interval of equal numbers at a
// time.
bool StrictShadow::run_quadrant(Pass& pass, const StrictSegment& segment, unsigned low,
                                unsigned high) {
  const unsigned quadrant = low / kQuadrant;
  uint32_t* writers = writers_.numbers[quadrant].data() + segment.column;
  uint32_t* readers = readers_.numbers[quadrant].data() + segment.column;
  Interval interval(*this, writers, readers, segment.count);
  for (size_t at = 0; at < segment.count;) {
    const uint32_t wrote = writers[at];
    const uint32_t read = readers[at];
    const size_t equal = interval.equal_from(at);
    if (!step_cells(pass, wrote, read, low % kQuadrant, high - low)) {
      pass.conflict.column = segment.column + static_cast<unsigned>(at);
      pass.conflict.partition += quadrant * kQuadrant;
      return false;
    }
    if (pass.next_writers != wrote) put(writers + at, equal, pass.next_writers);
    if (pass.next_readers != read) put(readers + at, equal, pass.next_readers);
    at += equal;
  }
  return true;
}

// The same for one partition, as transfers need.
bool StrictShadow::run_row(Pass& pass, const StrictSegment& segment) {
  const unsigned quadrant = pass.first / kQuadrant;
  const unsigned cell = pass.first % kQuadrant;
  uint32_t* writers = writers_.numbers[quadrant].data() + segment.column;
  uint32_t* readers = readers_.numbers[quadrant].data() + segment.column;
  Interval interval(*this, writers, readers, segment.count);
  for (size_t at = 0; at < segment.count;) {
    const size_t equal = interval.equal_from(at);
    const uint32_t wrote = state_of(writers[at], cell);
    const uint32_t read = state_of(readers[at], cell);
    RowStep& last = row_steps_[(pass.access.actor * 5 + wrote * 3 + read) % row_steps_.size()];
    if (!last.is_of(pass.access, pass.write, pass.mask, wrote, read)) {
      if (!step(pass, wrote, read)) {
        pass.conflict.column = segment.column + static_cast<unsigned>(at);
        pass.conflict.partition = pass.first;
        return false;
      }
      last = {pass.access.tick,
              pass.mask,
              pass.access.pc,
              pass.access.actor,
              pass.write,
              wrote,
              read,
              pass.last.next_writers,
              pass.last.next_readers};
    }
    if (last.next_writers != wrote) put_state(writers + at, equal, cell, last.next_writers);
    if (last.next_readers != read) put_state(readers + at, equal, cell, last.next_readers);
    at += equal;
  }
  return true;
}

// Gives n columns, which have one number, another one.
void StrictShadow::put(uint32_t* numbers, size_t n, uint32_t number) {
  const auto count = static_cast<uint32_t>(n);
  if ((number & kStripe) != 0) {
    Stripe& stripe = stripes_[number & ~kStripe];
    if (stripe.uses == 0) {
      stripe.together = true;
      stripe.begin = numbers;
    } else if (stripe.begin + stripe.uses != numbers) {
      stripe.together = false;
    }
    stripe.uses += count;
  }
  const uint32_t before = numbers[0];
  fill_numbers(numbers, n, number);
  if ((before & kStripe) == 0) return;
  Stripe& stripe = stripes_[before & ~kStripe];
  if (stripe.begin == numbers) {
    stripe.begin += n;
  } else if (stripe.begin + stripe.uses != numbers + n) {
    stripe.together = false;
  }
  stripe.uses -= count;
  if (stripe.uses == 0) free_stripes_.push_back(before);
}

// Changes the state of one cell of n columns that have one number: in place if no others have it.
void StrictShadow::put_state(uint32_t* numbers, size_t n, unsigned cell, uint32_t state) {
  const uint32_t before = numbers[0];
  if ((before & kStripe) == 0 || stripes_[before & ~kStripe].uses != n) {
    return put(numbers, n, with_states(before, cell, 1, &state));
  }
  States& states = stripes_[before & ~kStripe].states;
  states[cell] = state;
  // Looks at three of the others first: a row that makes all 32 equal is rare.
  if (states[cell ^ 1] != state || states.front() != state || states.back() != state) return;
  if (equal_numbers(states.data(), kQuadrant) == kQuadrant) put(numbers, n, state);
}

// Computes the next pair of numbers of a quadrant's cells, of which the access concerns `count`.
// False: the conflict's partition is that in the quadrant.
bool StrictShadow::step_cells(Pass& pass, uint32_t writers, uint32_t readers, unsigned first,
                              unsigned count) {
  if (((writers | readers) & kStripe) != 0 || count != kQuadrant) {
    return step_stripe(pass, writers, readers, first, count);
  }
  const Pass::Step& last = pass.last;
  if ((writers != last.writers || readers != last.readers) && !step(pass, writers, readers)) {
    pass.conflict.partition = first;
    return false;
  }
  pass.next_writers = last.next_writers;
  pass.next_readers = last.next_readers;
  return true;
}

bool StrictShadow::step_stripe(Pass& pass, uint32_t writers, uint32_t readers, unsigned first,
                               unsigned count) {
  Pass::StripeStep& now = pass.stripe;
  const bool same_cells = now.first == first && now.count == count && now.writers != kNone;
  if (!same_cells || now.writers != writers || now.readers != readers) {
    States before_writers, before_readers;
    states_of(writers, first, count, before_writers.data());
    states_of(readers, first, count, before_readers.data());
    const size_t bytes = count * sizeof(uint32_t);
    const bool known = same_cells && count == kQuadrant &&
                       std::memcmp(before_writers.data(), now.writer_states.data(), bytes) == 0 &&
                       std::memcmp(before_readers.data(), now.reader_states.data(), bytes) == 0;
    now.writers = kNone;
    if (!known) {
      States after_writers, after_readers;
      if (!pass.has_steps) {
        pass.steps.fill({kNone, kNone, kNone, kNone});
        pass.has_steps = true;
      }
      for (unsigned n = 0; n < count; ++n) {
        const uint32_t wrote = before_writers[n];
        const uint32_t read = before_readers[n];
        Pass::Step& last = pass.steps[wrote % pass.steps.size()];
        if (wrote != last.writers || read != last.readers) {
          if (!step(pass, wrote, read)) {
            pass.conflict.partition = first + n;
            return false;
          }
          last = pass.last;
        }
        after_writers[n] = last.next_writers;
        after_readers[n] = last.next_readers;
      }
      now.next_writers =
          pass.write ? with_states(writers, first, count, after_writers.data()) : writers;
      now.next_readers = with_states(readers, first, count, after_readers.data());
      now.writer_states = before_writers;
      now.reader_states = before_readers;
    }
    now.writers = writers;
    now.readers = readers;
    now.first = first;
    now.count = count;
  }
  pass.next_writers = now.next_writers;
  pass.next_readers = now.next_readers;
  return true;
}

void StrictShadow::states_of(uint32_t number, unsigned first, unsigned count,
                             uint32_t* states) const {
  if ((number & kStripe) != 0) {
    std::memcpy(states, stripes_[number & ~kStripe].states.data() + first,
                count * sizeof(uint32_t));
  } else {
    fill_numbers(states, count, number);
  }
}

uint32_t StrictShadow::with_states(uint32_t before, unsigned first, unsigned count,
                                   const uint32_t* states) {
  States all;
  states_of(before, 0, kQuadrant, all.data());
  const size_t bytes = count * sizeof(uint32_t);
  if (std::memcmp(all.data() + first, states, bytes) == 0) return before;
  std::memcpy(all.data() + first, states, bytes);
  if (equal_numbers(all.data(), kQuadrant) == kQuadrant) return all[0];
  if (free_stripes_.empty()) {
    stripes_.push_back({all, 0, false, nullptr});
    return static_cast<uint32_t>(stripes_.size() - 1) | kStripe;
  }
  const uint32_t number = free_stripes_.back();
  free_stripes_.pop_back();
  stripes_[number & ~kStripe].states = all;
  return number;
}

// Computes the next pair of states from a pair of states.
bool StrictShadow::step(Pass& pass, uint32_t writers, uint32_t readers) {
  Pass::Step& last = pass.last;
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

// The state that consists of this access alone. Accesses of one actor with the same tick share it.
uint32_t StrictShadow::single(Pass& pass) {
  Single& last = singles_[pass.access.actor];
  if (last.state == 0 || last.tick != pass.access.tick || last.mask != pass.mask ||
      last.write != pass.write || last.pc != pass.access.pc) {
    State state{pass.mask, static_cast<uint32_t>(items_.size()), 1, 0};
    items_.push_back({pass.mask, pass.access});
    last = {pass.access.tick, pass.mask, add_state(state), pass.access.pc, pass.write};
  }
  return last.state;
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

// Keeps the states that cells hold. Readers from before the floor can conflict with nothing.
void StrictShadow::collect() {
  singles_.fill({});
  row_steps_.fill({});
  old_.states.assign(1, {});
  old_.items.clear();
  old_.states.swap(states_);
  old_.items.swap(items_);
  old_.moved.assign(old_.states.size(), kNone);
  old_.moved[0] = 0;
  old_.visited.assign(stripes_.size(), false);
  collect_plane(writers_, false);
  collect_plane(readers_, true);
  collect_at_ = std::max(kCollectAt, states_.size() * 2);
  collect_items_at_ = std::max(kCollectItemsAt, items_.size() * 2);
}

void StrictShadow::collect_plane(Plane& plane, bool readers) {
  const auto move = [&](uint32_t number) {
    uint32_t& to = old_.moved[number];
    if (to != kNone) return to;
    const State& before = old_.states[number];
    State after{0, static_cast<uint32_t>(items_.size()), 0, before.seen};
    for (unsigned n = 0; n < before.count; ++n) {
      const Item& item = old_.items[before.first + n];
      if (readers && clocks_.behind_floor(item.access.actor, item.access.tick)) continue;
      items_.push_back(item);
      after.bytes |= item.mask;
      ++after.count;
    }
    return to = after.count == 0 ? 0 : add_state(after);
  };
  for (auto& quadrant : plane.numbers) {
    for (size_t at = 0; at < quadrant.size();) {
      uint32_t* numbers = quadrant.data() + at;
      const size_t equal = equal_numbers(numbers, quadrant.size() - at);
      at += equal;
      if ((numbers[0] & kStripe) == 0) {
        fill_numbers(numbers, equal, move(numbers[0]));
        continue;
      }
      const uint32_t stripe = numbers[0] & ~kStripe;
      States& states = stripes_[stripe].states;
      if (!old_.visited[stripe]) {
        for (uint32_t& state : states) state = move(state);
        old_.visited[stripe] = true;
      }
      if (equal_numbers(states.data(), kQuadrant) == kQuadrant) put(numbers, equal, states[0]);
    }
  }
}

}  // namespace neuron::core
