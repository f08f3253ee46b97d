// SPDX-License-Identifier: Apache-2.0
// nrt_init and nrt_close of a new process: with a device inside it, and as the second client of a
// daemon whose first one stays.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "tests/bench/ratio.h"
#include "tests/bench/session.h"
#include "tests/support/daemon.h"

namespace neuron::bench {
namespace {

constexpr double kMostEmbedded = 20, kMostShared = 10;  // ms

double milliseconds(const std::string& emulator) {
  const test::Run run =
      test::run({"/proc/self/exe", "--init-worker"}, {{"NEURON_EMULATOR", emulator}});
  return run.ending == 0 ? std::atof(run.output.c_str()) : -1;
}

Ratio against(const char* name, double most) {
  Ratio ratio{.name = name, .peer_name = "the limit", .unit = "ms", .goal = 1};
  ratio.smaller_is_better = true;
  ratio.peer = [most] { return most; };
  return ratio;
}

struct Beside {
  test::Folder folder;
  test::Daemon daemon{folder, "trn1.2xlarge"};
  test::Worker first{folder, daemon.emulator(), 0, "empty.neff"};
};

}  // namespace

std::vector<Ratio> init() {
  Ratio embedded = against("init-embedded", kMostEmbedded);
  embedded.ours = [] { return milliseconds("trn1.2xlarge"); };
  Ratio shared = against("init-shared", kMostShared);
  const auto beside = std::make_shared<Beside>();
  if (beside->first.line() != "ready") {
    shared.error = "a worker does not start: " + beside->first.log();
  }
  shared.ours = [beside] { return milliseconds(beside->daemon.emulator()); };
  return {embedded, shared};
}

int init_worker() {
  // The other client has core 0.
  if (std::getenv("NEURON_RT_VISIBLE_CORES") == nullptr) {
    ::setenv("NEURON_RT_VISIBLE_CORES", "1", 1);
  }
  const double start = now_seconds();
  if (nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") != NRT_SUCCESS) return 1;
  nrt_close();
  std::printf("%.3f\n", (now_seconds() - start) * 1e3);
  return 0;
}

}  // namespace neuron::bench
