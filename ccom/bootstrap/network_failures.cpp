// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/network_failures.h"

namespace neuron::ccom {
namespace {

MessageType type_of(NoticeAbout about) {
  return about == NoticeAbout::kGrowth ? MessageType::kGrowthNotice : MessageType::kNotice;
}

}  // namespace

void NetworkFailures::on_failure(std::function<void(Rank, const Error&)> handler) {
  job_.loop->post([this, handler = std::move(handler)] {
    std::optional<std::pair<Rank, Error>> failure;
    {
      const std::lock_guard lock(job_.mutex);
      handler_ = handler;
      failure = job_.failure;
    }
    if (failure && !std::exchange(handler_called_, true)) {
      handler(failure->first, failure->second);
    }
  });
}

void NetworkFailures::abort(const Error& why) {
  job_.loop->post([this, why] {
    spread(Failure{job_.rank(), 0, static_cast<uint32_t>(why.status), why.sentence}, job_.rank());
  });
}

void NetworkFailures::tell(NoticeAbout about, uint64_t number, const std::string& sentence) {
  const Notice notice{job_.rank(), number, notice_text(sentence)};
  if (keep(about, notice)) {
    job_.loop->post([this, type = type_of(about), body = encode(notice)] {
      tree_.send_all(type, body, job_.rank());
    });
  }
}

std::optional<Notice> NetworkFailures::told(NoticeAbout about, uint64_t since) const {
  const std::lock_guard lock(job_.mutex);
  return notices_[static_cast<size_t>(about)].since(since);
}

bool NetworkFailures::keep(NoticeAbout about, const Notice& notice) {
  const std::lock_guard lock(job_.mutex);
  return notices_[static_cast<size_t>(about)].keep(notice);
}

std::vector<Rank> NetworkFailures::dead() const {
  const std::lock_guard lock(job_.mutex);
  return {job_.dead.begin(), job_.dead.end()};
}

std::optional<Error> NetworkFailures::failure() const {
  const std::lock_guard lock(job_.mutex);
  return job_.failure ? std::optional<Error>(job_.failure->second) : std::nullopt;
}

bool NetworkFailures::hear(Rank from, MessageType type, const Bytes& body) {
  Failure failure;
  Notice notice;
  if (type == MessageType::kFailure && decode(body, failure) && failure.rank < job_.options.size) {
    spread(failure, from);
    return true;
  }
  for (const NoticeAbout about : {NoticeAbout::kProgram, NoticeAbout::kGrowth}) {
    if (type == type_of(about) && decode(body, notice) && notice.rank < job_.options.size) {
      if (keep(about, notice)) {
        tree_.send_all(type, body, from);
      }
      return true;
    }
  }
  return false;
}

void NetworkFailures::declare_dead(Rank rank, const std::string& sentence, Rank from) {
  spread(Failure{rank, 1, CCOM_RANK_DEAD, sentence}, from);
}

void NetworkFailures::spread(const Failure& failure, Rank from) {
  if (failure.dead != 0) {
    const std::lock_guard lock(job_.mutex);
    if (!job_.dead.insert(failure.rank).second) {
      return;
    }
  } else if (!aborted_.insert(failure.rank).second) {
    return;
  }
  tree_.send_all(MessageType::kFailure, encode(failure), from);
  report(failure.rank, {static_cast<ccom_status_t>(failure.status), failure.sentence});
  if (failure.dead != 0) {
    died_();
  }
}

void NetworkFailures::report(Rank rank, const Error& error) {
  job_.failed = true;
  std::function<void(Rank, const Error&)> handler;
  {
    const std::lock_guard lock(job_.mutex);
    if (job_.failure) {
      return;
    }
    job_.failure = {rank, error};
    handler = handler_;
    job_.changed.notify_all();
  }
  if (handler && !std::exchange(handler_called_, true)) {
    handler(rank, error);
  }
}

}  // namespace neuron::ccom
