// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/event_queue.h"

#include <gtest/gtest.h>

#include <functional>
#include <queue>
#include <random>

namespace neuron::ccom {
namespace {

// The same order by a heap of times and sequence numbers.
class Reference {
 public:
  void push(uint64_t time, uint32_t lane) { heap_.push({time, sequence_++, lane}); }
  bool empty() const { return heap_.empty(); }
  EventQueue::Event pop() {
    const Entry first = heap_.top();
    heap_.pop();
    return {first.time, first.lane};
  }

 private:
  struct Entry {
    uint64_t time, sequence;
    uint32_t lane;
    bool operator>(const Entry& other) const {
      return time != other.time ? time > other.time : sequence > other.sequence;
    }
  };
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
  uint64_t sequence_ = 0;
};

using Delay = std::function<uint64_t(std::mt19937_64&)>;

// Lanes take turns as in a simulation: the one whose event is first resumes itself, or others that
// have no event, after delays of one kind.
void compare(size_t lanes, size_t events, uint64_t begin, const Delay& delay, uint64_t seed) {
  std::mt19937_64 random(seed);
  EventQueue queue(lanes);
  Reference reference;
  std::vector<uint32_t> idle;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    const uint64_t time = begin + delay(random);
    queue.push(time, lane);
    reference.push(time, lane);
  }
  while (!reference.empty()) {
    ASSERT_FALSE(queue.empty());
    const auto expected = reference.pop();
    const auto found = queue.pop();
    ASSERT_EQ(found.time, expected.time) << "seed " << seed;
    ASSERT_EQ(found.lane, expected.lane) << "seed " << seed << " at " << expected.time;
    idle.push_back(found.lane);
    if (events == 0) continue;
    --events;
    for (uint64_t wake = random() % 3; wake != 0 && !idle.empty(); --wake) {
      std::swap(idle[random() % idle.size()], idle.back());
      const uint64_t time = found.time + delay(random);
      queue.push(time, idle.back());
      reference.push(time, idle.back());
      idle.pop_back();
    }
  }
  EXPECT_TRUE(queue.empty());
}

const Delay kKinds[] = {
    [](auto&) { return uint64_t{0}; },
    [](auto&) { return uint64_t{1'500'000}; },
    [](auto& random) { return random() % 2; },
    [](auto& random) { return random() % 100; },
    [](auto& random) { return random() % 3 * 1'000'000; },
    [](auto& random) { return random() % 40'000'000; },
    [](auto& random) { return uint64_t{1} << random() % 45; },
    [](auto& random) { return random() % 8 == 0 ? random() >> 20 : random() % 5; },
};

TEST(EventQueue, EventsComeInTheOrderOfTimeAndOfInsertionAmongEqualTimes) {
  for (const Delay& delay : kKinds) {
    for (const size_t lanes : {1, 2, 31, 33, 64, 65, 129, 1000}) {
      for (uint64_t seed = 0; seed < 4; ++seed) compare(lanes, 4000, 0, delay, seed);
    }
  }
}

TEST(EventQueue, TheEndOfTimeIsATimeLikeOthers) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    compare(
        200, 0, UINT64_MAX - 63, [](auto& random) { return random() % 64; }, seed);
    compare(
        200, 0, UINT64_MAX - (1 << 20), [](auto& random) { return random() >> 44; }, seed);
  }
}

TEST(EventQueue, ManyEventsAtOneTimeKeepTheirOrder) {
  EventQueue queue(5000);
  for (uint32_t lane = 0; lane < 5000; ++lane) queue.push(77, lane * 7 % 5000);
  for (uint32_t lane = 0; lane < 2500; ++lane) {
    const auto event = queue.pop();
    ASSERT_EQ(event.lane, lane * 7 % 5000);
    queue.push(77, event.lane);  // behind all others
  }
  for (uint32_t lane = 2500; lane < 7500; ++lane) ASSERT_EQ(queue.pop().lane, lane * 7 % 5000);
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace neuron::ccom
