// SPDX-License-Identifier: Apache-2.0
// The exported face of libneuron-emulator.so.1: include/ndl/emulator.h over the service. Nothing
// thrown inside leaves it.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "driver/base/guarded.h"
#include "driver/emulator/chip/chip.h"
#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/observer.h"
#include "driver/emulator/service/session.h"
#include "ndl/emulator.h"

using neuron::service::fail;
using neuron::service::Instance;
using neuron::service::Session;

namespace {

Instance* instance_of(neuron_emulator_instance_t* handle) {
  return reinterpret_cast<Instance*>(handle);
}

Session* session_of(neuron_emulator_device_t* handle) { return reinterpret_cast<Session*>(handle); }

int null_handle() { return fail(-EINVAL, "the emulated device handle is null"); }

template <typename Call>
int guarded(Call&& call) {
  return neuron::base::guarded(std::forward<Call>(call), [](const char*, bool memory_ran_out) {
    return memory_ran_out ? fail(-ENOMEM, "the process is out of memory")
                          : fail(-EIO, "internal error of the emulated device");
  });
}

int create(const char* profile, neuron_emulator_instance_t** instance) {
  if (!profile || !instance) return fail(-EINVAL, "an emulated device needs the name of a profile");
  *instance = nullptr;
  return guarded([&] {
    uint64_t limit = 0;
    if (!neuron::service::memory_limit_of_environment(limit)) return -EINVAL;
    int error = 0;
    auto created = Instance::create(profile, {.all = limit}, neuron::core::create_chip, error);
    if (!created) return error;
    *instance = reinterpret_cast<neuron_emulator_instance_t*>(created.release());
    return 0;
  });
}

void destroy(neuron_emulator_instance_t* instance) { delete instance_of(instance); }

unsigned device_count(neuron_emulator_instance_t* instance) {
  return instance ? instance_of(instance)->device_count() : 0;
}

int open_device(neuron_emulator_instance_t* instance, unsigned index, int flags,
                neuron_emulator_device_t** device) {
  if (!instance || !device) return null_handle();
  *device = nullptr;
  return guarded([&] {
    Session* session = nullptr;
    const int error = instance_of(instance)->open(index, flags, ::getpid(), &session);
    *device = reinterpret_cast<neuron_emulator_device_t*>(session);
    return error;
  });
}

int close_device(neuron_emulator_device_t* device) {
  if (!device) return null_handle();
  return guarded([&] { return session_of(device)->instance().close(session_of(device)); });
}

int ioctl_device(neuron_emulator_device_t* device, unsigned long request, void* argument) {
  if (!device) return null_handle();
  return guarded([&] { return session_of(device)->ioctl(request, argument); });
}

int map(neuron_emulator_device_t* device, size_t length, int protection, uint64_t offset,
        void** address) {
  if (!device || !address) return null_handle();
  return guarded([&] { return session_of(device)->map(length, protection, offset, address); });
}

int unmap(neuron_emulator_device_t* device, void* address, size_t length) {
  if (!device) return null_handle();
  return session_of(device)->unmap(address, length);
}

int read_register(neuron_emulator_device_t* device, uint64_t offset, uint32_t* value) {
  if (!device || !value) return null_handle();
  return guarded([&] { return session_of(device)->read_register(offset, value); });
}

int write_register(neuron_emulator_device_t* device, uint64_t offset, uint32_t value,
                   uint32_t flags) {
  if (!device) return null_handle();
  return guarded([&] {
    return session_of(device)->write_register(offset, value,
                                              (flags & NEURON_EMULATOR_WRITE_INLINE) != 0);
  });
}

int wait(neuron_emulator_device_t* device, unsigned core, const uint32_t* word, uint32_t old,
         uint64_t deadline_ns) {
  if (!device) return null_handle();
  return guarded([&] { return session_of(device)->wait(core, word, old, deadline_ns); });
}

size_t describe(neuron_emulator_device_t* device, unsigned core, char* buffer, size_t size) {
  if (!device) return 0;
  size_t length = 0;
  guarded([&] {
    const std::string text = session_of(device)->describe(core);
    length = text.size();
    if (buffer && size) {
      const size_t part = std::min(length, size - 1);
      std::memcpy(buffer, text.data(), part);
      buffer[part] = 0;
    }
    return 0;
  });
  return length;
}

int observe(neuron_emulator_instance_t* instance, const neuron_emulator_question* question,
            void* answer, size_t capacity, size_t* bytes, uint64_t* next) {
  if (!instance || !question || !answer || !bytes || !next) return null_handle();
  return guarded([&] {
    std::string text;
    const int error =
        neuron::service::observe(*instance_of(instance), *question, capacity, text, *next);
    if (error) return error;
    std::memcpy(answer, text.data(), text.size());
    *bytes = text.size();
    return 0;
  });
}

constexpr struct neuron_emulator_interface kInterface = {
    NEURON_EMULATOR_INTERFACE_VERSION,
    sizeof(struct neuron_emulator_interface),
    create,
    destroy,
    device_count,
    open_device,
    close_device,
    ioctl_device,
    map,
    unmap,
    read_register,
    write_register,
    wait,
    describe,
    neuron::service::last_error,
    observe,
};

}  // namespace

// Null if this library does not speak that version.
extern "C" __attribute__((visibility("default"))) const struct neuron_emulator_interface*
neuron_emulator_interface(uint32_t version) {
  return version == NEURON_EMULATOR_INTERFACE_VERSION ? &kInterface : nullptr;
}
