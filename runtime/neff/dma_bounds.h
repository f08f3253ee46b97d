// SPDX-License-Identifier: Apache-2.0
//
// Checks that a DmaAccess stays inside its variable. Callers: transfer_reader.cpp. Thread-safe: no
// state. Fails with the rest of a sentence ("reaches byte ..."), which the caller appends to the
// place.
#ifndef RUNTIME_NEFF_DMA_BOUNDS_H
#define RUNTIME_NEFF_DMA_BOUNDS_H

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/neff/generations.h"
#include "runtime/neff/model.h"

namespace neuron::neff {

// Empty if the access is good. Sizes are positive. The number of runs is added to `rows`.
std::optional<std::string> check_access(const DmaAccess& access, const Variable& variable,
                                        uint32_t generation, const ModelLimits& limits,
                                        uint64_t& rows);

}  // namespace neuron::neff

#endif
