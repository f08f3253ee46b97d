// SPDX-License-Identifier: Apache-2.0
// How a rank gets into the tree: to rank 0, from there to its parent, and to work when all are in.
#include <unistd.h>

#include <algorithm>

#include "ccom/bootstrap/host.h"
#include "ccom/bootstrap/local_bootstrap.h"
#include "ccom/bootstrap/network_bootstrap.h"
#include "ccom/bootstrap/rank_list.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

// What a rank waits beyond its deadline for rank 0 to say who is missing.
constexpr milliseconds kGrace{400};
// A handshake that the deadline leaves less than this says nothing about the other side.
constexpr milliseconds kTelling{1000};

}  // namespace

Result<std::unique_ptr<Bootstrap>> Bootstrap::join(const JoinOptions& options) {
  return NetworkBootstrap::join_at(options, -1);
}

Result<std::unique_ptr<Bootstrap>> NetworkBootstrap::join_at(const JoinOptions& options,
                                                             int listener) {
  if (options.size == 0 || options.size > kMaxRanks || options.rank >= options.size) {
    return fail(CCOM_INVALID, "rank {} of {} ranks: ranks are 0 to size - 1, and at most {} join",
                options.rank, options.size, kMaxRanks);
  }
  if (options.size == 1) {
    if (listener >= 0) {
      ::close(listener);
    }
    return std::move(make_local_group(1).front());
  }
  std::unique_ptr<NetworkBootstrap> made(new NetworkBootstrap(options));
  NEURON_CHECK(made->start(listener));
  NEURON_CHECK(made->await_join());
  return std::unique_ptr<Bootstrap>(std::move(made));
}

NetworkBootstrap::NetworkBootstrap(const JoinOptions& options) : options_(options) {}

Result<void> NetworkBootstrap::start(int listener) {
  const auto parsed = parse_address(options_.root);
  Result<int> opened = listener;
  if (!parsed) {
    opened = parsed.error();
  } else {
    root_ = *parsed;
    // Door, links, their timers; rank 0 has every rank as a guest, and strangers.
    const uint32_t needed = 48 + 2 * kTreeWidth +
                            (options_.rank == 0 ? options_.size + kMostStrangers : 0) +
                            2 * std::min(options_.size, 1024u);
    if (const auto reserved = reserve_descriptors(needed); !reserved) {
      opened = reserved.error();
    } else if (options_.rank == 0 && listener < 0) {
      opened = open_listener(root_, "rank 0 collects the ranks of its job");
    }
  }
  if (!opened) {
    if (listener >= 0) {
      ::close(listener);
    }
    return opened.error();
  }
  // Without a secret the root's address keeps jobs apart, not strangers out.
  const std::string secret =
      options_.secret.empty() ? "root address " + options_.root : "secret " + options_.secret;
  const Digest key =
      hmac_sha256(bytes_of(secret), bytes_of("libccom bootstrap " + options_.context));
  key_.assign(key.begin(), key.end());
  auto loop = Loop::make();
  if (!loop) {
    if (*opened >= 0) {
      ::close(*opened);
    }
    return loop.error();
  }
  loop_ = std::move(*loop);
  loop_->post([this, socket = *opened] {
    if (options_.rank == 0) {
      begin_root(socket);
    } else {
      seek_root();
    }
  });
  return {};
}

Result<void> NetworkBootstrap::await_join() {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, options_.deadline.later_by(kGrace).when(),
                      [&] { return joined_ || join_error_.has_value(); });
  if (joined_) {
    return {};
  }
  if (join_error_) {
    return *join_error_;
  }
  return fail(
      CCOM_TIMEOUT, "rank 0 at {} did not say in time who is missing ({} connections tried{}{})",
      options_.root, attempts_, last_trouble_.empty() ? "" : "; the last one: ", last_trouble_);
}

uint32_t NetworkBootstrap::remaining_ms() const {
  const auto left = std::chrono::duration_cast<milliseconds>(options_.deadline.remaining());
  return static_cast<uint32_t>(std::clamp<int64_t>(left.count(), 1, 24 * 3600 * 1000));
}

// Not beyond the deadline: what listens there and says nothing is to be named.
milliseconds NetworkBootstrap::handshake_time() const {
  return std::min(kHandshakeTime, milliseconds(remaining_ms()));
}

Join NetworkBootstrap::own_join() const {
  Join join;
  join.rank = options_.rank;
  join.size = options_.size;
  join.major = CCOM_VERSION_MAJOR;
  join.minor = options_.version != 0 ? options_.version : CCOM_VERSION_MINOR;
  join.host_id = host_identity();
  join.process = getpid();
  join.device = options_.device;
  join.capabilities = options_.capabilities;
  join.remaining_ms = remaining_ms();
  join.listener = door_address_;
  join.host = host_name();
  return join;
}

bool NetworkBootstrap::open_door(Address at) {
  at.port = 0;
  const auto listener =
      open_listener(at, format("rank {} waits for its neighbours", options_.rank));
  if (!listener) {
    fail_join(listener.error());
    return false;
  }
  door_address_ = at;
  door_ = std::make_unique<Door>(*loop_, *listener, key_,
                                 [this](LinkPointer link) { visit(std::move(link)); });
  return true;
}

void NetworkBootstrap::begin_root(int listener) {
  if (!open_door(root_)) {
    ::close(listener);
    return;
  }
  Rendezvous::Events events;
  events.complete = [this](Table table, Digest session) {
    table_ = std::move(table);
    session_ = session;
    placed_ = true;
    for (auto& [link, attach] : std::exchange(early_, {})) {
      take_child(link, encode(attach));
    }
  };
  events.failed = [this](const Error& error) { fail_join(error); };
  events.unconnected = [this] {
    std::vector<Rank> ranks;
    for (const Rank child : children()) {
      // Those that are connected, but not ready, wait for others behind them.
      if (neighbours_.count(child) == 0) ranks.push_back(child);
    }
    for (const Rank child : children()) {
      if (ranks.empty() && ready_children_.count(child) == 0) ranks.push_back(child);
    }
    return ranks;
  };
  rendezvous_ = std::make_unique<Rendezvous>(*loop_, listener, key_, own_join(), std::move(events));
}

// The caller of join() reads it when its time is over.
void NetworkBootstrap::note_trouble(const std::string& why) {
  const std::lock_guard lock(mutex_);
  last_trouble_ = why;
}

void NetworkBootstrap::seek_root() {
  if (gone_) {
    return;
  }
  if (options_.deadline.expired()) {
    fail_join(fail(CCOM_TIMEOUT,
                   "rank 0 was not reached: {} (tried {} times); start it on the host with this "
                   "address, or give more time (CCOM_TIMEOUT_MS)",
                   attempts_ == 0          ? "no time was left to try " + options_.root
                   : last_trouble_.empty() ? "nothing listens at " + options_.root
                                           : last_trouble_,
                   attempts_));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ++attempts_;
  }
  const milliseconds time(std::min<uint32_t>(remaining_ms(), 2000));
  loop_->connect(root_, time, [this](LinkPointer link, const std::string& why, bool) {
    if (link == nullptr) {
      note_trouble(why);
      loop_->after(milliseconds(std::min<uint32_t>(5 * attempts_, 100)), [this] { seek_root(); });
      return;
    }
    meet_root(std::move(link));
  });
}

void NetworkBootstrap::meet_root(LinkPointer link) {
  root_link_ = link;
  const bool telling = handshake_time() >= kTelling || attempts_ == 1;
  prove(*loop_, link, key_, handshake_time(), [this, telling](const Error* error) {
    if (error != nullptr && error->status != CCOM_SYSTEM && error->status != CCOM_TIMEOUT) {
      fail_join(*error);
      return;
    }
    const auto again = [this](const std::string& why, bool note = true) {
      if (!ready_ && !placed_) {
        if (note) note_trouble(why);
        loop_->after(milliseconds(20), [this] { seek_root(); });
      }
    };
    if (error != nullptr) {
      again(error->sentence, telling || error->status != CCOM_TIMEOUT);
      return;
    }
    if (door_ == nullptr && !open_door(root_link_->local())) {
      return;
    }
    root_link_->limit(1u << 16);
    root_link_->listen([this](MessageType type, const Bytes& body) { hear_root(type, body); },
                       [this, again](const std::string& why) {
                         // In the tree, its connections tell: rank 0 lets guests go when it
                         // stands.
                         if (placed_ && neighbours_.count(tree_parent(options_.rank)) != 0) {
                           return;
                         }
                         if (placed_ && !ready_) {
                           fail_join(fail(CCOM_RANK_DEAD,
                                          "rank 0 at {} went away while ranks "
                                          "joined: {}",
                                          options_.root, why));
                           return;
                         }
                         again(format("{} ended the connection: {}", options_.root, why));
                       });
    root_link_->send(MessageType::kJoin, encode(own_join()));
  });
}

void NetworkBootstrap::hear_root(MessageType type, const Bytes& body) {
  TreePlace place;
  Refuse refusal;
  if (type == MessageType::kRefuse && decode(body, refusal)) {
    fail_join({static_cast<ccom_status_t>(refusal.status), refusal.sentence});
  } else if (type == MessageType::kPlace && !placed_ && decode(body, place) &&
             place.parent == tree_parent(options_.rank)) {
    placed_ = true;
    session_ = place.session;
    attach(place);
    for (auto& [link, early] : std::exchange(early_, {})) {
      take_child(link, encode(early));
    }
  } else {
    fail_join(
        fail(CCOM_SYSTEM, "rank 0 at {} sent a message that makes no sense here", options_.root));
  }
}

void NetworkBootstrap::attach(const TreePlace& place) {
  loop_->connect(place.address, milliseconds(std::min<uint32_t>(remaining_ms(), 5000)),
                 [this, place](LinkPointer link, const std::string& why, bool) {
                   if (link != nullptr) {
                     attach_to(std::move(link), place);
                   } else if (!options_.deadline.expired() && !gone_) {
                     note_trouble(format("parent rank {}: {}", place.parent, why));
                     loop_->after(milliseconds(50), [this, place] { attach(place); });
                   }
                 });
}

void NetworkBootstrap::attach_to(LinkPointer link, const TreePlace& place) {
  prove(*loop_, link, key_, handshake_time(), [this, link, place](const Error* error) {
    if (error != nullptr) {
      note_trouble(format("parent rank {}: {}", place.parent, error->sentence));
      if (!options_.deadline.expired() && !gone_) {
        loop_->after(milliseconds(50), [this, place] { attach(place); });
      }
      return;
    }
    link->send(MessageType::kAttach, encode(Attach{session_, options_.rank}));
    Neighbour& parent = neighbours_[place.parent];
    parent = {place.parent, link, false, base::Clock::now()};
    settle(parent);
    check_ready();
  });
}

void NetworkBootstrap::visit(LinkPointer link) {
  visitors_.insert(link);
  const std::weak_ptr<Link> weak = link;
  // A visitor that says nothing is sent away.
  const uint64_t timer = loop_->after(kHandshakeTime, [this, weak] {
    if (const LinkPointer here = weak.lock(); here && visitors_.erase(here) != 0) {
      here->close(false);
    }
  });
  link->limit(kJoinBytes + 4 * options_.size);
  link->listen(
      [this, weak, timer](MessageType type, const Bytes& body) {
        const LinkPointer here = weak.lock();
        if (here == nullptr || visitors_.erase(here) == 0) {
          return;
        }
        loop_->cancel(timer);
        Regroup request;
        if (type == MessageType::kAttach && !ready_) {
          take_child(here, body);
        } else if (type == MessageType::kRegroup && ready_ && decode(body, request)) {
          gather_survivor(request, here);
        } else {
          here->close(false);
        }
      },
      [this, weak, timer](const std::string&) {
        loop_->cancel(timer);
        visitors_.erase(weak.lock());
      });
}

void NetworkBootstrap::take_child(const LinkPointer& link, const Bytes& body) {
  Attach attach;
  if (!decode(body, attach)) {
    link->close(false);
    return;
  }
  if (!placed_) {
    // The child heard from rank 0 before this rank did.
    if (early_.size() < kTreeWidth) {
      early_.emplace_back(link, attach);
    } else {
      link->close(false);
    }
    return;
  }
  if (!equal_digests(attach.session, session_) || attach.rank >= options_.size ||
      attach.rank == 0 || tree_parent(attach.rank) != options_.rank) {
    link->close(false);
    return;
  }
  const auto known = neighbours_.find(attach.rank);
  if (known != neighbours_.end()) {
    known->second.link->close(false);  // it has tried again
  }
  Neighbour& child = neighbours_[attach.rank];
  child = {attach.rank, link, false, base::Clock::now()};
  settle(child);
  check_ready();
}

std::vector<Rank> NetworkBootstrap::children() const {
  std::vector<Rank> ranks;
  const uint64_t first = uint64_t{options_.rank} * kTreeWidth + 1;
  for (uint64_t i = first; i < first + kTreeWidth && i < options_.size; ++i) {
    ranks.push_back(static_cast<Rank>(i));
  }
  return ranks;
}

void NetworkBootstrap::check_ready() {
  // A join that has failed stays failed: whoever was told so does not come any more, and who is
  // gone does not listen to the news of later deaths.
  if (ready_ || gone_ || ready_children_.size() != children().size()) {
    return;
  }
  if (options_.rank != 0) {
    const auto parent = neighbours_.find(tree_parent(options_.rank));
    if (parent != neighbours_.end()) {
      parent->second.link->send(MessageType::kReady, {});
    }
    return;
  }
  // The tree stands. A rank that is through may begin a new job at the same address at once.
  if (placed_) {
    Rendezvous* const done = rendezvous_.get();
    done->release();
    send_down(MessageType::kTable, encode(table_));
    send_down(MessageType::kGo, {});
    go();
  }
}

void NetworkBootstrap::go() {
  ready_ = true;
  if (root_link_ != nullptr) {
    root_link_->close(true);
    root_link_.reset();
  }
  watch_neighbours();
  const std::lock_guard lock(mutex_);
  joined_ = true;
  changed_.notify_all();
}

void NetworkBootstrap::fail_join(const Error& error) {
  if (ready_) {
    return;
  }
  gone_ = true;
  if (rendezvous_ != nullptr) {
    rendezvous_->fail_all(error);
  }
  const std::lock_guard lock(mutex_);
  if (!join_error_) {
    join_error_ = error;
  }
  changed_.notify_all();
}

}  // namespace neuron::ccom
