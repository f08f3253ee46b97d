// SPDX-License-Identifier: Apache-2.0
//
// One NeuronCore that this process owns: its records, its notification rings, and the model on it.
// Callers: loader and executor, which hold the turn (CoreTurn) while they touch anything but the
// constants.
// Owns: launch, completion and work record (one page of host memory), notification rings, the
// constant word that DMA adds to semaphores, the scratchpad that models share. Borrows: the device.
// Fails: NRT_EXEC_UNIT_UNRECOVERABLE for ever once a reset has failed.
#ifndef RUNTIME_DEVICE_CORE_H
#define RUNTIME_DEVICE_CORE_H

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "hw/control.h"
#include "hw/isa.h"
#include "hw/notification.h"
#include "runtime/device/device_memory.h"
#include "runtime/device/fair_lock.h"
#include "runtime/device/scratchpad.h"
#include "runtime/observe/core_counters.h"

namespace neuron::runtime {

class CoreNotes;
class CoreTrace;
class LaunchDebugger;

// Reads the entries that the device wrote into one notification ring, in order.
class NotificationReader {
 public:
  void attach(const std::byte* ring, uint32_t bytes);
  // False: no further entry.
  bool next(neuron_notification& entry);
  // The next entries, at most so many, where the device has put them. They stay there until the
  // device is told that their places are free.
  std::span<const neuron_notification> next(size_t most);
  uint32_t capacity() const { return entries_; }
  // Entries consumed, modulo the ring.
  uint32_t position() const { return index_; }
  // False in every second lap.
  bool in_first_phase() const { return phase_ == 1; }

 private:
  const neuron_notification* ring_ = nullptr;
  uint32_t entries_ = 0;
  uint32_t index_ = 0;
  uint32_t phase_ = 1;
};

// The notifications of one CC core's program. Those of the next program go to another queue, and
// this one then has no further entry. Owns: the context of the driver library; the memory itself
// belongs to the driver, until the next queue or a reset of the core. Thread-safe: yes.
class CollectiveNotifications {
 public:
  CollectiveNotifications(const NotificationReader& reader, uint64_t context)
      : reader_(reader), context_(context) {}
  ~CollectiveNotifications() { close(); }
  CollectiveNotifications(const CollectiveNotifications&) = delete;
  CollectiveNotifications& operator=(const CollectiveNotifications&) = delete;

  // False: no further entry.
  bool next(neuron_notification& entry);
  // From here on nobody reads the memory.
  void close();
  bool closed() const;

 private:
  mutable std::mutex mutex_;  // all below
  NotificationReader reader_;
  uint64_t context_;  // 0: closed
};

// State of the semaphores of a core's CC cores. kUnknown: an earlier process may have left values
// in them. kClean: they match those of the other ranks. kLost: a reset has cleared them, so that
// they no longer match.
enum class CollectivesState : uint8_t { kUnknown, kClean, kLost };

class Core {
 public:
  // `number` counts the cores of the device, `index` those that this process sees. `turn_limit`:
  // how long a thread waits for its turn.
  static Result<std::unique_ptr<Core>> create(Device& device, uint32_t number, uint32_t index,
                                              std::chrono::seconds turn_limit);
  ~Core();

  Device& device() const { return device_; }
  uint32_t number() const { return number_; }
  uint32_t index() const { return index_; }
  const CorePlace& place() const { return place_; }
  std::chrono::seconds turn_limit() const { return turn_limit_; }
  uint32_t hbm() const { return place_.hbm(); }
  uint64_t window() const { return place_.window(); }
  uint64_t semaphore_inc(uint32_t semaphore) const {
    return window() + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + semaphore * 4;
  }

  neuron_launch_record& launch() const { return *launch_; }
  neuron_completion_record& completion() const { return *completion_; }
  uint64_t launch_address() const { return records_->address() + 64; }
  uint64_t completion_address() const { return records_->address(); }
  uint64_t work_address() const { return records_->address() + 128; }
  // The work of the core since the last call.
  neuron_work_record take_work();
  const DeviceMemory& one() const { return *one_; }

  // Stops every engine and forgets the programs.
  Result<void> halt();
  // Resets the core through the driver and prepares it again; used after a fault.
  Result<void> recover();
  // Gives the device its small notification rings again, after a trace has used others.
  Result<void> restore_notifications();
  // From here on, no collective that is connected now can be executed.
  void lose_collectives();
  // A new queue for what the program of the core's CC core `cc_core` notifies, with room for
  // `entries` that nobody has read yet. It closes an earlier one. The CC core is halted.
  Result<std::shared_ptr<CollectiveNotifications>> notifications_of(uint32_t cc_core,
                                                                    uint32_t entries);
  // Tells the device that the entries read from `errors` may be overwritten.
  Result<void> acknowledge_errors();
  bool unusable() const { return unusable_.load(std::memory_order_relaxed); }

  // What the engines do is recorded here while somebody wants it; else null.
  std::unique_ptr<CoreTrace> trace;
  // Looks at every execution while it goes on; else null. Not owned.
  LaunchDebugger* debugger = nullptr;
  // Takes what programs say while somebody listens; else null.
  std::shared_ptr<CoreNotes> notes;
  // The second physical core of a virtual one, with the index of the first; else null. It is used
  // in the turn of the first.
  std::unique_ptr<Core> peer;
  FairLock turn;
  Scratchpad scratchpad;
  // The LoadedModel that the engines run, and the Binding whose rings their queues point to; null
  // after halt() and recover(). Only compared: a core knows nothing of models.
  const void* current_model = nullptr;
  const void* current_binding = nullptr;
  uint32_t executions = 0;
  // All three are relaxed: they change only in the core's turn, or while no collective is executed.
  std::atomic<CollectivesState> collectives{CollectivesState::kUnknown};
  // By which numbers its CC cores' credits are counted (World::credit_numbering).
  std::atomic<uint64_t> credit_numbering{0};
  // Increases when connected collectives have lost their credits and cannot go on.
  std::atomic<uint32_t> collectives_age{0};
  std::array<NotificationReader, NEURON_CORE_ENGINES> completions;
  NotificationReader errors;
  CoreCounters counters;
  // Models loaded here. A load that names no core goes to the core with the fewest.
  std::atomic<uint32_t> models{0};

 private:
  Core(Device& device, uint32_t number, uint32_t index, std::chrono::seconds turn_limit);
  Result<void> prepare_notifications();
  Result<NotificationReader> ring(uint32_t type, uint32_t slot, bool overwrite);

  Device& device_;
  uint32_t number_;
  const CorePlace place_;
  uint32_t index_;
  const std::chrono::seconds turn_limit_;
  std::unique_ptr<DeviceMemory> records_;
  std::unique_ptr<DeviceMemory> one_;
  neuron_launch_record* launch_ = nullptr;
  neuron_completion_record* completion_ = nullptr;
  const neuron_work_record* work_ = nullptr;
  neuron_work_record work_seen_{};
  std::atomic<bool> unusable_{false};
  std::array<uint64_t, 16> notification_contexts_{};
  std::map<uint32_t, std::weak_ptr<CollectiveNotifications>>
      collective_notifications_;  // by CC core
};

}  // namespace neuron::runtime

#endif
