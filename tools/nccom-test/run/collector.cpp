// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/collector.h"

#include <algorithm>

#include "tools/nccom-test/input/operation.h"

namespace neuron::nccom {

using ccom::format;

namespace {
constexpr size_t kMostNamed = 16;

// "rank 3", "ranks 0, 1 and 3 to 7".
std::string text_of(std::vector<uint32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::vector<std::string> parts;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last - i < 2) last = i;  // two neighbours are named
    parts.push_back(last == i ? std::to_string(ranks[i])
                              : format("{} to {}", ranks[i], ranks[last]));
    i = last + 1;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < parts.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  return text;
}

}  // namespace

std::string Collector::Told::sentence() const {
  if (ranks.empty()) return text;
  if (of_ranks) return format("{}: {}", text_of(ranks), text);
  return ranks.size() == 1 ? text : format("{} (said by {})", text, text_of(ranks));
}

Collector::Collector(const Job& job, uint32_t ranks)
    : job_(job), ranks_(ranks), rank_states_(ranks) {
  size_t steps = 0;
  for (const Phase& phase : job.phases) {
    first_step_.push_back(steps);
    steps += phase.steps();
    Cell empty;
    empty.told.resize(ranks);
    empty.outstanding = ranks;
    empty.row.rank_mean_us.resize(ranks);
    cells_.emplace_back(phase.steps(), std::vector<Cell>(phase.blocks.size(), empty));
    for (size_t s = 0; s < phase.steps(); ++s) {
      for (size_t b = 0; b < phase.blocks.size(); ++b) {
        cells_.back()[s][b].row.size = phase.blocks[b].sizes[phase.step_of(b, s)];
      }
    }
  }
}

bool Collector::known(const Message& message) const {
  return message.rank < ranks_ && message.phase < cells_.size() &&
         message.step < cells_[message.phase].size() &&
         message.block < cells_[message.phase][message.step].size();
}

Collector::Cell& Collector::cell(const Message& message) {
  return cells_[message.phase][message.step][message.block];
}

void Collector::put(const Message& message) {
  const std::lock_guard lock(mutex_);
  if (message.rank >= ranks_) return;
  if (message.kind == Message::Kind::kGetsOn) {
    progress_ = Clock::now();
    return;
  }
  RankState& rank = rank_states_[message.rank];
  ++changes_;
  changed_.notify_all();
  if (message.kind == Message::Kind::kEnd) {
    if (!rank.ended) ++ended_;
    rank.ended = true;
    rank.doing = "through";
    if (ended_ == ranks_ && state_ == State::kRunning) state_ = State::kDone;
    return;
  }
  if (message.kind == Message::Kind::kBroken) {
    rank.ended = true;
    rank.doing = "failed: " + message.text;
    fail_locked({message.text, message.text.find("rank") == std::string::npos, {message.rank}});
    return;
  }
  if (!known(message)) return;
  progress_ = Clock::now();
  rank.position = first_step_[message.phase] + message.step;
  if (message.kind == Message::Kind::kAt) {
    rank.doing = message.text;
    return;
  }
  Cell& at = cell(message);
  if (at.told[message.rank]) return;
  at.told[message.rank] = true;
  --at.outstanding;
  Row& row = at.row;
  if (message.kind == Message::Kind::kFailed) {
    if (row.failure.empty()) row.failure = message.text;
  } else if (message.kind == Message::Kind::kDone) {
    // Ranks may have different sizes, as with counts of their own: the largest stands for all.
    if (message.size >= row.size || row.count == 0) {
      row.size = message.size;
      row.count = message.count;
    }
    row.total_input = std::max(row.total_input, message.total_input);
    row.total_output = std::max(row.total_output, message.total_output);
    row.times_us.insert(row.times_us.end(), message.times_us.begin(), message.times_us.end());
    row.rank_mean_us[message.rank] = average(message.times_us);
    row.checked += message.compared != 0 ? 1 : 0;
    row.compared += message.compared;
    if (!message.text.empty()) row.algorithm = message.text;
  }
  count_completed();
}

void Collector::count_completed() {
  while (completed_ < steps()) {
    size_t phase = first_step_.size() - 1;
    while (first_step_[phase] > completed_) --phase;
    for (const Cell& each : cells_[phase][completed_ - first_step_[phase]]) {
      if (each.outstanding != 0) return;
    }
    ++completed_;
  }
}

void Collector::lost(uint32_t rank, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (rank >= ranks_ || rank_states_[rank].ended) return;
  const std::string doing = rank_states_[rank].doing;
  rank_states_[rank].ended = true;
  rank_states_[rank].doing = why;
  ++changes_;
  changed_.notify_all();
  fail_locked({format("{} while {}", why, doing), true, {rank}});
}

void Collector::fail_locked(Told told) {
  if (state_ == State::kBroken) {
    const auto same = [&](const Told& earlier) {
      return !told.ranks.empty() && !earlier.ranks.empty() && earlier.text == told.text &&
             earlier.of_ranks == told.of_ranks;
    };
    const auto at = std::find_if(notes_.begin(), notes_.end(), same);
    if (same(first_)) {
      first_.ranks.push_back(told.ranks.front());
    } else if (at != notes_.end()) {
      at->ranks.push_back(told.ranks.front());
    } else if (notes_.size() < kMostNamed) {
      notes_.push_back(std::move(told));
    }
    return;
  }
  state_ = State::kBroken;
  first_ = std::move(told);
  for (auto& phase : cells_) {
    for (auto& step : phase) {
      bool open = false;
      for (Cell& each : step) {
        if (each.outstanding == 0) continue;
        open = true;
        if (each.row.failure.empty()) each.failed = true;
      }
      if (open) return;
    }
  }
}

void Collector::give_up(const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  fail_locked({.text = sentence});
  changed_.notify_all();
}

Collector::State Collector::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

bool Collector::all_ended() const {
  const std::lock_guard lock(mutex_);
  return std::all_of(rank_states_.begin(), rank_states_.end(),
                     [](const RankState& rank) { return rank.ended; });
}

Collector::State Collector::wait_until(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  const uint64_t before = changes_;
  changed_.wait_until(lock, until, [&] { return changes_ != before || state_ != State::kRunning; });
  return state_;
}

Collector::Clock::time_point Collector::last_progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

void Collector::get_on() {
  const std::lock_guard lock(mutex_);
  progress_ = Clock::now();
}

std::string Collector::missing() const {
  const std::lock_guard lock(mutex_);
  return missing_locked();
}

std::string Collector::missing_locked() const {
  // The others wait for the ranks that are furthest behind.
  size_t least = steps();
  for (const RankState& rank : rank_states_) {
    if (!rank.ended) least = std::min(least, rank.position);
  }
  std::string text;
  size_t named = 0, more = 0;
  for (uint32_t r = 0; r < ranks_; ++r) {
    const RankState& rank = rank_states_[r];
    if (rank.ended || rank.position != least) continue;
    if (named++ >= kMostNamed) {
      ++more;
    } else {
      text += format("{}rank {}: {}", text.empty() ? "" : "; ", r, rank.doing);
    }
  }
  return more == 0 ? text : text + format("; and {} more", more);
}

size_t Collector::completed_steps() const {
  const std::lock_guard lock(mutex_);
  return completed_;
}

size_t Collector::steps() const {
  return cells_.empty() ? 0 : first_step_.back() + cells_.back().size();
}

std::vector<Block> Collector::blocks() const {
  const std::lock_guard lock(mutex_);
  std::vector<Block> result;
  for (size_t p = 0; p < cells_.size(); ++p) {
    const Phase& phase = job_.phases[p];
    if (phase.of_heat_map) continue;
    for (size_t b = 0; b < phase.blocks.size(); ++b) {
      const PhaseBlock& from = phase.blocks[b];
      Block block;
      block.title = from.title;
      block.operation = from.options.operation;
      block.type = from.options.type;
      block.group_ranks = static_cast<uint32_t>(from.groups.front().size());
      block.operations_per_iteration = from.options.operations_per_iteration;
      for (const auto& step : cells_[p]) {
        if (step[b].outstanding == 0 || step[b].failed || !step[b].row.failure.empty()) {
          block.rows.push_back(step[b].row);
          if (step[b].failed) block.rows.back().failure = first_.sentence();
        }
      }
      if (!block.rows.empty()) result.push_back(std::move(block));
    }
  }
  return result;
}

std::vector<std::string> Collector::notes() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> sentences;
  for (const Told& note : notes_) sentences.push_back(note.sentence());
  return sentences;
}

std::vector<std::vector<double>> Collector::pair_times(uint64_t& bytes) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::vector<double>> result;
  for (size_t p = 0; p < cells_.size(); ++p) {
    if (!job_.phases[p].of_heat_map) continue;
    if (result.empty()) result.assign(ranks_, std::vector<double>(ranks_));
    const Cell& at = cells_[p][0][0];
    const ccom_pair_t pair = job_.phases[p].blocks[0].pairs[0];
    bytes = at.row.size;
    // The receiver knows when the message has arrived; the sender may be done earlier.
    if (!at.failed && at.row.failure.empty()) {
      result[pair.source][pair.target] = at.row.rank_mean_us[pair.target];
    }
  }
  return result;
}

}  // namespace neuron::nccom
