// SPDX-License-Identifier: Apache-2.0
// Whether anybody still waits for what this thread does.
//
// Concepts: whoever begins work for somebody who may go away (a client that dies, a core that is
// reset) names the flag of that somebody for the duration of the work. Loops deep below look at it
// at least every millisecond, and leave when it is set: by their result, or by Abandoned, which the
// one who named the flag catches. What they leave half done is set up anew by whoever sets the
// flag. Work inside work has a flag of its own. Callers: any thread, for itself. Cannot fail. Costs
// a load of this thread's own and one of the flag.
#ifndef DRIVER_BASE_ABANDONMENT_H
#define DRIVER_BASE_ABANDONMENT_H

#include <atomic>
#include <cstdint>

namespace neuron::base {

struct Abandoned {};

class Abandonment {
 public:
  // From here to the end of the scope this thread works for the owner of `flag`, which outlives it.
  explicit Abandonment(const std::atomic<bool>& flag) : outer_(mine_.flag) { mine_.flag = &flag; }
  ~Abandonment() { mine_.flag = outer_; }
  Abandonment(const Abandonment&) = delete;
  Abandonment& operator=(const Abandonment&) = delete;

  // Relaxed: the flag orders nothing, it only has to be seen soon.
  static bool seen() {
    // Read at once: to find a variable of a thread takes a call in a library.
    const auto [flag, observer] = mine_;
    if (observer != nullptr) [[unlikely]] {
      observer();
    }
    return flag != nullptr && flag->load(std::memory_order_relaxed);
  }
  // For tests: `observer` is called at each look of this thread, or nothing is (null).
  static void observe(void (*observer)()) { mine_.observer = observer; }
  // Throws Abandoned if it is.
  static void look() {
    if (seen()) [[unlikely]] {
      throw Abandoned{};
    }
  }
  // The same for the steps of a long loop, at every 4096th.
  static void look_now_and_then(uint32_t& steps) {
    if ((++steps & 4095) == 0) [[unlikely]] {
      look();
    }
  }

 private:
  struct Mine {  // of a thread
    const std::atomic<bool>* flag;
    void (*observer)();
  };
  static inline constinit thread_local Mine mine_{nullptr, nullptr};
  const std::atomic<bool>* const outer_;
};

}  // namespace neuron::base

#endif
