// SPDX-License-Identifier: Apache-2.0
//
// What the programs of a core say by their `notify` instructions, for one reader in this process.
//
// A virtual core of two physical ones has one reader: the notes of the second core are made for
// those of the first one, and their events wait there.
// Callers: CoreLaunch reads the device's ring, in the core's turn; take() any thread. Owns the ring
// (host memory), the events that nobody has taken, and an eventfd that counts them. Borrows the
// core. Fails: create() with NRT_RESOURCE. Events beyond the room, and those of one execution
// beyond the ring, are dropped and counted; stop() tells the log how many.
#ifndef RUNTIME_DEVICE_CORE_NOTES_H
#define RUNTIME_DEVICE_CORE_NOTES_H

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "driver/base/file_descriptor.h"
#include "runtime/device/core.h"

namespace neuron::runtime {

class CoreNotes {
 public:
  // The ring is in use when this returns; the caller has the core's turn.
  static Result<std::shared_ptr<CoreNotes>> create(Core& core, size_t room);
  // Of the second core; `first`: those of the first one.
  static Result<std::shared_ptr<CoreNotes>> create_second(Core& core,
                                                          std::shared_ptr<CoreNotes> first);
  // Readers may still have it, in other threads: nothing is told to the device here.
  ~CoreNotes() = default;
  CoreNotes(const CoreNotes&) = delete;
  CoreNotes& operator=(const CoreNotes&) = delete;

  // Points the core to the ring; again after a reset of the core.
  Result<void> start();
  // Takes what the device has written.
  void read();
  // Takes the ring from the device, whose next client may have one of its own. The caller has the
  // core's turn, or the core is not used any more.
  void stop();

  // Readable while there are events.
  int descriptor() const { return counter_.get(); }
  struct Event {
    neuron_notification entry{};
    uint32_t core = 0;  // physical core of the device
  };
  std::optional<Event> take();
  Core& core() const { return core_; }
  uint64_t dropped() const { return dropped_; }

 private:
  CoreNotes(Core& core, size_t room) : core_(core), room_(room) {}
  Result<void> take_ring();
  // Of this core or the second one. Returns how many had no room.
  uint64_t put(std::span<const Event> events);
  uint64_t queue_register(uint32_t offset) const;

  Core& core_;
  std::shared_ptr<CoreNotes> first_;  // null: this has the events
  const size_t room_;
  uint64_t dropped_ = 0;         // in the turn
  uint32_t dropped_before_ = 0;  // what the device counted at the last look
  std::unique_ptr<DeviceMemory> memory_;
  NotificationReader reader_;
  base::FileDescriptor counter_;
  std::mutex mutex_;  // events_
  std::deque<Event> events_;
};

}  // namespace neuron::runtime

#endif
