// SPDX-License-Identifier: Apache-2.0
// How long a daemon keeps what a killed client held, at the 99th of 100 kills in the middle of
// each kind of long work: a row for each.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/bench/ratio.h"
#include "tests/multi/long_work.h"
#include "tests/multi/observer.h"
#include "tests/support/daemon.h"

namespace neuron::bench {
namespace {

// Of each kind: the 99th percentile is the worst but one.
constexpr int kKills = 100;

struct Killed {
  test::Folder folder;
  test::Daemon daemon{folder};
  multi::Observer observer{daemon};
  uint64_t before = observer.valid() ? observer.allocations() : 0;
  std::mt19937 random{20261123};

  // Milliseconds; negative: the client did not get so far.
  double kill_one(const multi::LongWork& kind) {
    const std::unique_ptr<multi::Working> work = kind.start(daemon);
    if (!work->began()) return -1;
    ::usleep(20'000 + random() % 100'000);
    if (work->failed()) return -1;
    const double start = now_seconds();
    work->kill();
    const bool free = test::eventually([&] { return observer.is_free(before); },
                                       std::chrono::seconds(20), std::chrono::microseconds(500));
    return free ? (now_seconds() - start) * 1e3 : -1;
  }
  // The 99th percentile.
  double kill_many(const multi::LongWork& kind) {
    std::vector<double> times;
    for (int i = 0; i < kKills; ++i) {
      times.push_back(kill_one(kind));
      if (times.back() < 0) return -1;
    }
    std::sort(times.begin(), times.end());
    return times[kKills * 99 / 100 - 1];
  }
};

Ratio freed_after(const multi::LongWork& kind) {
  Ratio ratio{.name = std::string("freed-after-kill-") + kind.name,
              .peer_name = "a tenth of a second",
              .unit = "ms at the 99th percentile",
              .goal = 1,
              .smaller_is_better = true,
              .rounds = 1};
  auto killed = std::make_shared<Killed>();
  if (!killed->observer.valid()) ratio.error = killed->daemon.log();
  ratio.ours = [killed, kind] { return killed->kill_many(kind); };
  ratio.peer = [] { return 100.0; };
  return ratio;
}

}  // namespace

std::vector<Ratio> freed_after_kill() {
  std::vector<Ratio> kinds;
  for (const multi::LongWork& kind : multi::long_works()) kinds.push_back(freed_after(kind));
  return kinds;
}

}  // namespace neuron::bench
