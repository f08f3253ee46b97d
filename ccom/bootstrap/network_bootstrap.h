// SPDX-License-Identifier: Apache-2.0
// Ranks in several processes: a tree of connections, with rank 0 at its root.
//
// Concepts: a NetworkBootstrap joins its parts and gives each message to its part. NetworkJoin
// brings the ranks into the tree, NetworkTree keeps the connections and notices lost ranks,
// NetworkFailures tells all ranks of them, NetworkRounds gathers, NetworkRegroup makes new groups.
// Threads: functions with a comment "loop" belong to the thread inside; callers wait for
// NetworkJob's `changed`. Owns: the parts. Fails: as Bootstrap says.
#ifndef CCOM_BOOTSTRAP_NETWORK_BOOTSTRAP_H
#define CCOM_BOOTSTRAP_NETWORK_BOOTSTRAP_H

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ccom/bootstrap/network_failures.h"
#include "ccom/bootstrap/network_join.h"
#include "ccom/bootstrap/network_regroup.h"
#include "ccom/bootstrap/network_rounds.h"

namespace neuron::ccom {

class NetworkBootstrap : public Bootstrap {
 public:
  // `listener`: rank 0's socket at the root address, when it is open already; else -1. Takes it.
  static Result<std::unique_ptr<Bootstrap>> join_at(const JoinOptions& options, int listener,
                                                    const Interruption& interrupted = nullptr);
  ~NetworkBootstrap() override;

  Rank rank() const override { return job_.rank(); }
  const std::vector<Member>& members() const override { return job_.table.members; }
  uint64_t capabilities() const override { return job_.table.capabilities; }
  Result<std::vector<Bytes>> all_gather(std::span<const std::byte> mine,
                                        base::Deadline deadline) override {
    return rounds_.all_gather(mine, deadline);
  }
  Result<std::vector<int>> exchange_descriptors(int mine, base::Deadline deadline) override;
  void on_failure(std::function<void(Rank, const Error&)> handler) override {
    failures_.on_failure(std::move(handler));
  }
  void abort(const Error& why) override { failures_.abort(why); }
  void tell(NoticeAbout about, uint64_t number, const std::string& sentence) override {
    failures_.tell(about, number, sentence);
  }
  std::optional<Notice> told(NoticeAbout about, uint64_t since) const override {
    return failures_.told(about, since);
  }
  std::vector<Rank> dead() const override { return failures_.dead(); }
  Result<std::unique_ptr<Bootstrap>> regroup(const std::vector<Rank>& survivors,
                                             base::Deadline deadline) override;

 private:
  explicit NetworkBootstrap(const JoinOptions& options);

  bool hear(Rank from, MessageType type, const Bytes& body);  // loop
  void lose(Rank rank, const std::string& why);               // loop
  // Passes news on until the ranks behind this one have left, then closes everything.
  void leave(base::Deadline until);  // loop

  NetworkJob job_;  // first: the parts hold connections of its loop
  NetworkTree tree_;
  NetworkFailures failures_;
  NetworkRounds rounds_;
  NetworkRegroup regroup_;
  NetworkJoin join_;
  bool left_ = false;  // under job_.mutex
};

}  // namespace neuron::ccom

#endif
