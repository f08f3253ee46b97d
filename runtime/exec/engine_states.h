// SPDX-License-Identifier: Apache-2.0
//
// Describes in words what the engines of a core do, for executions that do not end.
// Callers: fault reports, before the core is reset; they hold the core's turn. Reads registers
// only, so it works with every kind of driver. Fails: never; what cannot be read is left out.
#ifndef RUNTIME_EXEC_ENGINE_STATES_H
#define RUNTIME_EXEC_ENGINE_STATES_H

#include <string>

#include "runtime/model/loaded_model.h"

namespace neuron::runtime {

struct EngineStates {
  std::string
      working;       // engines inside the model's code, waiting ones first; empty if there is none
  std::string rest;  // all others, briefly
  unsigned waiting = 0;  // of those inside the model's code
  unsigned idle = 0;     // as after a reset
  std::string hung;      // engines that run and issue nothing
  std::string queues;    // DMA queues of the core with descriptors left
};

// `stuck`: nothing on the core can advance, so an engine whose state is "running" hangs.
EngineStates describe_engines(const LoadedModel& model, bool stuck);

}  // namespace neuron::runtime

#endif
