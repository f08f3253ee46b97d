// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/network_bootstrap.h"

#include <unistd.h>

#include "ccom/bootstrap/file_descriptor_exchange.h"
#include "ccom/bootstrap/local_bootstrap.h"
#include "ccom/bootstrap/rank_list.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

// How long a leaving rank passes news on to those behind it that have not left yet.
constexpr milliseconds kLinger{200};

}  // namespace

Result<std::unique_ptr<Bootstrap>> Bootstrap::join(const JoinOptions& options, int listener,
                                                   const Interruption& interrupted) {
  return NetworkBootstrap::join_at(options, listener, interrupted);
}

Result<std::unique_ptr<Bootstrap>> NetworkBootstrap::join_at(const JoinOptions& options,
                                                             int listener,
                                                             const Interruption& interrupted) {
  if (options.size == 0 || options.size > kMaxRanks || options.rank >= options.size) {
    if (listener >= 0) {
      ::close(listener);
    }
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
  NEURON_CHECK(made->join_.start(listener));
  // bounded: by the deadline of the options.
  NEURON_CHECK(made->join_.wait(interrupted));
  return std::unique_ptr<Bootstrap>(std::move(made));
}

NetworkBootstrap::NetworkBootstrap(const JoinOptions& options)
    : job_(options),
      tree_(job_, {[this](Rank from, MessageType type, const Bytes& body) {
                     return hear(from, type, body);
                   },
                   [this](Rank rank, const std::string& why) { lose(rank, why); }}),
      failures_(job_, tree_, [this] { regroup_.decide_all(); }),
      rounds_(job_, tree_),
      regroup_(job_, failures_),
      join_(job_, tree_, [this](const Regroup& request, LinkPointer link) {
        regroup_.gather(request, std::move(link));
      }) {}

NetworkBootstrap::~NetworkBootstrap() {
  if (job_.loop == nullptr) {
    return;
  }
  const bool quick = !join_.done() || failures_.failure().has_value();
  const base::Deadline until = base::Deadline::after(quick ? milliseconds(0) : kLinger);
  job_.loop->post([this, until] { leave(until); });
  {
    std::unique_lock lock(job_.mutex);
    job_.changed.wait_until(lock, until.later_by(milliseconds(300)).when(), [&] { return left_; });
  }
  // What was sent leaves the process with the sockets' own buffers, unless those are full.
  job_.loop->stop();
}

void NetworkBootstrap::leave(base::Deadline until) {
  if (job_.ready && tree_.has_followers() && !until.expired()) {
    job_.loop->after(milliseconds(1), [this, until] { leave(until); });
    return;
  }
  job_.leaving = true;
  tree_.leave();
  join_.leave();
  const std::lock_guard lock(job_.mutex);
  left_ = true;
  job_.changed.notify_all();
}

bool NetworkBootstrap::hear(Rank from, MessageType type, const Bytes& body) {
  switch (type) {
    case MessageType::kReady:
    case MessageType::kTable:
    case MessageType::kGo:
      return join_.hear(from, type, body);
    case MessageType::kGatherUp:
    case MessageType::kGatherDown:
    case MessageType::kRoundFailed:
      return rounds_.hear(from, type, body);
    case MessageType::kFailure:
    case MessageType::kNotice:
    case MessageType::kGrowthNotice:
      return failures_.hear(from, type, body);
    default:
      return false;
  }
}

void NetworkBootstrap::lose(Rank rank, const std::string& why) {
  if (!job_.ready) {
    join_.lose(rank, why);
    return;
  }
  failures_.declare_dead(rank,
                         format("{} died: {}; {} noticed", describe(job_.table.members[rank]), why,
                                describe(job_.me())),
                         rank);
}

Result<std::vector<int>> NetworkBootstrap::exchange_descriptors(int mine, base::Deadline deadline) {
  return ccom::exchange_descriptors(job_, failures_, rounds_, mine, deadline);
}

Result<std::unique_ptr<Bootstrap>> NetworkBootstrap::regroup(const std::vector<Rank>& survivors,
                                                             base::Deadline deadline) {
  NEURON_TRY(group, regroup_.regroup(survivors, deadline));
  return join_at(group.options, group.listener);
}

}  // namespace neuron::ccom
