// SPDX-License-Identifier: Apache-2.0
// All-reduces of 16 MiB on emulated cores: what their DMA engines move in a second against memcpy
// on as many threads of this host, in turns.
//
// Moved is half of what is read and written, as a memcpy of n bytes moves n. With the mesh, of N
// bytes on each of P ranks: each sends N (P-1)/P twice, and reads N to write the sum of N/P.
#include <nrt/nrt.h>
#include <nrt/nrt_open.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "tests/bench/ccom/bench.h"
#include "tests/bench/device_collective.h"

namespace neuron::bench {
namespace {

constexpr size_t kBytes = 16u << 20;
constexpr int kRounds = 41;

// Seconds until all threads have done it.
double together(uint32_t threads, const std::function<void(uint32_t)>& work) {
  std::vector<std::thread> all;
  const double begin = now_seconds();
  for (uint32_t t = 0; t < threads; ++t) all.emplace_back(work, t);
  for (std::thread& thread : all) thread.join();
  return now_seconds() - begin;
}

bool measure(uint32_t ranks) {
  std::vector<DeviceAllReduce> all(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    if (!all[r].allocate(r, ranks, kBytes)) return false;
  }
  const uint32_t threads = std::min(ranks, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::vector<char>> source(threads, std::vector<char>(kBytes, 1));
  std::vector<std::vector<char>> target(threads, std::vector<char>(kBytes, 2));
  std::vector<double> ours, peer;
  bool good = true;
  for (int round = 0; round < kRounds && good; ++round) {
    std::vector<char> fine(ranks, 0);
    ours.push_back(together(ranks, [&](uint32_t r) { fine[r] = all[r].start() && all[r].wait(); }));
    good = std::all_of(fine.begin(), fine.end(), [](char f) { return f != 0; });
    peer.push_back(together(
        threads, [&](uint32_t t) { std::memcpy(target[t].data(), source[t].data(), kBytes); }));
  }
  if (!good) return false;
  std::nth_element(ours.begin(), ours.begin() + kRounds / 2, ours.end());
  std::nth_element(peer.begin(), peer.begin() + kRounds / 2, peer.end());
  const double p = ranks;
  const double moved = static_cast<double>(kBytes) * p * (2 * (p - 1) / p + (1 + 1 / p) / 2);
  report({.name = "device all-reduce 16 MiB, " + std::to_string(ranks) + " cores",
          .ours = moved / ours[kRounds / 2] / 1e9,
          .peer = static_cast<double>(kBytes) * threads / peer[kRounds / 2] / 1e9,
          .peer_name = "memcpy on " + std::to_string(threads) + " threads",
          .unit = "GB/s",
          .goal = 0.7});
  return true;
}

bool run_device() {
  setenv("NEURON_EMULATOR", "trn1.32xlarge", 1);
  setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
  if (nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") != NRT_SUCCESS) {
    std::fprintf(stderr, "device: %s\n", nrt_open_last_error());
    return false;
  }
  const bool good = measure(2) && measure(8);
  nrt_close();
  return good;
}

const Bench kDevice("device-collectives", run_device);

}  // namespace
}  // namespace neuron::bench
