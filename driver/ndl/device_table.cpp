// SPDX-License-Identifier: Apache-2.0
#include "driver/ndl/device_table.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>

#include "driver/ndl/datastore.h"
#include "driver/ndl/error.h"
#include "driver/ndl/handle_table.h"

namespace neuron::ndl {
namespace {

// Relaxed: the only writer is the single thread of a child after fork().
std::atomic<unsigned> generation{0};

void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

}  // namespace

DeviceTable& DeviceTable::instance() {
  // Never destroyed: other static objects of the process may close devices at exit.
  static auto* table = new DeviceTable;
  return *table;
}

DeviceTable::DeviceTable() {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int DeviceTable::open_port(std::shared_ptr<Port>& port) const {
  std::string error;
  port = ndl::port(error);
  return port != nullptr ? 0 : fail(-ENODEV, "%s", error.c_str());
}

int DeviceTable::open(int index, const ndl_device_init_param_t* params, ndl_device_t** device) {
  void (*incompatible)(const char*) = nullptr;
  const int result = open_locked(index, params, device, incompatible);
  // Called without the lock: the callback may call this library.
  if (incompatible != nullptr) {
    incompatible(
        "the driver has no batched zero-copy transfers: each buffer takes a call of its own; a "
        "driver of version 2.25 or later has them");
  }
  return result;
}

int DeviceTable::open_locked(int index, const ndl_device_init_param_t* params,
                             ndl_device_t** device, void (*&incompatible)(const char*)) {
  const std::lock_guard lock(mutex_);
  if (inherited_) abandon_locked();
  for (const DevicePointer& entry : open_) {
    if (entry->index() == index) {
      if (const int result = entry->take_parameters(params); result != 0) return result;
      ++entry->references_;
      *device = entry->device();
      return 0;
    }
  }
  std::shared_ptr<Port> port;
  if (const int result = open_port(port); result != 0) return result;
  std::unique_ptr<DevicePort> opened;
  if (const int result = port->open(index, O_RDWR, opened); result != 0) {
    return explain(result, "opening device %d (%s)", index, port->name().c_str());
  }
  auto entry = std::make_shared<OpenDevice>(index, std::move(opened));
  if (const int result = entry->initialize(params); result != 0) return result;
  if (!entry->has(NEURON_DRIVER_FEATURE_ZEROCOPY)) incompatible = incompatible_;
  open_.push_back(entry);
  *device = entry->device();
  return 0;
}

int DeviceTable::close(const ndl_device_t* device) {
  DevicePointer last;
  {
    const std::lock_guard lock(mutex_);
    const auto entry =
        std::find_if(open_.begin(), open_.end(),
                     [&](const DevicePointer& candidate) { return candidate->device() == device; });
    if (inherited_ || entry == open_.end()) return missing("closing a device");
    if (--(*entry)->references_ > 0) return 0;
    last = std::move(*entry);
    open_.erase(entry);
    close_control_if_unneeded();
  }
  // A mapping outlives its descriptor, so mappings go first. The port itself goes with the last
  // call in flight.
  forget_handles_of(last.get());
  return 0;
}

int DeviceTable::missing(const char* what) const {
  return inherited_
             ? fail(-ENODEV, "%s: it was opened before fork(); the child opens its own", what)
             : fail(-ENODEV, "%s: it is not an open device", what);
}

DevicePointer DeviceTable::find(const ndl_device_t* device) const {
  const std::lock_guard lock(mutex_);
  if (!inherited_) {
    for (const DevicePointer& entry : open_) {
      if (entry->device() == device) return entry;
    }
  }
  missing("using a device");
  return nullptr;
}

DevicePointer DeviceTable::find(int index) const {
  const std::lock_guard lock(mutex_);
  if (!inherited_) {
    for (const DevicePointer& entry : open_) {
      if (entry->index() == index) return entry;
    }
  }
  missing(("using device " + std::to_string(index)).c_str());
  return nullptr;
}

DevicePointer DeviceTable::find_descriptor(int descriptor) const {
  const std::lock_guard lock(mutex_);
  for (const DevicePointer& entry : open_) {
    const auto* context = reinterpret_cast<const ndl_device_context_t*>(entry->device()->context);
    if (!inherited_ && context->nd_fd == descriptor) return entry;
  }
  return nullptr;
}

std::vector<DevicePointer> DeviceTable::all() const {
  const std::lock_guard lock(mutex_);
  return inherited_ ? std::vector<DevicePointer>() : open_;
}

int DeviceTable::with_control(const std::function<int(DevicePort&)>& use) {
  const std::lock_guard lock(mutex_);
  if (inherited_) abandon_locked();
  if (control_ == nullptr) {
    std::shared_ptr<Port> port;
    if (const int result = open_port(port); result != 0) return result;
    int first = 0;
    const int count = port->devices(&first, 1);
    if (count < 0) return explain(count, "looking for devices (%s)", port->name().c_str());
    if (count == 0) return fail(-ENODEV, "there is no device (%s)", port->name().c_str());
    if (const int result = port->open(first, O_WRONLY, control_); result != 0) {
      return explain(result, "opening device %d for questions (%s)", first, port->name().c_str());
    }
  }
  clear_error();
  const int result = use(*control_);
  close_control_if_unneeded();
  return result;
}

int DeviceTable::ask(unsigned long request, void* argument, const char* what) {
  return with_control([&](DevicePort& control) {
    const int result = control.ioctl(request, argument);
    return result == 0 ? 0 : explain(result > 0 ? -EIO : result, "%s", what);
  });
}

void DeviceTable::set_claims(const uint64_t* bitmap, size_t words, bool claimed) {
  for (size_t i = 0; i < std::min(words, kClaimWords); ++i) {
    claims_[i] = claimed ? claims_[i] | bitmap[i] : claims_[i] & ~bitmap[i];
  }
}

bool DeviceTable::needed() const {
  return !open_.empty() ||
         std::any_of(claims_, claims_ + kClaimWords, [](uint64_t word) { return word != 0; });
}

void DeviceTable::close_control_if_unneeded() {
  if (!needed()) control_.reset();
}

void DeviceTable::if_unused(const std::function<void()>& then) {
  const std::lock_guard lock(mutex_);
  if (!inherited_ && !needed()) then();
}

void DeviceTable::set_incompatibility_callback(void (*callback)(const char*)) {
  const std::lock_guard lock(mutex_);
  incompatible_ = callback;
}

void DeviceTable::abandon() {
  const std::lock_guard lock(mutex_);
  abandon_locked();
}

void DeviceTable::abandon_locked() {
  // Leaked on purpose: a destructor would talk to a device that belongs to the parent.
  for (const DevicePointer& entry : open_) entry->port().abandon();
  if (control_ != nullptr) control_->abandon();
  static_cast<void>(new std::vector<DevicePointer>(std::move(open_)));
  open_.clear();
  static_cast<void>(control_.release());
  std::fill(claims_, claims_ + kClaimWords, 0);
  abandon_handles();
  abandon_port();
  inherited_ = false;
}

unsigned fork_generation() { return generation.load(std::memory_order_relaxed); }

DevicePort* device_port(const ndl_device* device) {
  const DevicePointer open = DeviceTable::instance().find(device);
  return open == nullptr ? nullptr : &open->port();
}

// Gives the three functions below access to the table's lock and flag.
struct ForkHandlers {
  static void before() {
    DeviceTable::instance().mutex_.lock();
    lock_port_for_fork();
    lock_handles_for_fork();
    lock_datastores_for_fork();
  }
  static void after(bool child) {
    unlock_datastores_after_fork(child);
    unlock_handles_after_fork(child);
    unlock_port_after_fork();
    DeviceTable& table = DeviceTable::instance();
    if (child) {
      generation.fetch_add(1, std::memory_order_relaxed);
      table.inherited_ = !table.open_.empty() || table.control_ != nullptr;
      // The port belongs to the parent, too: an embedded emulator's threads do not exist here.
      if (!table.inherited_) abandon_port();
    }
    table.mutex_.unlock();
  }
};

namespace {

void before_fork() { ForkHandlers::before(); }
void after_fork_in_parent() { ForkHandlers::after(false); }
void after_fork_in_child() { ForkHandlers::after(true); }

}  // namespace

}  // namespace neuron::ndl
