// SPDX-License-Identifier: Apache-2.0
// Types by the short names that the tests of the builder use.
//
// Callers: tests. Values only.
#ifndef TESTS_UNIT_TOOLS_COMPILER_PROGRAM_BUILDER_SHORT_NAMES_H
#define TESTS_UNIT_TOOLS_COMPILER_PROGRAM_BUILDER_SHORT_NAMES_H

#include <cstdint>

#include "hw/isa.h"

namespace neuron::builder {

inline constexpr uint8_t kF32 = NEURON_DTYPE_F32;
inline constexpr uint8_t kBf16 = NEURON_DTYPE_BF16;
inline constexpr uint8_t kU32 = NEURON_DTYPE_U32;
inline constexpr uint8_t kU8 = NEURON_DTYPE_U8;

}  // namespace neuron::builder

#endif
