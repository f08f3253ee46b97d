// SPDX-License-Identifier: Apache-2.0
// All nodes of an UltraServer in one process: instances whose chips reach each other.
//
// Concepts: the profile says how many nodes there are and what joins them (its section "topology").
// Each node is an instance with devices from 0 on; their chips are in one fabric
// (chip/fabric.h), and their memory counts in one budget. The nodes elect each other when they are
// made, so that their first clients know the result. Callers: main(). Owns: the instances; the
// destructor stops the programs of all before the first chip goes. Fails: create returns null with
// a sentence in last_error() and the code in `error`.
#ifndef DRIVER_EMULATOR_SERVICE_ULTRA_SERVER_H
#define DRIVER_EMULATOR_SERVICE_ULTRA_SERVER_H

#include <memory>
#include <string_view>
#include <vector>

#include "driver/emulator/service/instance.h"

namespace neuron::service {

class UltraServer {
 public:
  // `name`: of the profile, or its path; `limits` are those of all nodes together.
  static std::unique_ptr<UltraServer> create(std::string_view name, const MemoryLimits& limits,
                                             const ChipFactory& factory, int& error);
  ~UltraServer();
  UltraServer(const UltraServer&) = delete;
  UltraServer& operator=(const UltraServer&) = delete;

  unsigned nodes() const { return static_cast<unsigned>(nodes_.size()); }
  Instance& node(unsigned number) { return *nodes_[number]; }

 private:
  UltraServer() = default;
  int build(const profiles::Profile& profile, unsigned count, const chip::LinkTiming& link,
            const MemoryLimits& limits, const ChipFactory& factory);
  int elect(uint8_t type);

  std::vector<std::unique_ptr<Instance>> nodes_;
};

}  // namespace neuron::service

#endif
