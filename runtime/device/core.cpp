// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/core.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "runtime/device/core_notes.h"
#include "runtime/device/core_reset.h"
#include "runtime/device/core_trace.h"
#include "runtime/device/driver_error.h"

namespace neuron::runtime {
namespace {

constexpr uint32_t kRingBytes = 64 * NEURON_NOTIFICATION_BYTES;
constexpr uint32_t kAllEngines = (1u << NEURON_CORE_ENGINES) - 1;
constexpr unsigned kFirstEngine = 8, kFirstCcCore = 13;  // bits of a core's command

}  // namespace

void NotificationReader::attach(const std::byte* ring, uint32_t bytes) {
  ring_ = reinterpret_cast<const neuron_notification*>(ring);
  entries_ = bytes / NEURON_NOTIFICATION_BYTES;
  index_ = 0;
  phase_ = 1;
}

bool NotificationReader::next(neuron_notification& entry) {
  if (entries_ == 0) return false;
  // Acquire: pairs with the device's release store of an entry's last word.
  const uint32_t word = __atomic_load_n(&ring_[index_].word, __ATOMIC_ACQUIRE);
  if ((word & 1) != phase_) return false;
  entry = ring_[index_];
  if (++index_ == entries_) {
    index_ = 0;
    phase_ ^= 1;
  }
  return true;
}

std::span<const neuron_notification> NotificationReader::next(size_t most) {
  const neuron_notification* const first = ring_ + index_;
  const size_t room = std::min<size_t>(most, entries_ - index_);
  size_t count = 0;
  // Acquire: as above.
  while (count < room && (__atomic_load_n(&first[count].word, __ATOMIC_ACQUIRE) & 1) == phase_) {
    ++count;
  }
  index_ += static_cast<uint32_t>(count);
  if (index_ == entries_ && count != 0) {
    index_ = 0;
    phase_ ^= 1;
  }
  return {first, count};
}

Result<std::unique_ptr<Core>> Core::create(Device& device, uint32_t number, uint32_t index,
                                           std::chrono::seconds turn_limit) {
  std::unique_ptr<Core> core(new Core(device, number, index, turn_limit));
  MemoryRequest records{.size = 4096,
                        .host = true,
                        .core = number,
                        .category = NEURON_MEMALLOC_TYPE_MISC_HOST,
                        .purpose = "launch and completion records"};
  NEURON_TRY(record_memory, DeviceMemory::allocate(device, records));
  core->records_ = std::move(record_memory);
  NEURON_TRY(mapping, core->records_->map());
  std::memset(mapping, 0, 4096);
  core->completion_ = reinterpret_cast<neuron_completion_record*>(mapping);
  core->launch_ = reinterpret_cast<neuron_launch_record*>(mapping + 64);
  core->work_ = reinterpret_cast<const neuron_work_record*>(mapping + 128);
  MemoryRequest constant{.size = 4096,
                         .core = number,
                         .category = NEURON_MEMALLOC_TYPE_MISC_DEVICE,
                         .purpose = "the constant that DMA adds to semaphores"};
  NEURON_TRY(one, DeviceMemory::allocate(device, constant));
  core->one_ = std::move(one);
  const uint32_t value = 1;
  NEURON_CHECK(core->one_->write(&value, 0, sizeof(value)));
  NEURON_CHECK(core->halt());
  NEURON_CHECK(core->prepare_notifications());
  return core;
}

Core::Core(Device& device, uint32_t number, uint32_t index, std::chrono::seconds turn_limit)
    : device_(device),
      number_(number),
      place_(device.place(number)),
      index_(index),
      turn_limit_(turn_limit) {}

Core::~Core() {
  if (!unusable()) (void)halt();
  for (const uint64_t context : notification_contexts_) {
    if (context != 0) ndl_notification_destroy(context);
  }
}

neuron_work_record Core::take_work() {
  neuron_work_record done = *work_;
  const auto subtract = [](auto& value, auto& seen) {
    const auto now = value;
    value -= seen;
    seen = now;
  };
  subtract(done.executions, work_seen_.executions);
  subtract(done.model_ps, work_seen_.model_ps);
  subtract(done.collectives_ps, work_seen_.collectives_ps);
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    subtract(done.engine_busy_ps[engine], work_seen_.engine_busy_ps[engine]);
  }
  subtract(done.multiply_accumulates, work_seen_.multiply_accumulates);
  subtract(done.dma_bytes, work_seen_.dma_bytes);
  subtract(done.link_bytes, work_seen_.link_bytes);
  return done;
}

Result<void> Core::halt() {
  current_model = nullptr;
  current_binding = nullptr;
  const uint64_t command = place_.window_bar0() + NEURON_CORE_CONTROL + NEURON_CORE_COMMAND;
  const uint32_t cc_cores = ((1u << place_.chip->cc_cores) - 1) << kFirstCcCore;
  if (collectives.load(std::memory_order_relaxed) != CollectivesState::kClean) {
    NEURON_CHECK(
        device_.write_register(command, NEURON_CMD_RESET | kAllEngines << kFirstEngine | cc_cores));
  } else {
    // Resetting all engines in one command would reset the core, and with it the credits that other
    // ranks have already given.
    constexpr uint32_t kSp = 1u << NEURON_ENGINE_SP;
    NEURON_CHECK(device_.write_register(
        command, NEURON_CMD_RESET | (kAllEngines & ~kSp) << kFirstEngine | cc_cores));
    NEURON_CHECK(device_.write_register(command, NEURON_CMD_RESET | kSp << kFirstEngine));
  }
  // Writes to a PCI device are posted: they may still be on their way when the call that made them
  // has returned, and callers free what the engines used. A read of the device never overtakes
  // them, so once it is answered the engines have stopped. What it reads says nothing.
  NEURON_CHECK(
      device_.read_register(place_.window_bar0() + NEURON_CORE_CONTROL + NEURON_CORE_STATUS));
  return {};
}

void Core::lose_collectives() {
  if (collectives.load(std::memory_order_relaxed) == CollectivesState::kUnknown) return;
  collectives.store(CollectivesState::kLost, std::memory_order_relaxed);
  collectives_age.fetch_add(1, std::memory_order_relaxed);
}

Result<void> Core::recover() {
  auto reset = [&]() -> Result<void> {
    current_model = nullptr;
    current_binding = nullptr;
    lose_collectives();
    // The driver frees their memory.
    for (const auto& [cc_core, notifications] : collective_notifications_) {
      if (const auto open = notifications.lock()) open->close();
    }
    NEURON_CHECK(reset_cores(device_, 1u << number_));
    std::memset(completion_, 0, sizeof(*completion_));
    NEURON_CHECK(restore_notifications());
    if (notes != nullptr) NEURON_CHECK(notes->start());
    return trace == nullptr ? Result<void>() : trace->start();
  };
  auto result = reset();
  if (!result) {
    unusable_.store(true, std::memory_order_relaxed);
    return result.error().with(
        "device {} core {} cannot be used until the runtime is closed and initialised again",
        device_.index(), number_);
  }
  return {};
}

Result<void> Core::restore_notifications() {
  for (uint64_t& context : notification_contexts_) {
    if (context != 0) ndl_notification_destroy(context);
    context = 0;
  }
  return prepare_notifications();
}

Result<void> Core::prepare_notifications() {
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    NEURON_TRY(reader, ring(NQ_TYPE_TRACE, NEURON_NQ_SLOT_TRACE(engine), true));
    completions[engine] = reader;
  }
  NEURON_TRY(reader, ring(NQ_TYPE_ERROR, NEURON_NQ_SLOT_ERROR, false));
  errors = reader;
  return {};
}

bool CollectiveNotifications::next(neuron_notification& entry) {
  const std::lock_guard lock(mutex_);
  return context_ != 0 && reader_.next(entry);
}

void CollectiveNotifications::close() {
  const std::lock_guard lock(mutex_);
  if (context_ != 0) ndl_notification_destroy(context_);
  context_ = 0;
}

bool CollectiveNotifications::closed() const {
  const std::lock_guard lock(mutex_);
  return context_ == 0;
}

Result<std::shared_ptr<CollectiveNotifications>> Core::notifications_of(uint32_t cc_core,
                                                                        uint32_t entries) {
  const uint32_t bytes = std::bit_ceil((entries + 1) * uint32_t{NEURON_NOTIFICATION_BYTES});
  const uint32_t number = number_ * place_.chip->cc_cores + cc_core;
  std::weak_ptr<CollectiveNotifications>& current = collective_notifications_[cc_core];
  // The driver frees the memory of a queue that it replaces.
  if (const auto earlier = current.lock()) earlier->close();
  uint64_t context = 0;
  int result = ndl_notification_init_with_realloc(
      device_.ndl(), static_cast<int>(number), NQ_DEV_TYPE_TOPSP, NQ_TYPE_NOTIFY,
      NEURON_NQ_SLOT_NOTIFY, bytes, true, 0, 0, true, &context);
  void* address = nullptr;
  if (result == 0) {
    result = ndl_notification_map(context, &address);
    if (result != 0) ndl_notification_destroy(context);
  }
  if (result != 0) {
    return driver_error(NRT_RESOURCE, result,
                        "the notification queue of collective core {} of device {} core {}",
                        cc_core, device_.index(), number_);
  }
  std::memset(address, 0, bytes);
  NotificationReader reader;
  reader.attach(static_cast<const std::byte*>(address), bytes);
  auto queue = std::make_shared<CollectiveNotifications>(reader, context);
  // Entries are read at once, and the device is never told the reading position.
  NEURON_CHECK(device_.write_register(
      place_.chip->cc_notification(number) + NEURON_NQ_BASE(NEURON_NQ_SLOT_NOTIFY) + NEURON_NQ_MODE,
      1));
  current = queue;
  return queue;
}

Result<void> Core::acknowledge_errors() {
  return device_.write_register(
      place_.notification() + NEURON_NQ_BASE(NEURON_NQ_SLOT_ERROR) + NEURON_NQ_HEAD,
      errors.position());
}

Result<NotificationReader> Core::ring(uint32_t type, uint32_t slot, bool overwrite) {
  // A ring that an earlier owner of the core left is replaced: its reading position is unknown
  // here.
  uint64_t context = 0;
  int result = ndl_notification_init_with_realloc(
      device_.ndl(), static_cast<int>(number_), NQ_DEV_TYPE_NEURON_CORE, static_cast<uint8_t>(type),
      static_cast<uint8_t>(slot), kRingBytes, true, 0, 0, true, &context);
  void* address = nullptr;
  if (result == 0) {
    notification_contexts_[slot] = context;
    result = ndl_notification_map(context, &address);
  }
  if (result != 0) {
    return driver_error(NRT_RESOURCE, result, "notification queue {} of device {} core {}", slot,
                        device_.index(), number_);
  }
  std::memset(address, 0, kRingBytes);
  if (overwrite) {
    // The executor reads every entry at once and never tells the device its reading position.
    NEURON_CHECK(
        device_.write_register(place_.notification() + NEURON_NQ_BASE(slot) + NEURON_NQ_MODE, 1));
  }
  NotificationReader reader;
  reader.attach(static_cast<const std::byte*>(address), kRingBytes);
  return reader;
}

}  // namespace neuron::runtime
