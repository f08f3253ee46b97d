// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/strict/strict_clocks.h"

#include <algorithm>

namespace neuron::core {

StrictClocks::StrictClocks() {
  told_.fill(true);
  for (unsigned a = 0; a < kFirstQueue; ++a) seen_[a] = std::make_unique<Vector>();
}

void StrictClocks::join(Vector& to, const Vector& from) const {
  for (unsigned a = 0; a < used_; ++a) to[a] = std::max(to[a], from[a]);
  for (unsigned a = kActors; a < kActors + others_; ++a) to[a] = std::max(to[a], from[a]);
}

void StrictClocks::join_known(Vector& to, const Known& known) {
  others_ = std::max(others_, static_cast<unsigned>(known.size()));
  for (size_t a = 0; a < known.size(); ++a) to[kActors + a] = std::max(to[kActors + a], known[a]);
}

// What any actor of this core knows of the other one: an actor outside may know it from each.
void StrictClocks::join_heard(Vector& to) const {
  for (unsigned by = 0; others_ != 0 && by < used_; ++by) {
    const Vector& from = *seen_[by];
    for (unsigned a = kActors; a < kActors + others_; ++a) to[a] = std::max(to[a], from[a]);
  }
}

StrictClocks::Known StrictClocks::known_by(unsigned actor, uint64_t tick) const {
  const Vector& seen = *seen_[actor];
  Known known(seen.begin(), seen.begin() + used_);
  known[actor] = std::max(known[actor], tick);
  return known;
}

// Also with an empty vector: the units that come later are counted behind it.
void StrictClocks::hear(unsigned cell, uint32_t units, const Known& known) {
  heard_[cell].push_back({units, known});
}

// A unit that is consumed leaves what it brought with the cell.
void StrictClocks::consume_heard(unsigned cell, uint32_t units) {
  const auto found = heard_.find(cell);
  if (found == heard_.end()) return;
  std::deque<Heard>& heard = found->second;
  if (!cells_[cell]) cells_[cell] = std::make_unique<Vector>();
  for (uint64_t left = units; left != 0 && !heard.empty();) {
    const uint64_t part = std::min(left, heard.front().units);
    left -= part;
    heard.front().units -= part;
    if (heard.front().units != 0) break;
    join_known(*cells_[cell], heard.front().known);
    heard.pop_front();
  }
  if (heard.empty()) heard_.erase(found);
}

void StrictClocks::acquire_heard(unsigned actor, unsigned cell, uint64_t units) {
  const auto found = heard_.find(cell);
  if (found == heard_.end()) return;
  active_ = true;  // there is something to order, even before the first access
  uint64_t seen = 0;
  for (const Heard& heard : found->second) {
    if (seen >= units) break;
    seen += heard.units;
    join_known(*seen_[actor], heard.known);
  }
}

void StrictClocks::acquire_known(unsigned actor, const Known& known) {
  active_ = true;
  join_known(*seen_[actor], known);
}

void StrictClocks::raise_floor() {
  if (!active_) return;
  active_ = false;
  std::copy_n(tell_all().begin(), used_, floor_.begin());
}

void StrictClocks::release(unsigned actor, uint64_t tick, unsigned cell) {
  if (!active_) return;
  if (!cells_[cell]) cells_[cell] = std::make_unique<Vector>();
  Vector& to = *cells_[cell];
  join(to, *seen_[actor]);
  to[actor] = std::max(to[actor], tick);
}

void StrictClocks::release_all(unsigned cell, bool with_heard) {
  if (!active_) return;
  if (!cells_[cell]) cells_[cell] = std::make_unique<Vector>();
  join(*cells_[cell], tell_all());
  if (with_heard) join_heard(*cells_[cell]);
}

void StrictClocks::acquire(unsigned actor, unsigned cell) {
  if (active_ && cells_[cell]) join(*seen_[actor], *cells_[cell]);
}

void StrictClocks::release_memory(unsigned actor, uint64_t tick) {
  if (!active_) return;
  join(memory_, *seen_[actor]);
  memory_[actor] = std::max(memory_[actor], tick);
}

void StrictClocks::acquire_memory(unsigned actor) {
  if (!active_) return;
  Vector& seen = *seen_[actor];
  join(seen, memory_);
  for (unsigned a = kFirstQueue; a < used_; ++a) {
    join(seen, *seen_[a]);
    seen[a] = std::max(seen[a], tell(a));
  }
}

void StrictClocks::acquire_all(unsigned actor) {
  join(*seen_[actor], tell_all());
  join_heard(*seen_[actor]);
}

StrictClocks::Queue& StrictClocks::queue(unsigned number) {
  std::unique_ptr<Queue>& queue = queues_[number];
  if (!queue) {
    queue = std::make_unique<Queue>();
    queue->actor = static_cast<uint16_t>(used_);
    seen_[used_] = std::make_unique<Vector>();
    numbers_[used_ - kFirstQueue] = static_cast<uint8_t>(number);
    ++used_;
  }
  return *queue;
}

std::unique_ptr<StrictClocks::Vector> StrictClocks::take() {
  if (spare_.empty()) return std::make_unique<Vector>();
  auto vector = std::move(spare_.back());
  spare_.pop_back();
  return vector;
}

void StrictClocks::ring(unsigned number, bool idle, uint32_t pending, unsigned actor, uint64_t tick,
                        Ringer ringer) {
  Queue& q = queue(number);
  const auto bit =
      static_cast<uint8_t>(ringer.engine < NEURON_CORE_ENGINES ? 1u << ringer.engine : 0);
  q.ringers |= bit;
  if (idle) {
    for (Queue::Doorbell& doorbell : q.waiting) spare_.push_back(std::move(doorbell.seen));
    q.waiting.clear();
    q.consumed = 0;
    q.rung = pending;
    q.ringer = ringer;
    q.starters |= bit;
    arm(number, actor, tick);
    return;
  }
  const uint64_t end = q.consumed + pending;
  if (end <= q.rung) {  // the doorbell of the other half
    // An actor that does not ring for the sources provides room for a transfer that is not known
    // here. Ordering all transfers behind it may miss a race, but cannot invent one.
    if (bit != 0 && (q.starters & bit) == 0) arm(number, actor, tick);
    return;
  }
  q.starters |= bit;
  if (q.waiting.size() == kMaxDoorbells) {
    // The newest doorbell stands for this one, too. That may miss a race, but cannot invent one.
    Vector& seen = *q.waiting.back().seen;
    join(seen, *seen_[actor]);
    seen[actor] = std::max(seen[actor], tick);
    q.rung = end;
    return;
  }
  auto seen = take();
  std::copy_n(seen_[actor]->begin(), used_, seen->begin());
  std::copy_n(seen_[actor]->begin() + kActors, others_, seen->begin() + kActors);
  (*seen)[actor] = std::max((*seen)[actor], tick);
  q.waiting.push_back({q.rung, ringer, std::move(seen)});
  q.rung = end;
}

void StrictClocks::arm(unsigned number, unsigned actor, uint64_t tick) {
  if (!active_) return;
  Vector& seen = *seen_[queue(number).actor];
  join(seen, *seen_[actor]);
  seen[actor] = std::max(seen[actor], tick);
}

StrictClocks::Ringer StrictClocks::ringer_of(const Queue& q, uint64_t descriptor) {
  Ringer ringer = q.ringer;
  for (const Queue::Doorbell& doorbell : q.waiting) {
    if (doorbell.start > descriptor) break;
    ringer = doorbell.ringer;
  }
  return ringer;
}

void StrictClocks::begin_packet(Queue& q, uint64_t descriptor) {
  while (!q.waiting.empty() && q.waiting.front().start <= descriptor) {
    q.ringer = q.waiting.front().ringer;
    join(*seen_[q.actor], *q.waiting.front().seen);
    spare_.push_back(std::move(q.waiting.front().seen));
    q.waiting.pop_front();
  }
}

void StrictClocks::drained(unsigned engine,
                           const std::array<uint32_t, chip::kEnginesPerCore>& active) {
  if (!active_) return;
  Vector& seen = *seen_[engine];
  for (unsigned a = kFirstQueue; a < used_; ++a) {
    const unsigned number = numbers_[a - kFirstQueue];
    if ((queues_[number]->ringers >> engine & 1) == 0) continue;
    if ((active[number / NEURON_DMA_QUEUES] >> number % NEURON_DMA_QUEUES & 1) != 0) continue;
    join(seen, *seen_[a]);
    seen[a] = std::max(seen[a], tell(a));
  }
}

}  // namespace neuron::core
