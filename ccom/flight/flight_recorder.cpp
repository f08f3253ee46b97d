// SPDX-License-Identifier: Apache-2.0
#include "ccom/flight/flight_recorder.h"

#include <algorithm>
#include <cstring>

#include "ccom/request/names.h"

namespace neuron::ccom {
namespace {

// Reads a slot that its owner, possibly another process, may be writing.
__attribute__((no_sanitize("thread"))) FlightRecord copy_of(const FlightRecord& slot) {
  FlightRecord record;
  const auto* from = reinterpret_cast<const volatile uint64_t*>(&slot);
  auto* to = reinterpret_cast<uint64_t*>(&record);
  static_assert(sizeof(FlightRecord) % sizeof(uint64_t) == 0);
  for (size_t i = 0; i < sizeof(FlightRecord) / sizeof(uint64_t); ++i) {
    to[i] = from[i];
  }
  return record;
}

}  // namespace

uint64_t FlightRecorder::begun() const {
  // Pairs with the release of begin().
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(memory_))
      .load(std::memory_order_acquire);
}

std::vector<FlightRecord> FlightRecorder::records(uint32_t limit) const {
  const uint64_t next = begun();
  const uint64_t count = std::min<uint64_t>({next, kFlightRecords, limit});
  std::vector<FlightRecord> result;
  result.reserve(count);
  for (uint64_t number = next - count; number < next; ++number) {
    const FlightRecord& slot = slots()[number % kFlightRecords];
    FlightRecord record = copy_of(slot);
    for (int attempt = 0; attempt < 4; ++attempt) {
      const FlightRecord again = copy_of(slot);
      if (std::memcmp(&again, &record, sizeof(record)) == 0) {
        break;
      }
      record = again;
    }
    // The ring may have wrapped while this slot was read.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (number + kFlightRecords > begun()) {
      result.push_back(record);
    }
  }
  return result;
}

bool FlightRecorder::last(FlightRecord& record) const {
  const std::vector<FlightRecord> newest = records(1);
  if (newest.empty()) {
    return false;
  }
  record = newest.front();
  return true;
}

std::string json_of(const std::vector<FlightRecord>& records) {
  std::string text = "[";
  for (const FlightRecord& record : records) {
    const Signature& call = record.signature;
    text += format(
        "{}\n  {{\"operation\": \"{}\", \"number\": {}, \"stream\": {}, \"type\": \"{}\", "
        "\"reduction\": \"{}\", \"algorithm\": \"{}\", \"count\": {}, \"root\": {}, "
        "\"detail\": \"{:016x}\", \"begin_ns\": {}, \"end_ns\": {}, \"bytes\": {}, "
        "\"status\": \"{}\", \"steps\": {}, \"waiting_for\": {}}}",
        text.size() == 1 ? "" : ",", operation_name(static_cast<ccom_operation_t>(call.kind)),
        call.operation, call.stream, type_name(call.type), reduction_name(call.reduction),
        algorithm_name(static_cast<ccom_algorithm_t>(call.algorithm)), call.count, call.root,
        call.detail, record.begin_ns, record.end_ns, record.bytes,
        record.end_ns == 0 ? "under_way"
                           : ccom_status_name(static_cast<ccom_status_t>(record.status)),
        record.steps, record.waiting_for);
  }
  return text + "]";
}

}  // namespace neuron::ccom
