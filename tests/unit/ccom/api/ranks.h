// SPDX-License-Identifier: Apache-2.0
// All ranks of a communicator as threads of a test, and short ways to options and calls.
//
// Callers: tests. Threads: each() runs its work on one thread for each rank. Owns: the
// communicators.
#ifndef TESTS_UNIT_CCOM_API_RANKS_H
#define TESTS_UNIT_CCOM_API_RANKS_H

#include <ccom/ccom.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

namespace neuron::ccom {

inline ccom_options_t quick_options() {
  ccom_options_t options = {};
  options.size_of = sizeof(options);
  options.timeout_ms = 20000;
  options.memory_bytes = 16 << 20;
  return options;
}

inline ccom_collective_t call_of(ccom_operation_t operation, ccom_type_t type, uint64_t count,
                                 const void* input, void* output) {
  ccom_collective_t call = {};
  call.size_of = sizeof(call);
  call.operation = operation;
  call.type = type;
  call.count = count;
  call.input = input;
  call.output = output;
  return call;
}

// All ranks of a communicator, a thread for each.
class Ranks {
 public:
  explicit Ranks(uint32_t size, ccom_options_t options = quick_options()) : comms_(size) {
    EXPECT_EQ(ccom_init_all(size, &options, comms_.data()), CCOM_SUCCESS) << ccom_last_error();
  }
  ~Ranks() {
    for (ccom_comm_t* comm : comms_) {
      EXPECT_EQ(ccom_free(comm), CCOM_SUCCESS);
    }
  }
  ccom_comm_t* operator[](uint32_t rank) { return comms_[rank]; }
  // Frees one rank before the others.
  void free(uint32_t rank) {
    EXPECT_EQ(ccom_free(comms_[rank]), CCOM_SUCCESS);
    comms_[rank] = nullptr;
  }

  void each(const std::function<void(ccom_comm_t*, uint32_t)>& work) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < comms_.size(); ++rank) {
      threads.emplace_back([&, rank] { work(comms_[rank], rank); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

 private:
  std::vector<ccom_comm_t*> comms_;
};

}  // namespace neuron::ccom

#endif
