// SPDX-License-Identifier: Apache-2.0
// Datastore instances and counters.
#include "driver/ndl/datastore.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <shared_mutex>

#include "driver/ndl/forget_lock.h"
#include "driver/ndl/guard.h"

using neuron::ndl::DevicePointer;
using neuron::ndl::DeviceTable;
using neuron::ndl::fail;
using neuron::ndl::guarded;

namespace neuron::ndl {
namespace {

constexpr int kLayoutVersion = 1;

struct Instances {
  std::shared_mutex mutex;
  std::vector<std::unique_ptr<nds_instance>> all;
};

Instances& instances() {
  // Never destroyed: counters may be written by static objects at exit.
  static auto* list = new Instances;
  return *list;
}

HeldInstance check(nds_instance* instance, bool to_write, const char* function) {
  if (instance == nullptr) {
    return {nullptr, nullptr, fail(-EINVAL, "%s: it is no open datastore", function)};
  }
  HeldInstance held{instance, instance->open.lock(), 0};
  if (held.open == nullptr || instance->fork_generation != fork_generation()) {
    return {nullptr, nullptr,
            fail(-ENODEV, "%s: the device of this datastore was closed, or opened before fork()",
                 function)};
  }
  if (to_write && instance->pid != 0) {
    return {nullptr, nullptr,
            fail(-EPERM, "%s: the datastore belongs to process %d", function, instance->pid)};
  }
  return held;
}

// The word of a counter, or null if there is no such counter.
uint64_t* core_counter(const nds_instance& instance, int core, uint32_t index) {
  if (core < 0 || index >= NDS_TOTAL_NC_COUNTER_COUNT) return nullptr;
  uint8_t* base = instance.base;
  if (core < NDS_MAX_NEURONCORE_COUNT) {
    return index < NDS_NC_COUNTER_COUNT
               ? NDS_NEURONCORE_COUNTERS(base, core) + index
               : NDS_EXT_NEURONCORE_COUNTERS(base, core) + (index - NDS_NC_COUNTER_COUNT);
  }
  const int further = core - NDS_MAX_NEURONCORE_COUNT;
  return further < NDS_EXT_MAX_NEURONCORE_COUNT ? NDS_EXT_NEURONCORE_NC_DATA(base, further) + index
                                                : nullptr;
}

uint64_t* device_counter(const nds_instance& instance, uint32_t index) {
  return index < NDS_ND_COUNTER_COUNT ? NDS_ND_COUNTERS(instance.base) + index : nullptr;
}

// Relaxed throughout: counters order no other memory; they only must not be torn.
void add(uint64_t* word, uint64_t value) { __atomic_fetch_add(word, value, __ATOMIC_RELAXED); }

void subtract(uint64_t* word, uint64_t value) {
  uint64_t before = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &before, before < value ? 0 : before - value, true,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

template <class Use>
int with_core_counter(nds_instance_t* inst, int core, uint32_t index, bool to_write,
                      const char* function, Use&& use) {
  const HeldInstance held = find_instance(inst, to_write, function);
  if (held.instance == nullptr) return held.error;
  uint64_t* word = core_counter(*held.instance, core, index);
  if (word == nullptr) {
    return fail(-EINVAL, "%s: core %d has no counter %u", function, core, index);
  }
  use(word);
  return 0;
}

template <class Use>
int with_device_counter(nds_instance_t* inst, uint32_t index, bool to_write, const char* function,
                        Use&& use) {
  const HeldInstance held = find_instance(inst, to_write, function);
  if (held.instance == nullptr) return held.error;
  uint64_t* word = device_counter(*held.instance, index);
  if (word == nullptr) return fail(-EINVAL, "%s: a device has no counter %u", function, index);
  use(word);
  return 0;
}

}  // namespace

HeldInstance find_instance(const nds_instance* instance, bool to_write, const char* function) {
  const std::shared_lock lock(instances().mutex);
  for (const auto& candidate : instances().all) {
    if (candidate.get() == instance) return check(candidate.get(), to_write, function);
  }
  return check(nullptr, to_write, function);
}

HeldInstance find_object(nds_obj_handle_t handle, bool to_write, const char* function) {
  const std::shared_lock lock(instances().mutex);
  for (const auto& candidate : instances().all) {
    for (const auto& object : candidate->objects) {
      if (object.get() == handle) return check(candidate.get(), to_write, function);
    }
  }
  return {nullptr, nullptr, fail(-EINVAL, "%s: it is no object of a datastore", function)};
}

nds_object* keep_object(nds_instance* instance, std::unique_ptr<nds_object> object) {
  const std::unique_lock lock(instances().mutex);
  instance->objects.push_back(std::move(object));
  return instance->objects.back().get();
}

void drop_object(nds_instance* instance, const nds_object* object) {
  const std::unique_lock lock(instances().mutex);
  std::erase_if(instance->objects, [&](const auto& entry) { return entry.get() == object; });
}

void lock_datastores_for_fork() { instances().mutex.lock(); }

void unlock_datastores_after_fork(bool child) {
  if (child) {
    forget_lock(instances().mutex);
  } else {
    instances().mutex.unlock();
  }
}

}  // namespace neuron::ndl

using neuron::ndl::add;
using neuron::ndl::instances;
using neuron::ndl::subtract;
using neuron::ndl::with_core_counter;
using neuron::ndl::with_device_counter;

int nds_open(ndl_device_t* device, pid_t pid, nds_instance_t** inst) {
  return guarded("nds_open", [&] {
    if (inst == nullptr) return fail(-EINVAL, "nds_open: inst is null");
    const DevicePointer open = DeviceTable::instance().find(device);
    if (open == nullptr) return -ENODEV;
    auto instance = std::make_unique<nds_instance>();
    void* data = nullptr;
    size_t size = 0;
    if (const int result = ndl_nds_open(device, pid, &data, &size); result != 0) return result;
    constexpr size_t kEnd = NDS_EXT_NEURONCORE_NC_DATA_START + NDS_EXT_NEURONCORE_NC_DATA_SIZE;
    if (size < kEnd) {
      ndl_nds_close(device, pid, data, size);
      return fail(-EPROTO, "device %d: the driver's datastore has %zu bytes, and the layout %zu",
                  open->index(), size, kEnd);
    }
    instance->device = device;
    instance->open = open;
    instance->pid = pid;
    instance->base = static_cast<uint8_t*>(data);
    instance->size = size;
    instance->fork_generation = neuron::ndl::fork_generation();
    if (pid == 0) {
      const nds_header_t header = {{'n', 'd', 's', 0}, neuron::ndl::kLayoutVersion};
      std::memcpy(instance->base, &header, sizeof(header));
    }
    nds_instance* const opened = instance.get();
    try {
      const std::unique_lock lock(instances().mutex);
      instances().all.push_back(std::move(instance));
    } catch (...) {
      // Called without the lock: around fork() this lock is taken after the device table's, never
      // before.
      ndl_nds_close(device, pid, data, size);
      throw;
    }
    *inst = opened;
    return 0;
  });
}

int nds_close(nds_instance_t* inst) {
  return guarded("nds_close", [&] {
    std::unique_ptr<nds_instance> closed;
    {
      const std::unique_lock lock(instances().mutex);
      const auto found = std::find_if(instances().all.begin(), instances().all.end(),
                                      [&](const auto& entry) { return entry.get() == inst; });
      if (found == instances().all.end()) {
        return fail(-EINVAL, "nds_close: it is no open datastore");
      }
      closed = std::move(*found);
      instances().all.erase(found);
    }
    // The mapping went when its device was closed.
    const DevicePointer open = closed->open.lock();
    if (open == nullptr || closed->fork_generation != neuron::ndl::fork_generation()) return 0;
    return ndl_nds_close(closed->device, closed->pid, closed->base, closed->size);
  });
}

int nds_increment_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index,
                             uint64_t increment) {
  return with_core_counter(inst, pnc_index, counter_index, true, "nds_increment_nc_counter",
                           [&](uint64_t* word) { add(word, increment); });
}

int nds_decrement_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index,
                             uint64_t decrement) {
  return with_core_counter(inst, pnc_index, counter_index, true, "nds_decrement_nc_counter",
                           [&](uint64_t* word) { subtract(word, decrement); });
}

int nds_get_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index,
                       uint64_t* value) {
  if (value == nullptr) return fail(-EINVAL, "nds_get_nc_counter: value is null");
  return with_core_counter(
      inst, pnc_index, counter_index, false, "nds_get_nc_counter",
      [&](const uint64_t* word) { *value = __atomic_load_n(word, __ATOMIC_RELAXED); });
}

int nds_set_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index,
                       uint64_t* value) {
  if (value == nullptr) return fail(-EINVAL, "nds_set_nc_counter: value is null");
  return with_core_counter(
      inst, pnc_index, counter_index, true, "nds_set_nc_counter",
      [&](uint64_t* word) { __atomic_store_n(word, *value, __ATOMIC_RELAXED); });
}

int nds_increment_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t increment) {
  return with_device_counter(inst, counter_index, true, "nds_increment_nd_counter",
                             [&](uint64_t* word) { add(word, increment); });
}

int nds_decrement_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t decrement) {
  return with_device_counter(inst, counter_index, true, "nds_decrement_nd_counter",
                             [&](uint64_t* word) { subtract(word, decrement); });
}

int nds_or_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t bit_index) {
  if (bit_index > 63) {
    return fail(-EINVAL, "nds_or_nd_counter: a counter has no bit %llu",
                static_cast<unsigned long long>(bit_index));
  }
  return with_device_counter(inst, counter_index, true, "nds_or_nd_counter", [&](uint64_t* word) {
    __atomic_fetch_or(word, 1ull << bit_index, __ATOMIC_RELAXED);
  });
}

int nds_get_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t* value) {
  if (value == nullptr) return fail(-EINVAL, "nds_get_nd_counter: value is null");
  return with_device_counter(
      inst, counter_index, false, "nds_get_nd_counter",
      [&](const uint64_t* word) { *value = __atomic_load_n(word, __ATOMIC_RELAXED); });
}

int nds_set_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t* value) {
  if (value == nullptr) return fail(-EINVAL, "nds_set_nd_counter: value is null");
  return with_device_counter(inst, counter_index, true, "nds_set_nd_counter", [&](uint64_t* word) {
    __atomic_store_n(word, *value, __ATOMIC_RELAXED);
  });
}
