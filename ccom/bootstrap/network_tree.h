// SPDX-License-Identifier: Apache-2.0
// The connections of a rank to its neighbours: its parent, and at most kTreeWidth children.
//
// Concepts: a neighbour is lost when its connection closes without a farewell, when its process on
// this host ends, or when nothing came from it for the heartbeat's time over a network. Threads:
// the loop's. Owns: the links. Fails: events.lost with the reason; nothing throws.
#ifndef CCOM_BOOTSTRAP_NETWORK_TREE_H
#define CCOM_BOOTSTRAP_NETWORK_TREE_H

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ccom/bootstrap/network_job.h"

namespace neuron::ccom {

class NetworkTree {
 public:
  struct Events {
    // False: the message makes no sense here, and its sender counts as lost.
    std::function<bool(Rank from, MessageType type, const Bytes& body)> heard;
    // Not called for a neighbour that said farewell, nor when this rank is leaving.
    std::function<void(Rank rank, const std::string& why)> lost;
  };

  NetworkTree(NetworkJob& job, Events events) : job_(job), events_(std::move(events)) {}

  // Replaces an earlier connection to the same rank.
  void add(Rank rank, LinkPointer link);
  void remove(Rank rank) { neighbours_.erase(rank); }
  bool has(Rank rank) const { return neighbours_.count(rank) != 0; }
  std::vector<Rank> children() const;  // the children that this rank must have

  // Does nothing on the rank without a parent.
  void send_up(MessageType type, const Bytes& body);
  void send_down(MessageType type, const Bytes& body);
  void send_all(MessageType type, const Bytes& body, Rank except);

  // Called when all ranks are in the tree: begins to watch processes and heartbeats.
  void watch();
  // Whether a living child has not said farewell: it may still need messages that this rank passes
  // on.
  bool has_followers() const;
  // Says farewell, if the job was ready, and closes everything.
  void leave();

 private:
  struct Neighbour {
    LinkPointer link;
    base::Moment heard;
    bool left = false;   // it said farewell, or counts as lost
    bool ended = false;  // its connection closed; how its process ended is not known yet
    // How its process ended; kept because the process's parent may reap it at any time.
    std::string how{};
  };

  void hear(Rank from, MessageType type, const Bytes& body);
  void lose(Rank rank, const std::string& why);
  // Checks again until the system says how the process ended, then loses the rank.
  void examine(Rank rank, const std::string& why, uint32_t times);
  bool in_other_process_of_host(Rank rank) const;
  const std::string& reason_of(Rank rank);
  void watch_process(Rank rank);
  void beat();

  NetworkJob& job_;
  Events events_;
  std::map<Rank, Neighbour> neighbours_;
};

}  // namespace neuron::ccom

#endif
