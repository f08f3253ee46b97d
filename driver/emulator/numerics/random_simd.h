// SPDX-License-Identifier: Apache-2.0
// Philox blocks in bulk, on the SIMD path that is chosen.
//
// Called by RandomStream::fill only. Any thread; never fails. The words are those of philox4x32.
#ifndef DRIVER_EMULATOR_NUMERICS_RANDOM_SIMD_H
#define DRIVER_EMULATOR_NUMERICS_RANDOM_SIMD_H

#include <cstddef>
#include <cstdint>

namespace neuron::numerics {

// The four words of each of `count` blocks from number `first` on.
void philox_blocks(uint64_t seed, uint32_t lane, uint64_t first, uint32_t* out, size_t count);

}  // namespace neuron::numerics
#endif
