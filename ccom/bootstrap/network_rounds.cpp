// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/network_rounds.h"

#include <algorithm>

#include "ccom/bootstrap/rank_list.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

uint32_t milliseconds_until(base::Deadline deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline.remaining());
  return static_cast<uint32_t>(std::min<int64_t>(left.count(), 24 * 3600 * 1000));
}

}  // namespace

Result<std::vector<Bytes>> NetworkRounds::all_gather(std::span<const std::byte> mine,
                                                     base::Deadline deadline) {
  if (mine.size() > kGatherBytes) {
    return fail(CCOM_INVALID, "an all-gather of the bootstrap takes {} bytes of a rank, {} given",
                kGatherBytes, mine.size());
  }
  GatherUp message;
  message.rank = job_.rank();
  message.remaining_ms = milliseconds_until(deadline);
  message.data.assign(mine.begin(), mine.end());
  auto answer = std::make_shared<Answer>();
  std::unique_lock lock(job_.mutex);
  if (job_.failure) {
    return job_.failure->second;
  }
  message.round = next_++;
  answers_[message.round] = answer;
  job_.loop->post([this, message] { gather_up(message); });
  const bool done = job_.changed.wait_until(lock, deadline.later_by(kGrace).when(),
                                            [&] { return answer->there || job_.failure; });
  answers_.erase(message.round);
  if (answer->there && !answer->error) {
    return std::move(answer->data);
  }
  if (answer->error) {
    return *answer->error;
  }
  if (done) {
    return job_.failure->second;
  }
  // At rank 0 the timer of its own thread names who is missing.
  return job_.rank() == 0
             ? fail(CCOM_TIMEOUT,
                    "{} waited for the others, and its thread that counts who has come had no "
                    "turn: {} ms after the deadline it had not said who is missing. This host is "
                    "too busy, or the thread was stopped",
                    describe(job_.me()), kGrace.count())
             : fail(CCOM_TIMEOUT, "{} waited for {}, which did not say who is missing",
                    describe(job_.me()), describe(job_.table.members[0]));
}

bool NetworkRounds::hear(Rank from, MessageType type, const Bytes& body) {
  GatherUp up;
  GatherDown down;
  RoundFailed failed;
  if (!job_.is_parent(from)) {
    if (type != MessageType::kGatherUp || !decode(body, up) || up.rank >= job_.options.size) {
      return false;
    }
    gather_up(up);
    return true;
  }
  if (type == MessageType::kGatherDown && decode(body, down) &&
      down.data.size() == job_.options.size) {
    tree_.send_down(type, body);
    answer(down.round, std::move(down.data), std::nullopt);
    return true;
  }
  if (type == MessageType::kRoundFailed && decode(body, failed)) {
    tree_.send_down(type, body);
    answer(failed.round, {}, Error{CCOM_TIMEOUT, failed.sentence});
    return true;
  }
  return false;
}

void NetworkRounds::gather_up(const GatherUp& message) {
  if (job_.failed) {
    return;  // the callers know or will know: a round never succeeds after a reported failure
  }
  if (job_.rank() != 0) {
    tree_.send_up(MessageType::kGatherUp, encode(message));
    return;
  }
  Round& round = rounds_[message.round];
  if (round.here.empty()) {
    round.here.resize(job_.options.size);
    round.data.resize(job_.options.size);
  }
  if (round.here[message.rank]) {
    return;
  }
  round.here[message.rank] = true;
  round.data[message.rank] = message.data;
  // The earliest deadline counts: its rank will not wait longer.
  const base::Deadline until = base::Deadline::after(milliseconds(message.remaining_ms));
  if (until < round.until) {
    if (round.timer != 0) {
      job_.loop->cancel(round.timer);
    }
    round.until = until;
    round.timer = job_.loop->after(milliseconds(message.remaining_ms),
                                   [this, number = message.round] { time_out(number); });
  }
  if (++round.come == job_.options.size) {
    job_.loop->cancel(round.timer);
    std::vector<Bytes> data = std::move(round.data);
    rounds_.erase(message.round);
    tree_.send_down(MessageType::kGatherDown, encode(GatherDown{message.round, data}));
    answer(message.round, std::move(data), std::nullopt);
  }
}

void NetworkRounds::time_out(uint64_t number) {
  const Round& round = rounds_[number];
  std::vector<Rank> missing, behind;
  for (Rank i = 0; i < job_.options.size; ++i) {
    if (!round.here[i]) {
      // Ranks below a missing rank may only be cut off by it.
      const bool cut_off = i != 0 && !round.here[tree_parent(i)] && tree_parent(i) != 0;
      (cut_off ? behind : missing).push_back(i);
    }
  }
  std::string sentence = missing.size() == 1 ? describe(job_.table.members[missing[0]])
                                             : format("ranks {}", rank_list(missing));
  sentence += " did not come while the others waited";
  if (!behind.empty()) {
    sentence += format("; nor did ranks {}, which speak through them", rank_list(behind));
  }
  rounds_.erase(number);
  tree_.send_down(MessageType::kRoundFailed, encode(RoundFailed{number, sentence}));
  answer(number, {}, Error{CCOM_TIMEOUT, sentence});
}

void NetworkRounds::answer(uint64_t number, std::vector<Bytes> data, std::optional<Error> error) {
  const std::lock_guard lock(job_.mutex);
  const auto answer = answers_.find(number);
  if (answer != answers_.end()) {
    answer->second->data = std::move(data);
    answer->second->error = std::move(error);
    answer->second->there = true;
    job_.changed.notify_all();
  }
}

}  // namespace neuron::ccom
