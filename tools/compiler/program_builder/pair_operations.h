// SPDX-License-Identifier: Apache-2.0
//
// Where the two programs of a virtual core of two physical ones meet (Program::physical_cores).
// Callers: kernels, through Program. Thread-safe: no. Fails: as Program; a program whose other one
// never comes is found when it runs.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_PAIR_OPERATIONS_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_PAIR_OPERATIONS_H

#include <cstdint>
#include <vector>

#include "tools/compiler/program_builder/access.h"
#include "tools/compiler/program_builder/operations.h"

namespace neuron::builder {

class PairOperations : protected virtual Operations {
 public:
  // The two programs of a virtual core of two physical ones (Program::physical_cores), generation
  // 3. Both programs call the same of these in the same order. `semaphore`: 8 to 15.
  // What touches `data` before the barrier is done on both cores before what follows begins.
  void core_barrier(Engine engine, const BufferAccess& data = {},
                    uint8_t semaphore = NEURON_SEM_PAIR_FIRST);
  void core_barrier(Engine engine, const std::vector<BufferAccess>& data, uint8_t semaphore);
  // to = `from` of the other core. On Pool.
  void send_receive(const TileAccess& to, const TileAccess& from,
                    uint8_t semaphore = NEURON_SEM_PAIR_LAST);
  // One direction alone, for programs that differ: each `tell_other` of one program lets one
  // `await_other` of the other one with the same semaphore go on. The semaphore is for one engine
  // of each program, and for nothing else. What touches `data` before tell_other is done before
  // what follows await_other on the other core begins.
  void tell_other(Engine engine, const BufferAccess& data, uint8_t semaphore);
  void await_other(Engine engine, const BufferAccess& data, uint8_t semaphore);

 protected:
  ~PairOperations() = default;

 private:
  void emit_meeting(Draft draft, uint8_t semaphore);
};

}  // namespace neuron::builder

#endif
