// SPDX-License-Identifier: Apache-2.0
// A block of 16 notification queues: rings of 32-byte entries that the device fills
// (hw/notification.h).
//
// Concepts: `post` appends to the ring of a slot; without a ring it does nothing. The last word of
// an entry, which has the phase bit, is stored last, with release order; it pairs with the host's
// acquire load of that word. Rings lie in HBM or host memory; a ring whose memory is gone drops its
// entries. A full ring drops entries and counts them (mode bit 0: it overwrites). An overflow entry
// precedes the next entry that fits; an error ring keeps its last slot for that.
// Several entries at a time take the lock once, and look for the memory of a ring once.
// Callers: any thread. Thread-safe: yes, a lock for the block; `enabled` is one relaxed load.
#ifndef DRIVER_EMULATOR_CHIP_NOTIFICATION_QUEUE_H
#define DRIVER_EMULATOR_CHIP_NOTIFICATION_QUEUE_H

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "driver/base/backoff.h"
#include "driver/emulator/chip/register_target.h"
#include "hw/fault.h"
#include "hw/isa.h"
#include "hw/notification.h"

namespace neuron::chip {

struct Notification {
  neuron_notification_kind kind = NEURON_NK_NOTIFY;
  uint8_t engine = NEURON_ENGINE_HOST;
  uint8_t code = 0;  // fault, or update operation with `when` in bit 3
  uint16_t opcode = 0;
  ModelTime time = 0;
  uint32_t pc = 0;
  uint32_t debug = 0;
  std::array<uint32_t, 3> info = {};
};

class NotificationBlock : public RegisterTarget {
 public:
  static constexpr uint64_t kBytes = 0x1000;

  explicit NotificationBlock(const Bus& bus) : bus_(bus) {}

  bool enabled(unsigned slot) const {
    return queues_[slot].enabled.load(std::memory_order_relaxed);
  }
  // False if the entry was not stored: no ring, a full ring, or no memory there.
  bool post(unsigned slot, const Notification& entry);
  // The entries of several slots, but that of errors, as encode() gives them. Bit s of the answer:
  // some of slot s were not stored.
  struct Batch {
    unsigned slot;
    std::span<const neuron_notification> entries;
  };
  uint32_t post(std::span<const Batch> batches);
  // As it lies in a ring, but for the phase.
  static neuron_notification encode(const Notification& entry) {
    return {.time = entry.time,
            .pc = entry.pc,
            .debug = entry.debug,
            .info = {entry.info[0], entry.info[1], entry.info[2]},
            .word = static_cast<uint32_t>(entry.kind) << NEURON_NW_KIND_SHIFT |
                    (entry.engine & 0xFu) << NEURON_NW_ENGINE_SHIFT |
                    static_cast<uint32_t>(entry.code) << NEURON_NW_CODE_SHIFT |
                    (entry.opcode & 0xFFFu) << NEURON_NW_OPCODE_SHIFT};
  }
  // Error notification in slot 7; info as hw/notification.h says for the fault. Also counted.
  bool post_error(neuron_fault fault, const Access& access, std::array<uint32_t, 3> info,
                  uint32_t pc = 0, uint32_t debug = 0, uint16_t opcode = 0);
  // Errors posted since reset, whether a ring took them or not; by fault code (low 7 bits).
  uint64_t errors(neuron_fault fault) const {
    return errors_[fault & 127].load(std::memory_order_relaxed);
  }
  uint64_t errors() const { return error_total_.load(std::memory_order_relaxed); }
  // How often one of the rings was turned on or off.
  uint32_t times_turned() const { return times_turned_.load(std::memory_order_relaxed); }
  // Whether one of the bytes belongs to a ring that is on.
  bool has_in_ring(uint64_t address, uint64_t bytes);
  // True once an error did not fit the error ring (NQ_OVERFLOW); cleared by reset.
  bool overflowed() const { return overflowed_.load(std::memory_order_relaxed); }
  // Turns all rings off.
  void reset();

 protected:
  bool accepts(uint64_t offset, uint64_t bytes, bool write, const Access& access) override;
  uint32_t read_word(uint64_t offset, const Access& access) override;
  void write_word(uint64_t offset, uint32_t value, const Access& access) override;

 private:
  // Held for some stores, and rarely by two: a mutex takes as long as what it guards.
  class ShortLock {
   public:
    void lock() {
      // bounded: by the holder, which waits for nothing
      while (held_.test_and_set(std::memory_order_acquire)) base::yield_processor();
    }
    void unlock() { held_.clear(std::memory_order_release); }

   private:
    std::atomic_flag held_;
  };
  struct Queue {
    std::atomic<bool> enabled = false;
    uint32_t base_lo = 0;
    uint32_t base_hi = 0;
    uint32_t size = 0;
    uint32_t head = 0;
    uint32_t tail = 0;
    uint32_t phase = 1;
    uint32_t mode = 0;
    uint32_t dropped = 0;
    uint32_t unreported = 0;  // drops since the last overflow entry
    uint64_t base() const { return uint64_t{base_hi} << 32 | base_lo; }
    uint32_t entries() const { return size / NEURON_NOTIFICATION_BYTES; }
    // A usable ring has a power of two of entries.
    uint32_t free_slots() const { return (head - tail - 1) & (entries() - 1); }
  };

  // Under lock_.
  bool post_locked(unsigned slot, const neuron_notification& entry);
  bool post_batch(const Batch& batch);
  // Stores entries in places that lie behind each other and are free; returns how many.
  size_t append_run(Queue& queue, std::span<const neuron_notification> entries);
  bool append(Queue& queue, const neuron_notification& entry);
  // Memory of the next places of a ring, which lie behind each other; null: not there.
  std::byte* place_of(const Queue& queue, size_t entries) const;
  void advance(Queue& queue, uint32_t entries);
  void update_enabled(Queue& queue);

  const Bus& bus_;
  ShortLock lock_;  // queues_, but for `enabled`
  std::array<Queue, NEURON_NQ_COUNT> queues_;
  std::atomic<uint32_t> times_turned_ = 0;
  std::array<std::atomic<uint64_t>, 128> errors_ = {};
  std::atomic<uint64_t> error_total_ = 0;
  std::atomic<bool> overflowed_ = false;
};

}  // namespace neuron::chip

#endif
