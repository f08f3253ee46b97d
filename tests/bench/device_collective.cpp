// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/device_collective.h"

#include <nrt/nrt_experimental.h>
#include <nrt/nrt_open.h>

#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

namespace neuron::bench {

DeviceAllReduce::~DeviceAllReduce() {
  if (from_ != nullptr) nrt_tensor_free(&from_);
  if (to_ != nullptr) nrt_tensor_free(&to_);
}

bool DeviceAllReduce::allocate(uint32_t rank, uint32_t ranks, size_t bytes) {
  rank_ = rank;
  ranks_ = ranks;
  const std::vector<float> values(bytes / sizeof(float), 1.0f);
  for (nrt_tensor_t** tensor : {&from_, &to_}) {
    if (nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, static_cast<int>(rank), bytes, "bench",
                            tensor) != NRT_SUCCESS ||
        nrt_tensor_write(*tensor, values.data(), 0, bytes) != NRT_SUCCESS) {
      std::fprintf(stderr, "device: rank %u: %s\n", rank, nrt_open_last_error());
      return false;
    }
  }
  return true;
}

bool DeviceAllReduce::start() {
  std::vector<uint32_t> group(ranks_);
  for (uint32_t r = 0; r < ranks_; ++r) group[r] = r;
  nrt_cc_comm_t comm{group.data(), rank_, ranks_, rank_, ranks_, rank_};
  nrt_tensor_list_t inputs{&from_, 1}, outputs{&to_, 1};
  nrt_cc_context_t* context = nullptr;
  if (nrta_cc_prepare(&comm, &inputs, &outputs, NRT_DTYPE_FLOAT32, NRT_OP_ADD, NRT_CC_ALLREDUCE,
                      &context) == NRT_SUCCESS &&
      nrta_cc_schedule(&context, 0, &status_, &sequence_) == NRT_SUCCESS) {
    return true;
  }
  std::fprintf(stderr, "device: rank %u: %s\n", rank_, nrt_open_last_error());
  return false;
}

bool DeviceAllReduce::wait() {
  bool done = false;
  // bounded: the request has the execution timeout. Eight threads that only yield would take the
  // two processors from the emulated engines.
  while (!done) {
    if (nrta_is_completed(sequence_, &done) != NRT_SUCCESS) return false;
    if (!done) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return status_ == NRT_SUCCESS;
}

}  // namespace neuron::bench
