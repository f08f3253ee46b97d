// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/local_bootstrap.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "ccom/bootstrap/host.h"
#include "ccom/bootstrap/rank_list.h"

namespace neuron::ccom {
namespace {

using Handler = std::function<void(Rank, const Error&)>;

// Each rank counts its own rounds; a round lives until the last of its ranks has read it.
struct Round {
  std::vector<Bytes> contributions;
  std::vector<int> descriptors;
  std::vector<bool> here;
  uint32_t come = 0;
  uint32_t read = 0;
  bool failed = false;
  Error error;

  ~Round() {
    for (const int descriptor : descriptors) {
      if (descriptor >= 0) {
        close(descriptor);
      }
    }
  }
};

struct Regrouping {
  std::vector<bool> here;
  uint32_t waiting = 0;
  bool closed = false;
  std::vector<std::unique_ptr<Bootstrap>> made;  // by place in the list; null: absent
};

struct LocalGroup {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Member> members;
  std::map<uint64_t, Round> rounds;
  // By the list of survivors, and by how often each of its ranks has asked for it.
  std::map<std::pair<std::vector<Rank>, uint32_t>, Regrouping> regroupings;
  std::vector<Handler> handlers;
  std::vector<bool> left;
  std::optional<std::pair<Rank, Error>> failure;
  std::array<Notices, 2> notices;  // by NoticeAbout
};

std::vector<std::unique_ptr<Bootstrap>> make_group(std::vector<Member> members);

class LocalBootstrap : public Bootstrap {
 public:
  LocalBootstrap(std::shared_ptr<LocalGroup> group, Rank rank)
      : group_(std::move(group)), rank_(rank) {}

  ~LocalBootstrap() override {
    const std::lock_guard lock(group_->mutex);
    group_->left[rank_] = true;
    group_->handlers[rank_] = nullptr;
    group_->changed.notify_all();
  }

  Rank rank() const override { return rank_; }
  const std::vector<Member>& members() const override { return group_->members; }
  uint64_t capabilities() const override { return ~uint64_t{0}; }

  Result<std::vector<Bytes>> all_gather(std::span<const std::byte> mine,
                                        base::Deadline deadline) override {
    std::unique_lock lock(group_->mutex);
    Round& round = enter();
    round.contributions[rank_].assign(mine.begin(), mine.end());
    const Result<void> done = complete(lock, round, deadline);
    if (!done) {
      return done.error();
    }
    std::vector<Bytes> result = round.contributions;
    leave(round);
    return result;
  }

  Result<std::vector<int>> exchange_descriptors(int mine, base::Deadline deadline) override {
    std::unique_lock lock(group_->mutex);
    Round& round = enter();
    // The round gets a duplicate: the caller may close its descriptor while others still read.
    round.descriptors[rank_] = mine < 0 ? -1 : fcntl(mine, F_DUPFD_CLOEXEC, 0);
    if (mine >= 0 && round.descriptors[rank_] < 0) {
      const Error error = system_error(
          errno, format("rank {} cannot duplicate descriptor {}, which it brought", rank_, mine));
      // The others learn it now instead of getting none.
      if (!round.failed) {
        round.failed = true;
        round.error = error;
      }
      group_->changed.notify_all();
      leave(round);
      return error;
    }
    const Result<void> done = complete(lock, round, deadline);
    if (!done) {
      return done.error();
    }
    std::vector<int> result;
    int error = 0;
    for (const int descriptor : round.descriptors) {
      result.push_back(descriptor < 0 ? -1 : fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
      error = descriptor >= 0 && result.back() < 0 ? errno : error;
    }
    leave(round);
    if (error != 0) {
      for (const int descriptor : result) {
        if (descriptor >= 0) {
          close(descriptor);
        }
      }
      return system_error(
          error, format("rank {} cannot duplicate {} descriptors", rank_, group_->members.size()));
    }
    return result;
  }

  void on_failure(Handler handler) override {
    std::unique_lock lock(group_->mutex);
    if (group_->failure) {
      const auto [rank, error] = *group_->failure;
      lock.unlock();
      handler(rank, error);
      return;
    }
    group_->handlers[rank_] = std::move(handler);
  }

  void abort(const Error& why) override {
    std::unique_lock lock(group_->mutex);
    if (group_->failure) {
      return;
    }
    group_->failure = {rank_, why};
    group_->changed.notify_all();
    std::vector<Handler> handlers(group_->members.size());
    handlers.swap(group_->handlers);
    // Called under the lock, so that a rank that is destroyed meanwhile waits until its handler has
    // returned.
    for (const Handler& handler : handlers) {
      if (handler) {
        handler(rank_, why);
      }
    }
  }

  void tell(NoticeAbout about, uint64_t number, const std::string& sentence) override {
    const std::lock_guard lock(group_->mutex);
    Notices& notices = group_->notices[static_cast<size_t>(about)];
    static_cast<void>(notices.keep({rank_, number, notice_text(sentence)}));
  }

  std::optional<Notice> told(NoticeAbout about, uint64_t since) const override {
    const std::lock_guard lock(group_->mutex);
    return group_->notices[static_cast<size_t>(about)].since(since);
  }

  std::vector<Rank> dead() const override {
    const std::lock_guard lock(group_->mutex);
    std::vector<Rank> ranks;
    for (Rank i = 0; i < group_->left.size(); ++i) {
      if (group_->left[i]) {
        ranks.push_back(i);
      }
    }
    return ranks;
  }

  Result<std::unique_ptr<Bootstrap>> regroup(const std::vector<Rank>& survivors,
                                             base::Deadline deadline) override {
    const auto place = std::find(survivors.begin(), survivors.end(), rank_);
    if (place == survivors.end()) {
      return fail(CCOM_INVALID, "rank {} is not among the ranks {} of the new group", rank_,
                  rank_list(survivors));
    }
    std::unique_lock lock(group_->mutex);
    const auto key = std::pair(survivors, regrouped_[survivors]++);
    Regrouping& gathering = group_->regroupings[key];
    gathering.here.resize(survivors.size());
    gathering.here[place - survivors.begin()] = true;
    ++gathering.waiting;
    const auto complete = [&] {
      for (size_t i = 0; i < survivors.size(); ++i) {
        if (!gathering.here[i] && !group_->left[survivors[i]]) {
          return false;
        }
      }
      return true;
    };
    group_->changed.wait_until(lock, deadline.when(),
                               [&] { return gathering.closed || complete(); });
    if (!gathering.closed) {
      close_gathering(gathering, survivors);
    }
    auto mine = std::move(gathering.made[place - survivors.begin()]);
    if (--gathering.waiting == 0) {
      group_->regroupings.erase(key);
    }
    if (!mine) {
      return fail(CCOM_TIMEOUT, "rank {} came too late: the new group was formed without it",
                  rank_);
    }
    return mine;
  }

 private:
  Round& enter() {
    Round& round = group_->rounds[number_++];
    const size_t size = group_->members.size();
    if (round.here.empty()) {
      round.here.resize(size);
      round.contributions.resize(size);
      round.descriptors.assign(size, -1);
    }
    round.here[rank_] = true;
    ++round.come;
    return round;
  }

  void leave(Round& round) {
    // A failed round stays for ranks that come late.
    if (++round.read == group_->members.size()) {
      group_->rounds.erase(number_ - 1);
    }
  }

  std::vector<Rank> missing(const Round& round) const {
    std::vector<Rank> ranks;
    for (Rank i = 0; i < round.here.size(); ++i) {
      if (!round.here[i]) {
        ranks.push_back(i);
      }
    }
    return ranks;
  }

  // Waits until all ranks have come to the round. On failure the caller has left the round.
  Result<void> complete(std::unique_lock<std::mutex>& lock, Round& round, base::Deadline deadline) {
    const uint32_t size = static_cast<uint32_t>(group_->members.size());
    if (round.come == size) {
      group_->changed.notify_all();
    }
    const auto over = [&] { return round.failed || group_->failure || gone(round); };
    const bool woken = group_->changed.wait_until(lock, deadline.when(),
                                                  [&] { return round.come == size || over(); });
    if (round.come == size && !round.failed) {
      return {};
    }
    Error error;
    if (round.failed) {
      error = round.error;
    } else if (group_->failure) {
      error = group_->failure->second;
    } else {
      const std::vector<Rank> ranks = missing(round);
      error = woken ? fail(CCOM_RANK_DEAD, "rank {} has left while rank {} waits for it",
                           rank_list(ranks), rank_)
                    : fail(CCOM_TIMEOUT, "rank {} waited for rank {}, which has not come", rank_,
                           rank_list(ranks));
      round.failed = true;
      round.error = error;
      group_->changed.notify_all();
    }
    leave(round);
    return error;
  }

  bool gone(const Round& round) const {
    for (Rank i = 0; i < round.here.size(); ++i) {
      if (!round.here[i] && group_->left[i]) {
        return true;
      }
    }
    return false;
  }

  void close_gathering(Regrouping& gathering, const std::vector<Rank>& survivors) {
    gathering.closed = true;
    std::vector<Member> members;
    for (size_t i = 0; i < survivors.size(); ++i) {
      if (gathering.here[i]) {
        members.push_back(group_->members[survivors[i]]);
      }
    }
    auto group = make_group(std::move(members));
    gathering.made.resize(survivors.size());
    size_t next = 0;
    for (size_t i = 0; i < survivors.size(); ++i) {
      if (gathering.here[i]) {
        gathering.made[i] = std::move(group[next++]);
      }
    }
    group_->changed.notify_all();
  }

  std::shared_ptr<LocalGroup> group_;
  Rank rank_;
  uint64_t number_ = 0;
  std::map<std::vector<Rank>, uint32_t> regrouped_;
};

std::vector<std::unique_ptr<Bootstrap>> make_group(std::vector<Member> members) {
  auto group = std::make_shared<LocalGroup>();
  const size_t size = members.size();
  group->members = std::move(members);
  group->handlers.resize(size);
  group->left.resize(size);
  std::vector<std::unique_ptr<Bootstrap>> ranks;
  for (Rank i = 0; i < size; ++i) {
    group->members[i].rank = i;
    ranks.push_back(std::make_unique<LocalBootstrap>(group, i));
  }
  return ranks;
}

}  // namespace

std::vector<std::unique_ptr<Bootstrap>> make_local_group(uint32_t size) {
  std::vector<Member> members(size);
  for (Member& member : members) {
    member.host = host_name();
    member.host_id = host_identity();
    member.process = getpid();
  }
  return make_group(std::move(members));
}

}  // namespace neuron::ccom
