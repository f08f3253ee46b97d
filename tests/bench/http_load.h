// SPDX-License-Identifier: Apache-2.0
// A crowd of HTTP clients in one thread, the same for every server that is measured. Closed loop:
// each connection asks, reads its answer and asks again. Open loop: requests begin at a constant
// rate, whether answers come or not, and latency counts from the time at which a request should
// have begun, so a server that stalls cannot hide the requests that it kept from being sent.
// Callers: serve_bench.cpp. Owns its sockets. Fails: `error` holds a sentence.
#ifndef TESTS_BENCH_HTTP_LOAD_H
#define TESTS_BENCH_HTTP_LOAD_H

#include <cstdint>
#include <string>
#include <vector>

namespace neuron::bench {

struct Exchange {
  std::string request;  // all of its bytes
  std::string answer;   // the body of a right answer
};

struct LoadRequest {
  uint16_t port = 0;
  int connections = 64;
  double rate = 0;  // requests per second; 0: closed loop
  double seconds = 1;
  double warm_up = 0.2;                  // seconds, not counted
  std::vector<Exchange> exchanges = {};  // asked in turns
  double patience = 1;                   // seconds; a later answer is no good one
};

struct LoadResult {
  double good_per_second = 0;     // status 200, the right body, in time
  double refused_per_second = 0;  // status 503
  double late_per_second = 0;     // right but too late, or not answered at all
  double p50 = 0, p99 = 0;        // seconds, of all right ones
  uint64_t wrong = 0;             // status 200 with another body, or another status
  std::string first_wrong;        // what it was
  std::string error;
};

LoadResult run_load(const LoadRequest& request);

}  // namespace neuron::bench

#endif
