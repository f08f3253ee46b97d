// SPDX-License-Identifier: Apache-2.0
#include "ccom/topology/routes.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace neuron::ccom {
namespace {

constexpr uint32_t kSide = 4;  // of the torus
constexpr uint32_t kMostKnownChips = 64;

bool is_torus(const NodeProfile& node) {
  if (node.chips != kSide * kSide) return false;
  for (uint32_t chip = 0; chip < node.chips; ++chip) {
    if (node.neighbours[chip].size() != 4) return false;
    for (uint32_t other : node.neighbours[chip]) {
      const uint32_t rows = (chip / kSide + kSide - other / kSide) % kSide;
      const uint32_t columns = (chip + kSide - other) % kSide;
      if (std::min(rows, kSide - rows) + std::min(columns, kSide - columns) != 1) return false;
    }
  }
  return true;
}

// The next place from a to b on a ring of `size`, the shorter way round; upwards if both are equal.
uint32_t towards(uint32_t a, uint32_t b, uint32_t size) {
  const uint32_t up = (b + size - a) % size;
  return up <= size - up ? (a + 1) % size : (a + size - 1) % size;
}

}  // namespace

Result<FailedLink> parse_failed_link(const std::string& text, const Topology& topology) {
  unsigned node = 0, a = 0, b = 0;
  int end = -1;
  const NodeProfile& profile = topology.node();
  if (std::sscanf(text.c_str(), "%9u/nic%9u%n", &node, &a, &end) == 2 &&
      end == static_cast<int>(text.size())) {
    if (node < topology.nodes() && a < profile.nics) return FailedLink{node, a, std::nullopt};
    return fail(CCOM_INVALID, "there is no NIC {} in node {}: {} has {} NICs in each of {} nodes",
                a, node, profile.name, profile.nics, topology.nodes());
  }
  end = -1;
  if (std::sscanf(text.c_str(), "%9u/%9u-%9u%n", &node, &a, &b, &end) == 3 &&
      end == static_cast<int>(text.size())) {
    if (node < topology.nodes() && a < profile.chips) {
      const auto& list = profile.neighbours[a];
      if (std::find(list.begin(), list.end(), b) != list.end()) return FailedLink{node, a, b};
    }
    return fail(CCOM_INVALID, "there is no link between chips {} and {} in node {} of {} x {}", a,
                b, node, topology.nodes(), profile.name);
  }
  return fail(CCOM_INVALID,
              "the link \"{}\" cannot be read: expected NODE/CHIP-CHIP or NODE/nicNUMBER", text);
}

Routes::Routes(const Topology& topology, const std::vector<FailedLink>& failed)
    : topology_(topology), failed_(failed) {
  const NodeProfile& node = topology_.node();
  for (uint32_t chip = 0; chip < node.chips; ++chip) {
    first_port_.push_back(static_cast<uint32_t>(ports_.size()));
    for (uint32_t port = 0; port < node.neighbours[chip].size(); ++port) {
      ports_.push_back({chip, port, node.neighbours[chip][port]});
    }
  }
  torus_ = is_torus(node);
  links_ = node.chips * node.ranks_per_chip;
  pods_ = links_ + static_cast<uint32_t>(ports_.size());
  nics_out_ = pods_ + 2 * node.chips;
  nics_in_ = nics_out_ + node.nics;
  per_node_ = nics_in_ + node.nics;
  if (node.chips > kMostKnownChips) return;
  std::vector<std::vector<Hop>> ways(uint64_t{node.chips} * node.chips);
  for (uint32_t from = 0; from < node.chips; ++from) {
    for (uint32_t to = 0; to < node.chips; ++to) {
      // The node behind the last has no failed link.
      auto& way = ways[from * node.chips + to];
      if (!within(topology_.nodes(), from, to, way)) way.clear();
      for (Hop& hop : way) hop.resource -= at(topology_.nodes(), 0);
    }
  }
  ways_ = std::move(ways);
}

std::string Routes::name(uint32_t resource) const {
  const uint32_t node = resource / per_node_, local = resource % per_node_;
  const NodeProfile& profile = topology_.node();
  if (local < links_) {
    return format("node {} chip {} core {}", node, local / profile.ranks_per_chip,
                  local % profile.ranks_per_chip);
  }
  if (local < pods_) {
    const Port& port = ports_[local - links_];
    return format("node {} chip {} -> {}", node, port.chip, port.peer);
  }
  if (local < nics_out_) {
    const uint32_t chip = (local - pods_) / 2, down = (local - pods_) % 2;
    if (profile.pod == PodType::kSwitch) {
      return format("node {} chip {} switch {}", node, chip, down ? "in" : "out");
    }
    return format("node {} chip {} pod {}", node, chip, down ? "down" : "up");
  }
  const bool in = local >= nics_in_;
  return format("node {} NIC {} {}", node, local - (in ? nics_in_ : nics_out_), in ? "in" : "out");
}

double Routes::bytes_per_second(uint32_t resource) const {
  const uint32_t local = resource % per_node_;
  const NodeProfile& node = topology_.node();
  if (local < links_) return node.on_chip.bytes_per_second;
  if (local < pods_) return node.link.bytes_per_second;
  if (local >= nics_out_) return node.nic.bytes_per_second;
  // A switch inside one node has the rate of its links.
  return node.pod_nodes > 1 ? node.pod_link.bytes_per_second : node.link.bytes_per_second;
}

bool Routes::failed(uint32_t node, uint32_t a, uint32_t b) const {
  return std::any_of(failed_.begin(), failed_.end(), [&](const FailedLink& link) {
    return link.node == node && link.peer &&
           ((link.chip == a && *link.peer == b) || (link.chip == b && *link.peer == a));
  });
}

Result<std::vector<uint32_t>> Routes::chips(uint32_t node, uint32_t from, uint32_t to) const {
  std::vector<uint32_t> way{from};
  if (torus_) {
    bool whole = true;
    while (way.back() != to) {
      const uint32_t here = way.back(), row = here / kSide, column = here % kSide;
      const uint32_t next = column != to % kSide ? row * kSide + towards(column, to % kSide, kSide)
                                                 : towards(row, to / kSide, kSide) * kSide + column;
      whole = whole && !failed(node, here, next);
      way.push_back(next);
    }
    if (whole) return way;
  }
  const NodeProfile& profile = topology_.node();
  std::vector<uint32_t> before(profile.chips, profile.chips), queue{from};
  before[from] = from;
  for (size_t i = 0; i < queue.size() && before[to] == profile.chips; ++i) {
    for (uint32_t next : profile.neighbours[queue[i]]) {
      if (before[next] == profile.chips && !failed(node, queue[i], next)) {
        before[next] = queue[i];
        queue.push_back(next);
      }
    }
  }
  if (before[to] == profile.chips) {
    std::string why;
    for (const FailedLink& link : failed_) {
      if (link.node == node && link.peer) {
        why += format("{}{}-{}", why.empty() ? "; failed: " : ", ", link.chip, *link.peer);
      }
    }
    return fail(CCOM_UNSUPPORTED, "node {} of {} has no way from chip {} to chip {}{}", node,
                profile.name, from, to, why);
  }
  way = {to};
  while (way.back() != from) way.push_back(before[way.back()]);
  std::reverse(way.begin(), way.end());
  return way;
}

Result<void> Routes::within(uint32_t node, uint32_t from, uint32_t to,
                            std::vector<Hop>& hops) const {
  if (from == to) return {};
  const bool whole =
      failed_.empty() || std::none_of(failed_.begin(), failed_.end(), [&](const FailedLink& link) {
        return link.node == node && link.peer;
      });
  if (whole && !ways_.empty()) {
    const auto& known = ways_[uint64_t{from} * topology_.node().chips + to];
    for (const Hop& hop : known) {
      hops.push_back({at(node, hop.resource), hop.latency_ps, hop.bytes_per_second});
    }
    if (!known.empty()) return {};
  }
  NEURON_TRY(way, chips(node, from, to));
  const LinkClass& link = topology_.node().link;
  for (size_t i = 0; i + 1 < way.size(); ++i) {
    uint32_t port = first_port_[way[i]];
    while (ports_[port].peer != way[i + 1]) ++port;
    hops.push_back({at(node, links_ + port), link.latency_ps, link.bytes_per_second});
  }
  return {};
}

void Routes::around_pod(const Place& from, const Place& to, std::vector<Hop>& hops) const {
  const NodeProfile& node = topology_.node();
  const uint32_t pod = from.node / node.pod_nodes * node.pod_nodes;
  for (uint32_t z = from.node - pod; z != to.node - pod;) {
    const uint32_t next = towards(z, to.node - pod, node.pod_nodes);
    const bool down = next != (z + 1) % node.pod_nodes;
    hops.push_back({at(pod + z, pods_ + 2 * to.chip + (down ? 1 : 0)), node.pod_link.latency_ps,
                    node.pod_link.bytes_per_second});
    z = next;
  }
}

Result<uint32_t> Routes::nic(uint32_t node, uint32_t chip) const {
  const NodeProfile& profile = topology_.node();
  if (profile.nics == 0) {
    return fail(CCOM_UNSUPPORTED, "{} has no NIC, and node {} must send to another node",
                profile.name, node);
  }
  const auto own = static_cast<uint32_t>(uint64_t{chip} * profile.nics / profile.chips);
  if (failed_.empty()) return own;
  for (uint32_t i = 0; i < profile.nics; ++i) {
    const uint32_t number = (own + i) % profile.nics;
    const bool down = std::any_of(failed_.begin(), failed_.end(), [&](const FailedLink& link) {
      return link.node == node && !link.peer && link.chip == number;
    });
    if (!down) return number;
  }
  return fail(CCOM_UNSUPPORTED, "all {} NICs of node {} have failed", profile.nics, node);
}

Result<std::vector<Hop>> Routes::path(const Place& from, const Place& to) const {
  std::vector<Hop> hops;
  NEURON_CHECK(path(from, to, hops));
  return hops;
}

Result<void> Routes::path(const Place& from, const Place& to, std::vector<Hop>& hops) const {
  const NodeProfile& node = topology_.node();
  hops.clear();
  const bool same_pod = from.node / node.pod_nodes == to.node / node.pod_nodes;
  const bool switched = node.pod == PodType::kSwitch;
  if (from.node == to.node && from.chip == to.chip) {
    hops.push_back(
        {at(from.node, from.chip * node.ranks_per_chip + from.core % node.ranks_per_chip),
         node.on_chip.latency_ps, node.on_chip.bytes_per_second});
  } else if (switched && same_pod) {
    const bool inside = from.node == to.node;
    const uint32_t rack_nodes = node.pod_nodes / node.racks;
    const bool across = from.node / rack_nodes != to.node / rack_nodes;
    const LinkClass& link = across ? node.rack_link : inside ? node.link : node.pod_link;
    hops.push_back({at(from.node, pods_ + 2 * from.chip), link.latency_ps, link.bytes_per_second});
    hops.push_back({at(to.node, pods_ + 2 * to.chip + 1), 0, link.bytes_per_second});
  } else if (from.node == to.node) {
    NEURON_CHECK(within(from.node, from.chip, to.chip, hops));
  } else if (node.pod == PodType::kPeerToPeer && same_pod) {
    NEURON_CHECK(within(from.node, from.chip, to.chip, hops));
    around_pod(from, to, hops);
  } else {
    NEURON_TRY(out, nic(from.node, from.chip));
    NEURON_TRY(in, nic(to.node, to.chip));
    hops.push_back(
        {at(from.node, nics_out_ + out), node.nic.latency_ps, node.nic.bytes_per_second});
    hops.push_back({at(to.node, nics_in_ + in), 0, node.nic.bytes_per_second});
  }
  return {};
}

}  // namespace neuron::ccom
