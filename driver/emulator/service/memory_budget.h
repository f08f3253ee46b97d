// SPDX-License-Identifier: Apache-2.0
// How much memory the host can still give to emulated devices: HBM is sparse, so an allocation
// costs nothing until it is written, and must be refused before the host runs out, not after.
//
// Concepts: room = least of MemAvailable, what the control group allows, and the limit of
// NEURON_EMULATOR_MEMORY_LIMIT (bytes), less what was promised and is not yet backed by pages. All
// processes of a user together may have a limit of their own, so that one user leaves room for
// others.
// Callers: allocations of any device of the instance (a mutex). Fails: reserve returns -ENOMEM and
// a sentence that says which limit it is.
#ifndef DRIVER_EMULATOR_SERVICE_MEMORY_BUDGET_H
#define DRIVER_EMULATOR_SERVICE_MEMORY_BUDGET_H

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>

#include "driver/emulator/service/client.h"

namespace neuron::service {

// In bytes; 0 = none.
struct MemoryLimits {
  uint64_t all = 0;        // of everybody together
  uint64_t each_user = 0;  // of the processes of one user together
};

class MemoryBudget {
 public:
  // `resident` tells how much of what was reserved has pages; `proc` and `cgroup`
  // are the roots of the two file systems.
  explicit MemoryBudget(const MemoryLimits& limits, std::function<uint64_t()> resident = {},
                        std::string proc = "/proc", std::string cgroup = "/sys/fs/cgroup");

  // What the driver itself needs (a client without a process) is nobody's part.
  int reserve(uint64_t bytes, const Client& client, const char* what, unsigned device);
  // Of the same client as at reserve().
  void release(uint64_t bytes, const Client& client);
  uint64_t reserved();

 private:
  void look();  // refreshes available_ and source_

  const MemoryLimits limits_;
  const std::function<uint64_t()> resident_;
  const std::string proc_;
  const std::string cgroup_;
  std::mutex mutex_;
  uint64_t reserved_ = 0;
  std::unordered_map<uint32_t, uint64_t> users_;  // what of it is a user's, while there is any
  uint64_t available_ = 0;
  uint64_t promised_since_look_ = 0;
  uint64_t unbacked_ = 0;
  const char* source_ = "";
};

// Value of NEURON_EMULATOR_MEMORY_LIMIT, 0 if unset. False with a sentence if it is no number.
bool memory_limit_of_environment(uint64_t& limit);

}  // namespace neuron::service

#endif
