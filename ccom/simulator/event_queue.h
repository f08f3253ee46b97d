// SPDX-License-Identifier: Apache-2.0
// Events in the order of time, and of insertion among equal times: a radix queue whose next events
// lie sorted in a small array.
//
// Concepts: a lane has at most one event, so an event is 12 bytes in two arrays by lane: its time
// and the lane behind it in its bucket. A bucket of level n holds the times that differ from the
// base in digit n, and not above; a digit is six bits. The first bucket is opened when the array is
// empty: a few events are sorted into it, many are dealt to the levels below, relative to the least
// of them. Buckets are lists in the order of insertion, and both ways keep that order among equal
// times, so no sequence numbers are needed. No event is earlier than the last one that was taken.
//
// Callers: the engine of events. Thread-safe: no. Cannot fail, except for lack of memory.
#ifndef CCOM_SIMULATOR_EVENT_QUEUE_H
#define CCOM_SIMULATOR_EVENT_QUEUE_H

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace neuron::ccom {

class EventQueue {
 public:
  struct Event {
    uint64_t time = 0;
    uint32_t lane = 0;
  };

  // Lanes are numbered from 0 to `lanes` - 1.
  explicit EventQueue(size_t lanes) : times_(lanes), next_(lanes) {}

  bool empty() const { return size_ == 0; }
  // The lane must have no event, and `time` must not be before the last event that was taken.
  void push(uint64_t time, uint32_t lane) {
    ++size_;
    if (time >= limit_) {
      append(time, lane);
    } else {
      insert({time, lane});
    }
  }
  // Takes the first event; the queue must not be empty.
  Event pop() {
    if (begin_ == end_) open();
    --size_;
    const Event first = near_[begin_++];
    last_ = first.time;
    return first;
  }
  // The lane of the event that is `ahead` behind the first, as far as it is known already and none
  // is pushed before it; else any lane that has or had an event. For prefetching.
  uint32_t soon(size_t ahead) const { return near_[(begin_ + ahead) % kNear].lane; }
  static constexpr uint64_t bytes_of_event() { return sizeof(uint64_t) + sizeof(uint32_t); }

 private:
  static constexpr uint32_t kDigit = 6;  // bits
  static constexpr size_t kBuckets = 1 << kDigit;
  static constexpr size_t kLevels = (64 + kDigit - 1) / kDigit;
  static constexpr size_t kNear = 64;
  static constexpr size_t kFew = 32;  // events that are sorted rather than dealt out
  struct Bucket {
    uint32_t first;
    uint32_t last;
  };

  Bucket& bucket_of(uint64_t time, size_t& level, size_t& digit) {
    level = (63 - static_cast<size_t>(std::countl_zero((time ^ base_) | 1))) / kDigit;
    digit = time >> level * kDigit & (kBuckets - 1);
    return buckets_[level * kBuckets + digit];
  }
  void append(uint64_t time, uint32_t lane) {
    times_[lane] = time;
    link(time, lane);
  }
  void link(uint64_t time, uint32_t lane) {
    size_t level, digit;
    Bucket& bucket = bucket_of(time, level, digit);
    const uint64_t bit = uint64_t{1} << digit;
    if ((filled_[level] & bit) == 0) {
      filled_[level] |= bit;
      levels_ |= 1u << level;
      bucket.first = lane;
    } else {
      next_[bucket.last] = lane;
    }
    bucket.last = lane;
  }
  void insert(const Event& event);
  void open();
  void take_equal(size_t digit);
  bool sort_few(const Bucket& bucket, uint64_t& least, uint64_t& most);
  void clear(size_t level, size_t digit) {
    filled_[level] &= ~(uint64_t{1} << digit);
    if (filled_[level] == 0) levels_ &= ~(1u << level);
  }

  std::vector<uint64_t> times_;  // by lane
  std::vector<uint32_t> next_;   // by lane: the next one in its bucket
  std::array<Bucket, kLevels * kBuckets> buckets_{};
  std::array<uint64_t, kLevels> filled_{};  // a bit for each bucket that is not empty
  uint32_t levels_ = 0;                     // a bit for each level that has one
  size_t size_ = 0;
  uint64_t base_ = 0;
  uint64_t limit_ = 0;  // events before it belong into near_
  uint64_t last_ = 0;   // time of the last event that was taken
  size_t begin_ = 0, end_ = 0;
  std::array<Event, kNear> near_{};  // sorted, from begin_ to end_
};

}  // namespace neuron::ccom

#endif
