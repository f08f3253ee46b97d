// SPDX-License-Identifier: Apache-2.0
// What the shadow is asked about earlier accesses; none of it changes a cell.
#include <algorithm>
#include <bit>

#include "driver/base/abandonment.h"
#include "driver/emulator/neuroncore/strict/strict_shadow.h"

namespace neuron::core {

// The bytes of the mask that the state does not say the PE has written.
uint64_t StrictShadow::not_by_pe(uint32_t number, uint64_t mask) const {
  const State& state = states_[number];
  for (unsigned n = 0; n < state.count; ++n) {
    const Item& item = items_[state.first + n];
    if (item.access.actor == NEURON_ENGINE_PE) mask &= ~item.mask;
  }
  return mask;
}

bool StrictShadow::written_by_pe(unsigned first, unsigned end,
                                 std::span<const StrictSegment> segments,
                                 StrictConflict& conflict) {
  for (const StrictSegment& segment : segments) {
    base::Abandonment::look();
    uint32_t good = kNone;  // the last state found to be written by the PE
    std::array<uint32_t, kQuadrants> known;
    known.fill(kNone);
    for (unsigned column = segment.column; column < segment.column + segment.count; ++column) {
      for (unsigned low = first, high; low < end; low = high) {
        const unsigned quadrant = low / kQuadrant;
        high = std::min(end, (quadrant + 1) * kQuadrant);
        const uint32_t number = writers_.numbers[quadrant][column];
        if (number == known[quadrant]) continue;
        // Cells without a stripe have one state: the first of them stands for all.
        const unsigned different = (number & kStripe) != 0 ? high : low + 1;
        for (unsigned p = low; p < different; ++p) {
          const uint32_t state = state_of(number, p % kQuadrant);
          if (state == good) continue;
          const uint64_t others = not_by_pe(state, segment.mask);
          if (others == 0) {
            good = state;
            continue;
          }
          conflict.kind = StrictConflict::kNotPe;
          conflict.column = column;
          conflict.partition = p;
          conflict.byte = static_cast<unsigned>(std::countr_zero(others));
          conflict.other_wrote = true;
          const StrictAccess* other = writer(column, p, conflict.byte);
          conflict.has_other = other != nullptr;
          if (other != nullptr) conflict.other = *other;
          return false;
        }
        known[quadrant] = number;
      }
    }
  }
  return true;
}

const StrictAccess* StrictShadow::writer(unsigned column, unsigned partition, unsigned byte) const {
  const State& state = states_[state_at(writers_, column, partition)];
  for (unsigned n = 0; n < state.count; ++n) {
    const Item& item = items_[state.first + n];
    if ((item.mask >> byte & 1) != 0) return &item.access;
  }
  return nullptr;
}

bool StrictShadow::nearest(const StrictConflict& from, StrictConflict& found) const {
  const bool psum = from.column >= kSbufColumns;
  const unsigned low = psum ? kSbufColumns : 0;
  const unsigned high = psum ? kColumns : kSbufColumns;
  const auto take = [&](unsigned column, unsigned partition, unsigned byte) {
    const StrictAccess* other = writer(column, partition, byte);
    if (other == nullptr) return false;
    found = from;
    found.column = column;
    found.partition = partition;
    found.byte = byte;
    found.has_other = true;
    found.other = *other;
    return true;
  };
  const int at = static_cast<int>(from.column * kCellBytes + from.byte);
  const int reach = static_cast<int>((high - low) * kCellBytes);
  uint32_t steps = 0;
  for (int distance = 1; distance < reach; ++distance) {
    base::Abandonment::look_now_and_then(steps);
    for (const int byte : {at - distance, at + distance}) {
      if (byte < static_cast<int>(low * kCellBytes) ||
          byte >= static_cast<int>(high * kCellBytes)) {
        continue;
      }
      const auto position = static_cast<unsigned>(byte);
      if (take(position / kCellBytes, from.partition, position % kCellBytes)) return true;
    }
  }
  for (unsigned distance = 1; distance < NEURON_PARTITIONS; ++distance) {
    if (distance <= from.partition && take(from.column, from.partition - distance, from.byte)) {
      return true;
    }
    if (from.partition + distance < NEURON_PARTITIONS &&
        take(from.column, from.partition + distance, from.byte)) {
      return true;
    }
  }
  return false;
}

}  // namespace neuron::core
