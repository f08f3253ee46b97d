// SPDX-License-Identifier: Apache-2.0
//
// Checks that a DmaAccess stays inside its variable. Callers: transfer_reader.cpp. Thread-safe: no
// state. Fails with the rest of a sentence ("reaches byte ..."), which the caller puts behind the
// place.
#ifndef RUNTIME_NEFF_DMA_BOUNDS_H
#define RUNTIME_NEFF_DMA_BOUNDS_H

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/neff/generations.h"
#include "runtime/neff/model.h"

namespace neuron::neff {

// Nothing if the access is good. Sizes are positive; `rows` is increased by the number of runs.
std::optional<std::string> check_access(const DmaAccess& access, const Variable& variable,
                                        uint32_t generation, const ModelLimits& limits,
                                        uint64_t& rows);

}  // namespace neuron::neff

#endif
