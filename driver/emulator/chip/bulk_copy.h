// SPDX-License-Identifier: Apache-2.0
// Copies between memories of the chip, as fast as one host thread can.
//
// Callers: DMA engines. Thread-safe: as memcpy. Overlapping ranges give what memmove gives.
#ifndef DRIVER_EMULATOR_CHIP_BULK_COPY_H
#define DRIVER_EMULATOR_CHIP_BULK_COPY_H

#include <cstddef>

namespace neuron::chip {

// `whole`: of how many bytes they are a part, which decides how they are copied; 0: they are all.
void bulk_copy(std::byte* to, const std::byte* from, size_t bytes, size_t whole = 0);

}  // namespace neuron::chip

#endif
