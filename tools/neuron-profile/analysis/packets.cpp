// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/packets.h"

#include <algorithm>

#include "driver/isa/dma_cost.h"

namespace neuron::profile {
namespace {

constexpr uint32_t kWord = 4;  // bytes of a packet that changes a semaphore

}  // namespace

void Packets::lost() {
  lost_ = true;
  places_.clear();
}

const std::vector<Packet>& Packets::of(const TransferEvent& e, uint32_t row_bytes, bool changes) {
  packets_.clear();
  if (program_.packets.contains(uint32_t{e.queue} << 8 | e.dma_engine)) {
    take_from_ring(e);
  } else {
    const uint64_t word = changes ? kWord : 0;
    const uint64_t bytes = e.bytes - std::min(e.bytes, word);
    const bool alike = e.descriptors == 1 || (e.descriptors != 0 && row_bytes != 0 &&
                                              bytes == uint64_t{e.descriptors} * row_bytes);
    if (alike || e.descriptors == 0) {
      Packet one;
      one.bytes = e.descriptors == 0 ? 0 : static_cast<uint32_t>(bytes / e.descriptors);
      packets_.assign(e.descriptors, one);
      if (changes) {
        one.bytes = kWord;
        packets_.push_back(one);
      }
    }
  }
  set_times(e);
  return packets_;
}

void Packets::take_from_ring(const TransferEvent& e) {
  const uint32_t number = uint32_t{e.queue} << 8 | e.dma_engine;
  const std::vector<ntff::TracePacket>& ring = program_.packets.at(number);
  size_t& place = places_.try_emplace(number, lost_ ? SIZE_MAX : 0).first->second;
  if (place == SIZE_MAX || ring.empty()) return;
  // The packet that changes a semaphore is none of `descriptors`, and has bytes.
  uint64_t bytes = 0;
  for (uint32_t n = 0; n < uint32_t{e.descriptors} + 1 && bytes < e.bytes; ++n) {
    Packet packet;
    static_cast<ntff::TracePacket&>(packet) = ring[(place + n) % ring.size()];
    bytes += packet.bytes;
    packets_.push_back(packet);
  }
  const bool fits = bytes == e.bytes && packets_.size() >= e.descriptors;
  place = fits ? (place + packets_.size()) % ring.size() : SIZE_MAX;
  if (!fits) packets_.clear();
}

// A DMA engine moves them one after the other, each for at least as long as it takes a descriptor.
void Packets::set_times(const TransferEvent& e) {
  const uint64_t least = isa::least_transfer(isa::timing_of(program_.generation));
  uint64_t all = 0, passed = 0;
  for (const Packet& packet : packets_) all += std::max<uint64_t>(packet.bytes, least);
  const auto time = [&] {
    return e.begin + static_cast<uint64_t>(static_cast<double>(e.end - e.begin) *
                                           static_cast<double>(passed) / static_cast<double>(all));
  };
  for (Packet& packet : packets_) {
    packet.begin = time();
    passed += std::max<uint64_t>(packet.bytes, least);
    packet.end = time();
  }
}

}  // namespace neuron::profile
