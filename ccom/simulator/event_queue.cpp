// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/event_queue.h"

#include <algorithm>

namespace neuron::ccom {

// Behind the events of the same time, which are older.
void EventQueue::insert(const Event& event) {
  if (end_ == kNear) {
    if (begin_ == 0) {
      // Too many to keep sorted: all go back, in their order, to buckets around the present.
      base_ = last_;
      limit_ = 0;
      for (const Event& back : near_) append(back.time, back.lane);
      end_ = 0;
      append(event.time, event.lane);
      return;
    }
    std::copy(near_.begin() + static_cast<ptrdiff_t>(begin_), near_.end(), near_.begin());
    end_ -= begin_;
    begin_ = 0;
  }
  size_t at = end_++;
  for (; at != begin_ && near_[at - 1].time > event.time; --at) near_[at] = near_[at - 1];
  near_[at] = event;
}

// Puts the first events of a bucket of level 0, which all have the same time, into the array. The
// others stay where they are, and later ones queue behind them.
void EventQueue::take_equal(size_t digit) {
  Bucket& bucket = buckets_[digit];
  const uint64_t time = times_[bucket.first];
  uint32_t lane = bucket.first;
  for (;;) {  // bounded: by kNear
    near_[end_++] = {time, lane};
    if (lane == bucket.last) {
      clear(0, digit);
      limit_ = time + 1;
      return;
    }
    lane = next_[lane];
    if (end_ == kNear) break;
  }
  bucket.first = lane;
  limit_ = time;
}

// Sorts a bucket's events into the array if they are few; else finds their least and greatest time.
bool EventQueue::sort_few(const Bucket& bucket, uint64_t& least, uint64_t& most) {
  least = UINT64_MAX;
  most = 0;
  uint32_t lane = bucket.first;
  for (size_t count = 1;; ++count) {  // bounded: by the events of the bucket
    const uint64_t time = times_[lane];
    least = std::min(least, time);
    most = std::max(most, time);
    if (count <= kFew) {
      size_t at = end_++;
      for (; at != 0 && near_[at - 1].time > time; --at) near_[at] = near_[at - 1];
      near_[at] = {time, lane};
    }
    if (lane == bucket.last) {
      if (count <= kFew) return true;
      end_ = 0;
      return false;
    }
    lane = next_[lane];
  }
}

void EventQueue::open() {
  begin_ = end_ = 0;
  for (;;) {  // bounded: each turn goes down a level
    const auto level = static_cast<size_t>(std::countr_zero(levels_));
    const auto digit = static_cast<size_t>(std::countr_zero(filled_[level]));
    if (level == 0) {
      base_ = times_[buckets_[digit].first];
      take_equal(digit);
      return;
    }
    const Bucket bucket = buckets_[level * kBuckets + digit];
    clear(level, digit);
    uint64_t least, most;
    if (sort_few(bucket, least, most)) {
      // Later events must not come into levels below, so the base stays within this bucket.
      base_ = least;
      const uint64_t span = uint64_t{1} << level * kDigit;
      limit_ = (least & ~(span - 1)) + span;
      if (limit_ == 0) limit_ = UINT64_MAX;
      return;
    }
    base_ = least;
    if (least == most) {  // all of them at once
      const size_t last = least & (kBuckets - 1);
      buckets_[last] = bucket;
      filled_[0] |= uint64_t{1} << last;
      levels_ |= 1;
      continue;
    }
    for (uint32_t lane = bucket.first;;) {  // bounded: by the events of the bucket
      const uint32_t behind = next_[lane];
      const bool end = lane == bucket.last;
      link(times_[lane], lane);
      if (end) break;
      lane = behind;
    }
  }
}

}  // namespace neuron::ccom
