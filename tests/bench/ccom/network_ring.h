// SPDX-License-Identifier: Apache-2.0
// The peer of between-hosts: a ring all-reduce of floats written straight onto libfabric, as a
// program without a library between would do it.
//
// Concepts: one reliable datagram endpoint, tagged messages, receives posted before sends, one
// message of the ring at a time. Thread: one. Owns: endpoint and scratch. Fails: with a sentence in
// error().
#ifndef TESTS_BENCH_CCOM_NETWORK_RING_H
#define TESTS_BENCH_CCOM_NETWORK_RING_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace neuron::bench {

class NetworkRing {
 public:
  NetworkRing(uint32_t rank, uint32_t ranks);
  ~NetworkRing();

  // `provider` as libfabric names it.
  bool open(const std::string& provider, uint64_t bytes);
  std::vector<std::byte> address() const;
  bool connect(const std::vector<std::vector<std::byte>>& addresses);
  bool all_reduce(const float* input, float* output, uint64_t count);
  const std::string& error() const { return error_; }

 private:
  struct Fabric;

  bool check(long error, const char* doing);
  bool exchange(const float* out, uint64_t out_count, float* in, uint64_t in_count);
  bool wait(uint64_t sent, uint64_t received);

  uint32_t rank_;
  uint32_t ranks_;
  std::unique_ptr<Fabric> fabric_;
  std::vector<float> scratch_;
  uint64_t tag_ = 0;
  uint64_t sends_ = 0, sent_ = 0, receives_ = 0, received_ = 0;
  std::string error_;
};

}  // namespace neuron::bench

#endif
