// SPDX-License-Identifier: Apache-2.0
// What recode packets do to bytes (hw/udma.h, "Recode"): the stream of a content, or the content of
// a stream.
//
// Callers: udma_compute.cpp, which has read all sources and writes the result. Any thread. Writes
// inside `to` only. Fails: with the rule and the byte of the stream; `to` has no meaning then.
#ifndef DRIVER_EMULATOR_CHIP_UDMA_RECODE_H
#define DRIVER_EMULATOR_CHIP_UDMA_RECODE_H

#include <cstddef>
#include <span>

#include "driver/compression/stream.h"

namespace neuron::chip {

compression::Malformed recode(bool compresses, std::span<const std::byte> from,
                              std::span<std::byte> to);

}  // namespace neuron::chip

#endif
