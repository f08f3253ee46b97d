// SPDX-License-Identifier: Apache-2.0
// Brings the ranks of a job together, and reports the death of a rank.
//
// Concepts: rank 0 listens at the root address. Every rank connects, proves that it knows the job's
// secret (HMAC of a nonce, both ways), and sends its version, world size, host and capabilities.
// Rank 0 compares them. It answers with the table of all members, or with a sentence that names
// each rank that does not match. Afterwards ranks exchange small messages through a tree of
// connections; ranks of one host also exchange descriptors over a unix socket. A connection that
// closes without a farewell is a dead rank. In one process (join_all) threads do the same without
// sockets.
//
// Threads: each Bootstrap has one thread of its own for its sockets. The communicator's thread
// calls, any thread calls tell() and told(), and the thread inside calls on_failure handlers. Owns:
// sockets and descriptors, which are all closed at the end. Fails: CCOM_TIMEOUT, CCOM_MISMATCH,
// CCOM_REFUSED, CCOM_RANK_DEAD, with ranks and addresses.
#ifndef CCOM_BOOTSTRAP_BOOTSTRAP_H
#define CCOM_BOOTSTRAP_BOOTSTRAP_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/bootstrap/notices.h"
#include "ccom/schedule/step.h"
#include "driver/base/deadline.h"

namespace neuron::ccom {

using Bytes = std::vector<std::byte>;

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

struct JoinOptions {
  Rank rank = 0;
  uint32_t size = 1;
  std::string root;    // ADDRESS:PORT or [ADDRESS]:PORT
  std::string secret;  // empty: derived from the root's address
  // The plug-in that encrypts the connections (secure_channel.h); empty: they are not encrypted.
  std::string channel;
  base::Deadline deadline{base::Moment{}};
  bool shared_memory = true;
  uint64_t capabilities = 0;  // bits of this rank; the job agrees on those that all have
  uint32_t device = 0;        // chip of this rank
  std::string context;        // of a communicator derived from another: part of the secret's key
  uint16_t version = 0;       // of the library that the rank says it has; 0: this one
  // A neighbour on another host is dead if nothing came from it for this time. 0: never.
  std::chrono::milliseconds heartbeat{900};
};
// Asked while the ranks join, by the caller's thread. An error ends the join on this rank and, if
// it is rank 0, on those that have come.
using Interruption = std::function<std::optional<Error>()>;

struct Member {
  Rank rank = 0;
  std::string host;      // name for people
  uint64_t host_id = 0;  // equal for ranks that can share memory: boot id and user
  int32_t process = 0;
  uint32_t device = 0;
};

class Bootstrap {
 public:
  // `listener`: rank 0's socket at the root address, when it is open already; else -1. Takes it.
  static Result<std::unique_ptr<Bootstrap>> join(const JoinOptions& options, int listener = -1,
                                                 const Interruption& interrupted = nullptr);
  // Joins all ranks of a job in this process.
  static Result<std::vector<std::unique_ptr<Bootstrap>>> join_all(uint32_t size);

  virtual ~Bootstrap() = default;
  virtual Rank rank() const = 0;
  virtual const std::vector<Member>& members() const = 0;
  virtual uint64_t capabilities() const = 0;  // bits that all ranks have

  // Every rank gives `mine` (at most 64 KiB) and gets the contributions of all, by rank. All ranks
  // must make these calls in the same order.
  virtual Result<std::vector<Bytes>> all_gather(std::span<const std::byte> mine,
                                                base::Deadline deadline) = 0;
  Result<void> barrier(base::Deadline deadline);
  // Ranks of this host give a descriptor each and get duplicates of all of theirs, by rank; -1 for
  // ranks elsewhere. The caller owns the duplicates and keeps its own descriptor.
  virtual Result<std::vector<int>> exchange_descriptors(int mine, base::Deadline deadline) = 0;

  // Called once, from the thread inside, when a rank died or another aborted. The call may come
  // before on_failure() returns.
  virtual void on_failure(std::function<void(Rank, const Error&)> handler) = 0;
  // Tells all ranks that the communicator is over: their on_failure gets CCOM_ABORTED.
  virtual void abort(const Error& why) = 0;
  // Notices for all ranks, which end nothing. For each number, told() returns the first notice that
  // arrived (see Notices). Those of the program and of growths have numbers of their own. Sentences
  // are cut to CCOM_NOTICE_BYTES. Neither function waits.
  virtual void tell(NoticeAbout about, uint64_t number, const std::string& sentence) = 0;
  virtual std::optional<Notice> told(NoticeAbout about, uint64_t since) const = 0;
  // The ranks that are known to be dead; shrinking uses it.
  virtual std::vector<Rank> dead() const = 0;
  // Makes a new group of the ranks in `survivors` that call this with the same list before the
  // deadline.
  virtual Result<std::unique_ptr<Bootstrap>> regroup(const std::vector<Rank>& survivors,
                                                     base::Deadline deadline) = 0;
};

}  // namespace neuron::ccom

#endif
