// SPDX-License-Identifier: Apache-2.0
// What the kernel module costs before the first program can start: register accesses from insmod to
// the first open, each of them a trip out of a virtual machine.
#include <cstdio>
#include <cstdlib>

#include "tests/bench/ratio.h"

namespace neuron::bench {
namespace {

// Driver 2.24.7.0 on this chip: tests/vm/run-guest --module FILE --daemon-statistics.
constexpr double kPublicDriver = 12951;

// One boot; below 0 if the guest cannot run.
double accesses() {
  FILE* guest = popen(NEURON_SOURCE_DIR "/tests/vm/vm-test probe " NEURON_BUILD_DIR, "r");
  if (guest == nullptr) return -1;
  char line[64] = "";
  const bool got = std::fgets(line, sizeof(line), guest) != nullptr;
  const int status = pclose(guest);
  return got && status == 0 && std::atof(line) > 0 ? std::atof(line) : -1;
}

}  // namespace

Ratio probe() {
  Ratio ratio;
  ratio.name = "probe";
  ratio.peer_name = "driver 2.24.7.0";
  ratio.unit = "register accesses to the first open";
  ratio.goal = 1.0;
  ratio.smaller_is_better = true;
  ratio.rounds = 1;
  // A count, the same at every boot.
  ratio.ours = [known = 0.0]() mutable { return known = known > 0 ? known : accesses(); };
  ratio.peer = [] { return kPublicDriver; };
  return ratio;
}

}  // namespace neuron::bench
