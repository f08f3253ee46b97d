// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/network_regroup.h"

#include <unistd.h>

#include <algorithm>

#include "ccom/bootstrap/handshake.h"
#include "ccom/bootstrap/rank_list.h"
#include "driver/base/hexadecimal.h"
#include "driver/base/random_bytes.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kProbeAfter{30};
constexpr milliseconds kAnswerTime{400};  // of a rank that may collect
// After a failure the rest is given up when no other rank has come for so long.
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

}  // namespace

Result<NetworkRegroup::NewGroup> NetworkRegroup::regroup(const std::vector<Rank>& survivors,
                                                         base::Deadline deadline) {
  if (std::find(survivors.begin(), survivors.end(), job_.rank()) == survivors.end()) {
    return fail(CCOM_INVALID, "rank {} is not among the ranks {} of the new group", job_.rank(),
                rank_list(survivors));
  }
  if (survivors.size() == 1 && survivors[0] == job_.rank()) {
    JoinOptions alone = job_.options;
    alone.rank = 0;
    alone.size = 1;
    return NewGroup{alone, -1};
  }
  Address here = job_.door_address;
  here.port = 0;
  NEURON_TRY(listener, open_listener(here, format("rank {} regroups", job_.rank())));

  auto answer = std::make_shared<Answer>();
  Regroup request;
  request.rank = job_.options.rank;
  request.remaining_ms = static_cast<uint32_t>(std::clamp<int64_t>(
      std::chrono::duration_cast<milliseconds>(deadline.remaining()).count(), 1, 3600 * 1000));
  request.listener = here;
  request.ranks = survivors;
  Error error = fail(CCOM_TIMEOUT, "{} found no rank that collects the survivors {} in time",
                     describe(job_.me()), rank_list(survivors));
  Bytes decision;
  {
    std::unique_lock lock(job_.mutex);
    // After a failure ranks may know of different dead; all mean the same new group.
    const uint64_t kind = job_.failure ? kAfterFailure : hash_of(survivors) >> 16;
    request.key = kind ^ (uint64_t{counts_[kind]++} << 48);
    job_.loop->post([this, request, answer] { seek_coordinator(request, 0, answer); });
    job_.changed.wait_until(lock, deadline.when(), [&] { return answer->there; });
    if (answer->there && answer->error) {
      error = *answer->error;
    } else if (answer->there) {
      decision = answer->decision;
    }
    answer->there = true;  // no caller waits any more
  }
  RegroupDecided decided;
  if (decision.empty() || !decode(decision, decided)) {
    ::close(listener);
    return error;
  }
  const auto place = std::find(decided.ranks.begin(), decided.ranks.end(), job_.rank());
  if (place == decided.ranks.end()) {
    ::close(listener);
    return fail(CCOM_TIMEOUT, "the new group was formed without rank {}", job_.rank());
  }
  JoinOptions next = job_.options;
  next.rank = static_cast<Rank>(place - decided.ranks.begin());
  next.size = static_cast<uint32_t>(decided.ranks.size());
  next.root = text_of(decided.root);
  next.secret = std::string(reinterpret_cast<const char*>(job_.key.data()), job_.key.size());
  next.context = base::hexadecimal(decided.nonce);
  next.deadline = std::max(deadline, base::Deadline::after(milliseconds(500)));
  if (next.rank != 0) {
    ::close(listener);
  }
  return NewGroup{next, next.rank == 0 ? listener : -1};
}

void NetworkRegroup::finish(const std::shared_ptr<Answer>& answer, Bytes decision,
                            std::optional<Error> error) {
  const std::lock_guard lock(job_.mutex);
  if (!answer->there) {
    answer->there = true;
    answer->error = std::move(error);
    answer->decision = std::move(decision);
    job_.changed.notify_all();
  }
}

void NetworkRegroup::seek_coordinator(Regroup request, size_t candidate,
                                      std::shared_ptr<Answer> answer) {
  while (candidate < request.ranks.size() && job_.dead.count(request.ranks[candidate]) != 0) {
    ++candidate;
  }
  if (candidate == request.ranks.size()) {
    finish(answer, {},
           fail(CCOM_TIMEOUT, "none of the ranks {} answers", rank_list(request.ranks)));
    return;
  }
  const Rank rank = request.ranks[candidate];
  if (rank == job_.rank()) {
    gather(request, nullptr, answer);
    return;
  }
  if (rank >= job_.options.size) {
    finish(answer, {}, fail(CCOM_INVALID, "there is no rank {} to regroup with", rank));
    return;
  }
  job_.loop->connect(
      job_.table.listeners[rank], kAnswerTime,
      [this, request, candidate, answer](LinkPointer link, const std::string& why, bool refused) {
        if (link != nullptr) {
          ask_coordinator(request, candidate, answer, link);
          return;
        }
        if (refused) {
          declare_gone(request.ranks[candidate], why);
        }
        seek_further(request, candidate, answer);
      });
}

// After a failure a candidate that does not answer is passed over. Otherwise it lives, and only its
// host is busy: if some ranks went on to the next candidate, there would be two groups.
void NetworkRegroup::seek_further(Regroup request, size_t candidate,
                                  std::shared_ptr<Answer> answer) {
  if ((request.key & kKind) == kAfterFailure) {
    seek_coordinator(request, candidate + 1, answer);
    return;
  }
  {
    const std::lock_guard lock(job_.mutex);
    if (answer->there) {
      return;  // no caller waits any more
    }
  }
  job_.loop->after(kAskAgain, [this, request, candidate, answer] {
    seek_coordinator(request, candidate, answer);
  });
}

void NetworkRegroup::ask_coordinator(Regroup request, size_t candidate,
                                     std::shared_ptr<Answer> answer, LinkPointer link) {
  // Whatever goes wrong with this candidate, the search goes on, once.
  auto asked = std::make_shared<bool>(false);
  const auto next = [this, request, candidate, answer, asked] {
    if (!std::exchange(*asked, true)) {
      seek_further(request, candidate, answer);
    }
  };
  prove(*job_.loop, link, job_.key, kAnswerTime,
        [this, request, answer, link, next](const Error* error) {
          if (error != nullptr) {
            next();
            return;
          }
          const std::weak_ptr<Link> weak = link;
          const uint64_t timer = job_.loop->after(kAnswerTime, [link, next] {
            link->close(false);
            next();
          });
          link->limit(kJoinBytes + 4 * job_.options.size);
          link->listen(
              [this, weak, timer, answer, next](MessageType type, Bytes body) {
                job_.loop->cancel(timer);
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
                  finish(answer, {},
                         Error{static_cast<ccom_status_t>(refusal.status), refusal.sentence});
                } else {
                  next();
                }
              },
              [this, timer, next](const std::string&) {
                job_.loop->cancel(timer);
                next();
              });
          link->send(MessageType::kRegroup, encode(request));
        });
}

void NetworkRegroup::gather(const Regroup& request, LinkPointer link) {
  gather(request, std::move(link), nullptr);
}

void NetworkRegroup::gather(const Regroup& request, LinkPointer link,
                            std::shared_ptr<Answer> answer) {
  const auto bad = [&](Rank rank) { return rank >= job_.options.size; };
  if (bad(request.rank) || std::any_of(request.ranks.begin(), request.ranks.end(), bad)) {
    if (link != nullptr) {
      link->close(false);
    }
    return;
  }
  if (decided_.count(request.key) != 0) {
    // A rank that comes too late must not form a group of its own.
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
    job_.loop->cancel(gathering.timer);
  }
  auto time = std::chrono::duration_cast<milliseconds>(gathering.until.remaining());
  if ((request.key & kKind) == kAfterFailure) {
    time = std::min(time, kQuiet);
  }
  gathering.timer = job_.loop->after(time, [this, key = request.key] { decide(key, true); });
  if (first) {
    job_.loop->after(kProbeAfter, [this, key = request.key] { probe(key); });
  }
  decide(request.key, false);
}

void NetworkRegroup::probe(uint64_t key) {
  const auto found = gatherings_.find(key);
  if (found == gatherings_.end()) {
    return;
  }
  for (const Rank rank : found->second.expected) {
    if (found->second.come.count(rank) == 0 && job_.dead.count(rank) == 0 && rank != job_.rank()) {
      job_.loop->connect(job_.table.listeners[rank], kAnswerTime,
                         [this, rank](LinkPointer link, const std::string& why, bool refused) {
                           if (link != nullptr) {
                             link->close(false);
                           } else if (refused) {
                             declare_gone(rank, why);
                           }
                         });
    }
  }
}

void NetworkRegroup::declare_gone(Rank rank, const std::string& why) {
  failures_.declare_dead(rank, format("{} is gone: {}", describe(job_.table.members[rank]), why),
                         job_.rank());
}

void NetworkRegroup::decide_all() {
  std::vector<uint64_t> keys;
  for (const auto& [key, gathering] : gatherings_) {
    keys.push_back(key);
  }
  for (const uint64_t key : keys) {
    decide(key, false);
  }
}

void NetworkRegroup::decide(uint64_t key, bool late) {
  const auto found = gatherings_.find(key);
  if (found == gatherings_.end()) {
    return;
  }
  Gathering& gathering = found->second;
  for (const Rank rank : gathering.expected) {
    if (!late && gathering.come.count(rank) == 0 && job_.dead.count(rank) == 0) {
      return;
    }
  }
  decided_.insert(key);
  RegroupDecided decision;
  decision.key = key;
  if (gathering.come.empty() || !base::random_bytes(decision.nonce)) {
    job_.loop->cancel(gathering.timer);
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
  job_.loop->cancel(gathering.timer);
  gatherings_.erase(found);
}

}  // namespace neuron::ccom
