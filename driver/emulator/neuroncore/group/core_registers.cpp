// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/core_registers.h"

#include <cstring>

#include "driver/emulator/chip/core.h"

namespace neuron::core {
namespace {

constexpr uint32_t kEngineEnd = NEURON_ENG_REG0 + 4 * NEURON_REGISTERS;
constexpr uint32_t kLoops = 0x200;
constexpr uint32_t kReturns = 0x280;
constexpr uint32_t kReturnsEnd = kReturns + 4 * NEURON_CALL_LEVELS;
constexpr uint32_t kAccEnd = NEURON_ENG_ACC + 4 * NEURON_PARTITIONS;
constexpr uint32_t kBreaksEnd = NEURON_ENG_BREAK0 + 32;
constexpr uint32_t kModeBits = 0xFF;

bool is_engine_register(uint32_t at) {
  if (at <= NEURON_ENG_STEPS) return true;
  if (at >= NEURON_ENG_CONTROL && at <= NEURON_ENG_BUSY_HI) return true;
  if (at >= NEURON_ENG_REG0 && at < kEngineEnd) return true;
  if (at >= kLoops && at < kReturnsEnd) return true;
  return at >= NEURON_ENG_ACC && at < kAccEnd;
}

bool is_arrival(uint32_t at) { return at == NEURON_ENG_ARRIVAL_LO || at == NEURON_ENG_ARRIVAL_HI; }

bool is_core_register(uint32_t at) { return at <= NEURON_CORE_ONE || at == NEURON_CORE_COMMAND; }

uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

// The configuration register behind an offset, or null.
uint32_t* config_register(Sequencer& s, uint32_t at) {
  switch (at) {
    case NEURON_ENG_PROG_LO:
      return &s.prog_lo;
    case NEURON_ENG_PROG_HI:
      return &s.prog_hi;
    case NEURON_ENG_PROG_COUNT:
      return &s.prog_count;
    case NEURON_ENG_ENTRY:
      return &s.entry;
    case NEURON_ENG_PREFETCH:
      return &s.prefetch;
    case NEURON_ENG_LAUNCH_LO:
      return &s.launch_lo;
    case NEURON_ENG_LAUNCH_HI:
      return &s.launch_hi;
    case NEURON_ENG_DONE_LO:
      return &s.done_lo;
    case NEURON_ENG_DONE_HI:
      return &s.done_hi;
    case NEURON_ENG_STEPS:
      return &s.steps;
    case NEURON_ENG_PC:
      return &s.pc;
    default:
      if (at >= NEURON_ENG_REG0 && at < kEngineEnd) {
        return &s.registers[(at - NEURON_ENG_REG0) / 4];
      }
      return nullptr;
  }
}

uint32_t loop_word(const Sequencer& s, uint32_t at) {
  const LoopFrame& frame = s.loops[(at - kLoops) / 16];
  switch ((at - kLoops) / 4 % 4) {
    case 0:
      return frame.first;
    case 1:
      return frame.end;
    case 2:
      return static_cast<uint32_t>(frame.limit);
    default:
      return frame.reg;
  }
}

}  // namespace

// Finds the sequencer whose block holds the offset, and the place in the block.
bool CoreRegisters::is_engine_block(uint64_t offset, unsigned& actor, uint32_t& at) const {
  if (offset >= NEURON_CORE_ENGINE(0) && offset < NEURON_CORE_ENGINE(kEngines)) {
    const uint64_t inside = offset - NEURON_CORE_ENGINE(0);
    actor = static_cast<unsigned>(inside / NEURON_CORE_ENGINE_SIZE);
    at = static_cast<uint32_t>(inside % NEURON_CORE_ENGINE_SIZE);
    return true;
  }
  const uint64_t k = (offset - chip::kCcWindows) / chip::kCcWindowBytes;
  const uint64_t inside = (offset - chip::kCcWindows) % chip::kCcWindowBytes - NEURON_CC_ENGINE;
  if (offset < chip::kCcWindows || k >= state_.cc_count || inside >= NEURON_CC_ENGINE_SIZE) {
    return false;
  }
  actor = static_cast<unsigned>(kEngines + k);
  at = static_cast<uint32_t>(inside);
  return true;
}

bool CoreRegisters::is_register(uint64_t offset) const {
  unsigned actor = 0;
  uint32_t at = 0;
  if (is_engine_block(offset, actor, at)) {
    return (is_engine_register(at) && (actor < kEngines || at < NEURON_ENG_ACC)) ||
           (is_arrival(at) && actor >= kEngines);
  }
  return offset >= NEURON_CORE_CONTROL && offset < NEURON_CORE_CONTROL + NEURON_CORE_CONTROL_SIZE &&
         is_core_register(static_cast<uint32_t>(offset - NEURON_CORE_CONTROL));
}

uint32_t CoreRegisters::read(uint64_t offset) {
  unsigned actor = 0;
  uint32_t at = 0;
  if (is_engine_block(offset, actor, at)) return read_engine(state_.sequencers[actor], at);
  return read_core(static_cast<uint32_t>(offset - NEURON_CORE_CONTROL));
}

void CoreRegisters::write(uint64_t offset, uint32_t value, bool burst, ModelTime now) {
  unsigned actor = 0;
  uint32_t at = 0;
  if (is_engine_block(offset, actor, at)) {
    // In a burst, words that are not registers are ignored.
    if (actor < kEngines || at < NEURON_ENG_ACC) {
      write_engine(state_.sequencers[actor], at, value, burst, now);
    }
    return;
  }
  write_core(static_cast<uint32_t>(offset - NEURON_CORE_CONTROL), value, now);
}

uint32_t CoreRegisters::read_engine(Sequencer& s, uint32_t at) {
  if (at == NEURON_ENG_ENTRY || config_register(s, at) != nullptr) return *config_register(s, at);
  if (at >= NEURON_ENG_BREAK0 && at < kBreaksEnd) {
    return s.breakpoints[(at - NEURON_ENG_BREAK0) / 4];
  }
  if (at >= kLoops && at < kReturns) return loop_word(s, at);
  if (at >= kReturns && at < kReturnsEnd) return s.calls[(at - kReturns) / 4].pc;
  if (at >= NEURON_ENG_ACC && at < kAccEnd) {
    uint32_t bits;
    std::memcpy(&bits, &state_.units[s.engine].accumulator[(at - NEURON_ENG_ACC) / 4], 4);
    return bits;
  }
  switch (at) {
    case NEURON_ENG_ID:
      return 0x4E0E0000u | static_cast<uint32_t>(state_.limits.generation) << 8 | s.engine;
    case NEURON_ENG_STATUS:
      return s.state | (s.fault_latched ? NEURON_ENG_STATUS_FAULT : 0) |
             (s.refused_write ? 1u << 9 : 0) | (s.trace_dropped ? 1u << 10 : 0) |
             static_cast<uint32_t>(s.starts) << 16;
    case NEURON_ENG_MODE:
      return s.mode;
    case NEURON_ENG_EXEC_ID:
      return s.exec_id;
    case NEURON_ENG_DEBUG:
      return s.current != nullptr ? s.current->decoded.debug : 0;
    case NEURON_ENG_RETIRED_LO:
      s.latched_retired_high = high(s.retired);
      return low(s.retired);
    case NEURON_ENG_RETIRED_HI:
      return s.latched_retired_high;
    case NEURON_ENG_TIME_LO:
      s.latched_time_high = high(state_.now());
      return low(state_.now());
    case NEURON_ENG_TIME_HI:
      return s.latched_time_high;
    case NEURON_ENG_BUSY_LO:
      s.latched_busy_high = high(s.busy);
      return low(s.busy);
    case NEURON_ENG_BUSY_HI:
      return s.latched_busy_high;
    case NEURON_ENG_ARRIVAL_LO:
      return low(s.arrival);
    case NEURON_ENG_ARRIVAL_HI:
      return high(s.arrival);
    case NEURON_ENG_WAITING:
    case NEURON_ENG_WAIT_VAL:
      return read_wait(s, at);
    case NEURON_ENG_EXC_CODE:
      return s.exception.code;
    case NEURON_ENG_EXC_PC:
      return s.exception_pc;
    case NEURON_ENG_EXC_DEBUG:
      return s.exception_debug;
    case NEURON_ENG_EXC_FIELD:
      return s.exception.offset | static_cast<uint32_t>(s.exception.rule) << 8 |
             static_cast<uint32_t>(s.exception_opcode & 0xFFF) << 16;
    case NEURON_ENG_EXC_ADDR_LO:
      return low(s.exception.address);
    case NEURON_ENG_EXC_ADDR_HI:
      return high(s.exception.address);
    case NEURON_ENG_EXC_INFO:
      return s.exception.info;
    default:
      return 0;
  }
}

// Reads the first wait of a blocked engine that does not hold: its word in the instruction, or the
// value of its cell.
uint32_t CoreRegisters::read_wait(const Sequencer& s, uint32_t at) const {
  if (s.state != NEURON_STATE_WAITING || s.dma_wait || s.current == nullptr) return 0;
  const unsigned unmet = waits_.holds(s, s.current->decoded.wait[0]) ? 1 : 0;
  if (at == NEURON_ENG_WAIT_VAL) {
    const isa::Wait& wait = s.current->decoded.wait[unmet];
    return s.place.semaphores->value(wait.event, wait.index);
  }
  uint32_t word;
  std::memcpy(&word, s.current->bytes.data() + NEURON_INST_WAIT0 + 4 * unmet, 4);
  return word;
}

void CoreRegisters::write_engine(Sequencer& s, uint32_t at, uint32_t value, bool burst,
                                 ModelTime now) {
  if (uint32_t* config = config_register(s, at)) {
    if (CoreControl::configurable(s)) {
      *config = value;
      if (at == NEURON_ENG_PC) s.met = false;  // it leaves the meeting that it waits at
    } else {
      control_.refuse_write(s, at, now);
    }
    return;
  }
  if (at >= NEURON_ENG_BREAK0 && at < kBreaksEnd) {
    s.breakpoints[(at - NEURON_ENG_BREAK0) / 4] = value;
    s.any_breakpoint = false;
    for (const uint32_t b : s.breakpoints) s.any_breakpoint |= (b >> 31) != 0;
    return;
  }
  if (at >= NEURON_ENG_ACC && at < kAccEnd && CoreControl::configurable(s)) {
    std::memcpy(&state_.units[s.engine].accumulator[(at - NEURON_ENG_ACC) / 4], &value, 4);
    return;
  }
  switch (at) {
    case NEURON_ENG_MODE:
      s.mode = value & kModeBits;
      return;
    case NEURON_ENG_EXEC_ID:
      s.exec_id = value;
      return;
    case NEURON_ENG_ARRIVAL_LO:
      s.arrival = (s.arrival & ~ModelTime{0xFFFFFFFF}) | value;
      return;
    case NEURON_ENG_ARRIVAL_HI:
      s.arrival = (s.arrival & 0xFFFFFFFF) | ModelTime{value} << 32;
      return;
    case NEURON_ENG_CONTROL:
      if (value != 0) control_.command(s, value, now);
      return;
    case NEURON_ENG_EXC_CLEAR:
      if ((value & 1) == 0) return;
      s.exception = {};
      s.exception_pc = s.exception_debug = 0;
      s.exception_opcode = 0;
      s.fault_latched = false;
      if (s.state == NEURON_STATE_FAULT) s.state = NEURON_STATE_IDLE;
      state_.faults &= ~(1u << s.place.actor);
      return;
    default:
      if (!burst) control_.refuse_write(s, at, now);
      return;
  }
}

uint32_t CoreRegisters::read_core(uint32_t at) {
  switch (at) {
    case NEURON_CORE_ID:
      return 0x4E0C0000u | static_cast<uint32_t>(state_.limits.generation) << 8 | state_.core;
    case NEURON_CORE_CAPS:
      return NEURON_ISA_VERSION | static_cast<uint32_t>(state_.limits.generation) << 4 |
             state_.limits.sbuf_partition_bytes / 1024 << 16;
    case NEURON_CORE_STATUS: {
      uint32_t status = 0;
      if (!state_.scheduler.is_runnable()) status = NEURON_CORE_STATUS_QUIESCENT;
      if (status != 0 && waits_.await_peers()) status |= NEURON_CORE_STATUS_AWAITS;
      for (const Sequencer& s : state_.sequencers) {
        status |= static_cast<uint32_t>(s.state) << 4 * s.place.actor;
      }
      return status;
    }
    case NEURON_CORE_FAULTS:
      return state_.faults | (state_.notifications.overflowed() ? 1u << 9 : 0);
    case NEURON_CORE_MODE:
      return state_.settings.mode;
    case NEURON_CORE_SEED:
      return state_.settings.seed;
    case NEURON_CORE_TIME_LO:
      latched_time_high_ = high(state_.now());
      return low(state_.now());
    case NEURON_CORE_TIME_HI:
      return latched_time_high_;
    case NEURON_CORE_FILL:
      return state_.fill;
    case NEURON_CORE_ONE:
      return 1;
    default:
      return 0;
  }
}

void CoreRegisters::write_core(uint32_t at, uint32_t value, ModelTime now) {
  switch (at) {
    case NEURON_CORE_MODE:
      state_.settings.mode = value & 0x1F;
      return;
    case NEURON_CORE_SEED:
      state_.settings.seed = value;
      for (chip::UdmaEngine* engine : state_.dma) engine->set_seed(value);
      return;
    case NEURON_CORE_FILL:
      state_.fill = value;
      return;
    case NEURON_CORE_COMMAND:
      return control_.command_engines(value & 0xF, value >> 8 & 0xFF, now);
    default:
      return;
  }
}

}  // namespace neuron::core
