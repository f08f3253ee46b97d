// SPDX-License-Identifier: Apache-2.0
// Ranks as processes of a test, which report through one pipe.
//
// Callers: tests, on one thread. Owns: the processes, which it kills in the end. Nothing waits
// longer than the caller says.
#ifndef TESTS_UNIT_CCOM_API_JOB_H
#define TESTS_UNIT_CCOM_API_JOB_H

#include <ccom/ccom.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/child.h"
#include "tests/unit/ccom/bootstrap/free_address.h"

namespace neuron::ccom {

inline ccom_collective_t all_reduce(std::vector<float>& values) {
  ccom_collective_t call = {};
  call.size_of = sizeof(call);
  call.operation = CCOM_ALL_REDUCE;
  call.type = CCOM_FP32;
  call.count = values.size();
  call.input = values.data();
  call.output = values.data();
  return call;
}

// What a rank reports through its pipe, one line.
struct Report {
  uint32_t rank = 0;
  ccom_status_t status = CCOM_SUCCESS;
  int64_t when_ns = 0;  // steady clock
  char sentence[480] = {};
};

inline int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// Ranks 0 to size - 1 as children of this process; what they report comes through one pipe.
class Job {
 public:
  using Work = std::function<void(ccom_comm_t* comm, uint32_t rank, int report)>;
  using Before = std::function<void(uint32_t rank)>;

  // `flags`: of ccom_options_t. `before`: what a rank does before it joins.
  Job(uint32_t size, uint32_t timeout_ms, const Work& work, uint32_t flags = 0,
      const Before& before = nullptr) {
    EXPECT_EQ(pipe2(pipe_, O_CLOEXEC | O_DIRECT), 0);
    const std::string& root = root_;
    for (uint32_t rank = 0; rank < size; ++rank) {
      children_.push_back(test::Child::forked([&] {
        if (before) before(rank);
        ccom_options_t options = {};
        options.size_of = sizeof(options);
        options.root = root.c_str();
        options.timeout_ms = timeout_ms;
        options.memory_bytes = 1 << 20;
        options.flags = flags;
        if ((flags & CCOM_FLAG_NO_SHARED_MEMORY) != 0) options.providers = "tcp";
        ccom_comm_t* comm = nullptr;
        const ccom_status_t status = ccom_init(rank, size, &options, &comm);
        if (status != CCOM_SUCCESS) {
          tell(pipe_[1], rank, status);
          // As in run_until_it_fails(): who goes would be the next dead rank.
          poll(nullptr, 0, 20000);
          return 1;
        }
        work(comm, rank, pipe_[1]);
        return 0;
      }));
    }
    close(pipe_[1]);
  }
  ~Job() {
    children_.clear();
    close(pipe_[0]);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  static void tell(int report, uint32_t rank, ccom_status_t status) {
    Report said;
    said.rank = rank;
    said.status = status;
    said.when_ns = now_ns();
    strncpy(said.sentence, ccom_last_error(), sizeof(said.sentence) - 1);
    static_cast<void>(!write(report, &said, sizeof(said)));
  }

  // The next report; false: none within `time`.
  bool hear(Report& said, std::chrono::milliseconds time) {
    pollfd wanted{pipe_[0], POLLIN, 0};
    return poll(&wanted, 1, static_cast<int>(time.count())) > 0 &&
           read(pipe_[0], &said, sizeof(said)) == static_cast<ssize_t>(sizeof(said));
  }
  pid_t child(uint32_t rank) const { return children_[rank].pid(); }
  // Where rank 0 collects the ranks.
  const std::string& root() const { return root_; }

 private:
  const std::string root_ = free_address();
  int pipe_[2] = {-1, -1};
  std::vector<test::Child> children_;
};

// Says that it is there, then what its first failure is. `timeout_ms`: of a call; 0: the job's.
inline void run_with_limit(ccom_comm_t* comm, uint32_t rank, int report, uint32_t timeout_ms) {
  std::vector<float> values(1000, 1.0f);
  ccom_collective_t call = all_reduce(values);
  call.timeout_ms = timeout_ms;
  Job::tell(report, rank, CCOM_SUCCESS);
  ccom_status_t status = CCOM_SUCCESS;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(30000);
  while (status == CCOM_SUCCESS && std::chrono::steady_clock::now() < end) {
    status = ccom_run(comm, &call);
  }
  Job::tell(report, rank, status);
  // Until the job ends it: a survivor that goes would be the next dead rank.
  poll(nullptr, 0, 20000);
}

inline void run_until_it_fails(ccom_comm_t* comm, uint32_t rank, int report) {
  run_with_limit(comm, rank, report, 0);
}

}  // namespace neuron::ccom

#endif
