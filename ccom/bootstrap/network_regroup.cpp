// SPDX-License-Identifier: Apache-2.0
// A new group from an old one: of ranks that all agree, or of those that a failure left.
//
// One rank collects: the lowest that answers. Its thread does so even when its caller does not take
// part. It waits for all that are asked for and are alive, at most three quarters of the time there
// is, then tells those who came who they are and where the new group's rank 0 listens.
#include <unistd.h>

#include <algorithm>

#include "ccom/bootstrap/network_bootstrap.h"
#include "ccom/bootstrap/rank_list.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kProbeAfter{30};
constexpr milliseconds kAnswerTime{400};  // of a rank that may collect
// After a failure: how long nobody else has come when the rest is given up.
constexpr milliseconds kQuiet{500};
constexpr uint64_t kAfterFailure = 1;
constexpr uint64_t kKind = 0xffffffffffff;  // bits of a key
// Between two questions to one that is slow.
constexpr milliseconds kAskAgain{20};

uint64_t hash_of(const std::vector<Rank>& ranks) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const Rank rank : ranks) {
    hash = (hash ^ rank) * 0x100000001b3u;
  }
  return hash;
}

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) {
    text += format("{:02x}", static_cast<unsigned>(byte));
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> NetworkBootstrap::regroup(const std::vector<Rank>& survivors,
                                                             base::Deadline deadline) {
  if (std::find(survivors.begin(), survivors.end(), options_.rank) == survivors.end()) {
    return fail(CCOM_INVALID, "rank {} is not among the ranks {} of the new group", options_.rank,
                rank_list(survivors));
  }
  if (survivors.size() == 1 && survivors[0] == options_.rank) {
    JoinOptions alone = options_;
    alone.rank = 0;
    alone.size = 1;
    return join_at(alone, -1);
  }
  Address here = door_address_;
  here.port = 0;
  NEURON_TRY(listener, open_listener(here, format("rank {} regroups", options_.rank)));

  auto answer = std::make_shared<Answer>();
  Regroup request;
  request.rank = options_.rank;
  request.remaining_ms = static_cast<uint32_t>(std::clamp<int64_t>(
      std::chrono::duration_cast<milliseconds>(deadline.remaining()).count(), 1, 3600 * 1000));
  request.listener = here;
  request.ranks = survivors;
  Result<std::unique_ptr<Bootstrap>> result =
      fail(CCOM_TIMEOUT, "{} found no rank that collects the survivors {} in time",
           describe(table_.members[options_.rank]), rank_list(survivors));
  Bytes decision;
  {
    std::unique_lock lock(mutex_);
    // After a failure ranks may know of different dead; all mean the same new group.
    const uint64_t kind = failure_ ? kAfterFailure : hash_of(survivors) >> 16;
    request.key = kind ^ (uint64_t{regroup_counts_[kind]++} << 48);
    loop_->post([this, request, answer] { seek_coordinator(request, 0, answer); });
    changed_.wait_until(lock, deadline.when(), [&] { return answer->there; });
    if (answer->there && answer->error) {
      result = *answer->error;
    } else if (answer->there) {
      decision = answer->data.front();
    }
    answer->there = true;  // nobody waits any more
  }
  RegroupDecided decided;
  if (decision.empty() || !decode(decision, decided)) {
    ::close(listener);
    return result;
  }
  const auto place = std::find(decided.ranks.begin(), decided.ranks.end(), options_.rank);
  if (place == decided.ranks.end()) {
    ::close(listener);
    return fail(CCOM_TIMEOUT, "the new group was formed without rank {}", options_.rank);
  }
  JoinOptions next = options_;
  next.rank = static_cast<Rank>(place - decided.ranks.begin());
  next.size = static_cast<uint32_t>(decided.ranks.size());
  next.root = text_of(decided.root);
  next.secret = std::string(reinterpret_cast<const char*>(key_.data()), key_.size());
  next.context = hex(decided.nonce);
  next.deadline = std::max(deadline, base::Deadline::after(milliseconds(500)));
  if (next.rank != 0) {
    ::close(listener);
  }
  return join_at(next, next.rank == 0 ? listener : -1);
}

void NetworkBootstrap::finish(const std::shared_ptr<Answer>& answer, Bytes decision,
                              std::optional<Error> error) {
  const std::lock_guard lock(mutex_);
  if (!answer->there) {
    answer->there = true;
    answer->error = std::move(error);
    answer->data.assign(1, std::move(decision));
    changed_.notify_all();
  }
}

void NetworkBootstrap::seek_coordinator(Regroup request, size_t candidate,
                                        std::shared_ptr<Answer> answer) {
  while (candidate < request.ranks.size() && dead_.count(request.ranks[candidate]) != 0) {
    ++candidate;
  }
  if (candidate == request.ranks.size()) {
    finish(answer, {},
           fail(CCOM_TIMEOUT, "none of the ranks {} answers", rank_list(request.ranks)));
    return;
  }
  const Rank rank = request.ranks[candidate];
  if (rank == options_.rank) {
    gather_survivor(request, nullptr, answer);
    return;
  }
  if (rank >= options_.size) {
    finish(answer, {}, fail(CCOM_INVALID, "there is no rank {} to regroup with", rank));
    return;
  }
  loop_->connect(
      table_.listeners[rank], kAnswerTime,
      [this, request, candidate, answer](LinkPointer link, const std::string& why, bool refused) {
        if (link != nullptr) {
          ask_coordinator(request, candidate, answer, link);
          return;
        }
        if (refused) {
          lost_elsewhere(request.ranks[candidate], why);
        }
        seek_further(request, candidate, answer);
      });
}

// Who does not answer is passed over after a failure. Else it lives, only its host is busy: if some
// went on to the next candidate, there would be two groups.
void NetworkBootstrap::seek_further(Regroup request, size_t candidate,
                                    std::shared_ptr<Answer> answer) {
  if ((request.key & kKind) == kAfterFailure) {
    seek_coordinator(request, candidate + 1, answer);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (answer->there) {
      return;  // nobody waits any more
    }
  }
  loop_->after(kAskAgain, [this, request, candidate, answer] {
    seek_coordinator(request, candidate, answer);
  });
}

void NetworkBootstrap::ask_coordinator(Regroup request, size_t candidate,
                                       std::shared_ptr<Answer> answer, LinkPointer link) {
  // Whatever goes wrong with this candidate, the search goes on, once.
  auto asked = std::make_shared<bool>(false);
  const auto next = [this, request, candidate, answer, asked] {
    if (!std::exchange(*asked, true)) {
      seek_further(request, candidate, answer);
    }
  };
  prove(*loop_, link, key_, kAnswerTime, [this, request, answer, link, next](const Error* error) {
    if (error != nullptr) {
      next();
      return;
    }
    const std::weak_ptr<Link> weak = link;
    const uint64_t timer = loop_->after(kAnswerTime, [link, next] {
      link->close(false);
      next();
    });
    link->limit(kJoinBytes + 4 * options_.size);
    link->listen(
        [this, weak, timer, answer, next](MessageType type, Bytes body) {
          loop_->cancel(timer);
          if (type == MessageType::kRegroupHeard) {
            return;
          }
          if (const LinkPointer here = weak.lock()) {
            here->close(false);
          }
          Refuse refusal;
          if (type == MessageType::kRegroupDecided) {
            finish(answer, std::move(body), std::nullopt);
          } else if (type == MessageType::kRefuse && decode(body, refusal)) {
            finish(answer, {}, Error{static_cast<ccom_status_t>(refusal.status), refusal.sentence});
          } else {
            next();
          }
        },
        [this, timer, next](const std::string&) {
          loop_->cancel(timer);
          next();
        });
    link->send(MessageType::kRegroup, encode(request));
  });
}

void NetworkBootstrap::gather_survivor(const Regroup& request, LinkPointer link,
                                       std::shared_ptr<Answer> answer) {
  const auto bad = [&](Rank rank) { return rank >= options_.size; };
  if (bad(request.rank) || std::any_of(request.ranks.begin(), request.ranks.end(), bad)) {
    if (link != nullptr) {
      link->close(false);
    }
    return;
  }
  if (decided_.count(request.key) != 0) {
    // Who comes too late must not form a group of its own.
    const std::string sentence = "the new group was formed already, without this rank";
    if (link != nullptr) {
      link->send(MessageType::kRefuse, encode(Refuse{CCOM_TIMEOUT, sentence}));
      link->close(true);
    } else {
      finish(answer, {}, Error{CCOM_TIMEOUT, sentence});
    }
    return;
  }
  const bool first = gatherings_.count(request.key) == 0;
  Gathering& gathering = gatherings_[request.key];
  gathering.expected.insert(request.ranks.begin(), request.ranks.end());
  gathering.come[request.rank] = {request, link, answer};
  if (link != nullptr) {
    link->send(MessageType::kRegroupHeard, {});
    link->listen([](MessageType, Bytes) {},
                 [this, key = request.key, rank = request.rank](const std::string&) {
                   const auto found = gatherings_.find(key);
                   if (found != gatherings_.end()) {
                     found->second.come.erase(rank);
                   }
                 });
  }
  gathering.until =
      std::min(gathering.until, base::Deadline::after(milliseconds(request.remaining_ms * 3 / 4)));
  if (gathering.timer != 0) {
    loop_->cancel(gathering.timer);
  }
  auto time = std::chrono::duration_cast<milliseconds>(gathering.until.remaining());
  if ((request.key & kKind) == kAfterFailure) {
    time = std::min(time, kQuiet);
  }
  gathering.timer = loop_->after(time, [this, key = request.key] { decide(key, true); });
  if (first) {
    loop_->after(kProbeAfter, [this, key = request.key] { probe(key); });
  }
  decide(request.key, false);
}

void NetworkBootstrap::probe(uint64_t key) {
  const auto found = gatherings_.find(key);
  if (found == gatherings_.end()) {
    return;
  }
  for (const Rank rank : found->second.expected) {
    if (found->second.come.count(rank) == 0 && dead_.count(rank) == 0 && rank != options_.rank) {
      loop_->connect(table_.listeners[rank], kAnswerTime,
                     [this, rank](LinkPointer link, const std::string& why, bool refused) {
                       if (link != nullptr) {
                         link->close(false);
                       } else if (refused) {
                         lost_elsewhere(rank, why);
                       }
                     });
    }
  }
}

void NetworkBootstrap::lost_elsewhere(Rank rank, const std::string& why) {
  spread(Failure{rank, 1, CCOM_RANK_DEAD,
                 format("{} is gone: {}", describe(table_.members[rank]), why)},
         options_.rank);
}

void NetworkBootstrap::decide(uint64_t key, bool late) {
  const auto found = gatherings_.find(key);
  if (found == gatherings_.end()) {
    return;
  }
  Gathering& gathering = found->second;
  for (const Rank rank : gathering.expected) {
    if (!late && gathering.come.count(rank) == 0 && dead_.count(rank) == 0) {
      return;
    }
  }
  decided_.insert(key);
  RegroupDecided decision;
  decision.key = key;
  if (gathering.come.empty() || !random_bytes(decision.nonce)) {
    loop_->cancel(gathering.timer);
    gatherings_.erase(found);
    return;
  }
  // In the order that was asked for; ranks that only others asked for follow.
  const std::vector<uint32_t>& wanted = gathering.come.begin()->second.request.ranks;
  for (const uint32_t rank : wanted) {
    if (gathering.come.count(rank) != 0) {
      decision.ranks.push_back(rank);
    }
  }
  for (const auto& [rank, comer] : gathering.come) {
    if (std::find(decision.ranks.begin(), decision.ranks.end(), rank) == decision.ranks.end()) {
      decision.ranks.push_back(rank);
    }
  }
  decision.root = gathering.come[decision.ranks.front()].request.listener;
  const Bytes body = encode(decision);
  for (auto& [rank, comer] : gathering.come) {
    if (comer.link != nullptr) {
      comer.link->send(MessageType::kRegroupDecided, body);
      comer.link->close(true);
    } else {
      finish(comer.answer, body, std::nullopt);
    }
  }
  loop_->cancel(gathering.timer);
  gatherings_.erase(found);
}

}  // namespace neuron::ccom
