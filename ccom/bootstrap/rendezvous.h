// SPDX-License-Identifier: Apache-2.0
// What rank 0 does while a job comes together: it collects all ranks, compares them and places
// them.
//
// Concepts: a guest is a rank that has proven the secret and sent its identity. If one does not
// match, the others have a moment to come; then all get one sentence that names each rank that does
// not match. When all ranks are there, each learns its parent in the tree of connections. Guests
// stay until the tree is complete. Threads: the loop's. Owns: the listening socket, the guests'
// connections. Fails: the sentence goes to every guest and to rank 0.
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
    // Returns the children of rank 0 that have not connected; if all have, those that are not
    // ready.
    std::function<std::vector<Rank>()> unconnected;
  };

  // Takes ownership of the listening socket. `own`: rank 0's entry; its size is the one that
  // counts.
  Rendezvous(Loop& loop, int listener, const Bytes& key, Join own, Events events);
  ~Rendezvous();

  // Ends the join for all. It calls `events.failed`, which must not destroy this object.
  void fail_all(const Error& error);
  // Releases the guests when the tree is complete.
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
  bool over_ = false;  // no further rank is accepted
  bool told_ = false;  // a failure was reported
};

}  // namespace neuron::ccom

#endif
