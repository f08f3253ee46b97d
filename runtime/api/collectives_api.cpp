// SPDX-License-Identifier: Apache-2.0
//
// Models with collectives, the communicator of all ranks, and the host's operations on it.
#include <cstring>

#include "nrt/nrt.h"
#include "nrt/nrt_experimental.h"
#include "runtime/api/guard.h"
#include "runtime/api/loading.h"
#include "runtime/base/host_memory.h"
#include "runtime/collectives/connect.h"
#include "runtime/collectives/registry.h"
#include "runtime/device/core_turn.h"
#include "runtime/profile/inspection.h"

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

namespace {

Result<std::shared_ptr<World>> world_of(Session& session, int64_t vnc, uint32_t rank,
                                        uint32_t size) {
  NEURON_TRY(core, session.core(vnc));
  return CollectivesRegistry::of(session).world(session, *core, rank, size);
}

// Ranks of one process are made by one thread or by many: they meet when they do something
// together. Those of several processes meet here.
Result<void> join(Session& session, int64_t vnc, uint32_t rank, uint32_t size) {
  NEURON_CHECK(session.core(vnc));
  NEURON_CHECK(CollectivesRegistry::check_rank(session, rank, size));
  if (session.configuration().root.empty()) return {};
  NEURON_CHECK(world_of(session, vnc, rank, size));
  return {};
}

// For a call that all ranks make after what they have loaded.
Result<std::shared_ptr<World>> world_after_loading(Session& session, int64_t vnc, uint32_t rank,
                                                   uint32_t size) {
  NEURON_TRY(core, session.core(vnc));
  NEURON_CHECK(CollectivesRegistry::of(session).meet_all(session, *core, rank, size));
  return world_of(session, vnc, rank, size);
}

}  // namespace

NRT_EXPORT NRT_STATUS nrt_load_collectives(const void* neff_bytes, size_t size, int32_t vnc,
                                           int32_t vnc_count, uint32_t ctx_device_id,
                                           uint32_t ctx_device_count, nrt_model_t** model) {
  return guarded("nrt_load_collectives", [&](Session& session) -> Result<void> {
    if (neff_bytes == nullptr) return null_argument("neff_bytes");
    NEURON_CHECK(check_host_memory(neff_bytes, size, HostUse::kRead));
    if (model == nullptr) return null_argument("model");
    NEURON_CHECK(check_core_count(vnc_count));
    if (ctx_device_id >= ctx_device_count) {
      return fail(NRT_INVALID, "ctx_device_id is {}, ctx_device_count {}; ranks count from 0",
                  ctx_device_id, ctx_device_count);
    }
    // No core was named: a rank gets the virtual core of its number, modulo the number of cores.
    if (vnc == -1) {
      vnc = static_cast<int32_t>(ctx_device_id % session.core_count());
    }
    NEURON_TRY(core, session.core(vnc));
    const neuron::neff::Bytes file(static_cast<const uint8_t*>(neff_bytes), size);
    const TraceSpan span(session.system_trace, TraceEvent::kLoad,
                         {.core = core->index(), .bytes = file.size()});
    NEURON_TRY(source, LoadedModel::read(read_options(session), *core, file));
    NEURON_CHECK(CollectivesRegistry::check_rank(session, ctx_device_id, ctx_device_count));
    // Ranks of one process meet when they execute: one thread may load them all. Those of several
    // processes meet here, as documented.
    const bool later = session.configuration().root.empty();
    std::shared_ptr<World> world;
    if (!later) {
      NEURON_TRY(joined, world_of(session, vnc, ctx_device_id, ctx_device_count));
      world = std::move(joined);
    }
    std::unique_ptr<LoadedModel> loaded;
    {
      // The turn keeps an unload or a reset of the core from happening meanwhile.
      NEURON_TRY(turn, CoreTurn::take(*core));
      NEURON_TRY(with_turn, LoadedModel::load(*core, source));
      loaded = std::move(with_turn);
    }
    const bool collectives = !loaded->operations().empty();
    if (collectives) {
      auto ready = later ? check_buffers(*loaded, ctx_device_count) : connect_model(*loaded, world);
      if (!ready) {
        const auto turn = CoreTurn::take(*core);  // as an unload does
        loaded.reset();
        return ready;
      }
    }
    if (Inspection* inspection = Inspection::existing(session)) {
      inspection->loaded(*loaded, file, nullptr);
    }
    LoadedModel& inserted = *loaded;  // which nobody can unload, because nobody knows its handle
    NEURON_TRY(handle, session.handles.insert(HandleKind::kModel, std::move(loaded)));
    if (collectives && later) {
      CollectivesRegistry::of(session).meet_later(inserted, handle, ctx_device_id,
                                                  ctx_device_count);
    }
    *model = static_cast<nrt_model_t*>(handle);
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_build_global_comm(int32_t vnc, uint32_t g_device_id,
                                            uint32_t g_device_count) {
  return guarded("nrt_build_global_comm",
                 [&](Session& session) { return join(session, vnc, g_device_id, g_device_count); });
}

NRT_EXPORT NRT_STATUS nrt_cc_global_comm_init(uint32_t vnc, uint32_t g_device_id,
                                              uint32_t g_device_count) {
  return guarded("nrt_cc_global_comm_init",
                 [&](Session& session) { return join(session, vnc, g_device_id, g_device_count); });
}

NRT_EXPORT NRT_STATUS nrt_barrier(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count) {
  return guarded("nrt_barrier", [&](Session& session) -> Result<void> {
    NEURON_TRY(world, world_after_loading(session, vnc, g_device_id, g_device_count));
    return world->barrier();
  });
}

NRT_EXPORT NRT_STATUS nrt_all_gather(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count,
                                     uint32_t rank_input_size, void* input, void* output) {
  return guarded("nrt_all_gather", [&](Session& session) -> Result<void> {
    if (input == nullptr) return null_argument("input");
    if (output == nullptr) return null_argument("output");
    // A rank that cannot take part says so before the others wait for it.
    NEURON_CHECK(check_host_memory(input, rank_input_size, HostUse::kRead));
    NEURON_CHECK(
        check_host_memory(output, uint64_t{rank_input_size} * g_device_count, HostUse::kWritten));
    NEURON_TRY(world, world_after_loading(session, vnc, g_device_id, g_device_count));
    NEURON_TRY(all, world->exchange(Occasion::kAllGather,
                                    {static_cast<const std::byte*>(input), rank_input_size}));
    for (uint32_t r = 0; r < g_device_count; ++r) {
      if (all[r].size() != rank_input_size) {
        return fail(NRT_INVALID,
                    "rank {} gave {} bytes and rank {} {}; all give equally many "
                    "(rank_input_size)",
                    g_device_id, rank_input_size, r, all[r].size());
      }
    }
    for (uint32_t r = 0; r < g_device_count; ++r) {
      std::memcpy(static_cast<std::byte*>(output) + size_t{r} * rank_input_size, all[r].data(),
                  rank_input_size);
    }
    return {};
  });
}
