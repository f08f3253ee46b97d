// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/notification_queue.h"

#include <algorithm>
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

template <class Word>
void put_word(std::byte* to, size_t offset, Word value, std::memory_order order) {
  std::atomic_ref<Word>(*reinterpret_cast<Word*>(to + offset)).store(value, order);
}

uint64_t both(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }

// Words of 64 bits where the ring's alignment lets them be stored whole.
inline void put(std::byte* to, const neuron_notification& entry, uint32_t phase) {
  using Entry = neuron_notification;
  constexpr auto kRelaxed = std::memory_order_relaxed;
  // A large ring is in no cache when its turn comes again.
  __builtin_prefetch(to + kAhead, 1);
  if (reinterpret_cast<uintptr_t>(to) % 8 == 0) [[likely]] {
    put_word<uint64_t>(to, offsetof(Entry, time), entry.time, kRelaxed);
    put_word<uint64_t>(to, offsetof(Entry, pc), both(entry.pc, entry.debug), kRelaxed);
    put_word<uint64_t>(to, offsetof(Entry, info), both(entry.info[0], entry.info[1]), kRelaxed);
  } else {
    put_word(to, offsetof(Entry, time), static_cast<uint32_t>(entry.time), kRelaxed);
    put_word(to, offsetof(Entry, time) + 4, static_cast<uint32_t>(entry.time >> 32), kRelaxed);
    put_word(to, offsetof(Entry, pc), entry.pc, kRelaxed);
    put_word(to, offsetof(Entry, debug), entry.debug, kRelaxed);
    put_word(to, offsetof(Entry, info), entry.info[0], kRelaxed);
    put_word(to, offsetof(Entry, info) + 4, entry.info[1], kRelaxed);
  }
  put_word(to, offsetof(Entry, info) + 8, entry.info[2], kRelaxed);
  // Publishes the words above: pairs with the host's acquire load of this one.
  base::hand_to_other_processes();
  put_word(to, offsetof(Entry, word), entry.word | phase, std::memory_order_release);
}

}  // namespace

void NotificationBlock::update_enabled(Queue& queue) {
  const bool enabled = queue.base() != 0 && usable_size(queue.size);
  if (queue.enabled.exchange(enabled, std::memory_order_relaxed) == enabled) return;
  times_turned_.fetch_add(1, std::memory_order_relaxed);
}

std::byte* NotificationBlock::place_of(const Queue& queue, size_t entries) const {
  const uint64_t address = queue.base() + uint64_t{queue.tail} * NEURON_NOTIFICATION_BYTES;
  std::byte* to = bus_.direct(address, entries * NEURON_NOTIFICATION_BYTES);
  // The ring's alignment is the host's choice; a misaligned last word could not be stored whole.
  return reinterpret_cast<uintptr_t>(to) % 4 == 0 ? to : nullptr;
}

bool NotificationBlock::append(Queue& queue, const neuron_notification& entry) {
  std::byte* to = place_of(queue, 1);
  if (to == nullptr) return false;
  put(to, entry, queue.phase);
  advance(queue, 1);
  return true;
}

// Behind entries that were stored; they do not go beyond the end of the ring.
void NotificationBlock::advance(Queue& queue, uint32_t entries) {
  bus_.wrote({.address = queue.base() + uint64_t{queue.tail} * NEURON_NOTIFICATION_BYTES,
              .bytes = uint64_t{entries} * NEURON_NOTIFICATION_BYTES,
              .kind = HostWriteKind::kNotification,
              .engine = static_cast<uint8_t>(&queue - queues_.data())});
  queue.tail += entries;
  if (queue.tail == queue.entries()) {
    queue.tail = 0;
    queue.phase ^= 1;
  }
}

bool NotificationBlock::post(unsigned slot, const Notification& entry) {
  if (!enabled(slot)) return false;
  const Transfer transfer(bus_.host_memory());
  const std::lock_guard guard(lock_);
  return post_locked(slot, encode(entry));
}

uint32_t NotificationBlock::post(std::span<const Batch> batches) {
  uint32_t lacking = 0;
  const Transfer transfer(bus_.host_memory());
  const std::lock_guard guard(lock_);
  for (const Batch& batch : batches) {
    if (!post_batch(batch)) lacking |= 1u << batch.slot;
  }
  return lacking;
}

bool NotificationBlock::post_batch(const Batch& batch) {
  Queue& queue = queues_[batch.slot];
  bool stored = true;
  for (auto left = batch.entries; !left.empty();) {
    if (const size_t count = append_run(queue, left); count != 0) {
      left = left.subspan(count);
      continue;
    }
    stored &= post_locked(batch.slot, left.front());
    left = left.subspan(1);
  }
  return stored;
}

size_t NotificationBlock::append_run(Queue& queue, std::span<const neuron_notification> entries) {
  // What is rare is for post_locked(): drops to tell of, a ring that overwrites.
  if (!queue.enabled.load(std::memory_order_relaxed) || queue.unreported != 0 ||
      (queue.mode & 1) != 0) {
    return 0;
  }
  const size_t count =
      std::min<size_t>(entries.size(), std::min(queue.free_slots(), queue.entries() - queue.tail));
  std::byte* to = place_of(queue, count);
  if (to == nullptr) return 0;
  for (const neuron_notification& entry : entries.first(count)) {
    put(to, entry, queue.phase);
    to += NEURON_NOTIFICATION_BYTES;
  }
  advance(queue, static_cast<uint32_t>(count));
  return count;
}

bool NotificationBlock::post_locked(unsigned slot, const neuron_notification& entry) {
  Queue& queue = queues_[slot];
  if (!enabled(slot)) return false;
  const bool overwrite = (queue.mode & 1) != 0;
  // One place is kept: for a pending overflow entry, and in the error ring always.
  const uint32_t reserve = queue.unreported != 0 || slot == NEURON_NQ_SLOT_ERROR ? 1 : 0;
  const auto overflow = [&](uint32_t dropped) {
    Notification told;
    told.kind = NEURON_NK_OVERFLOW;
    told.code = NEURON_FAULT_NQ_OVERFLOW;
    told.time = entry.time;
    told.info[0] = dropped;
    return append(queue, encode(told));
  };
  if (!overwrite && queue.free_slots() < reserve + 1) [[unlikely]] {
    const bool first = queue.unreported == 0;
    ++queue.dropped;
    ++queue.unreported;
    if (slot != NEURON_NQ_SLOT_ERROR) return false;
    overflowed_.store(true, std::memory_order_relaxed);
    if (first && queue.free_slots() >= 1) overflow(queue.dropped);
    return false;
  }
  if (queue.unreported != 0) [[unlikely]] {
    // The error ring has told at once, in its last slot.
    if (slot != NEURON_NQ_SLOT_ERROR && !overflow(queue.unreported)) return false;
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

bool NotificationBlock::has_in_ring(uint64_t address, uint64_t bytes) {
  const std::lock_guard guard(lock_);
  return std::any_of(queues_.begin(), queues_.end(), [&](const Queue& queue) {
    return queue.enabled.load(std::memory_order_relaxed) &&
           (address - queue.base() < queue.size || queue.base() - address < bytes);
  });
}

void NotificationBlock::reset() {
  const std::lock_guard guard(lock_);
  for (Queue& queue : queues_) {
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
  const std::lock_guard guard(lock_);
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
  const std::lock_guard guard(lock_);
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
