// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/network_bootstrap.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "ccom/bootstrap/host.h"
#include "ccom/bootstrap/rank_list.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBeat{200};
// Between the end of a connection, or a process, and the verdict that its rank is dead.
constexpr milliseconds kAutopsy{10};
// As often, while the system still takes its process apart.
constexpr uint32_t kAutopsies = 5;
// What a rank waits beyond its deadline for rank 0's word.
constexpr milliseconds kGrace{400};
// What rank 0 says of the end of a join comes that much later than the end of another connection.
constexpr milliseconds kWordTime{100};
// How long a leaving rank passes news on to those behind it that have not left yet.
constexpr milliseconds kLinger{200};

uint32_t milliseconds_until(base::Deadline deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline.remaining());
  return static_cast<uint32_t>(std::clamp<int64_t>(left.count(), 0, 24 * 3600 * 1000));
}

}  // namespace

NetworkBootstrap::~NetworkBootstrap() {
  if (loop_ == nullptr) {
    return;
  }
  const auto farewell = [this](auto self, base::Deadline until) -> void {
    const auto behind = [this] {
      return std::any_of(neighbours_.begin(), neighbours_.end(), [this](const auto& entry) {
        const Neighbour& n = entry.second;
        return n.rank > options_.rank && !n.left && dead_.count(n.rank) == 0;
      });
    };
    if (ready_ && behind() && !until.expired()) {
      loop_->after(milliseconds(1), [self, until] { self(self, until); });
      return;
    }
    gone_ = true;
    for (auto& [rank, neighbour] : neighbours_) {
      if (ready_) {
        neighbour.link->send(MessageType::kFarewell, {});
      }
      neighbour.link->close(true);
    }
    if (root_link_ != nullptr) {
      root_link_->close(false);
    }
    door_.reset();
    if (rendezvous_ != nullptr) {
      rendezvous_->release();
    }
    const std::lock_guard lock(mutex_);
    flushed_ = true;
    changed_.notify_all();
  };
  bool failed = false;
  {
    const std::lock_guard lock(mutex_);
    failed = failure_.has_value() || !joined_;
  }
  const base::Deadline until = base::Deadline::after(failed ? milliseconds(0) : kLinger);
  loop_->post([farewell, until] { farewell(farewell, until); });
  {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until.later_by(milliseconds(300)).when(), [&] { return flushed_; });
  }
  // What was sent leaves the process with the sockets' own buffers, unless those are full.
  loop_->stop();
  // Everything that holds sockets goes before the loop does.
  rendezvous_.reset();
  door_.reset();
  root_link_.reset();
  neighbours_.clear();
  early_.clear();
  visitors_.clear();
  gatherings_.clear();
  loop_.reset();
}

void NetworkBootstrap::settle(Neighbour& neighbour) {
  const Rank rank = neighbour.rank;
  const uint64_t most = uint64_t{options_.size} * (kGatherBytes + 16) + 4096;
  neighbour.link->limit(static_cast<uint32_t>(std::min<uint64_t>(most, 1u << 30)));
  neighbour.link->listen(
      [this, rank](MessageType type, Bytes body) { hear(rank, type, std::move(body)); },
      [this, rank](const std::string& why) {
        // The sockets of a process close before the system says how it ended.
        if (ready_ && reason_of(rank).empty() && same_host(rank)) {
          neighbours_[rank].ended = true;
          loop_->after(kAutopsy, [this, rank, why] { examine(rank, why, 1); });
        } else {
          lost(rank, why);
        }
      });
}

void NetworkBootstrap::hear(Rank from, MessageType type, Bytes body) {
  Neighbour& neighbour = neighbours_[from];
  neighbour.heard = base::Clock::now();
  const bool from_parent = options_.rank != 0 && from == tree_parent(options_.rank);
  GatherUp up;
  GatherDown down;
  RoundFailed failed;
  Failure failure;
  Notice notice;
  bool known = true;
  if (type == MessageType::kBeat) {
    return;
  }
  if (type == MessageType::kReady && !from_parent) {
    ready_children_.insert(from);
    check_ready();
  } else if (type == MessageType::kTable && from_parent && !ready_ && decode(body, table_) &&
             table_.members.size() == options_.size && table_.listeners.size() == options_.size) {
    for (Rank i = 0; i < options_.size; ++i) {
      table_.members[i].rank = i;
    }
    send_down(type, body);
  } else if (type == MessageType::kGo && from_parent && table_.members.size() == options_.size) {
    if (!gone_) {
      send_down(type, body);
    }
    if (!gone_ && !ready_) {
      go();
    }
  } else if (type == MessageType::kGatherUp && !from_parent && decode(body, up) &&
             up.rank < options_.size) {
    gather_up(up);
  } else if (type == MessageType::kGatherDown && from_parent && decode(body, down) &&
             down.data.size() == options_.size) {
    send_down(type, body);
    answer_round(down.round, std::move(down.data));
  } else if (type == MessageType::kRoundFailed && from_parent && decode(body, failed)) {
    send_down(type, body);
    fail_round(failed.round, failed.sentence);
  } else if (type == MessageType::kFailure && decode(body, failure) &&
             failure.rank < options_.size) {
    spread(failure, from);
  } else if (type == MessageType::kNotice && decode(body, notice) && notice.rank < options_.size) {
    if (keep(notice)) {
      send_all(type, body, from);
    }
  } else if (type == MessageType::kFarewell) {
    neighbour.left = true;
  } else {
    known = false;
  }
  if (!known) {
    neighbour.link->close(false);
    lost(from, "it sent a message that makes no sense here");
  }
}

void NetworkBootstrap::send_down(MessageType type, const Bytes& body) {
  for (auto& [rank, neighbour] : neighbours_) {
    if (rank > options_.rank) {
      neighbour.link->send(type, body);
    }
  }
}

void NetworkBootstrap::send_all(MessageType type, const Bytes& body, Rank except) {
  for (auto& [rank, neighbour] : neighbours_) {
    if (rank != except) {
      neighbour.link->send(type, body);
    }
  }
}

Result<std::vector<Bytes>> NetworkBootstrap::all_gather(std::span<const std::byte> mine,
                                                        base::Deadline deadline) {
  if (mine.size() > kGatherBytes) {
    return fail(CCOM_INVALID, "an all-gather of the bootstrap takes {} bytes of a rank, {} given",
                kGatherBytes, mine.size());
  }
  GatherUp message;
  message.rank = options_.rank;
  message.remaining_ms = milliseconds_until(deadline);
  message.data.assign(mine.begin(), mine.end());
  auto answer = std::make_shared<Answer>();
  std::unique_lock lock(mutex_);
  if (failure_) {
    return failure_->second;
  }
  message.round = next_round_++;
  answers_[message.round] = answer;
  loop_->post([this, message] { gather_up(message); });
  const bool done = changed_.wait_until(lock, deadline.later_by(kGrace).when(),
                                        [&] { return answer->there || failure_; });
  answers_.erase(message.round);
  if (answer->there && !answer->error) {
    return std::move(answer->data);
  }
  if (answer->error) {
    return *answer->error;
  }
  if (done) {
    return failure_->second;
  }
  return fail(CCOM_TIMEOUT, "{} waited for {}, which did not say who is missing",
              describe(table_.members[options_.rank]), describe(table_.members[0]));
}

void NetworkBootstrap::gather_up(const GatherUp& message) {
  if (failed_) {
    return;  // the callers know, or will: a round never ends well after a failure was told
  }
  if (options_.rank != 0) {
    const auto parent = neighbours_.find(tree_parent(options_.rank));
    if (parent != neighbours_.end()) {
      parent->second.link->send(MessageType::kGatherUp, encode(message));
    }
    return;
  }
  Round& round = rounds_[message.round];
  if (round.here.empty()) {
    round.here.resize(options_.size);
    round.data.resize(options_.size);
  }
  if (round.here[message.rank]) {
    return;
  }
  round.here[message.rank] = true;
  round.data[message.rank] = message.data;
  // The first deadline counts: that rank will not wait longer.
  const base::Deadline until = base::Deadline::after(milliseconds(message.remaining_ms));
  if (until < round.until) {
    if (round.timer != 0) {
      loop_->cancel(round.timer);
    }
    round.until = until;
    round.timer = loop_->after(milliseconds(message.remaining_ms),
                               [this, number = message.round] { round_timed_out(number); });
  }
  if (++round.come == options_.size) {
    loop_->cancel(round.timer);
    std::vector<Bytes> data = std::move(round.data);
    rounds_.erase(message.round);
    send_down(MessageType::kGatherDown, encode(GatherDown{message.round, data}));
    answer_round(message.round, std::move(data));
  }
}

void NetworkBootstrap::round_timed_out(uint64_t number) {
  const Round& round = rounds_[number];
  std::vector<Rank> missing, behind;
  for (Rank i = 0; i < options_.size; ++i) {
    if (!round.here[i]) {
      // Those behind a missing rank may only be cut off by it.
      const bool cut_off = i != 0 && !round.here[tree_parent(i)] && tree_parent(i) != 0;
      (cut_off ? behind : missing).push_back(i);
    }
  }
  std::string sentence = missing.size() == 1 ? describe(table_.members[missing[0]])
                                             : format("ranks {}", rank_list(missing));
  sentence += " did not come while the others waited";
  if (!behind.empty()) {
    sentence += format("; nor did ranks {}, which speak through them", rank_list(behind));
  }
  rounds_.erase(number);
  send_down(MessageType::kRoundFailed, encode(RoundFailed{number, sentence}));
  fail_round(number, sentence);
}

void NetworkBootstrap::answer_round(uint64_t number, std::vector<Bytes> data) {
  const std::lock_guard lock(mutex_);
  const auto answer = answers_.find(number);
  if (answer != answers_.end()) {
    answer->second->data = std::move(data);
    answer->second->there = true;
    changed_.notify_all();
  }
}

void NetworkBootstrap::fail_round(uint64_t number, const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  const auto answer = answers_.find(number);
  if (answer != answers_.end()) {
    answer->second->error = Error{CCOM_TIMEOUT, sentence};
    answer->second->there = true;
    changed_.notify_all();
  }
}

void NetworkBootstrap::on_failure(std::function<void(Rank, const Error&)> handler) {
  loop_->post([this, handler = std::move(handler)] {
    std::optional<std::pair<Rank, Error>> failure;
    {
      const std::lock_guard lock(mutex_);
      handler_ = handler;
      failure = failure_;
    }
    if (failure && !std::exchange(handler_called_, true)) {
      handler(failure->first, failure->second);
    }
  });
}

void NetworkBootstrap::abort(const Error& why) {
  loop_->post([this, why] {
    spread(Failure{options_.rank, 0, static_cast<uint32_t>(why.status), why.sentence},
           options_.rank);
  });
}

void NetworkBootstrap::tell(uint64_t number, const std::string& sentence) {
  const Notice notice{options_.rank, number, notice_text(sentence)};
  if (keep(notice)) {
    loop_->post(
        [this, body = encode(notice)] { send_all(MessageType::kNotice, body, options_.rank); });
  }
}

std::optional<Notice> NetworkBootstrap::told(uint64_t since) const {
  const std::lock_guard lock(mutex_);
  return notices_.since(since);
}

bool NetworkBootstrap::keep(const Notice& notice) {
  const std::lock_guard lock(mutex_);
  return notices_.keep(notice);
}

std::vector<Rank> NetworkBootstrap::dead() const {
  const std::lock_guard lock(mutex_);
  return {dead_.begin(), dead_.end()};
}

void NetworkBootstrap::examine(Rank rank, const std::string& why, uint32_t times) {
  if (times < kAutopsies && dead_.count(rank) == 0 && reason_of(rank).empty() &&
      kill(table_.members[rank].process, 0) == 0) {
    loop_->after(kAutopsy, [this, rank, why, times] { examine(rank, why, times + 1); });
  } else {
    lost(rank, why);
  }
}

bool NetworkBootstrap::same_host(Rank rank) const {
  const Member& member = table_.members[rank];
  const Member& me = table_.members[options_.rank];
  return member.host_id == me.host_id && member.process != me.process;
}

const std::string& NetworkBootstrap::reason_of(Rank rank) {
  std::string& how = neighbours_[rank].how;
  if (how.empty() && ready_ && same_host(rank)) {
    how = exit_reason(table_.members[rank].process);
  }
  return how;
}

void NetworkBootstrap::lost(Rank rank, const std::string& why) {
  Neighbour& neighbour = neighbours_[rank];
  neighbour.link->close(false);
  if (gone_ || neighbour.left) {
    return;
  }
  if (!ready_) {
    // Children may try again; a parent that goes is the end of this rank's join. It may have gone
    // because of another: rank 0's word about that comes over another connection.
    if (options_.rank != 0 && rank == tree_parent(options_.rank)) {
      loop_->after(kWordTime, [this, rank, why] {
        fail_join(fail(CCOM_RANK_DEAD, "rank {} went away while ranks joined: {}", rank, why));
      });
    } else {
      neighbours_.erase(rank);
      ready_children_.erase(rank);
    }
    return;
  }
  const Member& member = table_.members[rank];
  const Member& me = table_.members[options_.rank];
  std::string reason = reason_of(rank);
  reason = reason.empty() ? why : reason;
  spread(Failure{rank, 1, CCOM_RANK_DEAD,
                 format("{} died: {}; {} noticed", describe(member), reason, describe(me))},
         rank);
}

void NetworkBootstrap::spread(const Failure& failure, Rank from) {
  if (failure.dead != 0) {
    const std::lock_guard lock(mutex_);
    if (!dead_.insert(failure.rank).second) {
      return;
    }
  } else if (!aborted_.insert(failure.rank).second) {
    return;
  }
  send_all(MessageType::kFailure, encode(failure), from);
  report(failure.rank, {static_cast<ccom_status_t>(failure.status), failure.sentence});
  if (failure.dead != 0) {
    std::vector<uint64_t> keys;
    for (const auto& [key, gathering] : gatherings_) {
      keys.push_back(key);
    }
    for (const uint64_t key : keys) {
      decide(key, false);
    }
  }
}

void NetworkBootstrap::report(Rank rank, const Error& error) {
  failed_ = true;
  std::function<void(Rank, const Error&)> handler;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) {
      return;
    }
    failure_ = {rank, error};
    handler = handler_;
    changed_.notify_all();
  }
  if (handler && !std::exchange(handler_called_, true)) {
    handler(rank, error);
  }
}

void NetworkBootstrap::watch_neighbours() {
  const Member& me = table_.members[options_.rank];
  bool remote = false;
  for (auto& [rank, neighbour] : neighbours_) {
    const Member& member = table_.members[rank];
    neighbour.heard = base::Clock::now();
    if (member.host_id != me.host_id) {
      remote = true;
    } else if (member.process != me.process) {
      // A child of the rank may still hold its sockets; the process itself tells the truth.
      const int process = static_cast<int>(syscall(SYS_pidfd_open, member.process, 0));
      if (process >= 0) {
        loop_->watch(process, [this, rank = rank] {
          static_cast<void>(reason_of(rank));
          // What it sent before is read first.
          if (neighbours_[rank].ended) {
            lost(rank, "its process ended");
          } else {
            loop_->after(kAutopsy, [this, rank] { lost(rank, "its process ended"); });
          }
        });
      }
    }
  }
  if (remote && options_.heartbeat.count() != 0) {
    loop_->after(kBeat, [this] { beat(); });
  }
}

void NetworkBootstrap::beat() {
  if (gone_) {
    return;
  }
  const Member& me = table_.members[options_.rank];
  std::vector<Rank> silent;
  for (auto& [rank, neighbour] : neighbours_) {
    if (table_.members[rank].host_id == me.host_id || neighbour.left) {
      continue;
    }
    neighbour.link->send(MessageType::kBeat, {});
    if (base::Clock::now() - neighbour.heard > options_.heartbeat) {
      silent.push_back(rank);
    }
  }
  for (const Rank rank : silent) {
    const LinkPointer link = neighbours_[rank].link;
    lost(rank, format("no sign of it for {} ms on the connection {} -> {}",
                      options_.heartbeat.count(), text_of(link->local()), text_of(link->remote())));
    neighbours_[rank].left = true;
  }
  loop_->after(std::clamp(options_.heartbeat / 4, milliseconds(1), kBeat), [this] { beat(); });
}

}  // namespace neuron::ccom
