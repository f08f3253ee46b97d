// SPDX-License-Identifier: Apache-2.0
// Empty launches by eight threads on the two cores of a device, four on the model of each, against
// those of one thread.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/bench/ratio.h"
#include "tests/bench/session.h"

namespace neuron::bench {
namespace {

constexpr size_t kThreads = 8, kCores = 2;
constexpr int kLaunches = 4000;  // Of each thread

// Launches a second; below 0: one failed.
double rate(const std::vector<std::unique_ptr<Session>>& sessions, size_t threads) {
  std::atomic<bool> failed{false};
  const double start = now_seconds();
  std::vector<std::thread> all;
  for (size_t n = 0; n < threads; ++n) {
    all.emplace_back([&, n] {
      for (int i = 0; i < kLaunches && !failed; ++i) {
        if (sessions[n % kCores]->execute() != NRT_SUCCESS) failed = true;
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  return failed ? -1 : static_cast<double>(threads) * kLaunches / (now_seconds() - start);
}

}  // namespace

Ratio threads() {
  Ratio ratio{
      .name = "threads", .peer_name = "one thread", .unit = "launches per second", .goal = 1.5};
  const auto sessions = std::make_shared<std::vector<std::unique_ptr<Session>>>();
  for (size_t n = 0; n < kCores; ++n) {
    sessions->push_back(std::make_unique<Session>("empty.neff", static_cast<int>(n)));
    if (!sessions->back()->error().empty()) ratio.error = sessions->back()->error();
  }
  ratio.ours = [=] { return rate(*sessions, kThreads); };
  ratio.peer = [=] { return rate(*sessions, 1); };
  return ratio;
}

}  // namespace neuron::bench
