// SPDX-License-Identifier: Apache-2.0
#include "ccom/topology/facts.h"

#include <algorithm>
#include <map>

#include "ccom/topology/profile.h"

namespace neuron::ccom {
namespace {

// The profile with the rates of these chips; null: there is none.
const char* rates_of(uint32_t generation, size_t chips) {
  switch (generation) {
    case 2:
      return chips == 12 ? "inf2.48xlarge" : chips == 6 ? "inf2.24xlarge" : "trn1.32xlarge";
    case 3:
      return "trn2.48xlarge";
    case 4:
      return "trn3s.48xlarge";
    default:
      return nullptr;
  }
}

bool same_graph(std::vector<std::vector<uint32_t>> a, std::vector<std::vector<uint32_t>> b) {
  for (auto& list : a) std::sort(list.begin(), list.end());
  for (auto& list : b) std::sort(list.begin(), list.end());
  return a == b;
}

// Chips that form one cycle, each with two neighbours, have that cycle as their ring.
std::vector<uint32_t> plain_cycle(const std::vector<std::vector<uint32_t>>& neighbours) {
  std::vector<uint32_t> ring{0};
  for (uint32_t before = 0; ring.size() <= neighbours.size();) {
    const auto& list = neighbours[ring.back()];
    if (list.size() != 2) return {};
    const uint32_t next = ring.size() == 1 || list[0] != before ? list[0] : list[1];
    if (next == 0) break;
    before = ring.back();
    ring.push_back(next);
  }
  return ring.size() == neighbours.size() && ring.size() > 2 ? ring : std::vector<uint32_t>{};
}

}  // namespace

Result<NodeProfile> profile_of_chips(const std::vector<ChipFacts>& chips, uint32_t nics) {
  if (chips.empty()) return fail(CCOM_UNSUPPORTED, "the driver has no chips");
  const char* name = rates_of(chips[0].generation, chips.size());
  if (name == nullptr) {
    return fail(CCOM_UNSUPPORTED, "chip {} is of generation {}, which no topology describes",
                chips[0].number, chips[0].generation);
  }
  NEURON_TRY(known, Topology::profile(name));
  std::map<uint32_t, uint32_t> index;
  for (const ChipFacts& chip : chips) {
    if (chip.generation != chips[0].generation) {
      return fail(CCOM_UNSUPPORTED, "chip {} is of generation {} and chip {} of generation {}",
                  chips[0].number, chips[0].generation, chip.number, chip.generation);
    }
    if (!index.emplace(chip.number, static_cast<uint32_t>(index.size())).second) {
      return fail(CCOM_INVALID, "the driver lists chip {} twice", chip.number);
    }
  }
  NodeProfile profile = known;
  profile.name = format("driver ({})", known.name);
  profile.chips = static_cast<uint32_t>(chips.size());
  profile.nics = nics;
  // The driver reports one node; it does not know whether that node is part of a pod. Chips that a
  // switch joins have no neighbours.
  profile.pod = known.pod == PodType::kSwitch ? PodType::kSwitch : PodType::kNone;
  profile.pod_nodes = profile.racks = 1;
  profile.neighbours.assign(chips.size(), {});
  for (const ChipFacts& chip : chips) {
    for (const uint32_t other : chip.neighbours) {
      if (const auto found = index.find(other); found != index.end() && other != chip.number) {
        profile.neighbours[index[chip.number]].push_back(found->second);
      }
    }
  }
  profile.rings.clear();
  if (profile.chips == known.chips && same_graph(profile.neighbours, known.neighbours)) {
    profile.rings = known.rings;
  } else if (auto ring = plain_cycle(profile.neighbours); !ring.empty()) {
    profile.rings = {std::move(ring)};
  }
  NEURON_CHECK(check_profile(profile, "of the driver"));
  return profile;
}

}  // namespace neuron::ccom
