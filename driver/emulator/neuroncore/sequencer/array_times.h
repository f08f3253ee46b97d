// SPDX-License-Identifier: Apache-2.0
// When the parts of a Tensor engine's array are free, in model time.
//
// Tiles of the array (op.pe row, column, rows, columns) that share no cell work at the same time;
// those that share one follow each other. The array is kept in parts of 32 x 32, the smallest tile.
// Callers: the holder of the core. A value; cannot fail.
#ifndef DRIVER_EMULATOR_NEURONCORE_SEQUENCER_ARRAY_TIMES_H
#define DRIVER_EMULATOR_NEURONCORE_SEQUENCER_ARRAY_TIMES_H

#include <algorithm>
#include <array>

#include "driver/isa/instruction.h"

namespace neuron::core {

class ArrayTimes {
 public:
  using ModelTime = isa::ModelTime;

  // When all parts of the tile that the instruction names are free.
  ModelTime free_from(const isa::PeOp& op) const {
    ModelTime latest = 0;
    for_parts(op, [&](unsigned part) { latest = std::max(latest, free_[part]); });
    return latest;
  }
  // The tile works until then.
  void occupy(const isa::PeOp& op, ModelTime until) {
    for_parts(op, [&](unsigned part) { free_[part] = until; });
    used_ = true;
  }
  // Something has worked since model time began.
  bool used() const { return used_; }
  // Model time starts again from 0.
  void restart() { *this = {}; }

 private:
  static constexpr unsigned kParts = 4;  // of each side

  template <class Work>
  static void for_parts(const isa::PeOp& op, Work&& work) {
    const unsigned rows = kParts >> op.rows, columns = kParts >> op.columns;
    for (unsigned row = op.row; row < std::min(op.row + rows, kParts); ++row) {
      for (unsigned column = op.column; column < std::min(op.column + columns, kParts); ++column) {
        work(row * kParts + column);
      }
    }
  }

  std::array<ModelTime, kParts * kParts> free_{};
  bool used_ = false;
};

}  // namespace neuron::core

#endif
