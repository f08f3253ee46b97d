// SPDX-License-Identifier: Apache-2.0
// One NeuronCore: what answers in its window of the device bus (SBUF, PSUM, control blocks,
// semaphores), its five sequencers and the execution group that runs them in model time.
//
// Callers: the chip. Threads: `run` executes the group in the calling thread, one at a time.
// Accesses from that thread (its own engines and DMA) act at once. Others act at once while nobody
// runs; meanwhile their writes go to an inbox that the runner empties between two events, and their
// reads of control registers wait for the end of the current event. Nothing here waits for another
// core, so that two running cores may write to each other. Owns: SBUF, PSUM and sequencers; borrows
// the connections, which outlive it. Fails: engine faults as hw/fault.h says; never throws after
// construction.
#ifndef DRIVER_EMULATOR_NEURONCORE_NEURON_CORE_H
#define DRIVER_EMULATOR_NEURONCORE_NEURON_CORE_H

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "driver/emulator/chip/bus.h"
#include "driver/emulator/chip/chip.h"
#include "driver/emulator/chip/core_connections.h"

namespace neuron::core {

class ExecutionGroup;

// Offsets behind the core's window are those of its CC cores' windows.
inline constexpr uint64_t kCcWindows = NEURON_V2_CORE_WINDOW_SIZE;
inline constexpr uint64_t kCcWindowBytes = NEURON_V2_TOPSP_WINDOW_SIZE;

// Told when an access from outside the group's own thread has made the group runnable. Called
// without locks held, from the accessing thread; may call NeuronCore::run or wake a worker.
class RunnableListener {
 public:
  virtual ~RunnableListener() = default;
  virtual void core_runnable(unsigned core) = 0;
};

class NeuronCore final : public chip::BusTarget {
 public:
  // Sets itself as listener of the connected semaphores and DMA engines. `listener` may be null.
  explicit NeuronCore(const chip::CoreConnections& connections,
                      RunnableListener* listener = nullptr);
  ~NeuronCore() override;

  // The core window, 64 MiB: offsets are those of hw/address_map.h behind a core's window. Behind
  // it, the windows of its CC cores at kCcWindows + k * kCcWindowBytes.
  // Unmapped words fail, inside a longer write they are ignored.
  bool read(uint64_t offset, std::span<std::byte> out, const chip::Access& access) override;
  bool write(uint64_t offset, std::span<const std::byte> in, const chip::Access& access) override;
  std::byte* direct(uint64_t offset, size_t length) override;  // SBUF rows only

  // Something can advance. Cheap, any thread.
  bool runnable() const;
  // Runs until quiescent or `deadline`; kBusy if another thread runs the group until the deadline.
  // `patient`: while it can only go on by a write of another group, sleeps until that or the
  // deadline; else kQuiescent then too.
  chip::RunResult run(std::chrono::steady_clock::time_point deadline, bool patient = true);
  // An execution has consumed semaphore 7, has not completed, and nothing can advance.
  bool deadlocked() const;

  // Registers, semaphores, SBUF and PSUM to reset values; DMA and notification rings are the
  // chip's. Waits for a running group to stop, which it does at its next event.
  void reset();
  // One of its CC cores, and that one's semaphores.
  void reset_cc(unsigned k);
  // Whoever runs it and sleeps until another group writes looks again; any thread.
  void disturb();
  // For an operator: every engine's state, pc, instruction and unmet wait. Any thread.
  std::string describe() const;

 private:
  std::unique_ptr<ExecutionGroup> group_;
};

}  // namespace neuron::core

#endif
