// SPDX-License-Identifier: Apache-2.0
// What the kernel module costs before the first program can start: register accesses from insmod to
// the first open, each of them a trip out of a virtual machine.
#include <cstdlib>

#include "tests/bench/ratio.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace neuron::bench {
namespace {

// Driver 2.24.7.0 on this chip: tests/vm/run-guest --module FILE --daemon-statistics.
constexpr double kPublicDriver = 12951;

// One boot; below 0 if the guest cannot run.
double accesses() {
  test::Process guest({test::source("tests/vm/vm-test"), "probe", NEURON_BUILD_DIR}, {},
                      test::Process::kSameError);
  const double count = std::atof(guest.rest(std::chrono::minutes(10)).c_str());
  return guest.wait() == 0 && count > 0 ? count : -1;
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
