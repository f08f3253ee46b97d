// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/network_join.h"

#include <unistd.h>

#include <algorithm>

#include "ccom/bootstrap/host.h"
#include "ccom/bootstrap/rank_list.h"
#include "driver/base/hmac_sha256.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

// How much later rank 0's message about the end of a join may come than the end of another
// connection.
constexpr milliseconds kWordTime{100};
// If the deadline leaves a handshake less than this, its timeout says nothing about the other side.
constexpr milliseconds kTelling{1000};
// Between two questions whether the join is interrupted.
constexpr milliseconds kQuestionTime{10};

Result<std::unique_ptr<Loop>> make_loop(const JoinOptions& options, const std::string& secret) {
  std::unique_ptr<SecureChannel> channel;
  if (!options.channel.empty()) {
    // Not the key of the proofs: what gives one of them away does not give away the other.
    const Digest key =
        base::hmac_sha256(bytes_of(secret), bytes_of("libccom channel " + options.context));
    NEURON_TRY(opened, SecureChannel::open(options.channel, std::as_bytes(std::span(key))));
    channel = std::move(opened);
  }
  return Loop::make(std::move(channel));
}

}  // namespace

Result<void> NetworkJoin::start(int listener) {
  const auto parsed = parse_address(job_.options.root);
  Result<int> opened = listener;
  if (!parsed) {
    opened = parsed.error();
  } else {
    root_ = *parsed;
    // The door, links and their timers; on rank 0 also a guest for every rank, and strangers.
    const uint32_t needed = 48 + 2 * kTreeWidth +
                            (job_.rank() == 0 ? job_.options.size + kMostStrangers : 0) +
                            2 * std::min(job_.options.size, 1024u);
    if (const auto reserved = reserve_descriptors(needed); !reserved) {
      opened = reserved.error();
    } else if (job_.rank() == 0 && listener < 0) {
      opened = open_listener(root_, "rank 0 collects the ranks of its job");
    }
  }
  if (!opened) {
    if (listener >= 0) {
      ::close(listener);
    }
    return opened.error();
  }
  // Without a secret, the root's address separates jobs but does not keep strangers out.
  const std::string secret = job_.options.secret.empty() ? "root address " + job_.options.root
                                                         : "secret " + job_.options.secret;
  const Digest key =
      base::hmac_sha256(bytes_of(secret), bytes_of("libccom bootstrap " + job_.options.context));
  const auto bytes = std::as_bytes(std::span(key));
  job_.key.assign(bytes.begin(), bytes.end());
  auto loop = make_loop(job_.options, secret);
  if (!loop) {
    if (*opened >= 0) {
      ::close(*opened);
    }
    return loop.error();
  }
  job_.loop = std::move(*loop);
  job_.loop->post([this, socket = *opened] {
    if (job_.rank() == 0) {
      begin_root(socket);
    } else {
      seek_root();
    }
  });
  return {};
}

Result<void> NetworkJoin::wait(const Interruption& interrupted) {
  const base::Deadline end = job_.options.deadline.later_by(kGrace);
  const auto over = [&] { return joined_ || error_.has_value(); };
  bool asks = interrupted != nullptr;
  std::unique_lock lock(job_.mutex);
  while (asks && !over() && !end.expired()) {
    job_.changed.wait_until(lock, std::min(end, base::Deadline::after(kQuestionTime)).when(), over);
    lock.unlock();
    if (const auto error = interrupted()) {
      job_.loop->post([this, error] { give_up(*error); });
      asks = false;
    }
    lock.lock();
  }
  job_.changed.wait_until(lock, end.when(), over);
  if (joined_) {
    return {};
  }
  if (error_) {
    return *error_;
  }
  return fail(
      CCOM_TIMEOUT, "rank 0 at {} did not say in time who is missing ({} connections tried{}{})",
      job_.options.root, attempts_, last_trouble_.empty() ? "" : "; the last one: ", last_trouble_);
}

uint32_t NetworkJoin::remaining_ms() const {
  const auto left = std::chrono::duration_cast<milliseconds>(job_.options.deadline.remaining());
  return static_cast<uint32_t>(std::clamp<int64_t>(left.count(), 1, 24 * 3600 * 1000));
}

// It ends before the deadline, so that the error can name a silent listener.
milliseconds NetworkJoin::handshake_time() const {
  return std::min(kHandshakeTime, milliseconds(remaining_ms()));
}

Join NetworkJoin::own_join() const {
  Join join;
  join.rank = job_.rank();
  join.size = job_.options.size;
  join.major = CCOM_VERSION_MAJOR;
  join.minor = job_.options.version != 0 ? job_.options.version : CCOM_VERSION_MINOR;
  join.host_id = host_identity();
  join.process = getpid();
  join.device = job_.options.device;
  join.capabilities = job_.options.capabilities;
  join.remaining_ms = remaining_ms();
  join.listener = job_.door_address;
  join.host = host_name();
  return join;
}

bool NetworkJoin::open_door(Address at) {
  at.port = 0;
  const auto listener = open_listener(at, format("rank {} waits for its neighbours", job_.rank()));
  if (!listener) {
    give_up(listener.error());
    return false;
  }
  job_.door_address = at;
  door_ = std::make_unique<Door>(*job_.loop, *listener, job_.key,
                                 [this](LinkPointer link) { visit(std::move(link)); });
  return true;
}

void NetworkJoin::begin_root(int listener) {
  if (!open_door(root_)) {
    ::close(listener);
    return;
  }
  Rendezvous::Events events;
  events.complete = [this](Table table, Digest session) {
    job_.table = std::move(table);
    job_.session = session;
    placed_ = true;
    take_early_children();
  };
  events.failed = [this](const Error& error) { give_up(error); };
  events.unconnected = [this] {
    std::vector<Rank> ranks;
    for (const Rank child : tree_.children()) {
      // Children that are connected but not ready wait for ranks below them.
      if (!tree_.has(child)) ranks.push_back(child);
    }
    for (const Rank child : tree_.children()) {
      if (ranks.empty() && ready_children_.count(child) == 0) ranks.push_back(child);
    }
    return ranks;
  };
  rendezvous_ =
      std::make_unique<Rendezvous>(*job_.loop, listener, job_.key, own_join(), std::move(events));
}

// The caller of join() reads it when its own time is over.
void NetworkJoin::note_trouble(const std::string& why) {
  const std::lock_guard lock(job_.mutex);
  last_trouble_ = why;
}

void NetworkJoin::seek_root() {
  if (job_.leaving) {
    return;
  }
  if (job_.options.deadline.expired()) {
    give_up(fail(CCOM_TIMEOUT,
                 "rank 0 was not reached: {} (tried {} times); start it on the host with this "
                 "address, or give more time (CCOM_TIMEOUT_MS)",
                 attempts_ == 0          ? "no time was left to try " + job_.options.root
                 : last_trouble_.empty() ? "nothing listens at " + job_.options.root
                                         : last_trouble_,
                 attempts_));
    return;
  }
  {
    const std::lock_guard lock(job_.mutex);
    ++attempts_;
  }
  const milliseconds time(std::min<uint32_t>(remaining_ms(), 2000));
  job_.loop->connect(root_, time, [this](LinkPointer link, const std::string& why, bool) {
    if (link == nullptr) {
      note_trouble(why);
      job_.loop->after(milliseconds(std::min<uint32_t>(5 * attempts_, 100)),
                       [this] { seek_root(); });
      return;
    }
    meet_root(std::move(link));
  });
}

void NetworkJoin::meet_root(LinkPointer link) {
  root_link_ = link;
  const bool telling = handshake_time() >= kTelling || attempts_ == 1;
  prove(*job_.loop, link, job_.key, handshake_time(), [this, telling](const Error* error) {
    if (error != nullptr && error->status != CCOM_SYSTEM && error->status != CCOM_TIMEOUT) {
      give_up(*error);
      return;
    }
    const auto again = [this](const std::string& why, bool note = true) {
      if (!job_.ready && !placed_) {
        if (note) note_trouble(why);
        job_.loop->after(milliseconds(20), [this] { seek_root(); });
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
                         // A rank in the tree learns of failures from its tree connections; rank 0
                         // releases guests when the tree is complete.
                         if (placed_ && tree_.has(tree_parent(job_.rank()))) {
                           return;
                         }
                         if (placed_ && !job_.ready) {
                           give_up(fail(CCOM_RANK_DEAD,
                                        "rank 0 at {} went away while ranks "
                                        "joined: {}",
                                        job_.options.root, why));
                           return;
                         }
                         again(format("{} ended the connection: {}", job_.options.root, why));
                       });
    root_link_->send(MessageType::kJoin, encode(own_join()));
  });
}

void NetworkJoin::hear_root(MessageType type, const Bytes& body) {
  TreePlace place;
  Refuse refusal;
  if (type == MessageType::kRefuse && decode(body, refusal)) {
    give_up({static_cast<ccom_status_t>(refusal.status), refusal.sentence});
  } else if (type == MessageType::kPlace && !placed_ && decode(body, place) &&
             job_.is_parent(place.parent)) {
    placed_ = true;
    job_.session = place.session;
    attach(place);
    take_early_children();
  } else {
    give_up(fail(CCOM_SYSTEM, "rank 0 at {} sent a message that makes no sense here",
                 job_.options.root));
  }
}

void NetworkJoin::attach(const TreePlace& place) {
  job_.loop->connect(place.address, milliseconds(std::min<uint32_t>(remaining_ms(), 5000)),
                     [this, place](LinkPointer link, const std::string& why, bool) {
                       if (link != nullptr) {
                         attach_to(std::move(link), place);
                       } else if (!job_.options.deadline.expired() && !job_.leaving) {
                         note_trouble(format("parent rank {}: {}", place.parent, why));
                         job_.loop->after(milliseconds(50), [this, place] { attach(place); });
                       }
                     });
}

void NetworkJoin::attach_to(LinkPointer link, const TreePlace& place) {
  prove(*job_.loop, link, job_.key, handshake_time(), [this, link, place](const Error* error) {
    if (error != nullptr) {
      note_trouble(format("parent rank {}: {}", place.parent, error->sentence));
      if (!job_.options.deadline.expired() && !job_.leaving) {
        job_.loop->after(milliseconds(50), [this, place] { attach(place); });
      }
      return;
    }
    link->send(MessageType::kAttach, encode(Attach{job_.session, job_.options.rank}));
    tree_.add(place.parent, link);
    check_ready();
  });
}

void NetworkJoin::visit(LinkPointer link) {
  visitors_.insert(link);
  const std::weak_ptr<Link> weak = link;
  // A visitor that sends nothing is disconnected.
  const uint64_t timer = job_.loop->after(kHandshakeTime, [this, weak] {
    if (const LinkPointer here = weak.lock(); here && visitors_.erase(here) != 0) {
      here->close(false);
    }
  });
  link->limit(kJoinBytes + 4 * job_.options.size);
  link->listen(
      [this, weak, timer](MessageType type, const Bytes& body) {
        const LinkPointer here = weak.lock();
        if (here == nullptr || visitors_.erase(here) == 0) {
          return;
        }
        job_.loop->cancel(timer);
        Regroup request;
        if (type == MessageType::kAttach && !job_.ready) {
          take_child(here, body);
        } else if (type == MessageType::kRegroup && job_.ready && decode(body, request)) {
          survivor_(request, here);
        } else {
          here->close(false);
        }
      },
      [this, weak, timer](const std::string&) {
        job_.loop->cancel(timer);
        visitors_.erase(weak.lock());
      });
}

void NetworkJoin::take_child(const LinkPointer& link, const Bytes& body) {
  Attach attach;
  if (!decode(body, attach)) {
    link->close(false);
    return;
  }
  if (!placed_) {
    // The child had its answer from rank 0 before this rank had its own.
    if (early_.size() < kTreeWidth) {
      early_.emplace_back(link, attach);
    } else {
      link->close(false);
    }
    return;
  }
  if (!base::equal_digests(attach.session, job_.session) || attach.rank >= job_.options.size ||
      attach.rank == 0 || tree_parent(attach.rank) != job_.rank()) {
    link->close(false);
    return;
  }
  tree_.add(attach.rank, link);
  check_ready();
}

void NetworkJoin::take_early_children() {
  for (auto& [link, attach] : std::exchange(early_, {})) {
    take_child(link, encode(attach));
  }
}

bool NetworkJoin::hear(Rank from, MessageType type, const Bytes& body) {
  if (type == MessageType::kReady && !job_.is_parent(from)) {
    ready_children_.insert(from);
    check_ready();
    return true;
  }
  Table& table = job_.table;
  const uint32_t size = job_.options.size;
  if (type == MessageType::kTable && job_.is_parent(from) && !job_.ready && decode(body, table) &&
      table.members.size() == size && table.listeners.size() == size) {
    for (Rank i = 0; i < size; ++i) {
      table.members[i].rank = i;
    }
    tree_.send_down(type, body);
    return true;
  }
  if (type == MessageType::kGo && job_.is_parent(from) && table.members.size() == size) {
    if (!job_.leaving) {
      tree_.send_down(type, body);
    }
    if (!job_.leaving && !job_.ready) {
      go();
    }
    return true;
  }
  return false;
}

void NetworkJoin::lose(Rank rank, const std::string& why) {
  if (!job_.is_parent(rank)) {
    tree_.remove(rank);
    ready_children_.erase(rank);
    return;
  }
  // The parent may have gone because of another rank. Rank 0's message about that comes over
  // another connection.
  job_.loop->after(kWordTime, [this, rank, why] {
    give_up(fail(CCOM_RANK_DEAD, "rank {} went away while ranks joined: {}", rank, why));
  });
}

void NetworkJoin::leave() {
  if (root_link_ != nullptr) {
    root_link_->close(false);
  }
  door_.reset();
  if (rendezvous_ != nullptr) {
    rendezvous_->release();
  }
}

bool NetworkJoin::done() const {
  const std::lock_guard lock(job_.mutex);
  return joined_;
}

void NetworkJoin::check_ready() {
  // A failed join stays failed: a rank that knows of the failure does not come again, and a rank
  // that has left does not hear of later deaths.
  if (job_.ready || job_.leaving || ready_children_.size() != tree_.children().size()) {
    return;
  }
  if (job_.rank() != 0) {
    tree_.send_up(MessageType::kReady, {});
    return;
  }
  // The tree is complete. A rank that is done may begin a new job at the same address at once.
  if (placed_) {
    Rendezvous* const done = rendezvous_.get();
    done->release();
    tree_.send_down(MessageType::kTable, encode(job_.table));
    tree_.send_down(MessageType::kGo, {});
    go();
  }
}

void NetworkJoin::go() {
  job_.ready = true;
  if (root_link_ != nullptr) {
    root_link_->close(true);
    root_link_.reset();
  }
  tree_.watch();
  const std::lock_guard lock(job_.mutex);
  joined_ = true;
  job_.changed.notify_all();
}

void NetworkJoin::give_up(const Error& error) {
  if (job_.ready) {
    return;
  }
  job_.leaving = true;
  if (rendezvous_ != nullptr) {
    rendezvous_->fail_all(error);
  }
  const std::lock_guard lock(job_.mutex);
  if (!error_) {
    error_ = error;
  }
  job_.changed.notify_all();
}

}  // namespace neuron::ccom
