// SPDX-License-Identifier: Apache-2.0
// The Python package nki: from a kernel to its NEFF, a second call beside the same NEFF through
// nrt, and values beside NumPy, which has no time and no limits. nki/worker.py measures.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/ratio.h"
#include "tests/bench/session.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace neuron::bench {
namespace {

class Worker {
 public:
  // Seconds; below 0 if the worker does not answer with a number.
  double ask(const std::string& question) {
    const std::string answer = process_.ask(question);
    char* end = nullptr;
    const double seconds = std::strtod(answer.c_str(), &end);
    return end == answer.c_str() ? -1 : seconds;
  }

 private:
  test::Process process_{
      {"/usr/bin/python3", test::source("tests/bench/nki/worker.py")},
      {{"NEURON_PLATFORM_TARGET_OVERRIDE", "trn1"}, {"NEURON_NKI_ROOT", NEURON_BUILD_DIR}}};
};

std::shared_ptr<Worker> worker() {
  static const auto one = std::make_shared<Worker>();
  return one;
}

std::function<double()> asks(const std::string& question) {
  return [question] { return worker()->ask(question); };
}

// The softmax of worker.py as a NEFF, executed from C++ with the same copies in and out.
struct Direct {
  std::string error;
  std::unique_ptr<Session> session;
  std::vector<char> in, out;

  Direct() {
    const test::Folder folder;
    const std::string neff = folder.path("softmax.neff");
    const test::Run run = test::run({test::built("bin/neuron-nki"), "compile",
                                     test::source("tests/bench/nki/kernels.py") + "::rows_softmax",
                                     "--shapes", "4096x1024", "--target", "trn1", "-o", neff},
                                    {{"NEURON_NKI_CACHE", ""}}, std::chrono::minutes(2));
    const std::string bytes = test::read_file(neff);
    if (bytes.empty()) {
      error = "neuron-nki: " + run.output;
      return;
    }
    session = std::make_unique<Session>(bytes, "rows_softmax", Session::Inputs::kNumbers);
    error = session->error();
    if (!error.empty()) return;
    in.resize(nrt_tensor_get_size(session->inputs()[0]));
    out.resize(nrt_tensor_get_size(session->outputs()[0]));
  }

  double run() {
    const double start = now_seconds();
    if (nrt_tensor_write(session->inputs()[0], in.data(), 0, in.size()) != NRT_SUCCESS ||
        session->execute() != NRT_SUCCESS ||
        nrt_tensor_read(session->outputs()[0], out.data(), 0, out.size()) != NRT_SUCCESS) {
      return -1;
    }
    return now_seconds() - start;
  }
};

}  // namespace

std::vector<Ratio> nki_trace() {
  const auto one_second = [] { return 1.0; };
  return {{.name = "nki-trace",
           .peer_name = "a second",
           .unit = "s for attention over 2048 positions, from Python to NEFF",
           .goal = 2,
           .smaller_is_better = true,
           .ours = asks("trace attention"),
           .peer = one_second},
          {.name = "nki-trace-many",
           .peer_name = "a second",
           .unit = "s for 20,000 instructions, from Python to NEFF",
           .goal = 8,
           .smaller_is_better = true,
           .ours = asks("trace many"),
           .peer = one_second}};
}

Ratio nki_run() {
  Ratio ratio{.name = "nki-run",
              .peer_name = "the same NEFF through nrt",
              .unit = "s for the second call of softmax 4096 x 1024 f32",
              .goal = 1.1,
              .smaller_is_better = true};
  const auto direct = std::make_shared<Direct>();
  ratio.error = direct->error;
  ratio.ours = asks("run");
  ratio.peer = [direct] { return direct->run(); };
  return ratio;
}

std::vector<Ratio> nki_values() {
  const auto speed = [](const std::string& question, double kernels) {
    return [question, kernels] {
      const double seconds = worker()->ask(question);
      return seconds > 0 ? kernels / seconds : -1;
    };
  };
  std::vector<Ratio> ratios;
  for (const auto& [type, suffix, kernels, goal] :
       {std::tuple{"float32", "", 10.0, 0.5}, std::tuple{"bfloat16", "-bf16", 10.0, 0.0},
        std::tuple{"float8_e4m3", "-fp8", 9.0, 0.0}}) {
    ratios.push_back({.name = std::string("nki-values") + suffix,
                      .peer_name = "NumPy in f32, a call for each instruction",
                      .unit = "kernels of a 128 x 512 tile per second",
                      .goal = goal,
                      .ours = speed(std::string("values ") + type, kernels),
                      .peer = speed("numpy", 10)});
  }
  return ratios;
}

}  // namespace neuron::bench
