// SPDX-License-Identifier: Apache-2.0
//
// The chip generations that a file may be built for: one row each.
// Callers: readers and checks of this folder, the assembler. Thread-safe: constants. Cannot fail.
#ifndef RUNTIME_NEFF_GENERATIONS_H
#define RUNTIME_NEFF_GENERATIONS_H

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace neuron::neff {

struct Generation {
  uint32_t number = 0;
  std::array<std::string_view, 3> targets;  // names of a file's target; empty: none
  const char* words = nullptr;              // for sentences
  uint64_t sbuf_partition_bytes = 0;        // that a partition really has
};

// Null for an unknown number.
const Generation* find_generation(uint32_t number);

// 2 for "trn1", "trn1n", "inf2"; 0 for an unknown name.
uint32_t generation_of(std::string_view target);
const char* generation_words(uint32_t generation);
// "2, 3 or 4"
std::string known_generations();
// Bytes that a partition of SBUF really has.
uint64_t sbuf_partition_bytes(uint32_t generation);

}  // namespace neuron::neff

#endif
