// SPDX-License-Identifier: Apache-2.0
// One NeuronCore: what answers in its window of the device bus (SBUF, PSUM, control blocks,
// semaphores), its five sequencers, and the execution group that runs them in model time.
//
// Callers: the chip, through chip::Core; tests. Threads: `run` executes the group in the calling
// thread, one thread at a time. Accesses from that thread (those of the core's own engines and DMA)
// act at once. Accesses from other threads act at once while no thread runs the group. Meanwhile
// their writes go to a mailbox that the runner empties between two events, and their reads of
// control registers wait for the end of the current event. Nothing here waits for another core, so
// two running cores may write to each other. Owns: SBUF, PSUM and sequencers. Borrows the
// connections, which outlive it. Fails: engine faults as hw/fault.h says; never throws after
// construction.
#ifndef DRIVER_EMULATOR_NEURONCORE_NEURON_CORE_H
#define DRIVER_EMULATOR_NEURONCORE_NEURON_CORE_H

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "driver/emulator/chip/core.h"

namespace neuron::core {

class ExecutionGroup;
class StrictPair;

class NeuronCore final : public chip::Core {
 public:
  // Sets itself as listener of the connected semaphores and DMA engines. `listener` may be null.
  // `pair`: what strict mode knows of both cores of a logical core, which share it.
  explicit NeuronCore(const chip::CoreConnections& connections,
                      chip::RunnableListener* listener = nullptr,
                      std::shared_ptr<StrictPair> pair = nullptr);
  ~NeuronCore() override;

  // Unmapped words fail; inside a longer write they are ignored.
  bool read(uint64_t offset, std::span<std::byte> out, const chip::Access& access) override;
  bool write(uint64_t offset, std::span<const std::byte> in, const chip::Access& access) override;
  std::byte* direct(uint64_t offset, size_t length) override;  // SBUF rows only

  // Something can advance. Cheap, any thread.
  bool runnable() const;
  // An execution has consumed semaphore 7, has not completed, and nothing can advance.
  bool deadlocked() const;

  chip::RunResult run(std::chrono::steady_clock::time_point deadline, bool patient = true) override;
  void reset() override;
  void reset_cc(unsigned k) override;
  void disturb() override;
  void halt() override;
  bool halted() const override;
  std::string describe() const override;

 private:
  std::unique_ptr<ExecutionGroup> group_;
};

}  // namespace neuron::core

#endif
