// SPDX-License-Identifier: Apache-2.0
// What asynchronous queues gain: launches one behind the other against waiting for each; transfers
// beside executions against the slowest of them; two NeuronCores against one.
#include <nrt/nrt_async.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "tests/bench/ratio.h"
#include "tests/bench/session.h"

namespace neuron::bench {
namespace {

constexpr int kLaunches = 20000;
constexpr int kOutstanding = 64;

bool completed(nrta_seq_t seq) {
  bool done = false;
  return nrta_is_completed(seq, &done) != NRT_SUCCESS || done;
}
// Leaves the host's cores to the device.
bool sleep_until_completed(nrta_seq_t seq) {
  static const int event = eventfd(0, 0);
  uint64_t count = 0;
  return nrta_event_register_seq_id_completion(seq, event) == NRT_SUCCESS &&
         ::read(event, &count, sizeof(count)) == sizeof(count);
}

}  // namespace

Ratio async_launch() {
  Ratio ratio{
      .name = "async-launch", .peer_name = "synchronous launches", .unit = "launches/s", .goal = 2};
  auto model = std::make_shared<Session>("empty.neff");
  ratio.error = model->error();
  ratio.ours = [model] {
    std::array<nrta_seq_t, kOutstanding> seq{};
    const double start = now_seconds();
    for (int i = 0; i < kLaunches; ++i) {
      nrta_seq_t& place = seq[i % kOutstanding];
      // The oldest is outstanding still: sleep until half of them have completed.
      if (i >= kOutstanding && !completed(place) &&
          !sleep_until_completed(seq[(i + kOutstanding / 2) % kOutstanding])) {
        return -1.0;
      }
      if (model->schedule(&place) != NRT_SUCCESS) return -1.0;
    }
    if (!sleep_until_completed(seq[(kLaunches - 1) % kOutstanding])) return -1.0;
    return kLaunches / (now_seconds() - start);
  };
  ratio.peer = [model] {
    const double start = now_seconds();
    for (int i = 0; i < kLaunches; ++i) {
      if (model->execute() != NRT_SUCCESS) return -1.0;
    }
    return kLaunches / (now_seconds() - start);
  };
  return ratio;
}

namespace {

// Two sets of tensors: step i is written while i - 1 is computed and i - 2 is read.
struct Pipeline {
  static constexpr int kSteps = 24;
  Session sets[2] = {Session("tensor_add.neff"), Session("tensor_add.neff")};
  std::vector<char> in, out;

  std::string error() const { return !sets[0].error().empty() ? sets[0].error() : sets[1].error(); }
  Pipeline() {
    if (!error().empty()) return;
    in.assign(nrt_tensor_get_size(sets[0].inputs()[0]), 0);
    out.assign(nrt_tensor_get_size(sets[0].outputs()[0]), 0);
  }
  bool write(int step, nrta_seq_t* seq) {
    for (nrt_tensor_t* tensor : sets[step % 2].inputs()) {
      if (nrta_tensor_write(tensor, in.data(), 0, in.size(), 0, nullptr, seq)) return false;
    }
    return true;
  }
  bool execute(int step, nrta_seq_t* seq) { return sets[step % 2].schedule(seq) == NRT_SUCCESS; }
  bool read(int step, nrta_seq_t* seq) {
    return nrta_tensor_read(out.data(), sets[step % 2].outputs()[0], 0, out.size(), 0, nullptr,
                            seq) == NRT_SUCCESS;
  }
  double run() {
    const double start = now_seconds();
    for (int step = 0; step < kSteps + 2; ++step) {
      nrta_seq_t seq[3];
      int count = 0;
      if (step >= 1 && step <= kSteps && !execute(step - 1, &seq[count++])) return -1;
      if (step >= 2 && !read(step - 2, &seq[count++])) return -1;
      if (step < kSteps && !write(step, &seq[count++])) return -1;
      while (count > 0) {
        if (!sleep_until_completed(seq[--count])) return -1;
      }
    }
    return now_seconds() - start;
  }
  template <class Operation>
  double alone(Operation operation) {
    const double start = now_seconds();
    nrta_seq_t seq = 0;
    for (int step = 0; step < kSteps; ++step) {
      if (!operation(step, &seq) || !sleep_until_completed(seq)) return -1;
    }
    return now_seconds() - start;
  }
};

}  // namespace

Ratio overlap() {
  Ratio ratio{.name = "overlap",
              .peer_name = "the slowest of write, execute and read alone",
              .unit = "s",
              .goal = 1.3};
  ratio.smaller_is_better = true;
  auto pipeline = std::make_shared<Pipeline>();
  ratio.error = pipeline->error();
  ratio.ours = [pipeline] { return pipeline->run(); };
  ratio.peer = [pipeline] {
    Pipeline& p = *pipeline;
    const double times[] = {p.alone([&](int i, nrta_seq_t* s) { return p.write(i, s); }),
                            p.alone([&](int i, nrta_seq_t* s) { return p.execute(i, s); }),
                            p.alone([&](int i, nrta_seq_t* s) { return p.read(i, s); })};
    if (*std::min_element(times, times + 3) < 0) return -1.0;
    return *std::max_element(times, times + 3);
  };
  return ratio;
}

Ratio two_cores() {
  Ratio ratio{
      .name = "two-cores", .peer_name = "one NeuronCore", .unit = "executions/s", .goal = 1.7};
  constexpr int kExecutions = 6;
  auto first = std::make_shared<Session>("matmul_f32_1024.neff", 0);
  auto second = std::make_shared<Session>("matmul_f32_1024.neff", 1);
  ratio.error = !first->error().empty() ? first->error() : second->error();
  const auto run = [](Session& a, Session* b) {
    const double start = now_seconds();
    nrta_seq_t last[2] = {};
    for (int i = 0; i < kExecutions; ++i) {
      if (a.schedule(&last[0])) return -1.0;
      if (b != nullptr && b->schedule(&last[1])) return -1.0;
    }
    // Sleeps, so that both host cores are the device's.
    if (!sleep_until_completed(last[0])) return -1.0;
    if (b != nullptr && !sleep_until_completed(last[1])) return -1.0;
    return kExecutions * (b != nullptr ? 2 : 1) / (now_seconds() - start);
  };
  ratio.ours = [=] { return run(*first, second.get()); };
  ratio.peer = [=] { return run(*first, nullptr); };
  return ratio;
}

}  // namespace neuron::bench
