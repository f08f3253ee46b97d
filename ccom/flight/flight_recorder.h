// SPDX-License-Identifier: Apache-2.0
// The last 1,000 operations of a rank: their begin, end, status and progress.
//
// Callers: the communicator's thread records (tens of nanoseconds, no lock, no allocation); any
// thread dumps. The records lie in a memory file that peers of the host can map, so they stay
// readable after the rank's death. Cannot fail: a record that is overwritten while it is read is
// left out.
#ifndef CCOM_FLIGHT_FLIGHT_RECORDER_H
#define CCOM_FLIGHT_FLIGHT_RECORDER_H

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/flight/flight_clock.h"
#include "ccom/request/signature.h"
#include "ccom/schedule/step.h"

namespace neuron::ccom {

inline constexpr uint32_t kFlightRecords = 1024;

struct FlightRecord {
  Signature signature;
  uint64_t begin_ns = 0;  // CLOCK_REALTIME
  uint64_t end_ns = 0;    // 0: under way
  uint64_t bytes = 0;     // that this rank's program has received and reduced so far
  uint32_t status = 0;    // ccom_status_t once ended
  Rank waiting_for = 0;   // peer, when it waited last
  uint32_t steps = 0;     // steps done
  uint32_t reserved = 0;
};

class FlightRecorder {
 public:
  // `memory`: kFlightMemory bytes, either zero or with the records of an earlier recorder.
  static constexpr uint64_t kFlightMemory = 64 + kFlightRecords * sizeof(FlightRecord);
  explicit FlightRecorder(std::byte* memory) : memory_(memory) {}

  // The slot stays valid until end(); the executor writes the progress into it.
  FlightRecord& begin(const Signature& signature) {
    std::atomic_ref<uint64_t> next(*reinterpret_cast<uint64_t*>(memory_));
    const uint64_t number = next.load(std::memory_order_relaxed);
    // The fence keeps the compiler from moving these stores before the publication of the previous
    // record: readers ignore the next slot.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    FlightRecord& record = slots()[number % kFlightRecords];
    record.end_ns = 0;
    record.signature = signature;
    record.bytes = 0;
    record.status = CCOM_IN_PROGRESS;
    record.waiting_for = 0;
    record.steps = 0;
    record.begin_ns = clock_.now();
    // Publishes the record. Pairs with the acquire of records().
    next.store(number + 1, std::memory_order_release);
    return record;
  }
  void end(FlightRecord& record, ccom_status_t status) {
    record.status = status;
    record.end_ns = clock_.now();
  }

  // Oldest first; only the newest `limit` records.
  std::vector<FlightRecord> records(uint32_t limit = kFlightRecords) const;
  // The number of operations that ever began.
  uint64_t begun() const;
  // Gets the newest record; false: there is none.
  bool last(FlightRecord& record) const;

 private:
  FlightRecord* slots() const { return reinterpret_cast<FlightRecord*>(memory_ + 64); }

  std::byte* memory_;
  FlightClock clock_;
};

// "[{...}, ...]": records as JSON.
std::string json_of(const std::vector<FlightRecord>& records);

}  // namespace neuron::ccom

#endif
