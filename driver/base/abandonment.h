// SPDX-License-Identifier: Apache-2.0
// Whether anybody still waits for what this thread does.
//
// Concepts: whoever begins work for somebody who may go away (a client that dies, a core that is
// reset) names the flag of that somebody for the duration of the work. Loops deep below look at it
// at least every millisecond, and leave when it is set; what they leave half done is set up anew by
// whoever sets the flag. Work inside work has a flag of its own. Callers: any thread, for itself.
// Cannot fail. Costs a load of this thread's own and one of the flag.
#ifndef DRIVER_BASE_ABANDONMENT_H
#define DRIVER_BASE_ABANDONMENT_H

#include <atomic>

namespace neuron::base {

class Abandonment {
 public:
  // From here to the end of the scope this thread works for the owner of `flag`, which outlives it.
  explicit Abandonment(const std::atomic<bool>& flag) : outer_(flag_) { flag_ = &flag; }
  ~Abandonment() { flag_ = outer_; }
  Abandonment(const Abandonment&) = delete;
  Abandonment& operator=(const Abandonment&) = delete;

  // Relaxed: the flag orders nothing, it only has to be seen soon.
  static bool seen() { return flag_ != nullptr && flag_->load(std::memory_order_relaxed); }

 private:
  static inline constinit thread_local const std::atomic<bool>* flag_ = nullptr;
  const std::atomic<bool>* const outer_;
};

}  // namespace neuron::base

#endif
