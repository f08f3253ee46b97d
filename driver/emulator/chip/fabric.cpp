// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/fabric.h"

#include <algorithm>
#include <queue>

#include "driver/emulator/chip/chip_faults.h"

namespace neuron::chip {
namespace {

constexpr unsigned kRow = 4;  // nodes in a row of a torus

// Whether a chip shows the address to others: memory, and semaphores of cores and CC cores.
bool is_shown(const ChipLayout& layout, uint64_t local) {
  if (layout.is_host(local)) return false;
  if (layout.is_hbm(local)) return true;
  for (unsigned i = 0; i < layout.cores; ++i) {
    const uint64_t inside = local - layout.core_address(i);
    if (inside >= NEURON_V2_CORE_WINDOW_SIZE) continue;
    return inside < NEURON_CORE_PSUM + NEURON_CORE_PSUM_SIZE ||
           (inside >= NEURON_CORE_SEMAPHORES &&
            inside < NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_SIZE);
  }
  for (unsigned i = 0; i < layout.topsps; ++i) {
    if (local - layout.device_of(layout.topsp_window(i)) < NEURON_SEM_BLOCK_SIZE) return true;
  }
  return false;
}

// An access as the other chip sees it.
Access arriving(const Access& access, ModelTime latency) {
  Access there = access;
  there.core = Access::kOtherChip;
  if (there.time != 0) there.time += latency;
  return there;
}

}  // namespace

Fabric::Fabric(std::vector<FabricNode> nodes, LinkTiming timing, FabricKind kind)
    : nodes_(std::move(nodes)), timing_(timing), switched_(kind == FabricKind::kSwitch) {
  node_of_id_.fill(kNoNode);
  for (unsigned n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].routing_id < node_of_id_.size()) {
      node_of_id_[nodes_[n].routing_id] = static_cast<uint8_t>(n);
    }
  }
  find_ways();
}

uint8_t Fabric::port_to(unsigned from, unsigned to) const {
  const auto& ports = nodes_[from].neighbours;
  const auto found = std::find(ports.begin(), ports.end(), to);
  return found == ports.end() ? kNoPort : static_cast<uint8_t>(found - ports.begin());
}

// Node 4 * row + column, each linked with the next ones of its row and its column.
bool Fabric::is_torus_of_four_rows() const {
  if (nodes_.size() != kRow * kRow) return false;
  for (unsigned n = 0; n < nodes_.size(); ++n) {
    const unsigned right = n / kRow * kRow + (n + 1) % kRow;
    const unsigned down = (n + kRow) % (kRow * kRow);
    if (port_to(n, right) == kNoPort || port_to(n, down) == kNoPort) return false;
  }
  return true;
}

void Fabric::find_ways() {
  for (auto& row : next_port_) row.fill(kNoPort);
  const bool torus = is_torus_of_four_rows();
  for (unsigned to = 0; to < nodes_.size(); ++to) {
    if (torus) {
      for (unsigned from = 0; from < nodes_.size(); ++from) {
        if (from == to) continue;
        const unsigned columns = (to % kRow + kRow - from % kRow) % kRow;
        const unsigned rows = (to / kRow + kRow - from / kRow) % kRow;
        // The shorter way round; if both are equal, upwards.
        const unsigned step = columns != 0 ? (columns <= 2 ? 1 : kRow - 1) : 0;
        const unsigned next = columns != 0
                                  ? from / kRow * kRow + (from + step) % kRow
                                  : (from + kRow * (rows <= 2 ? 1 : kRow - 1)) % (kRow * kRow);
        next_port_[from][to] = port_to(from, next);
      }
      continue;
    }
    // Shortest ways to one node, searched outwards from it; of equal ones, the way over the
    // smallest number.
    std::vector<unsigned> distance(nodes_.size(), kNoNode);
    std::queue<unsigned> open;
    distance[to] = 0;
    open.push(to);
    while (!open.empty()) {
      const unsigned n = open.front();
      open.pop();
      for (const unsigned other : nodes_[n].neighbours) {
        if (distance[other] != kNoNode) continue;
        distance[other] = distance[n] + 1;
        open.push(other);
      }
    }
    for (unsigned from = 0; from < nodes_.size(); ++from) {
      unsigned best = kNoNode;
      for (const unsigned other : nodes_[from].neighbours) {
        if (distance[from] != kNoNode && distance[other] + 1 == distance[from]) {
          best = std::min(best, other);
        }
      }
      if (best != kNoNode) next_port_[from][to] = port_to(from, best);
    }
  }
}

std::vector<unsigned> Fabric::way(unsigned from, unsigned to) const {
  if (switched_ && from != to) return {from * kPorts + kToSwitch, to * kPorts + kFromSwitch};
  std::vector<unsigned> links;
  while (from != to) {  // bounded: each hop is nearer
    const uint8_t port = next_port_[from][to];
    if (port == kNoPort) return {};
    links.push_back(from * kPorts + port);
    from = nodes_[from].neighbours[port];
  }
  return links;
}

unsigned Fabric::hops(unsigned from, unsigned to) const {
  if (switched_) return from != to ? 1 : 0;
  unsigned n = 0;
  for (; from != to; ++n) from = nodes_[from].neighbours[next_port_[from][to]];
  return n;
}

void Fabric::attach(unsigned node, Bus& bus, const ChipFaults& faults) {
  if (node >= nodes_.size()) return;
  chips_[node].faults.store(&faults, std::memory_order_relaxed);
  // Release: pairs with the acquire in reach(), so that a thread that sees the bus sees all of the
  // chip.
  chips_[node].bus.store(&bus, std::memory_order_release);
}

void Fabric::detach(unsigned node) {
  if (node < nodes_.size()) chips_[node].bus.store(nullptr, std::memory_order_release);
}

void Fabric::set_link(unsigned a, unsigned b, bool up) {
  if (a >= nodes_.size() || b >= nodes_.size()) return;
  for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
    if (switched_) {
      const uint64_t bit = uint64_t{1} << to;
      if (up) {
        closed_[from].fetch_and(~bit, std::memory_order_relaxed);
      } else if (from != to) {
        closed_[from].fetch_or(bit, std::memory_order_relaxed);
      }
      continue;
    }
    const uint8_t port = port_to(from, to);
    // Relaxed: an access that races with the change may see either.
    if (port != kNoPort) down_[from * kPorts + port].store(!up, std::memory_order_relaxed);
  }
}

unsigned Fabric::node_of(unsigned from, uint64_t address, uint64_t& local, uint32_t& id) const {
  if (from >= nodes_.size()) return kNoNode;
  if ((address & NEURON_V3_PEER_BIT) == 0 && (address & NEURON_V3_NEIGHBOUR_BIT) != 0) {
    local = address & NEURON_V3_NEIGHBOUR_LOCAL;
    const auto link = static_cast<unsigned>(address >> NEURON_V3_NEIGHBOUR_SHIFT & 3);
    id = 256 + link;
    if (address >> 53 != 0 || link >= nodes_[from].neighbours.size()) return kNoNode;
    return nodes_[from].neighbours[link];
  }
  if ((address & NEURON_V3_PEER_BIT) != 0) {
    local = address & NEURON_V3_PEER_LOCAL;
    id = static_cast<uint32_t>(address >> NEURON_V3_PEER_SHIFT & 0xFF);
    // Bits between the local address and the bit of a routed address.
    if ((address & (NEURON_V3_PEER_BIT - 1)) != local) return kNoNode;
  } else {
    local = address & NEURON_V2_PEER_LOCAL;
    id = static_cast<uint32_t>(address >> NEURON_V2_PEER_SHIFT & 0xF);
    if (address >> 49 != 0) return kNoNode;
  }
  return node_of_id_[id];
}

bool Fabric::is_open(unsigned from, unsigned to) const {
  if (switched_) return (closed_[from].load(std::memory_order_relaxed) >> to & 1) == 0;
  while (from != to) {  // bounded: each hop is nearer
    const uint8_t port = next_port_[from][to];
    if (port == kNoPort || down_[from * kPorts + port].load(std::memory_order_relaxed)) {
      return false;
    }
    from = nodes_[from].neighbours[port];
  }
  return true;
}

Bus* Fabric::reach(unsigned from, uint64_t address, uint64_t& local, unsigned& hops) const {
  uint32_t id = 0;
  const unsigned to = node_of(from, address, local, id);
  if (to == kNoNode || !is_open(from, to)) return nullptr;
  // Acquire: pairs with the release in attach().
  Bus* bus = chips_[to].bus.load(std::memory_order_acquire);
  if (bus == nullptr || chips_[to].faults.load(std::memory_order_relaxed)->off()) return nullptr;
  if (from != to && !is_shown(bus->layout(), local)) return nullptr;
  hops = this->hops(from, to);
  return bus;
}

bool Fabric::read(unsigned from, uint64_t address, std::span<std::byte> out,
                  const Access& access) const {
  uint64_t local = 0;
  unsigned hops = 0;
  Bus* bus = reach(from, address, local, hops);
  if (bus == nullptr) return false;
  return bus->read(local, out, hops == 0 ? access : arriving(access, hops * timing_.hop));
}

bool Fabric::write(unsigned from, uint64_t address, std::span<const std::byte> in,
                   const Access& access) const {
  uint64_t local = 0;
  unsigned hops = 0;
  Bus* bus = reach(from, address, local, hops);
  if (bus == nullptr) return false;
  return bus->write(local, in, hops == 0 ? access : arriving(access, hops * timing_.hop));
}

std::byte* Fabric::direct(unsigned from, uint64_t address, size_t length) const {
  uint64_t local = 0;
  unsigned hops = 0;
  Bus* bus = reach(from, address, local, hops);
  return bus == nullptr ? nullptr : bus->direct(local, length);
}

Fabric::Refusal Fabric::refusal(unsigned from, uint64_t address) const {
  uint64_t local = 0;
  uint32_t id = 0;
  const unsigned to = node_of(from, address, local, id);
  if (to != kNoNode && is_open(from, to)) {
    const Bus* bus = chips_[to].bus.load(std::memory_order_acquire);
    if (bus != nullptr && !chips_[to].faults.load(std::memory_order_relaxed)->off()) return {};
  }
  return {NEURON_FAULT_LINK, id};
}

ModelTime Fabric::latency(unsigned from, uint64_t address) const {
  uint64_t local = 0;
  uint32_t id = 0;
  const unsigned to = node_of(from, address, local, id);
  return to == kNoNode || !is_open(from, to) ? 0 : hops(from, to) * timing_.hop;
}

ModelTime Fabric::duration(uint64_t bytes) const {
  return bytes * 1'000'000 / (timing_.bytes_per_second / 1'000'000);
}

ModelTime Fabric::transfer(unsigned from, uint64_t address, uint64_t bytes, bool write,
                           ModelTime start, LinkTimes& times) const {
  uint64_t local = 0;
  uint32_t id = 0;
  const unsigned to = node_of(from, address, local, id);
  if (to == kNoNode || to == from || !is_open(from, to)) return start;
  const unsigned length = hops(from, to);
  const ModelTime needs = duration(bytes);
  // The first byte enters a link when the link before has passed it on; the last byte follows.
  ModelTime enters = write ? start : start + length * timing_.hop;
  const unsigned end = write ? to : from;
  if (switched_) {
    // Both ports are taken at once; the latency is that of the whole way.
    const unsigned begin = write ? from : to;
    ModelTime& sends = times[begin * kPorts + kToSwitch];
    ModelTime& receives = times[end * kPorts + kFromSwitch];
    enters = std::max({enters, sends, receives});
    sends = receives = enters + needs;
    return enters + needs + (write ? 0 : timing_.hop);
  }
  for (unsigned at = write ? from : to; at != end;) {
    const uint8_t port = next_port_[at][end];
    ModelTime& free = times[at * kPorts + port];
    enters = std::max(enters, free);
    free = enters + needs;
    enters += timing_.hop;
    at = nodes_[at].neighbours[port];
  }
  // `enters`: the first byte is there. A write is posted: the sender does not wait for its way.
  return enters + needs - (write ? length * timing_.hop : 0);
}

}  // namespace neuron::chip
