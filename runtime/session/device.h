// SPDX-License-Identifier: Apache-2.0
//
// One open Neuron device and the places on it that the runtime uses.
// Callers: session (opens), everything that allocates or programs. Thread-safe: const after open().
// Owns: a reference to the driver library's device; closing it frees all that was obtained through
// it. Borrows: the port, which lives as long as the reference.
// Fails: NRT_FAILURE with the driver's sentence; a chip of another generation is refused.
#ifndef RUNTIME_SESSION_DEVICE_H_
#define RUNTIME_SESSION_DEVICE_H_

#include <cstdint>
#include <memory>

#include "driver/ndl/port.h"
#include "hw/address_map.h"
#include "ndl/ndl.h"
#include "runtime/base/error.h"

namespace neuron::runtime {

// Cores of one device, by architecture number; 0 for one that is not known.
std::uint32_t cores_per_device(std::uint32_t architecture);

class Device {
 public:
  static Result<std::unique_ptr<Device>> open(int index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int index() const { return index_; }
  ndl_device_t* ndl() const { return ndl_; }
  ndl::DevicePort& port() const { return *port_; }
  std::uint32_t generation() const { return ndl_->device_type; }

  // BAR 0 offset of a core's window, and the same place as the device addresses it.
  static std::uint64_t window_bar0(std::uint32_t core) { return NEURON_V2_CORE_WINDOW(core); }
  static std::uint64_t window(std::uint32_t core) {
    return NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(core);
  }

  Result<std::uint32_t> read_register(std::uint64_t bar0_offset) const;
  Result<void> write_register(std::uint64_t bar0_offset, std::uint32_t value) const;

 private:
  Device(int index, ndl_device_t* ndl, ndl::DevicePort* port)
      : index_(index), ndl_(ndl), port_(port) {}

  int index_;
  ndl_device_t* ndl_;
  ndl::DevicePort* port_;
};

}  // namespace neuron::runtime

#endif  // RUNTIME_SESSION_DEVICE_H_
