// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/core_notes.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace neuron::runtime {
namespace {

// 64 Ki entries: those of one execution.
constexpr uint32_t kRingBytes = 2u << 20;

}  // namespace

Result<std::shared_ptr<CoreNotes>> CoreNotes::create(Core& core, size_t room) {
  std::shared_ptr<CoreNotes> notes(new CoreNotes(core, room));
  notes->counter_ = base::FileDescriptor(
      base::above_standard_streams(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)));
  if (!notes->counter_) {
    return fail_with_errno(NRT_RESOURCE, errno, "no descriptor for the debug stream of core {}",
                           core.index());
  }
  const MemoryRequest request{.size = kRingBytes,
                              .host = true,
                              .core = core.number(),
                              .category = NEURON_MEMALLOC_TYPE_MISC_HOST,
                              .purpose = "the ring of a debug stream"};
  NEURON_TRY(memory, DeviceMemory::allocate(core.device(), request));
  notes->memory_ = std::move(memory);
  NEURON_CHECK(notes->start());
  return notes;
}

CoreNotes::~CoreNotes() {
  if (memory_ == nullptr || core_.unusable()) return;
  (void)core_.device().write_register(queue_register(NEURON_NQ_SIZE), 0);
}

uint64_t CoreNotes::queue_register(uint32_t offset) const {
  return core_.place().notification() + NEURON_NQ_BASE(NEURON_NQ_SLOT_NOTIFY) + offset;
}

Result<void> CoreNotes::start() {
  NEURON_TRY(bytes, memory_->map());
  std::memset(bytes, 0, kRingBytes);
  reader_.attach(bytes, kRingBytes);
  const uint64_t address = memory_->address();
  const Device& device = core_.device();
  NEURON_CHECK(device.write_register(queue_register(NEURON_NQ_ADDRESS_HI),
                                     static_cast<uint32_t>(address >> 32)));
  NEURON_CHECK(
      device.write_register(queue_register(NEURON_NQ_ADDRESS_LO), static_cast<uint32_t>(address)));
  return device.write_register(queue_register(NEURON_NQ_SIZE), kRingBytes);
}

void CoreNotes::read() {
  neuron_notification entry;
  uint64_t added = 0;
  bool moved = false;
  {
    const std::lock_guard lock(mutex_);
    // bounded: the device stops at a full ring.
    while (reader_.next(entry)) {
      moved = true;
      if (((entry.word >> NEURON_NW_KIND_SHIFT) & 0xF) != NEURON_NK_NOTIFY) continue;
      if (events_.size() >= room_) continue;
      events_.push_back(entry);
      ++added;
    }
    // Before anybody takes one of them. The count cannot overflow: there is room for fewer events.
    if (added != 0) (void)!::write(counter_.get(), &added, sizeof(added));
  }
  // Entries without room are over as well: the device writes no more into a ring that stays full.
  if (!moved) return;
  (void)core_.device().write_register(queue_register(NEURON_NQ_HEAD), reader_.position());
}

std::optional<neuron_notification> CoreNotes::take() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return std::nullopt;
  const neuron_notification event = events_.front();
  events_.pop_front();
  uint64_t one = 0;
  (void)!::read(counter_.get(), &one, sizeof(one));
  return event;
}

}  // namespace neuron::runtime
