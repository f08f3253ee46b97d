// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies inside a device over io_uring, behind the interface that the driver's ioctls
// have: a copy gets the name 1 or 2, and a later call waits for that name.
//
// Callers: port_kernel, any thread. Owns: the ring. A name belongs to the two handles, so that
// copies of other memory do not wait for it (through ioctls all copies of a core share two names).
// Fails: -EINVAL for a name that is in use or unknown, else the driver's own error; -ETIMEDOUT
// after kLongestCopy, which passes only if the driver broke its own deadlines.
#ifndef DRIVER_NDL_ASYNC_COPIES_H
#define DRIVER_NDL_ASYNC_COPIES_H

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "uapi/neuron_ioctl.h"
#include "uapi/neuron_uring.h"

namespace neuron::ndl {

// A queue pair: it takes copies and returns their completions. submit() and reap() are called by
// one thread at a time, wait() by any number.
class CompletionRing {
 public:
  virtual ~CompletionRing() = default;
  // 0, or -errno if the copy was not taken.
  virtual int submit(const neuron_uring_copy& copy, uint64_t id) = 0;
  // One completion, if there is any.
  virtual bool reap(uint64_t* id, int* result) = 0;
  // Returns when there may be completions, at the latest after timeout_ms.
  virtual void wait(int timeout_ms) = 0;
  // For the child after fork().
  virtual void abandon() = 0;
};

// A ring on a device's descriptor, or null where the driver or the system has none.
std::unique_ptr<CompletionRing> make_completion_ring(int descriptor);

class AsyncCopies {
 public:
  AsyncCopies(std::unique_ptr<CompletionRing> ring, std::string device)
      : ring_(std::move(ring)), device_(std::move(device)) {}

  // Arguments and answers of NEURON_IOCTL_MEM_COPY_ASYNC64 and NEURON_IOCTL_MEM_COPY_ASYNC_WAIT.
  int start(neuron_ioctl_mem_copy_async64& request);
  int wait(const neuron_ioctl_mem_copy_async_wait& request);
  void abandon() { ring_->abandon(); }

 private:
  struct Copy {
    uint64_t source, destination;
    uint32_t name;  // 0: its starter waits for it
    bool done;
    int result;
  };
  using Copies = std::map<uint64_t, Copy>;  // by id

  Copies::iterator find(uint64_t source, uint64_t destination, uint32_t name);
  Copies::iterator find_for_wait(uint64_t source, uint64_t destination, uint32_t name);
  void reap_all();
  int finish(uint64_t id, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;  // all below, but ring_->wait()
  std::unique_ptr<CompletionRing> ring_;
  const std::string device_;
  Copies copies_;
  uint64_t next_id_ = 1;
};

}  // namespace neuron::ndl

#endif
