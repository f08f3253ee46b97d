// SPDX-License-Identifier: Apache-2.0
//
// What the engines, CC cores and DMA queues of a core do, as the core itself records it: large
// notification rings for instructions, semaphores and transfers, which are read while an execution
// goes on.
//
// Callers: who wants a profile makes it and puts it into Core::trace; CoreLaunch reads it. All hold
// the core's turn. Owns: the rings (host memory); the destructor gives the core its small ones
// again. Borrows: the core. Shares: the sink. Fails: NRT_RESOURCE without memory for the rings.
// A device that writes faster than this process reads drops entries and counts them: lost().
#ifndef RUNTIME_DEVICE_CORE_TRACE_H
#define RUNTIME_DEVICE_CORE_TRACE_H

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "runtime/device/core.h"

namespace neuron::runtime {

// One execution, when all its entries have been taken.
struct TracedExecution {
  uint32_t exec_id = 0;
  bool failed = false;
  uint64_t begin_ns = 0;  // host time, since the epoch
  uint64_t end_ns = 0;
  uint64_t device_ps = 0;  // 0 if it failed
  neuron_work_record work{};
  uint64_t lost = 0;  // entries that the device has dropped since the trace began
};

// Entries of the core's CC core k come as those of ring kCollectiveRing + k.
inline constexpr uint32_t kCollectiveRing = NEURON_NQ_COUNT;
inline constexpr uint32_t kMostCollectiveCores = 4;
inline constexpr uint32_t kTracedRings = kCollectiveRing + kMostCollectiveCores;

// Takes what was recorded. Cannot fail: an implementation keeps its first error.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  // Entries of one ring (NEURON_NQ_SLOT_*, or that of a CC core), in their order. Those of
  // different rings come as they are read. They lie in the ring, and are gone behind this call.
  virtual void take(uint32_t slot, std::span<const neuron_notification> entries) = 0;
  virtual void ended(const TracedExecution& execution) = 0;
};

class CoreTrace {
 public:
  // The rings are in use when this returns. Put it into core.trace.
  static Result<std::unique_ptr<CoreTrace>> create(Core& core, std::shared_ptr<TraceSink> sink);
  ~CoreTrace();
  CoreTrace(const CoreTrace&) = delete;
  CoreTrace& operator=(const CoreTrace&) = delete;

  // MODE of an engine that records every instruction.
  static constexpr uint32_t kMode = 2;

  // Points the core to the rings; again after a reset of the core.
  Result<void> start();
  // Gives the sink what has arrived.
  void read();
  // Reads the rest of an execution, and tells the sink its end.
  void end(TracedExecution execution);
  uint64_t lost() const { return lost_; }

  // What the engines said at the end of the last execution.
  const std::array<uint64_t, NEURON_CORE_ENGINES>& busy_ps() const { return busy_ps_; }
  const std::array<uint32_t, NEURON_CORE_ENGINES>& retired() const { return retired_; }

 private:
  struct Ring {
    uint32_t slot = 0;
    uint64_t registers = 0;  // BAR 0 offset of its queue
    uint32_t bytes = 0;
    std::unique_ptr<DeviceMemory> memory;
    NotificationReader reader;
    uint32_t unacknowledged = 0;  // entries that were read and still take room
    bool may_lack = false;        // it was full, so the device may have dropped entries
    bool zeros = false;           // nothing was written, not even by an earlier owner
  };
  CoreTrace(Core& core, std::shared_ptr<TraceSink> sink) : core_(core), sink_(std::move(sink)) {}
  Result<void> add_ring(uint32_t slot, uint64_t registers, uint32_t bytes);
  Result<void> set_mode(uint64_t engine, uint32_t mode) const;
  Result<void> set_modes(uint32_t mode);
  void read(Ring& ring);
  void acknowledge(Ring& ring);
  // Between two executions: the ring begins at its first place again.
  void restart(Ring& ring);
  // Adds what the device has dropped, if the ring was ever full.
  void count_lost(const Ring& ring);

  Core& core_;
  std::shared_ptr<TraceSink> sink_;
  std::vector<Ring> rings_;
  uint64_t lost_ = 0;
  uint64_t lost_before_ = 0;  // before the last reset
  std::array<uint64_t, NEURON_CORE_ENGINES> busy_ps_{};
  std::array<uint32_t, NEURON_CORE_ENGINES> retired_{};
};

}  // namespace neuron::runtime

#endif
