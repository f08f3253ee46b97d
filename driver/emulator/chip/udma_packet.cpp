// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/udma_packet.h"

#include <cinttypes>
#include <cstdio>

namespace neuron::chip {
namespace {

// Meta control bits that a plain copy may have: first and last block, copy, operation 2, barrier.
constexpr uint32_t kCopyOperation = NEURON_META_OP_COPY << NEURON_META_OP_SHIFT;
constexpr uint32_t kCopySource = 1u << 19;
constexpr uint32_t kCopyFixed = kCopyOperation | kCopySource;
constexpr uint32_t kCopyFree = NEURON_META_WRITE_BARRIER | 3u;

const char* broken_rule(const Descriptor& m2s) {
  if ((m2s.control & NEURON_DESC_META) != 0) {
    return "metadata descriptors (compute transfers) are not supported by this engine";
  }
  if ((m2s.meta & ~kCopyFree) != kCopyFixed) {
    if ((m2s.meta >> NEURON_META_OP_SHIFT & 7u) != NEURON_META_OP_COPY) {
      return "the operation in meta control is not a copy";
    }
    return "meta control asks for something that a plain copy does not have (type, CRC, byte "
           "order)";
  }
  return nullptr;
}

Parse broken(DmaFault& fault, neuron_fault code, const RingView& ring, bool s2m, uint32_t ahead,
             const char* rule) {
  fault.code = code;
  fault.s2m = s2m;
  fault.index = ring.at(ahead);
  fault.address = ring.address_of(ahead);
  fault.rule = rule;
  return Parse::kFault;
}

}  // namespace

Parse parse_packet(const Bus& bus, const RingView& m2s, uint32_t m2s_ahead, const RingView& s2m,
                   uint32_t s2m_ahead, Packet& packet, DmaFault& fault) {
  uint32_t count = 0;
  uint32_t bytes = 0;
  packet.stale_ids = 0;
  for (;;) {  // bounded: 65 descriptors
    const uint32_t ahead = m2s_ahead + count;
    if (ahead >= m2s.available) return Parse::kIncomplete;
    if (count == NEURON_UDMA_MAX_PACKET_DESCS) {
      return broken(fault, NEURON_FAULT_DMA_RING, m2s, false, ahead,
                    "the packet has more than 65 descriptors before LAST");
    }
    Descriptor& d = packet.m2s[count];
    if (!m2s.fetch(bus, ahead, d)) {
      return broken(fault, NEURON_FAULT_DMA_BUS, m2s, false, ahead, "the ring is not mapped here");
    }
    if (const char* rule = broken_rule(d)) {
      return broken(fault, NEURON_FAULT_DMA_DESC, m2s, false, ahead, rule);
    }
    if ((count == 0) != ((d.control & NEURON_DESC_FIRST) != 0)) {
      return broken(fault, NEURON_FAULT_DMA_DESC, m2s, false, ahead,
                    count == 0 ? "the packet does not begin with FIRST"
                               : "FIRST inside a packet that has no LAST yet");
    }
    packet.stale_ids += (d.control >> NEURON_DESC_RING_ID_SHIFT & 3u) != m2s.id_at(ahead);
    bytes += d.bytes();
    ++count;
    if ((d.control & NEURON_DESC_LAST) != 0) break;
  }
  if (bytes > NEURON_UDMA_MAX_PACKET_BYTES) {
    return broken(fault, NEURON_FAULT_DMA_DESC, m2s, false, m2s_ahead + count - 1,
                  "the packet has more than 1048575 bytes");
  }
  packet.m2s_count = count;
  packet.bytes = bytes;
  count = 0;
  for (uint32_t room = 0; room < bytes; ++count) {
    const uint32_t ahead = s2m_ahead + count;
    if (ahead >= s2m.available) return Parse::kIncomplete;
    if (count == NEURON_UDMA_MAX_PACKET_DESCS) {
      return broken(fault, NEURON_FAULT_DMA_RING, s2m, true, ahead,
                    "the packet needs more than 65 destination descriptors");
    }
    Descriptor& d = packet.s2m[count];
    if (!s2m.fetch(bus, ahead, d)) {
      return broken(fault, NEURON_FAULT_DMA_BUS, s2m, true, ahead, "the ring is not mapped here");
    }
    if (d.meta != 0 || (d.control & NEURON_DESC_META) != 0) {
      return broken(fault, NEURON_FAULT_DMA_DESC, s2m, true, ahead,
                    "a destination descriptor has a second buffer or metadata");
    }
    packet.stale_ids += (d.control >> NEURON_DESC_RING_ID_SHIFT & 3u) != s2m.id_at(ahead);
    room += d.bytes();
  }
  packet.s2m_count = count;
  return Parse::kComplete;
}

std::string DmaFault::describe() const {
  char text[256];
  std::snprintf(text, sizeof text,
                "DMA engine %u queue %u, %s descriptor %" PRIu32 ": %s (address 0x%" PRIx64 ")",
                engine, queue, s2m ? "S2M" : "M2S", index, rule, address);
  return text;
}

}  // namespace neuron::chip
