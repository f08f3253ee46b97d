// SPDX-License-Identifier: Apache-2.0
//
// Fills the places of a program that depend on where it was loaded.
// Callers: loader. Thread-safe: no state. Fails: NRT_INVALID with engine, pc and symbol for an
// address that only a binding knows; NRT_UNSUPPORTED_NEFF_VERSION for other cores and ranks.
#ifndef RUNTIME_MODEL_RELOCATION_H_
#define RUNTIME_MODEL_RELOCATION_H_

#include <cstdint>
#include <span>

#include "runtime/neff/model.h"
#include "runtime/queue/ring_plan.h"
#include "runtime/session/chip_table.h"

namespace neuron::runtime {

struct RelocationContext {
  const neff::Subgraph& subgraph;
  const RingPlan& rings;
  std::span<const std::uint64_t> addresses;  // of the variables
  CorePlace core;
};

// `code`: the instructions of `program`, which it changes.
Result<void> relocate(const neff::EngineProgram& program, const RelocationContext& context,
                      std::span<std::byte> code);

}  // namespace neuron::runtime

#endif  // RUNTIME_MODEL_RELOCATION_H_
