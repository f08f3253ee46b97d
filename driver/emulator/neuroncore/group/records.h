// SPDX-License-Identifier: Apache-2.0
// What the actors of a core record for profiles and have not posted yet.
//
// A core that records all that it does writes an entry for almost every event, and posting one by
// one costs as much as the events. So entries wait here, in the order of their ring, and go out
// together: before anybody is told that something has happened, before the core is given away or
// waits, and now and then (CoreState::post_records); also when one of the rings has no room here.
// Callers: the holder of the core. Borrows the blocks. Cannot fail; which rings lack entries is
// asked for by lacking().
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_RECORDS_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_RECORDS_H

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>

#include "driver/emulator/chip/notification_queue.h"

namespace neuron::core {

// An entry as it was recorded, for a ring of the core.
struct RecordedEntry {
  unsigned slot = 0;
  neuron_notification entry{};
};

// Of one block of rings.
class Records {
 public:
  // Where the next entry of the ring is to be written, before anything else is called.
  neuron_notification& add(chip::NotificationBlock& block, unsigned slot) {
    if (counts_[slot] == kMostOfRing) [[unlikely]] {
      post(block);
    }
    used_ |= 1u << slot;
    return entries_[slot][counts_[slot]++];
  }
  void post(chip::NotificationBlock& block) {
    std::array<chip::NotificationBlock::Batch, kRings> batches;
    size_t count = 0;
    // bounded: by the rings
    for (; used_ != 0; used_ &= used_ - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(used_));
      batches[count++] = {slot, std::span(entries_[slot]).first(counts_[slot])};
      counts_[slot] = 0;
    }
    if (count != 0) lacking_ |= block.post({batches.data(), count});
  }
  // Bit s: some of slot s were not stored. Since the last call.
  uint32_t lacking() { return std::exchange(lacking_, 0); }

 private:
  // Those that a core records into: engines, notes, semaphores, transfers.
  static constexpr unsigned kRings = NEURON_NQ_SLOT_TRANSFER + 1;
  static constexpr uint32_t kMostOfRing = 32;

  // Not initialised: only what counts_ covers is read.
  alignas(64) std::array<std::array<neuron_notification, kMostOfRing>, kRings> entries_;
  std::array<uint32_t, kRings> counts_{};
  uint32_t used_ = 0;  // bit s: entries of slot s wait
  uint32_t lacking_ = 0;
};

}  // namespace neuron::core

#endif
