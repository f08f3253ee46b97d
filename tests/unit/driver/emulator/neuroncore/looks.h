// SPDX-License-Identifier: Apache-2.0
// How long a thread works between two looks at whether anybody still waits for what it does
// (base/abandonment.h), in its own processor time: other load of the host does not count.
//
// Callers: tests, one thread at a time. Only what is done between the first and the last look
// counts, and from construction to longest_ms().
#ifndef TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_LOOKS_H
#define TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_LOOKS_H

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <functional>
#include <utility>

#include "driver/base/abandonment.h"

namespace neuron::core {

class Looks {
 public:
  // Calls `enough` once, at the first look after so many milliseconds.
  explicit Looks(double enough_ms = 1e12, std::function<void()> enough = {}) {
    enough_ms_ = enough_ms;
    enough_ = std::move(enough);
    begin_ = now();
    longest_ = 0;
    count_ = 0;
    last_ = now();
    base::Abandonment::observe(&Looks::look);
  }
  ~Looks() {
    base::Abandonment::observe(nullptr);
    enough_ = {};
  }
  Looks(const Looks&) = delete;
  Looks& operator=(const Looks&) = delete;

  static double longest_ms() {
    enough_ = {};
    look();
    return static_cast<double>(longest_) / 1e6;
  }
  static uint64_t count() { return count_; }

 private:
  static int64_t now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }
  static void look() {
    const int64_t at = now();
    longest_ = std::max(longest_, at - last_);
    last_ = at;
    ++count_;
    if (enough_ && static_cast<double>(at - begin_) / 1e6 > enough_ms_) {
      std::exchange(enough_, {})();
    }
  }

  static inline thread_local double enough_ms_ = 0;
  static inline thread_local std::function<void()> enough_;
  static inline thread_local int64_t begin_ = 0;
  static inline thread_local int64_t longest_ = 0;
  static inline thread_local int64_t last_ = 0;
  static inline thread_local uint64_t count_ = 0;
};

}  // namespace neuron::core

#endif
