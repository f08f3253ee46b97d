// SPDX-License-Identifier: Apache-2.0
//
// Amounts over the time of an execution, at equal distances: as many points for a long execution as
// for a short one. Points are whole nanoseconds apart, and the last one is at the execution's end
// or behind it. What lies behind the end counts at the last point. Values; one thread. Cannot fail.
#ifndef TOOLS_NEURON_PROFILE_ANALYSIS_TIME_GRID_H
#define TOOLS_NEURON_PROFILE_ANALYSIS_TIME_GRID_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace neuron::profile {

class TimeGrid {
 public:
  static constexpr size_t kMostPoints = 4096;

  // Picoseconds of the whole execution.
  explicit TimeGrid(uint64_t total)
      : width_(std::max<uint64_t>(1, total / kMostPoints / 1000 + 1) * 1000),
        values_(std::min<uint64_t>(kMostPoints, total / width_ + 1) + 1) {}

  uint64_t width() const { return width_; }
  // One more than there are intervals between them.
  size_t points() const { return values_.size(); }
  uint64_t time(size_t point) const { return point * width_; }
  uint64_t value(size_t point) const { return static_cast<uint64_t>(values_[point]); }

  // What passes evenly from `begin` to `end`: value() is what passed since the point before.
  void spread(uint64_t begin, uint64_t end, uint64_t amount) {
    any_ |= amount != 0;
    const size_t first = after(begin), last = after(end > begin ? end - 1 : begin);
    uint64_t given = 0;
    for (size_t point = first; point < last; ++point) {
      const uint64_t share = part(amount, time(point) - begin, end - begin);
      values_[point] += static_cast<int64_t>(share - given);
      given = share;
    }
    values_[last] += static_cast<int64_t>(amount - given);
  }
  // What is there from `begin` to just before `end`. Behind finish_levels(), value() is what is
  // there at the point.
  void level(uint64_t begin, uint64_t end, uint64_t amount) {
    any_ |= amount != 0;
    const size_t first = from(begin), last = from(end);
    if (first >= last) return;
    values_[first] += static_cast<int64_t>(amount);
    if (last < values_.size()) values_[last] -= static_cast<int64_t>(amount);
  }
  void finish_levels() {
    for (size_t point = 1; point < values_.size(); ++point) values_[point] += values_[point - 1];
  }
  // Whether it was given anything.
  bool any() const { return any_; }

 private:
  // The first point behind a time, or the last one.
  size_t after(uint64_t time) const {
    return static_cast<size_t>(std::min<uint64_t>(time / width_ + 1, values_.size() - 1));
  }
  // The first point that is not before a time; points() if there is none.
  size_t from(uint64_t time) const {
    const uint64_t point = time / width_ + (time % width_ != 0 ? 1 : 0);
    return static_cast<size_t>(std::min<uint64_t>(point, values_.size()));
  }
  static uint64_t part(uint64_t amount, uint64_t of, uint64_t whole) {
    return static_cast<uint64_t>(static_cast<double>(amount) * static_cast<double>(of) /
                                 static_cast<double>(whole));
  }

  uint64_t width_;
  std::vector<int64_t> values_;
  bool any_ = false;
};

}  // namespace neuron::profile

#endif
