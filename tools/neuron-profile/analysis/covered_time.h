// SPDX-License-Identifier: Apache-2.0
//
// The time that at least one of many intervals covers, in whatever order they come.
//
// Intervals are collected, sorted and joined a few thousand at a time. Values; one thread. Cannot
// fail. Bounded: with more than kMostPieces separate pieces, gaps shorter than a resolution count
// as covered, and the resolution doubles until few enough are left; error() is what that added.
#ifndef TOOLS_NEURON_PROFILE_ANALYSIS_COVERED_TIME_H
#define TOOLS_NEURON_PROFILE_ANALYSIS_COVERED_TIME_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace neuron::profile {

// What a part of a time is of the whole; 0 of none.
inline double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

class CoveredTime {
 public:
  static constexpr size_t kMostPieces = 1u << 20;  // 16 MiB

  explicit CoveredTime(size_t most = kMostPieces) : most_(most) {}

  void add(uint64_t begin, uint64_t end) {
    if (end <= begin) return;
    // Most intervals begin where the one before them ended.
    if (!waiting_.empty() && begin >= waiting_.back().begin && begin <= waiting_.back().end) {
      waiting_.back().end = std::max(waiting_.back().end, end);
      return;
    }
    waiting_.push_back({begin, end});
    if (waiting_.size() >= kWaiting + pieces_.size() / 4) join();
  }
  uint64_t total() {
    join();
    uint64_t sum = 0;
    for (const Piece& piece : pieces_) sum += piece.end - piece.begin;
    return sum;
  }
  // How much longer total() is at most than the time that is covered.
  uint64_t error() const { return error_; }

 private:
  static constexpr size_t kWaiting = 4096;
  struct Piece {
    uint64_t begin, end;
  };

  void join() {
    if (waiting_.empty()) return;
    const auto by_begin = [](const Piece& a, const Piece& b) { return a.begin < b.begin; };
    std::sort(waiting_.begin(), waiting_.end(), by_begin);
    const auto middle = static_cast<ptrdiff_t>(pieces_.size());
    pieces_.insert(pieces_.end(), waiting_.begin(), waiting_.end());
    std::inplace_merge(pieces_.begin(), pieces_.begin() + middle, pieces_.end(), by_begin);
    waiting_.clear();
    close_gaps();
    while (pieces_.size() > most_) {
      resolution_ = std::max<uint64_t>(2 * resolution_, 1000);
      close_gaps();
    }
  }

  void close_gaps() {
    size_t kept = 0;
    for (const Piece& piece : pieces_) {
      if (kept != 0 && piece.begin <= pieces_[kept - 1].end + resolution_) {
        Piece& last = pieces_[kept - 1];
        if (piece.begin > last.end) error_ += piece.begin - last.end;
        last.end = std::max(last.end, piece.end);
      } else {
        pieces_[kept++] = piece;
      }
    }
    pieces_.resize(kept);
  }

  size_t most_;
  std::vector<Piece> waiting_;
  std::vector<Piece> pieces_;  // ascending, with gaps between
  uint64_t resolution_ = 0;
  uint64_t error_ = 0;
};

}  // namespace neuron::profile

#endif
