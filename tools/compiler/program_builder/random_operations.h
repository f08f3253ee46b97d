// SPDX-License-Identifier: Apache-2.0
//
// Random numbers: bits, dropout, and the states that they come from.
// Callers: kernels, through Program. Thread-safe: no. Fails: as Program.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_RANDOM_OPERATIONS_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_RANDOM_OPERATIONS_H

#include "tools/compiler/program_builder/access.h"
#include "tools/compiler/program_builder/operations.h"

namespace neuron::builder {

class RandomOperations : protected virtual Operations {
 public:
  void dropout(const TileAccess& to, const TileAccess& from, const ScalarArgument& probability,
               bool keep = false);
  void random_bits(const TileAccess& to, Engine engine = Engine::kDve);
  void set_random_seed(const TileAccess& seed);
  // Generation 4: uniform from low to high.
  void random_uniform(const TileAccess& to, const ScalarArgument& low, const ScalarArgument& high);
  // XORWOW states, u32: [P, 6] of Pool (generation 3), [P, 24] of DVE (generation 4).
  void set_random_state(Engine engine, const TileAccess& states);
  void get_random_state(Engine engine, const TileAccess& to);

 protected:
  ~RandomOperations() = default;
};

}  // namespace neuron::builder

#endif
