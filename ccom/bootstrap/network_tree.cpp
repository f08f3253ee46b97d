// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/network_tree.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "ccom/bootstrap/host.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBeat{200};
// The time from the end of a connection, or of a process, to the verdict that its rank is dead.
constexpr milliseconds kAutopsy{10};
// How many such times to wait while the system is still ending the process.
constexpr uint32_t kAutopsies = 5;

}  // namespace

void NetworkTree::add(Rank rank, LinkPointer link) {
  if (const auto known = neighbours_.find(rank); known != neighbours_.end()) {
    known->second.link->close(false);  // the rank has tried again
  }
  Neighbour& neighbour = neighbours_[rank];
  neighbour = {std::move(link), base::Clock::now()};
  const uint64_t most = uint64_t{job_.options.size} * (kGatherBytes + 16) + 4096;
  neighbour.link->limit(static_cast<uint32_t>(std::min<uint64_t>(most, 1u << 30)));
  neighbour.link->listen(
      [this, rank](MessageType type, const Bytes& body) { hear(rank, type, body); },
      [this, rank](const std::string& why) {
        // The sockets of a process close before the system knows how it ended.
        if (job_.ready && reason_of(rank).empty() && in_other_process_of_host(rank)) {
          neighbours_[rank].ended = true;
          job_.loop->after(kAutopsy, [this, rank, why] { examine(rank, why, 1); });
        } else {
          lose(rank, why);
        }
      });
}

std::vector<Rank> NetworkTree::children() const {
  std::vector<Rank> ranks;
  const uint64_t first = uint64_t{job_.rank()} * kTreeWidth + 1;
  for (uint64_t i = first; i < first + kTreeWidth && i < job_.options.size; ++i) {
    ranks.push_back(static_cast<Rank>(i));
  }
  return ranks;
}

void NetworkTree::hear(Rank from, MessageType type, const Bytes& body) {
  Neighbour& neighbour = neighbours_[from];
  neighbour.heard = base::Clock::now();
  if (type == MessageType::kBeat) {
    return;
  }
  if (type == MessageType::kFarewell) {
    neighbour.left = true;
    return;
  }
  if (!events_.heard(from, type, body)) {
    neighbour.link->close(false);
    lose(from, "it sent a message that makes no sense here");
  }
}

void NetworkTree::send_up(MessageType type, const Bytes& body) {
  if (job_.rank() == 0) {
    return;
  }
  const auto parent = neighbours_.find(tree_parent(job_.rank()));
  if (parent != neighbours_.end()) {
    parent->second.link->send(type, body);
  }
}

void NetworkTree::send_down(MessageType type, const Bytes& body) {
  for (auto& [rank, neighbour] : neighbours_) {
    if (rank > job_.rank()) {
      neighbour.link->send(type, body);
    }
  }
}

void NetworkTree::send_all(MessageType type, const Bytes& body, Rank except) {
  for (auto& [rank, neighbour] : neighbours_) {
    if (rank != except) {
      neighbour.link->send(type, body);
    }
  }
}

void NetworkTree::lose(Rank rank, const std::string& why) {
  Neighbour& neighbour = neighbours_[rank];
  neighbour.link->close(false);
  if (job_.leaving || neighbour.left) {
    return;
  }
  const std::string& how = reason_of(rank);
  events_.lost(rank, how.empty() ? why : std::string(how));
}

void NetworkTree::examine(Rank rank, const std::string& why, uint32_t times) {
  if (times < kAutopsies && job_.dead.count(rank) == 0 && reason_of(rank).empty() &&
      kill(job_.table.members[rank].process, 0) == 0) {
    job_.loop->after(kAutopsy, [this, rank, why, times] { examine(rank, why, times + 1); });
  } else {
    lose(rank, why);
  }
}

bool NetworkTree::in_other_process_of_host(Rank rank) const {
  const Member& member = job_.table.members[rank];
  return member.host_id == job_.me().host_id && member.process != job_.me().process;
}

const std::string& NetworkTree::reason_of(Rank rank) {
  std::string& how = neighbours_[rank].how;
  if (how.empty() && job_.ready && in_other_process_of_host(rank)) {
    how = exit_reason(job_.table.members[rank].process);
  }
  return how;
}

void NetworkTree::watch() {
  bool remote = false;
  for (auto& [rank, neighbour] : neighbours_) {
    neighbour.heard = base::Clock::now();
    if (job_.table.members[rank].host_id != job_.me().host_id) {
      remote = true;
    } else if (in_other_process_of_host(rank)) {
      watch_process(rank);
    }
  }
  if (remote && job_.options.heartbeat.count() != 0) {
    job_.loop->after(kBeat, [this] { beat(); });
  }
}

// A child process of the rank may still hold its sockets, so the end of the process itself counts.
void NetworkTree::watch_process(Rank rank) {
  const auto process =
      static_cast<int>(syscall(SYS_pidfd_open, job_.table.members[rank].process, 0));
  if (process < 0) {
    return;
  }
  job_.loop->watch(process, [this, rank] {
    static_cast<void>(reason_of(rank));
    // Messages that the rank sent before its end are read first.
    if (neighbours_[rank].ended) {
      lose(rank, "its process ended");
    } else {
      job_.loop->after(kAutopsy, [this, rank] { lose(rank, "its process ended"); });
    }
  });
}

void NetworkTree::beat() {
  if (job_.leaving) {
    return;
  }
  std::vector<Rank> silent;
  for (auto& [rank, neighbour] : neighbours_) {
    if (job_.table.members[rank].host_id == job_.me().host_id || neighbour.left) {
      continue;
    }
    neighbour.link->send(MessageType::kBeat, {});
    if (base::Clock::now() - neighbour.heard > job_.options.heartbeat) {
      silent.push_back(rank);
    }
  }
  for (const Rank rank : silent) {
    const LinkPointer link = neighbours_[rank].link;
    lose(rank,
         format("no sign of it for {} ms on the connection {} -> {}",
                job_.options.heartbeat.count(), text_of(link->local()), text_of(link->remote())));
    neighbours_[rank].left = true;
  }
  job_.loop->after(std::clamp(job_.options.heartbeat / 4, milliseconds(1), kBeat),
                   [this] { beat(); });
}

bool NetworkTree::has_followers() const {
  return std::any_of(neighbours_.begin(), neighbours_.end(), [this](const auto& entry) {
    return entry.first > job_.rank() && !entry.second.left && job_.dead.count(entry.first) == 0;
  });
}

void NetworkTree::leave() {
  for (auto& [rank, neighbour] : neighbours_) {
    if (job_.ready) {
      neighbour.link->send(MessageType::kFarewell, {});
    }
    neighbour.link->close(true);
  }
}

}  // namespace neuron::ccom
