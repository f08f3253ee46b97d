// SPDX-License-Identifier: Apache-2.0
// All-gathers through the tree: single contributions go up to rank 0, and the whole comes down.
//
// Concepts: rank 0 sees each contribution, so at the earliest deadline it can say which ranks are
// missing. Threads: a caller calls all_gather(), the loop everything else. Owns: rounds that are
// under way. Fails: CCOM_TIMEOUT with the missing ranks, or the job's failure.
#ifndef CCOM_BOOTSTRAP_NETWORK_ROUNDS_H
#define CCOM_BOOTSTRAP_NETWORK_ROUNDS_H

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ccom/bootstrap/network_tree.h"

namespace neuron::ccom {

class NetworkRounds {
 public:
  NetworkRounds(NetworkJob& job, NetworkTree& tree) : job_(job), tree_(tree) {}

  Result<std::vector<Bytes>> all_gather(std::span<const std::byte> mine, base::Deadline deadline);
  // kGatherUp, kGatherDown and kRoundFailed. False: no such message from this neighbour.
  bool hear(Rank from, MessageType type, const Bytes& body);

 private:
  // A round at rank 0.
  struct Round {
    std::vector<Bytes> data;
    std::vector<bool> here;
    uint32_t come = 0;
    uint64_t timer = 0;
    base::Deadline until = base::Deadline::never();
  };
  // The answer that a caller waits for.
  struct Answer {
    bool there = false;
    std::vector<Bytes> data;
    std::optional<Error> error;
  };

  void gather_up(const GatherUp& message);
  void time_out(uint64_t number);
  void answer(uint64_t number, std::vector<Bytes> data, std::optional<Error> error);

  NetworkJob& job_;
  NetworkTree& tree_;
  std::map<uint64_t, Round> rounds_;                     // the loop's thread
  std::map<uint64_t, std::shared_ptr<Answer>> answers_;  // under job_.mutex, as is what follows
  uint64_t next_ = 0;
};

}  // namespace neuron::ccom

#endif
