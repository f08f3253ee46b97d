// SPDX-License-Identifier: Apache-2.0
// The last writes of a chip into its host's memory: who wrote what, and for which doorbell.
//
// For the question which device has written into memory that was not its own any more. A ring of
// fixed size: recording takes no lock and allocates nothing, the oldest entries are lost. Callers:
// record() and last() from any thread; an entry that is replaced while last() reads it is left out.
// Owned by the host of a chip, whom it outlives (ChipConfig::host_writes). Cannot fail.
#ifndef DRIVER_EMULATOR_CHIP_HOST_WRITES_H
#define DRIVER_EMULATOR_CHIP_HOST_WRITES_H

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace neuron::chip {

enum class HostWriteKind : uint8_t {
  kCopy,          // of a DMA queue
  kWord,          // of a DMA queue: a completion marker or a counter
  kCompute,       // result of a compute packet
  kRefused,       // of a DMA queue, too late for its driver: nothing was written
  kStore,         // by an engine, or by DMA in pieces
  kNotification,  // an entry of a notification queue
  kCompletion,    // a completion record
  kWork,          // a work record
  kFirmware,      // an answer of the firmware
};

struct HostWrite {
  uint64_t time_ns = 0;    // since 1970
  uint64_t waited_ns = 0;  // since the doorbell of the queue; 0: no doorbell led to it
  uint64_t address = 0;    // of the host
  uint64_t bytes = 0;
  HostWriteKind kind = HostWriteKind::kCopy;
  uint8_t core = 0;
  uint8_t engine = 0;  // DMA engine, slot of a notification queue, or engine of the core
  uint8_t queue = 0;
  uint32_t descriptor = 0;  // S2M, in its ring
  std::string describe() const;
};

class HostWrites {
 public:
  static constexpr size_t kEntries = 4096;

  HostWrites() : entries_(new Entry[kEntries]) {}
  // Fills in the time; `doorbell_ns` is of now_ns(), or 0.
  void record(HostWrite write, uint64_t doorbell_ns = 0);
  // Who is told of what was refused, a sentence each, by the thread that refuses it. Before any
  // write.
  void set_log(std::function<void(const std::string&)> log) { log_ = std::move(log); }
  void complain(const std::string& sentence) const {
    if (log_) log_(sentence);
  }
  // At most `most` of them, the oldest first.
  std::vector<HostWrite> last(size_t most = kEntries) const;
  static uint64_t now_ns();

 private:
  struct Entry {
    // Twice the number of the write plus 2, and odd while it is stored.
    std::atomic<uint64_t> version = 0;
    std::array<std::atomic<uint64_t>, 6> words = {};
  };

  std::function<void(const std::string&)> log_;
  std::atomic<uint64_t> next_ = 0;
  const std::unique_ptr<Entry[]> entries_;
};

}  // namespace neuron::chip

#endif
