// SPDX-License-Identifier: Apache-2.0
//
// Reads an engine binary (hw/neff_program.h): code, entries, relocations, source lines.
// Callers: model.cpp, tools. Thread-safe: no state. The result owns its bytes.
// Checked: magic, version, both CRCs, sections in the file, in order and apart, every index and
// string, reserved bytes zero, exactly one main entry. Symbols are resolved by the model, which
// knows the names. Fails: NRT_INVALID, or NRT_UNSUPPORTED_NEFF_VERSION for a foreign magic or
// version, with member and offset.
#ifndef RUNTIME_NEFF_ENGINE_BINARY_H
#define RUNTIME_NEFF_ENGINE_BINARY_H

#include <string_view>

#include "runtime/base/error.h"
#include "runtime/neff/model.h"

namespace neuron::neff {

bool has_engine_magic(Bytes file);

// `member` is only for messages.
runtime::Result<EngineProgram> read_engine_binary(Bytes file, std::string_view member,
                                                  uint32_t most_instructions = NEURON_PROGRAM_MAX);

}  // namespace neuron::neff

#endif
