// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/core_state.h"

#include <utility>

namespace neuron::core {
namespace {

template <size_t... I>
std::array<UnitContext, sizeof...(I)> make_units(CoreMemory& memory, Scratch& scratch,
                                                 const isa::Limits& limits,
                                                 std::index_sequence<I...>) {
  const auto xorwow = [&](size_t engine) {
    return engine == NEURON_ENGINE_POOL || (engine == NEURON_ENGINE_DVE && limits.vector_xorwow);
  };
  return {{UnitContext{.memory = memory, .scratch = scratch, .engine = I, .xorwow = xorwow(I)}...}};
}

}  // namespace

CoreState::CoreState(const chip::CoreConnections& connections, std::shared_ptr<StrictPair> pair)
    : core(connections.core),
      chip(connections.routing_id),
      bus(connections.bus),
      window(bus.layout().core_address(core)),
      semaphores(connections.semaphores),
      notifications(connections.notifications),
      dma(connections.engines),
      cc(connections.cc),
      cc_count(connections.cc_count),
      injected(connections.faults != nullptr ? *connections.faults : chip::ChipFaults::none()),
      exchange(connections.exchange),
      limits(isa::limits_of(bus.layout().generation)),
      timing(isa::timing_of(bus.layout().generation)),
      memory(limits.sbuf_partition_bytes),
      scratch(std::make_unique<Scratch>()),
      strict(StrictMode::wanted() ? std::make_unique<StrictMode>(std::move(pair), core & 1)
                                  : nullptr),
      units(make_units(memory, *scratch, limits, std::make_index_sequence<kEngines>())) {
  for (unsigned n = 0; n < kSequencers; ++n) {
    Sequencer& s = sequencers[n];
    const bool is_cc = n >= kEngines;
    const unsigned k = is_cc ? n - kEngines : 0;
    s.engine = is_cc ? unsigned{NEURON_ENGINE_CC} : n;
    s.place = {.actor = n,
               .semaphores = is_cc ? cc[k].semaphores : &semaphores,
               .arrivals = &arrivals[is_cc ? 1 + k : 0],
               .notifications = is_cc ? cc[k].notifications : &notifications,
               .trace_slot = is_cc ? 0u : n};
    s.reset();
  }
}

void CoreState::watch_record(unsigned slot, const chip::Notification& entry) {
  watched->push_back({slot, chip::NotificationBlock::encode(entry)});
}

void CoreState::post_all_records() {
  has_records_ = false;
  for (unsigned block = 0; block <= cc_count; ++block) {
    records[block].post(notifications_of(block));
    const uint32_t lacking = records[block].lacking();
    if (lacking == 0) [[likely]] {
      continue;
    }
    const unsigned first = block == 0 ? 0 : kEngines + block - 1;
    for (unsigned n = first; n < (block == 0 ? kEngines : first + 1); ++n) {
      Sequencer& s = sequencers[n];
      if ((lacking >> s.place.trace_slot & 1) != 0) s.trace_dropped = true;
    }
  }
}

unsigned CoreState::owner_of(const chip::Access& access) const {
  if (access.core == core) {
    if (access.engine < kEngines) return access.engine;
    if (access.engine == NEURON_ENGINE_CC && access.unit < cc_count) return kEngines + access.unit;
  }
  return NEURON_ENGINE_SP;
}

}  // namespace neuron::core
