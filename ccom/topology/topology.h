// SPDX-License-Identifier: Apache-2.0
// Nodes, chips, cores, links and network devices that a group of ranks runs on.
//
// Concepts: ports of a chip are directed links to neighbours (NeuronLink) or to a switch. A NIC
// belongs to one chip or is shared by several. A profile describes one node and the links between
// nodes; a Topology is a profile with a number of nodes. Ranks are placed node by node, chip by
// chip, core by core. Thread-safe: immutable values once made. Owns: itself.
#ifndef CCOM_TOPOLOGY_TOPOLOGY_H
#define CCOM_TOPOLOGY_TOPOLOGY_H

#include <cstdint>
#include <string>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/schedule/step.h"
#include "driver/profiles/topology.h"

namespace neuron::ccom {

using profiles::LinkClass;
using profiles::NodeProfile;
using profiles::PodType;

struct Place {
  uint32_t node = 0;
  uint32_t chip = 0;  // of the node
  uint32_t core = 0;  // of the chip
  uint32_t numa = 0;

  bool operator==(const Place&) const = default;
};

class Topology {
 public:
  // A profile by name (trn1.2xlarge ... trn3-ultraserver-gen2, "host" for plain processes), or a
  // JSON file of one. README.md of this folder lists them with their sources.
  static Result<NodeProfile> profile(const std::string& name_or_file);

  Topology(NodeProfile node, uint32_t nodes) : node_(std::move(node)), nodes_(nodes) {}

  const NodeProfile& node() const { return node_; }
  uint32_t nodes() const { return nodes_; }
  uint32_t ranks_per_node() const { return node_.chips * node_.ranks_per_chip; }
  uint32_t ranks() const { return nodes_ * ranks_per_node(); }
  Place place(Rank rank) const {
    const uint32_t local = rank % ranks_per_node();
    return {rank / ranks_per_node(), local / node_.ranks_per_chip, local % node_.ranks_per_chip, 0};
  }

 private:
  NodeProfile node_;
  uint32_t nodes_;
};

}  // namespace neuron::ccom

#endif
