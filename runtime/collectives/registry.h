// SPDX-License-Identifier: Apache-2.0
//
// The worlds that ranks of this session have joined, one for each (core, rank, number of ranks),
// and the models whose ranks have yet to meet.
// Callers: the C interface, workers of asynchronous queues. Thread-safe: yes; joining waits for the
// other ranks, and keeps only threads of the same rank from meeting. Owns: meetings of this
// process, a reference to each world. Fails: as World::join and connect_model.
#ifndef RUNTIME_COLLECTIVES_REGISTRY_H
#define RUNTIME_COLLECTIVES_REGISTRY_H

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "driver/base/timed_mutex.h"
#include "runtime/collectives/world.h"
#include "runtime/model/loaded_model.h"
#include "runtime/session/session.h"

namespace neuron::runtime {

class CollectivesRegistry : public SessionPart {
 public:
  // The registry of the session; the first call makes it.
  static CollectivesRegistry& of(Session& session);

  // Joins the world on the first call; returns the same world afterwards.
  Result<std::shared_ptr<World>> world(Session& session, Core& core, uint32_t rank, uint32_t size);
  // Whether there can be such a rank; waits for nobody.
  static Result<void> check_rank(const Session& session, uint32_t rank, uint32_t size);

  // Ranks of one process may be loaded one after the other by one thread. So loading does not wait
  // for them: they meet later, in the order of loading.
  // `handle`: that of the model, which no other thread has yet.
  void meet_later(LoadedModel& model, const void* handle, uint32_t rank, uint32_t size);
  // Connects `model`, and before it what was loaded before it on this rank. A rank that does not
  // come in time may be waited for again; after any other failure the model must be loaded again.
  Result<void> meet(Session& session, const LoadedModel& model);
  // All that were loaded on this rank: what it calls now, all ranks call after loading them.
  Result<void> meet_all(Session& session, Core& core, uint32_t rank, uint32_t size);

 private:
  using Key = std::tuple<uint32_t, uint32_t, uint32_t>;  // core, rank, size
  struct Loaded {
    base::TimedMutex turn;  // one thread of a rank meets the others at a time
    // Order and handle, which may be dead; in the order of loading.
    std::vector<std::pair<uint64_t, const void*>> models;
  };

  std::shared_ptr<Meeting> meeting(uint32_t size);
  // `last`: null for all.
  Result<void> meet_up_to(Session& session, Core& core, uint32_t rank, uint32_t size,
                          const LoadedModel* last);

  std::mutex mutex_;                                       // all below
  std::map<uint32_t, std::shared_ptr<Meeting>> meetings_;  // by size
  std::map<Key, std::shared_ptr<World>> worlds_;
  std::map<Key, std::shared_ptr<Loaded>> loaded_;
  uint64_t orders_ = 0;
};

}  // namespace neuron::runtime

#endif
