// SPDX-License-Identifier: Apache-2.0
//
// The entries of one ring in one execution, beside those that the profile has last.
//
// Executions of one program are often alike, so what comes is compared where it lies, and copied
// only from the first entry on that differs. Callers: the sink of a profile. Thread-safe: no. Owns
// the entries. Fails: std::bad_alloc.
#ifndef RUNTIME_PROFILE_RECORDED_RING_H
#define RUNTIME_PROFILE_RECORDED_RING_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "hw/notification.h"

namespace neuron::runtime {

class RecordedRing {
 public:
  // As the device has written them; kept without their phase, since whether a lap of the ring is
  // even says nothing about an execution.
  void add(std::span<const neuron_notification> entries) {
    if (!differs_) {
      if (goes_on_with(entries)) {
        same_ += entries.size();
        return;
      }
      differs_ = true;
      now_.assign(before_.begin(), before_.begin() + static_cast<ptrdiff_t>(same_));
    }
    const size_t first = now_.size();
    now_.insert(now_.end(), entries.begin(), entries.end());
    for (size_t n = first; n < now_.size(); ++n) now_[n].word &= ~kPhase;
  }

  // What was added since the last written() or forget().
  std::span<const neuron_notification> entries() const {
    return differs_ ? std::span(now_) : std::span(before_).first(same_);
  }
  // These are all entries that were written last, and no others.
  bool repeats() const { return !differs_ && same_ == before_.size(); }

  // The profile has them now.
  void written() {
    if (differs_) {
      std::swap(now_, before_);
    } else {
      before_.resize(same_);
    }
    forget();
  }
  // The profile does not need them.
  void forget() {
    now_.clear();
    same_ = 0;
    differs_ = false;
  }

 private:
  static constexpr unsigned int kPhase = 1;

  bool goes_on_with(std::span<const neuron_notification> entries) const {
    if (entries.size() > before_.size() - same_) return false;
    const neuron_notification* before = before_.data() + same_;
    uint64_t difference = 0;
    for (const neuron_notification& entry : entries) {
      const auto differing = [&](size_t n) { return quarter(entry, n) ^ quarter(*before, n); };
      // The word with the phase is the upper half of the last quarter.
      difference |=
          differing(0) | differing(1) | differing(2) | (differing(3) & ~(uint64_t{kPhase} << 32));
      ++before;
    }
    return difference == 0;
  }
  static uint64_t quarter(const neuron_notification& entry, size_t n) {
    static_assert(sizeof(entry) == 4 * sizeof(uint64_t));
    uint64_t bits;
    std::memcpy(&bits, reinterpret_cast<const char*>(&entry) + n * sizeof(bits), sizeof(bits));
    return bits;
  }

  std::vector<neuron_notification> before_;
  std::vector<neuron_notification> now_;  // empty until this differs from before_
  size_t same_ = 0;                       // so many of before_ have come again
  bool differs_ = false;
};

}  // namespace neuron::runtime

#endif
