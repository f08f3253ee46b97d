// SPDX-License-Identifier: Apache-2.0
// How the driver library reaches a device: one abstract port, three back ends (kernel, embedded,
// shared).
//
// Callers: ndl_* functions and, for registers and waiting, the runtime's executor. Thread-safe:
// every function. Owns: what its back end needs (file descriptors, the dlopen()ed emulator). Fails:
// negative errno, with a sentence in driver/ndl/error.h for this thread. Nothing waits without a
// deadline.
#ifndef DRIVER_NDL_PORT_H
#define DRIVER_NDL_PORT_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct ndl_device;
struct neuron_emulator_question;

namespace neuron::ndl {

// One open device. Everything that a process holds of it hangs on this object and is freed when the
// object is destroyed.
class DevicePort {
 public:
  virtual ~DevicePort() = default;
  // ioctl(2). Only 0 is success; a positive result of the driver becomes -EIO.
  virtual int ioctl(unsigned long request, void* argument) = 0;
  virtual int map(size_t length, int protection, uint64_t offset, void** address) = 0;
  virtual int unmap(void* address, size_t length) = 0;
  // Registers of semaphore and event pages by BAR0 offset: a mapped load or store on the kernel
  // port, a direct call embedded. `run_inline`: the caller will call wait() at once.
  virtual int read_register(uint64_t bar0_offset, uint32_t* value) = 0;
  virtual int write_register(uint64_t bar0_offset, uint32_t value, bool run_inline) = 0;
  // Writes 1 to kMostPosted registers in this order, as NEURON_IOCTL_BAR_WRITE does. A back end
  // that is able to returns before that has happened. Calls of this function by one thread keep
  // their order; calls of others may overtake them. Any thread. Returns 0 or a negative errno, with
  // a sentence: -EINVAL for another number of registers, else as the ioctl does. A failure may be
  // that of earlier writes, of which none but the failed ones were left out; then these were not
  // written.
  struct RegisterWrite {
    uint64_t address;  // as NEURON_IOCTL_DEVICE_INFO tells those of a BAR
    uint32_t value;
  };
  static constexpr size_t kMostPosted = 3;
  virtual int post_registers(std::span<const RegisterWrite> writes);
  // Whether all that was posted and has happened by now succeeded. Does not wait.
  virtual int check_posted() { return 0; }
  // Waits until *word != old: 0; -ETIMEDOUT; -EDEADLK when nothing on the core can advance any
  // more. deadline_ns: absolute CLOCK_MONOTONIC.
  virtual int wait(unsigned core, const uint32_t* word, uint32_t old, uint64_t deadline_ns) = 0;
  // State of the core's engines in words, for reports; empty where the back end cannot tell.
  virtual std::string describe(unsigned core) = 0;
  // Descriptor of the device node, -1 where there is none.
  virtual int descriptor() const { return -1; }
  // For the child after fork(), which then leaks the object: gives up descriptors, nothing else.
  virtual void abandon() {}
};

class Port {
 public:
  virtual ~Port() = default;
  // Device numbers present, ascending; count or -errno.
  virtual int devices(int* indexes, int capacity) = 0;
  // flags: O_RDWR or O_WRONLY (restricted, takes no process slot).
  virtual int open(int index, int flags, std::unique_ptr<DevicePort>& device) = 0;
  // Answers a question of ndl_observe.h in at most timeout_ms. `next`: 0, or the offset at which to
  // continue a longer answer.
  virtual int observe(const neuron_emulator_question& question, uint32_t timeout_ms,
                      std::string& answer, uint64_t& next);
  // "embedded trn1.2xlarge", "kernel", ...: for messages.
  virtual std::string name() const = 0;
  // Version of the driver behind the port, as text; empty if it is unknown.
  virtual std::string driver_version() const { return ""; }
  // "trn1.32xlarge", or a file that describes one; empty where the host's firmware knows it.
  virtual std::string instance_type() const { return ""; }
};

// The port of this process, chosen by NEURON_EMULATOR at first use (unset: /dev/neuron*). Null on
// failure with the sentence in `error`. Shared, so that a call in flight keeps its port while
// another thread releases it. A test may install its own with set_port.
std::shared_ptr<Port> port(std::string& error);
void set_port(std::unique_ptr<Port> port);
// The port behind a device of ndl_open_device, valid until its last ndl_close_device; null for any
// other pointer. The runtime uses it for registers and waits.
DevicePort* device_port(const ndl_device* device);
// Forgets the port when no device is open, so that the environment is read again.
void release_port();
// For the child after fork(): forgets the port without calling it.
void abandon_port();
// Called around fork(), so that the child finds the port's lock free.
void lock_port_for_fork();
void unlock_port_after_fork();

}  // namespace neuron::ndl

#endif
