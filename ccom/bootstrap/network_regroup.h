// SPDX-License-Identifier: Apache-2.0
// A new group from an old one: of ranks that all agree, or of those that a failure left.
//
// Concepts: one rank collects, the lowest one that answers. Its loop does so even when its caller
// takes no part. It waits for all ranks that are asked for and are alive, at most three quarters of
// the time there is. Then it tells those that came who they are and where the new group's rank 0
// listens. Threads: regroup() is a caller's, the rest is the loop's. Owns: gatherings. Fails:
// CCOM_TIMEOUT when no rank collects, or when this rank comes too late.
#ifndef CCOM_BOOTSTRAP_NETWORK_REGROUP_H
#define CCOM_BOOTSTRAP_NETWORK_REGROUP_H

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ccom/bootstrap/network_failures.h"

namespace neuron::ccom {

class NetworkRegroup {
 public:
  // With what a rank joins its new group.
  struct NewGroup {
    JoinOptions options;
    int listener = -1;  // of the new rank 0, at the root address
  };

  NetworkRegroup(NetworkJob& job, NetworkFailures& failures) : job_(job), failures_(failures) {}

  Result<NewGroup> regroup(const std::vector<Rank>& survivors, base::Deadline deadline);
  // A rank came to this one, which is to collect.
  void gather(const Regroup& request, LinkPointer link);
  // Ranks have died: gatherings may be complete without them.
  void decide_all();

 private:
  // What a caller waits for.
  struct Answer {
    bool there = false;
    Bytes decision;
    std::optional<Error> error;
  };
  struct Comer {
    Regroup request;
    LinkPointer link;                // null: this rank itself
    std::shared_ptr<Answer> answer;  // of this rank
  };
  struct Gathering {
    std::map<Rank, Comer> come;
    std::set<Rank> expected;
    uint64_t timer = 0;
    base::Deadline until = base::Deadline::never();
  };

  void gather(const Regroup& request, LinkPointer link, std::shared_ptr<Answer> answer);
  void decide(uint64_t key, bool late);
  void probe(uint64_t key);
  void declare_gone(Rank rank, const std::string& why);
  void seek_coordinator(Regroup request, size_t candidate, std::shared_ptr<Answer> answer);
  void seek_further(Regroup request, size_t candidate, std::shared_ptr<Answer> answer);
  void ask_coordinator(Regroup request, size_t candidate, std::shared_ptr<Answer> answer,
                       LinkPointer link);
  void finish(const std::shared_ptr<Answer>& answer, Bytes decision, std::optional<Error> error);

  NetworkJob& job_;
  NetworkFailures& failures_;
  std::map<uint64_t, Gathering> gatherings_;  // the loop's thread, as what follows
  std::set<uint64_t> decided_;                // keys of gatherings that are over
  std::map<uint64_t, uint32_t> counts_;       // under job_.mutex: by key without its count
};

}  // namespace neuron::ccom

#endif
