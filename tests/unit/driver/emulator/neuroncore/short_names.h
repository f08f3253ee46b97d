// SPDX-License-Identifier: Apache-2.0
// Engines and types by the short names that the tests of the core use.
//
// Callers: tests. Values only.
#ifndef TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_SHORT_NAMES_H
#define TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_SHORT_NAMES_H

#include "hw/isa.h"

namespace neuron::core {

inline constexpr unsigned kPe = NEURON_ENGINE_PE;
inline constexpr unsigned kAct = NEURON_ENGINE_ACTIVATION;
inline constexpr unsigned kPool = NEURON_ENGINE_POOL;
inline constexpr unsigned kDve = NEURON_ENGINE_DVE;
inline constexpr unsigned kSp = NEURON_ENGINE_SP;

inline constexpr unsigned kF32 = NEURON_DTYPE_F32;
inline constexpr unsigned kBf16 = NEURON_DTYPE_BF16;
inline constexpr unsigned kI32 = NEURON_DTYPE_I32;
inline constexpr unsigned kU32 = NEURON_DTYPE_U32;
inline constexpr unsigned kU16 = NEURON_DTYPE_U16;
inline constexpr unsigned kU8 = NEURON_DTYPE_U8;

inline constexpr unsigned kSbuf = NEURON_SPACE_SBUF;

}  // namespace neuron::core

#endif
