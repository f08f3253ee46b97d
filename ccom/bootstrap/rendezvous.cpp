// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/rendezvous.h"

#include <algorithm>

#include "ccom/bootstrap/rank_list.h"
#include "driver/base/random_bytes.h"

namespace neuron::ccom {
namespace {

// How long other ranks may still come after one that does not match.
constexpr std::chrono::milliseconds kComplaintTime{150};
constexpr size_t kMostComplaints = 64;

std::string name_of(const Join& join) {
  return format("rank {} (host {}, pid {})", join.rank, join.host, join.process);
}

}  // namespace

Rendezvous::Rendezvous(Loop& loop, int listener, const Bytes& key, Join own, Events events)
    : loop_(loop), events_(std::move(events)), own_(std::move(own)) {
  door_ = std::make_unique<Door>(loop, listener, key,
                                 [this](LinkPointer link) { admit(std::move(link)); });
  expect_until(own_.remaining_ms);
}

Rendezvous::~Rendezvous() { release(); }

void Rendezvous::admit(LinkPointer link) {
  Link* const key = link.get();
  // Between the proof and the join the rank is unknown, so the door's time limit still holds.
  unnamed_.push_back(link);
  const uint64_t timer = loop_.after(kHandshakeTime, [this, key] {
    const auto at = std::find_if(unnamed_.begin(), unnamed_.end(),
                                 [&](const LinkPointer& l) { return l.get() == key; });
    if (at != unnamed_.end()) {
      (*at)->close(false);
      unnamed_.erase(at);
    }
  });
  const auto take = [this, key, timer]() -> LinkPointer {
    const auto at = std::find_if(unnamed_.begin(), unnamed_.end(),
                                 [&](const LinkPointer& l) { return l.get() == key; });
    if (at == unnamed_.end()) {
      return nullptr;
    }
    LinkPointer found = *at;
    unnamed_.erase(at);
    loop_.cancel(timer);
    return found;
  };
  link->listen(
      [this, take](MessageType type, Bytes body) {
        const LinkPointer link = take();
        if (link == nullptr) {
          return;
        }
        if (type != MessageType::kJoin || over_) {
          link->close(false);
          return;
        }
        hear(link, body);
      },
      [take](const std::string&) { take(); });
}

void Rendezvous::hear(const LinkPointer& link, const Bytes& body) {
  Join join;
  if (!decode(body, join)) {
    link->close(false);
    return;
  }
  const std::string where = text_of(link->remote());
  compare(join, where);
  if (join.rank >= own_.size || join.rank == 0) {
    // It has no place in the table, but it must hear the complaint about itself.
    const auto place = static_cast<Rank>(0x80000000u + guests_.size());
    link->listen(nullptr, nullptr);
    guests_[place] = {std::move(join), link};
    return;
  }
  const auto known = guests_.find(join.rank);
  if (known != guests_.end()) {
    complaints_.push_back(format("{} is there twice: {} and {} at {}", format("rank {}", join.rank),
                                 name_of(known->second.join), name_of(join), where));
    const auto place = static_cast<Rank>(0x80000000u + guests_.size());
    link->listen(nullptr, nullptr);
    guests_[place] = {std::move(join), link};
  } else {
    const Rank rank = join.rank;
    expect_until(join.remaining_ms);
    guests_[rank] = {std::move(join), link};
    link->listen(
        [](MessageType, Bytes) {},
        [this, rank](const std::string& why) {
          // Before the tree is complete, a rank that leaves may come again.
          const auto guest = guests_.find(rank);
          if (guest == guests_.end()) {
            return;
          }
          const std::string name = name_of(guest->second.join);
          guests_.erase(guest);
          if (over_) {
            fail_all(fail(CCOM_RANK_DEAD, "{} went away while ranks joined: {}", name, why));
          }
        });
  }
  if (!complaints_.empty() && complaint_timer_ == 0) {
    complaint_timer_ = loop_.after(kComplaintTime, [this] {
      std::string text;
      for (const std::string& complaint : complaints_) {
        text += (text.empty() ? "" : "; ") + complaint;
      }
      fail_all(fail(CCOM_MISMATCH, "ranks do not fit together: {}", text));
    });
  }
  if (complaints_.empty() && guests_.size() + 1 == own_.size) {
    place();
  }
}

void Rendezvous::compare(const Join& join, const std::string& where) {
  if (complaints_.size() >= kMostComplaints) {
    return;
  }
  if (join.major != own_.major || join.minor != own_.minor) {
    complaints_.push_back(format("{} has libccom {}.{}, {} has {}.{}", name_of(join), join.major,
                                 join.minor, name_of(own_), own_.major, own_.minor));
  }
  if (join.size != own_.size) {
    complaints_.push_back(
        format("{} says {} ranks, {} says {}", name_of(join), join.size, name_of(own_), own_.size));
  } else if (join.rank >= join.size || join.rank == 0) {
    complaints_.push_back(format("{} at {} says that it is rank {} of {}{}", name_of(join), where,
                                 join.rank, join.size,
                                 join.rank == 0 ? ", as " + name_of(own_) + " does" : ""));
  }
}

void Rendezvous::expect_until(uint32_t remaining_ms) {
  const base::Deadline deadline = base::Deadline::after(std::chrono::milliseconds(remaining_ms));
  if (deadline >= deadline_) {
    return;
  }
  deadline_ = deadline;
  if (timer_ != 0) {
    loop_.cancel(timer_);
  }
  timer_ = loop_.after(std::chrono::milliseconds(remaining_ms), [this] { time_out(); });
}

std::string Rendezvous::here_and_missing() const {
  std::vector<Rank> missing;
  for (Rank i = 1; i < own_.size; ++i) {
    if (guests_.count(i) == 0) {
      missing.push_back(i);
    }
  }
  return missing.empty()
             ? format("all {} ranks came, but not connected to its neighbours is rank {}",
                      own_.size, rank_list(events_.unconnected()))
             : format("{} of {} ranks came; missing: rank {}", own_.size - missing.size(),
                      own_.size, rank_list(missing));
}

void Rendezvous::time_out() {
  timer_ = 0;
  const uint64_t refused = door_ ? door_->refused() : 0;
  fail_all(fail(CCOM_TIMEOUT, "{}{}; start the missing ranks, or give more time (CCOM_TIMEOUT_MS)",
                here_and_missing(),
                refused == 0
                    ? ""
                    : format("; {} connections without the job's secret were refused", refused)));
}

void Rendezvous::fail_all(const Error& error) {
  over_ = true;
  if (!std::exchange(told_, true)) {
    refuse_all(error);
    events_.failed(error);
  }
}

void Rendezvous::refuse_all(const Error& error) {
  const Bytes refusal = encode(Refuse{static_cast<uint32_t>(error.status), error.sentence});
  for (auto& [rank, guest] : guests_) {
    guest.link->send(MessageType::kRefuse, refusal);
    guest.link->close(true);
  }
  guests_.clear();
  release();
}

void Rendezvous::place() {
  over_ = true;
  Digest session{};
  if (!base::random_bytes(session)) {
    fail_all(fail(CCOM_SYSTEM, "the system gives no random numbers"));
    return;
  }
  Table table;
  table.capabilities = own_.capabilities;
  const auto add = [&](const Join& join) {
    table.capabilities &= join.capabilities;
    table.members.push_back({join.rank, join.host, join.host_id, join.process, join.device});
    table.listeners.push_back(join.listener);
  };
  add(own_);
  for (const auto& [rank, guest] : guests_) {
    add(guest.join);
  }
  for (auto& [rank, guest] : guests_) {
    const Rank parent = tree_parent(rank);
    guest.link->send(MessageType::kPlace,
                     encode(TreePlace{session, parent, table.listeners[parent]}));
  }
  door_.reset();
  events_.complete(std::move(table), session);
}

void Rendezvous::release() {
  over_ = true;
  for (uint64_t* timer : {&timer_, &complaint_timer_}) {
    if (*timer != 0) {
      loop_.cancel(std::exchange(*timer, 0));
    }
  }
  door_.reset();
  for (const LinkPointer& link : unnamed_) {
    link->close(false);
  }
  unnamed_.clear();
  for (auto& [rank, guest] : guests_) {
    guest.link->close(true);
  }
  guests_.clear();
}

}  // namespace neuron::ccom
