// SPDX-License-Identifier: Apache-2.0
// The last 1,000 operations of a rank: what began, what ended, how, and how far it got.
//
// Callers: the communicator's thread records (tens of nanoseconds, no lock, no allocation); any
// thread dumps. The records lie in a memory file that peers of the host can map, so that they stay
// readable when the rank is dead. Cannot fail: a record that is overwritten while it is read is
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
  uint32_t steps = 0;     // done
  uint32_t reserved = 0;
};

class FlightRecorder {
 public:
  // `memory`: kFlightMemory bytes, zero or with the records of an earlier life.
  static constexpr uint64_t kFlightMemory = 64 + kFlightRecords * sizeof(FlightRecord);
  explicit FlightRecorder(std::byte* memory) : memory_(memory) {}

  // The slot stays valid until end(); progress is written into it by the executor.
  FlightRecord& begin(const Signature& signature) {
    std::atomic_ref<uint64_t> next(*reinterpret_cast<uint64_t*>(memory_));
    const uint64_t number = next.load(std::memory_order_relaxed);
    // The compiler keeps what follows behind the publication of the record before: a reader drops
    // the slot that comes next.
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

  // Oldest first, at most `limit` of the newest.
  std::vector<FlightRecord> records(uint32_t limit = kFlightRecords) const;
  // How many operations ever began.
  uint64_t begun() const;
  // The newest record; false: none.
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
