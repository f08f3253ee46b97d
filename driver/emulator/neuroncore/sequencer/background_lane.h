// SPDX-License-Identifier: Apache-2.0
// Where a Tensor engine of generation 4 transposes beside its array, in model time.
//
// Published (architecture guide): a transpose runs in parallel to a multiplication or to another
// transpose, by the hardware's own decision, and a long chain of transposes is close to twice as
// fast. The rest is our choice: there is one lane beside the array. A transpose takes it if it can
// begin there earlier than in the array; everything else needs the array. Instructions begin in
// program order, and what is to be written to the same bytes follows each other.
// Callers: the holder of the core. A value; cannot fail.
#ifndef DRIVER_EMULATOR_NEURONCORE_SEQUENCER_BACKGROUND_LANE_H
#define DRIVER_EMULATOR_NEURONCORE_SEQUENCER_BACKGROUND_LANE_H

#include <algorithm>

#include "driver/emulator/neuroncore/sequencer/written_range.h"
#include "driver/isa/generation.h"

namespace neuron::core {

class BackgroundLane {
 public:
  using ModelTime = isa::ModelTime;

  struct Place {
    ModelTime begin;
    bool background;
  };
  // Of an instruction that is issued at `now`, for which the array is free from `array` on, and
  // which writes `to`.
  Place place(bool transposes, ModelTime now, ModelTime array, const WrittenRange& to) const {
    const ModelTime in_array = std::max(array, lane_.conflict(to));
    if (!transposes) return {in_array, false};
    const ModelTime beside = std::max({now, lane_.until, array_.conflict(to)});
    return beside < in_array ? Place{beside, true} : Place{in_array, false};
  }
  void occupy(const Place& place, ModelTime until, const WrittenRange& to) {
    (place.background ? lane_ : array_).add(place.begin, until, to);
  }
  // Model time starts again from 0.
  void restart() { *this = {}; }

 private:
  // What is being written. Tiles of the array work at the same time: they count as one rectangle.
  struct Writes {
    ModelTime until = 0;
    WrittenRange range;

    ModelTime conflict(const WrittenRange& to) const { return range.overlaps(to) ? until : 0; }
    void add(ModelTime begin, ModelTime end, const WrittenRange& to) {
      if (begin < until && range.space == to.space) {
        range.cover(to);
      } else {
        range = to;
      }
      until = std::max(until, end);
    }
  };
  Writes array_, lane_;
};

}  // namespace neuron::core

#endif
