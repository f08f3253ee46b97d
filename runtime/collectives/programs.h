// SPDX-License-Identifier: Apache-2.0
//
// The collectives of a loaded model on its core: for each stream that it uses, a CC core with its
// program, and the rings of queue 15 of some of the core's DMA engines, all in device memory.
// Callers: nrt_load_collectives and host-driven collectives (connect), LoadedModel (start), fault
// reports. Thread-safe: connect() in one thread before the model is used; the rest belongs to the
// holder of the core's turn. Owns: memory, compiled programs; shares the world.
// Fails: connect() with what a rank lacks, or which ranks did not come.
#ifndef RUNTIME_COLLECTIVES_PROGRAMS_H
#define RUNTIME_COLLECTIVES_PROGRAMS_H

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/collectives/world.h"
#include "runtime/device/core.h"
#include "runtime/neff/model.h"

namespace neuron::runtime {

class Session;

// What a stream of a program has of its core.
struct StreamUse {
  uint32_t stream = 0;   // CC core of the core
  uint16_t engines = 0;  // mask of the core's DMA engines
  uint32_t count = 0;    // collectives of one execution
};

// Fails: NRT_UNSUPPORTED_NEFF_VERSION for a stream that this generation does not have.
Result<std::vector<StreamUse>> streams_of(const std::vector<neff::Collective>& operations,
                                          const CorePlace& core);

// Device addresses of the buffers of a collective: of their first bytes, where they lie in rows.
struct CollectiveBuffers {
  uint64_t input = 0;
  uint64_t output = 0;
};

class CollectivePrograms {
 public:
  // Meets the other ranks, twice. `buffers`: of each operation.
  static Result<std::unique_ptr<CollectivePrograms>> connect(
      Session& session, Core& core, std::shared_ptr<World> world,
      const std::vector<neff::Collective>& operations, std::span<const CollectiveBuffers> buffers);
  ~CollectivePrograms();

  // Gives the queues their rings and starts the CC cores; the core is halted.
  Result<void> start();
  // "rank 3 waits in all_reduce ... (2 of 5) for data of rank 7"; what the CC cores do now, those
  // that wait for nothing left out. `busy`: one of them is inside a collective.
  std::string describe(bool& busy) const;
  // After a failure on this core, of whatever program, the ranks do not agree about credits any
  // more, and those that wait for this one are told why.
  void give_up(const std::string& sentence) {
    core_.lose_collectives();
    world_->note_failure(sentence);
  }
  // Why this rank waits in vain: another one has failed since it was connected; absent: none has.
  std::optional<std::string> failure_of_rank() const { return world_->failure_since(met_); }
  bool broken() const { return core_.collectives_age.load(std::memory_order_relaxed) != age_; }
  World& world() const { return *world_; }

 private:
  struct Stream;
  struct Announcement;

  CollectivePrograms(Core& core, std::shared_ptr<World> world);
  Result<void> prepare(Session& session, const std::vector<neff::Collective>& operations,
                       std::span<const CollectiveBuffers> buffers);
  Result<void> compile(Session& session, std::span<const Announcement> mine,
                       const std::vector<Message>& all);
  Result<void> place(Stream& stream);
  Result<void> clear_semaphores(Session& session, bool lost);

  Core& core_;
  std::shared_ptr<World> world_;
  std::vector<std::unique_ptr<Stream>> streams_;
  uint32_t age_ = 0;
  uint64_t met_ = 0;  // number of the exchange in which the ranks met
};

}  // namespace neuron::runtime

#endif
