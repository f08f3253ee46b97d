// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/session.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstring>

#include "driver/base/abandonment.h"
#include "driver/core/descriptor.h"
#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/chip/hbm.h"
#include "driver/emulator/service/error.h"
#include "hw/control.h"

namespace neuron::service {

Session::Session(Instance& instance, Device& device, uint64_t id, const Client& client,
                 bool restricted, const nd_holder& who)
    : instance_(instance),
      device_(device),
      id_(id),
      client_(client),
      restricted_(restricted),
      who_(who),
      losses_(device.chip().faults().losses()) {}

int Session::check_present() const {
  if (device_.chip().faults().losses() == losses_) [[likely]] {
    return 0;
  }
  if (int error = device_.check_present()) return error;
  return fail(
      -ENODEV,
      "device %u: the chip was gone since it was opened and has lost what it held; close it "
      "and initialise again",
      device_.index());
}

int Session::check_core(uint32_t core) const {
  if (core >= device_.cores()) {
    return fail(-E2BIG, "device %u has cores 0 to %u, found %u", device_.index(),
                device_.cores() - 1, core);
  }
  return 0;
}

Pin Session::pin(uint64_t handle, int& error) {
  Pin found = device_.memory().pin(handle);
  if (found && !may_use(*found)) found = Pin();
  error = found
              ? 0
              : fail(-EINVAL,
                     "device %u: memory handle %" PRIu64 " is not live; it was freed or is foreign",
                     device_.index(), handle);
  return found;
}

int Session::check_range(const Chunk& chunk, uint64_t offset, uint64_t size) const {
  const uint64_t limit = device_.memory().reach(chunk) - chunk.address;
  if (offset > limit || size > limit - offset) {
    return fail(-EINVAL,
                "device %u: offset %" PRIu64 " and size %" PRIu64
                " leave memory handle %u of %" PRIu64 " bytes",
                device_.index(), offset, size, chunk.handle, limit);
  }
  return 0;
}

int Session::check_buffer(const void* buffer, uint64_t size) const {
  const uint64_t address = reinterpret_cast<uint64_t>(buffer);
  constexpr uint64_t kUserSpaceEnd = uint64_t{1} << 47;
  if (!buffer || size > kUserSpaceEnd || address > kUserSpaceEnd - size) {
    return fail(-EFAULT, "device %u: %" PRIu64 " bytes at %p are no buffer of this process",
                device_.index(), size, buffer);
  }
  return 0;
}

int Session::map(size_t length, int protection, uint64_t offset, void** address) {
  if (!instance_.is_usable()) return instance_.refuse_after_fork();
  (void)protection;  // memory is shared with the device as it is; narrower rights are not enforced
  *address = nullptr;
  if (int error = check_present()) return error;
  if (restricted_) {
    return fail(-EACCES, "device %u: a descriptor opened O_WRONLY cannot be mapped",
                device_.index());
  }
  if (length == 0) return fail(-EINVAL, "device %u: cannot map 0 bytes", device_.index());
  if (const Pin chunk = device_.memory().pin_address(offset)) {
    if (chunk->scratchpad) {
      if (int error = check_range(*chunk, offset - chunk->address, length)) return error;
      *address = chunk->data + (offset - chunk->address);
      return 0;
    }
    if (nd_align_up(length, ND_PAGE_SIZE) != chunk->size) {
      return fail(-EINVAL,
                  "device %u: memory at 0x%" PRIx64 " is mapped whole, %" PRIu64
                  " bytes, found %zu",
                  device_.index(), offset, chunk->size, length);
    }
    *address = chunk->data;
    return 0;
  }
  const nd_chip& chip = device_.layout();
  // A whole stack, as RESOURCE_MMAP_INFO names it.
  const uint32_t hbm = nd_chip_hbm_of(&chip, offset);
  if (chip.maps_hbm && hbm < chip.hbms && offset == nd_chip_hbm_base(&chip, hbm) &&
      length == device_.chip().config().hbm_bytes_each) {
    *address = device_.chip().hbm().direct(offset, length);
    if (*address) return 0;
  }
  for (uint32_t core = 0; core < device_.cores(); ++core) {
    if (offset != nd_chip_core_cookie(&chip, core) || length != NEURON_CORE_SBUF_SIZE) continue;
    // The state buffer is memory: it maps where the chip can give it in one piece.
    *address = device_.chip().bus().direct(nd_chip_core_address(&chip, core), length);
    if (*address) return 0;
    return fail(-ENOTSUP,
                "device %u core %u: the state buffer of an emulated chip is read through copies, "
                "not by mapping",
                device_.index(), core);
  }
  if (device_.is_register_cookie(offset)) {
    return fail(-ENOTSUP,
                "device %u: registers of an emulated chip cannot be mapped (offset 0x%" PRIx64
                "); use read_register and write_register",
                device_.index(), offset);
  }
  return fail(-EPERM, "device %u: no memory of this device at mapping offset 0x%" PRIx64,
              device_.index(), offset);
}

int Session::unmap(void* address, size_t length) {
  if (!instance_.is_usable()) return instance_.refuse_after_fork();
  // Mappings are views of memory that exists anyway; there is nothing to take down.
  if (!address || length == 0) {
    return fail(-EINVAL, "device %u: %zu bytes at %p were never mapped", device_.index(), length,
                address);
  }
  return 0;
}

int Session::locate(size_t length, int protection, uint64_t offset, Place* place) {
  if (!instance_.is_usable()) return instance_.refuse_after_fork();
  if (int error = check_present()) return error;
  if (restricted_) {
    return fail(-EACCES, "device %u: a descriptor opened O_WRONLY cannot be mapped",
                device_.index());
  }
  Pin chunk = device_.memory().pin_address(offset);
  if (!chunk || (!may_use(*chunk) && !is_datastore(*chunk))) {
    // What is no allocation is refused in the words of map().
    void* address = nullptr;
    const int error = chunk ? 0 : map(length, protection, offset, &address);
    if (error) return error;
    return fail(chunk ? -EPERM : -ENOTSUP,
                chunk ? "device %u: the memory at mapping offset 0x%" PRIx64 " is another process's"
                      : "device %u: mapping offset 0x%" PRIx64
                        " cannot be shared with a process, which maps allocations of its own",
                device_.index(), offset);
  }
  if (!may_use(*chunk) && (protection & PROT_WRITE) != 0) {
    return fail(-EACCES, "device %u: the datastore of pid %d can be mapped for reading only",
                device_.index(), chunk->client.pid);
  }
  const uint64_t inside = offset - chunk->address;
  if (chunk->scratchpad) {
    if (int error = check_range(*chunk, inside, length)) return error;
  } else if (nd_align_up(length, ND_PAGE_SIZE) != chunk->size || inside != 0) {
    return fail(-EINVAL,
                "device %u: memory at 0x%" PRIx64 " is mapped whole, %" PRIu64 " bytes, found %zu",
                device_.index(), offset, chunk->size, length);
  }
  if (!chunk->file) return fail_without_file(*chunk);
  place->bytes = std::min<uint64_t>(length, chunk->size - inside);
  place->offset = inside;
  place->memory = std::move(chunk);
  return 0;
}

bool Session::is_datastore(const Chunk& chunk) {
  const std::lock_guard lock(device_.mutex);
  return std::find(device_.datastore_memory.begin(), device_.datastore_memory.end(), &chunk) !=
         device_.datastore_memory.end();
}

int Session::fail_without_file(const Chunk& chunk) const {
  return fail(-EMFILE,
              "device %u: the memory at 0x%" PRIx64
              " cannot be mapped: no memory file is left for pid %d or its user; free allocations, "
              "or raise the daemon's limit of open files",
              device_.index(), chunk.address, chunk.client.pid);
}

int Session::resolve(uint64_t handle, uint64_t offset, uint64_t size, Place* place) {
  if (!instance_.is_usable()) return instance_.refuse_after_fork();
  if (restricted_) {
    return fail(-EACCES, "device %u: a descriptor opened O_WRONLY reaches no memory",
                device_.index());
  }
  int error = 0;
  Pin chunk = pin(handle, error);
  if (error) return error;
  if ((error = check_range(*chunk, offset, size))) return error;
  if (!chunk->file) return fail_without_file(*chunk);
  place->bytes = offset < chunk->size ? std::min(size, chunk->size - offset) : 0;
  place->offset = offset;
  place->memory = std::move(chunk);
  return 0;
}

int Session::give_up(const char* call) const {
  return fail(-ECANCELED, "device %u: pid %d is gone, %s was given up", device_.index(), pid(),
              call);
}

int Session::read_register(uint64_t offset, uint32_t* value) {
  if (!instance_.is_usable()) return instance_.refuse_after_fork();
  if (restricted_ || !device_.is_mappable_register(offset)) {
    return fail(-EACCES, "device %u: register 0x%" PRIx64 " is not one of a semaphore page",
                device_.index(), offset);
  }
  *value = device_.chip().read_register(offset);
  return check_present();
}

int Session::write_register(uint64_t offset, uint32_t value, bool run_inline) {
  if (!instance_.is_usable()) return instance_.refuse_after_fork();
  if (restricted_ || !device_.is_mappable_register(offset)) {
    return fail(-EACCES, "device %u: register 0x%" PRIx64 " is not one of a semaphore page",
                device_.index(), offset);
  }
  const uint64_t core = device_.core_of_register(offset);
  if (core < device_.cores()) touch(static_cast<uint32_t>(core));
  const base::Abandonment client(abandoned_);
  device_.chip().write_register(offset, value, run_inline);
  return check_present();
}

int Session::write_registers(unsigned long long* addresses, uint32_t* values, uint32_t count) {
  neuron_ioctl_bar_rw access = {};
  access.address = addresses;
  access.data = values;
  access.count = count;
  return ioctl(NEURON_IOCTL_BAR_WRITE, &access);
}

int Session::wait(unsigned core, const uint32_t* word, uint32_t old, uint64_t deadline_ns) {
  if (!instance_.is_usable()) return instance_.refuse_after_fork();
  if (restricted_ || core >= device_.cores() || !word) {
    return fail(-EINVAL, "device %u: cannot wait for core %u at %p", device_.index(), core,
                static_cast<const void*>(word));
  }
  // Pairs with the release store of the device: of the sequence of a completion record, or of the
  // last word of a notification.
  const auto changed = [&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) != old; };
  if (changed()) return 0;
  const auto deadline = std::chrono::steady_clock::time_point(
      std::chrono::nanoseconds(std::min<uint64_t>(deadline_ns, INT64_MAX)));
  const chip::RunResult result = device_.chip().run_group(core, deadline);
  if (changed()) return 0;
  if (int error = check_present()) return error;
  if (result == chip::RunResult::kQuiescent) {
    return fail(-EDEADLK,
                "device %u core %u: nothing can advance any more and the awaited word is still %u",
                device_.index(), core, old);
  }
  const uint64_t status =
      nd_chip_core_window(&device_.layout(), core) + NEURON_CORE_CONTROL + NEURON_CORE_STATUS;
  const bool awaits = result == chip::RunResult::kDeadline &&
                      (device_.chip().read_register(status) & NEURON_CORE_STATUS_AWAITS) != 0;
  return fail(-ETIMEDOUT, "device %u core %u: %s when the deadline passed", device_.index(), core,
              result == chip::RunResult::kBusy ? "another thread still ran the core"
              : awaits                         ? "it waited for another core or device"
                                               : "the program still ran");
}

std::string Session::describe(unsigned core) {
  if (!instance_.is_usable() || core >= device_.cores()) return {};
  return device_.chip().describe_core(core);
}

// All devices for a restricted descriptor: it holds the marks, and gives them up.
template <typename Action>
void Session::for_each_device(Action action) {
  if (!restricted_) return action(device_);
  for (unsigned i = 0; i < instance_.device_count(); ++i) {
    if (Device* device = instance_.device_if_probed(i)) action(*device);
  }
}

Session::Cores Session::cores_of(Device& device) {
  Cores cores;
  uint32_t used = device.chip().halted();
  if (!restricted_) used |= touched_cores_.load(std::memory_order_relaxed);
  const std::lock_guard lock(instance_.claims_mutex);
  // Marks are those of logical cores, and what is stopped is the physical one behind each.
  for (uint32_t core = 0; core < device.cores(); ++core) {
    const int32_t owner =
        nd_claims_owner(&instance_.claims, device.index() * device.cores() + core);
    const uint32_t physical = instance_.physical_core(device.index(), core);
    if (owner == pid()) cores.marked |= 1u << physical;
    if (owner == 0) cores.used |= used & 1u << physical;
  }
  return cores;
}

void Session::abandon() {
  abandoned_.store(true, std::memory_order_relaxed);
  // A core without a mark may be somebody else's at any moment: it is stopped by its reset.
  for_each_device([&](Device& device) { device.chip().halt(cores_of(device).marked); });
}

void Session::stop() {
  for_each_device([&](Device& device) {
    const Cores cores = cores_of(device);
    // Memory is freed even if a core cannot be reset.
    if (cores.marked | cores.used) (void)device.reset(cores.marked | cores.used);
  });
}

void Session::release() {
  if (abandoned()) stop();
  if (!restricted_) {
    device_.release_queues(id_);
    uint32_t slot = 0;
    {
      const std::lock_guard lock(device_.mutex);
      if (nd_process_detach(&device_.processes, pid())) {
        for (CoreState& core : device_.core_state) nd_core_lock_drop(&core.lock, pid());
        if (nd_datastore_release(&device_.datastores, pid(), &slot) == 0) {
          device_.release_datastore(slot);
        }
        device_.reset_results.erase(pid());
        device_.scrubbed.erase(pid());
      }
    }
    device_.memory().release_session(id_);
  }
  const std::lock_guard lock(instance_.claims_mutex);
  // As in the public driver, closing a restricted descriptor gives up all marks of the process.
  const bool marked = instance_.any_core_is_marked();
  nd_claims_release(&instance_.claims, pid(), restricted_ ? 0 : id_);
  const bool still = instance_.any_core_is_marked();
  if (marked && !still) instance_.pod().clear_mode();
  instance_.pod().forget(id_, still);
}

}  // namespace neuron::service
