// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/pair_operations.h"

#include <utility>

namespace neuron::builder {

// The wait and the update of an instruction at which two cores meet.
void PairOperations::emit_meeting(Draft draft, uint8_t semaphore) {
  draft.immediate0(semaphore, NEURON_DTYPE_U32);
  draft.i.wait[1] = {semaphore, NEURON_WAIT_GE, false, false, 1};
  draft.i.update[1] = {semaphore, NEURON_UPDATE_DEC, true, false, 0};
  emit(std::move(draft));
}

void PairOperations::core_barrier(Engine engine, const BufferAccess& data, uint8_t semaphore) {
  Draft draft(NEURON_OP_BARRIER, static_cast<unsigned>(engine));
  if (data.present()) {
    draft.reads.push_back(region_of(data));
    draft.writes.push_back(region_of(data));
  }
  emit_meeting(std::move(draft), semaphore);
}

void PairOperations::send_receive(const TileAccess& to, const TileAccess& from, uint8_t semaphore) {
  Draft draft(NEURON_OP_SENDRECV, NEURON_ENGINE_POOL);
  draft.to(to).from(from);
  emit_meeting(std::move(draft), semaphore);
}

}  // namespace neuron::builder
