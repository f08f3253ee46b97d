// SPDX-License-Identifier: Apache-2.0
// The execution group of one core: five sequencers, its CC cores and 16 DMA engines, as actors of a
// discrete-event simulation.
//
// Each step takes the actor with the smallest model time (scheduler.h) and lets it do one thing: a
// sequencer issues an instruction (instruction_issue.h), a DMA engine ends a run (dma_actors.h).
// This class owns the parts, runs that loop, and answers accesses to the core's window. Memory is
// memory. Semaphores are read without a lock. Every other access goes through the gate
// (host_gate.h), so that the host's threads meet a running group between two events.
// Callers: NeuronCore, any thread. Fails: as NeuronCore says. No allocation for an event.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_EXECUTION_GROUP_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_EXECUTION_GROUP_H

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "driver/emulator/neuroncore/group/core_registers.h"
#include "driver/emulator/neuroncore/group/instruction_issue.h"
#include "driver/emulator/neuroncore/group/known_launches.h"

namespace neuron::core {

class ExecutionGroup final : private GuardedCore {
 public:
  ExecutionGroup(const chip::CoreConnections& connections, chip::RunnableListener* listener,
                 std::shared_ptr<StrictPair> pair);

  bool read(uint64_t offset, std::span<std::byte> out, const chip::Access& access);
  bool write(uint64_t offset, std::span<const std::byte> in, const chip::Access& access);
  std::byte* direct(uint64_t offset, size_t length);

  bool runnable() const { return state_.scheduler.is_runnable(); }
  bool deadlocked() const { return state_.scheduler.is_deadlocked(); }
  chip::RunResult run(std::chrono::steady_clock::time_point deadline, bool patient) {
    return gate_.run(deadline, patient);
  }
  void reset();
  void reset_cc(unsigned k);
  void disturb() { gate_.disturb(); }
  void halt() {
    state_.halted.store(true, std::memory_order_relaxed);  // orders nothing, is seen soon
    gate_.disturb();
  }
  bool halted() const { return state_.halted.load(std::memory_order_relaxed); }
  std::string describe();

 private:
  void apply(const Mail& mail, bool foreign) override;
  bool read_words(uint64_t offset, std::span<std::byte> out) override;
  bool awaits_peers() const override { return !halted() && waits_.await_peers(); }
  bool rests() const override { return halted(); }
  void pauses() override { state_.post_records(); }
  chip::RunResult run_events(std::chrono::steady_clock::time_point deadline) override;
  chip::RunResult run_until_halt(std::chrono::steady_clock::time_point deadline);

  // The semaphores at an offset of the window: 0 the core's, 1 + k those of CC core k, -1 none.
  int semaphores_at(uint64_t offset, uint64_t& inside) const;
  // A register or a semaphore that can be written.
  bool is_writable(uint64_t offset) const;
  std::byte* memory_at(uint64_t offset, size_t length);
  void mark_psum(uint64_t offset, size_t length);
  void write_words(uint64_t offset, std::span<const std::byte> in, const chip::Access& access);

  CoreState state_;
  HostGate gate_;
  Waits waits_;
  Execution execution_;
  FaultReporter faults_;
  StrictObserver strict_;
  SemaphoreUpdates updates_;
  DmaIssue dma_issue_;
  DmaActors dma_;
  Launches launches_;
  ControlFlow control_flow_;
  Datapath datapath_;
  CoreMeeting meeting_;
  OperatorIssue operators_;
  InstructionIssue issue_;
  CoreControl control_;
  CoreRegisters registers_;
  KnownLaunches known_;
};

}  // namespace neuron::core

#endif
