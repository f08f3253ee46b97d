// SPDX-License-Identifier: Apache-2.0
// Instance types as collectives see them: chips, links, rings and network devices of a node.
//
// Concepts: the section "topology" of a profile (README.md of this folder lists its fields). Names
// and files are those of profile.h; types whose devices cannot be emulated are here, too. Callers:
// libccom; any thread. Values. Fails: false, with a sentence that names the profile, the field, its
// value and the expected one.
#ifndef DRIVER_PROFILES_TOPOLOGY_H
#define DRIVER_PROFILES_TOPOLOGY_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace neuron::profiles {

enum class PodType : uint8_t { kNone, kPeerToPeer, kSwitch };  // as NEC_POD_TYPE_*

struct LinkClass {
  double bytes_per_second = 0;  // of one direction
  uint64_t latency_ps = 0;
};

// The hardware of one node of a system.
struct NodeProfile {
  std::string name;  // "trn1.32xlarge"
  uint32_t chips = 1;
  uint32_t generation = 0;        // of the chips; 0: not known, and nothing is compiled for them
  uint32_t ranks_per_chip = 2;    // NeuronCores, or logical ones
  uint32_t dma_engines = 32;      // of a chip
  uint32_t collective_cores = 6;  // of a chip
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

std::vector<std::string> topology_names();

// By name, or by the path of a file, which contains a slash.
bool load_topology(std::string_view name_or_path, NodeProfile& profile, std::string& error);
// `where` names the text in sentences.
bool parse_topology(std::string_view text, const std::string& where, NodeProfile& profile,
                    std::string& error);
// Checks that the parts fit together: neighbours are mutual, rings follow links and share none.
bool check_topology(const NodeProfile& profile, const std::string& where, std::string& error);

}  // namespace neuron::profiles

#endif
