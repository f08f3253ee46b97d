// SPDX-License-Identifier: Apache-2.0
//
// The program around a model's program on each engine: waits for a launch, calls `main`, reports.
// It stays resident, so that a launch is one record and one semaphore increment.
//   PE, Activation, Pool, DVE:  wait go; call main; drain, done++; repeat.
//   If functions share queues (veneers.h), an engine loads the address of the rings before `main`.
//   SP:  wait launch; if the record asks for it, point the queues to other rings and write the
//        addresses of tensors that the program reads; clear the program's semaphores and events;
//        rewind the rings, those of collectives too; go to the others; call main; wait for four
//        done and for all collectives; complete.
// Callers: loader. Thread-safe: no state. Cannot fail: its instructions are valid by construction
// (tests check them).
#ifndef RUNTIME_MODEL_WRAPPER_H
#define RUNTIME_MODEL_WRAPPER_H

#include <cstdint>
#include <optional>
#include <vector>

#include "driver/isa/instruction.h"
#include "runtime/device/chip_table.h"
#include "runtime/model/stream_use.h"
#include "runtime/rings/ring_plan.h"

namespace neuron::runtime {

struct WrapperRequest {
  uint8_t engine = 0;
  // Index of `main` in the code for this engine that follows the wrapper; empty: no code.
  std::optional<uint32_t> main;
  // The register that gets the low half of the address of all rings; empty: none.
  std::optional<uint8_t> ring_base;
  // SP only:
  CorePlace core;
  uint64_t launch_record = 0;
  std::vector<uint8_t> semaphores;  // of the program, ascending, each once
  std::vector<uint8_t> events;      // likewise
  const RingPlan* rings = nullptr;
  bool reads_addresses = false;    // of inputs or outputs, from its constants
  std::vector<StreamUse> streams;  // of collectives
};

std::vector<isa::Instruction> make_wrapper(const WrapperRequest& request);

}  // namespace neuron::runtime

#endif
