// SPDX-License-Identifier: Apache-2.0
// The facts that all ranks must agree on for one collective, and the hashes of a request.
//
// Callers: the communicator makes a signature for each operation, executors compare it with those
// of their peers, and the flight recorder keeps it. Thread-safe: values. Cannot fail.
#ifndef CCOM_REQUEST_SIGNATURE_H
#define CCOM_REQUEST_SIGNATURE_H

#include <cstdint>
#include <string>

#include "ccom/request/request.h"

namespace neuron::ccom {

// The first message between two ranks carries it.
struct Signature {
  uint64_t operation = 0;  // number of the collective on its stream
  uint64_t count = 0;
  uint64_t detail = 0;  // detail_of() the request
  uint8_t kind = 0;     // ccom_operation_t
  uint8_t type = 0;
  uint8_t reduction = 0;
  uint8_t algorithm = 0;
  uint8_t stream = 0;
  uint8_t reserved[3] = {};
  uint32_t root = 0;
  uint32_t unused = 0;  // padding, so that every byte is defined

  bool operator==(const Signature&) const = default;
};

// The number and the algorithm are not filled in.
Signature make_signature(const Request& request, uint32_t stream, uint64_t salt);
// "all_reduce 4711 of stream 0": for sentences.
std::string describe(const Signature& signature);

// A hash of those fields of a request that have no field in the signature.
uint64_t detail_of(const Request& request, uint64_t salt);
// Hash of the whole request.
uint64_t hash_of(const Request& request);

}  // namespace neuron::ccom

#endif
