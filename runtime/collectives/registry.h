// SPDX-License-Identifier: Apache-2.0
//
// The worlds that ranks of this session have joined, one for each (core, rank, number of ranks).
// Callers: the C interface. Thread-safe: yes; joining waits for the other ranks and holds no lock
// meanwhile. Owns: meetings of this process, a reference to each world. Fails: as World::join.
#ifndef RUNTIME_COLLECTIVES_REGISTRY_H
#define RUNTIME_COLLECTIVES_REGISTRY_H

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "runtime/collectives/world.h"
#include "runtime/session/session.h"

namespace neuron::runtime {

class CollectivesRegistry : public SessionPart {
 public:
  // The registry of the session; the first call makes it.
  static CollectivesRegistry& of(Session& session);

  // Joins the world on the first call; returns the same world afterwards.
  Result<std::shared_ptr<World>> world(Session& session, Core& core, uint32_t rank, uint32_t size);

 private:
  using Key = std::tuple<uint32_t, uint32_t, uint32_t>;  // core, rank, size

  std::shared_ptr<Meeting> meeting(uint32_t size);

  std::mutex mutex_;                                       // all below
  std::map<uint32_t, std::shared_ptr<Meeting>> meetings_;  // by size
  std::map<Key, std::shared_ptr<World>> worlds_;
};

}  // namespace neuron::runtime

#endif
