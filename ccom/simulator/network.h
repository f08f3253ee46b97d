// SPDX-License-Identifier: Apache-2.0
// The resources of a simulated group, the routes of its flows, and which rank stands for which
// others.
//
// Concepts: with folding, ranks r and r + period do the same at the same time. Only the first
// period is simulated, and a resource of a later node maps to that of the node that stands for it.
// Owns: routes. Callers: the engines of one simulation. Thread-safe: const calls. Fails: like
// Routes.
#ifndef CCOM_SIMULATOR_NETWORK_H
#define CCOM_SIMULATOR_NETWORK_H

#include <cstdint>
#include <string>
#include <vector>

#include "ccom/simulator/simulator.h"

namespace neuron::ccom {

class Network {
 public:
  static Result<Network> make(const Group& group, const Schedule& schedule,
                              const SimulationOptions& options);

  uint32_t ranks() const { return ranks_; }    // of the group
  uint32_t period() const { return period_; }  // simulated ranks
  bool folded() const { return period_ != ranks_; }
  Rank stand_in(Rank rank) const { return folded() ? rank % period_ : rank; }
  // `peer` as seen from the rank that stands in for `rank`.
  Rank moved(Rank rank, Rank peer) const {
    return folded() ? static_cast<Rank>((uint64_t{peer} + ranks_ - rank + stand_in(rank)) % ranks_)
                    : peer;
  }

  // Replaces `hops` by the route.
  Result<void> path(Rank from, Rank to, std::vector<Hop>& hops) const;
  uint32_t resources() const { return resources_; }
  uint32_t node_of(Rank rank) const { return group_->places[rank].node; }
  // HBM and DMA of the chip of a rank; false if options.memory is not set.
  bool memory_of(Rank rank, Hop& hbm, Hop& dma) const;
  std::string name(uint32_t resource) const;
  double bytes_per_second(uint32_t resource) const;

  // Ranks r and r + symmetry() have the same flows, whether or not one stands for the other.
  uint32_t symmetry() const { return symmetry_; }
  // The resource among the first `symmetry` ranks that carries the same flows.
  uint32_t typical(uint32_t resource) const;

 private:
  Network(const Group& group, const SimulationOptions& options)
      : group_(&group), routes_(group.topology, options.failed), memory_(options.memory) {}
  void find_symmetry(uint32_t claimed, const SimulationOptions& options);

  const Group* group_;
  Routes routes_;
  bool memory_;
  uint32_t ranks_ = 0;
  uint32_t period_ = 0;
  uint32_t symmetry_ = 0;
  uint32_t symmetry_nodes_ = 0;  // nodes of symmetry() ranks; 0: no symmetry
  uint32_t resources_ = 0;
};

// Fills result.loads from the bytes that went over each resource; result.time_ps must be set.
void add_loads(const Network& network, const std::vector<uint64_t>& bytes, Simulation& result);

}  // namespace neuron::ccom

#endif
