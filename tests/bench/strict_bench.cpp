// SPDX-License-Identifier: Apache-2.0
// The same NEFFs with strict mode on and off: two processes with a device each, asked in turn.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "tests/bench/ratio.h"
#include "tests/bench/session.h"

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
  explicit Worker(const char* strict) {
    int to_child[2], from_child[2];
    if (pipe(to_child) != 0 || pipe(from_child) != 0) return;
    child_ = fork();
    if (child_ == 0) {
      dup2(to_child[0], STDIN_FILENO);
      dup2(from_child[1], STDOUT_FILENO);
      for (const int fd : {to_child[0], to_child[1], from_child[0], from_child[1]}) close(fd);
      setenv("NEURON_EMULATOR_STRICT", strict, 1);
      execl("/proc/self/exe", "neuron-ratios", "--strict-worker", static_cast<char*>(nullptr));
      _exit(127);
    }
    close(to_child[0]);
    close(from_child[1]);
    out_ = fdopen(to_child[1], "w");
    in_ = fdopen(from_child[0], "r");
  }
  ~Worker() {
    if (out_ != nullptr) fclose(out_);
    if (in_ != nullptr) fclose(in_);
    if (child_ > 0) waitpid(child_, nullptr, 0);
  }
  // Executions per second, the geometric mean of all kernels; negative: the child is gone.
  double round() {
    if (out_ == nullptr || in_ == nullptr) return -1;
    fputc('\n', out_);
    fflush(out_);
    double logarithms = 0;
    for (size_t n = 0; n < std::size(kKernels); ++n) {
      double rate = 0;
      if (fscanf(in_, "%lf", &rate) != 1 || rate <= 0) return -1;
      logarithms += std::log(rate);
    }
    return std::exp(logarithms / std::size(kKernels));
  }

 private:
  pid_t child_ = -1;
  FILE* out_ = nullptr;
  FILE* in_ = nullptr;
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
