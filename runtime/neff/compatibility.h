// SPDX-License-Identifier: Apache-2.0
//
// Checks that this runtime can run a NEFF on this device, before a container is read as a model.
// Callers: load_model(), neuron-packager info. Thread-safe: no state.
// A program of another compiler lacks the feature bit, the format name or the magic of this format.
// Fails: NRT_UNSUPPORTED_NEFF_VERSION with a sentence that says what the program was built for and
// what runs it.
#ifndef RUNTIME_NEFF_COMPATIBILITY_H
#define RUNTIME_NEFF_COMPATIBILITY_H

#include "runtime/neff/container.h"
#include "runtime/neff/generations.h"

namespace neuron::neff {

// What the file must match. Zero means: any.
struct Target {
  uint32_t generation = 0;   // 2 = trn1 and inf2, 3 = trn2.
  uint32_t lnc = 0;          // Physical cores per logical core of this process.
  bool allow_older = false;  // NEURON_RT_ALLOW_LEGACY_NEFF: an older generation's program will do.
};

inline constexpr uint64_t kVersionMajor = 2;
inline constexpr uint64_t kVersionMinor = 1;

runtime::Result<void> check_compatible(const Container& container, const Target& target);

// "trn1 by neuronx-cc 2.14", as far as the file tells; for people.
std::string describe_origin(const Container& container);

}  // namespace neuron::neff

#endif
