// SPDX-License-Identifier: Apache-2.0
//
// What the programs of a core say by their `notify` instructions, for one reader in this process.
//
// Callers: CoreLaunch reads the device's ring, in the core's turn; take() any thread. Owns the ring
// (host memory), the events that nobody has taken, and an eventfd that counts them. Borrows the
// core. Fails: create() with NRT_RESOURCE. Events beyond the room are dropped.
#ifndef RUNTIME_DEVICE_CORE_NOTES_H
#define RUNTIME_DEVICE_CORE_NOTES_H

#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "driver/base/file_descriptor.h"
#include "runtime/device/core.h"

namespace neuron::runtime {

class CoreNotes {
 public:
  // The ring is in use when this returns; the caller has the core's turn.
  static Result<std::shared_ptr<CoreNotes>> create(Core& core, size_t room);
  // The caller has the core's turn, or the core is not used any more.
  ~CoreNotes();
  CoreNotes(const CoreNotes&) = delete;
  CoreNotes& operator=(const CoreNotes&) = delete;

  // Points the core to the ring; again after a reset of the core.
  Result<void> start();
  // Takes what the device has written.
  void read();

  // Readable while there are events.
  int descriptor() const { return counter_.get(); }
  std::optional<neuron_notification> take();
  Core& core() const { return core_; }

 private:
  CoreNotes(Core& core, size_t room) : core_(core), room_(room) {}
  uint64_t queue_register(uint32_t offset) const;

  Core& core_;
  const size_t room_;
  std::unique_ptr<DeviceMemory> memory_;
  NotificationReader reader_;
  base::FileDescriptor counter_;
  std::mutex mutex_;  // events_
  std::deque<neuron_notification> events_;
};

}  // namespace neuron::runtime

#endif
