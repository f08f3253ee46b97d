// SPDX-License-Identifier: Apache-2.0
// A number of elements cut into parts that differ by at most one. The first parts are the larger
// ones. Thread-safe: a value. Cannot fail; `parts` is at least one.
#ifndef CCOM_SCHEDULE_PARTITION_H
#define CCOM_SCHEDULE_PARTITION_H

#include <algorithm>
#include <cstdint>

namespace neuron::ccom {

struct Partition {
  uint64_t quotient = 0;
  uint64_t remainder = 0;

  Partition() = default;
  Partition(uint64_t elements, uint64_t parts)
      : quotient(elements / parts), remainder(elements % parts) {}

  uint64_t offset(uint64_t part) const { return part * quotient + std::min(part, remainder); }
  uint64_t size(uint64_t part) const { return quotient + (part < remainder ? 1 : 0); }
  uint64_t largest() const { return quotient + (remainder != 0 ? 1 : 0); }
};

}  // namespace neuron::ccom

#endif
