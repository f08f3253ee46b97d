// SPDX-License-Identifier: Apache-2.0
// The route of a message from one place to another: the resources that it occupies, in order.
//
// Concepts: a resource carries one message at a time: it is one direction of a link, of a NIC or of
// a core's port. Resources are numbered node by node, so that a resource of node n is n *
// per_node() + its number within the node. Within a torus of 4 x 4 chips messages go along the row,
// then along the column. Elsewhere, and around links that have failed, they take the fewest links.
// Between nodes they take the Z ring or the switch of the pod, else the NICs of the two chips.
// Callers: the simulator. Thread-safe: const calls. Fails: CCOM_UNSUPPORTED with the two places and
// the failed link.
#ifndef CCOM_TOPOLOGY_ROUTES_H
#define CCOM_TOPOLOGY_ROUTES_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/topology/topology.h"

namespace neuron::ccom {

struct Hop {
  uint32_t resource = 0;
  uint64_t latency_ps = 0;      // after this resource
  double bytes_per_second = 0;  // of this resource
};

// Both directions between two chips of a node, or a NIC.
struct FailedLink {
  uint32_t node = 0;
  uint32_t chip = 0;  // or number of the NIC
  std::optional<uint32_t> peer;
};

// "3/5-6": node 3, between its chips 5 and 6; "3/nic2": NIC 2 of node 3.
Result<FailedLink> parse_failed_link(const std::string& text, const Topology& topology);

class Routes {
 public:
  Routes(const Topology& topology, const std::vector<FailedLink>& failed);

  Result<std::vector<Hop>> path(const Place& from, const Place& to) const;
  // The same into a list that the caller keeps, which is cleared first.
  Result<void> path(const Place& from, const Place& to, std::vector<Hop>& hops) const;

  uint32_t per_node() const { return per_node_; }
  uint32_t resources() const { return per_node_ * topology_.nodes(); }
  // "node 3 chip 5 -> 6", "node 3 NIC 2 out".
  std::string name(uint32_t resource) const;
  double bytes_per_second(uint32_t resource) const;

 private:
  struct Port {
    uint32_t chip;
    uint32_t port;
    uint32_t peer;
  };

  uint32_t at(uint32_t node, uint32_t local) const { return node * per_node_ + local; }
  Result<std::vector<uint32_t>> chips(uint32_t node, uint32_t from, uint32_t to) const;
  bool failed(uint32_t node, uint32_t a, uint32_t b) const;
  Result<void> within(uint32_t node, uint32_t from, uint32_t to, std::vector<Hop>& hops) const;
  void around_pod(const Place& from, const Place& to, std::vector<Hop>& hops) const;
  Result<uint32_t> nic(uint32_t node, uint32_t chip) const;

  Topology topology_;
  std::vector<FailedLink> failed_;
  std::vector<Port> ports_;
  std::vector<uint32_t> first_port_;  // of chip i in ports_
  bool torus_ = false;
  uint32_t links_ = 0, pods_ = 0, nics_out_ = 0, nics_in_ = 0;  // first of each kind
  uint32_t per_node_ = 0;
  // Ways between chips of a node without failed links, by from * chips + to, with resources of node
  // 0. Empty: no way.
  std::vector<std::vector<Hop>> ways_;
};

}  // namespace neuron::ccom

#endif
