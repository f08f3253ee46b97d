// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/core_control.h"

namespace neuron::core {

void CoreControl::command(Sequencer& s, unsigned command, ModelTime now) {
  const bool paused = s.state == NEURON_STATE_STOPPED || s.state == NEURON_STATE_BREAK;
  switch (command) {
    case NEURON_CMD_START:
      if (!configurable(s)) return refuse_write(s, NEURON_ENG_CONTROL, now);
      return start(s, now);
    case NEURON_CMD_STOP:
      if (s.active()) state_.stop(s, NEURON_STATE_STOPPED);
      return;
    case NEURON_CMD_STEP:
    case NEURON_CMD_CONTINUE:
      if (!paused) return refuse_write(s, NEURON_ENG_CONTROL, now);
      s.ignore_break = true;
      s.steps_left = command == NEURON_CMD_CONTINUE ? 0 : s.steps == 0 ? 1 : s.steps;
      return resume(s, now);
    case NEURON_CMD_RESET:
      reset_sequencer(s);
      if (!s.is_cc()) to_.datapath.reset(s.engine);
      return;
    case NEURON_CMD_ABORT:
      if (s.active() || paused) {
        to_.faults.raise(s, make_fault(NEURON_FAULT_ABORTED), s.pc, 0, 0, now);
      }
      state_.scheduler.schedule(s);
      return;
    default:
      return refuse_write(s, NEURON_ENG_CONTROL, now);
  }
}

void CoreControl::command_engines(unsigned code, uint32_t map, ModelTime now) {
  constexpr uint32_t kAllEngines = (1u << kEngines) - 1;
  if (code == NEURON_CMD_RESET && (map == 0 || (map & kAllEngines) == kAllEngines)) {
    return reset_core(true);
  }
  for (unsigned n = 0; n < kEngines + state_.cc_count; ++n) {
    if (map >> n & 1) command(state_.sequencers[n], code, now);
  }
}

void CoreControl::refuse_write(Sequencer& s, uint32_t at, ModelTime now) {
  s.refused_write = true;
  to_.faults.warn(s, NEURON_FAULT_CTRL_BUSY, s.pc, 0, 0, {at, 0, 0}, now);
}

void CoreControl::start(Sequencer& s, ModelTime now) {
  s.registers.fill(0);
  s.loop_depth = s.loop_base = s.call_depth = 0;
  s.met = false;
  s.pc = s.entry;
  s.retired = s.launch_retired = 0;
  s.busy = s.waited = s.traced_wait = 0;
  s.exception = {};
  s.fault_latched = false;
  state_.faults &= ~(1u << s.place.actor);
  s.steps_left = 0;
  s.start(state_.bus);
  if (state_.strict && !s.is_cc()) state_.strict->clocks().acquire_all(s.engine);
  if (s.is_cc()) state_.scheduler.include(s);
  for (chip::UdmaEngine* engine : state_.dma) engine->accept_engine_doorbells();
  resume(s, now);
}

void CoreControl::resume(Sequencer& s, ModelTime now) {
  s.state = NEURON_STATE_RUNNING;
  s.dma_wait = false;
  s.issue_at = now;
  state_.scheduler.schedule(s);
  state_.scheduler.set_runnable();
}

bool CoreControl::halted_by_debugger() const {
  for (const Sequencer& s : state_.sequencers) {
    if (s.state == NEURON_STATE_STOPPED || s.state == NEURON_STATE_BREAK) return true;
  }
  return false;
}

void CoreControl::reset_sequencer(Sequencer& s) {
  s.reset();
  state_.faults &= ~(1u << s.place.actor);
  state_.scheduler.schedule(s);
}

void CoreControl::reset_cc(unsigned k) {
  reset_sequencer(state_.sequencers[kEngines + k]);
  state_.cc[k].semaphores->reset();
  state_.arrivals[1 + k].clear();
}

void CoreControl::reset_core(bool with_cc_semaphores) {
  for (Sequencer& s : state_.sequencers) s.reset();
  for (unsigned engine = 0; engine < kEngines; ++engine) to_.datapath.reset(engine);
  state_.scheduler.clear();
  to_.waits.reset();
  to_.dma.reset();
  to_.dma_issue.reset();
  to_.launches.restart_time();
  to_.execution.reset();
  to_.launches.reset();
  state_.faults = 0;
  state_.settings = {};
  for (chip::UdmaEngine* engine : state_.dma) engine->set_seed(0);
  // Mail stays: writes from before this reset have been applied already, and mail that waits came
  // after it.
  state_.semaphores.reset();
  if (state_.exchange != nullptr) state_.exchange->clear(state_.core);
  state_.arrivals[0].clear();
  for (unsigned k = 0; with_cc_semaphores && k < state_.cc_count; ++k) {
    state_.cc[k].semaphores->reset();
    state_.arrivals[1 + k].clear();
  }
  state_.memory.fill(state_.fill);
  if (state_.strict) state_.strict->forget();
  state_.scheduler.set_quiescent(false);
}

}  // namespace neuron::core
