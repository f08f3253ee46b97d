// SPDX-License-Identifier: Apache-2.0
//
// The rings of transfers that a program's functions need, and what to do if they are too many.
//
// Each function has a ring in each queue set that it uses. If the rings are more than a core has
// queues for programs, the runtime lets functions of an engine share queues (runtime/README.md),
// and each call gives its function's rings to them, one after the other. So functions then get one
// queue set for each engine. Callers: Schedule, when the main program has its place and the
// functions have not. Thread-safe: const. Owns what it found. Cannot fail.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_FUNCTION_RINGS_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_FUNCTION_RINGS_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "tools/compiler/program_builder/placement.h"
#include "tools/compiler/program_builder/recording.h"

namespace neuron::builder {

class FunctionRings {
 public:
  FunctionRings(const Placement::Parts& parts, const std::vector<Node>& functions);

  bool are_too_many() const { return too_many_; }
  // Names the queue sets anew. `levels`: of functions, by number; what a function calls has lower
  // ones.
  void gather(std::vector<Transfer>& transfers, const std::vector<uint32_t>& levels) const;

 private:
  void list(const std::vector<Node>& nodes, uint32_t function);
  // Queues that functions share, at most: those of one level use the same.
  size_t shared_queues(const std::vector<Transfer>& transfers,
                       const std::vector<uint32_t>& levels) const;

  std::map<size_t, uint32_t> function_of_;  // The functions of transfers
  bool generates_ = false;  // Pool makes descriptors, for which there is a queue, too
  bool too_many_ = false;
};

}  // namespace neuron::builder

#endif
