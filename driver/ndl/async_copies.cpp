// SPDX-License-Identifier: Apache-2.0
#include "driver/ndl/async_copies.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "driver/ndl/error.h"

namespace neuron::ndl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLongestCopy = std::chrono::seconds(120);
constexpr int kLookAgainMs = 100;
constexpr uint32_t kNone = static_cast<uint32_t>(NEURON_DMA_H2T_CTX_HANDLE_NONE);
constexpr uint32_t kSynchronous = NEURON_DMA_H2T_CTX_HANDLE_SYNC;
constexpr uint32_t kFirstHandle = NEURON_DMA_H2T_CTX_HANDLE_ASYNC1;
constexpr uint32_t kSecondHandle = NEURON_DMA_H2T_CTX_HANDLE_ASYNC2;

// The name of a copy that follows one with the name `previous`.
uint32_t next_name(uint32_t previous) {
  if (previous == kSynchronous) return kSynchronous;
  return previous == kFirstHandle ? kSecondHandle : kFirstHandle;
}

// Faults a user buffer in while the device works. It is a hint: failures change nothing.
void prefetch(uint64_t address, uint64_t size) {
#ifdef MADV_POPULATE_WRITE
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t start = address & ~(page - 1);
  madvise(reinterpret_cast<void*>(start), address + size - start, MADV_POPULATE_WRITE);
#else
  static_cast<void>(address);
  static_cast<void>(size);
#endif
}

}  // namespace

AsyncCopies::Copies::iterator AsyncCopies::find(uint64_t source, uint64_t destination,
                                                uint32_t name) {
  // A waiter may know only one side; it then passes that side twice.
  return std::find_if(copies_.begin(), copies_.end(), [&](const auto& entry) {
    const Copy& copy = entry.second;
    return copy.name == name && (copy.source == source || copy.destination == destination);
  });
}

AsyncCopies::Copies::iterator AsyncCopies::find_for_wait(uint64_t source, uint64_t destination,
                                                         uint32_t name) {
  const auto found = find(source, destination, name);
  if (found != copies_.end()) return found;
  // The driver's names belong to a core: a caller may wait for any copy of the core by its name.
  return std::find_if(copies_.begin(), copies_.end(),
                      [&](const auto& entry) { return entry.second.name == name; });
}

void AsyncCopies::reap_all() {
  uint64_t id = 0;
  int result = 0;
  while (ring_->reap(&id, &result)) {  // bounded: by the completions that the ring holds
    const auto found = copies_.find(id);
    if (found == copies_.end()) continue;
    found->second.done = true;
    found->second.result = result;
  }
}

// Waits for a copy and forgets it; others may use the object meanwhile.
int AsyncCopies::finish(uint64_t id, std::unique_lock<std::mutex>& lock) {
  const auto deadline = Clock::now() + kLongestCopy;
  for (;;) {  // bounded: by the deadline
    reap_all();
    const auto found = copies_.find(id);
    if (found == copies_.end()) return fail(-EINVAL, "another thread has waited for the copy");
    if (found->second.done) {
      const int result = found->second.result;
      copies_.erase(found);
      if (result == 0) return 0;
      return fail(result, "%s: a copy inside the device failed", device_.c_str());
    }
    if (Clock::now() >= deadline) {
      return fail(-ETIMEDOUT, "%s: a copy inside the device has not ended after %lld s",
                  device_.c_str(), static_cast<long long>(kLongestCopy.count()));
    }
    lock.unlock();
    ring_->wait(kLookAgainMs);
    lock.lock();
  }
}

int AsyncCopies::start(neuron_ioctl_mem_copy_async64& request) {
  const uint32_t previous = request.pwait_handle;
  if (previous != kNone && previous > kSecondHandle) {
    return fail(-EINVAL, "%s: there is no copy with the name %d to wait for", device_.c_str(),
                static_cast<int>(previous));
  }
  std::unique_lock lock(mutex_);
  const uint32_t name = next_name(previous);
  uint64_t earlier = 0;
  if (previous == kFirstHandle || previous == kSecondHandle) {
    const auto found = find_for_wait(request.src_mem_handle, request.dst_mem_handle, previous);
    if (found == copies_.end()) {
      return fail(-EINVAL, "%s: there is no copy with the name %u to wait for", device_.c_str(),
                  previous);
    }
    earlier = found->first;
  }
  if (name != kSynchronous) {
    const auto found = find(request.src_mem_handle, request.dst_mem_handle, name);
    if (found != copies_.end()) {
      return fail(-EINVAL, "%s: copy %u between these handles has not been waited for",
                  device_.c_str(), name);
    }
  }
  neuron_uring_copy copy = {};
  copy.source_handle = request.src_mem_handle;
  copy.destination_handle = request.dst_mem_handle;
  copy.source_offset = request.src_offset;
  copy.destination_offset = request.dst_offset;
  copy.size = request.size;
  const uint64_t id = next_id_++;
  copies_[id] = {request.src_mem_handle, request.dst_mem_handle, name, false, 0};
  if (const int result = ring_->submit(copy, id); result != 0) {
    copies_.erase(id);
    return fail(result, "%s: a copy inside the device was not taken", device_.c_str());
  }
  if (request.host_prefetch_addr != 0) {
    lock.unlock();
    prefetch(request.host_prefetch_addr, request.size);
    lock.lock();
  }
  if (name == kSynchronous) {
    if (const int result = finish(id, lock); result != 0) return result;
  } else if (earlier != 0) {
    if (const int result = finish(earlier, lock); result != 0) return result;
  }
  request.wait_handle = name;
  return 0;
}

int AsyncCopies::wait(const neuron_ioctl_mem_copy_async_wait& request) {
  if (request.pwait_handle == kSynchronous) return 0;
  std::unique_lock lock(mutex_);
  const auto found =
      find_for_wait(request.src_mem_handle, request.dst_mem_handle, request.pwait_handle);
  if (found == copies_.end()) {
    return fail(-EINVAL, "%s: there is no copy with the name %u of this memory", device_.c_str(),
                request.pwait_handle);
  }
  return finish(found->first, lock);
}

}  // namespace neuron::ndl
