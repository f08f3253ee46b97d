// SPDX-License-Identifier: Apache-2.0
// When one direction of a link is taken, in model time (integer picoseconds): each transfer has a
// span of its own.
//
// A transfer is entered when its doorbell is rung, for the time at which it will begin, which may
// lie behind that of transfers which are entered later. So a later one takes the first gap that is
// long enough for it. What comes out depends on the order in which transfers are entered, and on
// nothing else. Callers: the emulated chip and the simulator of collectives, each from the thread
// that owns the table. Thread-safe: no. Fails: std::bad_alloc, the first time a table is used.
#ifndef DRIVER_ISA_TIMETABLE_H
#define DRIVER_ISA_TIMETABLE_H

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "driver/isa/generation.h"

namespace neuron::isa {

class Timetable {
 public:
  // Spans that are kept. Beyond that the earliest is forgotten, and nothing is put in front of its
  // end any more.
  static constexpr size_t kSpans = 16;

  // The first time, `at` or later, from which the link is free until `takes` behind it, and until
  // `until`: a transfer whose bytes come from a slower link stays until the last of them is there.
  ModelTime fit(ModelTime at, ModelTime takes, ModelTime until = 0) const {
    at = std::max(at, forgotten_);
    for (const Span& span : spans_) {
      if (span.end <= at) continue;
      if (std::max(at + takes, until) <= span.begin) break;
      at = span.end;
    }
    return at;
  }

  // Enters a transfer. The span must be free.
  void take(ModelTime begin, ModelTime end) {
    if (end <= begin) return;
    if (spans_.capacity() == 0) spans_.reserve(kSpans + 1);
    auto behind = std::find_if(spans_.begin(), spans_.end(),
                               [&](const Span& span) { return span.begin >= end; });
    const bool touches = behind != spans_.end() && behind->begin == end;
    if (behind != spans_.begin() && std::prev(behind)->end == begin) {
      std::prev(behind)->end = touches ? behind->end : end;
      if (touches) spans_.erase(behind);
      return;
    }
    if (touches) {
      behind->begin = begin;
      return;
    }
    spans_.insert(behind, {begin, end});
    if (spans_.size() <= kSpans) return;
    forgotten_ = spans_.front().end;
    spans_.erase(spans_.begin());
  }

  // The link is free at all times.
  void clear() {
    spans_.clear();
    forgotten_ = 0;
  }

 private:
  struct Span {
    ModelTime begin, end;
  };
  std::vector<Span> spans_;  // ascending, none touches another
  ModelTime forgotten_ = 0;
};

}  // namespace neuron::isa

#endif
