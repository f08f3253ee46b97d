// SPDX-License-Identifier: Apache-2.0
#include "driver/ndl/port.h"

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <string>

#include "driver/ndl/device_table.h"
#include "driver/ndl/error.h"
#include "driver/ndl/port_backends.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::ndl {
namespace {

constexpr char kShared[] = "unix:";

std::mutex mutex;
// Never destroyed at exit: threads of an embedded device may still run then, and the kernel takes
// everything back anyway.
std::shared_ptr<Port>& current() {
  static auto* port = new std::shared_ptr<Port>;
  return *port;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::unique_ptr<Port> choose() {
  const std::string emulator = environment("NEURON_EMULATOR");
  if (emulator.empty()) return kernel_port("/dev");
  if (emulator.rfind(kShared, 0) == 0) {
    return shared_port(emulator.substr(sizeof(kShared) - 1), environment("NEURON_EMULATOR_COPY"));
  }
  return embedded_port(emulator, environment("NEURON_EMULATOR_LIBRARY"));
}

}  // namespace

int DevicePort::post_registers(std::span<const RegisterWrite> writes) {
  if (writes.empty() || writes.size() > kMostPosted) {
    return fail(-EINVAL, "%zu registers are to be posted at once; 1 to %zu are possible",
                writes.size(), kMostPosted);
  }
  __u64 addresses[kMostPosted];
  __u32 values[kMostPosted];
  for (size_t i = 0; i < writes.size(); ++i) {
    addresses[i] = writes[i].address;
    values[i] = writes[i].value;
  }
  neuron_ioctl_bar_rw access = {};
  access.address = addresses;
  access.data = values;
  access.count = static_cast<__u32>(writes.size());
  return ioctl(NEURON_IOCTL_BAR_WRITE, &access);
}

int Port::observe(const neuron_emulator_question&, uint32_t, std::string&, uint64_t&) {
  return fail(-ENOTSUP, "devices of this kind (%s) cannot be observed from outside",
              name().c_str());
}

std::shared_ptr<Port> port(std::string& error) {
  const std::lock_guard lock(mutex);
  if (current() == nullptr) {
    clear_error();
    current() = choose();
    if (current() == nullptr) error = last_error();
  }
  return current();
}

void set_port(std::unique_ptr<Port> port) {
  const std::lock_guard lock(mutex);
  current() = std::move(port);
}

void release_port() {
  // The table's lock is taken first, then this one, as when a device is opened.
  DeviceTable::instance().if_unused([] {
    const std::lock_guard lock(mutex);
    current().reset();
  });
}

void abandon_port() {
  const std::lock_guard lock(mutex);
  // Leaked on purpose: its destructor would tear down objects of the parent.
  static_cast<void>(new std::shared_ptr<Port>(std::move(current())));
  current().reset();
}

void lock_port_for_fork() { mutex.lock(); }
void unlock_port_after_fork() { mutex.unlock(); }

}  // namespace neuron::ndl
