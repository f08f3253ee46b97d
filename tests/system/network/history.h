// SPDX-License-Identifier: Apache-2.0
// What each rank of a test saw, and six rules that all of it must keep.
//
// Concepts: a rank appends an event when an operation begins, and one when it ends, with a hash of
// the result or the sentence of the error. The rules: (1) safety: an ok has the hash of the serial
// reference; (2) agreement: after an error of operation s nobody has an ok of a later one; (3)
// liveness: whatever begins ends by its deadline; (4) diagnosis: within two seconds of the deadline
// every error names a rank that is missing; (5) recovery: a communicator made afterwards works; (6)
// nobody is stranded: an error of one rank reaches all others. Callers: network tests, tests of
// this. Thread-safe: values.
#ifndef TESTS_SYSTEM_NETWORK_HISTORY_H
#define TESTS_SYSTEM_NETWORK_HISTORY_H

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace neuron::network {

struct Event {
  enum class Kind : uint8_t { kBegin, kOk, kError };
  uint64_t time_ms = 0;  // of a clock that all ranks share
  uint32_t rank = 0;
  uint32_t comm = 0;
  uint64_t sequence = 0;
  std::string operation;
  uint64_t bytes = 0;
  Kind kind = Kind::kBegin;
  uint64_t hash = 0;
  std::string text;  // of an error
};

std::string to_line(const Event& event);
std::optional<Event> from_line(std::string_view text);

struct Expectations {
  uint32_t ranks = 0;
  uint64_t deadline_ms = 0;  // of an operation
  std::set<uint32_t> gone;   // killed: their last operation need not end
  // By communicator: all its operations must end well, on all of these ranks.
  struct Good {
    uint32_t comm = 0;
    std::vector<uint32_t> ranks;
    uint64_t operations = 0;
  };
  std::vector<Good> good;
  // An error in this communicator is expected, and names one of these ranks (from the side of each
  // survivor: of the ranks that it cannot reach).
  struct Failing {
    uint32_t comm = 0;
    std::vector<std::set<uint32_t>> missing;  // by rank: whom its errors may name
  };
  std::optional<Failing> failing;
};

// Complaints, one for each broken rule and place; empty: none.
// `reference(rank, comm, sequence)`: the hash that the serial reference gives.
using Reference = uint64_t (*)(uint32_t rank, uint32_t comm, uint64_t sequence);
std::vector<std::string> check(const std::vector<Event>& events, const Expectations& expectations,
                               Reference reference);

}  // namespace neuron::network

#endif
