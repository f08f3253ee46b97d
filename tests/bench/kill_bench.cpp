// SPDX-License-Identifier: Apache-2.0
// How long a daemon keeps what a killed client held, at the 99th of 100 kills, in the middle of
// each kind of long work.
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

constexpr int kKills = 102;

struct Killed {
  test::Folder folder;
  test::Daemon daemon{folder};
  multi::Observer observer{daemon};
  uint64_t before = observer.valid() ? observer.allocations() : 0;
  std::mt19937 random{20261123};

  // Milliseconds; negative: the client did not get so far.
  double kill_one(const multi::LongWork& work) {
    int begun[2];
    if (::pipe(begun) != 0) return -1;
    test::Child child = test::Child::forked([&] {
      const auto client = multi::DeviceClient::open(daemon.socket());
      if (client == nullptr || !client->mark(0)) return 1;
      work.work(*client, [&] { (void)!::write(begun[1], "", 1); });
      return 2;
    });
    ::close(begun[1]);
    char byte;
    const bool started = ::read(begun[0], &byte, 1) == 1;
    ::close(begun[0]);
    if (!started) return -1;
    ::usleep(20'000 + random() % 100'000);
    if (child.ended()) return -1;
    child.kill();
    const double start = now_seconds();
    const bool free = test::eventually([&] { return observer.is_free(before); },
                                       std::chrono::seconds(20), std::chrono::microseconds(500));
    return free ? (now_seconds() - start) * 1e3 : -1;
  }
};

}  // namespace

Ratio freed_after_kill() {
  Ratio ratio{.name = "freed-after-kill",
              .peer_name = "a tenth of a second",
              .unit = "ms at the 99th percentile",
              .goal = 1,
              .smaller_is_better = true,
              .rounds = 1};
  auto killed = std::make_shared<Killed>();
  if (!killed->observer.valid()) ratio.error = killed->daemon.log();
  ratio.ours = [killed] {
    std::vector<double> times;
    const auto works = multi::long_works();
    for (int i = 0; i < kKills; ++i) {
      times.push_back(killed->kill_one(works[static_cast<size_t>(i) % works.size()]));
      if (times.back() < 0) return -1.0;
    }
    std::sort(times.begin(), times.end());
    return times[times.size() * 99 / 100];
  };
  ratio.peer = [] { return 100.0; };
  return ratio;
}

}  // namespace neuron::bench
