// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/ordering.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace neuron::builder {

Region Region::in_round(int64_t number) const {
  Region moved = *this;
  moved.first += static_cast<uint64_t>(number * advance);
  moved.end += static_cast<uint64_t>(number * advance);
  return moved;
}

Region Region::spanning(uint32_t rounds) const {
  const Region last = in_round(int64_t{rounds} - 1);
  Region all = *this;
  (advance < 0 ? all.first : all.end) = advance < 0 ? last.first : last.end;
  all.advance = 0;
  if (pitch != 0 && advance % static_cast<int64_t>(pitch) != 0) all.pitch = 0;
  return all;
}

namespace {

// The columns of a region whose rows are `pitch` apart; none if a row goes beyond its pitch.
struct Columns {
  uint64_t first = 0, end = 0;
  bool known() const { return end != 0; }
};

Columns columns_of(const Region& region, uint64_t pitch) {
  if (pitch == 0 || region.pitch != pitch) return {};
  const uint64_t first = region.first % pitch;
  return first + region.run <= pitch ? Columns{first, first + region.run} : Columns{};
}

}  // namespace

bool Region::overlaps(const Region& other) const {
  if (space != other.space || start >= other.start + other.parts || other.start >= start + parts) {
    return false;
  }
  if (motions != other.motions) {
    return first_reached() < other.end_reached() && other.first_reached() < end_reached();
  }
  if (first >= other.end || other.first >= end) return false;
  const Columns ours = columns_of(*this, pitch), theirs = columns_of(other, pitch);
  return !ours.known() || !theirs.known() || (ours.first < theirs.end && theirs.first < ours.end);
}

bool Region::contains(const Region& other) const {
  if (space != other.space || start > other.start || start + parts < other.start + other.parts) {
    return false;
  }
  if (motions != other.motions) {
    return motions.empty() && pitch == 0 && first <= other.first_reached() &&
           end >= other.end_reached();
  }
  if (first > other.first || end < other.end) return false;
  if (pitch == 0) return true;
  const Columns ours = columns_of(*this, pitch), theirs = columns_of(other, pitch);
  return ours.known() && theirs.known() && ours.first <= theirs.first && ours.end >= theirs.end;
}

namespace {

// All entries of size k have at most 2^k bytes.
uint32_t size_of(const Region& region) {
  return static_cast<uint32_t>(std::bit_width(region.end_reached() - region.first_reached()));
}

// The entries of a size that may overlap the region: those that begin less than one size in front
// of it, up to its end.
template <typename Entries>
auto entries_near(Entries& entries, uint32_t size, const Region& region) {
  const uint64_t reach = uint64_t{1} << size, first = region.first_reached();
  return std::pair{first > reach ? entries.upper_bound(first - reach) : entries.begin(),
                   entries.lower_bound(region.end_reached())};
}

}  // namespace

void AccessMap::add(const Region& region, const Point& point) {
  entries_[size_of(region)].emplace(region.first_reached(), Entry{region, point});
}

template <typename Look>
void AccessMap::near(const Region& region, Look look) const {
  for (const auto& [size, entries] : entries_) {
    const auto [first, end] = entries_near(entries, size, region);
    for (auto entry = first; entry != end; ++entry) look(entry->second);
  }
}

bool AccessMap::any_near(const Region& region, const std::function<bool(const Entry&)>& is) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& of_size) {
    const auto [first, end] = entries_near(of_size.second, of_size.first, region);
    return std::any_of(first, end, [&](const auto& entry) { return is(entry.second); });
  });
}

template <typename Remove>
void AccessMap::erase(const Region& region, Remove remove) {
  for (auto& [size, entries] : entries_) {
    auto [entry, end] = entries_near(entries, size, region);
    while (entry != end) entry = remove(entry->second) ? entries.erase(entry) : std::next(entry);
  }
}

void Accesses::conflicts(const Region& region, bool write, std::vector<Point>& points) const {
  const auto memory = memories_.find(place_of(region));
  if (memory == memories_.end()) return;
  const auto look = [&](const AccessMap::Entry& entry) {
    if (entry.region.overlaps(region)) points.push_back(entry.point);
  };
  memory->second.writes.near(region, look);
  if (write) memory->second.reads.near(region, look);
}

void Accesses::record(const Region& region, bool write, const Point& point) {
  Memory& memory = memories_[place_of(region)];
  // A write is ordered after every access that it covers, so waiting for the write is enough. In
  // the same way an agent's read replaces its own earlier reads.
  if (write) {
    const auto covered = [&](const AccessMap::Entry& entry) {
      return region.contains(entry.region);
    };
    memory.writes.erase(region, covered);
    memory.reads.erase(region, covered);
    memory.writes.add(region, point);
    return;
  }
  memory.reads.erase(region, [&](const AccessMap::Entry& entry) {
    return entry.point.agent == point.agent && region.contains(entry.region);
  });
  memory.reads.add(region, point);
}

const Knowledge::Clock Knowledge::kNothing;

const Knowledge::Clock& Knowledge::clock_of(const Point& point) const {
  const auto agent = history_.find(point.agent);
  if (agent == history_.end()) return kNothing;
  const auto& changes = agent->second;
  auto after = std::upper_bound(
      changes.begin(), changes.end(), point.sequence,
      [](uint32_t sequence, const auto& change) { return sequence < change.first; });
  if (after == changes.begin() || !std::prev(after)->second) return kNothing;
  return *std::prev(after)->second;
}

bool Knowledge::knows(unsigned engine, const Point& point) const {
  const Shared& now = now_[engine];
  return now && point.agent < now->size() && (*now)[point.agent] >= point.sequence;
}

void Knowledge::wait(unsigned engine, const Point& point) {
  if (knows(engine, point)) return;
  Clock next = now_[engine] ? *now_[engine] : Clock{};
  const Clock& other = clock_of(point);
  if (next.size() < other.size()) next.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) next[i] = std::max(next[i], other[i]);
  if (next.size() <= point.agent) next.resize(point.agent + 1);
  next[point.agent] = std::max(next[point.agent], point.sequence);
  now_[engine] = std::make_shared<const Clock>(std::move(next));
}

void Knowledge::meet(Clock clock) {
  const auto shared = std::make_shared<const Clock>(std::move(clock));
  now_.fill(shared);
}

void Knowledge::start(unsigned engine, const Point& point) {
  auto& changes = history_[point.agent];
  if (!changes.empty() && changes.back().second == now_[engine]) return;
  changes.emplace_back(point.sequence, now_[engine]);
}

}  // namespace neuron::builder
