// SPDX-License-Identifier: Apache-2.0
// The same NEFFs with strict mode on and off, each by itself: two processes with a device each,
// asked in turn.
#include <unistd.h>

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

// Few large instructions, many small ones, products, and transfers only.
constexpr const char* kKernels[] = {"softmax_f32",       "softmax_bf16",         "layer_norm",
                                    "softmax_bf16_4096", "gelu_bf16_4096",       "matmul_f32_256",
                                    "matmul_tiled",      "matmul_f32_1024",      "attention",
                                    "transpose_dma",     "layer_norm_bf16_4096", "digits"};
constexpr double kSecondsPerKernel = 0.05;

// Of this process: opening a child's own begins with closing it.
std::string standard_error() { return "/proc/" + std::to_string(::getpid()) + "/fd/2"; }

// A child that executes a kernel for a while whenever it is told the kernel's number.
class Worker {
 public:
  explicit Worker(const char* strict)
      : process_({"/proc/self/exe", "--strict-worker"}, {{"NEURON_EMULATOR_STRICT", strict}},
                 standard_error()) {}
  // Executions per second; negative: the child is gone.
  double round(size_t kernel) {
    const double rate = std::atof(process_.ask(std::to_string(kernel)).c_str());
    return rate > 0 ? rate : -1;
  }

 private:
  test::Process process_;
};

}  // namespace

int strict_worker() {
  std::unique_ptr<Session> sessions[std::size(kKernels)];
  size_t n = 0;
  while (std::scanf("%zu", &n) == 1 && n < std::size(kKernels)) {
    if (!sessions[n]) sessions[n] = std::make_unique<Session>(std::string(kKernels[n]) + ".neff");
    if (!sessions[n]->error().empty()) {
      std::fprintf(stderr, "strict: %s\n", sessions[n]->error().c_str());
      return 1;
    }
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
    std::fflush(stdout);
  }
  return 0;
}

std::vector<Ratio> strict() {
  signal(SIGPIPE, SIG_IGN);
  auto on = std::make_shared<Worker>("1");
  auto off = std::make_shared<Worker>("0");
  std::vector<Ratio> ratios;
  for (size_t n = 0; n < std::size(kKernels); ++n) {
    ratios.push_back({.name = std::string("strict-") + kKernels[n],
                      .peer_name = "the same with NEURON_EMULATOR_STRICT=0",
                      .unit = "executions/s",
                      .goal = 0.75,
                      .ours = [on, n] { return on->round(n); },
                      .peer = [off, n] { return off->round(n); }});
  }
  return ratios;
}

}  // namespace neuron::bench
