// SPDX-License-Identifier: Apache-2.0
// Tells strict mode what a core does: accesses of its memories, and what orders them.
//
// Callers: the other classes of this folder, by the holder of the core (access() and is_on():
// any thread). A caller checks is_on() before each call but access and packet, so that a core
// without strict mode pays one load. Fails: std::bad_alloc only; a trap is a fault of the program.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_STRICT_OBSERVER_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_STRICT_OBSERVER_H

#include <array>
#include <cstdint>
#include <optional>

#include "driver/emulator/neuroncore/group/core_state.h"
#include "driver/emulator/neuroncore/group/host_gate.h"

namespace neuron::core {

class StrictObserver {
 public:
  StrictObserver(CoreState& state, HostGate& gate) : state_(state), gate_(gate) {}

  bool is_on() const { return state_.strict != nullptr; }
  // Instructions are observed, but not those of CC cores, which access no memory that strict mode
  // knows.
  bool observes(const Sequencer& s) const { return is_on() && !s.is_cc(); }

  // An access through the window. Transfers of the core's own queues are reported packet by packet.
  void access(uint64_t offset, size_t bytes, bool write, const chip::Access& access);
  // The same for an access from the mailbox. A read matters only while an execution is in progress.
  void mail(const Mail& mail, bool executing);
  void semaphore(const chip::SemaphoreChange& change, const chip::Access& access);
  // `idle`: the queue had no work before.
  void doorbell(unsigned engine, unsigned queue, const chip::Access& access, bool idle);
  void armed(unsigned engine, unsigned queue, const chip::Access& access);
  // The engine is about to transfer a packet; `index` is the number of the DMA engine in the core.
  void packet(unsigned index, unsigned queue, uint32_t ahead, const chip::Packet& packet);
  // Called behind a run of packets: counts them and returns the trap that one of them met.
  std::optional<StrictMode::Trap> end_transfers(unsigned engine, unsigned queue);

  // The sequencer writes a word, or reads one: at the other core's semaphores, or in device memory.
  // A fault of a race with the other core, or nothing.
  Fault stores(const Sequencer& s, uint64_t address, ModelTime now);
  void loads(const Sequencer& s, uint64_t address);
  // Units of a cell of this core were consumed.
  void consumed(const chip::SemaphoreChange& change);

  // The waits of an instruction hold: what earlier updates released into their cells comes before
  // it.
  void acquire_waits(const Sequencer& s, const isa::Instruction& i);
  // The sequencer has waited for its queues; `active` per DMA engine: queues that still work.
  void drained(const Sequencer& s, const std::array<uint32_t, kDmaEngines>& active) {
    if (clocks().active()) clocks().drained(s.engine, active);
  }
  // Checks the accesses of an instruction that is about to execute; returns a fault or nothing.
  Fault check(Sequencer& s, const isa::Instruction& i);
  // Takes the trap of a `store` or `load` that has executed: a fault or nothing.
  Fault take_fault();
  // A `store` releases what the sequencer has done; a `load` acquires it.
  void release_memory(const Sequencer& s, ModelTime now) {
    if (observes(s)) clocks().release_memory(s.engine, tick_of(s, now));
  }
  void acquire_memory(const Sequencer& s) {
    if (observes(s)) clocks().acquire_memory(s.engine);
  }

 private:
  StrictClocks& clocks() { return state_.strict->clocks(); }
  uint64_t tick_of(const Sequencer& s, ModelTime now) const {
    return state_.strict->tick(s.engine, s.last_complete <= now);
  }
  bool is_own_engine(const chip::Access& access) const {
    return gate_.inside() && access.core == state_.core && access.engine < kEngines;
  }
  // Names the transfer in flight whose wait the program forgot, if the fault is a read of bytes
  // that such a transfer is still to write. `own`: the queue (DMA engine << 4 | queue) that reads,
  // or -1.
  void look_for_transfer(Fault& fault, int own);
  uint32_t pending_descriptors(unsigned engine, unsigned queue) const;
  // The cell of the other core of a logical core that a word is written to.
  std::optional<unsigned> cell_of_other(uint64_t address) const;
  bool is_of_other_core(const chip::Access& access) const;

  CoreState& state_;
  HostGate& gate_;
  int serving_ = -1;          // DMA engine << 4 | queue whose packets are transferred
  uint32_t transferred_ = 0;  // M2S descriptors of its run so far
};

}  // namespace neuron::core

#endif
