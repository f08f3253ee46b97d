// SPDX-License-Identifier: Apache-2.0
// Descriptors, rings and packets as a UDMA queue reads them, and what can be wrong with them.
//
// Concepts: a RingView is a snapshot of one ring; each descriptor is copied from the ring's memory
// once, so that memory which changes meanwhile cannot be checked as one thing and used as another.
// parse_packet collects the descriptors of the next packet. Callers: UdmaEngine. Thread-safe: pure
// functions of their arguments. Fails: DmaFault with the descriptor and the rule.
#ifndef DRIVER_EMULATOR_CHIP_UDMA_PACKET_H
#define DRIVER_EMULATOR_CHIP_UDMA_PACKET_H

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "driver/emulator/chip/bus.h"
#include "driver/emulator/chip/udma_compute.h"
#include "hw/address_map.h"
#include "hw/fault.h"
#include "hw/udma.h"

namespace neuron::chip {

struct DmaFault {
  neuron_fault code = NEURON_FAULT_NONE;
  uint8_t engine = 0;  // of the chip, 0..33
  uint8_t queue = 0;
  bool s2m = false;       // which ring
  bool late = false;      // refused for its age: not even a notification is written
  uint32_t index = 0;     // descriptor in that ring
  uint64_t address = 0;   // the address that was refused, or the ring's
  uint32_t link = 0;      // LINK: routing id
  uint32_t offset = 0;    // DMA_STREAM: byte of the stream
  const char* rule = "";  // what was broken, for an operator
  explicit operator bool() const { return code != NEURON_FAULT_NONE; }
  // "DMA engine 3 queue 2, M2S descriptor 17: the source is not mapped (address 0x...)"
  std::string describe() const;
};

// An address that was refused because nothing leads to its chip: LINK instead of DMA_BUS.
inline void name_broken_link(const Bus& bus, DmaFault& fault) {
  uint32_t id = 0;
  if (bus.refusal(fault.address, id) != NEURON_FAULT_LINK) return;
  fault.code = NEURON_FAULT_LINK;
  fault.link = id;
  fault.rule = "no link leads to the chip of this address";
}

// No initial values: a Packet has 130 of them and is used for every run.
struct Descriptor {
  uint32_t control;
  uint32_t meta;
  uint64_t address;
  uint32_t bytes() const {
    const uint32_t length = control & NEURON_DESC_LENGTH_MASK;
    return length == 0 ? NEURON_UDMA_MAX_DESC_BYTES : length;
  }
  // Of the packet that the descriptor opens.
  unsigned service_class() const {
    return meta >> NEURON_META_CLASS_SHIFT & (NEURON_DMA_CLASSES - 1);
  }
};
static_assert(sizeof(Descriptor) == NEURON_DESC_BYTES);

struct RingView {
  uint64_t base = 0;
  uint32_t length = 0;
  uint32_t index = 0;      // of the next descriptor to fetch
  uint32_t available = 0;  // pushed and not yet consumed
  uint32_t ring_id = 1;    // expected at `index`
  // The whole ring where it lies in one piece of memory, else null: then each descriptor is looked
  // up.
  const std::byte* memory = nullptr;
  Reach reach = Reach::kShared;  // of the ring's queue

  // Within a transfer: what it finds is good until that ends.
  void look_up(const Bus& bus) {
    memory = bus.direct(base, size_t{length} * NEURON_DESC_BYTES, reach);
  }
  uint32_t at(uint32_t ahead) const {
    const uint32_t i = index + ahead;
    return i >= length ? i - length : i;
  }
  uint32_t id_at(uint32_t ahead) const {
    return (index + ahead >= length ? ring_id + 1 : ring_id) & 3;
  }
  // False if the ring's memory is not mapped there. `ahead` < available <= length.
  bool fetch(const Bus& bus, uint32_t ahead, Descriptor& out) const {
    const std::byte* from = memory != nullptr
                                ? memory + uint64_t{at(ahead)} * NEURON_DESC_BYTES
                                : bus.direct(address_of(ahead), NEURON_DESC_BYTES, reach);
    if (from == nullptr) return false;
    std::memcpy(&out, from, sizeof out);
    return true;
  }
  uint64_t address_of(uint32_t ahead) const {
    return base + uint64_t{at(ahead)} * NEURON_DESC_BYTES;
  }
};

struct Packet {
  std::array<Descriptor, NEURON_UDMA_MAX_PACKET_DESCS> m2s;
  std::array<Descriptor, NEURON_UDMA_MAX_PACKET_DESCS> s2m;
  uint32_t m2s_count = 0;
  uint32_t s2m_count = 0;
  uint32_t bytes = 0;      // of the sources
  uint32_t stale_ids = 0;  // descriptors whose ring id is not the expected one
  bool computes = false;   // `compute` says what; metadata is among the M2S descriptors
  ComputeSpec compute;
  uint32_t result_bytes() const { return computes ? compute.result_bytes : bytes; }
  // Bytes at the rate of a plain copy that take as long, if no descriptor takes less time than
  // `least_transfer` bytes.
  uint64_t time_bytes(const ChipLayout& layout, uint64_t least_transfer) const;
  // Of the packet that `m2s` opens; 0 on chips without classes.
  unsigned service_class() const { return m2s[0].service_class(); }
  bool single() const { return m2s_count == 1 && s2m_count == 1; }
  bool notify() const {
    return ((m2s[m2s_count - 1].control | s2m[s2m_count - 1].control) & NEURON_DESC_NOTIFY) != 0;
  }

 private:
  bool adds_near_memory(const ChipLayout& layout) const;
};

enum class Parse : uint8_t { kComplete, kIncomplete, kFault };

// The packet that begins `m2s_ahead` and `s2m_ahead` descriptors behind the rings' indexes. `fault`
// gets code, ring, index, address and rule.
Parse parse_packet(const Bus& bus, const RingView& m2s, uint32_t m2s_ahead, const RingView& s2m,
                   uint32_t s2m_ahead, Packet& packet, DmaFault& fault);

}  // namespace neuron::chip

#endif
