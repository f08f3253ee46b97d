// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/registry.h"

#include "runtime/collectives/connect.h"

namespace neuron::runtime {

CollectivesRegistry& CollectivesRegistry::of(Session& session) {
  return session.collectives.of<CollectivesRegistry>();
}

std::shared_ptr<Meeting> CollectivesRegistry::meeting(uint32_t size) {
  const std::lock_guard lock(mutex_);
  auto& meeting = meetings_[size];
  if (!meeting) meeting = std::make_shared<Meeting>(size);
  return meeting;
}

Result<void> CollectivesRegistry::check_rank(const Session& session, uint32_t rank, uint32_t size) {
  if (size == 0 || rank >= size) {
    return fail(NRT_INVALID, "rank {} of {} ranks does not exist", rank, size);
  }
  const Configuration& configuration = session.configuration();
  // Ranks of one process need no address. A job with more ranks than this process has cores needs
  // one.
  if (configuration.root.empty() && size > session.core_count()) {
    return fail(NRT_INVALID,
                "{} ranks do not fit the {} virtual cores of this process, and "
                "NEURON_RT_ROOT_COMM_ID (ADDRESS:PORT of rank 0), where those of other processes "
                "would meet, is not set",
                size, session.core_count());
  }
  return {};
}

Result<std::shared_ptr<World>> CollectivesRegistry::world(Session& session, Core& core,
                                                          uint32_t rank, uint32_t size) {
  NEURON_CHECK(check_rank(session, rank, size));
  const Configuration& configuration = session.configuration();
  const Key key{core.index(), rank, size};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = worlds_.find(key); found != worlds_.end()) {
      if (!found->second->failed()) return found->second;
      // The ranks may meet again in a new world. New ranks know nothing of the credits of the old
      // world.
      worlds_.erase(found);
      core.lose_collectives();
    }
  }
  const auto met = configuration.root.empty() ? meeting(size) : nullptr;
  NEURON_TRY(world, World::join(core, rank, size, met, configuration.root,
                                std::chrono::seconds(configuration.collectives_timeout_s)));
  const std::lock_guard lock(mutex_);
  return worlds_.try_emplace(key, world).first->second;
}

void CollectivesRegistry::meet_later(LoadedModel& model, const void* handle, uint32_t rank,
                                     uint32_t size) {
  const std::lock_guard lock(mutex_);
  auto& loaded = loaded_[{model.core().index(), rank, size}];
  if (!loaded) loaded = std::make_shared<Loaded>();
  model.await_ranks({rank, size, ++orders_});
  loaded->models.emplace_back(orders_, handle);
}

Result<void> CollectivesRegistry::meet(Session& session, const LoadedModel& model) {
  return meet_up_to(session, model.core(), model.rank().number, model.rank().count, &model);
}

Result<void> CollectivesRegistry::meet_all(Session& session, Core& core, uint32_t rank,
                                           uint32_t size) {
  return meet_up_to(session, core, rank, size, nullptr);
}

Result<void> CollectivesRegistry::meet_up_to(Session& session, Core& core, uint32_t rank,
                                             uint32_t size, const LoadedModel* last) {
  std::shared_ptr<Loaded> loaded;
  {
    const std::lock_guard lock(mutex_);
    const auto found = loaded_.find({core.index(), rank, size});
    if (found == loaded_.end() || found->second->models.empty()) return {};
    loaded = found->second;
  }
  const std::chrono::seconds patience(session.configuration().collectives_timeout_s);
  const std::unique_lock turn(loaded->turn, patience);
  if (!turn) {
    return fail(NRT_TIMEOUT, "another thread of rank {} has waited {} s for the other ranks", rank,
                patience.count());
  }
  // bounded: each round takes a model from the list, or is the last
  while (true) {
    const void* handle = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (loaded->models.empty()) return {};
      const auto& [order, front] = loaded->models.front();
      if (last != nullptr && order > last->rank().order) return {};
      handle = front;
    }
    Result<void> met;
    // One that was unloaded meets nobody.
    if (Pin<LoadedModel> model(session.handles, handle, HandleKind::kModel); model) {
      met = [&]() -> Result<void> {
        NEURON_TRY(joined, world(session, core, rank, size));
        return connect_model(*model, joined);
      }();
      if (!met && met.error().status == NRT_TIMEOUT) return met;
      if (!met) model->give_up_ranks();
    }
    const std::lock_guard lock(mutex_);
    loaded->models.erase(loaded->models.begin());
    if (!met) return met;
  }
  return {};
}

}  // namespace neuron::runtime
