// SPDX-License-Identifier: Apache-2.0
// One open descriptor of /dev/neuronN, and memory of it, by raw calls of the kernel interface.
//
// Concepts: call() answers like the kernel: 0, a negative errno, or the positive number that some
// failed calls return. Memory frees its handle when it goes. Chip says what differs between
// generations. Callers: cases of guest programs. Threads: none of its own; calls may come from any.
// Fails: constructors throw Failure.
#ifndef TESTS_VM_GUEST_DEVICE_H
#define TESTS_VM_GUEST_DEVICE_H

#include <fcntl.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/vm/guest/check.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::guest {

struct Chip {
  uint32_t architecture;
  uint32_t cores;
  uint32_t hbm_count;
  __u64 hbm_size;
  __u64 host_base;  // the bit that marks host addresses
  uint32_t engines;
  uint32_t copy_engine;  // whose queue 0 serves copies of core 0
  uint32_t topsps;
  __u64 register_bar_size;
  __u64 core_window;      // BAR offset of core 0
  __u64 core_address;     // device address of core 0
  __u64 core_cookie;      // mmap offset of core 0
  __u64 firmware_memory;  // BAR offset
  __u64 hbm_base(uint32_t channel) const;
  __u64 copy_queue_register() const;  // BAR offset of the M2S half of its queue 0
};

class Device {
 public:
  explicit Device(unsigned index = 0, int flags = O_RDWR);
  ~Device();
  Device(Device&& from) noexcept;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // -errno instead of an open descriptor.
  static int try_open(unsigned index, int flags);
  static unsigned count();  // nodes in /dev

  int call(unsigned long number, void* argument) const;
  int fd() const { return fd_; }
  const Chip& chip() const;
  __u64 features() const;
  bool has_zero_copy_of_2_25() const { return features() & NEURON_DRIVER_FEATURE_ZEROCOPY; }

  neuron_ioctl_mem_get_extended_info info(__u64 handle) const;
  int copy_in(__u64 handle, const void* bytes, __u64 size, __u64 offset = 0) const;
  int copy_out(__u64 handle, void* bytes, __u64 size, __u64 offset = 0) const;
  int copy(__u64 from, __u64 to, __u64 size, __u64 from_offset = 0, __u64 to_offset = 0) const;
  std::vector<neuron_ioctl_mem_chunk_info> chunks(uint32_t hbm) const;
  bool has_chunk(uint32_t hbm, __u64 pa) const;

 private:
  int fd_ = -1;
};

struct Where {
  bool host = false;
  uint32_t channel = 0;
  uint32_t core = 0;
  uint32_t category = NEURON_MEMALLOC_TYPE_TENSORS_DEVICE;
  __u64 align = 0;
};

// 0 or what the call answered; `handle` is set on success.
int allocate(const Device& device, __u64 size, const Where& where, __u64& handle);

class Memory {
 public:
  Memory(const Device& device, __u64 size, const Where& where = {});
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  __u64 handle() const { return handle_; }
  __u64 pa() const { return info_.pa; }
  __u64 size() const { return info_.size; }
  __u64 mmap_offset() const { return info_.mmap_offset; }
  void forget() { handle_ = 0; }

 private:
  const Device& device_;
  __u64 handle_ = 0;
  neuron_ioctl_mem_get_extended_info info_ = {};
};

class Mapping {
 public:
  Mapping(const Device& device, __u64 offset, __u64 size, int protection);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  // 0, or -errno of an mmap that must fail.
  static int attempt(int fd, __u64 offset, __u64 size, int protection);

  uint8_t* bytes() const { return static_cast<uint8_t*>(at_); }
  volatile uint32_t& word(__u64 offset) const {
    return *reinterpret_cast<volatile uint32_t*>(bytes() + offset);
  }
  __u64 size() const { return size_; }

 private:
  void* at_ = nullptr;
  __u64 size_ = 0;
};

// Runs in a child; it ends with the returned status. How the child ended, as waitpid() says.
int in_child(const std::function<int()>& run);
// The status of a child that must have ended by itself.
int exit_status_of_child(const std::function<int()>& run);

// A child that has run `prepare`, whose result is `value`, and then stays until it is killed.
class WaitingChild {
 public:
  explicit WaitingChild(const std::function<__u64()>& prepare);
  ~WaitingChild() { stop(); }
  WaitingChild(WaitingChild&& from) noexcept;
  WaitingChild(const WaitingChild&) = delete;
  WaitingChild& operator=(const WaitingChild&) = delete;
  __u64 value() const { return value_; }
  int pid() const { return pid_; }
  void stop();  // by SIGKILL; returns when the process is gone

 private:
  int pid_ = 0;
  __u64 value_ = 0;
};

// The same bytes for the same seed.
std::vector<uint8_t> pattern(__u64 size, uint32_t seed);
// True as soon as the condition holds; false after so many milliseconds.
bool becomes_true(const std::function<bool()>& condition, int milliseconds);

constexpr int kNotSupported = 524;  // the kernel's ENOTSUPP has no name in user space

}  // namespace neuron::guest

#endif
