// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/meeting.h"

namespace neuron::runtime {

std::string missing_ranks(const std::vector<bool>& there) {
  std::string text;
  size_t count = 0;
  for (size_t first = 0; first < there.size(); ++first) {
    if (there[first]) continue;
    size_t last = first;
    while (last + 1 < there.size() && !there[last + 1]) ++last;
    text += text.empty() ? "" : ", ";
    text += first == last ? format("{}", first) : format("{}-{}", first, last);
    count += last - first + 1;
    first = last;
  }
  return format("{} {} of {}", count == 1 ? "rank" : "ranks", text, there.size());
}

Result<std::vector<Message>> Meeting::exchange(uint32_t rank, std::span<const std::byte> mine,
                                               base::Deadline deadline) {
  std::unique_lock lock(mutex_);
  const uint64_t number = exchanges_[rank];
  Round& round = rounds_[number];
  round.given.resize(size_);
  if (round.given[rank]) {
    return fail(NRT_INVALID, "rank {} takes part in the same exchange from two threads", rank);
  }
  round.given[rank].emplace(mine.begin(), mine.end());
  ++exchanges_[rank];
  if (++round.arrived == size_) complete_.notify_all();
  const bool met =
      complete_.wait_until(lock, deadline.when(), [&] { return round.arrived == size_; });
  if (!met) {
    std::vector<bool> there(size_);
    for (uint32_t r = 0; r < size_; ++r) there[r] = round.given[r].has_value();
    round.given[rank].reset();
    --round.arrived;
    // The rank will come again with the same number. A failure noted while it waited belongs to the
    // exchange before.
    if (auto failure = failures_.extract(exchanges_[rank]--)) {
      --failure.key();
      failures_.insert(std::move(failure));
    }
    return fail(NRT_TIMEOUT, "{} did not come", missing_ranks(there));
  }
  std::vector<Message> all;
  for (const auto& message : round.given) all.push_back(*message);
  if (++round.taken == size_) rounds_.erase(number);
  return all;
}

uint64_t Meeting::exchanges(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  return exchanges_[rank];
}

std::string describe_failure_of(uint32_t rank, const std::string& sentence) {
  return format("rank {} has failed ({})", rank, sentence);
}

void Meeting::note_failure(uint32_t rank, const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  failures_.try_emplace(exchanges_[rank], describe_failure_of(rank, sentence));
  if (failures_.size() > kFailures) failures_.erase(failures_.begin());
}

std::optional<std::string> Meeting::failure_since(uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = failures_.lower_bound(number);
  if (found == failures_.end()) return std::nullopt;
  return found->second;
}

}  // namespace neuron::runtime
