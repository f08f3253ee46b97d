// SPDX-License-Identifier: Apache-2.0
// Calls about cores: reset, initialisation, locks and marks, semaphores, notifications, datastore.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstring>
#include <thread>

#include "driver/emulator/service/error.h"
#include "driver/emulator/service/holder.h"
#include "driver/emulator/service/session.h"

namespace neuron::service {
namespace {

using Clock = std::chrono::steady_clock;

// How long the public driver tries: writers, readers, and the initialiser of a core.
constexpr auto kWriterLimit = std::chrono::seconds(3);
constexpr auto kReaderLimit = std::chrono::milliseconds(750);
constexpr auto kInitialiserLimit = std::chrono::seconds(5);
constexpr auto kPause = std::chrono::microseconds(50);
constexpr uint32_t kSemaphores = 256;
constexpr uint32_t kEvents = 256;

}  // namespace

int Session::dispatch_core(unsigned long request, void* argument) {
  const unsigned nr = _IOC_NR(request);
  switch (request) {
    case NEURON_IOCTL_DEVICE_RESET: {
      neuron_ioctl_device_reset whole = {NEURON_NC_MAP_DEVICE, 0};
      return reset_cores(whole);
    }
    case NEURON_IOCTL_DEVICE_READY: {
      neuron_ioctl_device_ready ready = {static_cast<__u32>(pid_), 0};
      bool pending = false;
      {
        const std::lock_guard lock(device_.mutex);
        pending = device_.reset_results.count(pid_) != 0;
      }
      if (pending) reset_ready(ready);
      as<__u8>(argument) = ready.result == 0;
      return 0;
    }
    case NEURON_IOCTL_DEVICE_RESET_STATUS:
      as<__u8>(argument) = 1;
      return 0;
    case NEURON_IOCTL_NC_RESET:
      return reset_cores(as<neuron_ioctl_device_reset>(argument));
    case NEURON_IOCTL_NC_RESET_READY:
      return reset_ready(as<neuron_ioctl_device_ready>(argument));
    case NEURON_IOCTL_CINIT_SET_STATE:
      return init_state(as<neuron_ioctl_cinit_set>(argument));
    case NEURON_IOCTL_NC_MODEL_STARTED_COUNT: {
      auto& count = as<neuron_ioctl_nc_model_started_count>(argument);
      if (int error = check_core(count.nc_id)) return error;
      count.started_count = 0;  // only Inf1 counts
      return 0;
    }
    case NEURON_IOCTL_CRWL_READER_ENTER:
    case NEURON_IOCTL_CRWL_READER_EXIT:
    case NEURON_IOCTL_CRWL_WRITER_ENTER:
    case NEURON_IOCTL_CRWL_WRITER_DOWNGRADE:
      return core_lock(as<neuron_ioctl_crwl>(argument), nr);
    case NEURON_IOCTL_CRWL_NC_RANGE_MARK: {
      auto& range = as<neuron_ioctl_crwl_nc_map>(argument);
      uint64_t bitmap[ND_CLAIM_WORDS];
      const int error = mark(range.nc_count, range.start_nc_index, range.end_nc_index, bitmap,
                             &range.max_nc_available);
      if (!error) range.bitmap = bitmap[0];
      return error;
    }
    case NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0: {
      auto& range = as<neuron_ioctl_crwl_nc_map_ext>(argument);
      uint64_t bitmap[ND_CLAIM_WORDS];
      const int error = mark(range.nc_count, range.start_nc_index, range.end_nc_index, bitmap,
                             &range.max_nc_available);
      if (!error) std::memcpy(range.bitmap, bitmap, sizeof(bitmap));
      return error;
    }
    case NEURON_IOCTL_CRWL_NC_RANGE_UNMARK: {
      uint64_t bitmap[ND_CLAIM_WORDS] = {as<neuron_ioctl_crwl_nc_map>(argument).bitmap};
      return unmark(bitmap);
    }
    case NEURON_IOCTL_CRWL_NC_RANGE_UNMARK_EXT0: {
      uint64_t bitmap[ND_CLAIM_WORDS];
      std::memcpy(bitmap, as<neuron_ioctl_crwl_nc_map_ext>(argument).bitmap, sizeof(bitmap));
      return unmark(bitmap);
    }
    case NEURON_IOCTL_SEMAPHORE_INCREMENT:
    case NEURON_IOCTL_SEMAPHORE_DECREMENT:
    case NEURON_IOCTL_SEMAPHORE_READ:
    case NEURON_IOCTL_SEMAPHORE_WRITE:
      return semaphore(as<neuron_ioctl_semaphore>(argument), nr);
    case NEURON_IOCTL_EVENT_SET:
    case NEURON_IOCTL_EVENT_GET:
      return event(as<neuron_ioctl_event>(argument), nr);
    case NEURON_IOCTL_NOTIFICATIONS_INIT_V1: {
      auto& init = as<neuron_ioctl_notifications_init_v1>(argument);
      const nd_nq_key key = {init.nc_id, false, init.nq_type, init.engine_index};
      return notifications(key, init.size, true, 0, 0, false, &init.mmap_offset, nullptr);
    }
    case NEURON_IOCTL_NOTIFICATIONS_INIT_V2: {
      auto& init = as<neuron_ioctl_notifications_init_v2>(argument);
      if (init.nq_dev_type >= NQ_DEVICE_TYPE_MAX)
        return fail(-ENOSYS, "device %u: notification device type %u is unknown", device_.index(),
                    init.nq_dev_type);
      const nd_nq_key key = {init.nq_dev_id, init.nq_dev_type == NQ_DEVICE_TYPE_TOPSP, init.nq_type,
                             init.engine_index};
      return notifications(key, init.size, init.on_host_memory != 0, init.dram_channel,
                           init.dram_region, false, &init.mmap_offset, &init.mem_handle);
    }
    case NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2: {
      auto& init = as<neuron_ioctl_notifications_init_with_realloc_v2>(argument);
      if (init.nq_dev_type >= NQ_DEVICE_TYPE_MAX)
        return fail(-ENOSYS, "device %u: notification device type %u is unknown", device_.index(),
                    init.nq_dev_type);
      const nd_nq_key key = {init.nq_dev_id, init.nq_dev_type == NQ_DEVICE_TYPE_TOPSP, init.nq_type,
                             init.engine_index};
      return notifications(key, init.size, init.on_host_memory != 0, init.dram_channel,
                           init.dram_region, init.force_alloc_mem != 0, &init.mmap_offset,
                           &init.mem_handle);
    }
    case NEURON_IOCTL_NOTIFICATIONS_DESTROY_V1:
      return 0;  // a queue lives until its core is reset
    case NEURON_IOCTL_NOTIFICATIONS_QUEUE_INFO:
      return fail(-EPERM,
                  "device %u: positions of notification queues are found by their phase bits",
                  device_.index());
    case NEURON_IOCTL_ACQUIRE_NEURON_DS:
      return datastore_acquire(as<neuron_ioctl_neuron_ds_info>(argument));
    case NEURON_IOCTL_RELEASE_NEURON_DS:
      return datastore_release(as<neuron_ioctl_neuron_ds_info>(argument).pid);
    default:
      return kNotMine;
  }
}

int Session::reset_cores(neuron_ioctl_device_reset& request) {
  const uint32_t every_core = (1u << device_.cores()) - 1;
  const uint32_t map = request.nc_map;
  if (map != NEURON_NC_MAP_DEVICE && (map == 0 || (map & ~every_core)))
    return fail(-EINVAL,
                "device %u: core map 0x%x names no core or one that does not exist (all: 0x%x)",
                device_.index(), map, every_core);
  {
    const std::lock_guard lock(device_.mutex);
    if (device_.reset_results.count(pid_))
      return fail(-EBUSY,
                  "device %u: pid %d has a reset whose result it has not fetched; call "
                  "NC_RESET_READY first",
                  device_.index(), pid_);
    device_.reset_results[pid_] = -EINPROGRESS;
  }
  // Carried out at once; the result waits for NC_RESET_READY.
  const int result = device_.reset(map);
  const std::lock_guard lock(device_.mutex);
  device_.reset_results[pid_] = result;
  request.request_id = static_cast<__u32>(pid_);
  return 0;
}

int Session::reset_ready(neuron_ioctl_device_ready& ready) {
  const auto deadline = Clock::now() + std::chrono::seconds(120);
  for (;;) {  // bounded: by `deadline`
    {
      const std::lock_guard lock(device_.mutex);
      const auto found = device_.reset_results.find(static_cast<int32_t>(ready.request_id));
      if (found == device_.reset_results.end()) {
        ready.result = 1;
        return 0;
      }
      if (found->second != -EINPROGRESS) {
        ready.result = found->second == 0 ? 0 : 1;
        device_.reset_results.erase(found);
        return 0;
      }
    }
    if (abandoned()) return give_up("waiting for a reset");
    if (Clock::now() >= deadline) {
      ready.result = 1;
      return 0;
    }
    std::this_thread::sleep_for(kPause);
  }
}

int Session::init_state(neuron_ioctl_cinit_set& init) {
  if (int error = check_core(init.nc_id)) return error;
  const auto deadline = Clock::now() + kInitialiserLimit;
  for (;;) {  // bounded: by `deadline`
    {
      const std::lock_guard lock(device_.mutex);
      uint32_t& state = device_.core_state[init.nc_id].init;
      const int error = nd_core_init_set(&state, init.state);
      if (error == -ND_EINVAL)
        return fail(-EINVAL, "device %u core %u: initialisation state %u is unknown",
                    device_.index(), init.nc_id, init.state);
      init.new_state = state;
      // An initialiser that never finishes is taken to be dead; the caller takes its place.
      if (error == 0 || Clock::now() >= deadline) return 0;
    }
    if (abandoned()) return give_up("waiting for the initialiser of a core");
    std::this_thread::sleep_for(kPause);
  }
}

int Session::core_lock(const neuron_ioctl_crwl& request, unsigned nr) {
  if (request.nc_id >= device_.cores())
    return fail(-EINVAL, "device %u has cores 0 to %u, found %u", device_.index(),
                device_.cores() - 1, request.nc_id);
  const bool writer = nr == _IOC_NR(NEURON_IOCTL_CRWL_WRITER_ENTER);
  const auto deadline = Clock::now() + (writer ? kWriterLimit : kReaderLimit);
  for (;;) {  // bounded: by `deadline`
    int error = 0;
    std::string holder;
    {
      const std::lock_guard lock(device_.mutex);
      nd_core_lock& held = device_.core_state[request.nc_id].lock;
      const uint8_t* uuid = request.uuid.value;
      if (writer)
        error = nd_core_lock_write(&held, pid_, uuid);
      else if (nr == _IOC_NR(NEURON_IOCTL_CRWL_READER_ENTER))
        error = nd_core_lock_read(&held, pid_, uuid);
      else if (nr == _IOC_NR(NEURON_IOCTL_CRWL_READER_EXIT))
        error = nd_core_lock_read_exit(&held, pid_, uuid);
      else
        error = nd_core_lock_downgrade(&held, pid_, uuid);
      if (error == -ND_EAGAIN) {
        const nd_process* process = nd_process_find(&device_.processes, held.pid);
        holder = describe_holder(held.pid, process ? process->who : nd_holder{});
      }
    }
    if (error == 0) return 0;
    if (error != -ND_EAGAIN)
      return fail(error, "device %u core %u: its lock is %s", device_.index(), request.nc_id,
                  error == -ND_EALREADY ? "taken, and the model is already the current one"
                  : error == -ND_ENOENT ? "held for another model or process"
                                        : "not held");
    if (abandoned()) return give_up("waiting for the lock of a core");
    if (Clock::now() >= deadline)
      return fail(-EBUSY, "device %u core %u: its lock is still held by %s", device_.index(),
                  request.nc_id, holder.c_str());
    std::this_thread::sleep_for(kPause);
  }
}

int Session::mark(uint32_t count, uint32_t start, uint32_t end, uint64_t* bitmap,
                  uint32_t* available) {
  // Cores beyond the devices of this host do not exist, whatever the table could hold.
  const uint32_t base = device_.index() * device_.cores();
  const uint32_t cores = device_.profile().chips * device_.cores() - base;
  if (start >= cores)
    return fail(-EINVAL, "device %u: the host has cores 0 to %u from here, found %u",
                device_.index(), cores - 1, start);
  nd_claim_request request = {base, count, start, std::min(end, cores - 1), pid_, id_, who_};
  request.who.since = now_in_seconds();
  const std::lock_guard lock(instance_.claims_mutex);
  const int error = nd_claims_mark(&instance_.claims, &request, bitmap, available);
  if (error == -ND_EBUSY) {
    const std::string holders = describe_holders(instance_.claims, base, start, request.end);
    if (!holders.empty())
      return fail(-EBUSY,
                  "device %u: no %u free cores in a row among %u to %u, at most %u; %s: end it, or "
                  "choose others with NEURON_RT_VISIBLE_CORES",
                  device_.index(), count, start, end, *available, holders.c_str());
    return fail(-EBUSY, "device %u: no %u cores in a row among %u to %u, at most %u",
                device_.index(), count, start, end, *available);
  }
  if (error)
    return fail(error, "device %u: cannot mark %u cores from %u to %u", device_.index(), count,
                start, end);
  return 0;
}

int Session::unmark(const uint64_t* bitmap) {
  const std::lock_guard lock(instance_.claims_mutex);
  nd_claims_unmark(&instance_.claims, device_.index() * device_.cores(), bitmap, pid_);
  return 0;
}

int Session::semaphore(neuron_ioctl_semaphore& request, unsigned nr) {
  if (int error = check_core(request.nc_id)) return error;
  if (request.semaphore_index >= kSemaphores)
    return fail(-EINVAL, "device %u core %u has semaphores 0 to %u, found %u", device_.index(),
                request.nc_id, kSemaphores - 1, request.semaphore_index);
  const uint64_t cell = device_.semaphores(request.nc_id) + request.semaphore_index * 4;
  chip::Chip& chip = device_.chip();
  touched_cores_.fetch_or(1u << request.nc_id, std::memory_order_relaxed);
  if (nr == _IOC_NR(NEURON_IOCTL_SEMAPHORE_READ))
    request.value = chip.read_register(cell + NEURON_SEM_BLOCK_READ);
  else if (nr == _IOC_NR(NEURON_IOCTL_SEMAPHORE_WRITE))
    chip.write_register(cell + NEURON_SEM_BLOCK_SET, request.value);
  else if (nr == _IOC_NR(NEURON_IOCTL_SEMAPHORE_INCREMENT))
    chip.write_register(cell + NEURON_SEM_BLOCK_INC, request.value);
  else
    chip.write_register(cell + NEURON_SEM_BLOCK_DEC, request.value);
  return 0;
}

int Session::event(neuron_ioctl_event& request, unsigned nr) {
  if (int error = check_core(request.nc_id)) return error;
  if (request.event_index >= kEvents)
    return fail(-EINVAL, "device %u core %u has events 0 to %u, found %u", device_.index(),
                request.nc_id, kEvents - 1, request.event_index);
  const uint64_t cell =
      device_.semaphores(request.nc_id) + NEURON_SEM_BLOCK_EVENT + request.event_index * 4;
  if (nr == _IOC_NR(NEURON_IOCTL_EVENT_GET))
    request.value = device_.chip().read_register(cell);
  else
    device_.chip().write_register(cell, request.value);
  return 0;
}

int Session::notifications(const nd_nq_key& key, uint32_t size, bool host, uint32_t hbm,
                           uint32_t region, bool force, __u64* offset, __u64* handle) {
  if (nd_nq_check(&device_.layout(), &key, size) != 0)
    return fail(-EINVAL,
                "device %u: no notification queue of type %u, index %u and %u bytes on %s %u; the "
                "size must be a power of two",
                device_.index(), key.type, key.index, size, key.topsp ? "CC core" : "core",
                key.device);
  const std::lock_guard lock(device_.mutex);
  NotificationQueue* queue = nullptr;
  if (int error = device_.set_notification_queue(key, size, host, hbm, region, force, &queue))
    return error;
  *offset = queue->memory->host ? queue->memory->address : ~uint64_t{0};
  if (handle) *handle = queue->memory->handle;
  return 0;
}

int Session::datastore_acquire(neuron_ioctl_neuron_ds_info& info) {
  const std::lock_guard lock(device_.mutex);
  const int32_t pid = info.pid ? info.pid : pid_;
  uint32_t slot = 0;
  const int error = nd_datastore_acquire(&device_.datastores, pid, info.pid == 0, &slot);
  if (error == -ND_ENOMEM)
    return fail(-ENOMEM, "device %u: all %u datastores are in use", device_.index(), ND_DATASTORES);
  if (error) return fail(error, "device %u: pid %d has no datastore", device_.index(), pid);
  info.mmap_offset = device_.datastore_memory[slot]->address;
  info.size = ND_DATASTORE_BYTES;
  return 0;
}

int Session::datastore_release(int32_t pid) {
  // Only the owner's entry is released; a call for another process changes nothing.
  if (pid != 0 && pid != pid_) return 0;
  const std::lock_guard lock(device_.mutex);
  uint32_t slot = 0;
  if (nd_datastore_release(&device_.datastores, pid_, &slot) == 0) device_.release_datastore(slot);
  return 0;
}

}  // namespace neuron::service
