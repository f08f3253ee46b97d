// SPDX-License-Identifier: Apache-2.0
//
// Connects the collectives of a loaded model with the other ranks, before any thread executes the
// model. The caller does not hold the core's turn.
// Callers: nrt_load_collectives, the registry, host-driven collectives. Fails: as
// CollectivePrograms::connect; NRT_INVALID for a buffer that does not fit the number of ranks.
#ifndef RUNTIME_COLLECTIVES_CONNECT_H
#define RUNTIME_COLLECTIVES_CONNECT_H

#include <memory>
#include <span>

#include "runtime/collectives/programs.h"
#include "runtime/model/loaded_model.h"

namespace neuron::runtime {

// Whether the buffers of the model's collectives fit that many ranks; needs no other rank.
Result<void> check_buffers(const LoadedModel& model, uint32_t ranks);
// The buffers are variables of the model.
Result<void> connect_model(LoadedModel& model, std::shared_ptr<World> world);
// `buffers`: one entry for each operation of the model.
Result<void> connect_model(LoadedModel& model, std::shared_ptr<World> world,
                           std::span<const CollectiveBuffers> buffers);

}  // namespace neuron::runtime

#endif
