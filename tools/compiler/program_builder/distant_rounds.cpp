// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/distant_rounds.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace neuron::builder {
namespace {

// True if two accesses that move alike overlap only in the same round or in neighbouring ones, or
// never.
bool within_two_rounds(uint64_t first, uint64_t end, int64_t advance) {
  return end - first <= 2 * static_cast<uint64_t>(std::abs(advance));
}

// Accesses to one memory that move alike.
struct Group {
  AccessMap reads, writes;
  uint64_t first = UINT64_MAX, end = 0;  // Of all, in the first round
  // Those that are kept already, of which one is enough.
  std::set<std::tuple<bool, uint32_t, uint32_t, uint64_t, uint64_t, uint64_t, uint64_t>> known;
};

using Memory = std::pair<uint8_t, uint32_t>;
using Way = std::pair<int64_t, std::vector<std::pair<uint32_t, int64_t>>>;

Memory memory_of(const Region& region) {
  return {region.space, region.space == Region::kHbm ? region.start : 0};
}

Way way_of(const Region& region) {
  Way way{region.advance, {}};
  for (const Motion& motion : region.motions) way.second.emplace_back(motion.index, motion.bytes);
  return way;
}

class Body {
 public:
  Body(const std::vector<LoopAccess>& accesses, uint32_t rounds) : accesses_(accesses) {
    for (const LoopAccess& access : accesses) all_.push_back(access.region.spanning(rounds));
    for (size_t a = 0; a < accesses.size(); ++a) {
      const Region& r = accesses[a].region;
      Group& group = memories_[memory_of(r)][way_of(r)];
      group.first = std::min(group.first, r.first);
      group.end = std::max(group.end, r.end);
      if (!group.known.insert({accesses[a].write, r.start, r.parts, r.first, r.end, r.run, r.pitch})
               .second) {
        continue;
      }
      (accesses[a].write ? group.writes : group.reads).add(all_[a], {0, 0, a});
    }
  }

  bool meets_far(size_t a) const {
    const Region& region = accesses_[a].region;
    const Way own = way_of(region);
    const auto& groups = memories_.at(memory_of(region));
    return std::any_of(groups.begin(), groups.end(), [&](const auto& group) {
      const bool alike = group.first == own;
      if (alike && within_two_rounds(group.second.first, group.second.end, region.advance)) {
        return false;
      }
      const auto far = [&](const AccessMap::Entry& entry) {
        const Region& other = accesses_[entry.point.issue].region;
        return all_[a].overlaps(entry.region) &&
               !(alike && within_two_rounds(std::min(region.first, other.first),
                                            std::max(region.end, other.end), region.advance));
      };
      return group.second.writes.any_near(all_[a], far) ||
             (accesses_[a].write && group.second.reads.any_near(all_[a], far));
    });
  }

 private:
  const std::vector<LoopAccess>& accesses_;
  std::vector<Region> all_;  // Of all rounds
  std::map<Memory, std::map<Way, Group>> memories_;
};

}  // namespace

std::vector<bool> meet_in_distant_rounds(const std::vector<LoopAccess>& accesses, uint32_t rounds) {
  const Body body(accesses, rounds);
  std::vector<bool> far(accesses.size());
  for (size_t a = 0; a < accesses.size(); ++a) {
    far[a] = accesses[a].region.advance != 0 && body.meets_far(a);
  }
  return far;
}

}  // namespace neuron::builder
