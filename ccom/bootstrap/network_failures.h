// SPDX-License-Identifier: Apache-2.0
// Messages that reach every rank: a death, an abort, and notices.
//
// Concepts: every rank passes a message once to each of its other neighbours. It reaches all ranks
// even if the tree is broken, since each part has a neighbour of the dead rank. The first failure
// stays the failure of the job. Threads: as each group of functions says. Owns: notices and the
// handler of failures. Cannot fail.
#ifndef CCOM_BOOTSTRAP_NETWORK_FAILURES_H
#define CCOM_BOOTSTRAP_NETWORK_FAILURES_H

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ccom/bootstrap/network_tree.h"

namespace neuron::ccom {

class NetworkFailures {
 public:
  // `died`: called in the loop's thread after each death that is new.
  NetworkFailures(NetworkJob& job, NetworkTree& tree, std::function<void()> died)
      : job_(job), tree_(tree), died_(std::move(died)) {}

  // Any thread: as in Bootstrap.
  void on_failure(std::function<void(Rank, const Error&)> handler);
  void abort(const Error& why);
  void tell(NoticeAbout about, uint64_t number, const std::string& sentence);
  std::optional<Notice> told(NoticeAbout about, uint64_t since) const;
  std::vector<Rank> dead() const;
  std::optional<Error> failure() const;

  // The loop's thread:
  // kFailure, kNotice and kGrowthNotice. False: no such message.
  bool hear(Rank from, MessageType type, const Bytes& body);
  // `from`: the neighbour that already knows.
  void declare_dead(Rank rank, const std::string& sentence, Rank from);

 private:
  void spread(const Failure& failure, Rank from);
  void report(Rank rank, const Error& error);
  bool keep(NoticeAbout about, const Notice& notice);

  NetworkJob& job_;
  NetworkTree& tree_;
  std::function<void()> died_;
  std::set<Rank> aborted_;          // the loop's thread
  bool handler_called_ = false;     // the loop's thread
  std::array<Notices, 2> notices_;  // by NoticeAbout; under job_.mutex, as is the handler
  std::function<void(Rank, const Error&)> handler_;
};

}  // namespace neuron::ccom

#endif
