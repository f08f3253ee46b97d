// SPDX-License-Identifier: Apache-2.0
// The operations that the ranks of a network test do in turn, with contents that follow from rank,
// communicator and number, so that the test knows every result. Pure functions.
#ifndef TESTS_SYSTEM_NETWORK_OPERATION_H
#define TESTS_SYSTEM_NETWORK_OPERATION_H

#include <ccom/ccom.h>

#include <cstdint>
#include <vector>

namespace neuron::network {

struct TestOperation {
  ccom_operation_t operation = CCOM_ALL_REDUCE;
  const char* name = "";
  uint64_t count = 0;
  uint64_t input_elements = 0, output_elements = 0;
};

inline TestOperation operation_of(uint64_t sequence, uint32_t ranks) {
  // Small and larger than a packet, in turn.
  const uint64_t count = sequence % 2 == 0 ? 64 : 5000;
  switch (sequence % 3) {
    case 0:
      return {CCOM_ALL_REDUCE, "all_reduce", count, count, count};
    case 1:
      return {CCOM_ALL_GATHER, "all_gather", count, count, count * ranks};
    default:
      return {CCOM_ALL_TO_ALL, "all_to_all", count, count * ranks, count * ranks};
  }
}

inline uint32_t element_of(uint32_t rank, uint32_t comm, uint64_t sequence, uint64_t index) {
  uint64_t x = (uint64_t{comm} << 48) + (uint64_t{rank} << 40) + (sequence << 20) + index;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return static_cast<uint32_t>(x ^ x >> 31);
}

inline std::vector<uint32_t> input_of(const TestOperation& operation, uint32_t rank, uint32_t comm,
                                      uint64_t sequence) {
  std::vector<uint32_t> input(operation.input_elements);
  for (uint64_t i = 0; i < input.size(); ++i) input[i] = element_of(rank, comm, sequence, i);
  return input;
}

inline uint64_t hash_of(const std::vector<uint32_t>& values) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const uint32_t value : values) hash = (hash ^ value) * 0x100000001b3u;
  return hash;
}

// The serial reference.
inline uint64_t expected_hash(uint32_t rank, uint32_t ranks, uint32_t comm, uint64_t sequence) {
  const TestOperation operation = operation_of(sequence, ranks);
  std::vector<uint32_t> output(operation.output_elements);
  for (uint32_t from = 0; from < ranks; ++from) {
    for (uint64_t i = 0; i < operation.count; ++i) {
      if (operation.operation == CCOM_ALL_REDUCE) {
        output[i] += element_of(from, comm, sequence, i);
      } else if (operation.operation == CCOM_ALL_GATHER) {
        output[from * operation.count + i] = element_of(from, comm, sequence, i);
      } else {
        output[from * operation.count + i] =
            element_of(from, comm, sequence, rank * operation.count + i);
      }
    }
  }
  return hash_of(output);
}

}  // namespace neuron::network

#endif
