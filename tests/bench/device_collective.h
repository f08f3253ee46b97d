// SPDX-License-Identifier: Apache-2.0
// An all-reduce of device buffers, in flight until it is waited for, as the benchmarks use it.
//
// Concepts: start() prepares and schedules the part of one rank; wait() sleeps until it is over, so
// that the emulated engines have the processors. Threads: one for each rank, as start() waits for
// the others.
// Fails: false, with a sentence on stderr.
#ifndef TESTS_BENCH_DEVICE_COLLECTIVE_H
#define TESTS_BENCH_DEVICE_COLLECTIVE_H

#include <nrt/nrt.h>
#include <nrt/nrt_async.h>

#include <cstddef>
#include <cstdint>

namespace neuron::bench {

class DeviceAllReduce {
 public:
  DeviceAllReduce() = default;
  DeviceAllReduce(const DeviceAllReduce&) = delete;
  DeviceAllReduce& operator=(const DeviceAllReduce&) = delete;
  ~DeviceAllReduce();
  // Buffers of `bytes` on the core with the number of the rank, with ones.
  bool allocate(uint32_t rank, uint32_t ranks, size_t bytes);
  bool start();
  bool wait();

 private:
  uint32_t rank_ = 0, ranks_ = 0;
  nrt_tensor_t *from_ = nullptr, *to_ = nullptr;
  NRT_STATUS status_ = NRT_FAILURE;
  nrta_seq_t sequence_ = 0;
};

}  // namespace neuron::bench

#endif
