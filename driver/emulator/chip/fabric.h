// SPDX-License-Identifier: Apache-2.0
// The links between the chips of an instance: where a routed address (hw/address_map.h) leads, by
// which way, and how long that takes.
//
// Concepts: nodes are chips, by their index; each has up to four ports with a link to a neighbour.
// A link has two directions, numbered node * kPorts + port of the sender. Ways are fixed: in a
// torus of four rows first along the row, then along the column, elsewhere the shortest one. Chips
// of a switched fabric have no neighbours: each has port 0 to the switch and port 1 from it, every
// two are one hop apart, and a link that is down closes the way between two chips. Several
// instances of the same chips are an UltraServer: their nodes are numbered one instance after the
// other, and equal places of the instances are linked in a ring (ports 4 and 5), or the switch
// joins all. A way leads to the place within the instance of the sender first, then along the ring.
// An access happens at once, in the initiator's thread, on the other chip's bus; its model time
// grows by the latency of each hop. Each sender keeps its own record of when links are busy
// (LinkTimes). Callers: buses, in any thread. Thread-safe: yes; chips come and go while others run,
// but a chip that goes must not be in use by a running group. Does not own the chips. Fails: an
// access is refused, refusal() says why.
#ifndef DRIVER_EMULATOR_CHIP_FABRIC_H
#define DRIVER_EMULATOR_CHIP_FABRIC_H

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "driver/emulator/chip/bus.h"
#include "driver/isa/timetable.h"
#include "hw/fault.h"

namespace neuron::chip {

class ChipFaults;

struct FabricNode {
  uint32_t routing_id = 0;
  std::vector<unsigned> neighbours;  // node numbers, by port
};

enum class FabricKind : uint8_t { kLinks, kSwitch };

struct LinkTiming {
  ModelTime hop = 1'500'000;                   // ps; of a switch, from chip to chip
  uint64_t bytes_per_second = 48'000'000'000;  // of one direction
};

// The instances of an UltraServer, each with the same chips, and the links between them: of a ring,
// or the ways through the switch that lead to another instance.
struct FabricInstances {
  unsigned count = 1;
  LinkTiming link = {};
};

// For one sender: when each direction of each link is taken.
using LinkTimes = std::array<isa::Timetable, 384>;

class Fabric {
 public:
  static constexpr unsigned kMaxNodes = 64;
  static constexpr unsigned kMaxInstances = 4;  // as many as an address names
  static constexpr unsigned kPorts = 6;
  static_assert(kMaxNodes * kPorts == std::tuple_size_v<LinkTimes>);

  // The nodes of one instance: at most kMaxNodes of all instances; neighbours are mutual and exist,
  // at most four a node, and a switch's chips have none.
  Fabric(std::vector<FabricNode> nodes, LinkTiming timing, FabricKind kind = FabricKind::kLinks,
         FabricInstances instances = {});

  // A chip of the fabric can be reached from attach to detach. Both outlive that.
  void attach(unsigned node, Bus& bus, const ChipFaults& faults);
  void detach(unsigned node);
  void set_link(unsigned a, unsigned b, bool up);
  // Whether two nodes have a link, of a switch a way.
  bool has_link(unsigned a, unsigned b) const;
  // Those that are down, the smaller node first, in ascending order.
  std::vector<std::pair<unsigned, unsigned>> links_down() const;

  bool read(unsigned from, uint64_t address, std::span<std::byte> out, const Access& access) const;
  bool write(unsigned from, uint64_t address, std::span<const std::byte> in,
             const Access& access) const;
  // Memory of the other chip; null for anything else, and where read() and write() would refuse.
  std::byte* direct(unsigned from, uint64_t address, size_t length) const;

  // Why an access to the address is refused: LINK with the routing id, else BUS.
  struct Refusal {
    neuron_fault code = NEURON_FAULT_BUS;
    uint32_t id = 0;
  };
  Refusal refusal(unsigned from, uint64_t address) const;

  // Time of a way in one direction, without load; 0 for an address that leads nowhere.
  ModelTime latency(unsigned from, uint64_t address) const;
  // A DMA engine begins to send bytes, or to ask for them, at `start`, which may lie in front of
  // transfers that were entered before. Returns when the engine is done with them, and enters them
  // in the times of the links. Writes arrive `latency` later. Throws std::bad_alloc.
  ModelTime transfer(unsigned from, uint64_t address, uint64_t bytes, bool write, ModelTime start,
                     LinkTimes& times) const;

  unsigned nodes() const { return each() * instances_.count; }
  unsigned instances() const { return instances_.count; }
  // Directions of the links from one node to another, in order.
  std::vector<unsigned> way(unsigned from, unsigned to) const;

 private:
  static constexpr unsigned kNoNode = kMaxNodes;
  static constexpr uint8_t kNoPort = kPorts;
  static constexpr uint8_t kToSwitch = 0, kFromSwitch = 1;  // ports of a switch's chips
  static constexpr uint8_t kUp = 4, kDown = 5;              // to the next and the last instance

  // Nodes of an instance.
  unsigned each() const { return static_cast<unsigned>(nodes_.size()); }
  void find_ways();  // within an instance
  void join_instances();
  bool is_torus_of_four_rows() const;
  uint8_t port_to(unsigned from, unsigned to) const;
  const LinkTiming& link_at(uint8_t port) const { return port < kUp ? timing_ : instances_.link; }
  // Of a way through the switch.
  const LinkTiming& link_between(unsigned a, unsigned b) const {
    return first_of_[a] == first_of_[b] ? timing_ : instances_.link;
  }
  // Returns the node that the address names, kNoNode if there is none, and the address on it.
  unsigned node_of(unsigned from, uint64_t address, uint64_t& local, uint32_t& id) const;
  bool is_open(unsigned from, unsigned to) const;
  // Returns the bus to use, the address there and the node; null: refused.
  Bus* reach(unsigned from, uint64_t address, uint64_t& local, unsigned& to) const;
  ModelTime way_time(unsigned from, unsigned to) const;

  struct Chip {
    std::atomic<Bus*> bus = nullptr;
    std::atomic<const ChipFaults*> faults = nullptr;
  };
  const std::vector<FabricNode> nodes_;
  const LinkTiming timing_;
  const bool switched_;
  const FabricInstances instances_;
  std::array<uint8_t, 256> node_of_id_;  // of an instance
  // The first port of each way, and the node behind each port.
  std::array<std::array<uint8_t, kMaxNodes>, kMaxNodes> next_port_;
  std::array<std::array<uint8_t, kPorts>, kMaxNodes> behind_{};
  std::array<uint8_t, kMaxNodes> first_of_{};  // the first node of each node's instance
  std::array<Chip, kMaxNodes> chips_;
  std::array<std::atomic<bool>, kMaxNodes * kPorts> down_{};
  std::array<std::atomic<uint64_t>, kMaxNodes> closed_{};  // of a switch: bit per chip
  static_assert(kMaxNodes <= 64);
};

}  // namespace neuron::chip

#endif
