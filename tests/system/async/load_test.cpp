// SPDX-License-Identifier: Apache-2.0
// Sixteen threads with more than ten thousand operations outstanding: each happens once, in the
// order of its queue.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/system/async/gate.h"

namespace neuron::test {
namespace {

constexpr int kThreads = 16;
constexpr int kExecutions = 640;  // of each thread
constexpr int kTransfers = 60;    // of each kind
// For the last of thousands of executions, under a sanitizer and on a busy host.
constexpr std::chrono::seconds kLoadPatience(240);

struct Request {
  nrta_seq_t seq = 0;
  Status status;
};

// Waits while the queue is full.
template <class Schedule>
NRT_STATUS patiently(Schedule&& schedule) {
  NRT_STATUS status = schedule();
  while (status == NRT_QUEUE_FULL) {
    std::this_thread::yield();
    status = schedule();
  }
  return status;
}

class Load : public RuntimeTest {
 protected:
  Load() : depth_("NEURON_OPEN_ASYNC_QUEUE_DEPTH", "8192") {}

 private:
  Setting depth_;
};

TEST_F(Load, SixteenThreadsWithTenThousandOutstanding) {
  // Two models on each core; each thread has tensors of its own.
  std::vector<std::unique_ptr<Loaded>> models;
  for (int i = 0; i < kThreads; ++i) {
    const int core = i % 2;
    models.push_back(std::make_unique<Loaded>(i % 4 < 2 ? small_add() : small_softmax(), core));
  }
  constexpr size_t kBytes = 512;
  std::vector<nrt_tensor_t*> tensors, copies;
  for (int i = 0; i < kThreads; ++i) {
    tensors.push_back(make_tensor(kBytes * kTransfers, i % 2));
    copies.push_back(make_tensor(kBytes * kTransfers, i % 2));
  }
  std::vector<std::vector<Request>> executions(kThreads), transfers(kThreads);
  std::vector<Bytes> sources, results(kThreads, Bytes(kBytes * kTransfers));
  for (int i = 0; i < kThreads; ++i) {
    sources.push_back(pattern(kBytes * kTransfers, static_cast<uint8_t>(i)));
    executions[i].resize(kExecutions);
    transfers[i].resize(3 * kTransfers);
  }
  std::atomic<int> wrong{0};
  Gate gate({0, 1});
  const auto submit = [&](int i) {
    for (int n = 0; n < kExecutions; ++n) {
      Request& request = executions[i][n];
      wrong += patiently([&] { return schedule(*models[i], &request.status, &request.seq); }) !=
               NRT_SUCCESS;
      if (n % 10 != 0 || n / 10 >= kTransfers) continue;
      const int t = n / 10;
      const size_t at = t * kBytes;
      Request* request_of = &transfers[i][3 * t];
      wrong += nrta_tensor_write(tensors[i], sources[i].data() + at, at, kBytes, t % 2,
                                 &request_of[0].status.word, &request_of[0].seq) != NRT_SUCCESS;
      wrong += nrta_tensor_copy(copies[i], at, tensors[i], at, 0, t % 2, &request_of[1].status.word,
                                &request_of[1].seq) != NRT_SUCCESS;
      wrong += nrta_tensor_read(results[i].data() + at, copies[i], at, kBytes, t % 2,
                                &request_of[2].status.word, &request_of[2].seq) != NRT_SUCCESS;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(submit, i);
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(wrong, 0);
  int outstanding = 0;
  for (const auto& each : executions) {
    for (const Request& request : each) outstanding += request.status.load() == kUnwritten;
  }
  EXPECT_GE(outstanding, 10'000);
  gate.open();
  for (int i = 0; i < kThreads; ++i) {
    for (const Request& request : executions[i]) {
      ASSERT_TRUE(finish(request.seq, kLoadPatience));
      ASSERT_EQ(request.status.load(), NRT_SUCCESS);
    }
    for (const Request& request : transfers[i]) {
      ASSERT_TRUE(finish(request.seq, kLoadPatience));
      ASSERT_EQ(request.status.load(), NRT_SUCCESS);
    }
    EXPECT_EQ(contents(tensors[i]), sources[i]);
    EXPECT_EQ(results[i], contents(copies[i]));
  }
  // Ids are given once, and all executions have happened.
  for (int core = 0; core < 2; ++core) {
    std::vector<nrta_seq_t> ids;
    for (int i = core; i < kThreads; i += 2) {
      for (const Request& request : executions[i]) ids.push_back(request.seq);
    }
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
    EXPECT_EQ(ids.back() - ids.front() + 1, ids.size());
    nrt_open_queue_report_t report{};
    report.size = sizeof(report);
    ASSERT_EQ(nrt_open_get_queue_report(core, NRTA_XU_COMPUTE, 0, &report), NRT_SUCCESS);
    EXPECT_EQ(report.completed, ids.size());
    EXPECT_EQ(report.failed, 0u);
  }
  for (int i = 0; i < kThreads; ++i) {
    for (const char* output : {"sum", "y"}) {
      const auto found = models[i]->tensors.find(output);
      if (found == models[i]->tensors.end()) continue;
      EXPECT_EQ(nrt_tensor_check_output_completion(found->second, 0, kExecutions), NRT_SUCCESS)
          << "each execution once";
    }
    nrt_tensor_free(&tensors[i]);
    nrt_tensor_free(&copies[i]);
  }
}

TEST_F(Load, SubmittersOutrunASmallQueueWithoutLoss) {
  nrt_close();
  const Setting depth("NEURON_OPEN_ASYNC_QUEUE_DEPTH", "8");
  init();
  Loaded add(small_add());
  constexpr int kEach = 200;
  std::vector<std::vector<Request>> requests(4, std::vector<Request>(kEach));
  std::vector<std::thread> threads;
  for (auto& own : requests) {
    threads.emplace_back([&] {
      for (Request& request : own) {
        EXPECT_EQ(patiently([&] { return schedule(add, &request.status, &request.seq); }),
                  NRT_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& own : requests) {
    for (size_t i = 0; i < own.size(); ++i) {
      ASSERT_TRUE(finish(own[i].seq, kLoadPatience));
      EXPECT_EQ(own[i].status.load(), NRT_SUCCESS);
      EXPECT_TRUE(i == 0 || own[i].seq > own[i - 1].seq);
    }
  }
  EXPECT_EQ(nrt_tensor_check_output_completion(add.tensors["sum"], 0, 4 * kEach), NRT_SUCCESS);
}

// Any sequence of requests to the queues of a core: completions follow the order of each queue,
// each status is written once and says success, and memory is what a plain replay of each queue
// gives.
TEST_F(Load, AnyMixOfRequestsCompletesOnceAndInOrder) {
  nrt_tensor_t* tensors[2][2];
  for (int core = 0; core < 2; ++core) {
    for (nrt_tensor_t*& tensor : tensors[core]) tensor = make_tensor(1024, core);
  }
  Loaded add(small_add());
  rc::check([&] {
    struct Plan {
      int kind, core, queue, offset, size;
    };
    const auto plans = *rc::gen::container<std::vector<Plan>>(rc::gen::construct<Plan>(
        rc::gen::inRange(0, 4), rc::gen::inRange(0, 2), rc::gen::inRange(0, 2),
        rc::gen::inRange(0, 512), rc::gen::inRange(0, 512)));
    // Writes of queue q go to tensor q: nothing else writes there.
    Bytes model[2][2];
    for (int core = 0; core < 2; ++core) {
      for (int queue = 0; queue < 2; ++queue) model[core][queue] = contents(tensors[core][queue]);
    }
    std::vector<Bytes> buffers;
    std::vector<Request> requests(plans.size());
    uint8_t value = 0;
    for (size_t i = 0; i < plans.size(); ++i) {
      const Plan& plan = plans[i];
      Request& request = requests[i];
      nrt_tensor_t* tensor = tensors[plan.core][plan.queue];
      buffers.emplace_back(plan.size, ++value);
      NRT_STATUS status = NRT_SUCCESS;
      if (plan.kind == 0) {
        status = nrta_tensor_write(tensor, buffers.back().data(), plan.offset, plan.size,
                                   plan.queue, &request.status.word, &request.seq);
        std::copy(buffers.back().begin(), buffers.back().end(),
                  model[plan.core][plan.queue].begin() + plan.offset);
      } else if (plan.kind == 1) {
        status = nrta_tensor_read(buffers.back().data(), tensor, plan.offset, plan.size, plan.queue,
                                  &request.status.word, &request.seq);
      } else if (plan.kind == 2) {
        status = nrta_tensor_copy(tensor, plan.offset, tensor, plan.offset, plan.size, plan.queue,
                                  &request.status.word, &request.seq);
      } else {
        status = schedule(add, &request.status, &request.seq);
      }
      RC_ASSERT(status == NRT_SUCCESS);
    }
    for (size_t i = plans.size(); i-- > 0;) {
      RC_ASSERT(finish(requests[i].seq));
      RC_ASSERT(requests[i].status.load() == NRT_SUCCESS);
      for (size_t k = 0; k < i; ++k) {
        const bool same =
            NRTA_SEQ_GET_XU_ID(requests[k].seq) == NRTA_SEQ_GET_XU_ID(requests[i].seq);
        RC_ASSERT(!same ||
                  (requests[k].seq < requests[i].seq && requests[k].status.load() == NRT_SUCCESS));
      }
    }
    for (int core = 0; core < 2; ++core) {
      for (int queue = 0; queue < 2; ++queue) {
        RC_ASSERT(contents(tensors[core][queue]) == model[core][queue]);
      }
    }
  });
}

}  // namespace
}  // namespace neuron::test
