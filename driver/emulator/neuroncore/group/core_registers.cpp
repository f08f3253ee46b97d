// SPDX-License-Identifier: Apache-2.0
// Control block of the core and engine blocks (hw/control.h): registers and commands.
#include <algorithm>
#include <cstring>

#include "driver/emulator/neuroncore/group/execution_group.h"

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

bool is_core_register(uint32_t at) { return at <= NEURON_CORE_ONE || at == NEURON_CORE_COMMAND; }

// States in which an engine's configuration may be written.
bool configurable(const Sequencer& s) {
  return s.state == NEURON_STATE_IDLE || s.state == NEURON_STATE_HALTED ||
         s.state == NEURON_STATE_STOPPED || s.state == NEURON_STATE_FAULT;
}

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

// The first wait word of a blocked engine that does not hold.
uint32_t wait_word(const CachedInstruction& entry, unsigned which) {
  uint32_t word;
  std::memcpy(&word, entry.bytes.data() + NEURON_INST_WAIT0 + 4 * which, 4);
  return word;
}

}  // namespace

// The sequencer whose block holds the offset, and where in it.
bool ExecutionGroup::is_engine_block(uint64_t offset, unsigned& actor, uint32_t& at) const {
  if (offset >= NEURON_CORE_ENGINE(0) && offset < NEURON_CORE_ENGINE(kEngines)) {
    const uint64_t inside = offset - NEURON_CORE_ENGINE(0);
    actor = static_cast<unsigned>(inside / NEURON_CORE_ENGINE_SIZE);
    at = static_cast<uint32_t>(inside % NEURON_CORE_ENGINE_SIZE);
    return true;
  }
  const uint64_t k = (offset - chip::kCcWindows) / chip::kCcWindowBytes;
  const uint64_t inside = (offset - chip::kCcWindows) % chip::kCcWindowBytes - NEURON_CC_ENGINE;
  if (offset < chip::kCcWindows || k >= cc_count_ || inside >= NEURON_CC_ENGINE_SIZE) return false;
  actor = static_cast<unsigned>(kEngines + k);
  at = static_cast<uint32_t>(inside);
  return true;
}

bool ExecutionGroup::is_register(uint64_t offset) const {
  unsigned actor = 0;
  uint32_t at = 0;
  if (is_engine_block(offset, actor, at)) {
    return is_engine_register(at) && (actor < kEngines || at < NEURON_ENG_ACC);
  }
  return offset >= NEURON_CORE_CONTROL && offset < NEURON_CORE_CONTROL + NEURON_CORE_CONTROL_SIZE &&
         is_core_register(static_cast<uint32_t>(offset - NEURON_CORE_CONTROL));
}

uint32_t ExecutionGroup::read_register(uint64_t offset) {
  unsigned actor = 0;
  uint32_t at = 0;
  if (is_engine_block(offset, actor, at)) return read_engine(sequencers_[actor], at);
  return read_core(static_cast<uint32_t>(offset - NEURON_CORE_CONTROL));
}

void ExecutionGroup::write_register(uint64_t offset, uint32_t value, bool burst, ModelTime now) {
  unsigned actor = 0;
  uint32_t at = 0;
  if (is_engine_block(offset, actor, at)) {
    // In a burst, words that are none are ignored.
    if (actor < kEngines || at < NEURON_ENG_ACC) {
      write_engine(sequencers_[actor], at, value, burst, now);
    }
    return;
  }
  write_core(static_cast<uint32_t>(offset - NEURON_CORE_CONTROL), value, now);
}

uint32_t ExecutionGroup::read_engine(Sequencer& s, uint32_t at) {
  if (at == NEURON_ENG_ENTRY || config_register(s, at) != nullptr) return *config_register(s, at);
  if (at >= NEURON_ENG_BREAK0 && at < kBreaksEnd) {
    return s.breakpoints[(at - NEURON_ENG_BREAK0) / 4];
  }
  if (at >= kLoops && at < kReturns) return loop_word(s, at);
  if (at >= kReturns && at < kReturnsEnd) return s.calls[(at - kReturns) / 4].pc;
  if (at >= NEURON_ENG_ACC && at < kAccEnd) {
    uint32_t bits;
    std::memcpy(&bits, &units_[s.engine].accumulator[(at - NEURON_ENG_ACC) / 4], 4);
    return bits;
  }
  const CachedInstruction* blocked =
      s.state == NEURON_STATE_WAITING && !s.dma_wait ? s.current : nullptr;
  unsigned unmet = 0;
  if (blocked != nullptr && wait_holds(s, blocked->decoded.wait[0])) unmet = 1;
  switch (at) {
    case NEURON_ENG_ID:
      return 0x4E0E0000u | static_cast<uint32_t>(limits_.generation) << 8 | s.engine;
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
      s.latched_time_high = high(now_);
      return low(now_);
    case NEURON_ENG_TIME_HI:
      return s.latched_time_high;
    case NEURON_ENG_BUSY_LO:
      s.latched_busy_high = high(s.busy);
      return low(s.busy);
    case NEURON_ENG_BUSY_HI:
      return s.latched_busy_high;
    case NEURON_ENG_WAITING:
      return blocked != nullptr ? wait_word(*blocked, unmet) : 0;
    case NEURON_ENG_WAIT_VAL: {
      if (blocked == nullptr) return 0;
      const isa::Wait& wait = blocked->decoded.wait[unmet];
      return s.place.semaphores->value(wait.event, wait.index);
    }
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

void ExecutionGroup::write_engine(Sequencer& s, uint32_t at, uint32_t value, bool burst,
                                  ModelTime now) {
  if (uint32_t* config = config_register(s, at)) {
    if (configurable(s)) {
      *config = value;
    } else {
      refuse_write(s, at, now);
    }
    return;
  }
  if (at >= NEURON_ENG_BREAK0 && at < kBreaksEnd) {
    s.breakpoints[(at - NEURON_ENG_BREAK0) / 4] = value;
    s.any_breakpoint = false;
    for (const uint32_t b : s.breakpoints) s.any_breakpoint |= (b >> 31) != 0;
    return;
  }
  if (at >= NEURON_ENG_ACC && at < kAccEnd && configurable(s)) {
    std::memcpy(&units_[s.engine].accumulator[(at - NEURON_ENG_ACC) / 4], &value, 4);
    return;
  }
  switch (at) {
    case NEURON_ENG_MODE:
      s.mode = value & kModeBits;
      return;
    case NEURON_ENG_EXEC_ID:
      s.exec_id = value;
      return;
    case NEURON_ENG_CONTROL:
      if (value != 0) command(s, value, now);
      return;
    case NEURON_ENG_EXC_CLEAR:
      if ((value & 1) == 0) return;
      s.exception = {};
      s.exception_pc = s.exception_debug = 0;
      s.exception_opcode = 0;
      s.fault_latched = false;
      if (s.state == NEURON_STATE_FAULT) s.state = NEURON_STATE_IDLE;
      core_faults_ &= ~(1u << s.place.actor);
      return;
    default:
      if (!burst) refuse_write(s, at, now);
      return;
  }
}

uint32_t ExecutionGroup::read_core(uint32_t at) {
  switch (at) {
    case NEURON_CORE_ID:
      return 0x4E0C0000u | static_cast<uint32_t>(limits_.generation) << 8 | core_;
    case NEURON_CORE_CAPS:
      return NEURON_ISA_VERSION | static_cast<uint32_t>(limits_.generation) << 4 |
             limits_.sbuf_partition_bytes / 1024 << 16;
    case NEURON_CORE_STATUS: {
      uint32_t status = runnable_.load(std::memory_order_relaxed) ? 0
                        : awaits_peers() ? NEURON_CORE_STATUS_QUIESCENT | NEURON_CORE_STATUS_AWAITS
                                         : NEURON_CORE_STATUS_QUIESCENT;
      for (const Sequencer& s : sequencers_)
        status |= static_cast<uint32_t>(s.state) << 4 * s.place.actor;
      return status;
    }
    case NEURON_CORE_FAULTS:
      return core_faults_ | (notifications_.overflowed() ? 1u << 9 : 0);
    case NEURON_CORE_MODE:
      return core_mode_;
    case NEURON_CORE_SEED:
      return seed_;
    case NEURON_CORE_TIME_LO:
      latched_time_high_ = high(now_);
      return low(now_);
    case NEURON_CORE_TIME_HI:
      return latched_time_high_;
    case NEURON_CORE_FILL:
      return fill_;
    case NEURON_CORE_ONE:
      return 1;
    default:
      return 0;
  }
}

void ExecutionGroup::write_core(uint32_t at, uint32_t value, ModelTime now) {
  switch (at) {
    case NEURON_CORE_MODE:
      core_mode_ = value & 0x1F;
      return;
    case NEURON_CORE_SEED:
      seed_ = value;
      for (chip::UdmaEngine* engine : dma_) engine->set_seed(value);
      return;
    case NEURON_CORE_FILL:
      fill_ = value;
      return;
    case NEURON_CORE_COMMAND: {
      const unsigned code = value & 0xF;
      const unsigned engines = value >> 8 & 0xFF;
      // RESET of no or all engines is the reset of the core, with its CC cores.
      if (code == NEURON_CMD_RESET && (engines == 0 || (engines & 0x1F) == 0x1F)) {
        return reset_locked(true);
      }
      for (unsigned n = 0; n < kEngines + cc_count_; ++n) {
        if (engines >> n & 1) command(sequencers_[n], code, now);
      }
      return;
    }
    default:
      return;
  }
}

void ExecutionGroup::refuse_write(Sequencer& s, uint32_t at, ModelTime now) {
  s.refused_write = true;
  warn(s, NEURON_FAULT_CTRL_BUSY, s.pc, 0, 0, {at, 0, 0}, now);
}

bool ExecutionGroup::halted_by_debugger() const {
  for (const Sequencer& s : sequencers_) {
    if (s.state == NEURON_STATE_STOPPED || s.state == NEURON_STATE_BREAK) return true;
  }
  return false;
}

void ExecutionGroup::start(Sequencer& s, ModelTime now) {
  s.registers.fill(0);
  s.loop_depth = s.loop_base = s.call_depth = 0;
  s.pc = s.entry;
  s.retired = s.launch_retired = 0;
  s.busy = s.waited = s.traced_wait = 0;
  s.exception = {};
  s.fault_latched = false;
  core_faults_ &= ~(1u << s.place.actor);
  s.steps_left = 0;
  s.start(bus_);
  if (strict_ && !s.is_cc()) strict_->clocks().acquire_all(s.engine);
  if (s.is_cc()) running_sequencers_ = std::max(running_sequencers_, s.place.actor + 1);
  for (chip::UdmaEngine* engine : dma_) engine->accept_engine_doorbells();
  resume(s, now);
}

void ExecutionGroup::resume(Sequencer& s, ModelTime now) {
  s.state = NEURON_STATE_RUNNING;
  s.dma_wait = false;
  s.issue_at = now;
  schedule(s);
  set_runnable();
}

// Ends issuing; updates of instructions that were issued still happen.
void ExecutionGroup::stop(Sequencer& s, uint8_t state) {
  s.state = state;
  s.issue_at = kNever;
  s.dma_wait = false;
  dma_waiters_ &= static_cast<uint8_t>(~(1u << s.place.actor));
  schedule(s);
}

void ExecutionGroup::command(Sequencer& s, unsigned command, ModelTime now) {
  const bool paused = s.state == NEURON_STATE_STOPPED || s.state == NEURON_STATE_BREAK;
  switch (command) {
    case NEURON_CMD_START:
      if (!configurable(s)) return refuse_write(s, NEURON_ENG_CONTROL, now);
      return start(s, now);
    case NEURON_CMD_STOP:
      if (s.active()) stop(s, NEURON_STATE_STOPPED);
      return;
    case NEURON_CMD_STEP:
    case NEURON_CMD_CONTINUE:
      if (!paused) return refuse_write(s, NEURON_ENG_CONTROL, now);
      s.ignore_break = true;
      s.steps_left = command == NEURON_CMD_CONTINUE ? 0 : s.steps == 0 ? 1 : s.steps;
      return resume(s, now);
    case NEURON_CMD_RESET:
      reset_sequencer(s);
      if (!s.is_cc()) reset_unit(units_[s.engine]);
      if (s.engine == NEURON_ENGINE_PE) tensor_engine_.reset();
      return;
    case NEURON_CMD_ABORT:
      if (s.active() || paused) raise(s, make_fault(NEURON_FAULT_ABORTED), s.pc, 0, 0, now);
      schedule(s);
      return;
    default:
      return refuse_write(s, NEURON_ENG_CONTROL, now);
  }
}

}  // namespace neuron::core
