// SPDX-License-Identifier: Apache-2.0
#include "ccom/plan/places.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace neuron::ccom {
namespace {

// The chips of a node, in the order of directed cycle number `channel`.
std::vector<uint32_t> chip_order(const NodeProfile& node, uint32_t channel, bool both) {
  std::vector<uint32_t> chips(node.chips);
  std::iota(chips.begin(), chips.end(), 0);
  if (node.rings.empty()) return chips;
  const auto cycles = static_cast<uint32_t>(node.rings.size());
  chips = node.rings[channel % cycles];
  if (both && channel / cycles % 2 == 1) std::reverse(chips.begin(), chips.end());
  return chips;
}

uint32_t nic_of(const NodeProfile& node, uint32_t chip) {
  return static_cast<uint32_t>(uint64_t{chip} * node.nics / std::max(1u, node.chips));
}

// Where each channel enters its cycle, so that no NIC has more than its share of exits and entries.
// Zeros if the search finds no solution.
std::vector<uint32_t> entries(const NodeProfile& node,
                              const std::vector<std::vector<uint32_t>>& cycles) {
  std::vector<uint32_t> entry(cycles.size(), 0);
  if (node.nics == 0) return entry;
  const auto limit = static_cast<uint32_t>((cycles.size() + node.nics - 1) / node.nics);
  std::vector<uint32_t> in(node.nics, 0), out(node.nics, 0);
  uint32_t budget = 200'000;
  std::function<bool(size_t)> place = [&](size_t channel) {
    if (channel == cycles.size()) return true;
    const auto& chips = cycles[channel];
    for (uint32_t i = 0; i < chips.size() && budget != 0; ++i) {
      --budget;
      uint32_t& enters = in[nic_of(node, chips[i])];
      uint32_t& leaves = out[nic_of(node, chips[(i + chips.size() - 1) % chips.size()])];
      if (enters == limit || leaves == limit) continue;
      ++enters;
      ++leaves;
      entry[channel] = i;
      if (place(channel + 1)) return true;
      --enters;
      --leaves;
    }
    return false;
  };
  if (!place(0)) std::fill(entry.begin(), entry.end(), 0);
  return entry;
}

}  // namespace

Places::Places(const Group& group) : node_of(group.ranks()) {
  std::map<uint32_t, std::vector<Rank>> by_node;
  for (Rank rank = 0; rank < group.ranks(); ++rank) {
    by_node[group.places[rank].node].push_back(rank);
  }
  const auto key = [&](Rank rank) {
    const Place& place = group.places[rank];
    return std::make_pair(place.chip, place.core);
  };
  for (auto& [number, ranks] : by_node) {
    std::stable_sort(ranks.begin(), ranks.end(), [&](Rank a, Rank b) { return key(a) < key(b); });
    for (const Rank rank : ranks) node_of[rank] = static_cast<uint32_t>(nodes.size());
    nodes.push_back(ranks);
  }
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> on_chip;
  for (size_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node].size() != nodes[0].size()) even = node_major = in_order = false;
    for (size_t i = 0; i < nodes[node].size(); ++i) {
      if (nodes[node][i] != node * nodes[0].size() + i) node_major = false;
      const Rank first = nodes[node][i] / nodes[0].size() * nodes[0].size();
      if (node_of[first] != node) in_order = false;
      ++on_chip[{static_cast<uint32_t>(node), group.places[nodes[node][i]].chip}];
    }
  }
  whole_pairs = group.ranks() >= 4;
  for (const auto& entry : on_chip) whole_pairs = whole_pairs && entry.second % 2 == 0;
}

uint32_t directed_cycles(const Group& group) {
  const auto& rings = group.topology.node().rings;
  return rings.empty() ? 1 : static_cast<uint32_t>(2 * rings.size());
}

std::vector<std::vector<Rank>> ring_orders(const Group& group, const Places& places,
                                           uint32_t channels, bool both) {
  const NodeProfile& node = group.topology.node();
  std::vector<std::vector<uint32_t>> cycles;
  for (uint32_t channel = 0; channel < channels; ++channel) {
    cycles.push_back(chip_order(node, channel, both));
  }
  const bool several = places.nodes.size() > 1;
  const auto entry = several ? entries(node, cycles) : std::vector<uint32_t>(channels, 0);
  std::vector<std::vector<Rank>> orders(channels);
  for (uint32_t channel = 0; channel < channels; ++channel) {
    auto& chips = cycles[channel];
    std::rotate(chips.begin(), chips.begin() + entry[channel], chips.end());
    std::vector<uint32_t> position(node.chips, 0);
    for (uint32_t i = 0; i < chips.size(); ++i) {
      if (chips[i] < position.size()) position[chips[i]] = i;
    }
    orders[channel].reserve(group.ranks());
    for (const auto& ranks : places.nodes) {
      const size_t begin = orders[channel].size();
      orders[channel].insert(orders[channel].end(), ranks.begin(), ranks.end());
      const auto where = [&](Rank rank) {
        const uint32_t chip = group.places[rank].chip;
        // Chips that are not in the profile keep their order, behind the others.
        return chip < node.chips ? position[chip] : node.chips;
      };
      std::stable_sort(orders[channel].begin() + static_cast<ptrdiff_t>(begin),
                       orders[channel].end(), [&](Rank a, Rank b) { return where(a) < where(b); });
    }
    if (node.rings.empty() && both && channel % 2 == 1) {
      std::reverse(orders[channel].begin(), orders[channel].end());
    }
  }
  return orders;
}

}  // namespace neuron::ccom
