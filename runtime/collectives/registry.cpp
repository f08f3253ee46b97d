// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/registry.h"

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

Result<std::shared_ptr<World>> CollectivesRegistry::world(Session& session, Core& core,
                                                          uint32_t rank, uint32_t size) {
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

}  // namespace neuron::runtime
