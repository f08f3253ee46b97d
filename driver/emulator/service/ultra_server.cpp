// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/ultra_server.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include "driver/base/backoff.h"
#include "driver/base/random_bytes.h"
#include "driver/emulator/service/error.h"
#include "driver/profiles/topology.h"

namespace neuron::service {

std::unique_ptr<UltraServer> UltraServer::create(std::string_view name, const MemoryLimits& limits,
                                                 const ChipFactory& factory, int& error) {
  std::string sentence;
  const profiles::Profile* profile = profiles::load_profile(name, sentence);
  profiles::NodeProfile topology;
  if (profile == nullptr || !profiles::load_topology(name, topology, sentence)) {
    error = fail(-ENOENT, "%s", sentence.c_str());
    return nullptr;
  }
  if (topology.pod == profiles::PodType::kNone || topology.pod_nodes < 2) {
    error = fail(-EINVAL,
                 "%s is no node of an UltraServer; trn2-ultraserver and trn3-ultraserver-gen1 are",
                 profile->name);
    return nullptr;
  }
  const bool linked = topology.pod == profiles::PodType::kPeerToPeer;
  if (linked == profile->switched) {
    error = fail(-EINVAL,
                 "%s has nodes whose chips are joined by %s, but these are joined by %s; both "
                 "must be links, or a switch",
                 profile->name, profile->switched ? "a switch" : "links",
                 linked ? "links" : "a switch");
    return nullptr;
  }
  const unsigned count = topology.pod_nodes;
  if (count > chip::Fabric::kMaxInstances || count * profile->chips > chip::Fabric::kMaxNodes) {
    error = fail(-EINVAL,
                 "an UltraServer of %s has %u nodes of %u chips; one daemon serves at most %u "
                 "nodes, and %u chips together",
                 profile->name, count, profile->chips, chip::Fabric::kMaxInstances,
                 chip::Fabric::kMaxNodes);
    return nullptr;
  }
  const chip::LinkTiming link{topology.pod_link.latency_ps,
                              static_cast<uint64_t>(topology.pod_link.bytes_per_second)};
  std::unique_ptr<UltraServer> made(new UltraServer);
  error = made->build(*profile, count, link, limits, factory);
  if (error == 0) error = made->elect(static_cast<uint8_t>(topology.pod));
  return error != 0 ? nullptr : std::move(made);
}

int UltraServer::build(const profiles::Profile& profile, unsigned count,
                       const chip::LinkTiming& link, const MemoryLimits& limits,
                       const ChipFactory& factory) {
  InstanceWires wires;
  wires.fabric = Instance::fabric_of(profile, {count, link});
  wires.budget = std::make_shared<MemoryBudget>(limits, [this] {
    uint64_t bytes = 0;
    for (const auto& node : nodes_) bytes += node->resident_bytes();
    return bytes;
  });
  for (wires.node = 0; wires.node < count; ++wires.node) {
    // Known from the start, as the nodes elect each other before the first client comes.
    wires.turned = !profile.switched && wires.node % 2 == 1;
    int error = 0;
    auto node = Instance::create(profile, wires, factory, error);
    if (error != 0) return error;
    nodes_.push_back(std::move(node));
  }
  return 0;
}

// All nodes are there, so the elections end at once.
int UltraServer::elect(uint8_t type) {
  std::vector<uint64_t> serials(nodes_.size());
  for (uint64_t& serial : serials) {
    uint8_t bytes[sizeof(serial)];
    if (!base::random_bytes(bytes)) {
      return fail(-EIO, "the system has no randomness for the serial numbers of the nodes");
    }
    std::memcpy(&serial, bytes, sizeof(serial));
  }
  for (unsigned node = 0; node < nodes(); ++node) {
    PodWiring wiring;
    wiring.type = type;
    wiring.nodes = nodes();
    wiring.node = node;
    wiring.serial = serials[node];
    wiring.joined = true;
    wiring.ask = [serials](unsigned other) { return std::optional(serials[other]); };
    Pod& pod = nodes_[node]->pod();
    if (int error = pod.join(std::move(wiring))) return error;
    // bounded: nobody is waited for
    while (pod.electing()) base::sleep_for(std::chrono::milliseconds(1));
  }
  return 0;
}

UltraServer::~UltraServer() {
  for (const auto& node : nodes_) {
    if (node->is_usable()) node->stop();
  }
}

}  // namespace neuron::service
