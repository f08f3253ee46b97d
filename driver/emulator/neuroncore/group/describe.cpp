// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/describe.h"

#include <algorithm>
#include <cstdio>

#include "driver/isa/opcode_table.h"

namespace neuron::core {
namespace {

const char* state_name(unsigned state) {
  static constexpr const char* kNames[] = {"idle",    "running",         "waiting", "halted",
                                           "stopped", "at a breakpoint", "faulted"};
  return state < std::size(kNames) ? kNames[state] : "in an unknown state";
}

const char* condition_text(unsigned condition) {
  static constexpr const char* kTexts[] = {"", ">=", "==", ">", "<=", "<", "!="};
  return condition < std::size(kTexts) ? kTexts[condition] : "?";
}

template <class... Args>
void append(std::string& text, const char* format, Args... args) {
  char line[160];
  const int n = std::snprintf(line, sizeof(line), format, args...);
  if (n > 0) text.append(line, std::min<size_t>(static_cast<size_t>(n), sizeof(line) - 1));
}

void describe_engine(const CoreState& state, const Waits& waits, const DmaActors& dma,
                     const Sequencer& s, std::string& text) {
  if (s.is_cc()) {
    append(text, "  CC core %u: %s", s.place.actor - kEngines, state_name(s.state));
  } else {
    append(text, "  %s: %s", isa::engine_name(s.engine), state_name(s.state));
  }
  if (s.state == NEURON_STATE_IDLE) {
    text += "\n";
    return;
  }
  append(text, " at pc %u of %u", s.pc, s.prog_count);
  if (s.current != nullptr && s.current->pc == s.pc) {
    text += ": " + isa::disassemble(s.current->decoded, static_cast<int>(s.engine));
    if (s.state == NEURON_STATE_WAITING && s.dma_wait) {
      append(text, "; waits until %u DMA queues that it rang are done", dma.in_flight(s));
    } else if (s.state == NEURON_STATE_WAITING && state.resumes(s)) {
      append(text, "; waits for room in the rings of DMA queue %u",
             static_cast<unsigned>(s.current->decoded.dma.queue));
    } else if (s.state == NEURON_STATE_WAITING) {
      for (const isa::Wait& wait : s.current->decoded.wait) {
        if (waits.holds(s, wait)) continue;
        const uint32_t wanted =
            wait.is_register ? s.registers[wait.value % NEURON_REGISTERS] : wait.value;
        append(text, "; waits for %s %u %s %d, which is %u", wait.event ? "event" : "semaphore",
               static_cast<unsigned>(wait.index), condition_text(wait.condition),
               static_cast<int>(wanted), s.place.semaphores->value(wait.event, wait.index));
        const bool of_pair = !wait.event && !s.is_cc() && state.exchange != nullptr &&
                             wait.index >= NEURON_SEM_PAIR_FIRST &&
                             wait.index <= NEURON_SEM_PAIR_LAST;
        if (of_pair && !isa::meets_other_core(s.current->decoded.opcode)) {
          append(text, ": the other core of the pair, %u, has not raised it",
                 chip::PairExchange::other_core(state.core));
        }
        if (isa::meets_other_core(s.current->decoded.opcode)) {
          append(text, ": the other core of the pair, %u, has not come to its %s",
                 chip::PairExchange::other_core(state.core),
                 isa::opcode_name(s.current->decoded.opcode));
        }
      }
    }
  }
  if (s.fault_latched) {
    append(text, "; fault %s at pc %u", isa::fault_name(s.exception.code), s.exception_pc);
    append(text, " (field offset 0x%02x, rule R%u, value %u)",
           static_cast<unsigned>(s.exception.offset), static_cast<unsigned>(s.exception.rule),
           s.exception.info);
  }
  text += "\n";
}

}  // namespace

std::string describe_core(const CoreState& state, const Waits& waits, const DmaActors& dma) {
  std::string text;
  append(text, "core %u at %.3f us of model time, %s\n", state.core,
         static_cast<double>(state.now()) * 1e-6,
         state.scheduler.is_runnable() ? "running"
         : state.scheduler.is_deadlocked()
             ? "deadlocked: an execution is in progress and nothing can advance"
         : waits.await_peers() ? "waiting for another core or chip"
                               : "quiescent");
  for (const Sequencer& s : state.sequencers) {
    if (!s.is_cc() || s.state != NEURON_STATE_IDLE) describe_engine(state, waits, dma, s, text);
  }
  const auto active = dma.active_queues();
  for (unsigned d = 0; d < kDmaEngines; ++d) {
    if (active[d] == 0) continue;
    append(text, "  DMA engine %u: queues with work 0x%04x\n", state.core * kDmaEngines + d,
           active[d]);
  }
  return text;
}

}  // namespace neuron::core
