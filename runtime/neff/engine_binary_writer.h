// SPDX-License-Identifier: Apache-2.0
//
// Writes an engine binary (hw/neff_program.h): header, sections, both CRCs.
// Callers: program builder, tests. Thread-safe: no state. This code checks only that parts fit
// their fields; check the result with read_engine_binary(). Fails: NRT_INVALID when a part does not
// fit its field.
#ifndef RUNTIME_NEFF_ENGINE_BINARY_WRITER_H
#define RUNTIME_NEFF_ENGINE_BINARY_WRITER_H

#include <cstdint>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/neff/model.h"

namespace neuron::tools {

// Writes engine, generation, code, entries, relocations (target is ignored) and lines of `program`.
runtime::Result<std::vector<uint8_t>> write_engine_binary(const neff::EngineProgram& program);

}  // namespace neuron::tools

#endif
