// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/launches.h"

#include <algorithm>

namespace neuron::core {
namespace {

constexpr uint64_t kLaunchIncrement = NEURON_SEM_BLOCK_INC + 4 * NEURON_SEM_LAUNCH;

}  // namespace

void Launches::write_semaphore(unsigned block, uint64_t at, uint32_t value,
                               const chip::Access& access, UpdateSource source) {
  const bool launch =
      block == 0 && at == kLaunchIncrement && source != UpdateSource::kGroup && value != 0;
  if (!launch) return updates_.write(block, at, value, access, source);
  if (is_busy()) return hold(value);
  begin();
  chip::Access host = access;
  host.time = state_.now();
  updates_.write(block, at, 1, host, UpdateSource::kOutside);
  hold(value - 1);
  if (held_ != 0) state_.scheduler.set_runnable();
}

bool Launches::holds(int block, uint64_t at, uint32_t value) const {
  return block == 0 && at == kLaunchIncrement && value != 0 && is_busy();
}

void Launches::hold(uint32_t launches) {
  held_ += std::min(launches, NEURON_SEMAPHORE_MAX - held_);
}

bool Launches::release_held() {
  if (held_ == 0 || execution_.in_progress()) return false;
  --held_;
  restart_time();
  begin();
  updates_.write(0, kLaunchIncrement, 1,
                 {chip::Origin::kHost, static_cast<uint8_t>(state_.core), NEURON_ENGINE_HOST, 0},
                 UpdateSource::kOutside);
  return true;
}

void Launches::begin_external() {
  if (is_busy() || waits_.await_peers()) return;
  restart_time();
}

void Launches::begin() {
  begun_ = true;
  if (state_.strict) state_.strict->clocks().raise_floor();
  for (Sequencer& s : state_.sequencers) {
    s.busy = s.waited = s.traced_wait = 0;
    s.launch_retired = s.retired;
  }
}

void Launches::restart_time() {
  if (state_.strict) state_.strict->clocks().raise_floor();
  if (!state_.scheduler.restart()) return;
  dma_.restart_time();
  for (ArrivalTimes& arrivals : state_.arrivals) arrivals.restart_time();
  for (Sequencer& s : state_.sequencers) {
    s.last_complete = s.load_free = s.busy_until = 0;
    s.array.restart();
    s.background.restart();
    s.wait_since = 0;
  }
}

}  // namespace neuron::core
