// SPDX-License-Identifier: Apache-2.0
// How much memory the host can still give to emulated devices: HBM is sparse, so an allocation
// costs nothing until it is written, and must be refused before the host runs out, not after.
//
// Concepts: room = least of MemAvailable, what the control group allows, and the limit of
// NEURON_EMULATOR_MEMORY_LIMIT (bytes), less what was promised and is not yet backed by pages.
// Callers: allocations of any device of the instance (a mutex). Fails: reserve returns -ENOMEM and
// a sentence that says which limit it is.
#ifndef DRIVER_EMULATOR_SERVICE_MEMORY_BUDGET_H
#define DRIVER_EMULATOR_SERVICE_MEMORY_BUDGET_H

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace neuron::service {

class MemoryBudget {
 public:
  // `limit` 0 = none. `resident` tells how much of what was reserved has pages; `proc` and `cgroup`
  // are the roots of the two file systems.
  explicit MemoryBudget(uint64_t limit, std::function<uint64_t()> resident = {},
                        std::string proc = "/proc", std::string cgroup = "/sys/fs/cgroup");

  int reserve(uint64_t bytes, const char* what, unsigned device);
  void release(uint64_t bytes);
  uint64_t reserved();

 private:
  void look();  // refreshes available_ and source_

  const uint64_t limit_;
  const std::function<uint64_t()> resident_;
  const std::string proc_;
  const std::string cgroup_;
  std::mutex mutex_;
  uint64_t reserved_ = 0;
  uint64_t available_ = 0;
  uint64_t promised_since_look_ = 0;
  uint64_t unbacked_ = 0;
  const char* source_ = "";
};

// Value of NEURON_EMULATOR_MEMORY_LIMIT, 0 if unset. False with a sentence if it is no number.
bool memory_limit_of_environment(uint64_t& limit);

}  // namespace neuron::service

#endif
