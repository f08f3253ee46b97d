// SPDX-License-Identifier: Apache-2.0
// Calls about cores: reset, initialisation, locks and marks, semaphores, notifications, datastore.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstring>

#include "driver/base/backoff.h"
#include "driver/emulator/service/calls.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/holder.h"

namespace neuron::service {
namespace {

using Clock = std::chrono::steady_clock;

// How long the public driver tries: writers, readers, and the initialiser of a core.
constexpr auto kWriterLimit = std::chrono::seconds(3);
constexpr auto kReaderLimit = std::chrono::milliseconds(750);
constexpr auto kInitialiserLimit = std::chrono::seconds(5);
constexpr auto kPause = std::chrono::microseconds(50);
// How long what a process that has ended held may take to become free: a program of its own may
// have to end.
constexpr auto kFreeingLimit = std::chrono::seconds(10);
constexpr auto kFreeingPause = std::chrono::milliseconds(1);
constexpr uint32_t kSemaphores = 256;
constexpr uint32_t kEvents = 256;

int reset_cores(Session& session, neuron_ioctl_device_reset& request) {
  Device& device = session.device();
  const uint32_t every_core = (1u << device.cores()) - 1;
  const uint32_t map = request.nc_map;
  if (map != NEURON_NC_MAP_DEVICE && (map == 0 || (map & ~every_core))) {
    return fail(-EINVAL,
                "device %u: core map 0x%x names no core or one that does not exist (all: 0x%x)",
                session.device_index(), map, every_core);
  }
  {
    const std::lock_guard lock(device.mutex);
    if (device.reset_results.count(session.pid())) {
      return fail(-EBUSY,
                  "device %u: pid %d has a reset whose result it has not fetched; call "
                  "NC_RESET_READY first",
                  session.device_index(), session.pid());
    }
    device.reset_results[session.pid()] = -EINPROGRESS;
  }
  // Carried out at once; the result waits for NC_RESET_READY.
  const int result = device.reset(map);
  const std::lock_guard lock(device.mutex);
  device.reset_results[session.pid()] = result;
  request.request_id = static_cast<__u32>(session.pid());
  return 0;
}

int reset_ready(Session& session, neuron_ioctl_device_ready& ready) {
  Device& device = session.device();
  // Among processes the result of another one's reset is left to that one: to all others the
  // request is one that does not exist, which the public driver answers as a failed reset.
  if (session.client().process != 0 && ready.request_id != static_cast<uint32_t>(session.pid())) {
    ready.result = 1;
    return 0;
  }
  const auto deadline = Clock::now() + std::chrono::seconds(120);
  for (;;) {  // bounded: by `deadline`
    {
      const std::lock_guard lock(device.mutex);
      const auto found = device.reset_results.find(static_cast<int32_t>(ready.request_id));
      if (found == device.reset_results.end()) {
        ready.result = 1;
        return 0;
      }
      if (found->second != -EINPROGRESS) {
        ready.result = found->second == 0 ? 0 : 1;
        device.reset_results.erase(found);
        return 0;
      }
    }
    if (session.abandoned()) return session.give_up("waiting for a reset");
    if (Clock::now() >= deadline) {
      ready.result = 1;
      return 0;
    }
    base::sleep_for(kPause);
  }
}

int reset_device(Session& session) {
  neuron_ioctl_device_reset whole = {NEURON_NC_MAP_DEVICE, 0};
  return reset_cores(session, whole);
}

int device_ready(Session& session, __u8& answer) {
  Device& device = session.device();
  neuron_ioctl_device_ready ready = {static_cast<__u32>(session.pid()), 0};
  bool pending = false;
  {
    const std::lock_guard lock(device.mutex);
    pending = device.reset_results.count(session.pid()) != 0;
  }
  if (pending) reset_ready(session, ready);
  answer = ready.result == 0;
  return 0;
}

int device_reset_status(Session&, __u8& answer) {
  answer = 1;
  return 0;
}

int models_started(Session&, neuron_ioctl_nc_model_started_count& count) {
  count.started_count = 0;  // only Inf1 counts
  return 0;
}

int init_state(Session& session, neuron_ioctl_cinit_set& init) {
  Device& device = session.device();
  const auto deadline = Clock::now() + kInitialiserLimit;
  for (;;) {  // bounded: by `deadline`
    {
      const std::lock_guard lock(device.mutex);
      uint32_t& state = device.core_state[init.nc_id].init;
      const int error = nd_core_init_set(&state, init.state);
      if (error == -ND_EINVAL) {
        return fail(-EINVAL, "device %u core %u: initialisation state %u is unknown",
                    session.device_index(), init.nc_id, init.state);
      }
      init.new_state = state;
      // An initialiser that never finishes is taken to be dead; the caller takes its place.
      if (error == 0 || Clock::now() >= deadline) return 0;
    }
    if (session.abandoned()) return session.give_up("waiting for the initialiser of a core");
    base::sleep_for(kPause);
  }
}

constexpr auto names_a_lock = [](Session& session, const neuron_ioctl_crwl& request) {
  const Device& device = session.device();
  if (request.nc_id < device.cores()) return 0;
  return fail(-EINVAL, "device %u has cores 0 to %u, found %u", device.index(), device.cores() - 1,
              request.nc_id);
};

using LockStep = int(nd_core_lock*, int32_t pid, const uint8_t* uuid);

// Takes one step of a core's lock; waits while somebody else holds it.
template <LockStep* kStep>
int core_lock(Session& session, neuron_ioctl_crwl& request) {
  Device& device = session.device();
  constexpr bool kWriter = kStep == nd_core_lock_write;
  const auto deadline = Clock::now() + (kWriter ? kWriterLimit : kReaderLimit);
  for (;;) {  // bounded: by `deadline`
    int error = 0;
    std::string holder;
    {
      const std::lock_guard lock(device.mutex);
      nd_core_lock& held = device.core_state[request.nc_id].lock;
      error = kStep(&held, session.pid(), request.uuid.value);
      if (error == -ND_EAGAIN) {
        const nd_process* process = nd_process_find(&device.processes, held.pid);
        holder = describe_holder(held.pid, process ? process->who : nd_holder{});
      }
    }
    if (error == 0) return 0;
    if (error != -ND_EAGAIN) {
      return fail(error, "device %u core %u: its lock is %s", device.index(), request.nc_id,
                  error == -ND_EALREADY ? "taken, and the model is already the current one"
                  : error == -ND_ENOENT ? "held for another model or process"
                                        : "not held");
    }
    if (session.abandoned()) return session.give_up("waiting for the lock of a core");
    if (Clock::now() >= deadline) {
      return fail(-EBUSY, "device %u core %u: its lock is still held by %s", device.index(),
                  request.nc_id, holder.c_str());
    }
    base::sleep_for(kPause);
  }
}

int mark(Session& session, uint32_t count, uint32_t start, uint32_t end, uint64_t* bitmap,
         uint32_t* available) {
  Device& device = session.device();
  // Cores beyond the devices of this host do not exist, whatever the table could hold.
  const uint32_t base = session.device_index() * device.cores();
  const uint32_t cores = device.profile().chips * device.cores() - base;
  if (start >= cores) {
    return fail(-EINVAL, "device %u: the host has cores 0 to %u from here, found %u",
                session.device_index(), cores - 1, start);
  }
  nd_claim_request request = {base,          count,        start,        std::min(end, cores - 1),
                              session.pid(), session.id(), session.who()};
  request.who.since = now_in_seconds();
  const auto deadline = Clock::now() + kFreeingLimit;
  std::unique_lock lock(session.instance().claims_mutex);
  int error = 0;
  // Among processes: elsewhere the owner is a number of the caller's choice.
  const bool may_wait = session.client().process != 0;
  // A kernel closes the descriptors of a process before anybody can learn of its end. Here they are
  // closed a moment later, and a mark of a process that has ended is as good as gone.
  for (;;) {  // bounded: by `deadline`
    error = nd_claims_mark(&session.instance().claims, &request, bitmap, available);
    if (error != -ND_EBUSY || !may_wait || Clock::now() >= deadline) break;
    const std::vector<int32_t> holders =
        holders_of(session.instance().claims, base, start, request.end);
    lock.unlock();
    const bool will_be_free = one_has_ended(holders);
    if (will_be_free && session.abandoned()) {
      return session.give_up("waiting for cores of a process that has ended");
    }
    if (will_be_free) base::sleep_for(kFreeingPause);
    lock.lock();
    if (!will_be_free) break;
  }
  if (error == -ND_EBUSY) {
    const std::string holders =
        describe_holders(session.instance().claims, base, start, request.end);
    if (!holders.empty()) {
      return fail(-EBUSY,
                  "device %u: no %u free cores in a row among %u to %u, at most %u; %s: end it, or "
                  "choose others with NEURON_RT_VISIBLE_CORES",
                  session.device_index(), count, start, end, *available, holders.c_str());
    }
    return fail(-EBUSY, "device %u: no %u cores in a row among %u to %u, at most %u",
                session.device_index(), count, start, end, *available);
  }
  if (error) {
    return fail(error, "device %u: cannot mark %u cores from %u to %u", session.device_index(),
                count, start, end);
  }
  return 0;
}

int unmark(Session& session, const uint64_t* bitmap) {
  Device& device = session.device();
  const std::lock_guard lock(session.instance().claims_mutex);
  Instance& instance = session.instance();
  const bool marked = instance.any_core_is_marked();
  nd_claims_unmark(&instance.claims, session.device_index() * device.cores(), bitmap,
                   session.pid());
  if (marked && !instance.any_core_is_marked()) instance.pod().clear_mode();
  return 0;
}

int mark_range(Session& session, neuron_ioctl_crwl_nc_map& range) {
  uint64_t bitmap[ND_CLAIM_WORDS];
  const int error = mark(session, range.nc_count, range.start_nc_index, range.end_nc_index, bitmap,
                         &range.max_nc_available);
  if (!error) range.bitmap = bitmap[0];
  return error;
}

int mark_range_ext(Session& session, neuron_ioctl_crwl_nc_map_ext& range) {
  uint64_t bitmap[ND_CLAIM_WORDS];
  const int error = mark(session, range.nc_count, range.start_nc_index, range.end_nc_index, bitmap,
                         &range.max_nc_available);
  if (!error) std::memcpy(range.bitmap, bitmap, sizeof(bitmap));
  return error;
}

int unmark_range(Session& session, neuron_ioctl_crwl_nc_map& range) {
  uint64_t bitmap[ND_CLAIM_WORDS] = {range.bitmap};
  return unmark(session, bitmap);
}

int unmark_range_ext(Session& session, neuron_ioctl_crwl_nc_map_ext& range) {
  uint64_t bitmap[ND_CLAIM_WORDS];
  std::memcpy(bitmap, range.bitmap, sizeof(bitmap));
  return unmark(session, bitmap);
}

constexpr auto names_a_semaphore = [](Session& session, const neuron_ioctl_semaphore& request) {
  if (int error = session.check_core(request.nc_id)) return error;
  if (request.semaphore_index < kSemaphores) return 0;
  return fail(-EINVAL, "device %u core %u has semaphores 0 to %u, found %u", session.device_index(),
              request.nc_id, kSemaphores - 1, request.semaphore_index);
};

// Reads or writes a register of a semaphore's cell.
template <uint32_t kRegister>
int semaphore(Session& session, neuron_ioctl_semaphore& request) {
  Device& device = session.device();
  const uint64_t cell = device.semaphores(request.nc_id) + request.semaphore_index * 4 + kRegister;
  session.touch(request.nc_id);
  if constexpr (kRegister == NEURON_SEM_BLOCK_READ) {
    request.value = device.chip().read_register(cell);
  } else {
    device.chip().write_register(cell, request.value);
  }
  return 0;
}

constexpr auto names_an_event = [](Session& session, const neuron_ioctl_event& request) {
  if (int error = session.check_core(request.nc_id)) return error;
  if (request.event_index < kEvents) return 0;
  return fail(-EINVAL, "device %u core %u has events 0 to %u, found %u", session.device_index(),
              request.nc_id, kEvents - 1, request.event_index);
};

uint64_t event_register(Device& device, const neuron_ioctl_event& request) {
  return device.semaphores(request.nc_id) + NEURON_SEM_BLOCK_EVENT + request.event_index * 4;
}

int event_get(Session& session, neuron_ioctl_event& request) {
  Device& device = session.device();
  request.value = device.chip().read_register(event_register(device, request));
  return 0;
}

int event_set(Session& session, neuron_ioctl_event& request) {
  Device& device = session.device();
  device.chip().write_register(event_register(device, request), request.value);
  return 0;
}

int notifications(Session& session, const nd_nq_key& key, uint32_t size, bool host, uint32_t hbm,
                  uint32_t region, bool force, __u64* offset, __u64* handle) {
  Device& device = session.device();
  if (nd_nq_check(&device.layout(), &key, size) != 0) {
    return fail(-EINVAL,
                "device %u: no notification queue of type %u, index %u and %u bytes on %s %u; the "
                "size must be a power of two",
                session.device_index(), key.type, key.index, size, key.topsp ? "CC core" : "core",
                key.device);
  }
  const std::lock_guard lock(device.mutex);
  NotificationQueue* queue = nullptr;
  if (int error = device.set_notification_queue(key, session.client(), size, host, hbm, region,
                                                force, &queue)) {
    return error;
  }
  *offset = queue->memory->host ? queue->memory->address : ~uint64_t{0};
  if (handle) *handle = queue->memory->handle;
  return 0;
}

int notifications_v1(Session& session, neuron_ioctl_notifications_init_v1& init) {
  const nd_nq_key key = {init.nc_id, false, init.nq_type, init.engine_index};
  return notifications(session, key, init.size, true, 0, 0, false, &init.mmap_offset, nullptr);
}

constexpr auto names_a_queue_owner = [](Session& session, const auto& init) {
  if (init.nq_dev_type < NQ_DEVICE_TYPE_MAX) return 0;
  return fail(-ENOSYS, "device %u: notification device type %u is unknown", session.device_index(),
              init.nq_dev_type);
};

// Of both forms of version 2.
template <typename Request>
int notifications_v2(Session& session, Request& init) {
  const nd_nq_key key = {init.nq_dev_id, init.nq_dev_type == NQ_DEVICE_TYPE_TOPSP, init.nq_type,
                         init.engine_index};
  bool force = false;
  if constexpr (requires { init.force_alloc_mem; }) force = init.force_alloc_mem != 0;
  return notifications(session, key, init.size, init.on_host_memory != 0, init.dram_channel,
                       init.dram_region, force, &init.mmap_offset, &init.mem_handle);
}

// A queue lives until its core is reset.
int notifications_destroy(Session&, neuron_ioctl_notifications_destroy&) { return 0; }

int notifications_info(Session& session, neuron_ioctl_notifications_queue_info&) {
  return fail(-EPERM, "device %u: positions of notification queues are found by their phase bits",
              session.device_index());
}

int datastore_acquire(Session& session, neuron_ioctl_neuron_ds_info& info) {
  Device& device = session.device();
  const std::lock_guard lock(device.mutex);
  const int32_t pid = info.pid ? info.pid : session.pid();
  uint32_t slot = 0;
  const int error = nd_datastore_acquire(&device.datastores, pid, info.pid == 0, &slot);
  if (error == -ND_ENOMEM) {
    return fail(-ENOMEM, "device %u: all %u datastores are in use", session.device_index(),
                ND_DATASTORES);
  }
  if (error) return fail(error, "device %u: pid %d has no datastore", session.device_index(), pid);
  Chunk& memory = *device.datastore_memory[slot];
  // A new one; that of another process stays as that one has it.
  if (info.pid == 0 && memory.client.process != session.client().process) {
    device.memory().lend(memory, session.client());
  }
  info.mmap_offset = memory.address;
  info.size = ND_DATASTORE_BYTES;
  return 0;
}

int datastore_release(Session& session, neuron_ioctl_neuron_ds_info& info) {
  const int32_t pid = info.pid;
  Device& device = session.device();
  // Only the owner's entry is released; a call for another process changes nothing.
  if (pid != 0 && pid != session.pid()) return 0;
  const std::lock_guard lock(device.mutex);
  uint32_t slot = 0;
  if (nd_datastore_release(&device.datastores, session.pid(), &slot) == 0) {
    device.release_datastore(slot);
  }
  return 0;
}

constexpr Call kCoreRows[] = {
    call<reset_device>(NEURON_IOCTL_DEVICE_RESET),
    call<device_ready>(NEURON_IOCTL_DEVICE_READY),
    call<device_reset_status>(NEURON_IOCTL_DEVICE_RESET_STATUS),
    call<reset_cores>(NEURON_IOCTL_NC_RESET),
    call<reset_ready>(NEURON_IOCTL_NC_RESET_READY),
    call<init_state, names_a_core>(NEURON_IOCTL_CINIT_SET_STATE),
    call<models_started, names_a_core>(NEURON_IOCTL_NC_MODEL_STARTED_COUNT),
    call<core_lock<nd_core_lock_read>, names_a_lock>(NEURON_IOCTL_CRWL_READER_ENTER),
    call<core_lock<nd_core_lock_read_exit>, names_a_lock>(NEURON_IOCTL_CRWL_READER_EXIT),
    call<core_lock<nd_core_lock_write>, names_a_lock>(NEURON_IOCTL_CRWL_WRITER_ENTER),
    call<core_lock<nd_core_lock_downgrade>, names_a_lock>(NEURON_IOCTL_CRWL_WRITER_DOWNGRADE),
    call<mark_range>(NEURON_IOCTL_CRWL_NC_RANGE_MARK),
    call<mark_range_ext>(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0),
    call<unmark_range>(NEURON_IOCTL_CRWL_NC_RANGE_UNMARK),
    call<unmark_range_ext>(NEURON_IOCTL_CRWL_NC_RANGE_UNMARK_EXT0),
    call<semaphore<NEURON_SEM_BLOCK_INC>, names_a_semaphore>(NEURON_IOCTL_SEMAPHORE_INCREMENT),
    call<semaphore<NEURON_SEM_BLOCK_DEC>, names_a_semaphore>(NEURON_IOCTL_SEMAPHORE_DECREMENT),
    call<semaphore<NEURON_SEM_BLOCK_READ>, names_a_semaphore>(NEURON_IOCTL_SEMAPHORE_READ),
    call<semaphore<NEURON_SEM_BLOCK_SET>, names_a_semaphore>(NEURON_IOCTL_SEMAPHORE_WRITE),
    call<event_set, names_an_event>(NEURON_IOCTL_EVENT_SET),
    call<event_get, names_an_event>(NEURON_IOCTL_EVENT_GET),
    call<notifications_v1>(NEURON_IOCTL_NOTIFICATIONS_INIT_V1),
    call<notifications_v2<neuron_ioctl_notifications_init_v2>, names_a_queue_owner>(
        NEURON_IOCTL_NOTIFICATIONS_INIT_V2),
    call<notifications_v2<neuron_ioctl_notifications_init_with_realloc_v2>, names_a_queue_owner>(
        NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2),
    call<notifications_destroy>(NEURON_IOCTL_NOTIFICATIONS_DESTROY_V1),
    call<notifications_info>(NEURON_IOCTL_NOTIFICATIONS_QUEUE_INFO),
    call<datastore_acquire>(NEURON_IOCTL_ACQUIRE_NEURON_DS),
    call<datastore_release>(NEURON_IOCTL_RELEASE_NEURON_DS),
};

}  // namespace

constinit const std::span<const Call> kCoreCalls = kCoreRows;

}  // namespace neuron::service
