// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/ccom/collective_worker.h"

#include <ccom/ccom.h>

#include <cstdio>

namespace neuron::bench {
namespace {

constexpr uint32_t kTimeoutMs = 20000;
constexpr uint64_t kSpare = 64 << 20;  // for the library's own data

class Worker {
 public:
  Worker(board& orders, uint32_t rank, uint32_t ranks)
      : orders_(orders), rank_(rank), ranks_(ranks) {}
  ~Worker() {
    if (comm_ != nullptr) ccom_free(comm_);
  }

  void run(const std::string& root) {
    if (!join(root)) return;
    uint32_t last = 0, meetings = 0;
    __atomic_add_fetch(&orders_.ready, 1, __ATOMIC_ACQ_REL);
    while (board_wait(&orders_, &last) != BOARD_END) {
      board_prepare(&orders_, rank_, input_, output_);
      ccom_collective_t collective = collective_of();
      board_meet(&orders_, ranks_, &meetings);
      const double begin = board_now();
      for (uint32_t i = 0; i < orders_.inner; ++i) {
        if (orders_.operation == BOARD_BROADCAST) collective.root = i % ranks_;
        if (!good(ccom_run(comm_, &collective))) return;
      }
      orders_.seconds[rank_] = board_now() - begin;
      board_meet(&orders_, ranks_, &meetings);  // the check must not take a slower rank's processor
      const int64_t wrong = board_wrong(&orders_, rank_, ranks_, collective.root, output_);
      if (wrong >= 0) {
        std::fprintf(stderr, "rank %u: element %lld of the result is wrong\n", rank_,
                     static_cast<long long>(wrong));
        orders_.failed = 1;
        return;
      }
      __atomic_add_fetch(&orders_.finished, 1, __ATOMIC_ACQ_REL);
    }
  }

 private:
  bool good(ccom_status_t status) {
    if (status == CCOM_SUCCESS) return true;
    std::fprintf(stderr, "rank %u: %s\n", rank_, ccom_last_error());
    orders_.failed = 1;
    return false;
  }

  bool join(const std::string& root) {
    ccom_options_t options{};
    options.size_of = sizeof options;
    options.root = root.c_str();
    options.timeout_ms = kTimeoutMs;
    options.memory_bytes = 2 * orders_.most + kSpare;
    return good(ccom_init(rank_, ranks_, &options, &comm_)) &&
           good(ccom_mem_alloc(comm_, orders_.most, &input_)) &&
           good(ccom_mem_alloc(comm_, orders_.most, &output_));
  }

  ccom_collective_t collective_of() const {
    static constexpr ccom_operation_t kOperations[] = {
        CCOM_ALL_REDUCE, CCOM_REDUCE_SCATTER, CCOM_ALL_GATHER, CCOM_ALL_TO_ALL, CCOM_BROADCAST};
    ccom_collective_t collective{};
    collective.size_of = sizeof collective;
    collective.operation = kOperations[orders_.operation];
    collective.type = orders_.bf16 != 0 ? CCOM_BF16 : CCOM_FP32;
    collective.count = orders_.bytes / board_width(&orders_);
    if (orders_.operation != BOARD_ALL_REDUCE && orders_.operation != BOARD_BROADCAST) {
      collective.count /= ranks_;
    }
    collective.input = input_;
    collective.output = output_;
    return collective;
  }

  board& orders_;
  const uint32_t rank_, ranks_;
  ccom_comm_t* comm_ = nullptr;
  void* input_ = nullptr;
  void* output_ = nullptr;
};

}  // namespace

void run_worker(board& orders, const std::string& root, uint32_t rank, uint32_t ranks) {
  board_pin(rank);
  Worker(orders, rank, ranks).run(root);
}

}  // namespace neuron::bench
