// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/notification_queue.h"

#include <bit>
#include <cstddef>

#include "driver/base/thread_sanitizer.h"

namespace neuron::chip {
namespace {

constexpr uint32_t kStride = NEURON_NQ_BASE(1) - NEURON_NQ_BASE(0);
// Bytes: the distance at which a line comes in before it is written.
constexpr size_t kAhead = 8 * 64;
constexpr uint64_t kFirst = NEURON_NQ_BASE(0);
constexpr uint64_t kEnd = NEURON_NQ_BASE(NEURON_NQ_COUNT);

bool usable_size(uint32_t size) {
  return size >= 2 * NEURON_NOTIFICATION_BYTES && std::has_single_bit(size);
}

}  // namespace

void NotificationBlock::update_enabled(Queue& queue) {
  queue.enabled.store(queue.base() != 0 && usable_size(queue.size), std::memory_order_relaxed);
}

bool NotificationBlock::append(Queue& queue, const Notification& entry) {
  const uint64_t address = queue.base() + uint64_t{queue.tail} * NEURON_NOTIFICATION_BYTES;
  std::byte* to = bus_.direct(address, NEURON_NOTIFICATION_BYTES);
  // The ring's alignment is the host's choice; a misaligned last word could not be stored whole.
  if (to == nullptr || reinterpret_cast<uintptr_t>(to) % 4 != 0) return false;
  // A large ring is in no cache when its turn comes again.
  __builtin_prefetch(to + kAhead, 1);
  auto* const words = reinterpret_cast<uint32_t*>(to);
  // Word by word, as the caller has put them: a wider load or store of what was just stored in
  // smaller pieces waits until these have left the processor's store buffer.
  const auto put = [&](size_t offset, uint32_t value) {
    std::atomic_ref<uint32_t>(words[offset / 4]).store(value, std::memory_order_relaxed);
  };
  put(offsetof(neuron_notification, time), static_cast<uint32_t>(entry.time));
  put(offsetof(neuron_notification, time) + 4, static_cast<uint32_t>(entry.time >> 32));
  put(offsetof(neuron_notification, pc), entry.pc);
  put(offsetof(neuron_notification, debug), entry.debug);
  for (size_t i = 0; i < entry.info.size(); ++i) {
    put(offsetof(neuron_notification, info) + 4 * i, entry.info[i]);
  }
  const uint32_t last = queue.phase | static_cast<uint32_t>(entry.kind) << NEURON_NW_KIND_SHIFT |
                        (entry.engine & 0xFu) << NEURON_NW_ENGINE_SHIFT |
                        static_cast<uint32_t>(entry.code) << NEURON_NW_CODE_SHIFT |
                        (entry.opcode & 0xFFFu) << NEURON_NW_OPCODE_SHIFT;
  // Publishes the words above: pairs with the host's acquire load of this one.
  base::hand_to_other_processes();
  std::atomic_ref<uint32_t>(words[offsetof(neuron_notification, word) / 4])
      .store(last, std::memory_order_release);
  if (++queue.tail == queue.entries()) {
    queue.tail = 0;
    queue.phase ^= 1;
  }
  bus_.wrote({.address = address,
              .bytes = NEURON_NOTIFICATION_BYTES,
              .kind = HostWriteKind::kNotification,
              .engine = static_cast<uint8_t>(&queue - queues_.data())});
  return true;
}

bool NotificationBlock::post(unsigned slot, const Notification& entry) {
  Queue& queue = queues_[slot];
  if (!enabled(slot)) return false;
  const std::lock_guard guard(queue.lock);
  if (!enabled(slot)) return false;
  const bool overwrite = (queue.mode & 1) != 0;
  // One place is kept: for a pending overflow entry, and in the error ring always.
  const uint32_t reserve = queue.unreported != 0 || slot == NEURON_NQ_SLOT_ERROR ? 1 : 0;
  Notification overflow;
  overflow.kind = NEURON_NK_OVERFLOW;
  overflow.code = NEURON_FAULT_NQ_OVERFLOW;
  overflow.time = entry.time;
  if (!overwrite && queue.free_slots() < reserve + 1) {
    const bool first = queue.unreported == 0;
    ++queue.dropped;
    ++queue.unreported;
    if (slot != NEURON_NQ_SLOT_ERROR) return false;
    overflowed_.store(true, std::memory_order_relaxed);
    if (first && queue.free_slots() >= 1) {
      overflow.info[0] = queue.dropped;
      append(queue, overflow);
    }
    return false;
  }
  if (queue.unreported != 0) {
    overflow.info[0] = queue.unreported;
    // The error ring has told at once, in its last slot.
    if (slot != NEURON_NQ_SLOT_ERROR && !append(queue, overflow)) return false;
    queue.unreported = 0;
  }
  return append(queue, entry);
}

bool NotificationBlock::post_error(neuron_fault fault, const Access& access,
                                   std::array<uint32_t, 3> info, uint32_t pc, uint32_t debug,
                                   uint16_t opcode) {
  errors_[fault & 127].fetch_add(1, std::memory_order_relaxed);
  error_total_.fetch_add(1, std::memory_order_relaxed);
  Notification entry;
  entry.kind = NEURON_NK_ERROR;
  entry.engine = access.engine;
  entry.code = static_cast<uint8_t>(fault);
  entry.opcode = opcode;
  entry.time = access.time;
  entry.pc = pc;
  entry.debug = debug;
  entry.info = info;
  return post(NEURON_NQ_SLOT_ERROR, entry);
}

void NotificationBlock::reset() {
  for (Queue& queue : queues_) {
    const std::lock_guard guard(queue.lock);
    queue.enabled.store(false, std::memory_order_relaxed);
    queue.base_lo = queue.base_hi = queue.size = 0;
    queue.head = queue.tail = queue.mode = queue.dropped = queue.unreported = 0;
    queue.phase = 1;
  }
  for (auto& count : errors_) count.store(0, std::memory_order_relaxed);
  error_total_.store(0, std::memory_order_relaxed);
  overflowed_.store(false, std::memory_order_relaxed);
}

bool NotificationBlock::accepts(uint64_t offset, uint64_t bytes, bool, const Access&) {
  return offset >= kFirst && offset + bytes <= kEnd;
}

uint32_t NotificationBlock::read_word(uint64_t offset, const Access&) {
  Queue& queue = queues_[(offset - kFirst) / kStride];
  const std::lock_guard guard(queue.lock);
  switch ((offset - kFirst) % kStride) {
    case NEURON_NQ_ADDRESS_LO:
      return queue.base_lo;
    case NEURON_NQ_ADDRESS_HI:
      return queue.base_hi;
    case NEURON_NQ_SIZE:
      return queue.size;
    case NEURON_NQ_HEAD:
      return queue.head;
    case NEURON_NQ_TAIL:
      return queue.tail;
    case NEURON_NQ_MODE:
      return queue.mode;
    case NEURON_NQ_DROPPED:
      return queue.dropped;
    default:
      return 0;
  }
}

void NotificationBlock::write_word(uint64_t offset, uint32_t value, const Access&) {
  Queue& queue = queues_[(offset - kFirst) / kStride];
  const std::lock_guard guard(queue.lock);
  switch ((offset - kFirst) % kStride) {
    case NEURON_NQ_ADDRESS_LO:
      queue.base_lo = value;
      break;
    case NEURON_NQ_ADDRESS_HI:
      queue.base_hi = value;
      break;
    case NEURON_NQ_SIZE:
      queue.size = value;
      queue.head = queue.tail = queue.dropped = queue.unreported = 0;
      queue.phase = 1;
      break;
    case NEURON_NQ_HEAD:
      if (usable_size(queue.size)) queue.head = value % queue.entries();
      break;
    case NEURON_NQ_MODE:
      queue.mode = value & 1;
      break;
    case NEURON_NQ_DROPPED:
      queue.dropped = 0;
      break;
    default:
      break;
  }
  update_enabled(queue);
}

}  // namespace neuron::chip
