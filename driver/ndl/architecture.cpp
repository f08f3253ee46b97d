// SPDX-License-Identifier: Apache-2.0
#include "driver/ndl/architecture.h"

#include <iterator>

#include "uapi/neuron_ioctl.h"

namespace neuron::ndl {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

constexpr RegisterPages kFirstGeneration[] = {{NEURON_DM_BLOCK_TPB, 0, 4, 0x2700000, 0x4000000}};
constexpr RegisterPages kSecondGeneration[] = {
    {NEURON_DM_BLOCK_TPB, 0, 2, 0x2700000, 0x4000000},
    {NEURON_DM_BLOCK_TOPSP, 0, 6, 0x10000000, 0x400000},
};
constexpr RegisterPages kThird[] = {
    {NEURON_DM_BLOCK_TPB, 0, 8, 0xD2700000, 0x4000000},
    {NEURON_DM_BLOCK_TOPSP, 0, 8, 0xF0000000, 0x400000},
    {NEURON_DM_BLOCK_TOPSP, 8, 8, 0xF2800000, 0x400000},
};

constexpr Architecture kArchitectures[] = {
    {1, 4, 8 * kGiB, 4 * kGiB, false, kFirstGeneration},
    {2, 2, 32 * kGiB, 16 * kGiB, false, kSecondGeneration},
    {3, 8, 96 * kGiB, 0, true, kThird},
};

}  // namespace

const Architecture& architecture_of(unsigned generation) {
  for (const Architecture& row : kArchitectures) {
    if (row.generation == generation) return row;
  }
  return *std::rbegin(kArchitectures);
}

}  // namespace neuron::ndl
