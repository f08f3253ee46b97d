// SPDX-License-Identifier: Apache-2.0
// One open descriptor of a device: system calls in, results out.
//
// Concepts: a full session (O_RDWR, O_RDONLY) attaches its process and may make every call; a
// restricted one (O_WRONLY) takes no slot and may make the calls that need no device. Everything
// obtained through a session is freed when it is closed. An ioctl is one row of the table in
// calls.h; its function gets the session and uses the second half of this interface. Callers: any
// thread, several at once. Borrows instance and device. Fails: negative errno and a sentence;
// success is exactly 0.
#ifndef DRIVER_EMULATOR_SERVICE_SESSION_H
#define DRIVER_EMULATOR_SERVICE_SESSION_H

#include <atomic>

#include "driver/core/ioctl_table.h"
#include "driver/emulator/service/instance.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::service {

// Where memory that a process may map lies.
struct Place {
  Pin memory;           // keeps the file
  uint64_t offset = 0;  // in the file
  uint64_t bytes = 0;   // of what was asked for, those that are in this file
};

class Session {
 public:
  Session(Instance& instance, Device& device, uint64_t id, const Client& client, bool restricted,
          const nd_holder& who);

  int ioctl(unsigned long request, void* argument);
  int map(size_t length, int protection, uint64_t offset, void** address);
  int unmap(void* address, size_t length);
  // The same as map, for a process that maps files itself: that of an allocation of its own, and to
  // read only the datastore of another process. -EMFILE where an allocation has no file.
  int locate(size_t length, int protection, uint64_t offset, Place* place);
  // Where a range of a memory handle lies.
  int resolve(uint64_t handle, uint64_t offset, uint64_t size, Place* place);
  int read_register(uint64_t offset, uint32_t* value);
  int write_register(uint64_t offset, uint32_t value, bool run_inline);
  // As NEURON_IOCTL_BAR_WRITE: all of them or none.
  int write_registers(unsigned long long* addresses, uint32_t* values, uint32_t count);
  int wait(unsigned core, const uint32_t* word, uint32_t old, uint64_t deadline_ns);
  std::string describe(unsigned core);
  // The process of this session is gone: calls in progress give up soon, and release() also stops
  // the programs that the process has left running. Those on cores that it has marked rest from now
  // on. Does not wait. Any thread.
  void abandon();
  // Resets the cores whose programs the process has left behind. Takes its time.
  void stop();
  // Gives everything back; called once, by Instance::close.
  void release();

  Instance& instance() { return instance_; }
  uint64_t id() const { return id_; }
  bool restricted() const { return restricted_; }
  unsigned device_index() const { return device_.index(); }
  int32_t pid() const { return client_.pid; }
  const Client& client() const { return client_; }
  const nd_holder& who() const { return who_; }
  Device& device() { return device_; }

  // For the functions of the calls.

  // A long call goes in pieces of this size and looks between them whether the process still lives.
  static constexpr uint64_t kStride = 64u << 20;
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }
  // -ECANCELED, with a sentence that names the call.
  int give_up(const char* call) const;
  int check_core(uint32_t core) const;
  int check_range(const Chunk& chunk, uint64_t offset, uint64_t size) const;
  int check_buffer(const void* buffer, uint64_t size) const;
  // Memory of this process; that of others is refused.
  Pin pin(uint64_t handle, int& error);
  bool may_use(const Chunk& chunk) const { return serves(chunk, client_); }
  CopyRing& ring_of(const Chunk& chunk) { return device_.ring(chunk.core); }
  // The process has written to semaphores of the core: it may have left a program running there.
  void touch(uint32_t core) { touched_cores_.fetch_or(1u << core, std::memory_order_relaxed); }

 private:
  bool is_datastore(const Chunk& chunk);
  int fail_without_file(const Chunk& chunk) const;
  // -ENODEV once the chip that was opened has lost its power.
  int check_present() const;
  // The cores of a device that nobody but this process has marked: that it has marked, or that it
  // has used, or that it has left halted, without a mark of anybody.
  struct Cores {
    uint32_t marked = 0;
    uint32_t used = 0;
  };
  Cores cores_of(Device& device);
  template <typename Action>
  void for_each_device(Action action);

  Instance& instance_;
  Device& device_;
  const uint64_t id_;
  const Client client_;
  const bool restricted_;
  const nd_holder who_;    // the process at the time of opening
  const uint32_t losses_;  // how often the chip had been lost then
  // Both relaxed: they order nothing.
  std::atomic<bool> abandoned_{false};
  std::atomic<uint32_t> touched_cores_{0};
};

}  // namespace neuron::service

#endif
