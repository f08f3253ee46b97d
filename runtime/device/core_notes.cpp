// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/core_notes.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/log.h"

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
  NEURON_CHECK(notes->take_ring());
  return notes;
}

Result<std::shared_ptr<CoreNotes>> CoreNotes::create_second(Core& core,
                                                            std::shared_ptr<CoreNotes> first) {
  std::shared_ptr<CoreNotes> notes(new CoreNotes(core, first->room_));
  notes->first_ = std::move(first);
  NEURON_CHECK(notes->take_ring());
  return notes;
}

Result<void> CoreNotes::take_ring() {
  const MemoryRequest request{.size = kRingBytes,
                              .host = true,
                              .core = core_.number(),
                              .category = NEURON_MEMALLOC_TYPE_MISC_HOST,
                              .purpose = "the ring of a debug stream"};
  NEURON_TRY(memory, DeviceMemory::allocate(core_.device(), request));
  memory_ = std::move(memory);
  return start();
}

void CoreNotes::stop() {
  if (dropped_ != 0) {
    log_warning(
        LogComponent::kTdrv,
        "the debug stream of virtual core {} lacks {} events of physical core {}, for which "
        "there was no room; NEURON_RT_DEBUG_STREAM_BUFFER_SIZE says how many may wait",
        core_.index(), dropped_, core_.number());
  }
  if (core_.unusable()) return;
  (void)core_.device().write_register(queue_register(NEURON_NQ_SIZE), 0);
}

uint64_t CoreNotes::queue_register(uint32_t offset) const {
  return core_.place().notification() + NEURON_NQ_BASE(NEURON_NQ_SLOT_NOTIFY) + offset;
}

Result<void> CoreNotes::start() {
  dropped_before_ = 0;  // a reset, or a new ring, counts anew
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

uint64_t CoreNotes::put(std::span<const Event> events) {
  const std::lock_guard lock(mutex_);
  const size_t added = std::min(events.size(), room_ - std::min(room_, events_.size()));
  events_.insert(events_.end(), events.begin(), events.begin() + static_cast<ptrdiff_t>(added));
  // Before anybody takes one of them. The count cannot overflow: there is room for fewer events.
  const uint64_t count = added;
  if (count != 0) (void)!::write(counter_.get(), &count, sizeof(count));
  return events.size() - added;
}

void CoreNotes::read() {
  neuron_notification entry;
  std::vector<Event> events;
  uint32_t taken = 0;
  // bounded: the device stops at a full ring.
  while (reader_.next(entry)) {
    ++taken;
    if (((entry.word >> NEURON_NW_KIND_SHIFT) & 0xF) != NEURON_NK_NOTIFY) continue;
    events.push_back({entry, core_.number()});
  }
  if (!events.empty()) dropped_ += (first_ != nullptr ? *first_ : *this).put(events);
  // Entries without room are over as well: the device writes no more into a ring that stays full.
  if (taken == 0) return;
  (void)core_.device().write_register(queue_register(NEURON_NQ_HEAD), reader_.position());
  // The device drops an entry when one place is left, and keeps one more to tell of it.
  if (taken + 2 < reader_.capacity()) return;
  const auto counted = core_.device().read_register(queue_register(NEURON_NQ_DROPPED));
  if (!counted) return;
  dropped_ += *counted - dropped_before_;
  dropped_before_ = *counted;
}

std::optional<CoreNotes::Event> CoreNotes::take() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return std::nullopt;
  const Event event = events_.front();
  events_.pop_front();
  uint64_t one = 0;
  (void)!::read(counter_.get(), &one, sizeof(one));
  return event;
}

}  // namespace neuron::runtime
