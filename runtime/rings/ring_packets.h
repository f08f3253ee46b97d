// SPDX-License-Identifier: Apache-2.0
//
// Cuts one transfer into packets of DMA descriptors (hw/udma.h), before any address is known.
// A copy becomes packets of one descriptor a side. The other operations become compute packets: on
// one side metadata, then the pieces of each source one after the other; on the other side the
// result's pieces. A compute packet has at most 65 descriptors a side and 1 MiB - 1 bytes. A
// transposition is cut into blocks of rows and columns; what compresses or decompresses is one
// packet. Packets of one transfer can be executed in any order, unless its sides overlap. Callers:
// RingPlan. Thread-safe: no state. Fails: NRT_UNSUPPORTED_NEFF_VERSION for what generation 2 lacks,
// NRT_RESOURCE beyond a limit; the sentence says what, the caller adds where.
#ifndef RUNTIME_RINGS_RING_PACKETS_H
#define RUNTIME_RINGS_RING_PACKETS_H

#include <cstdint>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/model.h"

namespace neuron::runtime {

// One descriptor; `base` is an index into the table of addresses of a binding (RingPlan).
struct RingDescriptor {
  static constexpr uint32_t kMetadata = UINT32_MAX;   // in `base`
  static constexpr uint32_t kEmpty = UINT32_MAX - 1;  // likewise: a slot without a descriptor

  uint64_t offset = 0;    // behind the address; metadata: its second 64-bit word
  uint32_t base = 0;      // or kMetadata, or kEmpty
  uint32_t length = 0;    // bytes; metadata: the high half of its first 64-bit word
  uint8_t operation = 0;  // enum neuron_dma_operation, of a source
  uint8_t priority = 0;   // of the packet, in its first descriptor and in all metadata
  bool first = false;
  bool last = false;
  bool barrier = false;

  bool operator==(const RingDescriptor&) const = default;
};

// Packets in order; packet i ends before m2s_end and s2m_end of ends[i].
struct PacketList {
  struct End {
    uint32_t m2s = 0;
    uint32_t s2m = 0;
  };
  std::vector<RingDescriptor> m2s;
  std::vector<RingDescriptor> s2m;
  std::vector<End> ends;

  void close() {
    ends.push_back({static_cast<uint32_t>(m2s.size()), static_cast<uint32_t>(s2m.size())});
  }
};

// `spread`: how many DMA engines will share the packets. `most`: descriptors of both sides.
Result<PacketList> cut_into_packets(const neff::DmaTransfer& transfer, uint32_t spread,
                                    uint64_t most);

}  // namespace neuron::runtime

#endif
