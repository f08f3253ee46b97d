// SPDX-License-Identifier: Apache-2.0
// Instructions where they lie in a program.
//
// Callers: this folder. Any thread. Cannot fail; the caller has checked that the program has the
// instruction.
#ifndef RUNTIME_MODEL_INSTRUCTIONS_H
#define RUNTIME_MODEL_INSTRUCTIONS_H

#include <cstddef>
#include <span>

#include "driver/isa/instruction.h"
#include "hw/isa.h"

namespace neuron::runtime {

inline isa::Bytes bytes_at(std::span<const std::byte> code, size_t pc) {
  return code.subspan(pc * NEURON_INSTRUCTION_BYTES).first<NEURON_INSTRUCTION_BYTES>();
}

}  // namespace neuron::runtime

#endif
