// SPDX-License-Identifier: Apache-2.0
//
// Fills in the bytes of a program that depend on where it is loaded.
// Callers: loader. Thread-safe: no state. Fails: NRT_INVALID with engine, pc and symbol for an
// address that only a binding knows; NRT_UNSUPPORTED_NEFF_VERSION for other ranks.
#ifndef RUNTIME_MODEL_RELOCATION_H
#define RUNTIME_MODEL_RELOCATION_H

#include <cstdint>
#include <span>

#include "runtime/device/chip_table.h"
#include "runtime/neff/model.h"
#include "runtime/rings/ring_plan.h"

namespace neuron::runtime {

struct RelocationContext {
  const neff::Subgraph& subgraph;
  const RingPlan& rings;
  std::span<const uint64_t> addresses;  // of the variables
  CorePlace core;
  const neff::Subgraph* peer = nullptr;  // of the other core of a virtual core of two
};

// `code`: the instructions of `program`, which it changes.
Result<void> relocate(const neff::EngineProgram& program, const RelocationContext& context,
                      std::span<std::byte> code);

}  // namespace neuron::runtime

#endif
