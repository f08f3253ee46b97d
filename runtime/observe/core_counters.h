// SPDX-License-Identifier: Apache-2.0
//
// The counters that operator tools read of this process: executions, errors, time, work, per core.
// They live in the driver's datastore, memory that the process shares with readers.
//
// Callers: executor, loader, queues. add() in any thread; executed*() by the holder of the core's
// turn, which alone writes what they write. Each counter is one atomic word; readers need no order
// between counters. Borrows: the mapped datastore; without one every call does nothing.
#ifndef RUNTIME_OBSERVE_CORE_COUNTERS_H
#define RUNTIME_OBSERVE_CORE_COUNTERS_H

#include <nrt/nrt_status.h>

#include <atomic>
#include <cstdint>

#include "hw/control.h"
#include "nrt/nds/datastore_layout.h"

namespace neuron::runtime {

class CoreCounters {
 public:
  // `datastore`: NDS_... layout, 8-byte aligned. `core`: physical number.
  void attach(void* datastore, uint32_t core);
  void detach() { words_ = extended_ = nullptr; }

  void add(uint32_t counter, uint64_t amount) {
    if (uint64_t* found = word(counter)) {
      std::atomic_ref<uint64_t>(*found).fetch_add(amount, std::memory_order_relaxed);
    }
  }

  // One execution that ended with `status` after `host_ns`; `work`: what the core did for it.
  void executed(NRT_STATUS status, const neuron_work_record& work, uint64_t host_ns);
  // `count` of them that succeeded, with the times and the work of all.
  void executed_well(uint64_t count, const neuron_work_record& work, uint64_t host_ns);
  // An execution that was refused before the core had it. Any thread.
  void refused(NRT_STATUS status);
  // The work of a second physical core for executions that the first one counts.
  void worked(const neuron_work_record& work);

 private:
  uint64_t* word(uint32_t counter) const {
    if (words_ == nullptr) return nullptr;
    return counter < NDS_NC_COUNTER_COUNT ? words_ + counter
                                          : extended_ + (counter - NDS_NC_COUNTER_COUNT);
  }
  // For a word with one writer: needs no locked operation.
  static void grow(uint64_t& word, uint64_t amount) {
    std::atomic_ref<uint64_t> atomic(word);
    atomic.store(atomic.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  void count_error(NRT_STATUS status);

  uint64_t* words_ = nullptr;
  uint64_t* extended_ = nullptr;
  nds_open_core_t* open_ = nullptr;
  // Host time that is not yet a whole microsecond.
  uint64_t host_rest_ns_ = 0;
};

// The bucket of a histogram (datastore_layout.h) for a time.
unsigned latency_bucket(uint64_t picoseconds);

}  // namespace neuron::runtime

#endif
