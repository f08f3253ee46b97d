// SPDX-License-Identifier: Apache-2.0
#include "ccom/proof/contributions.h"

#include <algorithm>

namespace neuron::ccom {

Terms::Terms(uint32_t ranks) : ranks_(ranks), words_((ranks + 63) / 64) {
  for (Rank rank = 0; rank < ranks; ++rank) {
    sets_.emplace_back(words_)[rank / 64] |= uint64_t{1} << rank % 64;
  }
}

bool Terms::reduce(const std::vector<uint32_t>& operands, uint32_t& result, Rank& twice) {
  const auto found = known_.find(operands);
  if (found != known_.end()) {
    result = found->second;
    return true;
  }
  std::vector<uint64_t> sum(words_);
  for (const uint32_t operand : operands) {
    for (uint32_t word = 0; word < words_; ++word) {
      if (const uint64_t both = sum[word] & sets_[operand][word]; both != 0) {
        twice = word * 64 + static_cast<Rank>(__builtin_ctzll(both));
        return false;
      }
      sum[word] |= sets_[operand][word];
    }
  }
  result = static_cast<uint32_t>(sets_.size());
  sets_.push_back(std::move(sum));
  known_.emplace(operands, result);
  return true;
}

bool Terms::holds(uint32_t term, Rank rank) const {
  return (sets_[term][rank / 64] >> rank % 64 & 1) != 0;
}

Rank Terms::missing(uint32_t term) const {
  Rank rank = 0;
  while (rank < ranks_ && holds(term, rank)) ++rank;
  return rank;
}

bool Terms::complete(uint32_t term) const { return missing(term) == ranks_; }

void Contents::write(uint64_t begin, uint64_t end, const Content& content) {
  if (begin >= end) return;
  auto it = runs_.upper_bound(begin);
  if (it != runs_.begin()) {
    auto before = std::prev(it);
    if (before->second.end > begin) {
      Run tail = before->second;
      before->second.end = begin;
      if (tail.end > end) {
        tail.begin = end;
        runs_.emplace(end, tail);
      }
      if (before->second.begin == before->second.end) runs_.erase(before);
    }
  }
  it = runs_.lower_bound(begin);
  while (it != runs_.end() && it->first < end) {
    Run run = it->second;
    it = runs_.erase(it);
    if (run.end > end) {
      run.begin = end;
      runs_.emplace(end, run);
      break;
    }
  }
  Run run{begin, end, content};
  // Neighbours with the same content are merged, so that there are few runs.
  it = runs_.lower_bound(begin);
  if (it != runs_.end() && it->first == end && it->second.content == content) {
    run.end = it->second.end;
    it = runs_.erase(it);
  }
  if (it != runs_.begin()) {
    auto before = std::prev(it);
    if (before->second.end == begin && before->second.content == content) {
      before->second.end = run.end;
      return;
    }
  }
  runs_.emplace_hint(it, run.begin, run);
}

bool Contents::read(uint64_t begin, uint64_t end, std::vector<Run>& runs, uint64_t& hole) const {
  runs.clear();
  uint64_t at = begin;
  auto it = runs_.upper_bound(begin);
  if (it != runs_.begin()) --it;
  for (; at < end && it != runs_.end(); ++it) {
    const Run& run = it->second;
    if (run.end <= at) continue;
    if (run.begin > at) break;
    runs.push_back({at, std::min(end, run.end), run.content});
    at = runs.back().end;
  }
  hole = at;
  return at >= end;
}

}  // namespace neuron::ccom
