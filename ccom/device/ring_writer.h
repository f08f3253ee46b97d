// SPDX-License-Identifier: Apache-2.0
// Writes transfers as descriptors into the rings of a stream, spread over its DMA engines.
//
// A transfer is cut into one part for each engine, and a part into descriptors of at most 64 KiB
// that are contiguous on all sides (buffer_place.h). After them comes a word for each semaphore to
// signal. One trigger starts the whole transfer; it counts at most 65535 descriptors for each
// engine. Callers: the compiler, which has checked types and sizes. Thread-safe: no. Fails:
// overflowed().
#ifndef CCOM_DEVICE_RING_WRITER_H
#define CCOM_DEVICE_RING_WRITER_H

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ccom/device/buffer_place.h"
#include "ccom/device/device_program.h"

namespace neuron::ccom {

struct TriggerCounts {
  uint16_t mask = 0;
  std::array<uint16_t, kDmaEngines> m2s{}, s2m{};
};

// A combination of operands.
struct Combination {
  uint8_t reduction = 0;  // enum neuron_dma_reduction
  uint8_t type = 0;       // enum neuron_dtype
  uint32_t element_bytes = 1;
  uint32_t divisor = 0;  // of a sum that is to be an average; 0: none
};

class RingWriter {
 public:
  RingWriter(std::array<DescriptorRing, kDmaEngines>& rings, uint16_t engines, uint64_t one);

  // How many engines take part in a transfer of `bytes`; its semaphores count to this number.
  uint32_t parts(uint64_t bytes) const { return parts_of(bytes, engines_of(mask_)); }
  static uint32_t parts_of(uint64_t bytes, uint32_t engines);
  static uint32_t engines_of(uint16_t mask) {
    return static_cast<uint32_t>(__builtin_popcount(mask));
  }

  // Adds parts(bytes) to each semaphore (an increment alias).
  TriggerCounts copy(const Region& from, const Region& to, uint64_t bytes,
                     std::span<const uint64_t> semaphores);
  // At most 64 sources.
  TriggerCounts combine(const Combination& how, std::span<const Region> sources, const Region& to,
                        uint64_t bytes, std::span<const uint64_t> semaphores);

  uint64_t moved_bytes() const { return moved_; }
  // True if a transfer had more descriptors than a trigger counts, and is incomplete.
  bool overflowed() const { return overflowed_; }

 private:
  struct Part {
    uint32_t engine;
    uint64_t offset, bytes;
  };
  std::vector<Part> cut(uint64_t bytes);
  void words(uint32_t engine, bool bare, std::span<const uint64_t> semaphores);
  template <class Write>
  TriggerCounts write(uint64_t bytes, std::span<const uint64_t> semaphores, Write write_piece);

  std::array<DescriptorRing, kDmaEngines>& rings_;
  std::vector<uint32_t> engines_;
  uint16_t mask_;
  uint64_t one_;
  uint32_t next_ = 0;
  uint64_t moved_ = 0;
  bool overflowed_ = false;
};

}  // namespace neuron::ccom

#endif
