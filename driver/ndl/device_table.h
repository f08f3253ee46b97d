// SPDX-License-Identifier: Apache-2.0
// The devices that this process has open, and its claim on cores.
//
// Callers: ndl_* functions. Thread-safe: every function. Owns: the port of each open device and the
// control device, an O_WRONLY opening through which the library claims cores and asks about the
// host. It is closed when nothing needs it, because closing it drops the claims. An OpenDevice is
// shared: a call that uses it keeps it alive while another thread closes the device.
#ifndef DRIVER_NDL_DEVICE_TABLE_H
#define DRIVER_NDL_DEVICE_TABLE_H

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "driver/ndl/port.h"
#include "ndl/ndl_types.h"

namespace neuron::ndl {

class OpenDevice {
 public:
  OpenDevice(int index, std::unique_ptr<DevicePort> port);
  ~OpenDevice();
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;

  // Asks the driver what device this is and fills the public struct.
  int initialize(const ndl_device_init_param_t* params);
  // What a further opening wants beyond the earlier ones: whoever opened the device first need not
  // have asked for its HBM.
  int take_parameters(const ndl_device_init_param_t* params);

  // An ioctl whose failure is explained as "device N: <what>: <reason>".
  int call(unsigned long request, void* argument, const char* what) const;
  // A mapping that lives until unmap() or the end of the device.
  int map(size_t length, int protection, uint64_t offset, void** address) const;
  int unmap(void* address, size_t length) const;

  // Maps a named part of the chip once; later calls give the same address.
  int map_resource(uint32_t block, uint32_t id, uint32_t resource, void** address, uint64_t* size);

  int index() const { return index_; }
  // True in a child of the process that opened it; the child must not use any of it.
  bool is_inherited() const;
  DevicePort& port() const { return *port_; }
  ndl_device_t* device() const { return device_.get(); }
  bool has(uint64_t feature) const { return (features_ & feature) != 0; }
  std::mutex& copy_buffer_mutex() { return copy_buffer_mutex_; }
  // The driver refused zero-copy once; the library does not try it again.
  std::atomic<bool>& zero_copy_refused() { return zero_copy_refused_; }

 private:
  friend class DeviceTable;
  struct Resource {
    uint32_t block, id, kind;
    void* address;
    uint64_t size;
  };
  struct FreeDevice {
    void operator()(ndl_device_t* device) const;
  };

  int map_all_hbm();

  std::unique_ptr<DevicePort> port_;
  const int index_;
  const unsigned fork_generation_;
  int references_ = 1;  // ndl_open_device calls; DeviceTable's mutex
  uint64_t features_ = 0;
  std::unique_ptr<ndl_device_t, FreeDevice> device_;
  std::mutex copy_buffer_mutex_;  // making a staging buffer
  std::atomic<bool> zero_copy_refused_{false};
  std::mutex resource_mutex_;  // guards resources_
  std::vector<Resource> resources_;
};

using DevicePointer = std::shared_ptr<OpenDevice>;

class DeviceTable {
 public:
  static DeviceTable& instance();

  // A new reference to a device; opens it if this process has not.
  int open(int index, const ndl_device_init_param_t* params, ndl_device_t** device);
  int close(const ndl_device_t* device);

  // Null for anything that is not open, with the sentence in error.h.
  DevicePointer find(const ndl_device_t* device) const;
  DevicePointer find(int index) const;
  // By nd_fd of its context.
  DevicePointer find_descriptor(int descriptor) const;
  std::vector<DevicePointer> all() const;

  // Calls `use` with the control device. Keeps it open afterwards only while cores are claimed or
  // devices open.
  int with_control(const std::function<int(DevicePort&)>& use);
  // An ioctl that needs no particular device, on the control device; `what` names its purpose.
  int ask(unsigned long request, void* argument, const char* what);
  // Cores claimed (+) or given back (-), so that the control device stays open as long as needed.
  void set_claims(const uint64_t* bitmap, size_t words, bool claimed);

  // Calls `then`, under the table's lock, unless a device is open or a core is claimed.
  void if_unused(const std::function<void()>& then);
  void set_incompatibility_callback(void (*callback)(const char*));
  // For the child after fork(): forgets everything and calls no device.
  void abandon();

 private:
  // `incompatible`: the function that the caller must call after it has released the lock.
  int open_locked(int index, const ndl_device_init_param_t* params, ndl_device_t** device,
                  void (*&incompatible)(const char*));
  static constexpr size_t kClaimWords = 8;

  friend struct ForkHandlers;

  DeviceTable();
  bool needed() const;
  int missing(const char* what) const;
  int open_port(std::shared_ptr<Port>& port) const;
  void close_control_if_unneeded();
  void abandon_locked();

  mutable std::mutex mutex_;  // all below, and references_ of the entries
  std::vector<DevicePointer> open_;
  std::unique_ptr<DevicePort> control_;
  uint64_t claims_[kClaimWords] = {};
  void (*incompatible_)(const char*) = nullptr;
  bool inherited_ = false;  // this is a child, and the entries are its parent's
};

// Number of forks between this process and the one that loaded the library: what was made under
// another number is no longer usable.
unsigned fork_generation();

// The features that this library needs from a driver: the 64-bit forms of its calls.
inline constexpr uint64_t kNeededFeatures = NEURON_DRIVER_FEATURE_MEM_ALLOC64;

}  // namespace neuron::ndl

#endif
