// SPDX-License-Identifier: Apache-2.0
// A collective in flight while a NEFF executes, in terms of the longer of the two alone: an
// all-reduce of both cores of a device, and products on the first of them, as many as take at least
// as long. So neither hides behind a much longer one.
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>

#include "tests/bench/device_collective.h"
#include "tests/bench/ratio.h"
#include "tests/bench/session.h"

namespace neuron::bench {
namespace {

constexpr uint32_t kRanks = 2;
constexpr size_t kBytes = 64u << 20;

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class Both {
 public:
  Both() : product_("matmul_f32_1024.neff", 0) {
    error_ = product_.error();
    if (!error_.empty()) return;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      if (!ranks_[rank].allocate(rank, kRanks, kBytes)) error_ = "no memory on the device";
    }
    if (!error_.empty()) return;
    // Of several: the first ones prepare what later ones find.
    double one = products(1), all = collective(0);
    for (int i = 0; i < 4 && one >= 0 && all >= 0; ++i) {
      one = std::min(one, products(1));
      all = std::min(all, collective(0));
    }
    if (one < 0 || all < 0) error_ = "one of the two alone failed";
    products_ = std::max(1, static_cast<int>(std::ceil(all / one)));
  }
  const std::string& error() const { return error_; }

  // Seconds until an all-reduce and the products that execute while it is in flight are over.
  double together() { return collective(products_); }
  // Seconds of the longer of the two alone.
  double longer() {
    const double before = processor_seconds();
    const double computing = products(products_), reducing = collective(0);
    processors_ = processor_seconds() - before;
    return computing < 0 || reducing < 0 ? -1 : std::max(computing, reducing);
  }
  // Seconds in which two processors, both always busy, do what both took of processors alone, with
  // all polls and yields of waiting threads, as longer() found.
  double allowed() const { return processors_ / 2; }

 private:
  double products(int count) {
    const double begin = now_seconds();
    for (int i = 0; i < count; ++i) {
      if (product_.execute() != NRT_SUCCESS) return -1;
    }
    return now_seconds() - begin;
  }

  // An all-reduce, and that many products while it is in flight.
  double collective(int products_beside) {
    const double begin = now_seconds();
    // Each rank is prepared by a thread of its own: they wait for one another.
    bool other_good = false;
    std::thread other([&] { other_good = ranks_[1].start(); });
    bool good = ranks_[0].start();
    other.join();
    good = products(products_beside) >= 0 && good && other_good;
    for (DeviceAllReduce& rank : ranks_) good = rank.wait() && good;
    return good ? now_seconds() - begin : -1;
  }

  Session product_;
  DeviceAllReduce ranks_[kRanks];
  std::string error_;
  int products_ = 1;
  double processors_ = 0;
};

}  // namespace

std::vector<Ratio> overlap_collective() {
  const auto both = std::make_shared<Both>();
  Ratio ratio{.name = "overlap-collective",
              .peer_name = "the longer of an all-reduce of 64 MiB and products alone",
              .unit = "s",
              .goal = 1.25,
              .smaller_is_better = true,
              .rounds = 5,
              .error = both->error()};
  ratio.ours = [both] { return both->together(); };
  ratio.peer = [both] { return both->longer(); };
  Ratio allowed = ratio;
  allowed.name = "overlap-collective-processors";
  allowed.unit = "s of two processors that are always busy with both";
  allowed.peer_name = "the same; ours is what two busy processors take for both";
  allowed.goal = 0;
  allowed.smaller_is_better = false;
  allowed.peer = [both] { return both->longer(); };
  allowed.ours = [both] { return both->longer() < 0 ? -1 : both->allowed(); };
  return {ratio, allowed};
}

}  // namespace neuron::bench
