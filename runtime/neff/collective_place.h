// SPDX-License-Identifier: Apache-2.0
//
// Checks that the buffers of a collective lie where they may. Callers: collective_reader.cpp when a
// file is read; collectives/connect when the number of ranks, and with it the sizes, are known.
// Thread-safe: no state. Fails with a sentence that names the buffer; the caller appends it to the
// place.
#ifndef RUNTIME_NEFF_COLLECTIVE_PLACE_H
#define RUNTIME_NEFF_COLLECTIVE_PLACE_H

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/neff/model.h"

namespace neuron::neff {

// A buffer of a collective, and what is known of its variable.
struct CollectivePlace {
  std::string name;  // of the variable
  uint64_t variable_bytes = 0;
  uint64_t offset = 0;
  RowsOfSbuf rows;
  uint64_t bytes = 0;  // that the operation reads or writes
};

std::optional<std::string> check_place(const CollectivePlace& place, uint64_t element_bytes,
                                       uint32_t generation);
// Buffers in SBUF are either in place (the same rows) or apart.
std::optional<std::string> check_apart(const CollectivePlace& input, const CollectivePlace& output);

}  // namespace neuron::neff

#endif
