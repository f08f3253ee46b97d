// SPDX-License-Identifier: Apache-2.0
// The same NEFFs with strict mode on and off: two processes with a device each, asked in turn.
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "tests/bench/ratio.h"
#include "tests/bench/session.h"
#include "tests/support/process.h"

namespace neuron::bench {
namespace {

// Few large instructions, many small ones, transfers only, and nothing at all.
constexpr const char* kKernels[] = {
    "softmax_f32.neff",  "softmax_bf16.neff",  "layer_norm.neff", "matmul_f32_256.neff",
    "matmul_tiled.neff", "transpose_dma.neff", "digits.neff",     "empty.neff"};
constexpr double kSecondsPerKernel = 0.05;

// A child that executes every kernel for a while whenever it is asked to.
class Worker {
 public:
  explicit Worker(const char* strict)
      : process_({"/proc/self/exe", "--strict-worker"}, {{"NEURON_EMULATOR_STRICT", strict}},
                 "/dev/stderr") {}
  // Executions per second, the geometric mean of all kernels; negative: the child is gone.
  double round() {
    process_.say("");
    double logarithms = 0;
    for (size_t n = 0; n < std::size(kKernels); ++n) {
      const double rate = std::atof(process_.line().c_str());
      if (rate <= 0) return -1;
      logarithms += std::log(rate);
    }
    return std::exp(logarithms / std::size(kKernels));
  }

 private:
  test::Process process_;
};

}  // namespace

int strict_worker() {
  std::vector<std::unique_ptr<Session>> sessions;
  for (const char* kernel : kKernels) {
    sessions.push_back(std::make_unique<Session>(kernel));
    if (!sessions.back()->error().empty()) {
      std::fprintf(stderr, "strict: %s\n", sessions.back()->error().c_str());
      return 1;
    }
  }
  const bool verbose = std::getenv("NEURON_BENCH_VERBOSE") != nullptr;
  while (std::getchar() != EOF) {
    for (size_t n = 0; n < sessions.size(); ++n) {
      if (sessions[n]->execute() != NRT_SUCCESS) return 1;  // makes the model the core's
      const double start = now_seconds();
      double end = start;
      unsigned executions = 0;
      do {
        if (sessions[n]->execute() != NRT_SUCCESS) return 1;
        ++executions;
        end = now_seconds();
      } while (end - start < kSecondsPerKernel);
      std::printf("%.9g\n", executions / (end - start));
      if (verbose) {
        std::fprintf(stderr, "strict %s: %-20s %.2f us\n", std::getenv("NEURON_EMULATOR_STRICT"),
                     kKernels[n], (end - start) / executions * 1e6);
      }
    }
    std::fflush(stdout);
  }
  return 0;
}

Ratio strict() {
  Ratio ratio{.name = "strict",
              .peer_name = "the same with NEURON_EMULATOR_STRICT=0",
              .unit = "executions/s, geometric mean",
              .goal = 0.7};
  signal(SIGPIPE, SIG_IGN);
  auto on = std::make_shared<Worker>("1");
  auto off = std::make_shared<Worker>("0");
  ratio.ours = [on] { return on->round(); };
  ratio.peer = [off] { return off->round(); };
  return ratio;
}

}  // namespace neuron::bench
