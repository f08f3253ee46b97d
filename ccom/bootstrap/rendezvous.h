// SPDX-License-Identifier: Apache-2.0
// What rank 0 does while a job comes together: collects all ranks, compares them, places them.
//
// Concepts: a guest is a rank that has proven the secret and said who it is. When one does not fit,
// the others have a moment to come, then all hear one sentence that names each that does not. When
// all are there, each learns its parent in the tree of connections; they stay guests until the tree
// stands. Threads: the loop's. Owns: the listening socket, the guests' connections. Fails: the
// sentence goes to every guest and to rank 0.
#ifndef CCOM_BOOTSTRAP_RENDEZVOUS_H
#define CCOM_BOOTSTRAP_RENDEZVOUS_H

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ccom/bootstrap/handshake.h"
#include "ccom/bootstrap/message.h"

namespace neuron::ccom {

class Rendezvous {
 public:
  struct Events {
    std::function<void(Table table, Digest session)> complete;
    std::function<void(const Error& error)> failed;
    // Of the ranks that connect to rank 0, those that have not, or else are not ready.
    std::function<std::vector<Rank>()> unconnected;
  };

  // Takes the listening socket. `own`: rank 0's entry, with the size that counts.
  Rendezvous(Loop& loop, int listener, const Bytes& key, Join own, Events events);
  ~Rendezvous();

  // Ends the join for all; `events.failed` is called, and must not destroy this.
  void fail_all(const Error& error);
  // The tree stands: guests are released.
  void release();

 private:
  void admit(LinkPointer link);
  void hear(const LinkPointer& link, const Bytes& body);
  void expect_until(uint32_t remaining_ms);
  void time_out();
  void compare(const Join& join, const std::string& where);
  void place();
  void refuse_all(const Error& error);
  std::string here_and_missing() const;

  struct Guest {
    Join join;
    LinkPointer link;
  };

  Loop& loop_;
  std::unique_ptr<Door> door_;
  Events events_;
  Join own_;
  std::map<Rank, Guest> guests_;
  std::vector<LinkPointer> unnamed_;  // admitted, but not yet joined
  std::vector<std::string> complaints_;
  uint64_t timer_ = 0, complaint_timer_ = 0;
  base::Deadline deadline_ = base::Deadline::never();
  bool over_ = false;  // nobody else is taken
  bool told_ = false;  // of a failure
};

}  // namespace neuron::ccom

#endif
