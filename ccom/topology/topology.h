// SPDX-License-Identifier: Apache-2.0
// Nodes, chips, cores, links and network devices that a group of ranks runs on.
//
// Concepts: ports of a chip are directed links to neighbours (NeuronLink) or to a switch; a NIC
// belongs to one chip or is shared by several. A profile describes one node and how nodes are
// joined; a Topology is a profile times a number of nodes. Ranks are placed node by node, chip by
// chip, core by core. Thread-safe: immutable values once made. Owns: itself.
#ifndef CCOM_TOPOLOGY_TOPOLOGY_H
#define CCOM_TOPOLOGY_TOPOLOGY_H

#include <cstdint>
#include <string>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/schedule/step.h"

namespace neuron::ccom {

enum class PodType : uint8_t { kNone, kPeerToPeer, kSwitch };  // as NEC_POD_TYPE_*

struct LinkClass {
  double bytes_per_second = 0;  // of one direction
  uint64_t latency_ps = 0;
};

// What one node of a system has.
struct NodeProfile {
  std::string name;  // "trn1.32xlarge"
  uint32_t chips = 1;
  uint32_t ranks_per_chip = 2;                    // NeuronCores, or logical ones
  uint32_t dma_engines = 32;                      // of a chip
  uint32_t collective_cores = 6;                  // of a chip
  std::vector<std::vector<uint32_t>> neighbours;  // of chip i, in the order of its ports
  std::vector<std::vector<uint32_t>> rings;       // edge-disjoint Hamiltonian cycles over the chips
  LinkClass link;                                 // NeuronLink, one port, one direction
  LinkClass pod_link;                             // between nodes of an UltraServer, or the switch
  LinkClass nic;                                  // EFA, one device
  LinkClass on_chip;                              // between the cores of a chip
  uint32_t nics = 0;  // of a node; NIC i serves chips i * chips / nics and up
  PodType pod = PodType::kNone;
  uint32_t pod_nodes = 1;           // nodes of an UltraServer
  double hbm_bytes_per_second = 0;  // of a chip
  double dma_bytes_per_second = 0;  // of a chip
  uint32_t racks = 1;               // of a pod; nodes are numbered rack by rack
  LinkClass rack_link;              // of a chip, to the other rack of the pod
};

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
