// SPDX-License-Identifier: Apache-2.0
// A crowd of HTTP clients in one thread: each connection asks, reads its answer and asks again.
// The same for every server that is measured. Callers: serve_bench.cpp. Owns its sockets.
// Fails: `error` holds a sentence.
#ifndef TESTS_BENCH_HTTP_LOAD_H
#define TESTS_BENCH_HTTP_LOAD_H

#include <cstdint>
#include <string>

namespace neuron::bench {

struct LoadRequest {
  uint16_t port = 0;
  int connections = 64;
  double seconds = 1;
  double warm_up = 0.2;  // not counted
  std::string bytes;     // the whole request
  std::string body;      // what a good answer has; empty: what the first one has
  double patience = 1;   // seconds; a later answer is no good one
};

struct LoadResult {
  double good_per_second = 0;     // status 200, the right body, in time
  double refused_per_second = 0;  // status 503
  double p50 = 0, p99 = 0;        // seconds, of the good ones
  uint64_t wrong = 0;             // status 200 with another body, or another status
  std::string error;
};

LoadResult run_load(const LoadRequest& request);

}  // namespace neuron::bench

#endif
