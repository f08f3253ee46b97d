// SPDX-License-Identifier: Apache-2.0
//
// The collectives of a loaded model on its core: for each stream that it uses, a CC core with its
// program, and the rings of queue 15 of some of the core's DMA engines, all in device memory.
// Callers: nrt_load_collectives and host-driven collectives (connect), LoadedModel (start), fault
// reports. Thread-safe: connect() in one thread before the model is used; the rest belongs to the
// holder of the core's turn. Owns: memory, compiled programs; shares the world.
// Fails: connect() with what a rank lacks, or with the ranks that did not come.
#ifndef RUNTIME_COLLECTIVES_PROGRAMS_H
#define RUNTIME_COLLECTIVES_PROGRAMS_H

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/collectives/network_proxy.h"
#include "runtime/collectives/world.h"
#include "runtime/device/core.h"
#include "runtime/model/model_collectives.h"
#include "runtime/model/stream_use.h"
#include "runtime/neff/model.h"

namespace neuron::runtime {

// Device addresses of the buffers of a collective; for buffers in rows, of their first bytes.
struct CollectiveBuffers {
  uint64_t input = 0;
  uint64_t output = 0;
};

class CollectivePrograms final : public ModelCollectives {
 public:
  // Exchanges messages with the other ranks twice. `buffers`: one entry for each operation.
  static Result<std::unique_ptr<CollectivePrograms>> connect(
      Core& core, std::shared_ptr<World> world, const std::vector<neff::Collective>& operations,
      std::span<const CollectiveBuffers> buffers);
  ~CollectivePrograms() override;

  Result<void> start() override;
  std::string describe(bool& busy) const override;
  std::vector<StreamFacts> facts() const override;
  void give_up(const std::string& sentence) override {
    core_.lose_collectives();
    world_->note_failure(sentence);
  }
  std::optional<std::string> failure_of_rank() const override {
    return world_->failure_since(met_);
  }
  Result<void> check_peers() const override;
  std::string stopped_ranks() const override { return world_->stopped_ranks(); }
  bool sees_all_processes() const override { return world_->sees_all_processes(); }
  void launch_begins() const override;
  void launch_ended() const override;
  bool broken() const override {
    return core_.collectives_age.load(std::memory_order_relaxed) != age_;
  }

 private:
  struct Stream;
  struct Announcement;

  CollectivePrograms(Core& core, std::shared_ptr<World> world);
  Result<void> prepare(const std::vector<neff::Collective>& operations,
                       std::span<const CollectiveBuffers> buffers);
  Result<void> compile(std::span<const Announcement> mine, const std::vector<Message>& all);
  Result<void> place(Stream& stream);
  Result<void> clear_semaphores(bool lost);
  Result<void> open_proxy();
  Result<void> agree(const Result<void>& mine, const std::vector<neff::Collective>& operations);
  std::string plans(size_t operations) const;

  Core& core_;
  std::shared_ptr<World> world_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::shared_ptr<NetworkProxy> proxy_;  // null: all ranks are on this instance
  uint32_t age_ = 0;
  uint64_t met_ = 0;  // number of the exchange in which the ranks met
};

}  // namespace neuron::runtime

#endif
