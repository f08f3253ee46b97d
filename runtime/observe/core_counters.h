// SPDX-License-Identifier: Apache-2.0
//
// The counters that operator tools read of this process: inferences, errors, time, per core.
// They live in the driver's datastore, memory that the process shares with readers.
// Callers: executor, loader. Thread-safe: each counter is one atomic word; readers need no order
// between counters. Borrows: the mapped datastore; without one every call does nothing.
#ifndef RUNTIME_OBSERVE_CORE_COUNTERS_H_
#define RUNTIME_OBSERVE_CORE_COUNTERS_H_

#include <nrt/nrt_status.h>

#include <atomic>
#include <cstdint>

#include "ndl/neuron_driver_shared.h"

namespace neuron::runtime {

class CoreCounters {
 public:
  // `datastore`: NDS_... layout, 8-byte aligned; core 0 to 3.
  void attach(void* datastore, std::uint32_t core) {
    words_ = NDS_NEURONCORE_COUNTERS(static_cast<char*>(datastore), core);
    extended_ = NDS_EXT_NEURONCORE_COUNTERS(static_cast<char*>(datastore), core);
  }
  void detach() { words_ = extended_ = nullptr; }

  void add(std::uint32_t counter, std::uint64_t amount) {
    std::uint64_t* words = counter < NDS_NC_COUNTER_COUNT ? words_ : extended_;
    if (words == nullptr) return;
    const std::uint32_t slot =
        counter < NDS_NC_COUNTER_COUNT ? counter : counter - NDS_NC_COUNTER_COUNT;
    std::atomic_ref<std::uint64_t>(words[slot]).fetch_add(amount, std::memory_order_relaxed);
  }

  // One execution that ended with `status` after `host_us` microseconds, `device_us` on the device.
  void executed(NRT_STATUS status, std::uint64_t device_us, std::uint64_t host_us);
  // `count` of them that succeeded, with the times of all.
  void executed_well(std::uint64_t count, std::uint64_t device_us, std::uint64_t host_us);

 private:
  std::uint64_t* words_ = nullptr;
  std::uint64_t* extended_ = nullptr;
};

}  // namespace neuron::runtime

#endif  // RUNTIME_OBSERVE_CORE_COUNTERS_H_
