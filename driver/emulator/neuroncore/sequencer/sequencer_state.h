// SPDX-License-Identifier: Apache-2.0
// How far the program of one sequencer is: registers, loops and calls, what it waits for, and when.
//
// These are the parts of a sequencer that control instructions read and write. They are plain
// values, so that a group can keep them, compare them and put them back as a whole
// (group/known_launches.h). What a host configures, exceptions and the times of units are not among
// them, and neither are updates that are not due yet. Callers: the holder of the core.
#ifndef DRIVER_EMULATOR_NEURONCORE_SEQUENCER_SEQUENCER_STATE_H
#define DRIVER_EMULATOR_NEURONCORE_SEQUENCER_SEQUENCER_STATE_H

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "driver/emulator/chip/bus.h"
#include "hw/control.h"
#include "hw/isa.h"

namespace neuron::core {

using chip::ModelTime;
inline constexpr ModelTime kNever = std::numeric_limits<ModelTime>::max();

struct LoopFrame {
  uint32_t first = 0;  // first instruction of the body
  uint32_t end = 0;    // the instruction behind the body
  int32_t limit = 0;
  int32_t step = 0;
  uint32_t reg = 0;
};
struct CallFrame {
  uint32_t pc = 0;
  uint32_t loop_base = 0;
};

struct CachedInstruction;

// Where it is and what it waits for, and the model time of that.
struct SequencerProgress {
  bool operator==(const SequencerProgress&) const = default;

  uint8_t state = NEURON_STATE_IDLE;
  bool ignore_break = false;  // one instruction after STEP or CONTINUE
  bool dma_wait = false;      // WAITING until its own DMA has drained
  bool met = false;           // the other core knows that it is at its barrier or sendrecv
  uint8_t loop_depth = 0, loop_base = 0, call_depth = 0;
  uint32_t pc = 0;
  CachedInstruction* current = nullptr;  // at pc, while WAITING

  // Model time.
  ModelTime issue_at = kNever;
  ModelTime wait_since = 0;
  std::array<ModelTime, 2> held_from{};  // while blocked: since when each wait has held
  std::array<bool, 2> held{};            // while blocked: whether it holds
  ModelTime last_complete = 0;           // all issued work of the engine is visible
  ModelTime busy = 0, waited = 0;        // since the launch
  ModelTime busy_until = 0;              // `busy` has counted everything before
  ModelTime traced_wait = 0;             // the part of `waited` that traces have reported
};

struct SequencerState : SequencerProgress {
  std::array<uint32_t, NEURON_REGISTERS> registers{};
  std::array<LoopFrame, NEURON_LOOP_LEVELS> loops{};
  std::array<CallFrame, NEURON_CALL_LEVELS> calls{};

  bool operator==(const SequencerState& other) const {
    const SequencerProgress& here = *this;
    const SequencerProgress& there = other;
    return here == there && same_words(registers, other.registers) &&
           same_words(loops, other.loops) && same_words(calls, other.calls);
  }

 private:
  // Several words at a time: a comparison of all words one by one is what a repeated launch would
  // take most of its time for.
  template <class Array>
  static bool same_words(const Array& a, const Array& b) {
    static_assert(std::has_unique_object_representations_v<Array>);
    return std::memcmp(&a, &b, sizeof(Array)) == 0;
  }
};

}  // namespace neuron::core

#endif
