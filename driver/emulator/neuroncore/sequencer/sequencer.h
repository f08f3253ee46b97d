// SPDX-License-Identifier: Apache-2.0
// State of one engine's sequencer, and its instruction fetch.
//
// Every instruction is fetched as 128 bytes from memory. Its decoded form is kept in a
// direct-mapped cache with those bytes and used again only if the bytes in memory are still the
// same; bytes that changed since they were first fetched after START are a CODE_WRITE fault. A
// program in HBM is addressed by one pointer that lives as long as the chip; one in host memory is
// translated at each fetch, because its owner may unmap it. Callers: the execution group, in the
// thread that holds the core. Fails: FETCH, PC_RANGE, CODE_WRITE. Allocates at START only.
#ifndef DRIVER_EMULATOR_NEURONCORE_SEQUENCER_SEQUENCER_H
#define DRIVER_EMULATOR_NEURONCORE_SEQUENCER_SEQUENCER_H

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "driver/emulator/chip/bus.h"
#include "driver/emulator/chip/notification_queue.h"
#include "driver/emulator/chip/semaphores.h"
#include "driver/emulator/neuroncore/sequencer/array_times.h"
#include "driver/emulator/neuroncore/sequencer/arrival_times.h"
#include "driver/emulator/neuroncore/sequencer/background_lane.h"
#include "driver/emulator/neuroncore/sequencer/cost_model.h"
#include "driver/emulator/neuroncore/sequencer/sequencer_state.h"
#include "driver/isa/instruction.h"
#include "hw/control.h"

namespace neuron::core {

struct Fault {
  uint8_t code = NEURON_FAULT_NONE;
  uint8_t rule = 0;
  uint8_t offset = 0;  // byte in the instruction
  uint64_t address = 0;
  uint32_t info = 0;      // the offending value
  uint32_t detail = 0;    // what was expected, or the operand of a semaphore update; 0 = nothing
  bool notified = false;  // the chip has posted the error notification
  explicit operator bool() const { return code != NEURON_FAULT_NONE; }
};
inline Fault make_fault(neuron_fault code, uint64_t address = 0, uint32_t info = 0,
                        uint8_t offset = 0) {
  return {static_cast<uint8_t>(code), 0, offset, address, info, 0, false};
}

// The last word of information of an instruction's entry in a trace (NEURON_NK_TRACE).
uint32_t traced_shape_of(const isa::Instruction& i, unsigned engine, unsigned generation);

// A fetched instruction and what is known about it.
struct CachedInstruction {
  std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
  isa::Instruction decoded;
  isa::Violation encoding;
  isa::Violation operands;    // valid if !dynamic
  Cost cost;                  // valid if !dynamic
  uint32_t traced_shape = 0;  // valid if !dynamic
  uint32_t pc = 0;
  uint32_t epoch = 0;         // START count at which the bytes were last seen
  uint32_t target_epoch = 0;  // START count at which target_loop was found
  uint32_t target_loop = 0;   // jumps: Sequencer::innermost_loop of the target
  bool valid = false;
  bool dynamic = false;  // registers take part: check and cost at each issue
  bool waits = false;
  bool updates = false;
  bool meets = false;  // the other core of the pair
};

// An update that is not due yet.
struct PendingUpdate {
  ModelTime time = 0;
  isa::Update update;
  uint32_t operand = 0;
  uint32_t pc = 0;
  uint32_t debug = 0;
  uint16_t opcode = 0;
  uint64_t tick = 0;  // strict mode: the tick that it releases
};

class Sequencer : public SequencerState {
 public:
  static constexpr unsigned kMaxPending = 8;

  // Which sequencer this is, which semaphores it waits for and where it posts notifications.
  // Survives a reset.
  struct Place {
    unsigned actor = 0;  // in its group: engines 0-4, then CC cores
    chip::SemaphoreBlock* semaphores = nullptr;
    ArrivalTimes* arrivals = nullptr;
    chip::NotificationBlock* notifications = nullptr;
    unsigned trace_slot = 0;
  };

  // Called at START and after writes to the program registers: forgets pointers, and compares code
  // afresh.
  void start(chip::Bus& bus);
  void reset();
  // Null with `fault` set if the instruction cannot be fetched. The pointer stays valid until the
  // next start or reset, and the content until another instruction maps to the same place.
  CachedInstruction* fetch(chip::Bus& bus, const isa::Limits& limits, Fault& fault);

  // First instruction of the innermost loop body of the program that holds `target`, 0 = none.
  // `jump`, whose target it is, remembers the answer until the next START.
  uint32_t innermost_loop(chip::Bus& bus, uint32_t target, CachedInstruction& jump);

  void add_pending(const PendingUpdate& update);
  void pop_pending();
  // The time of the sequencer's next event.
  ModelTime next_event() const {
    const ModelTime update = pending_count ? pending[0].time : kNever;
    return update < issue_at ? update : issue_at;
  }
  // Counts the engine as busy in this time, which does not begin before that of the call before.
  // An instruction takes until its result is visible; what others covered counts once.
  void occupy(ModelTime from, ModelTime until) {
    if (until <= busy_until) return;
    busy += until - (from > busy_until ? from : busy_until);
    busy_until = until;
  }
  // The program's code, if it lies in HBM and every instruction of it keeps the place in the cache
  // that it gets at its first fetch; else null.
  const std::byte* kept_code() const { return prog_count <= cache_size_ ? code_ : nullptr; }
  // Other after every START.
  uint32_t epoch() const { return epoch_; }
  bool active() const { return state == NEURON_STATE_RUNNING || state == NEURON_STATE_WAITING; }
  uint64_t program_base() const { return uint64_t{prog_hi} << 32 | prog_lo; }
  uint64_t launch_address() const { return uint64_t{launch_hi} << 32 | launch_lo; }
  uint64_t done_address() const { return uint64_t{done_hi} << 32 | done_lo; }

  Place place;
  unsigned engine = 0;  // enum neuron_engine
  bool is_cc() const { return engine == NEURON_ENGINE_CC; }
  bool refused_write = false, trace_dropped = false;
  uint16_t starts = 0;
  uint32_t steps_left = 0;  // 0: no single stepping

  // Registers as configured.
  uint32_t prog_lo = 0, prog_hi = 0, prog_count = 0, entry = 0, prefetch = 32, mode = 0;
  uint32_t launch_lo = 0, launch_hi = 0, done_lo = 0, done_hi = 0, exec_id = 0, steps = 0;
  std::array<uint32_t, 8> breakpoints{};
  bool any_breakpoint = false;

  // Exception registers.
  Fault exception;
  uint32_t exception_pc = 0, exception_debug = 0;
  uint16_t exception_opcode = 0;
  bool fault_latched = false;

  // Model time of units and messages, and accounting.
  ArrayTimes array;           // PE: the multipliers
  BackgroundLane background;  // PE of generation 4: transposes beside the array
  ModelTime load_free = 0;    // PE: the load of weights
  ModelTime sent_until = 0;   // the tile of its sendrecv has left until then
  ModelTime arrival = 0;      // CC: of the host's increments; 0: as they come
  uint64_t retired = 0, launch_retired = 0;
  uint32_t latched_retired_high = 0, latched_time_high = 0, latched_busy_high = 0;
  WrittenRange written;  // by the last datapath instruction, but of PE

  std::array<PendingUpdate, kMaxPending> pending{};  // ascending by time
  unsigned pending_count = 0;

 private:
  const std::byte* code_at(chip::Bus& bus, uint32_t at) const;

  // Loop bodies of the program in [0, loops_known_), found when a jump asks for them.
  struct Body {
    uint32_t first, end;
  };
  std::vector<Body> loops_;
  uint32_t loops_known_ = 0, loops_epoch_ = 0;
  std::unique_ptr<CachedInstruction[]> cache_;
  uint32_t cache_size_ = 0;          // power of two
  const std::byte* code_ = nullptr;  // the whole program, if it lies in HBM
  uint32_t epoch_ = 0;
};

}  // namespace neuron::core

#endif
