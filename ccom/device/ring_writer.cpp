// SPDX-License-Identifier: Apache-2.0
#include "ccom/device/ring_writer.h"

#include <algorithm>

#include "hw/isa.h"
#include "hw/udma.h"

namespace neuron::ccom {
namespace {

constexpr uint32_t kFirstRingId = 1;
// For smaller parts, the semaphore words of an engine cost more than its share of the bytes.
constexpr uint64_t kPartBytes = 32 * 1024;
constexpr uint64_t kPartAlignment = 64;
constexpr size_t kMostOfTrigger = 0xFFFF;

Descriptor source(uint64_t address, uint32_t bytes, uint32_t flags, uint8_t operation) {
  uint32_t meta = NEURON_META_DEFAULT;
  if (operation != NEURON_DMA_COPY) {
    meta &= ~(7u << NEURON_META_OP_SHIFT | 7u << NEURON_META_TYPE_SHIFT);
    meta |= NEURON_META_OP_COMPUTE << NEURON_META_OP_SHIFT | uint32_t{operation}
                                                                 << NEURON_META_TYPE_SHIFT;
  }
  // A length of 64 KiB is encoded as 0.
  return {kFirstRingId << NEURON_DESC_RING_ID_SHIFT | flags | (bytes & NEURON_DESC_LENGTH_MASK),
          meta, address};
}

Descriptor target(uint64_t address, uint32_t bytes) {
  return {kFirstRingId << NEURON_DESC_RING_ID_SHIFT | (bytes & NEURON_DESC_LENGTH_MASK), 0,
          address};
}

Descriptor metadata(const Combination& how, size_t sources) {
  const uint64_t others = sources - 1;
  const uint64_t low = uint64_t{NEURON_DMA_REDUCE} << NEURON_DMA_META_OPERATION_SHIFT |
                       uint64_t{how.type} << NEURON_DMA_META_FROM_SHIFT |
                       uint64_t{how.type} << NEURON_DMA_META_TO_SHIFT |
                       others % 16 << NEURON_DMA_META_SOURCES_SHIFT |
                       uint64_t{how.reduction} << NEURON_DMA_META_REDUCTION_SHIFT |
                       others / 16 << NEURON_DMA_META_MORE_SOURCES_SHIFT;
  return {kFirstRingId << NEURON_DESC_RING_ID_SHIFT | NEURON_DESC_META | NEURON_DESC_FIRST,
          static_cast<uint32_t>(low >> 32), how.divisor};
}

}  // namespace

RingWriter::RingWriter(std::array<DescriptorRing, kDmaEngines>& rings, uint16_t engines,
                       uint64_t one)
    : rings_(rings), mask_(engines), one_(one) {
  for (uint32_t e = 0; e < kDmaEngines; ++e) {
    if ((engines >> e & 1) != 0) engines_.push_back(e);
  }
}

uint32_t RingWriter::parts_of(uint64_t bytes, uint32_t engines) {
  return static_cast<uint32_t>(
      std::clamp<uint64_t>((bytes + kPartBytes - 1) / kPartBytes, 1, engines));
}

std::vector<RingWriter::Part> RingWriter::cut(uint64_t bytes) {
  const uint32_t count = parts(bytes);
  const uint64_t units = (bytes + kPartAlignment - 1) / kPartAlignment;
  std::vector<Part> result;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t begin = std::min(bytes, units * i / count * kPartAlignment);
    const uint64_t end = std::min(bytes, units * (i + 1) / count * kPartAlignment);
    result.push_back({engines_[next_], begin, end - begin});
    next_ = (next_ + 1) % static_cast<uint32_t>(engines_.size());
  }
  return result;
}

void RingWriter::words(uint32_t engine, bool bare, std::span<const uint64_t> semaphores) {
  DescriptorRing& ring = rings_[engine];
  // The barrier makes the data visible before the semaphore.
  if (!bare) ring.m2s.back().meta |= NEURON_META_WRITE_BARRIER;
  for (const uint64_t semaphore : semaphores) {
    Descriptor word = source(one_, 4, NEURON_DESC_FIRST | NEURON_DESC_LAST, NEURON_DMA_COPY);
    if (bare) word.meta |= NEURON_META_WRITE_BARRIER;
    ring.m2s.push_back(word);
    ring.s2m.push_back(target(semaphore, 4));
  }
}

template <class Write>
TriggerCounts RingWriter::write(uint64_t bytes, std::span<const uint64_t> semaphores,
                                Write write_piece) {
  TriggerCounts counts;
  for (const Part& part : cut(bytes)) {
    DescriptorRing& ring = rings_[part.engine];
    const size_t m2s = ring.m2s.size(), s2m = ring.s2m.size();
    uint64_t done = 0;
    // Rows of a few bytes make many descriptors; the loop stops when a trigger cannot count more.
    while (done < part.bytes && ring.m2s.size() - m2s <= kMostOfTrigger) {
      done += write_piece(ring, part.offset + done, part.bytes - done);
    }
    words(part.engine, ring.m2s.size() == m2s, semaphores);
    overflowed_ = overflowed_ || ring.m2s.size() - m2s > kMostOfTrigger;
    counts.mask = static_cast<uint16_t>(counts.mask | 1u << part.engine);
    counts.m2s[part.engine] = static_cast<uint16_t>(ring.m2s.size() - m2s);
    counts.s2m[part.engine] = static_cast<uint16_t>(ring.s2m.size() - s2m);
  }
  return counts;
}

TriggerCounts RingWriter::copy(const Region& from, const Region& to, uint64_t bytes,
                               std::span<const uint64_t> semaphores) {
  moved_ += bytes;
  return write(bytes, semaphores, [&](DescriptorRing& ring, uint64_t at, uint64_t left) {
    const auto length = static_cast<uint32_t>(
        std::min({left, uint64_t{NEURON_UDMA_MAX_DESC_BYTES}, from.run(at), to.run(at)}));
    ring.m2s.push_back(
        source(from.at(at), length, NEURON_DESC_FIRST | NEURON_DESC_LAST, NEURON_DMA_COPY));
    ring.s2m.push_back(target(to.at(at), length));
    return length;
  });
}

TriggerCounts RingWriter::combine(const Combination& how, std::span<const Region> sources,
                                  const Region& to, uint64_t bytes,
                                  std::span<const uint64_t> semaphores) {
  moved_ += bytes * sources.size();
  const uint64_t most = std::min<uint64_t>(NEURON_UDMA_MAX_DESC_BYTES,
                                           NEURON_UDMA_MAX_PACKET_BYTES / sources.size()) /
                        kPartAlignment * kPartAlignment;
  return write(bytes, semaphores, [&](DescriptorRing& ring, uint64_t at, uint64_t left) {
    uint64_t length = std::min({left, most, to.run(at)});
    for (const Region& from : sources) length = std::min(length, from.run(at));
    ring.m2s.push_back(metadata(how, sources.size()));
    for (const Region& from : sources) {
      ring.m2s.push_back(source(from.at(at), static_cast<uint32_t>(length), 0, NEURON_DMA_REDUCE));
    }
    ring.m2s.back().control |= NEURON_DESC_LAST;
    ring.s2m.push_back(target(to.at(at), static_cast<uint32_t>(length)));
    return static_cast<uint32_t>(length);
  });
}

}  // namespace neuron::ccom
