// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/memory_placement.h"

#include <numa.h>
#include <numaif.h>

#include <vector>

namespace neuron::chip {
namespace {

class HostPlacement final : public MemoryPlacement {
 public:
  int node_count() const override { return numa_available() < 0 ? 0 : numa_max_node() + 1; }

  bool prefer(void* memory, size_t bytes, int node) override {
    if (node < 0 || node >= node_count()) return false;
    constexpr unsigned kBits = 8 * sizeof(unsigned long);
    std::vector<unsigned long> mask(static_cast<unsigned>(node) / kBits + 1, 0);
    mask[static_cast<unsigned>(node) / kBits] = 1ul << (static_cast<unsigned>(node) % kBits);
    // One bit more than the mask holds: the kernel reads maxnode - 1 bits.
    return mbind(memory, bytes, MPOL_PREFERRED, mask.data(), mask.size() * kBits + 1, 0) == 0;
  }
};

}  // namespace

MemoryPlacement& host_placement() {
  static HostPlacement placement;
  return placement;
}

}  // namespace neuron::chip
