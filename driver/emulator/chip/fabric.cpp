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

ModelTime duration(uint64_t bytes, const LinkTiming& link) {
  return bytes * 1'000'000 / (link.bytes_per_second / 1'000'000);
}

}  // namespace

Fabric::Fabric(std::vector<FabricNode> nodes, LinkTiming timing, FabricKind kind,
               FabricInstances instances)
    : nodes_(std::move(nodes)),
      timing_(timing),
      switched_(kind == FabricKind::kSwitch),
      instances_(instances) {
  node_of_id_.fill(kNoNode);
  for (unsigned n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].routing_id < node_of_id_.size()) {
      node_of_id_[nodes_[n].routing_id] = static_cast<uint8_t>(n);
    }
  }
  for (auto& ports : behind_) ports.fill(kNoNode);
  for (auto& row : next_port_) row.fill(kNoPort);
  for (unsigned n = 0; n < nodes_.size(); ++n) {
    for (size_t port = 0; port < nodes_[n].neighbours.size() && port < kUp; ++port) {
      behind_[n][port] = static_cast<uint8_t>(nodes_[n].neighbours[port]);
    }
  }
  find_ways();
  join_instances();
}

void Fabric::join_instances() {
  const unsigned count = instances_.count;
  for (unsigned n = 0; n < nodes(); ++n) {
    const unsigned chip = n % each();
    const unsigned instance = n / each();
    const unsigned first = n - chip;
    first_of_[n] = static_cast<uint8_t>(first);
    for (uint8_t port = 0; port < kUp; ++port) {
      const unsigned neighbour = behind_[chip][port];
      behind_[n][port] = static_cast<uint8_t>(neighbour == kNoNode ? kNoNode : first + neighbour);
    }
    if (count == 1 || switched_) continue;
    behind_[n][kUp] = static_cast<uint8_t>((instance + 1) % count * each() + chip);
    behind_[n][kDown] = static_cast<uint8_t>((instance + count - 1) % count * each() + chip);
    for (unsigned to = 0; to < nodes(); ++to) {
      // Along the ring the shorter way round; if both are equal, upwards.
      const unsigned up = (to / each() + count - instance) % count;
      next_port_[n][to] = to % each() != chip ? next_port_[chip][to % each()]
                          : up == 0           ? kNoPort
                          : up <= count - up  ? kUp
                                              : kDown;
    }
  }
}

uint8_t Fabric::port_to(unsigned from, unsigned to) const {
  for (uint8_t port = 0; port < kPorts; ++port) {
    if (behind_[from][port] == to) return port;
  }
  return kNoPort;
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
    from = behind_[from][port];
  }
  return links;
}

ModelTime Fabric::way_time(unsigned from, unsigned to) const {
  if (switched_) return from != to ? link_between(from, to).hop : 0;
  ModelTime time = 0;
  while (from != to) {  // bounded: each hop is nearer
    const uint8_t port = next_port_[from][to];
    time += link_at(port).hop;
    from = behind_[from][port];
  }
  return time;
}

void Fabric::attach(unsigned node, Bus& bus, const ChipFaults& faults) {
  if (node >= nodes()) return;
  chips_[node].faults.store(&faults, std::memory_order_relaxed);
  // Release: pairs with the acquire in reach(), so that a thread that sees the bus sees all of the
  // chip.
  chips_[node].bus.store(&bus, std::memory_order_release);
}

void Fabric::detach(unsigned node) {
  if (node < nodes()) chips_[node].bus.store(nullptr, std::memory_order_release);
}

void Fabric::set_link(unsigned a, unsigned b, bool up) {
  if (a >= nodes() || b >= nodes()) return;
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

bool Fabric::has_link(unsigned a, unsigned b) const {
  if (a >= nodes() || b >= nodes() || a == b) return false;
  return switched_ || port_to(a, b) != kNoPort;
}

std::vector<std::pair<unsigned, unsigned>> Fabric::links_down() const {
  std::vector<std::pair<unsigned, unsigned>> links;
  for (unsigned a = 0; a < nodes(); ++a) {
    for (unsigned b = a + 1; b < nodes(); ++b) {
      const uint8_t port = switched_ ? kNoPort : port_to(a, b);
      const bool down =
          switched_ ? (closed_[a].load(std::memory_order_relaxed) >> b & 1) != 0
                    : port != kNoPort && down_[a * kPorts + port].load(std::memory_order_relaxed);
      if (down) links.emplace_back(a, b);
    }
  }
  return links;
}

unsigned Fabric::node_of(unsigned from, uint64_t address, uint64_t& local, uint32_t& id) const {
  if (from >= nodes()) return kNoNode;
  if ((address & NEURON_V3_PEER_BIT) == 0 && (address & NEURON_V3_NEIGHBOUR_BIT) != 0) {
    local = address & NEURON_V3_NEIGHBOUR_LOCAL;
    const auto link = static_cast<unsigned>(address >> NEURON_V3_NEIGHBOUR_SHIFT & 3);
    id = 256 + link;
    if (address >> 53 != 0 || link >= kUp) return kNoNode;
    return behind_[from][link];
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
  const uint8_t chip = node_of_id_[id % NEURON_V3_PEER_INSTANCE];
  const unsigned instance = (from / each() + id / NEURON_V3_PEER_INSTANCE) % kMaxInstances;
  if (chip == kNoNode || instance >= instances_.count) return kNoNode;
  return instance * each() + chip;
}

bool Fabric::is_open(unsigned from, unsigned to) const {
  if (switched_) return (closed_[from].load(std::memory_order_relaxed) >> to & 1) == 0;
  while (from != to) {  // bounded: each hop is nearer
    const uint8_t port = next_port_[from][to];
    if (port == kNoPort || down_[from * kPorts + port].load(std::memory_order_relaxed)) {
      return false;
    }
    from = behind_[from][port];
  }
  return true;
}

Bus* Fabric::reach(unsigned from, uint64_t address, uint64_t& local, unsigned& to) const {
  uint32_t id = 0;
  to = node_of(from, address, local, id);
  if (to == kNoNode || !is_open(from, to)) return nullptr;
  // Acquire: pairs with the release in attach().
  Bus* bus = chips_[to].bus.load(std::memory_order_acquire);
  if (bus == nullptr || chips_[to].faults.load(std::memory_order_relaxed)->off()) return nullptr;
  if (from != to && !is_shown(bus->layout(), local)) return nullptr;
  return bus;
}

bool Fabric::read(unsigned from, uint64_t address, std::span<std::byte> out,
                  const Access& access) const {
  uint64_t local = 0;
  unsigned to = 0;
  Bus* bus = reach(from, address, local, to);
  if (bus == nullptr) return false;
  return bus->read(local, out, to == from ? access : arriving(access, way_time(from, to)));
}

bool Fabric::write(unsigned from, uint64_t address, std::span<const std::byte> in,
                   const Access& access) const {
  uint64_t local = 0;
  unsigned to = 0;
  Bus* bus = reach(from, address, local, to);
  if (bus == nullptr) return false;
  return bus->write(local, in, to == from ? access : arriving(access, way_time(from, to)));
}

std::byte* Fabric::direct(unsigned from, uint64_t address, size_t length) const {
  uint64_t local = 0;
  unsigned to = 0;
  Bus* bus = reach(from, address, local, to);
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
  return to == kNoNode || !is_open(from, to) ? 0 : way_time(from, to);
}

ModelTime Fabric::transfer(unsigned from, uint64_t address, uint64_t bytes, bool write,
                           ModelTime start, LinkTimes& times) const {
  uint64_t local = 0;
  uint32_t id = 0;
  const unsigned to = node_of(from, address, local, id);
  if (to == kNoNode || to == from || !is_open(from, to)) return start;
  const ModelTime length = way_time(from, to);
  // The first byte enters a link when the link before has passed it on; the last byte follows.
  ModelTime enters = write ? start : start + length;
  const unsigned end = write ? to : from;
  if (switched_) {
    // Both ports are taken at once; the latency is that of the whole way.
    const unsigned begin = write ? from : to;
    isa::Timetable& sends = times[begin * kPorts + kToSwitch];
    isa::Timetable& receives = times[end * kPorts + kFromSwitch];
    const ModelTime takes = duration(bytes, link_between(from, to));
    for (;;) {  // bounded: by the spans of both tables
      enters = sends.fit(enters, takes);
      const ModelTime both = receives.fit(enters, takes);
      if (both == enters) break;
      enters = both;
    }
    sends.take(enters, enters + takes);
    receives.take(enters, enters + takes);
    return enters + takes + (write ? 0 : length);
  }
  ModelTime last = enters;  // the last byte is there
  for (unsigned at = write ? from : to; at != end;) {
    const uint8_t port = next_port_[at][end];
    const LinkTiming& link = link_at(port);
    isa::Timetable& table = times[at * kPorts + port];
    const ModelTime takes = duration(bytes, link);
    enters = table.fit(enters, takes, last);
    // A link that is faster than the one before waits for its bytes.
    const ModelTime leaves = std::max(last, enters + takes);
    table.take(enters, leaves);
    last = leaves + link.hop;
    enters += link.hop;
    at = behind_[at][port];
  }
  // A write is posted: the sender does not wait for its way.
  return last - (write ? length : 0);
}

}  // namespace neuron::chip
