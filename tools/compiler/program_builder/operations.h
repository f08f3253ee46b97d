// SPDX-License-Identifier: Apache-2.0
//
// What every kind of operation needs: an engine, and somewhere to hand the drafted instruction to.
// Callers: the classes of operations. Thread-safe: no. Fails: as the program that takes the draft.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_OPERATIONS_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_OPERATIONS_H

#include <cstdint>

#include "tools/compiler/program_builder/draft.h"

namespace neuron::builder {

enum class Engine : uint8_t {
  kPe = NEURON_ENGINE_PE,
  kActivation = NEURON_ENGINE_ACTIVATION,
  kPool = NEURON_ENGINE_POOL,
  kDve = NEURON_ENGINE_DVE,
  kSp = NEURON_ENGINE_SP,
};

class Operations {
 protected:
  ~Operations() = default;
  // Checks the instruction and appends it to its engine's stream.
  virtual void emit(Draft draft) = 0;
};

}  // namespace neuron::builder

#endif
