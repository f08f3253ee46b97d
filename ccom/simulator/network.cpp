// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/network.h"

#include <algorithm>
#include <numeric>

namespace neuron::ccom {

Result<Network> Network::make(const Group& group, const Schedule& schedule,
                              const SimulationOptions& options) {
  Network network(group, options);
  const Topology& topology = group.topology;
  const NodeProfile& node = topology.node();
  network.ranks_ = group.ranks();
  if (schedule.ranks() != group.ranks()) {
    return fail(CCOM_INVALID, "the schedule is for {} ranks and the group has {}", schedule.ranks(),
                group.ranks());
  }
  for (Rank rank = 0; rank < group.ranks(); ++rank) {
    const Place& place = group.places[rank];
    if (place.node >= topology.nodes() || place.chip >= node.chips ||
        place.core >= node.ranks_per_chip) {
      return fail(CCOM_INVALID,
                  "rank {} is at node {} chip {} core {}, and the topology is {} nodes of {} with "
                  "{} chips of {} ranks",
                  rank, place.node, place.chip, place.core, topology.nodes(), node.name, node.chips,
                  node.ranks_per_chip);
    }
  }
  network.find_symmetry(schedule.period(), options);
  const bool fold = options.fold && options.jitter_ps == 0;
  network.period_ = fold ? network.symmetry_ : network.ranks_;
  network.resources_ = network.routes_.resources() + 2 * node.chips * topology.nodes();
  return network;
}

// The schedule's period holds only if the places repeat with it, in whole pods.
void Network::find_symmetry(uint32_t claimed, const SimulationOptions& options) {
  symmetry_ = ranks_;
  const Topology& topology = group_->topology;
  if (claimed == 0 || !options.failed.empty() || ranks_ % claimed != 0) return;
  const auto& places = group_->places;
  for (uint32_t period = claimed; period < ranks_; period += claimed) {
    if (ranks_ % period != 0) continue;
    const uint32_t nodes = places[period].node - places[0].node;
    if (nodes == 0 || nodes % topology.node().pod_nodes != 0 || places[0].node != 0) continue;
    bool repeats = true;
    for (Rank rank = 0; rank < ranks_ && repeats; ++rank) {
      const Place& first = places[rank % period];
      repeats = first.node < nodes && places[rank].node == first.node + rank / period * nodes &&
                places[rank].chip == first.chip && places[rank].core == first.core;
    }
    if (!repeats || topology.nodes() < nodes * (ranks_ / period)) continue;
    symmetry_ = period;
    symmetry_nodes_ = nodes;
    return;
  }
}

Result<void> Network::path(Rank from, Rank to, std::vector<Hop>& hops) const {
  NEURON_CHECK(routes_.path(group_->places[from], group_->places[to], hops));
  Hop hbm, dma;
  if (memory_of(from, hbm, dma)) {
    hops.insert(hops.begin(), {hbm, dma});
    memory_of(to, hbm, dma);
    hops.push_back(hbm);
  }
  if (folded()) {
    for (Hop& hop : hops) hop.resource = typical(hop.resource);
  }
  return {};
}

uint32_t Network::typical(uint32_t resource) const {
  if (symmetry_nodes_ == 0) return resource;
  const uint32_t links = routes_.resources();
  if (resource < links) return resource % (routes_.per_node() * symmetry_nodes_);
  return links + (resource - links) % (2 * group_->topology.node().chips * symmetry_nodes_);
}

bool Network::memory_of(Rank rank, Hop& hbm, Hop& dma) const {
  if (!memory_) return false;
  const NodeProfile& node = group_->topology.node();
  const Place& place = group_->places[rank];
  const uint32_t first = routes_.resources() + 2 * (place.node * node.chips + place.chip);
  hbm = {first, 0, node.hbm_bytes_per_second};
  dma = {first + 1, 0, node.dma_bytes_per_second};
  return true;
}

double Network::bytes_per_second(uint32_t resource) const {
  if (resource < routes_.resources()) return routes_.bytes_per_second(resource);
  const NodeProfile& node = group_->topology.node();
  return (resource - routes_.resources()) % 2 ? node.dma_bytes_per_second
                                              : node.hbm_bytes_per_second;
}

std::string Network::name(uint32_t resource) const {
  if (resource < routes_.resources()) return routes_.name(resource);
  const uint32_t local = resource - routes_.resources();
  const uint32_t chips = group_->topology.node().chips;
  return format("node {} chip {} {}", local / 2 / chips, local / 2 % chips,
                local % 2 ? "DMA" : "HBM");
}

}  // namespace neuron::ccom
