// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/udma_packet.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace neuron::chip {
namespace {

// Meta control bits that a plain copy may have: first and last block, copy, operation 2, barrier.
constexpr uint32_t kCopyOperation = NEURON_META_OP_COPY << NEURON_META_OP_SHIFT;
constexpr uint32_t kCopySource = 1u << 19;
constexpr uint32_t kCopyFixed = kCopyOperation | kCopySource;
constexpr uint32_t kCopyFree = NEURON_META_WRITE_BARRIER | 3u;
// In the descriptor that opens a packet, on chips that have classes of service.
constexpr uint32_t kClass = (NEURON_DMA_CLASSES - 1u) << NEURON_META_CLASS_SHIFT;

constexpr uint32_t kTypeMask = 7u << NEURON_META_TYPE_SHIFT;
constexpr uint32_t kComputeFixed = NEURON_META_OP_COMPUTE << NEURON_META_OP_SHIFT | kCopySource;
constexpr uint32_t kRecodeFixed = NEURON_META_OP_RECODE << NEURON_META_OP_SHIFT | kCopySource;

const char* broken_copy(const Descriptor& d, bool may_have_class) {
  if ((d.control & NEURON_DESC_META) != 0) return "metadata inside a packet of plain copies";
  if ((d.meta & ~(kCopyFree | (may_have_class ? kClass : 0))) == kCopyFixed) return nullptr;
  if ((d.meta & ~(kCopyFree | kClass)) == kCopyFixed) {
    return "a class of service needs generation 4, and the descriptor that opens the packet";
  }
  switch (d.meta >> NEURON_META_OP_SHIFT & 7u) {
    case NEURON_META_OP_COPY:
      return "meta control asks for something that a plain copy does not have (type, CRC, byte "
             "order)";
    case NEURON_META_OP_COMPUTE:
    case NEURON_META_OP_RECODE:
      return "a compute or recode descriptor in a packet that no metadata descriptor opens";
    default:
      return "the operation in meta control is none of copy (2), compute (3) and recode (4)";
  }
}

const char* broken_compute(const Descriptor& d, const ComputeSpec& spec) {
  if ((d.meta & ~(kCopyFree | kTypeMask)) != (spec.recodes() ? kRecodeFixed : kComputeFixed)) {
    return "meta control of a compute or recode packet asks for something else (operation 3, or 4 "
           "of compress and decompress, no CRC, no byte order)";
  }
  // Compress and decompress are types 0 and 1 of their operation.
  if ((d.meta & kTypeMask) >> NEURON_META_TYPE_SHIFT != (spec.operation & 7u)) {
    return "the type in meta control is not the operation of the packet's metadata";
  }
  return nullptr;
}

// Checks the descriptor behind `count` others with `bytes` of data.
const char* broken_rule(const Descriptor& d, uint32_t count, uint32_t bytes, unsigned generation,
                        Packet& packet) {
  const bool metadata = (d.control & NEURON_DESC_META) != 0;
  if (count == 0) {
    packet.computes = metadata;
    if ((d.control & NEURON_DESC_FIRST) == 0) return "the packet does not begin with FIRST";
  }
  if (metadata && packet.computes) {
    const uint64_t low = d.control | uint64_t{d.meta} << 32;
    return count == 0 ? packet.compute.begin(low, d.address, generation)
                      : packet.compute.change(low, d.address, bytes);
  }
  const char* rule = packet.computes ? broken_compute(d, packet.compute)
                                     : broken_copy(d, count == 0 && generation >= 4);
  if (rule != nullptr) return rule;
  if (count != 0 && (d.control & NEURON_DESC_FIRST) != 0) {
    return "FIRST inside a packet that has no LAST yet";
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
  const unsigned generation = bus.layout().generation;
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
    if (const char* rule = broken_rule(d, count, bytes, generation, packet)) {
      return broken(fault, NEURON_FAULT_DMA_DESC, m2s, false, ahead, rule);
    }
    packet.stale_ids += (d.control >> NEURON_DESC_RING_ID_SHIFT & 3u) != m2s.id_at(ahead);
    if ((d.control & NEURON_DESC_META) == 0) bytes += d.bytes();
    ++count;
    if ((d.control & NEURON_DESC_LAST) != 0) break;
  }
  if (bytes > NEURON_UDMA_MAX_PACKET_BYTES) {
    return broken(fault, NEURON_FAULT_DMA_DESC, m2s, false, m2s_ahead + count - 1,
                  "the packet has more than 1048575 bytes");
  }
  if (packet.computes) {
    if (const char* rule = packet.compute.finish(bytes)) {
      return broken(fault, NEURON_FAULT_DMA_DESC, m2s, false, m2s_ahead, rule);
    }
  }
  packet.m2s_count = count;
  packet.bytes = bytes;
  const uint32_t wanted = packet.result_bytes();
  count = 0;
  for (uint32_t room = 0; room < wanted; ++count) {
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

// What SBUF adds itself on generation 4: B += A takes the time of a copy of A.
bool Packet::adds_near_memory(const ChipLayout& layout) const {
  if (layout.generation < 4 || !compute.adds_one_to_destination()) return false;
  return std::all_of(s2m.begin(), s2m.begin() + s2m_count, [&](const Descriptor& d) {
    return !layout.is_routed(d.address) && layout.is_sbuf(d.address);
  });
}

uint64_t Packet::time_bytes(const ChipLayout& layout, uint64_t least_transfer) const {
  // What the rules below say of one piece, which most packets are.
  if (single() && !computes) return std::max<uint64_t>(bytes, least_transfer);
  if (!computes || adds_near_memory(layout)) {
    // The two halves of an engine work at the same time, so the slower one counts.
    uint64_t read = 0;
    uint64_t written = 0;
    for (uint32_t d = computes ? 1 : 0; d < m2s_count; ++d) {  // metadata takes no time
      read += std::max<uint64_t>(m2s[d].bytes(), least_transfer);
    }
    for (uint64_t d = 0, left = bytes; d < s2m_count; ++d) {
      const uint64_t part = std::min<uint64_t>(s2m[d].bytes(), left);
      written += std::max(part, least_transfer);
      left -= part;
    }
    return std::max(read, written);
  }
  const bool inside_core =
      layout.is_core(m2s[1].address) && layout.is_core(s2m[0].address);  // m2s[0] is metadata
  // Metadata belongs to the source behind it (our choice: nothing is published).
  const auto sources = std::count_if(m2s.begin(), m2s.begin() + m2s_count, [](const Descriptor& d) {
    return (d.control & NEURON_DESC_META) == 0;
  });
  return std::max(compute.time_bytes(inside_core),
                  std::max(static_cast<uint32_t>(sources), s2m_count) * least_transfer);
}

std::string DmaFault::describe() const {
  char text[256];
  char place[64] = "";
  if (code == NEURON_FAULT_DMA_STREAM) {
    std::snprintf(place, sizeof place, ", byte %" PRIu32 " of the stream", offset);
  }
  std::snprintf(text, sizeof text,
                "DMA engine %u queue %u, %s descriptor %" PRIu32 ": %s (address 0x%" PRIx64 "%s)",
                engine, queue, s2m ? "S2M" : "M2S", index, rule, address, place);
  return text;
}

}  // namespace neuron::chip
