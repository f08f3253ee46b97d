// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/pair_operations.h"

#include <utility>

#include "driver/base/format.h"

namespace neuron::builder {

namespace {

// What touches the data before comes before, what touches it later behind.
void order(Draft& draft, const BufferAccess& data) {
  if (!data.present()) return;
  draft.reads.push_back(region_of(data));
  draft.writes.push_back(region_of(data));
}

void check(Draft& draft, uint8_t semaphore) {
  if (semaphore >= NEURON_SEM_PAIR_FIRST && semaphore <= NEURON_SEM_PAIR_LAST) return;
  draft.wrong =
      base::format("semaphore {} between the two cores of a virtual core, expected {} to {}",
                   semaphore, NEURON_SEM_PAIR_FIRST, NEURON_SEM_PAIR_LAST);
}

}  // namespace

// The wait and the update of an instruction at which two cores meet.
void PairOperations::emit_meeting(Draft draft, uint8_t semaphore) {
  draft.immediate0(semaphore, NEURON_DTYPE_U32);
  draft.i.wait[1] = {semaphore, NEURON_WAIT_GE, false, false, 1};
  draft.i.update[1] = {semaphore, NEURON_UPDATE_DEC, true, false, 0};
  emit(std::move(draft));
}

void PairOperations::core_barrier(Engine engine, const BufferAccess& data, uint8_t semaphore) {
  core_barrier(engine, std::vector<BufferAccess>{data}, semaphore);
}

void PairOperations::core_barrier(Engine engine, const std::vector<BufferAccess>& data,
                                  uint8_t semaphore) {
  Draft draft(NEURON_OP_BARRIER, static_cast<unsigned>(engine));
  for (const BufferAccess& access : data) order(draft, access);
  emit_meeting(std::move(draft), semaphore);
}

void PairOperations::send_receive(const TileAccess& to, const TileAccess& from, uint8_t semaphore) {
  Draft draft(NEURON_OP_SENDRECV, NEURON_ENGINE_POOL);
  draft.to(to).from(from);
  emit_meeting(std::move(draft), semaphore);
}

void PairOperations::tell_other(Engine engine, const BufferAccess& data, uint8_t semaphore) {
  Draft draft(NEURON_OP_WRITE, static_cast<unsigned>(engine));
  check(draft, semaphore);
  order(draft, data);
  draft.i.drain = true;  // the engine's own earlier results, too
  draft.i.address.count = 1;
  draft.immediate0(1, NEURON_DTYPE_U32);
  draft.raises = semaphore;
  emit(std::move(draft));
}

void PairOperations::await_other(Engine engine, const BufferAccess& data, uint8_t semaphore) {
  Draft draft(NEURON_OP_EVENT, static_cast<unsigned>(engine));
  check(draft, semaphore);
  order(draft, data);
  draft.i.wait[1] = {semaphore, NEURON_WAIT_GE, false, false, 1};
  draft.i.update[1] = {semaphore, NEURON_UPDATE_DEC, true, false, 0};
  emit(std::move(draft));
}

}  // namespace neuron::builder
