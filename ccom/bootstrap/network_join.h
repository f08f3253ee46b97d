// SPDX-License-Identifier: Apache-2.0
// How a rank gets into the tree: it connects to rank 0, then to its parent, and is ready when all
// ranks are in.
//
// Concepts: rank 0 gives each rank its place, and the parent may hear of it later than the child.
// Such an early child waits. Every rank has a door of its own, for its children and later for ranks
// that regroup. Threads: the caller calls start() and wait(), the loop everything else. Owns:
// doors, the connection to rank 0, visitors. Fails: wait() with the sentence of rank 0, or with
// this rank's own trouble.
#ifndef CCOM_BOOTSTRAP_NETWORK_JOIN_H
#define CCOM_BOOTSTRAP_NETWORK_JOIN_H

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ccom/bootstrap/network_tree.h"
#include "ccom/bootstrap/rendezvous.h"

namespace neuron::ccom {

class NetworkJoin {
 public:
  // `survivor`: a rank came through the door of a job that is ready, to regroup.
  NetworkJoin(NetworkJob& job, NetworkTree& tree,
              std::function<void(const Regroup&, LinkPointer)> survivor)
      : job_(job), tree_(tree), survivor_(std::move(survivor)) {}

  // `listener`: rank 0's socket at the root address if it is open already, else -1. Takes
  // ownership.
  Result<void> start(int listener);
  Result<void> wait(const Interruption& interrupted);
  bool done() const;  // any thread

  // kReady, kTable and kGo. False: no such message from this neighbour.
  bool hear(Rank from, MessageType type, const Bytes& body);
  // Before the job is ready: a lost child may come again; a lost parent ends the join.
  void lose(Rank rank, const std::string& why);
  // Closes the doors and the connection to rank 0.
  void leave();

 private:
  void begin_root(int listener);
  void seek_root();
  void note_trouble(const std::string& why);
  void meet_root(LinkPointer link);
  void hear_root(MessageType type, const Bytes& body);
  void attach(const TreePlace& place);
  void attach_to(LinkPointer link, const TreePlace& place);
  bool open_door(Address at);
  void visit(LinkPointer link);  // a connection came through the door
  void take_child(const LinkPointer& link, const Bytes& body);
  void take_early_children();
  void check_ready();
  void go();
  void give_up(const Error& error);
  uint32_t remaining_ms() const;
  std::chrono::milliseconds handshake_time() const;
  Join own_join() const;

  NetworkJob& job_;
  NetworkTree& tree_;
  std::function<void(const Regroup&, LinkPointer)> survivor_;
  Address root_;

  // The loop's thread:
  std::unique_ptr<Door> door_;
  std::unique_ptr<Rendezvous> rendezvous_;
  LinkPointer root_link_;
  bool placed_ = false;
  std::set<Rank> ready_children_;
  std::vector<std::pair<LinkPointer, Attach>> early_;  // children that came too early
  std::set<LinkPointer> visitors_;

  // Under job_.mutex:
  uint32_t attempts_ = 0;  // the loop's thread alone writes it
  std::string last_trouble_;
  bool joined_ = false;
  std::optional<Error> error_;
};

}  // namespace neuron::ccom

#endif
