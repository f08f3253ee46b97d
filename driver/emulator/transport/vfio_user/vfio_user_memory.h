// SPDX-License-Identifier: Apache-2.0
// A guest's memory as one function sees it: the maps that its client has announced.
//
// Concepts: one reserved address window holds guest address A at window + A, so maps that adjoin in
// the guest adjoin here and a transfer may cross them. A removed map leaves zeroed private memory
// behind: a transfer that looked its address up before touches that, never another mapping. A map
// without a file is known but cannot be reached. Memory that the guest may not be written through
// (ROM) is mapped privately, so device writes are lost there. Thread-safe: yes; translate() from
// any chip thread, the rest from the connection's. Owns the window. Fails: map and unmap give an
// errno and a sentence; translate null.
#ifndef DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_MEMORY_H
#define DRIVER_EMULATOR_TRANSPORT_VFIO_USER_VFIO_USER_MEMORY_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <string>

#include "driver/base/thread_sanitizer.h"
#include "driver/emulator/chip/host_memory.h"

namespace neuron::transport {

class GuestMemory final : public chip::HostMemory {
 public:
  // What lies above is known but not reached: emulated processors have 40 address bits unless told
  // otherwise, and what they put above then are the windows of devices.
  // A thread sanitizer leaves a process no room for several of that size.
  static constexpr uint64_t kWindow = uint64_t{1} << (NEURON_THREAD_SANITIZER ? 36 : 40);
  // Maps with a file take mappings of this process, of which a host grants some 65,000.
  static constexpr size_t kMaxFileMaps = 1024;

  GuestMemory();
  ~GuestMemory() override;
  GuestMemory(const GuestMemory&) = delete;
  GuestMemory& operator=(const GuestMemory&) = delete;

  bool valid() const { return window_ != nullptr; }

  std::byte* translate(uint64_t address, size_t length) override;

  // `file` -1: a range that cannot be reached. The file is not kept. 0 with a sentence in `why`:
  // the range is known but not reached.
  int map(uint64_t address, uint64_t size, int file, uint64_t offset, bool writable,
          std::string& why);
  // Every map inside the range; a range that would cut one is refused.
  int unmap(uint64_t address, uint64_t size, std::string& why);
  void unmap_all();
  // Whether the function may read and write memory: the bus master bit of its command register.
  void set_bus_master(bool enabled) { bus_master_.store(enabled, std::memory_order_relaxed); }

  size_t maps() const;
  size_t file_maps() const;
  uint64_t bytes() const;  // reachable

 private:
  struct Range {
    uint64_t end;
    bool reachable;
  };
  void release(uint64_t address, const Range& range);

  std::byte* window_ = nullptr;
  std::atomic<bool> bus_master_ = false;
  mutable std::shared_mutex mutex_;  // ranges_
  std::map<uint64_t, Range> ranges_;
  size_t file_maps_ = 0;
};

}  // namespace neuron::transport

#endif
