// SPDX-License-Identifier: Apache-2.0
//
// The time that at least one of many intervals covers. They come in the order of their ends, as a
// device reports them. Values; one thread. Cannot fail. Keeps few intervals: one that begins before
// all of the last kKept pieces is counted from there on. Who wants the pieces gets each when it is
// settled, in ascending order, the last ones from finish().
#ifndef TOOLS_NEURON_PROFILE_ANALYSIS_BUSY_TIME_H
#define TOOLS_NEURON_PROFILE_ANALYSIS_BUSY_TIME_H

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

namespace neuron::profile {

class BusyTime {
 public:
  using UsePiece = std::function<void(uint64_t begin, uint64_t end)>;
  explicit BusyTime(UsePiece use = {}) : use_(std::move(use)) {}

  // Returns what the interval adds to the time.
  uint64_t add(uint64_t begin, uint64_t end) {
    begin = std::max(begin, settled_);
    if (end <= begin) return 0;
    const uint64_t before = total_;
    while (!pieces_.empty() && pieces_.back().end >= begin) {
      begin = std::min(begin, pieces_.back().begin);
      end = std::max(end, pieces_.back().end);
      total_ -= pieces_.back().end - pieces_.back().begin;
      pieces_.pop_back();
    }
    pieces_.push_back({begin, end});
    total_ += end - begin;
    if (pieces_.size() > kKept) {
      settle();
    }
    return total_ - before;
  }
  uint64_t total() const { return total_; }
  void finish() {
    while (!pieces_.empty()) settle();
  }

 private:
  static constexpr size_t kKept = 4096;
  struct Piece {
    uint64_t begin, end;
  };
  void settle() {
    const Piece first = pieces_.front();
    pieces_.pop_front();
    settled_ = first.end;
    if (use_) use_(first.begin, first.end);
  }

  UsePiece use_;
  std::deque<Piece> pieces_;  // ascending, with gaps between
  uint64_t settled_ = 0;
  uint64_t total_ = 0;
};

}  // namespace neuron::profile

#endif
