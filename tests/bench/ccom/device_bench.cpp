// SPDX-License-Identifier: Apache-2.0
// All-reduces of 16 MiB on emulated cores: what their DMA engines move in a second against memcpy
// on as many threads of this host, in turns.
//
// Moved is half of what is read and written, as a memcpy of n bytes moves n. With the mesh, of N
// bytes on each of P ranks: each sends N (P-1)/P twice, and reads N to write the sum of N/P.
#include <nrt/nrt.h>
#include <nrt/nrt_async.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_open.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "tests/bench/ccom/bench.h"

namespace neuron::bench {
namespace {

constexpr size_t kBytes = 16u << 20;
constexpr int kRounds = 41;

struct Rank {
  nrt_tensor_t* from = nullptr;
  nrt_tensor_t* to = nullptr;
};

bool all_reduce(const Rank& tensors, uint32_t rank, uint32_t ranks) {
  std::vector<uint32_t> group(ranks);
  for (uint32_t r = 0; r < ranks; ++r) group[r] = r;
  nrt_cc_comm_t comm{group.data(), rank, ranks, rank, ranks, rank};
  nrt_tensor_t *from = tensors.from, *to = tensors.to;
  nrt_tensor_list_t inputs{&from, 1}, outputs{&to, 1};
  nrt_cc_context_t* context = nullptr;
  NRT_STATUS status = NRT_FAILURE;
  nrta_seq_t sequence = 0;
  if (nrta_cc_prepare(&comm, &inputs, &outputs, NRT_DTYPE_FLOAT32, NRT_OP_ADD, NRT_CC_ALLREDUCE,
                      &context) != NRT_SUCCESS ||
      nrta_cc_schedule(&context, 0, &status, &sequence) != NRT_SUCCESS) {
    std::fprintf(stderr, "device: rank %u: %s\n", rank, nrt_open_last_error());
    return false;
  }
  bool done = false;
  // bounded: the request has the execution timeout. Eight threads that only yield would take the
  // two processors from the emulated engines.
  while (!done) {
    if (nrta_is_completed(sequence, &done) != NRT_SUCCESS) return false;
    if (!done) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return status == NRT_SUCCESS;
}

// Seconds until all threads have done it.
double together(uint32_t threads, const std::function<void(uint32_t)>& work) {
  std::vector<std::thread> all;
  const double begin = now_seconds();
  for (uint32_t t = 0; t < threads; ++t) all.emplace_back(work, t);
  for (std::thread& thread : all) thread.join();
  return now_seconds() - begin;
}

bool measure(uint32_t ranks) {
  std::vector<Rank> tensors(ranks);
  const std::vector<float> values(kBytes / sizeof(float), 1.0f);
  for (uint32_t r = 0; r < ranks; ++r) {
    for (nrt_tensor_t** tensor : {&tensors[r].from, &tensors[r].to}) {
      if (nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, static_cast<int>(r), kBytes, "bench",
                              tensor) != NRT_SUCCESS ||
          nrt_tensor_write(*tensor, values.data(), 0, kBytes) != NRT_SUCCESS) {
        std::fprintf(stderr, "device: %s\n", nrt_open_last_error());
        return false;
      }
    }
  }
  const uint32_t threads = std::min(ranks, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::vector<char>> source(threads, std::vector<char>(kBytes, 1));
  std::vector<std::vector<char>> target(threads, std::vector<char>(kBytes, 2));
  std::vector<double> ours, peer;
  bool good = true;
  for (int round = 0; round < kRounds && good; ++round) {
    std::vector<char> fine(ranks, 0);
    ours.push_back(
        together(ranks, [&](uint32_t r) { fine[r] = all_reduce(tensors[r], r, ranks); }));
    good = std::all_of(fine.begin(), fine.end(), [](char f) { return f != 0; });
    peer.push_back(together(
        threads, [&](uint32_t t) { std::memcpy(target[t].data(), source[t].data(), kBytes); }));
  }
  for (Rank& rank : tensors) {
    nrt_tensor_free(&rank.from);
    nrt_tensor_free(&rank.to);
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
