// SPDX-License-Identifier: Apache-2.0
// What looking costs: neuron-ls with the 16 devices of a daemon, and lscpu, each from its start to
// its end.
#include <memory>
#include <string>

#include "tests/bench/ratio.h"
#include "tests/support/daemon.h"

namespace neuron::bench {
namespace {

constexpr int kTimes = 10;

// Milliseconds of a run; below 0 if one fails.
double run(const std::string& program, const test::Environment& environment) {
  const double start = now_seconds();
  for (int i = 0; i < kTimes; ++i) {
    if (test::run({program}, environment).ending != 0) return -1;
  }
  return (now_seconds() - start) / kTimes * 1e3;
}

struct Shared {
  test::Folder folder;
  test::Daemon daemon{folder, "trn1.32xlarge"};
};

}  // namespace

Ratio ls() {
  auto shared = std::make_shared<Shared>();
  const test::Environment environment = {{"NEURON_EMULATOR", shared->daemon.emulator()}};
  return {.name = "ls",
          .peer_name = "lscpu",
          .unit = "ms from start to end",
          .goal = 3,
          .smaller_is_better = true,
          .rounds = 15,
          .ours = [shared, environment] { return run(test::built("bin/neuron-ls"), environment); },
          .peer =
              [] {
                return run("lscpu", {{"LC_ALL", "C"}});
              }};
}

}  // namespace neuron::bench
