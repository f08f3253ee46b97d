// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/ordering.h"

#include <algorithm>

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
  const bool near = space == other.space && start < other.start + other.parts &&
                    other.start < start + parts && first < other.end && other.first < end;
  if (!near) return false;
  const Columns ours = columns_of(*this, pitch), theirs = columns_of(other, pitch);
  return !ours.known() || !theirs.known() || (ours.first < theirs.end && theirs.first < ours.end);
}

bool Region::contains(const Region& other) const {
  const bool around = space == other.space && start <= other.start &&
                      start + parts >= other.start + other.parts && first <= other.first &&
                      end >= other.end;
  if (!around || pitch == 0) return around;
  const Columns ours = columns_of(*this, pitch), theirs = columns_of(other, pitch);
  return ours.known() && theirs.known() && ours.first <= theirs.first && ours.end >= theirs.end;
}

void Accesses::conflicts(const Region& region, bool write, std::vector<Point>& points) const {
  for (const Entry& entry : entries_[region.space]) {
    if ((write || entry.write) && entry.region.overlaps(region)) points.push_back(entry.point);
  }
}

void Accesses::record(const Region& region, bool write, const Point& point) {
  auto& entries = entries_[region.space];
  // A write is ordered after every access that it covers, so waiting for the write is enough. In
  // the same way an engine's read replaces its own earlier reads.
  std::erase_if(entries, [&](const Entry& entry) {
    if (!region.contains(entry.region)) return false;
    if (write) return true;
    return !entry.write && entry.point.agent == point.agent && point.agent < kFirstDmaAgent;
  });
  entries.push_back({region, write, point});
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

void Knowledge::start(unsigned engine, const Point& point) {
  auto& changes = history_[point.agent];
  if (!changes.empty() && changes.back().second == now_[engine]) return;
  changes.emplace_back(point.sequence, now_[engine]);
}

}  // namespace neuron::builder
