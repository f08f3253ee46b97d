// SPDX-License-Identifier: Apache-2.0
// What the parts of a NetworkBootstrap share: the members and the state of the job.
//
// Concepts: a job joins, then it is ready, then it is over for one of two reasons: this rank
// leaves, or a failure was reported. Threads: each field says which thread uses it. The loop's
// thread alone writes what both use, and holds `mutex` while it does so. Owns: the loop. Cannot
// fail.
#ifndef CCOM_BOOTSTRAP_NETWORK_JOB_H
#define CCOM_BOOTSTRAP_NETWORK_JOB_H

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "ccom/bootstrap/loop.h"

namespace neuron::ccom {

// How long a rank waits beyond its deadline for the answer of rank 0 about missing ranks.
inline constexpr std::chrono::milliseconds kGrace{400};

struct NetworkJob {
  explicit NetworkJob(const JoinOptions& given) : options(given) {}

  Rank rank() const { return options.rank; }
  const Member& me() const { return table.members[options.rank]; }
  bool is_parent(Rank other) const {
    return options.rank != 0 && other == tree_parent(options.rank);
  }

  const JoinOptions options;
  std::unique_ptr<Loop> loop;  // is stopped before anything that its callbacks use is destroyed
  Bytes key;                   // of handshakes: derived from the secret
  // The loop's thread writes these before join() returns; they are constant afterwards.
  Table table;
  Digest session{};
  Address door_address;

  // The loop's thread:
  bool ready = false;    // all ranks are in the tree
  bool leaving = false;  // no rank counts as lost any more
  bool failed = false;   // `failure` is there

  // Both threads:
  mutable std::mutex mutex;
  std::condition_variable changed;  // signals changes that a caller waits for
  std::set<Rank> dead;
  std::optional<std::pair<Rank, Error>> failure;  // the first that was reported
};

}  // namespace neuron::ccom

#endif
