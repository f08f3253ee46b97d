// SPDX-License-Identifier: Apache-2.0
// A NeuronCore as its chip sees it: a target on the bus whose programs can be run.
//
// The chip gives a core its connections (core_connections.h) and owns it. The creator of a chip
// chooses its cores: neuroncore/chip_factory.h has the cores that execute programs. Callers: the
// chip. Thread-safe: yes. Fails: engine faults as hw/fault.h says; nothing throws after
// construction.
#ifndef DRIVER_EMULATOR_CHIP_CORE_H
#define DRIVER_EMULATOR_CHIP_CORE_H

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "driver/emulator/chip/bus.h"
#include "driver/emulator/chip/core_connections.h"

namespace neuron::chip {

// Offsets behind the core's window are those of its CC cores' windows.
inline constexpr uint64_t kCcWindows = NEURON_V2_CORE_WINDOW_SIZE;
inline constexpr uint64_t kCcWindowBytes = NEURON_V2_TOPSP_WINDOW_SIZE;

// Why a run ended.
enum class RunResult : uint8_t {
  kQuiescent,  // every started engine waits or is stopped, no DMA is in flight, no peer is awaited
  kDeadline,   // the host's deadline passed; the group is still runnable
  kBusy,       // another thread runs the group, and the deadline passed
};

// Hears of each access that makes a core's execution group runnable and comes from outside the
// group's own thread. Called without locks held, in the accessing thread; it may call Core::run or
// wake a worker.
class RunnableListener {
 public:
  virtual ~RunnableListener() = default;
  virtual void core_runnable(unsigned core) = 0;
};

class Core : public BusTarget {
 public:
  // As a bus target: the core's window, 64 MiB, with the offsets of hw/address_map.h. Behind it lie
  // the windows of its CC cores, at kCcWindows + k * kCcWindowBytes.

  // Runs until the group is quiescent or `deadline` passes. kBusy: another thread ran the group
  // until the deadline. `patient`: if only a write of another group can make this one go on, sleep
  // until there is one; an impatient caller gets kQuiescent then.
  virtual RunResult run(std::chrono::steady_clock::time_point deadline, bool patient) = 0;

  // Registers, semaphores, SBUF and PSUM return to their reset values; DMA and notification rings
  // are the chip's. A running group stops at its next event first.
  virtual void reset() = 0;
  // The same for CC core k and its semaphores.
  virtual void reset_cc(unsigned k) = 0;
  // A runner that sleeps until another group writes looks again. Any thread.
  virtual void disturb() = 0;
  // Nobody waits any more for what the core does: within a millisecond it stops, also in the middle
  // of an instruction, and rests until its reset. Does not wait. Any thread.
  virtual void halt() = 0;
  virtual bool halted() const = 0;
  // For an operator: the state, pc, instruction and unmet wait of every engine. Any thread.
  virtual std::string describe() const = 0;
};

// Makes a core. `listener` outlives it.
using CoreFactory =
    std::function<std::unique_ptr<Core>(const CoreConnections&, RunnableListener* listener)>;

}  // namespace neuron::chip

#endif
