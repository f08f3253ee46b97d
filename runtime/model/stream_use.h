// SPDX-License-Identifier: Apache-2.0
//
// Which streams the collectives of a program use: for each stream, one CC core of the core and some
// of its DMA engines.
// Callers: loader, wrapper, collectives. Thread-safe: no state. Fails: NRT_UNSUPPORTED_NEFF_VERSION
// for a stream that this generation does not have.
#ifndef RUNTIME_MODEL_STREAM_USE_H
#define RUNTIME_MODEL_STREAM_USE_H

#include <cstdint>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/device/chip_table.h"
#include "runtime/neff/model.h"

namespace neuron::runtime {

// The parts of the core that one stream of a program uses.
struct StreamUse {
  uint32_t stream = 0;   // CC core of the core
  uint16_t engines = 0;  // mask of the core's DMA engines
  uint32_t count = 0;    // collectives of one execution
};

Result<std::vector<StreamUse>> streams_of(const std::vector<neff::Collective>& operations,
                                          const CorePlace& core);

}  // namespace neuron::runtime

#endif
